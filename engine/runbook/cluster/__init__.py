"""Keep the parts, permits, events and results of runs through workers in PostgreSQL.  Needs the extra ``cluster``."""
