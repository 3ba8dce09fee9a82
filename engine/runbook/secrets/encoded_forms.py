"""Every form in which a host may write a secret: quoted by a shell, escaped in JSON or HTML, encoded."""

from __future__ import annotations

import html
import json
import re
import shlex
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from urllib.parse import quote, quote_plus


def _within_base64(raw: bytes, encode: Callable[[bytes], bytes]) -> set[str]:
    """What base64 makes of *raw*, alone or within something longer (``user:password``): it takes three bytes a time."""
    whole = encode(raw).decode().rstrip("=")
    inner = (encode(raw[cut : cut + (len(raw) - cut) // 3 * 3]).decode() for cut in range(3))
    return {whole, *(word for word in inner if len(word) >= 8)}


def _escaped(text: str) -> set[str]:
    """*text* as JSON, Python, HTML and Jinja write it."""
    in_python = {repr(text)[1:-1], ascii(text)[1:-1]}
    in_json = {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    for_html = {f"\\u{ord(sign):04x}": sign for sign in "<>&'"}  # Jinja's tojson
    safe = json.dumps(text)[1:-1]
    for written, sign in for_html.items():
        safe = safe.replace(sign, written)
    in_html = html.escape(text, quote=True)
    return {
        text, *in_json, *in_python, safe, safe.replace("/", r"\/"), *(word.replace("/", r"\/") for word in in_json),
        html.escape(text, quote=False), in_html,
        in_html.replace("&#x27;", "&#39;"), in_html.replace("&#x27;", "&#39;").replace("&quot;", "&#34;"),
        in_html.replace("&#x27;", "&apos;"),
    }  # fmt: skip


def _quoted_by_bash(secret: str) -> set[str]:
    """*secret* as ``printf %q``, ``${v@Q}`` and ``set -x`` of bash write it, and with bytes in octal as git does."""
    dollar = "".join(
        {"\n": "\\n", "\t": "\\t", "\r": "\\r", "'": "\\'", "\\": "\\\\"}.get(word, word) for word in secret
    )
    octal = "".join(
        chr(number) if 32 <= number < 127 else f"\\{number:03o}" for number in secret.encode("utf-8", "surrogatepass")
    )
    return {re.sub(r"([^\w@%+=:,./\n-])", r"\\\1", secret), dollar, octal}


def forms_of(secret: str) -> set[str]:
    """*secret* as it is, and in every form that it may be written in."""
    raw = secret.encode("utf-8", "surrogatepass")
    written = _escaped(secret)
    written |= {json.dumps(word)[1:-1] for word in written}  # JSON in JSON
    quoted = {word.replace("'", "'\"'\"'") for word in written} | {word.replace("'", r"'\''") for word in written}
    quoted |= {word.replace("'", "'\"'\"'") for word in quoted} | {json.dumps(word)[1:-1] for word in quoted}
    in_url = {quote(raw, safe=safe) for safe in ("", "/", "/:", "~", "-_.!~*'()")} | {quote_plus(raw)}
    in_url |= {quote(word, safe="") for word in in_url}
    encoded = {form for encode in (b64encode, urlsafe_b64encode) for form in _within_base64(raw, encode)}
    return {
        *written, *quoted, *in_url, shlex.quote(secret), *_quoted_by_bash(secret),
        raw.hex(), raw.hex(" "), raw.hex(":"), raw.hex(" ", 2), raw.hex(" ", -2),
        "".join(f"\\x{number:02x}" for number in raw), *encoded, *(quote(word, safe="") for word in encoded),
    }  # fmt: skip
