"""Throw-away hosts on this machine, with faults to practise on.

Each host has its own processes, files, network and host name (what this machine does not allow is told), and is
reached by SSH on a loopback address.  Only the GPU is pretended: processes, signals, files and SSH are real.
"""

from engine.lab.apart import found
from engine.lab.faults import FAULTS
from engine.lab.holding import held
from engine.lab.host import LabHost
from engine.lab.hosts import INVENTORY, SHARED, Lab, LabOptions, down, sharing, shell_argv, status, up
from engine.lab.living import living
from engine.lab.place import default_directory
from engine.lab.scenes import SCENES, Scene, inputs_of

__all__ = [
    "FAULTS",
    "INVENTORY",
    "SCENES",
    "SHARED",
    "Lab",
    "LabHost",
    "LabOptions",
    "Scene",
    "default_directory",
    "down",
    "found",
    "held",
    "inputs_of",
    "living",
    "sharing",
    "shell_argv",
    "status",
    "up",
]
