"""The record of clean-up that is owed: its JSON text, without secrets, and the checks when it is read."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, cast

from runbook.codec import first_difference, from_json, to_json
from runbook.dataclass import dataclass
from runbook.records.recorded_run import RUN
from runbook.secrets.masking import Masking, masked
from runbook.values.owed import NotedIn, NotePlace, Owed, OwedCleanup, OwedStep
from runbook.values.run_origin import ProcessIdentity, RestsOn
from runbook.values.types import Json

FORMAT = 3
MIN_CUT_CHARACTERS = 4
"""The minimum number of characters of a secret that is removed from a longer text."""

_DIGEST = re.compile(r"[0-9a-f]{64}")


class Damaged(ValueError):
    """The text of a record cannot be trusted; the message gives the reason."""


class Withheld(Exception):
    """A value must not be written to the record; the message gives the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The clean-up that one run owes one host, with everything that is needed to do it later."""

    format: int = FORMAT
    run: str
    playbook: str
    rests_on: RestsOn
    """The files and inputs behind the clean-up, for the host and the hosts in ``on``; without secret inputs."""
    host: str
    by: str
    since: str
    steps: tuple[OwedStep, ...]
    """The owed steps, with encoded arguments; see ``encoded``."""
    notes: tuple[NotePlace, ...] = ()
    maker: ProcessIdentity

    @property
    def name(self) -> str:
        """Return the name of the record's file."""
        return file_name(self.run, self.host)

    @property
    def owed(self) -> Owed:
        """Return the record in the form for the result of a host."""
        words = tuple(step.words for step in self.steps)
        noted = (NotedIn.CONTROLLER,)
        return Owed(run=self.run, playbook=self.playbook, by=self.by, since=self.since, steps=words, noted=noted)

    @property
    def cleanup(self) -> OwedCleanup:
        """Return the record in the form for the executor, with the fields that notes need."""
        return OwedCleanup(
            run=self.run,
            playbook=self.playbook,
            host=self.host,
            by=self.by,
            since=self.since,
            steps=self.steps,
            notes=self.notes,
        )

    def text(self) -> str:
        """Return the text of the record's file."""
        return json.dumps(to_json(self), indent=1, sort_keys=True) + "\n"


def file_name(run: str, host: str) -> str:
    """Return the file name of the record for *run* and *host*."""
    plain = re.sub(r"[^A-Za-z0-9_.-]", "_", host)[:60]
    return f"{run}-{plain}-{sha256(host.encode()).hexdigest()[:8]}.json"


def parsed(text: str, name: str) -> Record:
    """Parse *text*, the content of the file *name*, and return the record.  Raises Damaged."""
    try:
        data: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"it is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise Damaged("it is not a JSON object")
    if data.get("format") == 2:
        data = _from_format_2(data)
    if isinstance(data.get("rests_on"), dict):
        data["rests_on"].setdefault("profile_inputs", {})  # which earlier records of this format do not have
    if data.get("format") != FORMAT:
        raise Damaged(f"its format is {data.get('format')!r}, and this version of runbook knows {FORMAT}"[:200])
    try:
        record = from_json(Record, data)
        unlike = first_difference(to_json(record), data)  # this way round a field that is missing is one, too
    except (ValueError, TypeError, RecursionError) as error:
        raise Damaged(f"it is not a record: {error}"[:200]) from error
    if unlike:
        raise Damaged("a value in it is of another type than in a record")
    if (
        not RUN.fullmatch(record.run)
        or not _DIGEST.fullmatch(record.rests_on.playbook_digest)
        or not record.host
        or not record.steps
    ):
        raise Damaged("its run, its digest, its host or its steps are none")
    if len({step.id for step in record.steps}) < len(record.steps):
        raise Damaged("it names a step twice")
    if record.name != name:
        raise Damaged(f"it says that it is {record.name}"[:200])
    return record


def _from_format_2(data: dict[str, Any]) -> dict[str, Any]:
    """Convert *data*, the record of a version before 0.1.0, to the present format."""
    old = ("path", "digest", "inputs", "secret_inputs", "inventory", "hosts", "secret_places")
    if not all(name in data for name in old) or not isinstance(data["secret_places"], dict):
        return data
    rest = {name: value for name, value in data.items() if name not in old}
    hosts = [data.get("host")]
    places = [{"secret": name, "hosts": hosts, "digest": digest} for name, digest in data["secret_places"].items()]
    now = {name: data[name] for name in ("inputs", "secret_inputs", "inventory", "hosts")}
    now |= {
        "playbook": data["path"],
        "playbook_digest": data["digest"],
        "inventory_digest": "",
        "secret_places": places,
    }
    return {**rest, "format": FORMAT, "rests_on": now}


# ---- without secrets -----------------------------------------------------------------------------------------------

Secrets = Mapping[str, Json]
"""The values of inputs that must not be recorded, keyed by name."""


def without_secrets(step: OwedStep, secrets: Secrets, mask: Masking) -> OwedStep:
    """Return *step* as it may be recorded: in its arguments, the names of secret inputs replace their values.

    If a secret cannot be replaced, the arguments are withheld.
    """
    shown = replace(step, say=mask(step.say), by_hand=tuple(map(mask, step.by_hand)), args={})
    if step.withheld:
        return shown
    try:
        made = encoded(step.args, secrets, mask)
        blank = decoded(made, dict.fromkeys(secrets, ""))
    except Withheld as error:
        return replace(shown, withheld=str(error))
    if masked(blank, mask) != blank:
        return replace(shown, withheld="its arguments hold a secret that is no input")
    return replace(shown, args=cast("Mapping[str, Json]", made))


def encoded(value: Json, secrets: Secrets, mask: Masking) -> Json:
    """Return *value* with the names of secret inputs in place of their values.  Raises Withheld."""
    for name, secret in secrets.items():
        if secret not in (None, "", True, False) and type(value) is type(secret) and value == secret:
            return {"$input": name}
    match value:
        case str():
            return _encoded_text(value, secrets, mask)
        case Mapping():
            inner = {key: encoded(it, secrets, mask) for key, it in value.items()}
            return {"$map": inner} if any(key.startswith("$") for key in inner) else inner
        case list() | tuple():
            return [encoded(each, secrets, mask) for each in value]
    return value


def _encoded_text(text: str, secrets: Secrets, mask: Masking) -> Json:
    known = {secret: name for name, secret in secrets.items() if isinstance(secret, str) and secret}
    if any(len(secret) < MIN_CUT_CHARACTERS and secret in text for secret in known):
        raise Withheld("its arguments hold a secret that is too short to be distinguished from other text")
    ordered = sorted(known, key=len, reverse=True)
    parts = re.split("|".join(map(re.escape, ordered)).join("()"), text) if ordered else [text]
    pieces: list[Json] = [{"$input": known[it]} if number % 2 else it for number, it in enumerate(parts)]
    if any(isinstance(piece, str) and mask(piece) != piece for piece in pieces):
        raise Withheld("its arguments hold a secret that is no input")
    return text if len(pieces) == 1 else {"$text": [piece for piece in pieces if piece != ""]}


def decoded(value: Json, secrets: Secrets) -> Json:
    """Reverse ``encoded`` with the given *secrets*.  Raises KeyError for a missing secret.

    A text with an empty secret in it becomes empty as a whole.
    """
    match value:
        case {"$input": str() as name}:
            return secrets[name]
        case {"$map": Mapping() as inner}:
            return {key: decoded(it, secrets) for key, it in inner.items()}
        case {"$text": list() | tuple() as pieces}:
            texts = [str(decoded(each, secrets)) for each in cast("Sequence[Json]", pieces)]
            return "".join(texts) if all(texts) else ""
        case Mapping():
            return {key: decoded(it, secrets) for key, it in value.items()}
        case list() | tuple():
            return [decoded(each, secrets) for each in value]
    return value


def inputs_in(value: Json) -> frozenset[str]:
    """Return the names of the secret inputs that the encoded *value* needs."""
    match value:
        case {"$input": str() as name}:
            return frozenset({name})
        case Mapping():
            return frozenset(name for each in value.values() for name in inputs_in(each))
        case list() | tuple():
            return frozenset(name for each in value for name in inputs_in(each))
    return frozenset()


# ---- processes -----------------------------------------------------------------------------------------------------
