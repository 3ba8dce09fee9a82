"""Throw-away hosts on this machine, with faults to practise on.

Each host has its own pid, mount and host-name namespaces and its own sshd on a loopback address.  Only the GPU is
pretended: processes, signals, files and SSH are real.
"""

from engine.lab.faults import FAULTS
from engine.lab.hosts import INVENTORY, Lab, LabHost, LabOptions, default_directory, down, shell_argv, status, up
from engine.lab.living import living

__all__ = [
    "FAULTS",
    "INVENTORY",
    "Lab",
    "LabHost",
    "LabOptions",
    "default_directory",
    "down",
    "living",
    "shell_argv",
    "status",
    "up",
]
