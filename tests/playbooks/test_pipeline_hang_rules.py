"""What `pipeline-hang` says of parts that live, have ended, or were never on this host."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from runbook.codec import to_json
from runbook.commands.input_files import find_playbook, read_playbook
from runbook.language.arguments import build
from runbook.language.expressions.history import HistoryScope
from runbook.language.expressions.templates import Scope, evaluate, say
from runbook.language.lenient_read import unraw
from runbook.library.files import log_scan
from runbook.library.files.facts.log_reading import LogFile, LogReading
from runbook.plugins import discover
from runbook.values.playbook import Playbook
from runbook.values.recorded_change import RecordedAnswer
from runbook.values.types import Unknown
from tests.support.tables import every_row

CASES = yaml.safe_load((Path(__file__).parents[1] / "data/pipeline_hang.yaml").read_text())["cases"]
PARTS = ("inference", "orchestrator", "trainer")


@cache
def book() -> Playbook:
    return read_playbook(find_playbook("pipeline-hang"), discover())


class Earlier:
    """What an earlier run saw of each part, so many seconds ago."""

    def __init__(self, parts: list[str], ago: float) -> None:
        self._parts, self._ago = parts, ago

    def answer(self, host: str, probe: str) -> RecordedAnswer | None:
        if not self._ago:
            return None
        state = {"matches": [{"pid": 7}] if probe in self._parts else []}
        return RecordedAnswer(run="r", ago=self._ago, state=state)


def scanned(step: str, log: dict[str, Any] | None) -> dict[str, Any]:
    """What the scan *step* says of a log that ends with these lines, written to `age` seconds ago; None: no such log."""
    (probe,) = (it for it in book().diagnose if it.id == step)
    args = build(log_scan.Args, {**unraw(probe.args), "files": [f"/{step}.log"], "stalled_for": "10m"})
    lines = tuple(log["lines"]) if log else ()
    files = (LogFile(path=f"/{step}.log", whole=True, lines=lines, age=float(log["age"])),) if log else ()
    reading = LogReading(files=files, missing=() if log else (f"/{step}.log",))
    return to_json(log_scan._searched(args, reading))


def found(case: dict[str, Any]) -> dict[str, str]:
    """The findings of a case that are an error, with what each says."""
    logs = case.get("logs", {})
    inputs = {it.name: it.default for it in book().inputs}
    inputs |= {"run_dir": "/run", "inference_log": ["/i"], "orchestrator_log": ["/o"]}
    inputs |= {f"{name}_log": [] for name in case.get("unnamed", [])}
    looks: dict[str, Any] = {it.id: Unknown(why="not asked") for it in book().diagnose}
    looks |= {name: {"matches": [{"pid": 1}] if name in case["runs"] else []} for name in PARTS}
    looks |= {
        "log": scanned("log", logs.get("trainer")),
        "inference_says": scanned("inference_says", logs.get("inference")),
        "orchestrator_says": scanned("orchestrator_says", logs.get("orchestrator")),
        "health": {"ok": case["healthy"], "reachable": False, "status": 0, "why": "connection refused"},
        "models": {"ok": case["healthy"]},
        "batches": {"growing": case.get("growing", False), "count": 3, "newest": "x", "age": 5.0, "files": []},
        "steps": {"number": 3, "count": 3},
        "writers": {"processes": [{"pid": 9}] if "writer" in case["runs"] else [], "recorders": []},
        "writable": {"writable": True},
        "kernel": {"sick_gpus": []},
    }
    looks |= {"stacks": {"stacks": case["stacks"]}} if "stacks" in case else {}
    earlier = Earlier(case.get("seen", []), case.get("seen_ago", 0))
    scope = replace(
        Scope(inputs=inputs, host={"name": "h", "groups": ["gpu"]}, states=looks, let=book().let[""]),
        history=HistoryScope(past=earlier, host="h"),  # type: ignore[arg-type]
    )
    told: dict[str, str] = {}
    for rule in book().findings:
        if rule.severity.drives and not set(rule.unless) & set(told) and evaluate(rule.when, scope) is True:
            told[rule.id] = " ".join(str(say(rule.say, scope)).split())
    return told


@every_row(("about", "case"), [(case["about"], case) for case in CASES])
def test_only_what_was_here_and_is_gone_is_called_dead(about, case):
    """Mutants: `dead` by the processes alone; `trainer_gone` whoever writes the log; without the trainer that stands still; without `health.ok`."""
    told = found(case)
    assert sorted(told) == sorted(case["finds"]), (about, told)
    assert case.get("says", "") in " ".join(told.values())
