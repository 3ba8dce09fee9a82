"""Probe one host and evaluate its findings; shared by planner and executor, so that they cannot disagree."""

from runbook.diagnosis.findings import evaluate_findings
from runbook.diagnosis.host_context import HostContext
from runbook.diagnosis.probe_types import ProbeAnswer, ProbeFailure, ProbeRequest, ProbeResult
from runbook.diagnosis.probing import run_probes
from runbook.diagnosis.shared_probes import OtherHosts, SharedProbes
from runbook.diagnosis.verdicts import exit_code, verdict

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
