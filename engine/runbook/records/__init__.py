"""The records of runs on this machine: a journal for each run, a ledger of all runs, and an index to query them."""
