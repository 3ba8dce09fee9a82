"""The processes of a host: their table, their open files, their protection, and how they are ended."""
