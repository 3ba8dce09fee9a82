"""Read the scheduler of a host (Slurm, Kubernetes, or none): whether the host accepts jobs, who drained it, and its
jobs.
"""
