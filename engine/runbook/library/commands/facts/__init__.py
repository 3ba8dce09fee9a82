"""Commands that playbook authors write: parse their output, and recognise programs that are known to change a host."""
