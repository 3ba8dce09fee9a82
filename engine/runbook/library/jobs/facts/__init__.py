"""The jobs on the GPUs of a host: the processes of each, and whether it is at work or left over."""
