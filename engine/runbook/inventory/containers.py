"""Read the fields of a host that is a container: its name, its engine, and the host that has the engine."""

from __future__ import annotations

import re

from runbook.inventory.fields import Fields, value_in_words
from runbook.values.inventory import Container

TRANSPORTS = frozenset({"docker", "kubectl"})
"""The transports that lead into containers."""

ENGINES = ("docker", "podman")

POD_FIELDS = ("pod", "namespace")
"""The fields of a host that only the transport kubectl reads."""

DOCKER_FIELDS = ("container_engine", "container_user")
"""The fields of a host that only the transport docker reads."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_DNS = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_ID = re.compile(r"[0-9A-Fa-f-]{12,64}")
_CONTEXT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/@-]*")


def container_of(name: str, transport: str, fields: Fields) -> Container | None:
    """Return the container that *fields* of the host *name* describe; None if *transport* leads to a machine.

    The container, or the pod, is called like the host if no field names it.
    """
    if transport not in TRANSPORTS:
        if transport == "ssh" and fields.values.get("container") is not None and "is_container" not in fields.values:
            hint = "to reach a container through its engine, write transport: docker or kubectl; or is_container: true"
            fields.wrong("container", "the transport ssh has no such field", hint)
        _check_foreign(fields, ("container_id",), transport)
        return None
    fields.word("container_host")
    _check_foreign(fields, DOCKER_FIELDS if transport == "kubectl" else POD_FIELDS, transport)
    context = _matching(fields, "context", _CONTEXT, "the name of a context")
    written = _matching(fields, "container", _NAME, "the name of a container")
    identity = _matching(fields, "container_id", _ID, "the id of a container, or the uid of a pod").lower()
    if transport == "kubectl":
        return Container(
            engine="kubectl",
            name=written,
            context=context,
            id=identity,
            pod=_matching(fields, "pod", _DNS, "the name of a pod") or name,
            namespace=_matching(fields, "namespace", _DNS, "the name of a namespace"),
        )
    engine = fields.word("container_engine") or ENGINES[0]
    if engine not in ENGINES:
        fields.wrong("container_engine", f"expected {' or '.join(ENGINES)}, not {value_in_words('', engine)}")
    user = fields.word("container_user")
    return Container(engine=engine, name=written or name, context=context, user=user, id=identity)


def _check_foreign(fields: Fields, keys: tuple[str, ...], transport: str) -> None:
    for key in keys:
        if fields.values.get(key) not in (None, ""):
            fields.wrong(key, f"the transport {transport} has no such field")


def _matching(fields: Fields, key: str, form: re.Pattern[str], expected: str) -> str:
    """Return the text of *key*; empty, with a mistake, if it does not have the *form*."""
    text = fields.word(key)
    if text and not form.fullmatch(text):
        fields.wrong(key, f"expected {expected}, not {value_in_words(key, text)}")
        return ""
    return text
