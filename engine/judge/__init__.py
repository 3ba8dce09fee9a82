"""Look at one host, and decide; shared by planner and executor, so that they cannot disagree."""

from engine.judge.findings import evaluate_findings
from engine.judge.looking import Blind, Looked, Request, Seen, look
from engine.judge.site import Site
from engine.judge.verdicts import exit_code, verdict

__all__ = ["Blind", "Looked", "Request", "Seen", "Site", "evaluate_findings", "exit_code", "look", "verdict"]
