"""Which processes form one GPU job, and whether a job is at work or left over."""
