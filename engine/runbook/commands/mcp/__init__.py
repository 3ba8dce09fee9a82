"""The command ``runbook mcp``: serve an assistant over stdin and stdout; it reads and proposes, and never acts."""
