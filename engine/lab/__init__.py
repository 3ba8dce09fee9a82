"""Throw-away hosts on this machine, with faults to practise on.

Each host has its own pid, mount and host-name namespaces and its own sshd on a loopback address.  Only the GPU is
pretended: processes, signals, files and SSH are real.
"""

from engine.lab.faults import FAULTS
from engine.lab.holding import held
from engine.lab.host import LabHost
from engine.lab.hosts import INVENTORY, Lab, LabOptions, default_directory, down, shell_argv, status, up
from engine.lab.living import living
from engine.lab.scenes import SCENES, Scene, inputs_of

__all__ = [
    "FAULTS",
    "INVENTORY",
    "SCENES",
    "Lab",
    "LabHost",
    "LabOptions",
    "Scene",
    "default_directory",
    "down",
    "held",
    "inputs_of",
    "living",
    "shell_argv",
    "status",
    "up",
]
