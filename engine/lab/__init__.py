"""Throw-away hosts on this machine, with faults to practise on.

Each host has its own processes, files, network and host name (what this machine does not allow is reported), and is
reached by SSH on a loopback address.  Only the GPU is pretended: processes, signals, files and SSH are real.
"""

from engine.lab.faults import FAULTS
from engine.lab.inspection import processes_on_host
from engine.lab.isolation import found
from engine.lab.lab_host import LabHost
from engine.lab.lifecycle import INVENTORY, SHARED, Lab, LabOptions, down, sharing, shell_argv, status, up
from engine.lab.location import default_directory
from engine.lab.lock import held
from engine.lab.node import OF_NODES
from engine.lab.scenarios import SCENARIOS, Scenario, inputs_of

__all__ = [
    "FAULTS",
    "INVENTORY",
    "OF_NODES",
    "SCENARIOS",
    "SHARED",
    "Lab",
    "LabHost",
    "LabOptions",
    "Scenario",
    "default_directory",
    "down",
    "found",
    "held",
    "inputs_of",
    "processes_on_host",
    "sharing",
    "shell_argv",
    "status",
    "up",
]
