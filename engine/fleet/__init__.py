"""Run a playbook on many hosts concurrently: batches, limits, cancellation; every host is reported."""

from engine.executor.cancellation import Cancellation
from engine.fleet.bounds import Bounds
from engine.fleet.change_limits import ChangeLimits
from engine.fleet.fleet import Fleet
from engine.fleet.host_work import Assignment, Planned, waits
from engine.fleet.rollout import UNWELL

__all__ = ["UNWELL", "Assignment", "Bounds", "Cancellation", "ChangeLimits", "Fleet", "Planned", "waits"]
