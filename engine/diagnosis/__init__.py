"""Probe one host and evaluate its findings; shared by planner and executor, so that they cannot disagree."""

from engine.diagnosis.findings import evaluate_findings
from engine.diagnosis.host_context import HostContext
from engine.diagnosis.probe_types import ProbeAnswer, ProbeFailure, ProbeRequest, ProbeResult
from engine.diagnosis.probing import run_probes
from engine.diagnosis.shared_probes import OtherHosts, SharedProbes
from engine.diagnosis.verdicts import exit_code, verdict

__all__ = [
    "HostContext",
    "OtherHosts",
    "ProbeAnswer",
    "ProbeFailure",
    "ProbeRequest",
    "ProbeResult",
    "SharedProbes",
    "evaluate_findings",
    "exit_code",
    "run_probes",
    "verdict",
]
