"""Commands that playbook authors write: their output, and the programs that are known to change a host."""
