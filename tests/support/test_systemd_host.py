"""The systemd that tests boot does nothing to the machine that it is on."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.support.systemd_host import boot

pytestmark = pytest.mark.real("systemd")


def test_a_boot_knows_no_unit_of_this_machine_and_leaves_its_tmp_alone():
    """Mutants: systemd_host.py without one of its mounts (systemd-tmpfiles-setup.service empties /tmp)."""
    made = boot()
    try:
        with tempfile.NamedTemporaryFile(dir="/tmp", prefix="runbook-canary-") as canary:
            made.unit(
                "ours.service", "[Service]\nType=oneshot\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"
            )
            made.run("systemctl", "enable", "ours.service")
            made.run("systemctl", "start", "ours.service", "multi-user.target", "sysinit.target", "basic.target")
            files = made.run("systemctl", "list-unit-files", "--no-legend").split("\n")
            services = {
                it.split()[0] for it in files if it.strip() and it.split()[0].endswith((".service", ".timer", ".mount"))
            }
            assert services <= {"ours.service", "-.mount"}, services
            assert made.run("systemd-tmpfiles", "--cat-config").strip() == ""
            assert Path(canary.name).exists()
    finally:
        made.stop()
