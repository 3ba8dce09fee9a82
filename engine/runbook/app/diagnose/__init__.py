"""The command ``runbook diagnose``: the diagnoses of many playbooks at once, and the one to go on with."""
