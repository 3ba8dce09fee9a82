"""Throw-away hosts on this machine, with faults to practise on.

Each host has its own processes, files, network and host name (what this machine does not allow is reported), and is
reached by SSH on a loopback address.  Only the GPU is pretended: processes, signals, files and SSH are real.
"""

from runbook.lab.faults import FAULTS
from runbook.lab.inspection import processes_on_host
from runbook.lab.isolation import found
from runbook.lab.lab_host import LabHost
from runbook.lab.lifecycle import INVENTORY, SHARED, Lab, LabOptions, down, sharing, shell_argv, status, up
from runbook.lab.location import default_directory
from runbook.lab.lock import held
from runbook.lab.node import OF_NODES
from runbook.lab.scenarios import SCENARIOS, Scenario, inputs_of

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
