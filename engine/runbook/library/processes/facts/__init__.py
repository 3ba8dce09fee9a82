"""The processes of a host: their table, their open files, their protection, and their termination."""
