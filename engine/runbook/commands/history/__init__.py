"""The commands that read the records of runs, and those that continue a recorded run."""
