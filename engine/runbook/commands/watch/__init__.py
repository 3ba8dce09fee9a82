"""The commands ``runbook watch``: rules, what is known of them, and the words of people."""
