"""Runs whose hosts are worked on by workers at their sites.  Needs the extra ``cluster``."""
