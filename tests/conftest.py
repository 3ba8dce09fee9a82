"""What every test shares: the real parts of this machine, and what was left out without them."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import importlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support.requirements import LEFT_TO_SOAK, PARTS, SLOW, LeftOut, basic, kinds, present, reason_of

TESTS = Path(__file__).parent
LOCKS = tempfile.mkdtemp(prefix="runbook-locks-")
atexit.register(shutil.rmtree, LOCKS, ignore_errors=True)
Path(LOCKS, ".runbook-locks").touch()
TURNS = Path(os.environ.setdefault("RUNBOOK_TEST_TURNS", LOCKS))  # of the first process: its workers share it
os.environ["RUNBOOK_LOCK_PLACES"] = LOCKS  # tests that run beside each other do not wait for each other's runs
os.environ["XDG_STATE_HOME"] = LOCKS
os.environ["XDG_CACHE_HOME"] = str(
    TURNS / "cache"
)  # a playbook is checked once for all; another version of runbook has its own
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # the program is started hundreds of times

settings.register_profile("soak", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("gate", settings.get_profile("soak"), derandomize=True, database=None)
settings.load_profile("gate")  # the same examples in each run; `make soak` draws others

for it in (
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGHUP,  # nohup ignores it for what it starts
):  # a shell ignores them for what it starts in the background, and we hand that on
    if signal.getsignal(it) is signal.SIG_IGN:
        signal.signal(it, signal.default_int_handler if it is signal.SIGINT else signal.SIG_DFL)

LEFT_OUT = pytest.StashKey[LeftOut]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--suite",
        choices=("basic", "real", "all"),
        help="basic: tests that need nothing but Python, git, a shell and the lab's own server, and are quick (make test); "
        "real: the others that this machine has the parts for, but for those marked soak (make test-real); "
        "all: everything but the tests marked faults",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LEFT_OUT] = LeftOut()


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Let each worker compile its share of the test modules first, so that not every worker compiles all of them.

    In a fresh checkout that is half of what collecting computes.
    """
    number, workers = (
        os.environ.get("PYTEST_XDIST_WORKER", "gw").removeprefix("gw"),
        os.environ.get("PYTEST_XDIST_WORKER_COUNT"),
    )
    if (
        not number
        or not workers
        or sys.dont_write_bytecode
        or session.config.args != session.config.getini("testpaths")
    ):
        return
    for path in sorted(TESTS.rglob("test_*.py"))[int(number) :: int(workers)]:
        with contextlib.suppress(Exception):  # collecting tells of it
            importlib.import_module(".".join(path.relative_to(TESTS.parent).with_suffix("").parts))


def pytest_itemcollected(item: pytest.Item) -> None:
    """Derive unit, host, docker and systemd from the real parts that the test asks for."""
    for kind in kinds(_parts(item)):
        item.add_marker(kind)


def _parts(item: pytest.Item) -> list[str]:
    """The real parts that the test needs, each once.

    Raises pytest.UsageError for a part that tests/support/requirements.py does not know.
    """
    parts = list(dict.fromkeys(part for mark in item.iter_markers("real") for part in mark.args))
    if unknown := [part for part in parts if part not in PARTS]:
        raise pytest.UsageError(
            f"{item.nodeid} needs {', '.join(unknown)}, which tests/support/requirements.py does not know"
        )
    return parts


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the suite that this machine has the parts for, and count the others by what they need.

    With RUNBOOK_TEST_ALL=1 a part that is missing is an error.
    """
    if config.option.collectonly:
        return  # a list of all tests, whatever this machine can run
    kept, away = [], []
    for item in items:
        (kept if _belongs(item, config) else away).append(item)
    kept.sort(key=_turn)
    items[:] = kept
    if away:
        config.hook.pytest_deselected(items=away)


def _turn(item: pytest.Item) -> tuple[bool, bool, bool]:
    """When its file has its turn: what takes long first, so that nobody waits for it at the end."""
    alone, longest = (item.get_closest_marker(name) is None for name in ("alone", "longest"))
    return alone, longest, "e2e" not in item.path.parts


def _belongs(item: pytest.Item, config: pytest.Config) -> bool:
    left_out, suite = config.stash[LEFT_OUT], config.getoption("--suite")
    parts = _parts(item)
    markers = {marker.name for marker in item.iter_markers()}
    if markers & LEFT_TO_SOAK[suite]:
        left_out.soak += 1
        return False
    later = [part for part in parts if not basic(part)] + ([SLOW] if SLOW in markers else [])
    if suite == "basic" and later:
        left_out.leave(later)
        return False
    if suite == "real" and not later:
        return False  # `make test` has it
    lacking = [part for part in parts if not present(part)]
    if lacking and os.environ.get("RUNBOOK_TEST_ALL") == "1":
        raise pytest.UsageError(f"{item.nodeid} needs {', '.join(lacking)}, and RUNBOOK_TEST_ALL=1 leaves nothing out")
    if lacking:
        left_out.lack(lacking)
    return not lacking


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of xdist tells what it left out; all of them collect the same."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = session.config.stash[LEFT_OUT].packed()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    if told := getattr(node, "workeroutput", {}).get("left_out"):
        node.config.stash[LEFT_OUT] = LeftOut.unpacked(told)


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Name a test that fails at once, where the progress of all shows letters: a run may be ended before its summary."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        sys.stdout.write(f"\nFAILED {report.nodeid} ({report.when})\n")
        sys.stdout.flush()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """One line for each part that is missing, and for each other reason why a test was left out."""
    left_out = config.stash[LEFT_OUT]
    left_out.skipped.update(reason_of(report) for report in terminalreporter.stats.get("skipped", ()))
    for line in left_out.lines():
        terminalreporter.write_line(line)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Tests run beside each other, but for those marked `alone`: they wait for the others to end, who then wait for them."""
    alone = item.get_closest_marker("alone") is not None
    with (TURNS / "gate").open("w") as gate, (TURNS / "turn").open("w") as turn:
        fcntl.flock(gate, fcntl.LOCK_EX)  # nobody begins while one waits to be alone
        fcntl.flock(turn, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(gate, fcntl.LOCK_UN)
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo) -> Iterator[None]:
    """With RUNBOOK_TEST_ALL=1, a test that leaves itself out on its way has failed."""
    report = yield
    if report.skipped and os.environ.get("RUNBOOK_TEST_ALL") == "1":
        report.outcome = "failed"
        report.longrepr = f"left out, and RUNBOOK_TEST_ALL=1 leaves nothing out: {report.longrepr}"
    return report


@pytest.fixture(autouse=True)
def _locks_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that one test leaves running does not keep the next one waiting for this machine's lock."""
    place = Path(tempfile.mkdtemp(dir=LOCKS))
    (place / ".runbook-locks").touch()
    monkeypatch.setenv("RUNBOOK_LOCK_PLACES", str(place))
    monkeypatch.setenv("XDG_STATE_HOME", str(place / "state"))  # nor does it name what that one left undone
