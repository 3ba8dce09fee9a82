"""Carry out playbooks: diagnosis, plan, changes and their proof, on one host and on many."""
