"""The forms in which a secret turns up, and a program that prints a variable of its environment in each of them."""

from __future__ import annotations

import base64
import html
import json
import shlex
from urllib.parse import quote, quote_plus

PRINTER = r"""
import base64, html, json, os, shlex, subprocess, sys, textwrap
from urllib.parse import quote, quote_plus
for name in sys.argv[1:]:
    it = os.environ[name]
    raw = it.encode()
    print("plain", it)
    print("upper", it.upper())
    print("base64", base64.b64encode(raw).decode())
    print("of a login", base64.b64encode(b"user:" + raw + b"\n").decode())
    print("on lines\n" + base64.encodebytes(b"a long preface of a login, " * 2 + raw + b" and what follows" * 3).decode())
    print("for URLs", base64.urlsafe_b64encode(raw).decode())
    print("json", json.dumps({"a": it}), json.dumps(json.dumps({"a": it})))
    print("url", quote(it), quote(it, safe=""), quote_plus(it))
    print("shell", shlex.quote(it), shlex.join(["sh", "-c", "echo " + shlex.quote(it)]))
    print("bash", subprocess.run(["bash", "-c", 'printf "%q\n" "$1"; set -x; : "$1"', "bash", it], capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout if "--bash" in sys.argv else "")
    print("hex", raw.hex(), raw.hex().upper(), raw.hex(":"))
    print("html", html.escape(it), repr(it), ascii(it))
    print("mail", "\n".join(textwrap.wrap(raw.hex(), 60)))
"""
"""Prints every variable that it is given the name of."""


def forms(secret: str) -> dict[str, str]:
    """What to look for; of base64 what does not depend on what stands around the secret."""
    raw = secret.encode()
    found = {
        "plain": secret, "lower": secret.lower(), "upper": secret.upper(), "hex": raw.hex(), "HEX": raw.hex().upper(),
        "json": json.dumps(secret)[1:-1], "shell": shlex.quote(secret), "html": html.escape(secret),
        "url": quote(secret), "whole url": quote(secret, safe=""), "form": quote_plus(secret), "python": repr(secret)[1:-1],
        "ascii": ascii(secret)[1:-1], "spaced hex": raw.hex(":"),
    }  # fmt: skip
    for number, before in enumerate((b"", b"u", b"us")):
        for name, encode in (("base64", base64.b64encode), ("base64 for URLs", base64.urlsafe_b64encode)):
            text = encode(before + raw).decode().rstrip("=")
            found[f"{name} after {number}"] = text[4 if number else 0 : len(text) // 4 * 4 - 4]
    return found


def leaks(text: str, secrets: dict[str, str], piece: int = 8) -> list[str]:
    """Which of *secrets* are in *text*, in which form: whole, or so many characters of the plain one; line ends aside."""
    joined = "".join(it.strip() for it in text.splitlines())
    found = []
    for name, secret in secrets.items():
        for form, written in forms(secret).items():
            if any(written in it for it in (text, joined)):
                found.append(f"{name} ({form})")
        pieces = (secret[at : at + piece] for at in range(len(secret) - piece + 1))
        found += [f"{name} (a piece: {it!r})" for it in pieces if it in text][:1]
    return found
