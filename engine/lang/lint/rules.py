"""The rules of the linter: each with an id, the reason for it, an example, and how it is seen."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from engine.expressions.templates import over_samples
from engine.lang.lenient_read import unraw
from engine.lang.lint.context import LintContext, constant, ends_processes, follows, programs
from engine.lang.name_resolution import broken
from engine.lang.yaml_source import Path
from engine.values.types import seconds
from engine.values.units import duration


@dataclass(frozen=True, slots=True)
class RuleMatch:
    """Something that a rule objects to."""

    path: Path
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule."""

    id: str
    why: str
    example: str
    look: Callable[[LintContext], Iterator[RuleMatch]]


SHORT = 4
"""Letters of a word that stands within too many others."""

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
"""Words on the command lines of programs that have nothing to do with each other."""

HANGS = (
    *("nvidia-smi", "dcgmi", "curl", "wget", "ssh", "scp", "rsync", "nc", "telnet", "ping", "mount", "umount", "df"),
    *("docker", "podman", "kubectl", "git", "apt-get", "apt", "dnf", "yum", "apk", "pip", "pip3", "conda", "torch"),
    *("showmount", "nfsstat", "lsof", "rpcinfo", "ibstat", "mountpoint", "findmnt"),
)
"""Programs that wait for a network, a GPU or a mount."""

_HANGS = re.compile(rf"(?<![\w./-])(?:[\w./-]*/)?({'|'.join(HANGS)})(?![\w-])")
_BOUNDED = re.compile(
    r"\btimeout\s+(?:-\S+\s+)*[\d.]+[smhd]?\s|--max-time|\s-m\s*\d|ConnectTimeout|--timeout|\s-W\s*\d"
)


def wide_patterns(it: LintContext) -> Iterator[RuleMatch]:
    """Patterns that would end processes of others."""
    for step, path in it.steps:
        for pattern, at in it.patterns(step, path) if it.action(step).decide else ():
            word = re.sub(r"^(\.\*)+|(\.\*|\.|\?)+$", "", pattern)
            plain = re.sub(r"^\\b|\\b$|^\^|\$$", "", word)
            if plain.rstrip("?").lower() in GENERIC:
                hint = f"say what it runs, e.g. '{plain}.*my_job\\.py'"
                yield RuleMatch(at, f"the pattern {pattern!r} is on the command lines of many programs", hint)
            elif re.fullmatch(rf"[\w-]{{1,{SHORT}}}", word):
                hint = rf"\b{word}::, or '(^|[ /]){word}([ ./]|$)'"
                yield RuleMatch(at, f"the pattern {pattern!r} also matches where it is part of a longer word", hint)


def no_timeouts(it: LintContext) -> Iterator[RuleMatch]:
    """Commands that wait for a network, a GPU or a mount."""
    for step, path in it.steps:
        for text, inner in programs(step) if not step.timeout else ():
            found = _HANGS.search(text)
            if found and not _BOUNDED.search(text):
                what = f"`{found[1]}` can hang (network, GPU or mount), and the step sets no timeout"
                yield RuleMatch(
                    (*path, step.action, *inner), what, "timeout: 20s; without one it is 30 s, or 10 min for `do`"
                )


def unchecked_changes(it: LintContext) -> Iterator[RuleMatch]:
    """A ``do`` without ``check``."""
    for step, path in it.steps:
        if step.action == "command" and "do" in step.args and "check" not in step.args:
            what = "a change without a check is done every time, and nobody can tell whether it was needed or worked"
            yield RuleMatch(
                (*path, "command", "do"), what, "give a `check` that exits with 0 when nothing is to be done"
            )


def idle_endings(it: LintContext) -> Iterator[RuleMatch]:
    """Actions that end processes, where they can only look."""
    for step, path in it.steps:
        if path[0] == "diagnose" and ends_processes(it.action(step)):
            what = f"`{step.action}` under diagnose ends nothing, it only reads"
            yield RuleMatch((*path, step.action), what, "to find them: processes; to end them: a step of remediate")


def no_advice(it: LintContext) -> Iterator[RuleMatch]:
    """Findings that leave a person alone."""
    for rule, path in it.findings:
        if rule.severity.drives and not rule.advise:
            yield RuleMatch(
                path, f"{rule.id} says nothing to the person for whom it stays", "advise: [what to do by hand]"
            )


def volume_prunes(it: LintContext) -> Iterator[RuleMatch]:
    """Volumes hold data that nothing brings back."""
    asked = re.compile(r"(docker|podman)\s+(volume\s+prune|system\s+prune\b.*--volumes)")
    for step, path in it.steps:
        named = [text for text, _ in programs(step) if asked.search(text)]
        what = unraw(step.args.get("what"))
        volumes = unraw(step.args.get("volumes")) or (isinstance(what, list) and "volumes" in what) or what == "volumes"
        if named or (step.action.endswith("prune") and volumes):
            yield RuleMatch(
                path, "it removes volumes, and what is in them is gone", "keep them, or allow this with a reason"
            )


def never_run(it: LintContext) -> Iterator[RuleMatch]:
    """Steps and findings that nothing can call for."""
    dead = {rule.id for rule, _ in it.findings if constant(rule.when) is False}
    for rule, path in it.findings:
        if rule.id in dead:
            yield RuleMatch((*path, "when"), f"{rule.id} is never there: `{rule.when}` is always false", "")
    drivers = [rule for rule in it.drivers if rule.id not in dead]
    for step, path in it.steps:
        if constant(step.when) is False:
            yield RuleMatch((*path, "when"), "it never runs: its `when` is always false", "remove it")
        if step.for_ and dead.issuperset(step.for_):
            yield RuleMatch((*path, "for"), f"it never runs: {' and '.join(step.for_)} is never there", "")
        if path[0] == "remediate" and it.book.findings and not (step.for_ or follows(step) or drivers):
            what = "it never runs: no finding is an error, and it says `for` none"
            yield RuleMatch(path, what, "for: FINDING, or severity: error")
    yield from _never_followed(it)


def _never_followed(it: LintContext) -> Iterator[RuleMatch]:
    """Steps that depend on an end that no earlier step can come to."""
    still = {step.id for step, _ in it.steps if step.action == "note" or constant(step.when) is False}
    waits = {step.id for step, _ in it.steps if it.action(step).decide is None}
    for step, path in it.steps:
        if step.if_failed and still.issuperset(step.if_failed):
            yield RuleMatch((*path, "if_failed"), f"it never runs: {' and '.join(step.if_failed)} cannot fail", "")
        if step.if_changed and (still | waits).issuperset(step.if_changed):
            yield RuleMatch(
                (*path, "if_changed"), f"it never runs: {' and '.join(step.if_changed)} changes nothing", ""
            )


def unlinked_tags(it: LintContext) -> Iterator[RuleMatch]:
    """Steps that follow each other, and are never chosen together."""
    tags = {step.id: set(step.tags) for step, _ in it.steps}
    for step, path in it.steps:
        for key, named in (("after", step.after), ("if_changed", step.if_changed), ("if_failed", step.if_failed)):
            for other in named:
                if step.tags and tags.get(other) and not tags[other] & set(step.tags):
                    what = f"--tags {step.tags[0]} leaves out {other!r}, on which it hinges"
                    yield RuleMatch((*path, key), what, "give both a tag in common")


def unused_inputs(it: LintContext) -> Iterator[RuleMatch]:
    """Knobs that turn nothing."""
    for one in it.book.inputs:
        if one.name not in it.inputs_named:
            yield RuleMatch(("inputs", one.name), f"the input {one.name!r} is named nowhere", "use it, or remove it")


def unused_looks(it: LintContext) -> Iterator[RuleMatch]:
    """Looks that no finding and no step rests on."""
    if not it.book.findings and not it.book.remediate:
        return
    for step, path in it.steps:
        waits = it.action(step).waits is not None
        if path[0] == "diagnose" and not waits and not it.words.get(step.id, set()) - {path}:
            yield RuleMatch(path, f"no finding and no step names the probe {step.id!r}", "use it, or remove it")


def ignored_last_rungs(it: LintContext) -> Iterator[RuleMatch]:
    """The last that is tried, and nobody learns that it failed."""
    for rule in it.drivers:
        rung = it.rungs.last(rule)
        if rung and rung[0].ignore_failure:
            step, path = rung
            what = f"{step.id} is the last that is tried for {rule.id}, and its failure is ignored"
            yield RuleMatch(
                (*path, "ignore_failure"), what, "leave it out: a failed step harms nothing if the finding goes"
            )


def no_gone_for(it: LintContext) -> Iterator[RuleMatch]:
    """Processes come back where a supervisor starts them."""
    for rule, path in it.findings:
        first = it.killers.first(rule)
        if rule.severity.drives and first and not rule.gone_for:
            what = (
                f"{first[0].id} ends processes, which a supervisor may start again: {rule.id} counts as gone too soon"
            )
            yield RuleMatch(path, what, "gone_for: 5s")


def batches_without_end(it: LintContext) -> Iterator[RuleMatch]:
    """Batches that go on whatever happens."""
    if it.book.limits.batches and it.book.limits.stop_after is None:
        what = "batches without stop_after: the next begins however badly the one before went"
        yield RuleMatch(("limits", "batches"), what, 'stop_after: "10%"')


def short_samples(it: LintContext) -> Iterator[RuleMatch]:
    """Samples over less time than is asked about: the answer is never known."""
    taken = {step.id: made for step, _ in it.steps if (made := it.sampling(step))}
    for rule, path in it.findings:
        for use in over_samples(rule.when) if not broken(rule.when) else ():
            span = use.given[1] if use.filter == "sustained" and len(use.given) > 1 else None
            if use.look in taken and span is not None and taken[use.look].seconds < duration(span):
                own = seconds(taken[use.look].seconds)
                what = f"{rule.id} asks about {seconds(duration(span))}, and the samples of {use.look} take {own}"
                yield RuleMatch((*path, "when"), f"{what}: it is never known", f"samples: {{for: {span}, every: ...}}")


def long_samples(it: LintContext) -> Iterator[RuleMatch]:
    """Samples that a run has no time for."""
    deadline = it.book.limits.deadline
    for step, path in it.steps:
        made = it.sampling(step)
        if made and deadline and made.seconds >= deadline:
            what = f"the samples take {seconds(made.seconds)}, and the whole run ends after {seconds(deadline)}"
            yield RuleMatch((*path, "samples"), what, "limits: {deadline: ...}")


RULES = (
    Rule(
        id="wide-pattern",
        why="A short or general word is on the command lines of processes that nobody meant.",
        example="pkill: {patterns: [ray]}               # also xray, array\n"
        "pkill: {patterns: ['(^|[ /])ray(::|let)']}   # better",
        look=wide_patterns,
    ),
    Rule(
        id="no-timeout",
        why="What waits for a network, a GPU or a mount may wait for ever; say how long it may take.",
        example="- {id: disk, timeout: 10s, command: {argv: [df, -P, /mnt/data]}}",
        look=no_timeouts,
    ),
    Rule(
        id="unchecked-change",
        why="Without a check a change is made on every run, has the risk `unknown`, and is never seen to have worked.",
        example="command: {check: {argv: [test, -e, /run/x]}, do: {argv: [touch, /run/x]}}",
        look=unchecked_changes,
    ),
    Rule(
        id="idle-ending",
        why="Under diagnose every action only reads; who sees `pkill` there believes that something is ended.",
        example="- {id: left, processes: {patterns: ['train\\.py']}}   # and pkill under remediate",
        look=idle_endings,
    ),
    Rule(
        id="no-advice",
        why="A finding that stays ends with a person; tell them what to do next.",
        example='advise: ["Stop and start the whole pod."]',
        look=no_advice,
    ),
    Rule(
        id="volume-prune",
        why="A volume has data, and nothing brings it back.",
        example="docker_prune: {what: [containers, images]}   # not volumes",
        look=volume_prunes,
    ),
    Rule(
        id="never-runs",
        why="A step that nothing can call for gives a false feeling of safety.",
        example="- {id: stop, for: held, ...}   # where held has severity: error",
        look=never_run,
    ),
    Rule(
        id="tags-apart",
        why="A step that hinges on another does nothing when --tags leaves the other out.",
        example="- {id: restart, if_changed: patch, tags: [config], ...}   # and patch has it too",
        look=unlinked_tags,
    ),
    Rule(
        id="unused-input",
        why="An input that nothing uses misleads whoever sets it.",
        example='patterns: "{{ inputs.patterns }}"',
        look=unused_inputs,
    ),
    Rule(
        id="unused-look",
        why="A probe costs time on every host, and nothing rests on its answer.",
        example="- {id: disk_full, when: disk.percent > 90, ...}   # names the probe disk",
        look=unused_looks,
    ),
    Rule(
        id="ignored-last-rung",
        why="When the last that can be tried fails, somebody has to know.",
        example="- {id: reset, for: wedged, gpu_reset: {...}}   # without ignore_failure",
        look=ignored_last_rungs,
    ),
    Rule(
        id="no-gone-for",
        why="A supervisor starts again what was ended; a finding must stay gone for some seconds to count as gone.",
        example="- {id: held, gone_for: 5s, ...}",
        look=no_gone_for,
    ),
    Rule(
        id="batches-without-end",
        why="The first small batch is there to be believed when it fails.",
        example='limits: {batches: [1, "10%", "100%"], stop_after: "10%"}',
        look=batches_without_end,
    ),
    Rule(
        id="samples-too-short",
        why="What was so for ten minutes can only be known from samples over ten minutes.",
        example="samples: {for: 10m, every: 10s}   # and when: gpus | sustained('not busy', '10m')",
        look=short_samples,
    ),
    Rule(
        id="samples-too-long",
        why="Samples that the deadline of the run cuts short leave every host without an answer.",
        example="samples: {for: 10m, every: 10s}   # and limits: {deadline: 30m}",
        look=long_samples,
    ),
)
