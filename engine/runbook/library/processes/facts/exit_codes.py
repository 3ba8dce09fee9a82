"""Exit codes of processes and containers: their meaning and their usual cause."""

from __future__ import annotations

from runbook.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitCode:
    """An entry of the table; shells and container runtimes report 128 + n for a process that signal n ended."""

    code: int
    meaning: str
    cause: str
    """The most likely cause on a GPU host."""


_ROWS = (
    (0, "ended normally", "the program finished; with restart policy always Docker starts it again and again"),
    (1, "a general error", "most often an exception of the program, which its log then shows"),
    (2, "wrong usage", "an argument or a configuration that the program or its shell does not understand"),
    (124, "terminated by timeout(1)", "the program hung, or its time limit was too short"),
    (125, "Docker could not start the program", "a bad option, a missing image or runtime: State.Error says which"),
    (126, "the program cannot be executed", "no execute permission, a mount with noexec, or another architecture"),
    (127, "the program was not found", "a wrong command or PATH, or a shared library that is missing"),
    (128, "an invalid exit argument", "git ended with `fatal:`, or a runtime could not start it: State.Error, the log"),
    (129, "SIGHUP: the terminal was closed", "an SSH or tmux session ended"),
    (130, "SIGINT: interrupted", "Ctrl-C, or a launcher that stopped its workers"),
    (131, "SIGQUIT: a dump was requested", "somebody requested a stack dump"),
    (132, "SIGILL: an illegal instruction", "a CPU without the instructions that the program was built for"),
    (133, "SIGTRAP: a trap", "an assertion or a debugger"),
    (134, "SIGABRT: aborted", "NCCL's watchdog, an assertion, a C++ exception or a corrupted heap: the log says which"),
    (
        135,
        "SIGBUS: access to memory that is not there",
        "shared memory is full, a mapped file was truncated, or a disk or memory fails",
    ),
    (136, "SIGFPE: an arithmetic error", "an integer was divided by zero"),
    (137, "SIGKILL: killed", "a kill by hand, `docker stop` after its grace, a scheduler, or a lack of memory"),
    (139, "SIGSEGV: a segmentation fault", "a bad pointer; incompatible native extensions or driver libraries"),
    (141, "SIGPIPE: nothing reads its output", "the reader of a pipe ended first"),
    (143, "SIGTERM: asked to terminate", "`docker stop`, a scheduler, a spot instance that is reclaimed, or a drain"),
    (152, "SIGXCPU: too much processor time", "ulimit -t"),
    (153, "SIGXFSZ: a file grew too large", "ulimit -f"),
    (159, "SIGSYS: a system call that is forbidden", "the container's seccomp profile"),
    (255, "an error of the program, or of ssh", "exit(-1), or a connection of ssh in it was lost"),
)
TABLE = {code: ExitCode(code=code, meaning=meaning, cause=cause) for code, meaning, cause in _ROWS}
_SIGNALS = {10: "SIGUSR1", 12: "SIGUSR2", 14: "SIGALRM", 19: "SIGSTOP", 31: "SIGSYS"}
_LAST_SIGNAL = 64


def explained(code: int) -> ExitCode:
    """Return the entry of *code*; a code without an entry gets the general rule."""
    if code in TABLE:
        return TABLE[code]
    signal = code - 128
    if 0 < signal <= _LAST_SIGNAL:
        name = _SIGNALS.get(signal, f"signal {signal}")
        cause = "somebody sent the signal, or the program chose this code"
        return ExitCode(code=code, meaning=f"terminated by {name}", cause=cause)
    return ExitCode(code=code, meaning="an error code of the program", cause="see its documentation and its log")


def sentence(code: int, memory: tuple[str, ...], blind: str = "") -> str:
    """Explain *code* for people.

    137 is explained as a lack of memory only with evidence, the lines of *memory*, because it alone proves none.
    *blind*: the sources that could not be inspected.
    """
    row = explained(code)
    if code == 137 and memory:
        return f"137: SIGKILL for lack of memory ({'; '.join(memory)})"
    if code == 137:
        return f"137: SIGKILL, and Docker reports no lack of memory: {row.cause}" + (f" ({blind})" if blind else "")
    return f"{code}: {row.meaning}; {row.cause}" if code else f"0: {row.meaning}"
