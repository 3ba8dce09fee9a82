"""The commands that read the records of runs, and those that go on with a recorded run."""
