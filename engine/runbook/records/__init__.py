"""The records of runs on this machine: a journal for each run, a ledger of all, an index to query them."""
