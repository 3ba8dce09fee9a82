"""Every script that is sent to hosts and writes does so by the safe ways, or it is said here why it need not (law 9)."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from functools import cache
from pathlib import Path

import runbook
from runbook.onhost.host_lock import ask_lock
from runbook.shell import SAFE, VIEW, script
from tests.support.tables import every_row

WRITES = re.compile(
    r"""(?mx)
    (?:^|[;&|(){}`]|\b(?:then|do|else|exec|!)\b|\$\()\s*
    (?:mkdir|mv|cp|rm|rmdir|ln|chmod|chown|chgrp|touch|tee|install|mktemp|truncate|mkfifo|mknod|dd\s[^\n]*\bof=)\s
    | (?<![0-9<>&=-])>{1,2}\s*(?!&|/dev/null|/proc/self)["$./\w]
    """
)
"""Words of sh that make, change or remove a file."""

NOT_SENT = ("runbook.lab", "runbook.__main__", "runbook.shell")
"""The lab makes hosts of its own; nothing of it is sent to others.  The shell room holds the safe ways themselves."""

EXEMPT = {
    "runbook.onhost.host_lock.LOCK": "it follows SAFE in ask_lock, as a test below sees",
    "runbook.onhost.owed_note.OWED": "it follows SAFE in make_note and remove_note, as a test below sees",
    "runbook.connections.sessions.programs.AGENT": "it adds a line to the lock that LOCK has just taken, in a directory of ours alone",
    "runbook.connections.sessions.programs._CONTROL_GROUP": "it writes to control groups that are its user's, and where nothing can be renamed",
    "runbook.connections.sessions.programs.KILL_GROUP": "it writes to control groups that a change has made",
    "runbook.library.system.facts.git._CLONE": "it follows GIT, which begins with SAFE",
    "runbook.library.gpu.facts.reset._MARKER": "it adds a line to /dev/kmsg, where root alone can write, and to the system's log",
    "runbook.library.processes.components.probe_scripts.WATCHER": "it writes records and a log to places that START has entered by SAFE",
}
"""Scripts that write in another way, each with the reason why no other user can turn that against root."""


GOES = {
    "runbook.connections.sessions.programs._TRUSTED": {'"$cwd"'},
    "runbook.onhost.fetched_output._COMMAND": {'"./$work"'},
}
"""Places that a script goes to by itself: where a command shall be run, which it then holds against what the safe ways say
of it; and a directory that `safe_workshop` has just made, in one where nobody else can rename it."""


@cache
def sent() -> dict[str, str]:
    """Every text of several lines that the engine may send, by its name: of modules, and within their functions."""
    found: dict[str, str] = {}
    for module in pkgutil.walk_packages(runbook.__path__, "runbook."):
        if module.name.startswith(NOT_SENT):
            continue
        made = importlib.import_module(module.name)
        texts = [(name, it) for name, it in vars(made).items() if isinstance(it, str) and not name.startswith("__")]
        texts += [(f"line {it.lineno}", it.value) for it in _within(Path(str(made.__file__)))]
        for name, text in texts:
            if text.count("\n") > 2 and text not in (SAFE, VIEW):
                found.setdefault(text, f"{module.name}.{name}")
    return {name: text for text, name in found.items()}


def _within(path: Path) -> list[ast.Constant]:
    """The texts in the functions of a module, but for what only describes them."""
    found: list[ast.Constant] = []

    def look_into(node: ast.AST, in_function: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Constant):
                if in_function and isinstance(child.value, str) and not isinstance(node, ast.Expr):
                    found.append(child)
            else:
                look_into(child, in_function or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))

    look_into(ast.parse(path.read_text()), in_function=False)
    return found


def writes(text: str) -> bool:
    """Whether *text* is sh that makes, changes or removes files; what stands in quotes or comments, or is counted, is none."""
    bare = re.sub(r"(?m)^\s*#.*$|(?<=\s)# .*$", "", text)
    return bool(WRITES.search(re.sub(r"'[^']*'|\$\(\(.*?\)\)", "''", bare)))


@cache
def writing() -> dict[str, str]:
    return {name: text for name, text in sent().items() if writes(text)}


def safe(name: str) -> bool:
    """Whether that script comes behind the safe ways, or is part only of such as do."""
    text = writing()[name]
    whole = [it for it in sent().values() if text in it and it != text]
    return SAFE in text or name in EXEMPT or bool(whole and all(SAFE in it for it in whole))


def test_a_script_that_writes_does_so_by_the_safe_ways():
    """Mutants: SAFE taken away from any of them; ``cd -P`` to a place of arguments instead of ``safe_enter``."""
    assert [it for it in writing() if not safe(it)] == [], "they write without engine/runbook/shell/safe.sh"


def test_it_goes_where_it_writes_by_them_alone():
    """A ``cd`` that is not to what the safe ways have just checked would undo them."""
    safely = [name for name, text in writing().items() if name not in EXEMPT and SAFE in text]
    unused, by_itself = list[str](), dict[str, set[str]]()
    for name in safely:
        own = writing()[name].replace(SAFE, "").replace(script("runbook.shell", "view"), "")
        if not re.search("safe_|view_", own):
            unused.append(name)
        entered = re.findall(r"(?m)(?:^|[;&|({]|\bthen|\bdo)\s*cd (?:-P )?(?:-- )?(\S+)", own)
        if others := {*entered} - {"/", '"./$name"', '"$r"'} - GOES.get(name, set()):
            by_itself[name] = others
    assert safely
    assert unused == [], "they hold the safe ways and use none"
    assert by_itself == {}, "they go there by themselves"


def test_there_are_such_scripts():
    assert {"runbook.library.config.facts.config_file._WRITE", "runbook.library.files.facts.removal._REMOVE"} <= set(
        writing()
    )


@every_row(
    "text",
    [
        "mkdir -p x",
        "a && rm -rf b",
        "why=$(mv -f x y)",
        "echo x >file",
        'echo x >>"$log"',
        "{ cp a b; }",
        "then touch x",
    ],
)
def test_what_writes_is_seen(text):
    assert writes(text)


@every_row("text", ["x 2>&1", "x >/dev/null", "echo 'a > b'", "# rm x", "n=$((a > b))", "case a in b) ;; esac"])
def test_what_does_not_write_is_not(text):
    assert not writes(text)


def test_the_lock_is_taken_by_the_safe_ways():
    assert ask_lock("run", "host", "").script.startswith(SAFE)


def test_no_exemption_outlives_its_script():
    assert {*EXEMPT, *GOES} <= set(writing())
    assert not [it for it in EXEMPT if SAFE in writing()[it]]
