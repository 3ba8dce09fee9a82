"""The scheduler of a host (Slurm, Kubernetes, or none): whether the host takes jobs, who drained it, and its jobs."""
