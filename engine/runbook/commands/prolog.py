"""Diagnose the machine that this program runs on within seconds, before or after a job: one line and an exit code."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import time
import traceback
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from runbook.codec import to_json
from runbook.commands.input_files import find_playbook, open_included, read_inputs, read_playbook
from runbook.commands.joined_playbooks import Conclusion, Named, concluded, joined, prefix_of
from runbook.commands.one_run import Run
from runbook.commands.options import GivenInputs
from runbook.commands.order import Order
from runbook.commands.step_resolution import without_scratch
from runbook.dataclass import dataclass
from runbook.errors import ConfigError, Problem, RunbookError
from runbook.execution.executor import Consent
from runbook.execution.fleet import Cancellation
from runbook.execution.guards import TimeLimit
from runbook.language.includes import inputs_of_parts
from runbook.language.loader import load_playbook
from runbook.language.static_arguments import problems_with_inputs_given
from runbook.plugins import discover
from runbook.reporting.collector import Collector
from runbook.text.printable import on_one_line
from runbook.text.shortened import first_few
from runbook.text_files import read_text
from runbook.values.inventory import Host, Inventory, Selection
from runbook.values.plan import Presence
from runbook.values.playbook import Playbook
from runbook.values.result import HostResult, Status, StepResult, Verdict
from runbook.values.types import Json, seconds
from runbook.values.units import time_span

if TYPE_CHECKING:
    from runbook.commands.workspace import Person

STANDARD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""The PATH of a session where there is none: slurmd gives its programs none (Slurm's Prolog and Epilog Guide)."""
TO_END = 1.0
"""The seconds of the limit that are kept for ending what hangs (TERM, KILL, and naming what is left)."""
LONGEST_LINE = 200
"""The maximum number of characters of the line on stdout."""
LONGEST_REASON = 120
"""The maximum number of characters of a drain's reason, without the mark before it, as `scheduler` takes it."""
DRAIN_SECONDS = 10
"""The seconds for each of the three parts of a drain: asking Slurm, telling it, and asking it again."""
_NOT_IN_REASON = re.compile(r"[^\w ,.:/()+%=@#-]", re.ASCII)
"""Matches what may not stand in a reason: quotes, brackets, what separates reasons, and what a shell reads."""
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,252}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrologOptions:
    """The options of ``runbook prolog``."""

    inputs: tuple[str, ...] = ()
    within: str = "5s"
    unknown: str = "pass"
    """``pass``: exit with 0 if nothing is known; ``fail``: with 2."""
    drain: bool = False
    output: str = "console"
    verbose: bool = False


class Outcome(StrEnum):
    """The outcome of a diagnosis."""

    HEALTHY = "healthy"
    FAULT = "fault"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """The outcome of a drain of the node."""

    status: str
    """``drained``: sent, and seen afterwards; ``left``: nothing was sent; ``failed``: not drained, or not known."""
    say: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The playbooks that are asked, as one."""

    books: Mapping[str, Playbook]
    """Each playbook, keyed by the prefix of its ids."""
    whole: Playbook


class NotDiagnosed(RunbookError):
    """An error of runbook itself: nothing is known of the node, and no exit code says that it has a fault."""

    exit_code = 2


def prolog(names: Sequence[str], options: PrologOptions, person: Person) -> int:
    """Diagnose this machine with the playbooks *names*.  Returns the exit code.

    Raises ConfigError with every mistake, before anything is probed.
    """
    try:
        return _prolog(names, options, person)
    except Exception as error:
        if isinstance(error, RunbookError) and error.exit_code != RunbookError.exit_code:
            raise
        raise NotDiagnosed(f"internal error: {''.join(traceback.format_exception(error))}") from None


def _prolog(names: Sequence[str], options: PrologOptions, person: Person) -> int:
    began = time.monotonic() - age_of_this_process()  # the start of this program counts, too
    limit = _limit(options.within, began)
    node = os.environ.get("SLURMD_NODENAME", "")
    if options.drain:
        _require_slurm(node)
    asked = _asked(names, options.inputs)
    host = Host(name=node if _NODE.fullmatch(node) else socket.gethostname(), transport="local")
    stop = Cancellation()
    person.can_stop(stop)
    run = Run(_order(asked.whole, host, limit), (), stop)
    code, (result,) = run.probed()
    conclusion = concluded(result, asked.books)
    outcome = outcome_of(conclusion)
    drain = None
    if options.drain and outcome is Outcome.FAULT and conclusion.cause and not stop.level():
        drain = _drain(host, node, conclusion.cause, stop)
    exit_code = code if stop.asked else EXIT_CODES[outcome, options.unknown]
    _show(outcome, conclusion, result, asked, drain, exit_code, options, person)
    return exit_code


EXIT_CODES = {
    (Outcome.HEALTHY, "pass"): 0,
    (Outcome.HEALTHY, "fail"): 0,
    (Outcome.FAULT, "pass"): 1,
    (Outcome.FAULT, "fail"): 1,
    (Outcome.UNKNOWN, "pass"): 0,
    (Outcome.UNKNOWN, "fail"): 2,
}


def outcome_of(conclusion: Conclusion) -> Outcome:
    """Return the outcome: a fault only if one is known; healthy only if every finding of weight is known to be absent.

    A finding that only says that something is not known is no fault.
    """
    if conclusion.cause and conclusion.cause.knows:
        return Outcome.FAULT
    return Outcome.HEALTHY if conclusion.verdict is Verdict.HEALTHY and not conclusion.cause else Outcome.UNKNOWN


def reason_of(cause: Named) -> str:
    """Return *cause* as the reason of a drain: one line that is safe in Slurm, and bounded."""
    words = " ".join(_NOT_IN_REASON.sub(" ", f"{cause.playbook}: {cause.say}").split())
    return words if len(words) <= LONGEST_REASON else words[: LONGEST_REASON - 4].rstrip() + " ..."


def age_of_this_process() -> float:
    """Return the seconds since this process was started; if /proc does not say, the processor time that it has used."""
    try:
        fields = Path("/proc/self/stat").read_text(errors="replace").rpartition(")")[2].split()
        started = int(fields[19]) / os.sysconf("SC_CLK_TCK")  # field 22 of proc(5), since the machine was booted
    except (OSError, ValueError, IndexError):
        return time.process_time()
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started)


def _limit(within: str, began: float) -> TimeLimit:
    try:
        allowed = time_span(within)
    except ConfigError as error:
        raise ConfigError(f"--within: {error}") from error
    kept = min(TO_END, allowed / 4)
    return TimeLimit(end=began + allowed - kept, now=time.monotonic, words=f"{seconds(allowed)} (--within)")


def _require_slurm(node: str) -> None:
    """Raise ConfigError if a drain cannot be asked for here."""
    if not shutil.which("scontrol", path=os.environ.get("PATH") or STANDARD_PATH):
        hint = "leave --drain out, or set PATH to where Slurm's programs are"
        raise ConfigError(Problem(message="--drain: there is no Slurm here: no scontrol in PATH", hint=hint))
    if node and not _NODE.fullmatch(node):
        raise ConfigError(f"--drain: SLURMD_NODENAME is not the name of a node: {node[:80]!r}")


def _asked(names: Sequence[str], options: Sequence[str]) -> Asked:
    """Read the playbooks *names* and their inputs.  Raises ConfigError with every mistake."""
    paths = {prefix_of(Path(name).stem): find_playbook(name) for name in dict.fromkeys(names)}
    books = {prefix: read_playbook(path, discover()) for prefix, path in paths.items()}
    if problems := [problem for book in books.values() for problem in _unsuited(book)]:
        raise ConfigError(*problems)
    inputs = _inputs(books, options)
    files = {book.name: paths[prefix] for prefix, book in books.items()}

    def opened(name: str, file: str) -> tuple[str, str]:
        """Open a playbook that was named here; those that it includes are searched for as in `run`."""
        if Path(file).name == "prolog.yaml" and name in files:
            return str(files[name]), read_text(files[name])
        return open_included(name, file)

    return Asked(books=books, whole=without_scratch(joined(books, inputs, opened, command="prolog")))


def _unsuited(book: Playbook) -> list[Problem]:
    """Return the reasons why *book* cannot be asked here."""
    whys = []
    if not book.findings:
        whys.append("it has no findings, so that it cannot tell a fault")
    if book.secrets:
        whys.append("it needs secrets, which are not read here")
    whys += [f"its probe {step.id} is sent to another host (on)" for step in book.diagnose if step.on]
    return [Problem(message=f"{book.name}: {why}") for why in whys]


def _inputs(books: Mapping[str, Playbook], options: Sequence[str]) -> Mapping[str, Mapping[str, Json]]:
    """Return the inputs of each playbook that are not its defaults; an option goes to all that declare its name."""
    given = {option: option.partition("=")[0] for option in options}
    declared = {prefix: {each.name: each.default for each in book.inputs} for prefix, book in books.items()}
    known = sorted({name for names in declared.values() for name in names})
    problems = [
        Problem(message=f"-e {name}: no playbook has this input", hint=f"there are: {', '.join(known) or 'none'}")
        for name in given.values()
        if name not in known
    ]
    problems += [Problem(message=f"-e {name}: no {{{{ or {{% may be in it") for name in map(_templated, given) if name]
    if problems:
        raise ConfigError(*problems)
    found = {}
    for prefix, book in books.items():
        own = tuple(option for option, name in given.items() if name in declared[prefix])
        values = read_inputs(GivenInputs(inputs=own), book)
        problems += problems_with_inputs_given(book, discover(), inputs_of_parts(book, values))
        found[prefix] = {name: value for name, value in values.items() if value != declared[prefix][name]}
    if problems:
        raise ConfigError(*problems)
    return found


def _templated(option: str) -> str:
    name, _, value = option.partition("=")
    return name if "{{" in value or "{%" in value else ""


def _order(whole: Playbook, host: Host, limit: TimeLimit | None) -> Order:
    return Order(
        playbook=whole,
        inputs={},
        parts=inputs_of_parts(whole, {}),
        inventory=Inventory(hosts=(host,)),
        selection=Selection(hosts=(host,)),
        parallel=1,
        wait_lock=DRAIN_SECONDS,
        time_limit=limit,
    )


def _drain(host: Host, node: str, cause: Named, stop: Cancellation) -> Drain:
    """Drain the node in Slurm for *cause*, by the step of `node-drain` that leaves its jobs alone."""
    step = {
        "id": "drain",
        "become": True,
        "timeout": f"{DRAIN_SECONDS}s",
        "scheduler": {"do": "drain", "kind": "slurm", "node": node, "reason": reason_of(cause), "leave_jobs": True},
    }
    tree = {"name": "prolog", "about": "Drain this node in Slurm.", "remediate": [step]}
    book = load_playbook(json.dumps(tree), "prolog.yaml", discover())
    collector = Collector()
    Run(_order(book, host, None), (collector,), stop).go(Consent.YES)
    result = collector.hosts[host.name]
    return drain_from(next((step for step in result.steps if step.id == "drain"), None), result)


def drain_from(step: StepResult | None, result: HostResult) -> Drain:
    """Return what became of the drain, from its *step* and the *result* of the run."""
    if step is None:
        return Drain(status="failed", say=f"not drained: {result.error or result.verdict}")
    match step.status:
        case Status.CHANGED if step.verified:
            return Drain(status="drained", say=f"drained in Slurm, seen: {step.planned}")
        case Status.OK:
            return Drain(status="left", say=f"nothing was sent: {step.why}")
    return Drain(status="failed", say=f"not drained, or not known: {step.why or result.error}")


def line_of(outcome: Outcome, conclusion: Conclusion, books: Mapping[str, Playbook]) -> str:
    """Return the one line about *outcome*."""
    names, cause = ", ".join(book.name for book in books.values()), conclusion.cause
    if outcome is Outcome.HEALTHY:
        return on_one_line(f"{outcome}: no fault found by {names}", LONGEST_LINE)
    words = f"{cause.say} ({cause.playbook})" if cause else conclusion.why or f"{names}: {conclusion.verdict}"
    return on_one_line(f"{outcome}: {_as_named(words, books)}", LONGEST_LINE)


def _as_named(text: str, books: Mapping[str, Playbook]) -> str:
    """Return *text* with the names of playbooks in place of the prefixes of their ids."""
    for prefix, book in books.items():
        text = text.replace(f"{prefix}_", f"{book.name}.")
    return text


def _show(
    outcome: Outcome,
    conclusion: Conclusion,
    result: HostResult,
    asked: Asked,
    drain: Drain | None,
    exit_code: int,
    options: PrologOptions,
    person: Person,
) -> None:
    line = line_of(outcome, conclusion, asked.books)
    if options.output == "json":
        tree: dict[str, Json] = {"format": 1, "outcome": str(outcome), "exit_code": exit_code, "line": line}
        tree |= {"drain": to_json(drain), "hosts": [to_json(conclusion)]}
        print(json.dumps(tree, indent=1))
    else:
        print(line)
    if outcome is Outcome.UNKNOWN and exit_code == 0:
        person.say("it is not known whether this node is healthy; the exit code is 0 all the same (--unknown pass)")
    if drain:
        person.say(drain.say)
    for detail in _details(conclusion, result) if options.verbose else ():
        person.say(on_one_line(_as_named(detail, asked.books)))


def _details(conclusion: Conclusion, result: HostResult) -> list[str]:
    """Return the next action, the other findings, and what is not known."""
    cause = conclusion.cause
    lines = [f"next: {cause.next}"] if cause else []
    lines += [f"also: {each.say} ({each.playbook})" for each in conclusion.also]
    whys: dict[str, list[str]] = {}
    for each in result.findings:
        if each.status is Presence.UNKNOWN:
            whys.setdefault(each.why or "", []).append(each.id)
    return [*lines, *(f"not known: {first_few(ids)}: {why}" for why, ids in whys.items())]
