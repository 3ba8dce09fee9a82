"""Which names stand for secrets, in inventories and in the files of hosts."""

from __future__ import annotations

import re
from collections.abc import Mapping

MASK = "***"

WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
SECRET = re.compile(r"token|passw(or)?d|passphrase|passcode|pwd|secrets?|credentials?|apikey|bearer")
SECRET_KEY = re.compile(r"api|private|access|secret|auth|account|admin|encryption|signing")
"""Words that make a ``key`` after them a secret; an ``ssh_key`` is a path, a ``public_key`` is public."""
ABOUT_IT = re.compile(
    r"path|file|dir|name|url|ttl|expir(y|es)|timeout|seconds|count|limit|enabled|required|length|type"
)
"""Last words of fields that tell something about a secret, not the secret."""


def is_secret(key: str, value: object) -> bool:
    """Whether the field *key* with *value* must not be shown."""
    if isinstance(value, str) and "PRIVATE KEY-----" in value:
        return True
    words = [it.lower() for it in WORDS.findall(key)]
    if not words or ABOUT_IT.fullmatch(words[-1]):
        return False
    if any(map(SECRET.fullmatch, words)) or words[-1] == "pass":
        return True
    if "tokens" in words:
        return isinstance(value, str | list | Mapping)
    if words[-1] in ("key", "keys") and len(words) > 1 and SECRET_KEY.fullmatch(words[-2]):
        return not (isinstance(value, str) and re.fullmatch(r"[~/.]\S*|\S+\.pem", value))
    return False


_LINE = re.compile(r"""([-+ ]?\s*(?:-\s+)?["']?)([A-Za-z_][\w.-]*)(["']?\s*[:=]\s*)(\S.*?)(\s*,?\s*)$""")


def without_secrets(lines: str) -> str:
    """Lines of a configuration file, or of a difference between two, with the values of secrets masked."""
    return "\n".join(map(_masked, lines.split("\n")))


def _masked(line: str) -> str:
    found = _LINE.match(line)
    if found is None:
        return line
    value = found[4].strip("\"'")
    if not is_secret(found[2], 0 if re.fullmatch(r"[-+0-9._]+", value) else value):  # max_tokens is a number
        return line
    return f"{found[1]}{found[2]}{found[3]}{MASK}{found[5]}"
