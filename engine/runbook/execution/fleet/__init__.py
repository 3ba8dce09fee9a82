"""Run a playbook on many hosts concurrently: batches, limits, cancellation; every host is reported."""

from runbook.execution.executor.cancellation import Cancellation
from runbook.execution.fleet.bounds import Bounds
from runbook.execution.fleet.change_limits import ChangeLimits
from runbook.execution.fleet.fleet import Fleet
from runbook.execution.fleet.host_work import Assignment, Planned, waits
from runbook.execution.fleet.rollout import UNWELL

__all__ = ["UNWELL", "Assignment", "Bounds", "Cancellation", "ChangeLimits", "Fleet", "Planned", "waits"]
