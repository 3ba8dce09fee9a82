"""Find secrets in a text by their context: by their names, or by the address or header that contains them.

Such secrets need not be known beforehand: they are in the command lines, answers and logs of hosts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from runbook.secrets.names import MASK, NOT_A_VALUE, SWITCH, is_secret

Span = tuple[int, int]
"""The beginning and the end of a secret in a text."""

HINTS = (
    "://", "token", "pass", "pwd", "secret", "credential", "key", "bearer", "auth", "cookie", "curl", "mysql",
    "mariadb", "redis-cli", "gh", "glpat-", "hf_", "sk-", "xox", "akia", "eyj",
)  # fmt: skip
"""Words in lower case; a text with none of them contains no secret that is found here."""

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
"""The forms of the tokens of GitHub, GitLab, Hugging Face, OpenAI, Slack and AWS, and of JSON Web Tokens."""
KEY_BLOCK = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----(.*?)(?=-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|\Z)", re.DOTALL
)

_QUOTED = {
    '"': re.compile(r'(?:[^"\\\n]|\\.)*'),
    "'": re.compile(r"""(?:[^'\n]|'"'"')*"""),  # the latter is a quote within a quoted word of a shell
}
_BARE = re.compile(r"""[^\s&;'")\]}]+""")
BARE_IN_JSON = re.compile(r"""[^\s,'"\]}]+""")
_REST = re.compile(r"""[^\n'"]*""")
_SIGNS = ("=", ":", '"', "'")
_EQUALS = re.compile(r"""["']?[ \t]?=[ \t]?""")
_COLON = re.compile(r"""["']?[ \t]*:[ \t]*""")
_SPACE = re.compile(r"[ \t]+")
_LINE_START = re.compile(r"""(?:^|\n)[-+ #;|]*["']?\Z""")
_SCHEME = re.compile(r"(?:basic|bearer|token|digest|negotiate|apikey)\s+", re.I)
_NO_VALUE = re.compile(r"[{<$*(\[=!]|\.\.\.")
"""The beginning of a template, a variable, a mask or a placeholder, which is no secret."""


def secret_spans(text: str) -> list[Span]:
    """Return the spans of the secrets in *text*, in order and without overlaps."""
    lower = text.lower()
    if not any(hint in lower for hint in HINTS):
        return []
    found = [*_by_shape(text), *_by_name(text), *_in_escaped_json(text)]
    if "curl" in lower or "sshpass" in lower or "mysql" in lower or "mariadb" in lower or "redis-cli" in lower:
        found += _by_program(text)
    return merged(found)


def without_spans(text: str, spans: Sequence[Span]) -> str:
    """Return *text* with MASK in place of each of *spans*."""
    parts, done = [], 0
    for start, end in spans:
        parts += [text[done:start], MASK]
        done = end
    return "".join([*parts, text[done:]])


def masked_text(text: str) -> str:
    """Return *text* with the secrets masked that are found in it."""
    return without_spans(text, secret_spans(text))


def masked_argv(argv: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a command line with the secrets masked, whatever characters they contain."""
    lower = " ".join(argv).lower()
    if not any(hint in lower for hint in HINTS):
        return tuple(argv)
    masked: list[str] = []
    program = option = ""
    for word in argv:
        masked.append(_masked_word(word, program, option))
        program = _program_after(word, program, option)
        option = _option_before_secret(word, program)
    return tuple(masked)


def _masked_word(word: str, program: str, option: str) -> str:
    """Return *word*, an argument of *program*, with a secret in it masked; *option*: an option before it that takes
    a secret.
    """
    if option and not word.startswith("--") and _hides(option, word):
        if option not in _LOGINS:
            return MASK
        login = re.match(r"[^:\s]*:", word)
        return f"{login[0]}{MASK}" if login else word
    if program in _GLUED and word.startswith("-p") and len(word) > 2:
        return f"-p{MASK}"
    pair = _PAIR.fullmatch(word)
    if pair and _hides(pair[1], pair[2]) and pair[2].strip().lower() not in NOT_A_VALUE:
        return f"{pair[1]}={MASK}"
    return masked_text(word)


def _program_after(word: str, program: str, option: str) -> str:
    """Return the program that the next words belong to, if it is one that takes passwords."""
    known = word.rpartition("/")[2]
    if known in _GLUED or known in _OWN_WORD:
        return known
    return "" if option == "-p" else program  # what follows sshpass -p X is another program


def _option_before_secret(word: str, program: str) -> str:
    """Return *word* if it is an option whose value, the next word, may be a secret; otherwise empty."""
    named = word.startswith("-") and "=" not in word and not SWITCH.match(word) and is_secret(word, "x")
    return word if named or word in _OWN_WORD.get(program, ()) else ""


def _hides(name: str, value: str) -> bool:
    """Whether the option or variable *name* makes *value* a secret; ``--max-tokens 512`` does not."""
    if _NO_VALUE.match(value):
        return False
    short = any(name in item for item in _OWN_WORD.values())
    return short or is_secret(name, 0 if re.fullmatch(r"[-+.\d]+", value) else value)


_PAIR = re.compile(r"(-{0,2}[A-Za-z][\w.-]{0,100})=(.*)", re.DOTALL)
_GLUED = frozenset({"mysql", "mysqldump", "mysqladmin", "mariadb", "sshpass"})
"""Programs whose option -p is directly followed by a password."""
_OWN_WORD = {"redis-cli": ("-a",), "curl": ("-u", "--user"), "sshpass": ("-p",)}
"""Programs with an option whose next word contains a password."""
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
        yield from (found.span(1) for found in KEY_BLOCK.finditer(text) if found[1].strip())


_ESCAPED = re.compile(
    r"""(\\+)(["'])([\w.-]{1,100})\1\2\s{0,9}:\s{0,9}(?:\1\2((?:(?!(?<!\\)\1\2).){1,1000})|([\w.+-]{1,200}))""",
    re.DOTALL,
)
"""A name and its value in JSON with escaped quotes, as within a word of a command line, at any depth."""


def _in_escaped_json(text: str) -> Iterator[Span]:
    for found in _ESCAPED.finditer(text) if "\\" in text else ():
        group = 4 if found[4] is not None else 5
        if (span := _checked(text, found[3], found.span(group), surely=True)) is not None:
            yield span


def _by_name(text: str) -> Iterator[Span]:
    done = 0
    options = text.startswith("-") or " -" in text
    for found in _NAME.finditer(text):
        sign = text[found.end() : found.end() + 2]
        if found.start() < done or not (
            sign[:1] in _SIGNS or (sign[:1] in (" ", "\t") and (options or sign[1:] in ("=", ":")))
        ):
            continue
        before = _BEFORE.search(text, max(done, found.start() - 64), found.start())
        start = before.start() if before else found.start()
        span = _value_of(text, start, found.end())
        if span is not None:
            yield span
            done = span[1]


def _value_of(text: str, start: int, end: int) -> Span | None:
    """Return the span of the value for the name at *start* to *end*, if the value must be masked; otherwise None."""
    name = text[start:end].rstrip(".-")
    end = start + len(name)
    plain = name.lstrip("-.")
    if not is_secret(plain, "x8x8x8x8"):
        return None
    quote = text[start - 1] if start and text[start - 1] in "'\"" else ""
    closed = quote if text[end : end + 1] == quote else ""
    if sign := _EQUALS.match(text, end):
        spaced = sign[0].strip("\"'") != "="
        return _checked(text, plain, value_span(text, sign.end(), "" if closed else quote, _BARE), surely=not spaced)
    if sign := _COLON.match(text, end):
        if re.fullmatch(r"(?:proxy-)?authorization|(?:set-)?cookie|x-[\w-]+", plain, re.I) and not closed:
            return _checked(text, plain, _header(text, sign.end()), surely=True)
        at_start = _LINE_START.search(text, max(0, start - 80), start)
        if closed and text[sign.end() : sign.end() + 1] in ("[", "{"):
            span = (sign.end() + 1, bracket_end(text, sign.end()))
            return span if re.search(r"[A-Za-z\"']", text[span[0] : span[1]]) else None
        if closed or at_start:
            return _checked(text, plain, value_span(text, sign.end(), "", BARE_IN_JSON), surely=bool(closed))
        return None
    if name.startswith("-") and not closed and not SWITCH.match(name) and (gap := _SPACE.match(text, end)):
        return _checked(text, plain, value_span(text, gap.end(), "", _BARE), surely=False)
    return None


def value_span(text: str, at: int, quote: str, bare: re.Pattern[str]) -> Span:
    """Return the span of the value that begins at *at*: it ends with *quote*, with quotes of its own, or with the
    word.
    """
    own = text[at : at + 1]
    if not quote and own in _QUOTED:
        found = _QUOTED[own].match(text, at + 1)
        return (at + 1, found.end()) if found else (at, at)
    found = (_QUOTED[quote] if quote else bare).match(text, at)
    return found.span() if found else (at, at)


def _header(text: str, at: int) -> Span:
    """Return the span of the value of a header: to the end of the line, or of the quotes around the header."""
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
    """Whether *value* is neither an ordinary word of a sentence, nor the name of a file."""
    if re.match(r"[~.]?/", value):
        return False
    return len(value) >= 16 or not value.strip(".,:;!?()").isalpha()


def merged(spans: Sequence[Span]) -> list[Span]:
    """Return *spans* in order, with overlapping spans joined."""
    joined: list[Span] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def bracket_end(text: str, at: int, most: int = 4000) -> int:
    """Return the position where the bracket that opens at *at* is closed; the end of the text if it is not closed."""
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
