"""The commands that read the records of runs, and the commands that continue a recorded run."""
