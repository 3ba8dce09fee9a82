"""Names that indicate secrets, in inventories, in playbooks and in the files of hosts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

MASK = "***"

NAME_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
SECRET = re.compile(
    r"\w*(token|passw(or)?ds?|passphrases?|passcode|secrets?|apikeys?)|pwd|credentials?|bearer|authorization|cookies?"
    r"|requirepass|masterauth|sshpass"
)
SECRET_KEY = re.compile(r"api|private|access|secret|auth|account|admin|encryption|signing|license")
"""Words that make a ``key`` after them a secret; an ``ssh_key`` is a path, a ``public_key`` is public."""
ABOUT_IT = re.compile(
    r"path|file|dir|name|url|ttl|expir(y|es)|timeout|seconds|count|limit|enabled|required|length|type|stdin|prompt"
)
"""The last words of field names that describe a secret, such as its file, and are not the secret."""
NOT_A_VALUE = frozenset({"", "none", "null", "true", "false", "yes", "no", "on", "off", "enabled", "disabled", MASK})
"""The words in place of a secret that are not secrets."""

REFERENCE = re.compile(r"(?:[A-Za-z]{1,16} )?\{\{ ?(?:host\.)?secrets\.\w{1,100} ?\}\}")
"""A reference to a secret, alone or after the scheme of a header; it does not contain the secret itself."""


SWITCH = re.compile(r"-+(no|ask|skip|without|disable)[-_]", re.IGNORECASE)
"""The beginning of an option that is on or off, and has no value: ``--no-ask-password``, ``--ask-become-pass``."""


def is_secret(key: str, value: object) -> bool:
    """Whether the field *key* with *value* must not be shown."""
    if isinstance(value, str):
        if "PRIVATE KEY-----" in value:
            return True
    elif isinstance(value, Mapping) and not {"file", "path"}.isdisjoint(value):  # it says where the secret is
        return False
    kind = _kind_of(key) if key else ""
    if kind == "tokens":
        return isinstance(value, str | list | tuple | Mapping)
    if kind == "key":
        return not (isinstance(value, str) and re.fullmatch(r"[~/.]\S*|\S+\.pem", value))
    if kind == "auth":  # a method, or (as Docker has it) a user and a password
        return isinstance(value, str) and len(value) >= 8 and not (value.isalpha() and value.islower())
    return kind == "secret"


@lru_cache(maxsize=4096)
def _kind_of(key: str) -> str:
    words = [found_text.lower() for found_text in NAME_PARTS.findall(key[:200])]
    if not words or ABOUT_IT.fullmatch(words[-1]):
        return ""
    if any(map(SECRET.fullmatch, words)) or words[-1] == "pass":
        return "secret"
    if "tokens" in words:
        return "tokens"
    if words[-1] in ("key", "keys") and len(words) > 1 and SECRET_KEY.fullmatch(words[-2]):
        return "key"
    return "auth" if words[-1] == "auth" else ""
