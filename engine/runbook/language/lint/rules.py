"""The lint rules: each has an id, a reason, an example, and a function that finds its matches."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from jinja2 import nodes

from runbook.dataclass import dataclass
from runbook.language.expressions.templates import is_template, names, over_samples
from runbook.language.keys import EXPRESSIONS
from runbook.language.lenient_read import unraw
from runbook.language.lint.context import LintContext, RuleMatch, ends_processes, follows, programs, texts_of
from runbook.language.name_resolution import broken
from runbook.language.secret_uses import secret_uses
from runbook.language.yaml_source import Path
from runbook.secrets.detection import masked_argv
from runbook.secrets.names import MASK, NOT_A_VALUE, is_secret
from runbook.values.playbook import FindingRule, SecretSource, Step
from runbook.values.types import seconds
from runbook.values.units import duration

INSTEAD = "secrets: {NAME: {env: VARIABLE}} (or file, command, keyring), and {{ secrets.NAME }} here"


def literal_secrets(context: LintContext) -> Iterator[RuleMatch]:
    """Yield the values in which a secret is written into the playbook, where everybody who reads the playbook
    sees it.
    """
    for step, path in context.steps:
        args: Any = unraw(step.args)
        check = args.get("check") if isinstance(args.get("check"), Mapping) else {}
        for at, tree in (
            ((*path, "env"), dict(step.env)),
            ((*path, step.action, "headers"), args.get("headers")),
            ((*path, step.action, "check", "headers"), check.get("headers")),
        ):
            yield from (
                RuleMatch(item, "a secret stands in the playbook itself", INSTEAD) for item in _literal(tree, at)
            )
        for inner in ((), ("check",), ("do",)):
            yield from _on_command_line(args, (*path, step.action), inner)
    for declared in context.book.inputs:
        default = declared.default
        if isinstance(default, str) and default and declared.hides(default) and not _means_nothing(default):
            what = f"the default of the input {declared.name} is a secret that stands in the playbook itself"
            yield RuleMatch(("inputs", declared.name, "default"), what, "give no default, or use `secrets:` instead")


def _literal(tree: Any, path: Path) -> Iterator[Path]:
    for name, value in tree.items() if isinstance(tree, Mapping) else ():
        if isinstance(value, str) and not _means_nothing(value) and is_secret(str(name), value):
            yield (*path, name)


def _means_nothing(value: str) -> bool:
    return is_template(value) or value.strip().lower() in NOT_A_VALUE


def _on_command_line(args: Any, path: Path, inner: Path) -> Iterator[RuleMatch]:
    own = args
    for key in inner:
        own = own.get(key) if isinstance(own, Mapping) else None
    argv = own.get("argv") if isinstance(own, Mapping) else None
    words = [each for each in argv if isinstance(each, str)] if isinstance(argv, list) else []
    shown = masked_argv(words)
    if any(MASK in one and one != two and not is_template(two) for one, two in zip(shown, words, strict=True)):
        what = "a secret stands in the playbook itself, and in the list of processes of the host"
        yield RuleMatch((*path, *inner, "argv"), what, f"give it by `env:` with {INSTEAD}")


def undeclared_secrets(context: LintContext) -> Iterator[RuleMatch]:
    """Yield the uses of secrets that the playbook does not declare, so that only an inventory can have them."""
    places = {id(step): path for step, path in context.steps}
    declared = {secret.name for secret in context.book.secrets}
    for use in secret_uses(context.book):
        if not use.step.part and not use.of_host and use.name not in declared:
            what = f"the secret {use.name!r} is not declared here, so that every inventory has to have it"
            hint = f"secrets: {{{use.name}: {{description: ...}}}} says that the inventory gives it"
            yield RuleMatch((*places[id(use.step)], *use.path), what, hint)


def unused_secrets(context: LintContext) -> Iterator[RuleMatch]:
    """Yield the declared secrets that nothing uses."""
    used = {(use.secret, use.of_host) for use in secret_uses(context.book) if not use.step.part}
    for declared in context.book.secrets:
        of_host = declared.source is SecretSource.INVENTORY and (declared.name, True) in used
        if (declared.name, False) not in used and not of_host:
            yield RuleMatch(
                ("secrets", declared.name), f"the secret {declared.name!r} is not used", "use it, or remove it"
            )


LONGEST = 160
"""The maximum number of characters of an expression that is easy to read."""

_PIECES = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)

SECTIONS = ("let", "diagnose", "findings", "remediate", "verify")


def long_expressions(context: LintContext) -> Iterator[RuleMatch]:
    """Yield the expressions in the file that are too long to read."""
    for section in SECTIONS:
        for path, text in _expressions(context.written.get(section), (section,), around=section):
            if (length := len(" ".join(text.split()))) > LONGEST:
                what = f"an expression of {length} characters; more than {LONGEST} are hard to read"
                yield RuleMatch(path, what, "name a part of it under `let`", written=True)


def _expressions(tree: Any, path: Path, key: str = "", around: str = "") -> Iterator[tuple[Path, str]]:
    """Yield every expression in *tree* with its path."""
    match tree:
        case str() if is_template(tree):
            yield from ((path, piece) for piece in _PIECES.findall(tree))
        case str() if key in EXPRESSIONS or around in ("evidence", "let"):
            yield path, tree
        case Mapping():
            for name, value in tree.items():
                yield from _expressions(value, (*path, name), str(name), key or around)
        case list():
            for number, each in enumerate(tree):
                yield from _expressions(each, (*path, number))


def unused_values(context: LintContext) -> Iterator[RuleMatch]:
    """Yield the values of ``let`` that nothing uses."""
    tree = {key: context.written.get(key) for key in ("diagnose", "findings", "remediate", "verify")}
    for name in context.written.get("let") or ():
        later = [value for other, value in context.written["let"].items() if other != name]
        if not any(re.search(rf"\b{re.escape(name)}\b", text) for text in (*texts_of(tree), *map(str, later))):
            yield RuleMatch(("let", name), f"the value {name!r} is not used", "remove it")


def wider_remedies(context: LintContext) -> Iterator[RuleMatch]:
    """Yield the remedies that end other processes, or more processes, than their finding names."""
    lists = [step.id for step, _ in context.steps if step.action in ("processes", "device_holders")]
    chosen = {rule.id for rule, _ in context.findings if _chooses(context.tree(rule.when), lists)}
    rules = {rule.id: rule for rule, _ in context.findings}
    for step, path in context.killers.steps:
        found = [rules[name] for name in step.for_ if name in rules]
        given = step.args.get("processes")
        if "processes" in {field.name for field in fields(context.action(step).Args)}:
            if found and isinstance(given, str) and (what := _other_processes(given, found, context)):
                what = f"{step.id} may end processes that {found[0].id} does not name: {what}"
                yield RuleMatch((*path, step.action, "processes"), what, "give both the same value of `let`")
        elif named := [rule.id for rule in found if rule.id in chosen]:
            what = f"{step.id} may end more processes than {named[0]} names: it chooses them by itself"
            yield RuleMatch(
                (*path, step.action), what, "end: {processes: EXPRESSION}, with the finding's own expression"
            )


def _other_processes(given: str, found: Sequence[FindingRule], context: LintContext) -> str:
    """Return the reason why *given*, the expression of an `end`, may select processes that no finding in *found* is
    about.

    Empty if there is no such reason.
    """
    texts = [text for rule in found for text in (rule.when, rule.say, *rule.evidence.values())]
    theirs = {name for text in texts for name in names(text, context.let)}
    own = names(given, context.let)
    if others := sorted(f"{probe}.{field}" for probe, field in own - theirs if field and probe != "inputs"):
        return f"it takes {others[0]}"
    processes = _only(context.tree(given))
    conditions = [context.tree(rule.when) for rule in found]
    if any(map(_chooses, conditions)) and not any(_stands_in(processes, context.tree(text)) for text in texts):
        return "it leaves out what the finding chooses them by"
    negated = any(_only(tree) == nodes.Not(processes) for tree in conditions)
    return "it takes them where the finding is not" if negated else ""


def _only(tree: nodes.Template) -> nodes.Node | None:
    """Return the only expression in *tree*; None if there are several, or text."""
    match tree.body:
        case [nodes.Output(nodes=[only])]:
            return only
    return None


def _chooses(tree: nodes.Template, probes: Collection[str] = ()) -> bool:
    """Whether *tree* selects some items of a probe's list of processes; if *probes* is given, only lists of these
    probes count.
    """
    for node in tree.find_all((nodes.Filter, nodes.Getitem)):
        if isinstance(node, nodes.Getitem) or node.name in _CHOOSING:  # type: ignore[attr-defined]  # of a Filter
            for listed in nodes.Output([node.node]).find_all(nodes.Getattr):  # type: ignore[attr-defined]  # of both
                probe = listed.node.name if isinstance(listed.node, nodes.Name) else ""
                if listed.attr in _PROCESSES and probe and (not probes or probe in probes):
                    return True
    return False


def _stands_in(part: nodes.Node | None, tree: nodes.Template) -> bool:
    """Whether *tree* uses *part* as a whole, that is, without a filter, an attribute or an index applied to it."""
    wholes = [node for node in tree.find_all(nodes.Node) if node == part]
    taken = {id(node.node) for node in tree.find_all((nodes.Filter, nodes.Getattr, nodes.Getitem))}  # type: ignore[attr-defined]
    return any(id(node) not in taken for node in wholes)


def processes_elsewhere(context: LintContext) -> Iterator[RuleMatch]:
    """Yield the steps that end processes with process ids that were read on another host."""
    probes = {step.id: step for step, path in context.steps if path[0] == "diagnose"}
    for step, path in context.killers.steps:
        given = step.args.get("processes")
        named = sorted(root for root, _ in names(given, context.let)) if isinstance(given, str) else []
        for probe in (probes[name] for name in named if name in probes):
            if probe.on != step.on or probe.once:
                where = probe.on or "the host of the run"
                where = "one host for all" if probe.once and not probe.on else where
                what = (
                    f"{step.id} ends processes by the numbers that they have on another host: {probe.id} is of {where}"
                )
                yield RuleMatch((*path, step.action, "processes"), what, "probe, and end, on the same host")


_CHOOSING = ("selectattr", "rejectattr", "select", "reject", "first", "last")
"""Filters that select some items of a list."""

_PROCESSES = ("matches", "processes", "leftover")
"""Fields of a probe that are lists of processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A lint rule."""

    id: str
    why: str
    example: str
    check: Callable[[LintContext], Iterator[RuleMatch]]


SHORT = 4
"""A word with at most this number of letters is contained in too many other words."""

GENERIC = frozenset(
    (
        "python",
        "python2",
        "python3",
        "java",
        "node",
        "bash",
        "perl",
        "ruby",
        "main",
        "worker",
        "server",
        "train",
        "start",
    )
) | {"launcher", "launch", "docker", "nvidia", "torch", "cuda", "service", "daemon", "process", "app"}
"""Words that are on the command lines of many unrelated programs."""

HANGS = (
    *("nvidia-smi", "dcgmi", "curl", "wget", "ssh", "scp", "rsync", "nc", "telnet", "ping", "mount", "umount", "df"),
    *("docker", "podman", "kubectl", "git", "apt-get", "apt", "dnf", "yum", "apk", "pip", "pip3", "conda", "torch"),
    *("showmount", "nfsstat", "lsof", "rpcinfo", "ibstat", "mountpoint", "findmnt"),
)
"""Matches programs that wait for a network, a GPU or a mount."""

_HANGS = re.compile(rf"(?<![\w./-])(?:[\w./-]*/)?({'|'.join(HANGS)})(?![\w-])")
_BOUNDED = re.compile(
    r"\btimeout\s+(?:-\S+\s+)*[\d.]+[smhd]?\s|--max-time|\s-m\s*\d|ConnectTimeout|--timeout|\s-W\s*\d"
)


def wide_patterns(context: LintContext) -> Iterator[RuleMatch]:
    """Yield the patterns that would also match processes of other programs."""
    for step, path in context.steps:
        for pattern, at in context.patterns(step, path) if context.action(step).decide else ():
            word = re.sub(r"^(\.\*)+|(\.\*|\.|\?)+$", "", pattern)
            plain = re.sub(r"^\\b|\\b$|^\^|\$$", "", word)
            if plain.rstrip("?").lower() in GENERIC:
                hint = f"say what it runs, e.g. '{plain}.*my_job\\.py'"
                yield RuleMatch(at, f"the pattern {pattern!r} is on the command lines of many programs", hint)
            elif re.fullmatch(rf"[\w-]{{1,{SHORT}}}", word):
                hint = rf"\b{word}::, or '(^|[ /]){word}([ ./]|$)'"
                yield RuleMatch(at, f"the pattern {pattern!r} also matches where it is part of a longer word", hint)


def no_timeouts(context: LintContext) -> Iterator[RuleMatch]:
    """Yield the commands without a timeout that wait for a network, a GPU or a mount."""
    for step, path in context.steps:
        for text, inner in programs(step) if not step.timeout else ():
            found = _HANGS.search(text)
            if found and not _BOUNDED.search(text):
                what = f"`{found[1]}` can hang (network, GPU or mount), and the step sets no timeout"
                yield RuleMatch(
                    (*path, step.action, *inner), what, "timeout: 20s; without one it is 30 s, or 10 min for `do`"
                )


def unchecked_changes(context: LintContext) -> Iterator[RuleMatch]:
    """Yield the commands with ``do`` but without ``check``."""
    for step, path in context.steps:
        if step.action == "command" and "do" in step.args and "check" not in step.args:
            what = "a change without a check is made on every run, and nothing shows whether it was needed or worked"
            yield RuleMatch(
                (*path, "command", "do"), what, "give a `check` that exits with 0 when nothing is to be done"
            )


def idle_endings(context: LintContext) -> Iterator[RuleMatch]:
    """Yield the actions under diagnose that end processes under remediate, but only read here."""
    for step, path in context.steps:
        if path[0] == "diagnose" and ends_processes(context.action(step)):
            what = f"`{step.action}` under diagnose ends nothing, it only reads"
            yield RuleMatch((*path, step.action), what, "to find them: processes; to end them: a step of remediate")


def no_advice(context: LintContext) -> Iterator[RuleMatch]:
    """Yield the findings without advice."""
    for rule, path in context.findings:
        if rule.severity.drives and not rule.advise:
            yield RuleMatch(
                path,
                f"{rule.id} has no advice for the person to whom it is reported if it stays",
                "advise: [what to do by hand]",
            )


def volume_prunes(context: LintContext) -> Iterator[RuleMatch]:
    """Yield the steps that remove volumes, because nothing brings back the data in them."""
    asked = re.compile(r"(docker|podman)\s+(volume\s+prune|system\s+prune\b.*--volumes)")
    for step, path in context.steps:
        named = [text for text, _ in programs(step) if asked.search(text)]
        what = unraw(step.args.get("what"))
        volumes = unraw(step.args.get("volumes")) or (isinstance(what, list) and "volumes" in what) or what == "volumes"
        if named or (step.action.endswith("prune") and volumes):
            yield RuleMatch(
                path, "it removes volumes, and the data in them is lost", "keep them, or allow this with a reason"
            )


def never_run(context: LintContext) -> Iterator[RuleMatch]:
    """Yield the steps and findings that can never be used."""
    dead = {rule.id for rule, _ in context.findings if context.constant(rule.when) is False}
    for rule, path in context.findings:
        if rule.id in dead:
            yield RuleMatch((*path, "when"), f"{rule.id} is never present: `{rule.when}` is always false", "")
    drivers = [rule for rule in context.drivers if rule.id not in dead]
    for step, path in context.steps:
        if context.constant(step.when) is False:
            yield RuleMatch((*path, "when"), "it never runs: its `when` is always false", "remove it")
        if step.for_ and dead.issuperset(step.for_):
            yield RuleMatch((*path, "for"), f"it never runs: {' and '.join(step.for_)} is never present", "")
        if path[0] == "remediate" and context.book.findings and not (step.for_ or follows(step) or drivers):
            what = "it never runs: no finding has severity error, and the step has no `for`"
            yield RuleMatch(path, what, "for: FINDING, or severity: error")
    yield from _never_followed(context)


def _never_followed(context: LintContext) -> Iterator[RuleMatch]:
    """Yield the steps that wait for a result (failed, changed) that no earlier step can have."""
    still = {step.id for step, _ in context.steps if step.action == "note" or context.constant(step.when) is False}
    waits = {step.id for step, _ in context.steps if context.action(step).decide is None}
    for step, path in context.steps:
        if step.if_failed and still.issuperset(step.if_failed):
            yield RuleMatch((*path, "if_failed"), f"it never runs: {' and '.join(step.if_failed)} cannot fail", "")
        if step.if_changed and (still | waits).issuperset(step.if_changed):
            yield RuleMatch(
                (*path, "if_changed"), f"it never runs: {' and '.join(step.if_changed)} changes nothing", ""
            )


def unlinked_tags(context: LintContext) -> Iterator[RuleMatch]:
    """Yield the steps that depend on each other but have no tag in common."""
    tags = {step.id: set(step.tags) for step, _ in context.steps}
    for step, path in context.steps:
        for key, named in (("after", step.after), ("if_changed", step.if_changed), ("if_failed", step.if_failed)):
            for other in named:
                if step.tags and tags.get(other) and not tags[other] & set(step.tags):
                    what = f"--tags {step.tags[0]} leaves out {other!r}, on which it depends"
                    yield RuleMatch((*path, key), what, "give both a tag in common")


def unused_inputs(context: LintContext) -> Iterator[RuleMatch]:
    """Yield the inputs that nothing uses."""
    for one in context.book.inputs:
        if one.name not in context.inputs_named:
            yield RuleMatch(("inputs", one.name), f"the input {one.name!r} is not used", "use it, or remove it")


def unused_probes(context: LintContext) -> Iterator[RuleMatch]:
    """Yield the probes that no finding and no step uses."""
    if not context.book.findings and not context.book.remediate:
        return
    for step, path in context.steps:
        waits = context.action(step).waits is not None
        if path[0] == "diagnose" and not waits and not context.words.get(step.id, set()) - {path}:
            yield RuleMatch(path, f"no finding and no step names the probe {step.id!r}", "use it, or remove it")


def ignored_last_rungs(context: LintContext) -> Iterator[RuleMatch]:
    """Yield the last step for a finding if its failure is ignored, so that nobody learns of the failure."""
    for rule in context.drivers:
        rung = context.rungs.last(rule)
        if rung and rung[0].ignore_failure:
            step, path = rung
            what = f"{step.id} is the last step tried for {rule.id}, and its failure is ignored"
            yield RuleMatch(
                (*path, "ignore_failure"), what, "leave it out: a failed step harms nothing if the finding goes"
            )


def no_gone_for(context: LintContext) -> Iterator[RuleMatch]:
    """Yield the findings without ``gone_for`` whose remedy ends processes, because a supervisor may start the
    processes again.
    """
    for rule, path in context.findings:
        first = context.killers.first(rule)
        if rule.severity.drives and first and not rule.gone_for:
            what = (
                f"{first[0].id} ends processes, which a supervisor may start again: {rule.id} counts as gone too soon"
            )
            yield RuleMatch(path, what, "gone_for: 5s")


def batches_without_end(context: LintContext) -> Iterator[RuleMatch]:
    """Yield ``batches`` if the playbook has no ``stop_after``."""
    if context.book.limits.batches and context.book.limits.stop_after is None:
        what = "batches without stop_after: the next batch starts unless every host of the one before failed"
        yield RuleMatch(("limits", "batches"), what, 'stop_after: "10%"')


def short_samples(context: LintContext) -> Iterator[RuleMatch]:
    """Yield the conditions that need a longer time than the samples cover, so that their result is never known."""
    taken = {step.id: made for step, _ in context.steps if (made := context.sampling(step))}
    for rule, path in context.findings:
        for use in over_samples(rule.when, context.let) if not broken(rule.when) else ():
            span = use.given[1] if use.filter == "sustained" and len(use.given) > 1 else None
            if use.probe in taken and span is not None and taken[use.probe].seconds < duration(span):
                own = seconds(taken[use.probe].seconds)
                what = f"{rule.id} asks about {seconds(duration(span))}, but the samples of {use.probe} take {own}"
                yield RuleMatch(
                    (*path, "when"), f"{what}: the answer is always unknown", f"samples: {{for: {span}, every: ...}}"
                )


def long_samples(context: LintContext) -> Iterator[RuleMatch]:
    """Yield the samples that take longer than the deadline."""
    deadline = context.book.limits.deadline
    for step, path in context.steps:
        made = context.sampling(step)
        if made and deadline and made.seconds >= deadline:
            what = f"the samples take {seconds(made.seconds)}, but the whole run ends after {seconds(deadline)}"
            yield RuleMatch((*path, "samples"), what, "limits: {deadline: ...}")


_LINES = ("matches", "found", "counts")


def lasting_lines(context: LintContext) -> Iterator[RuleMatch]:
    """Yield the findings that depend on lines of a log but should go after a step: lines stay in the log."""
    scans = {step.id for step, _ in context.steps if _reads_logs(context, step)}
    changing = (step for step, path in context.steps if path[0] == "remediate" and context.action(step).decide)
    cured = {name for step in changing for name in step.for_}
    for rule, path in context.findings:
        if rule.id in cured and not broken(rule.when):
            for probe in sorted(
                {root for root, field in names(rule.when, context.let) if root in scans and field in _LINES}
            ):
                what = f"{rule.id} rests on lines of {probe}, which stay in the log: it cannot go after its step"
                yield RuleMatch((*path, "when"), what, f"give {probe} a `since`, such as 10m")


def _reads_logs(context: LintContext, step: Step) -> bool:
    """Whether *step* searches all lines of log files, including the oldest."""
    takes = {field.name for field in fields(context.action(step).Args)}
    args: Any = unraw(step.args)
    return {"files", "signatures", "since"} <= takes and bool(args.get("files")) and not args.get("since")


RULES = (
    Rule(
        id="wide-pattern",
        why="A short or general word also matches the command lines of unrelated processes.",
        example="pkill: {patterns: [ray]}               # also xray, array\n"
        "pkill: {patterns: ['(^|[ /])ray(::|let)']}   # better",
        check=wide_patterns,
    ),
    Rule(
        id="no-timeout",
        why="A command that waits for a network, a GPU or a mount may wait forever; set how long it may take.",
        example="- {id: disk, timeout: 10s, command: {argv: [df, -P, /mnt/data]}}",
        check=no_timeouts,
    ),
    Rule(
        id="unchecked-change",
        why="Without a check a change is made on every run, has the risk `unknown`, and is never verified.",
        example="command: {check: {argv: [test, -e, /run/x]}, do: {argv: [touch, /run/x]}}",
        check=unchecked_changes,
    ),
    Rule(
        id="idle-ending",
        why="Under diagnose every action only reads; a reader who sees `pkill` there expects that processes are ended.",
        example="- {id: left, processes: {patterns: ['train\\.py']}}   # and pkill under remediate",
        check=idle_endings,
    ),
    Rule(
        id="no-advice",
        why="If a finding stays, a person has to act; tell them what to do next.",
        example='advise: ["Stop and start the whole pod."]',
        check=no_advice,
    ),
    Rule(
        id="volume-prune",
        why="A volume contains data, which cannot be restored.",
        example="docker_prune: {what: [containers, images]}   # not volumes",
        check=volume_prunes,
    ),
    Rule(
        id="never-runs",
        why="A step that can never run gives a false sense of safety.",
        example="- {id: stop, for: held, ...}   # where held has severity: error",
        check=never_run,
    ),
    Rule(
        id="unlinked-tags",
        why="A step that depends on another does nothing when --tags leaves the other out.",
        example="- {id: restart, if_changed: patch, tags: [config], ...}   # and patch has it too",
        check=unlinked_tags,
    ),
    Rule(
        id="unused-input",
        why="An input that nothing uses misleads anybody who sets it.",
        example='patterns: "{{ inputs.patterns }}"',
        check=unused_inputs,
    ),
    Rule(
        id="unused-value",
        why="A value that nothing uses misleads the reader of the playbook.",
        example="let: {victims: jobs.leftover}   # and when: victims",
        check=unused_values,
    ),
    Rule(
        id="unused-probe",
        why="A probe costs time on every host, and nothing uses its answer.",
        example="- {id: disk_full, when: disk.percent > 90, ...}   # names the probe disk",
        check=unused_probes,
    ),
    Rule(
        id="ignored-last-rung",
        why="When the last step that can be tried fails, a person has to know.",
        example="- {id: reset, for: wedged, gpu_reset: {...}}   # without ignore_failure",
        check=ignored_last_rungs,
    ),
    Rule(
        id="no-gone-for",
        why="A supervisor starts again what was ended; a finding must stay gone for some seconds to count as gone.",
        example="- {id: held, gone_for: 5s, ...}",
        check=no_gone_for,
    ),
    Rule(
        id="long-expression",
        why="Nobody can read an expression of more than 160 characters at 3 a.m.; name its parts.",
        example="let: {leftover: jobs.leftover | rejectattr('user', 'in', ['root'])}   # and when: leftover",
        check=long_expressions,
    ),
    Rule(
        id="wider-remedy",
        why="A finding that names two processes must not have a remedy that ends three.",
        example="end: {processes: \"{{ jobs.leftover | selectattr('seconds', '>', 28800) | list }}\"}",
        check=wider_remedies,
    ),
    Rule(
        id="processes-elsewhere",
        why="A pid and a start time are those of a process on one host; on another they are nobody's, or a stranger's.",
        example="- {id: jobs, on: gpu-02, processes: ...}   # and the step that ends them: on: gpu-02",
        check=processes_elsewhere,
    ),
    Rule(
        id="batches-without-end",
        why="The first, small batch is a test: if it fails, the run should stop.",
        example='limits: {batches: [1, "10%", "100%"], stop_after: "10%"}',
        check=batches_without_end,
    ),
    Rule(
        id="lasting-lines",
        why="A line stays in its log after the fault is cured, so that the second probe would find it again.",
        example="- {id: log, log_scan: {files: [...], signatures: {...}, since: 10m}}   # the finding can go",
        check=lasting_lines,
    ),
    Rule(
        id="samples-too-short",
        why="Whether something held for ten minutes can only be known from samples over ten minutes.",
        example="samples: {for: 10m, every: 10s}   # and when: gpus | sustained('not busy', '10m')",
        check=short_samples,
    ),
    Rule(
        id="samples-too-long",
        why="If the deadline of the run cuts the samples short, no host has an answer.",
        example="samples: {for: 10m, every: 10s}   # and limits: {deadline: 30m}",
        check=long_samples,
    ),
    Rule(
        id="literal-secret",
        why="Everybody who can read the playbook, or its history in git, can read the secret; name its place instead.",
        example="secrets: {token: {env: API_TOKEN}}   # and env: {TOKEN: '{{ secrets.token }}'}",
        check=literal_secrets,
    ),
    Rule(
        id="undeclared-secret",
        why="A reader of the playbook should learn which secrets it needs, and a mistyped name should be found early.",
        example="secrets: {token: {description: Of the leader's API.}}   # the inventory says where it is",
        check=undeclared_secrets,
    ),
    Rule(
        id="unused-secret",
        why="A reference that nothing uses misleads anybody who has to provide the secret.",
        example="env: {TOKEN: '{{ secrets.token }}'}",
        check=unused_secrets,
    ),
)
