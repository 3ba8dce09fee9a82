"""The NVIDIA GPUs of a host: nvidia-smi and its parser, utilisation, device users, NVLink, Xid errors and resets."""
