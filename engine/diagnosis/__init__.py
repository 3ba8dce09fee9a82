"""Look at one host, and decide; shared by planner and executor, so that they cannot disagree."""

from engine.diagnosis.findings import evaluate_findings
from engine.diagnosis.host_context import Site
from engine.diagnosis.probe_types import Blind, Looked, Request, Seen
from engine.diagnosis.probing import look
from engine.diagnosis.shared_probes import Elsewhere, Once
from engine.diagnosis.verdicts import exit_code, verdict

__all__ = [
    "Blind",
    "Elsewhere",
    "Looked",
    "Once",
    "Request",
    "Seen",
    "Site",
    "evaluate_findings",
    "exit_code",
    "look",
    "verdict",
]
