"""Everything a run writes: reports and their files, the standard streams, the person's terminal, the debug log."""
