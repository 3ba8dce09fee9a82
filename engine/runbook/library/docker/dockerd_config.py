"""Check whether dockerd would start with its changed configuration file, before the file is written.

The file is read, and changed on this side as `config_patch` would change it. The result is compared with what dockerd
is known to refuse. A dockerd that can check a file (`--validate`, 23.0 and newer) is asked too: the text is sent to it
through a pipe, so that no file is created. A probe: nothing is changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from runbook.dataclass import dataclass
from runbook.errors import ProbeError
from runbook.library.config.facts import DesiredValues, Unparsable, patched
from runbook.library.config.facts.config_file import ask_file, read_file
from runbook.library.docker.facts.daemon_options import conflicts, refusals
from runbook.library.docker.facts.engine import FIND_DOCKERD
from runbook.protocols import Fails, Holds, Probe
from runbook.secrets.config_lines import without_secrets
from runbook.shell import script
from runbook.values.command import Command, Completed, Effect
from runbook.values.types import Json, Unknown

LINES = 6
"""Lines of what dockerd says that are kept, the last ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    path: str = "/etc/docker/daemon.json"
    """The file on the host, an absolute path."""
    set: Mapping[str, Json] = field(default_factory=dict)
    """Key to value, as `config_patch` takes them; mappings are merged."""
    driver: str = "json-file"
    """The log driver of the running dockerd."""
    drivers: tuple[str, ...] = ()
    """The log drivers of this dockerd (`docker info`: Plugins.Log); empty: the driver is not checked."""
    allow_options: tuple[str, ...] = ()
    """Log options to accept in addition, such as those of a newer Docker."""

    def __post_init__(self) -> None:
        if not self.path.startswith("/"):
            raise ValueError(f"`path` must be the absolute path of a file: {self.path!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The judgement of dockerd on the file."""

    exists: bool
    """Whether the file exists now."""
    changes: bool
    """Whether the wanted content differs from the present one."""
    refusals: tuple[str, ...]
    """The reasons why dockerd would not start with the file; empty: no reason is known."""
    accepted: bool | Unknown
    """Whether dockerd --validate accepts the file; unknown if dockerd cannot check a file."""
    said: tuple[str, ...] = ()
    """The output of dockerd --validate, if it refuses the file."""


def probe(args: Args) -> Probe[State]:
    """Read the file and the command line of dockerd, and ask dockerd about the new text."""
    file = read_file(args.path, (yield ask_file(args.path)))
    try:
        found = patched(file.text, "json", DesiredValues(set=args.set, at_least={}, unset=(), parents=True), file.path)
        old, new = (json.loads(text) if text.strip() else {} for text in (file.text, found.text))
    except (Unparsable, ValueError, RecursionError) as error:
        raise ProbeError(f"{file.path} is not valid JSON: {error}") from error
    if not isinstance(new, dict) or not isinstance(old, dict):
        raise ProbeError(f"{file.path} is not a JSON object")
    flags: Completed = yield Command(script=_FLAGS, effect=Effect.READ, private=True)
    own = (
        *conflicts(new, flags.stdout.splitlines()),
        *refusals(new, args.driver, args.drivers, _options(old), args.allow_options),
    )
    answer: Completed = yield Command(script=_ASK, stdin=found.text, effect=Effect.READ, private=True)
    accepted, said = _answer(answer)
    theirs = (f"dockerd --validate: {' / '.join(said)}",) if accepted is False else ()
    return State(
        exists=file.exists,
        changes=bool(found.missing or found.differing),
        refusals=(*own, *theirs),
        accepted=accepted,
        said=said,
    )


_ASK = script(__package__, "dockerd_validate")
_FLAGS = FIND_DOCKERD + script(__package__, "dockerd_flags")


def _options(config: Mapping[str, Any]) -> tuple[str, ...]:
    options = config.get("log-opts")
    return tuple(options) if isinstance(options, Mapping) else ()


def _answer(done: Completed) -> tuple[bool | Unknown, tuple[str, ...]]:
    """Whether dockerd accepts the file, and what it said."""
    head, _, said = done.stdout.partition("\n")
    word, _, code = head.partition(" ")
    if done.timed_out or done.exit_code != 0:
        return Unknown(why="dockerd --validate did not answer"), ()
    if word != "asked" or not code.isdigit():
        return Unknown(why="this host has no dockerd that can check a file (--validate, 23.0 and newer)"), ()
    lines = [line.strip() for line in without_secrets(said.replace("/dev/stdin", "the new file")).split("\n")]
    words = tuple([line for line in lines if line][-LINES:])
    if code == "0":
        return True, ()
    if "open the new file" in said.replace("/dev/stdin", "the new file"):
        return Unknown(why="dockerd could not read the text of the new file"), words
    return False, words or (f"refused the file without a reason (exit code {code})",)


def holds(args: Args, state: State) -> Holds | Fails:
    """Whether no reason against the file is known."""
    if state.refusals:
        return Fails(why=f"dockerd would not start with {args.path}: {'; '.join(state.refusals)}")
    return Holds(
        why=f"dockerd accepts {args.path}"
        if state.accepted is True
        else "no known reason against it; dockerd could not check it"
    )


def by_hand(args: Args) -> tuple[str, ...]:
    """Return the commands that a person would run by hand."""
    return (f"dockerd --validate --config-file {args.path}", "docker info --format '{{.Plugins.Log}}'")
