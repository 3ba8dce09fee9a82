"""The processes of a host: their table, what they have open, which are protected, and how they are terminated."""
