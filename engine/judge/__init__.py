"""Look at one host, and decide; shared by planner and executor, so that they cannot disagree."""

from engine.judge.findings import evaluate_findings
from engine.judge.looked import Blind, Looked, Request, Seen
from engine.judge.looking import look
from engine.judge.sharing import Elsewhere, Once
from engine.judge.site import Site
from engine.judge.verdicts import exit_code, verdict

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
