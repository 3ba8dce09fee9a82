"""Build an action's Args from rendered values, reporting every mistake at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from runbook.dataclass import dataclass
from runbook.errors import ConfigError, Problem
from runbook.language.ansible_hints import MEANT
from runbook.language.keys import STEP
from runbook.text.regexes import SearchBudget, SearchTimeout, compile_regex, fault_in_regex
from runbook.text.suggestions import nearest, suggest
from runbook.values.types import Duration, ProcessPattern, Regex, Size, plural
from runbook.values.units import duration, size

LONGEST = 500
"""The maximum number of characters of a pattern."""

SYSTEM = (
    "/sbin/init",
    "/lib/systemd/systemd --system --deserialize 31",
    "/lib/systemd/systemd-logind",
    "sshd: /usr/sbin/sshd -D [listener] 0 of 10-100 startups",
    "sshd: root@notty",
    "-bash",
    "/usr/sbin/cron -f",
    "/usr/bin/dbus-daemon --system --address=systemd: --nofork --nopidfile",
    "/sbin/agetty -o -p -- \\u --noclear tty1 linux",
    "/usr/bin/dockerd -H fd:// --containerd=/run/containerd/containerd.sock",
    "/usr/bin/containerd",
    "/usr/bin/kubelet --config=/var/lib/kubelet/config.yaml",
    "/usr/sbin/slurmd -D -s",
    "/usr/bin/nvidia-persistenced --user nvidia-persistenced",
    "/usr/bin/nv-hostengine -n --service-account nvidia-dcgm",
    "/usr/bin/nv-fabricmanager -c /usr/share/nvidia/nvswitch/fabricmanager.cfg",
    "/usr/sbin/rsyslogd -n -iNONE",
    "/usr/sbin/chronyd -F 1",
)
"""Command lines that run on every other machine; a pattern that matches one of these command lines is too wide."""


def objection_to(pattern: str) -> str:
    """Return the reason why *pattern* must not choose processes; empty if it may."""
    if not pattern.strip():
        return "an empty pattern matches every process"
    if len(pattern) > LONGEST:
        return f"a pattern can have at most {LONGEST} characters, but this one has {len(pattern)}"
    if fault := fault_in_regex(pattern):
        return fault
    compiled, budget = compile_regex(pattern), SearchBudget()
    try:
        if budget.found(compiled, ""):
            return "it matches the empty text, and therefore every process"
        wide = next((line for line in SYSTEM if budget.found(compiled, line)), None)
    except SearchTimeout as error:
        return f"the command line of a system process {error}"
    return "" if wide is None else f"it would match a system process: {wide}"


T = TypeVar("T")

Problems = list[Problem]


@dataclass(frozen=True, slots=True)
class Later:
    """A value that is not known yet: it depends on a host, a probe or an item."""

    is_text: bool = False
    """Whether the value will be text, whatever the template is filled in with."""
    stand_in: str | None = None
    """The text that is used until the value is known, where text is required."""


def hints_of(kind: type[Any]) -> Mapping[str, Any]:
    """Return the types of the fields of *kind*; the annotations of each *kind* are read only once."""
    return _hints_of(kind)  # type: ignore[arg-type] # classes are hashable, whatever their instances are


@cache
def _hints_of(kind: type[Any]) -> Mapping[str, Any]:
    return get_type_hints(kind)


def build_partly(kind: type[T], values: Mapping[str, Any]) -> tuple[T | None, tuple[Problem, ...]]:
    """Build *kind* from *values*, of which some may still be ``Later``; return it with the mistakes in the known
    values.

    Returns None instead of the *kind* if a part of it is not known yet, or if there are mistakes.
    """
    problems: Problems = []
    made = _dataclass(kind, values, "", problems)
    return (None if problems or isinstance(made, Later) else made), tuple(problems)


def build(kind: type[T], values: Mapping[str, Any]) -> T:
    """Return the *kind* (a frozen dataclass) that is built from *values*.  Raises ConfigError with every mistake.

    Each Problem's message begins with the path within the arguments.
    """
    problems: Problems = []
    made = _dataclass(kind, values, "", problems)
    if problems or made is None or isinstance(made, Later):
        raise ConfigError(*problems)
    return made


def _dataclass(kind: type[T], values: object, path: str, problems: Problems) -> T | Later | None:
    if not isinstance(values, Mapping):
        problems.append(Problem(message=f"{_at(path)}expected a mapping, got {_kind(values)}"))
        return None
    known = {field.name.rstrip("_"): field for field in fields(kind)}  # type: ignore[arg-type]
    hints = hints_of(kind)
    before = len(problems)
    mistyped = {nearest(str(name), known) for name in values if name not in known}
    for name in values:
        if name not in known:
            hint = _meant(str(name), list(known), path)
            problems.append(Problem(message=f"{_at(path)}unknown key {name!r}", hint=hint))
    given: dict[str, Any] = {}
    for name, value in known.items():
        if name in values:
            given[value.name] = _value(
                hints[value.name], values[name], f"{path}.{name}" if path else name, value.metadata, problems
            )
        elif value.default is MISSING and value.default_factory is MISSING and name not in mistyped:
            problems.append(Problem(message=f"{_at(path)}{name!r} is missing"))
    if len(problems) > before:
        return None
    if any(map(_holds_later, given.values())):
        return Later()
    try:
        return kind(**given)
    except ValueError as error:
        problems.append(Problem(message=f"{_at(path)}{error}"))
        return None


def _meant(name: str, known: list[str], path: str) -> str:
    """Return a hint that says which key was probably meant by the unknown key *name*."""
    if name in STEP and not path:
        return "it is a key of the step: write it one level up, beside the action"
    return suggest(name, known, MEANT.get(name))


def _value(kind: Any, value: Any, path: str, rules: Mapping[str, Any], problems: Problems) -> Any:
    before = len(problems)
    if isinstance(value, Later):
        return _not_yet(kind, value, path, problems)
    made = _converted(kind, value, path, rules, problems)
    if len(problems) == before:
        _check_bounds(made, path, rules, problems)
    return made


def _not_yet(kind: Any, value: Later, path: str, problems: Problems) -> Any:
    """Return a stand-in for *value* until it is known.  Report a mistake if *value* is a text that cannot become a
    *kind*.
    """
    if kind is str and value.stand_in is not None:
        return value.stand_in
    origin = get_origin(kind)
    wants_list = origin is tuple
    wants_mapping = is_dataclass(kind) or (isinstance(origin, type) and issubclass(origin, Mapping))
    if value.is_text and (wants_list or wants_mapping or kind in (int, bool)):
        wanted = "a list" if wants_list else "a mapping" if wants_mapping else _WANTED[kind]
        problems.append(Problem(message=f"{path}: expected {wanted}, got text"))
    return value


def _holds_later(made: Any) -> bool:
    match made:
        case Later():
            return True
        case tuple() | list():
            return any(map(_holds_later, made))
        case Mapping():
            return any(map(_holds_later, made.values()))
    return False


def _converted(kind: Any, value: Any, path: str, rules: Mapping[str, Any], problems: Problems) -> Any:
    if kind in _SPECIAL:
        return _attempt(_SPECIAL[kind], value, path, problems)
    origin = get_origin(kind)
    if origin is Literal:
        if value not in get_args(kind):
            choices = ", ".join(str(member) for member in get_args(kind) if member != "")
            hint = suggest(str(value), map(str, get_args(kind)), str(rules.get("hint", "")))
            problems.append(Problem(message=f"{path}: {value!r} is not allowed; use one of: {choices}", hint=hint))
        return value
    if origin is tuple:
        return _many(get_args(kind)[0], value, path, rules, problems)
    if is_dataclass(kind) and isinstance(kind, type):
        return _dataclass(kind, value, path, problems)
    if origin in (Union, UnionType):
        return _union(get_args(kind), value, path, rules, problems)
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(get_args(kind)[1], value, path, problems)
    return _scalar(kind, value, path, problems)


def _many(kind: Any, value: Any, path: str, rules: Mapping[str, Any], problems: Problems) -> Any:
    if isinstance(value, str) or not isinstance(value, list | tuple):
        problems.append(Problem(message=f"{path}: expected a list, got {_kind(value)}"))
        return ()
    if len(value) < rules.get("min_items", 0):
        problems.append(Problem(message=f"{path}: needs at least {plural(rules['min_items'], 'item')}"))
    inner = {name: rule for name, rule in rules.items() if name != "min_items"}
    return tuple(_value(kind, it, f"{path}[{number}]", inner, problems) for number, it in enumerate(value))


def _mapping(kind: Any, value: Any, path: str, problems: Problems) -> Any:
    if not isinstance(value, Mapping):
        problems.append(Problem(message=f"{path}: expected a mapping, got {_kind(value)}"))
        return {}
    return {str(name): _value(kind, it, f"{path}.{name}", {}, problems) for name, it in value.items()}


def _union(kinds: tuple[Any, ...], value: Any, path: str, rules: Mapping[str, Any], problems: Problems) -> Any:
    if {str, int, float, bool} <= set(kinds):
        return value
    attempts: list[list[Problem]] = []
    for kind in kinds:
        own: list[Problem] = []
        made = _converted(kind, value, path, rules, own)
        if not own:
            return made
        attempts.append(own)
    problems.extend(sorted(attempts, key=len)[0])
    return None


def _scalar(kind: Any, value: Any, path: str, problems: Problems) -> Any:
    if kind is Any or kind is object:
        return value
    if kind in (None, NoneType) and value is None:
        return None
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            problems.append(Problem(message=f"{path}: the number is too large"))
            return 0.0
    if kind in (str, int, bool) and type(value) is kind:
        return value
    problems.append(
        Problem(
            message=f"{path}: expected {_WANTED.get(kind, str(kind))}, got {_kind(value)}",
            hint=_quoted(kind, value, path),
        )
    )
    return value


def _quoted(kind: Any, value: Any, path: str) -> str:
    """Return a hint to put *value* in quotes, if only the quotes are missing; empty otherwise."""
    if kind is str and value is None:
        return 'put it in quotes, if the word null is meant: "null"'
    if kind is not str or not isinstance(value, bool | int | float) or len(str(value)) > 40:
        return ""
    if path.rpartition(".")[2] == "mode":
        return 'put it in quotes, with its first 0, such as "0644": YAML reads digits alone as a number'
    shown = str(value).lower() if isinstance(value, bool) else str(value)
    return f'put it in quotes: "{shown}"; in a template: | string'


_WANTED: Mapping[Any, str] = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def _check_bounds(value: Any, path: str, rules: Mapping[str, Any], problems: Problems) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and "minimum" in rules and value < rules["minimum"]:
        problems.append(Problem(message=f"{path}: {value} is below {rules['minimum']}"))
    if number and "maximum" in rules and value > rules["maximum"]:
        problems.append(Problem(message=f"{path}: {value} is above {rules['maximum']}"))
    if isinstance(value, str) and len(value) < rules.get("min_length", 0):
        problems.append(Problem(message=f"{path}: needs at least {plural(rules['min_length'], 'character')}"))


def _attempt(convert: Callable[[Any], Any], value: Any, path: str, problems: Problems) -> Any:
    try:
        return convert(value)
    except ConfigError as error:
        problems.append(Problem(message=f"{path}: {error.problems[0].message}"))
        return value


def _regex(value: Any) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"expected a regular expression, got {_kind(value)}")
    if fault := fault_in_regex(value):
        raise ConfigError(f"{value[:80]!r} is refused: {fault}")
    return value


def _process_pattern(value: Any) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"expected a pattern, got {_kind(value)}")
    if why := objection_to(value):
        raise ConfigError(f"pattern {value[:80]!r} is refused: {why}")
    return value


_SPECIAL: Mapping[Any, Callable[[Any], Any]] = {
    Duration: duration,
    Size: size,
    Regex: _regex,
    ProcessPattern: _process_pattern,
}


def _at(path: str) -> str:
    return f"{path}: " if path else ""


def _kind(value: object) -> str:
    names = {
        bool: "true or false",
        str: "text",
        int: "a number",
        float: "a number",
        NoneType: "nothing",
        list: "a list",
    }
    word = names.get(type(value), "a mapping" if isinstance(value, Mapping) else type(value).__name__)
    shown = str(value).lower() if isinstance(value, bool) else repr(value)
    return f"{word} ({shown})" if isinstance(value, str | int | float) and len(shown) <= 60 else word
