"""The words of a kernel message that any user may have chosen: names of processes, files, control groups, interfaces.

A process may be called anything of 15 bytes, with any character but NUL (``prctl(PR_SET_NAME)``); a file and a control
group anything of 255, a control group without a newline; a network interface, in a name space of the user's own, 15
bytes without white space. The kernel writes such names as they are. Where a name ends cannot be known from the line, so
that the most it can be counts: the 15 characters beside what the kernel says of a process, and the rest of the line
behind a control group or a file.  Sources: `printk` calls of Linux's ``mm/oom_kill.c``, ``kernel/signal.c``,
``kernel/hung_task.c``, ``kernel/cgroup/pids.c``, ``arch/*/mm/fault.c``, ``arch/*/kernel/traps.c``, ``net/core/dev.c``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

NOBODYS = "\0"
"""Stands for each character that is taken away; no message of a kernel has it."""

_LETTER = r"(?:\\x[0-9a-f]{2}|#[0-7]{3}|[^\0])"
"""One byte of a name, as it is or as logs escape it."""
_NAME = rf"{_LETTER}{{0,15}}"

_NAME_BEFORE = re.compile(
    r" invoked oom-killer: | cpuset=|: (?:page allocation (?:failure|stalls)|vmalloc|potentially unexpected fatal)"
    r"|[/:]\d+(?: <\w+>)? (?:is )?(?:blocked (?:for|on|in)\b|can't die |trying to |freeing )"
    r"|/\d+(?:: potentially unexpected| took a )"
    r"| (?:Kdump: loaded )?(?:Not tainted|Tainted: )"
    r"|\[\d+\]:? (?:segfault|general protection|trap\b|traps\b|unhandled |bad frame|.*\bin )"
    r"| ?\(\d+\): (?:drop_caches|Vm|attempted|/proc/|Uses |uses )"
    r"| (?:used greatest stack|changed security contexts|is using a deprecated|is installing a program|uses )"
)
"""The kernel's text behind the name of a process."""

_NAME_BEHIND = re.compile(
    r"^\s*traps: |INFO: task |\b(?:by|in) (?:task|process) |\bComm: |\bcomm[:=] ?|\bname: |\btask[:=] ?|\bprocess:? "
    r"|^\s*(?:mmap|cgroup|ptrace|futex|process|#[AD][BC]|x86/[\w ]+: #[AD][BC]|x86/PAT|coredump): |while atomic: "
    r"|\b[Pp]rocess \d+,?(?: UID \d+,)? ?\(|\b[Pp]id:? \d+ ?\(|\bsending SIG\w+ to |^\s*(?:program|Process) "
    r"|stuck for \d+s! \[|\bno locks? held by |\bscanned by "
    r"|^\s*\[ *\d+\](?: +-?\d+){6,} +"
)
"""The kernel's text before the name of a process."""

_NAME_FIRST = re.compile(rf"\s*(?:traps: )?({_NAME})(?:\[\d+\]| ?\(\d+\)(?![\d\[]))")
"""The name of a process and its number, at the beginning of a line; Ceph's `mon2 (1)192.0.2.7:6789` is an address."""

_BEGUN = re.compile(rf"\s*(?:traps: )?{_LETTER}{{0,14}}\s*")
"""A line that is short enough for the first part of a name with a newline in it."""

_REST = re.compile(
    r"\bpids controller in |\b(?:oom_memcg|task_memcg|cpuset)=|^\s*Tasks? in |^\s*Memory cgroup stats for "
    r"|^\s*overlayfs: |\[\d+\]:? .*?\bin |^\s*oom-kill:constraint=\w+,"
)
"""Behind these the rest of the line may be the name of a control group, a directory or a file."""

_ALL = re.compile(r"(.*): potentially unexpected fatal signal \d+\.", re.DOTALL)
"""A line that begins with the name of a file."""

_QUOTED = re.compile(r"""(?<!\w)(['"`])(?:.*['"`]|.*$)""", re.DOTALL)

_INTERFACE = re.compile(
    r"^\s*(\S{1,15})(?: \([\w ]+\))?: renamed from (\S{1,15})|\((?:slave )?(\S{1,15})\): "
    r"|^\s*(?:device )?(\S{1,15})(?: \([\w ]+\))?:? (?:entered|left) |\bport \d+\((\S{1,15})\)"
    r"|\bADDRCONF\([^)]*\): (\S{1,15}): "
)

_NAME_OF_XID = re.compile(r"\bname=(.{0,15}(?=, |,?$)|.*?(?=, |,?$))")


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Where a user's words may stand in *text*."""
    if whole := _ALL.match(text) or _BEGUN.fullmatch(text):
        yield whole.span(whole.lastindex or 0)
    if first := _NAME_FIRST.match(text):
        yield first.span(1)
    traps = re.match(r"\s*traps: ", text)
    for found in _NAME_BEFORE.finditer(text):
        begin = max(traps.end() if traps else 0, found.start() - 60)
        name = re.compile(_NAME + "$").search(text[begin : found.start()])
        yield begin + (name.start() if name else 0), found.start()
    for found in _NAME_BEHIND.finditer(text):
        name = re.compile(_NAME).match(text, found.end())
        yield found.end(), name.end() if name else found.end()
    if rest := _REST.search(text):
        yield rest.end(), len(text)
    for found in (*_INTERFACE.finditer(text), *_NAME_OF_XID.finditer(text)):
        yield from (found.span(group) for group in range(1, len(found.groups()) + 1) if found[group])
    if quoted := _QUOTED.search(text):
        yield quoted.span()


@lru_cache(64)
def _users(text: str) -> frozenset[int]:
    return frozenset(at for begin, end in _spans(text) for at in range(begin, end))


def users_words(text: str) -> str:
    """*text* with nothing left but what a user may have chosen."""
    users = _users(text)
    return "".join(letter if at in users else NOBODYS for at, letter in enumerate(text))


def kernels_words(text: str) -> str:
    """*text* without what a user may have chosen, and as long."""
    users = _users(text)
    return "".join(NOBODYS if at in users else letter for at, letter in enumerate(text))


def begins_with_users(text: str) -> bool:
    """Whether *text* is a line that any user may begin with more than the name of a process, or all of it."""
    return bool(_ALL.match(text) or _BEGUN.fullmatch(text))
