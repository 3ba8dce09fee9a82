"""Find secrets in a text by what stands around them: their names, the address or the header that they are part of.

Nobody has to have named them beforehand: they are in the command lines, answers and logs of hosts.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from engine.values.secret_names import MASK, NOT_A_VALUE, is_secret

Span = tuple[int, int]
"""Where a secret begins in a text, and where it ends."""

HINTS = (
    "://", "token", "pass", "pwd", "secret", "credential", "key", "bearer", "auth", "cookie", "curl", "mysql",
    "mariadb", "redis-cli", "gh", "glpat-", "hf_", "sk-", "xox", "akia", "eyj",
)  # fmt: skip
"""In lower case: a text with none of these holds nothing that is found here."""

_NAME = re.compile(
    r"(?:token|passw|passphrase|passcode|pass|pwd|secret|credential|apikey|key|bearer|auth|cookie)[\w.-]{0,64}", re.I
)
_BEFORE = re.compile(r"[\w.-]{0,64}\Z")
_LOGIN = re.compile(r"://[^/\s:@'\"]{0,100}:(?!\d{1,5}(?:/|$))([^\s'\"<>]{1,500})@")
_ONLY_LOGIN = re.compile(r"://([^/\s:@'\"]{16,300})@")
_BEARER = re.compile(r"\bbearer\s+([\w.~+/=-]{6,})", re.I)
_KNOWN_SHAPE = re.compile(
    r"\b(?:gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|hf_[A-Za-z0-9]{20,}|sk-[\w-]{20,}|xox[abprs]-[\w-]{10,}"
    r"|(?:AKIA|ASIA)[0-9A-Z]{16}|eyJ[\w-]{10,}\.eyJ[\w-]{8,}\.[\w-]+)"
)
"""What the tokens of GitHub, GitLab, Hugging Face, OpenAI, Slack and AWS, and JSON Web Tokens, look like."""
_KEY_BLOCK = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----(.*?)(?=-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|\Z)", re.DOTALL
)

_QUOTED = {
    '"': re.compile(r'(?:[^"\\\n]|\\.)*'),
    "'": re.compile(r"""(?:[^'\n]|'"'"')*"""),  # the latter is a quote within a quoted word of a shell
}
_BARE = re.compile(r"""[^\s&;'")\]}]+""")
_BARE_IN_JSON = re.compile(r"""[^\s,'"\]}]+""")
_REST = re.compile(r"""[^\n'"]*""")
_EQUALS = re.compile(r"""["']?[ \t]?=[ \t]?""")
_COLON = re.compile(r"""["']?[ \t]*:[ \t]*""")
_SPACE = re.compile(r"[ \t]+")
_LINE_START = re.compile(r"""(?:^|\n)[-+ #;|]*["']?\Z""")
_SCHEME = re.compile(r"(?:basic|bearer|token|digest|negotiate|apikey)\s+", re.I)
_NO_VALUE = re.compile(r"[{<$*(\[=!]|\.\.\.")
"""What begins a template, a variable, a mask or a placeholder, and no secret."""


def secret_spans(text: str) -> list[Span]:
    """Where the secrets in *text* are, in order, and none of them twice."""
    lower = text.lower()
    if not any(hint in lower for hint in HINTS):
        return []
    found = [*_by_shape(text), *_by_name(text)]
    if "curl" in lower or "sshpass" in lower or "mysql" in lower or "mariadb" in lower or "redis-cli" in lower:
        found += _by_program(text)
    return _merged(found)


def without_spans(text: str, spans: Sequence[Span]) -> str:
    """*text* with MASK in the place of each of *spans*."""
    parts, done = [], 0
    for start, end in spans:
        parts += [text[done:start], MASK]
        done = end
    return "".join([*parts, text[done:]])


def masked_text(text: str) -> str:
    """*text* without the secrets that are found in it."""
    return without_spans(text, secret_spans(text))


def masked_argv(argv: Sequence[str]) -> tuple[str, ...]:
    """The words of a command line, without the secrets among them, whatever characters these have."""
    lower = " ".join(argv).lower()
    if not any(hint in lower for hint in HINTS):
        return tuple(argv)
    masked: list[str] = []
    program = option = ""
    for word in argv:
        known = word.rpartition("/")[2]
        pair = _PAIR.fullmatch(word)
        if option and not word.startswith("--") and _hides(option, word):
            login = re.match(r"[^:\s]*:", word) if option in _LOGINS else None
            masked.append(f"{login[0]}{MASK}" if login else word if option in _LOGINS else MASK)
        elif program in _GLUED and word.startswith("-p") and len(word) > 2:
            masked.append(f"-p{MASK}")
        elif pair and _hides(pair[1], pair[2]) and pair[2].strip().lower() not in NOT_A_VALUE:
            masked.append(f"{pair[1]}={MASK}")
        else:
            masked.append(masked_text(word))
        program = "" if option == "-p" else program  # what follows sshpass -p X is another program
        program = known if known in _GLUED or known in _OWN_WORD else program
        named = word.startswith("-") and "=" not in word and is_secret(word, "x")
        option = word if named or word in _OWN_WORD.get(program, ()) else ""
    return tuple(masked)


def _hides(name: str, value: str) -> bool:
    """Whether the option or variable *name* makes its *value* a secret: ``--max-tokens 512`` does not."""
    if _NO_VALUE.match(value):
        return False
    short = any(name in it for it in _OWN_WORD.values())
    return short or is_secret(name, 0 if re.fullmatch(r"[-+.\d]+", value) else value)


_PAIR = re.compile(r"(-{0,2}[A-Za-z][\w.-]{0,100})=(.*)", re.DOTALL)
_GLUED = frozenset({"mysql", "mysqldump", "mysqladmin", "mariadb", "sshpass"})
"""Programs whose option -p is glued to a password."""
_OWN_WORD = {"redis-cli": ("-a",), "curl": ("-u", "--user"), "sshpass": ("-p",)}
"""Programs with an option whose next word has a password."""
_LOGINS = ("-u", "--user")
_PROGRAMS = re.compile(
    r"\b(?:sshpass\b[^\n|;&]{0,200}?\s-p\s?|(?:mysql|mysqldump|mysqladmin|mariadb)\b[^\n|;&]{0,200}?\s-p"
    r"|redis-cli\b[^\n|;&]{0,200}?\s(?:-a|--pass)\s+|curl\b[^\n|;&]{0,200}?\s(?:-u\s*|--user[ =])'?[^\s:']{0,100}:)"
    r"'?([^\s']+)"
)


def _by_program(text: str) -> Iterator[Span]:
    return (found.span(1) for found in _PROGRAMS.finditer(text))


def _by_shape(text: str) -> Iterator[Span]:
    if "://" in text:
        yield from (found.span(1) for found in _LOGIN.finditer(text))
        yield from (found.span(1) for found in _ONLY_LOGIN.finditer(text) if re.search(r"\d", found[1]))
    yield from (found.span() for found in _KNOWN_SHAPE.finditer(text))
    yield from (found.span(1) for found in _BEARER.finditer(text) if _looks_secret(found[1]))
    if "PRIVATE KEY-----" in text:
        yield from (found.span(1) for found in _KEY_BLOCK.finditer(text) if found[1].strip())


def _by_name(text: str) -> Iterator[Span]:
    done = 0
    for found in _NAME.finditer(text):
        if found.start() < done:
            continue
        before = _BEFORE.search(text, max(done, found.start() - 64), found.start())
        start = before.start() if before else found.start()
        span = _value_of(text, start, found.end())
        if span is not None:
            yield span
            done = span[1]


def _value_of(text: str, start: int, end: int) -> Span | None:
    """Where the value is of the name that stands from *start* to *end*, if it is one to be hidden."""
    name = text[start:end].rstrip(".-")
    end = start + len(name)
    plain = name.lstrip("-.")
    if not is_secret(plain, "x8x8x8x8"):
        return None
    quote = text[start - 1] if start and text[start - 1] in "'\"" else ""
    closed = quote if text[end : end + 1] == quote else ""
    if sign := _EQUALS.match(text, end):
        spaced = sign[0].strip("\"'") != "="
        return _checked(text, plain, _from(text, sign.end(), "" if closed else quote, _BARE), surely=not spaced)
    if sign := _COLON.match(text, end):
        if re.fullmatch(r"(?:proxy-)?authorization|(?:set-)?cookie|x-[\w-]+", plain, re.I) and not closed:
            return _checked(text, plain, _header(text, sign.end()), surely=True)
        at_start = _LINE_START.search(text, max(0, start - 80), start)
        if closed and text[sign.end() : sign.end() + 1] in ("[", "{"):
            span = (sign.end() + 1, _bracket(text, sign.end()))
            return span if re.search(r"[A-Za-z\"']", text[span[0] : span[1]]) else None
        if closed or at_start:
            return _checked(text, plain, _from(text, sign.end(), "", _BARE_IN_JSON), surely=bool(closed))
        return None
    if name.startswith("-") and not closed and (gap := _SPACE.match(text, end)):
        return _checked(text, plain, _from(text, gap.end(), "", _BARE), surely=False)
    return None


def _from(text: str, at: int, quote: str, bare: re.Pattern[str]) -> Span:
    """Where the value ends that begins at *at*: within *quote*, in quotes of its own, or with the word."""
    own = text[at : at + 1]
    if not quote and own in _QUOTED:
        found = _QUOTED[own].match(text, at + 1)
        return (at + 1, found.end()) if found else (at, at)
    found = (_QUOTED[quote] if quote else bare).match(text, at)
    return found.span() if found else (at, at)


def _header(text: str, at: int) -> Span:
    """The value of a header: to the end of the line, or of the quotes that it stands in."""
    if text[at : at + 1] in _QUOTED:
        at += 1
    scheme = _SCHEME.match(text, at)
    found = _REST.match(text, scheme.end() if scheme else at)
    return found.span() if found else (at, at)


def _checked(text: str, name: str, span: Span, *, surely: bool) -> Span | None:
    value = text[span[0] : span[1]]
    if not _is_value(value) or not is_secret(name, 0 if re.fullmatch(r"[-+.\d]+", value) else value):
        return None
    return span if surely or _looks_secret(value) else None


def _is_value(value: str) -> bool:
    if _NO_VALUE.match(value) or re.fullmatch(r"[-+.\d]{0,5}", value):
        return False
    return value.strip().lower() not in NOT_A_VALUE


def _looks_secret(value: str) -> bool:
    """Whether *value* is no ordinary word of a sentence, nor the name of a file."""
    if re.match(r"[~.]?/", value):
        return False
    return len(value) >= 16 or not value.strip(".,:;!?()").isalpha()


def _merged(spans: Sequence[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(it for it in spans if it[0] < it[1]):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


# ---- configuration files -------------------------------------------------------------------------------------------

_CONFIG_KEY = re.compile(
    r"""[-+ \t]*(?P<comment>[#;]+[ \t]*)?(?:export[ \t]+)?(?:-[ \t]+)?["']?(?P<name>[A-Za-z_][\w.-]*)["']?"""
    r"""[ \t]*(?P<sign>[:=]|[ \t](?=[^\s:=]))[ \t]*(?P<value>.*)"""
)
_OPENS = re.compile(r"""(?:[|>][-+\d]*|[\[{]*|"{3}|'{3})\s*(?:#.*)?""")
_INLINE = re.compile(r"""(["']?)([A-Za-z_][\w.-]{0,100})\1[ \t]*[:=][ \t]*(?=["'\w\[{])""")
_TAG = re.compile(r"<([A-Za-z_][\w.-]{0,100})[^<>]{0,200}>([^<]+)</")


def masked_config(lines: Sequence[str]) -> list[str]:
    """The lines of a configuration file, as many as there are, without the values of secrets.

    What stands below a secret key, further to the right, is a secret too, and so is what stands within a private key.
    """
    text = "\n".join(lines)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    within_key: set[int] = set()
    for found in _KEY_BLOCK.finditer(text):
        first, last = (bisect_right(starts, it) - 1 for it in (found.start(1), found.end(1)))
        within_key.update(range(first + 1, last + (not text[found.end(1) : found.end(1) + 1])))
    masked, secret_from = [], -1
    for number, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if secret_from >= 0 and line.strip() and indent <= secret_from and not _closes(line):
            secret_from = -1
        if line.strip() and (number in within_key or (secret_from >= 0 and indent > secret_from)):
            masked.append(line[:indent] + MASK)
            continue
        masked.append(_masked_line(line))
        if (key := _CONFIG_KEY.fullmatch(line)) and _opens_secrets(key):
            secret_from = indent
    return masked


def without_secrets(text: str) -> str:
    """The text of a configuration file, without the values of secrets."""
    return "\n".join(masked_config(text.split("\n")))


def _closes(line: str) -> bool:
    return line.strip()[0] in "]})"


def _opens_secrets(key: re.Match[str]) -> bool:
    return key["sign"] in ":=" and bool(_OPENS.fullmatch(key["value"])) and is_secret(key["name"], {})


def _is_prose(key: re.Match[str]) -> bool:
    """Whether what looks like a key and a value with a space between them is a sentence."""
    return key["sign"] not in ":=" and (bool(key["comment"]) or len(key["value"].split()) != 1)


def _masked_line(line: str) -> str:
    key = _CONFIG_KEY.fullmatch(line)
    if key and key["value"] and not _OPENS.fullmatch(key["value"]) and not _is_prose(key):
        written = key["value"].rstrip(" \t").removesuffix(",").rstrip(" \t")
        value = written.strip("\"'")
        number = 0 if re.fullmatch(r"[-+0-9._]+", value) else value  # max_tokens is a number
        if is_secret(key["name"], number) and value.lower() not in NOT_A_VALUE:
            start = key.start("value")
            return f"{line[:start]}{MASK}{line[start + len(written) :]}"
    spans = [found.span(2) for found in _TAG.finditer(line) if is_secret(found[1], found[2])]
    spans += [span for found in _INLINE.finditer(line) if (span := _inline(line, found))]
    return without_spans(line, _merged([*spans, *secret_spans(line)]))


def _inline(line: str, found: re.Match[str]) -> Span | None:
    """The value of one key of several in a line, if it is a secret; of an object or a list, all that is in it."""
    if line[found.end()] in "[{":
        span = (found.end() + 1, _bracket(line, found.end()))
        return span if is_secret(found[2], {}) and re.search(r"[A-Za-z\"']", line[span[0] : span[1]]) else None
    span = _from(line, found.end(), "", _BARE_IN_JSON)
    value = line[span[0] : span[1]]
    number = 0 if re.fullmatch(r"[-+0-9._]+", value) else value
    return span if is_secret(found[2], number) and value.lower() not in NOT_A_VALUE else None


def _bracket(text: str, at: int, most: int = 4000) -> int:
    """Where the bracket that opens at *at* is closed; the end of the text where it is not."""
    depth, quote, end = 0, "", min(len(text), at + most)
    for number in range(at, end):
        sign = text[number]
        if quote:
            quote = "" if sign == quote and text[number - 1] != "\\" else quote
        elif sign in "\"'":
            quote = sign
        elif sign in "[{":
            depth += 1
        elif sign in "]}":
            depth -= 1
            if depth == 0:
                return number
    return len(text)
