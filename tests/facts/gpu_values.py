"""GPUs as a host reports them."""

from __future__ import annotations

from runbook.library.gpu.facts.model import Gpu
from tests.support.fake_nvidia_smi import uuid


def seen(*samples, **parts) -> Gpu:
    plain = {"index": 0, "uuid": uuid(0), "bus_id": "0000:90:00.0", "persistence": True, "requires_reset": False}
    return Gpu(**{**plain, "utilization": samples[-1], "samples": samples, **parts})
