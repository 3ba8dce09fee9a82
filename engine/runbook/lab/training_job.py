"""The simulated training job of a lab host: logs, outputs, kernel messages, a slow disk, a restart loop."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from runbook.shell import program

DMESG = r"""#!/bin/sh
# A pretended ring buffer: the machine's own messages are nothing of the lab host's.
cat /run/lab/kernel
"""

JOURNALCTL = program(__package__, "training_job_journalctl")

SLOW_DD = program(__package__, "training_job_slow_dd")

RESTARTING = program(__package__, "training_job_restarting")

TRAINING = program(__package__, "training_job")

OF_TRAINING: Mapping[str, str] = MappingProxyType(
    {
        "dmesg": DMESG,
        "journalctl": JOURNALCTL,
        "slow-dd": SLOW_DD,
        "restarting": RESTARTING,
        "training": TRAINING,
    }
)
"""File to text: what a lab host is given of it."""
