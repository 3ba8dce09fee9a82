"""The command ``runbook monitor``: hosts watched side by side, each at its own pace."""
