"""The output of a run: reports and their files, the standard streams, the person's terminal, the debug log."""
