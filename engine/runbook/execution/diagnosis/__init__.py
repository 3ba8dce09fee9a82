"""Probe one host and evaluate its findings; shared by planner and executor, so that they cannot disagree."""

from runbook.execution.diagnosis.findings import evaluate_findings
from runbook.execution.diagnosis.host_context import HostContext
from runbook.execution.diagnosis.probe_types import ProbeAnswer, ProbeFailure, ProbeRequest, ProbeResult
from runbook.execution.diagnosis.probing import run_probes
from runbook.execution.diagnosis.shared_probes import OtherHosts, SharedProbes
from runbook.execution.diagnosis.verdicts import exit_code, verdict

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
