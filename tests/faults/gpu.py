"""GPUs whose nvidia-smi cannot be believed, beside a dead job that must not be ended and a live one that must be spared."""

from __future__ import annotations

from tests.faults.environment import Place, Told

DIES = """/run/lab/bin/smi "$@" | head -c 30; kill -KILL $$"""
NO_FIELDS = """case $* in
*gpu_recovery_action*) echo 'Field "gpu_recovery_action" is not a valid field to query.'; exit 2;;
esac
exec /run/lab/bin/smi "$@"
"""
MISMATCH = (
    "echo 'Failed to initialize NVML: Driver/library version mismatch'; echo 'NVML library version: 580.65'; exit 18"
)


FAULTY = ("dies=leftovers+busy", "fields=busy", "mig=mig+leftovers", "mismatch=leftovers+busy", "gone=leftovers+busy")


def liars(place: Place) -> Told:
    """One host for each way in which nvidia-smi fails, all in one run that was given its yes: nobody is ended all the same."""
    lab = place.lab(*FAULTY)
    for host, text in (("dies", DIES), ("fields", NO_FIELDS), ("mismatch", MISMATCH)):
        put = f"cat >nvidia-smi <<'EOF'\n#!/bin/sh\n{text}\nEOF\nchmod 755 nvidia-smi && echo put"
        assert lab.exec(host, f"cd /run/lab/bin && mv nvidia-smi smi && {put}") == "put\n"
    assert lab.exec("gone", "rm /run/lab/bin/nvidia-smi && echo put") == "put\n"
    said = place.run("zombie-gpu", "-e", "older_than=0s", "--timeout", "5s", inventory=lab.lab.inventory)
    assert said.writes() == []
    return said


def unasked(place: Place) -> Told:
    """A host whose GPU asks for a reset, in a run that nobody says yes to."""
    lab = place.lab("reset=resettable")
    said = place.run("zombie-gpu", "-e", "older_than=0s", "--timeout", "5s", inventory=lab.lab.inventory, yes=False)
    assert said.writes() == []
    assert not any(it.startswith("reset") for it in lab.calls("reset"))
    return said
