"""See whether dockerd would start with its configuration file as it is to be, before anything of it is written.

The file is read and changed here, as `config_patch` would do it. The result is held against what dockerd is known to
refuse, and where there is a dockerd that can check a file (`--validate`, 23.0 and newer), it is asked, too: the text
goes to it through a pipe, so that no file is made for that. A look: nothing is changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.errors import ProbeError
from engine.facts.config_edit import DesiredValues, Unparsable, patched
from engine.facts.config_edit.config_file import ask_file, read_file
from engine.facts.docker.daemon_options import refusals
from engine.protocols import Fails, Holds, Probe
from engine.text.secret_lines import without_secrets
from engine.values.command import Command, Completed, Effect
from engine.values.types import Json, Unknown

LINES = 6
"""Lines of what dockerd says that are kept, the last ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    """Which file, and what is to be in it."""

    path: str = field(default="/etc/docker/daemon.json", metadata={"about": "The file on the host, an absolute path."})
    set: Mapping[str, Json] = field(
        default_factory=dict, metadata={"about": "Key to value, as `config_patch` takes them; mappings are merged."}
    )
    driver: str = field(default="json-file", metadata={"about": "The log driver of the dockerd that runs."})
    drivers: tuple[str, ...] = field(
        default=(), metadata={"about": "The log drivers that it has (`docker info`: Plugins.Log); none: not checked."}
    )
    allow_options: tuple[str, ...] = field(
        default=(), metadata={"about": "Log options that a newer Docker knows: they are not objected to."}
    )

    def __post_init__(self) -> None:
        if not self.path.startswith("/"):
            raise ValueError(f"`path` is the absolute path of a file: {self.path!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What dockerd would say of the file."""

    exists: bool = field(metadata={"about": "Whether the file is there now."})
    changes: bool = field(metadata={"about": "Whether what is to be in it differs from what is."})
    refusals: tuple[str, ...] = field(metadata={"about": "Why dockerd would not start with it; none: nothing known."})
    accepted: bool | Unknown = field(
        metadata={"about": "What a dockerd that can check a file says of it; unknown where there is none."}
    )
    said: tuple[str, ...] = field(default=(), metadata={"about": "Its words, where it refuses."})


def probe(args: Args) -> Probe[State]:
    """Read the file, and ask dockerd about the new text."""
    file = read_file(args.path, (yield ask_file(args.path)))
    try:
        found = patched(file.text, "json", DesiredValues(set=args.set, at_least={}, unset=(), parents=True), file.path)
        old, new = (json.loads(text) if text.strip() else {} for text in (file.text, found.text))
    except (Unparsable, ValueError, RecursionError) as error:
        raise ProbeError(f"{file.path} is no JSON that can be understood: {error}") from error
    if not isinstance(new, dict) or not isinstance(old, dict):
        raise ProbeError(f"{file.path} holds no mapping")
    own = tuple(refusals(new, args.driver, args.drivers, _options(old), args.allow_options))
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


_ASK = r"""
LC_ALL=C PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin; export LC_ALL PATH
command -v dockerd >/dev/null || { cat >/dev/null; echo absent; exit 0; }
dockerd --help </dev/null 2>&1 | grep -q -e --validate || { cat >/dev/null; echo old; exit 0; }
said=$(dockerd --validate --config-file /dev/stdin 2>&1)  # one without --validate would start
printf 'asked %s\n%s\n' "$?" "$said"
exit 0
"""


def _options(config: Mapping[str, Any]) -> tuple[str, ...]:
    options = config.get("log-opts")
    return tuple(options) if isinstance(options, Mapping) else ()


def _answer(done: Completed) -> tuple[bool | Unknown, tuple[str, ...]]:
    """Whether dockerd accepts the file, and what it said."""
    head, _, said = done.stdout.partition("\n")
    word, _, code = head.partition(" ")
    if done.timed_out or done.exit_code != 0:
        return Unknown(why="dockerd did not answer when it was asked about the file"), ()
    if word != "asked" or not code.isdigit():
        return Unknown(why="this host has no dockerd that checks a file (--validate, 23.0 and newer)"), ()
    lines = [line.strip() for line in without_secrets(said.replace("/dev/stdin", "the new file")).split("\n")]
    words = tuple([line for line in lines if line][-LINES:])
    if code == "0":
        return True, ()
    if "open the new file" in said.replace("/dev/stdin", "the new file"):
        return Unknown(why="dockerd could not read what it was given"), words
    return False, words or (f"it refuses the file (exit code {code}), and says no more",)


def holds(args: Args, state: State) -> Holds | Fails:
    """Whether nothing speaks against it."""
    if state.refusals:
        return Fails(why=f"dockerd would not start with {args.path}: {'; '.join(state.refusals)}")
    return Holds(why=f"dockerd takes {args.path}" if state.accepted is True else "nothing known speaks against it")


def by_hand(args: Args) -> tuple[str, ...]:
    """Lines that a person would paste."""
    return (f"dockerd --validate --config-file {args.path}", "docker info --format '{{.Plugins.Log}}'")
