"""Describe a run in words for people: lines about hosts and steps, causes with their hosts, next actions."""
