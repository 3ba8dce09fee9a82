"""Read the value of one secret: from the environment, a file, a program's output, or the keyring."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from runbook.errors import ConfigError
from runbook.secret_sources.program import printed
from runbook.secrets.documents import ARMOUR, can_be_hidden
from runbook.secrets.masking import SHORTEST, is_ordinary
from runbook.values.playbook import SecretReference, SecretSource
from runbook.values.types import plural

MAX_SECRET_BYTES = 64 * 1024
"""The maximum number of bytes of a secret; the kernel passes on a variable of at most twice that size."""


def value_of(reference: SecretReference) -> str:
    """Return the value that *reference* names.  Raises ConfigError, without the value, if there is no usable value."""
    words = reference.words
    match reference.source:
        case SecretSource.ENVIRONMENT:
            value = _variable(words[0])
        case SecretSource.FILE:
            value = _one_line_end_less(_decoded(_file(_path(words[0], reference.where.file)), f"the file {words[0]}"))
        case SecretSource.COMMAND:
            value = _one_line_end_less(_decoded(printed(words, MAX_SECRET_BYTES), f"what {words[0]} prints"))
        case SecretSource.KEYRING:
            value = _from_keyring(*words)
        case SecretSource.INVENTORY:
            raise ConfigError("no inventory of this run says where it is")
    if why := objection_to(value):
        raise ConfigError(f"{reference}: {why}")
    return value


def objection_to(value: str) -> str:
    """Return the reason why *value* cannot be used as a secret; empty if it can."""
    if not value.strip():
        return "it is empty"
    if "\0" in value:
        return "it contains a NUL character, which no environment can hold"
    if len(value.encode("utf-8", "surrogateescape")) > MAX_SECRET_BYTES:
        return f"it is larger than {MAX_SECRET_BYTES // 1024} KiB"
    if len(value.strip()) < SHORTEST:
        count = plural(len(value.strip()), "character")
        return f"it has {count}, and fewer than {SHORTEST} cannot be hidden in what hosts print"
    if is_ordinary(value.strip()):
        return "it is an ordinary word (such as root, healthy or default), which cannot be hidden in what hosts print"
    return _objection_to_lines([line.strip() for line in value.strip().splitlines()])


def _objection_to_lines(lines: Sequence[str]) -> str:
    """Return the reason why *lines* could not be masked if a host prints each line by itself; empty if they can."""
    within_armour = False
    for number, line in enumerate(lines if len(lines) > 1 else (), 1):
        if ARMOUR.fullmatch(line):
            within_armour = line.startswith("-----BEGIN")
        elif len(line) < SHORTEST and any(map(str.isalnum, line)) and not within_armour:
            count = plural(len(line), "character")
            return f"its line {number} has {count}, and fewer than {SHORTEST} cannot be hidden in what hosts print"
    if len(lines) > 1 and not any(map(can_be_hidden, lines)):
        return "none of its lines can be hidden in what hosts print"
    return ""


def _variable(name: str) -> str:
    value = os.environ.get(name)
    if value is None:
        raise ConfigError(f"the environment variable {name} is not set")
    if value != value.encode("utf-8", "replace").decode():
        raise ConfigError(f"the environment variable {name} is not UTF-8 text")
    return value


def _path(written: str, beside: str) -> Path:
    """Return *written* as a path on this machine; a relative path starts at the folder of the file *beside*, which
    names it.
    """
    path = Path(written).expanduser()
    return path if path.is_absolute() else Path(beside).parent / path


def _file(path: Path) -> bytes:
    """Return the content of a file that only its owner (this user or root) can read."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(number, "rb") as file:
            found = os.fstat(number)
            if not stat.S_ISREG(found.st_mode):
                raise ConfigError(f"{path} is not a regular file")
            if found.st_uid not in (0, os.geteuid()):
                raise ConfigError(f"{path} belongs to another user (uid {found.st_uid}): copy it to a file of your own")
            if (mode := stat.S_IMODE(found.st_mode)) & 0o077:
                raise ConfigError(f"other users can access {path} (mode {mode:04o}): run chmod 600 {path}")
            return file.read(MAX_SECRET_BYTES + 2)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from error


def _decoded(raw: bytes, what: str) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{what} is not UTF-8 text") from None


def _one_line_end_less(text: str) -> str:
    """Return *text* without one line end at its end, which editors and programs add."""
    return text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text


def _from_keyring(service: str, user: str) -> str:
    try:
        import keyring
    except ImportError:
        words = "the package keyring is not installed: pip install 'runbook-engine[keyring]'"
        raise ConfigError(words) from None
    try:
        value = keyring.get_password(service, user)
    except Exception as error:  # every backend has errors of its own
        raise ConfigError(f"the keyring cannot be read: {type(error).__name__}: {error}") from None
    if value is None:
        raise ConfigError(f"the keyring holds nothing for the service {service} and the user {user}")
    return str(value)
