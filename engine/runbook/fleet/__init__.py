"""Run a playbook on many hosts concurrently: batches, limits, cancellation; every host is reported."""

from runbook.executor.cancellation import Cancellation
from runbook.fleet.bounds import Bounds
from runbook.fleet.change_limits import ChangeLimits
from runbook.fleet.fleet import Fleet
from runbook.fleet.host_work import Assignment, Planned, waits
from runbook.fleet.rollout import UNWELL

__all__ = ["UNWELL", "Assignment", "Bounds", "Cancellation", "ChangeLimits", "Fleet", "Planned", "waits"]
