"""kernel_module: versions of a module and its library, what uses it, and when it is reloaded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from runbook.errors import ConfigError, ProbeError
from runbook.language.arguments import build
from runbook.library.kernel import kernel_module
from runbook.library.kernel.facts.modules import ask_module, load, read_module
from runbook.protocols import Fails, Holds
from runbook.values.command import Completed, Effect
from runbook.values.plan import Blocked, Change, NoChange, Risk, Skip
from runbook.values.types import Unknown
from tests.support.probe_driver import SHELLS, Here
from tests.support.real_processes import each
from tests.support.tables import every_row

ARGS = build(kernel_module.Args, {"name": "nvidia", "library": "libnvidia-ml.so.1"})


def planted(root: Path, version: str = "570.1.2", users: int = 0) -> Path:
    """Modules of a driver: nvidia_drm uses nvidia_modeset, which uses nvidia, as nvidia_uvm does."""
    uses = {
        "nvidia": ["nvidia_uvm", "nvidia_modeset"],
        "nvidia_modeset": ["nvidia_drm"],
        "nvidia_uvm": [],
        "nvidia_drm": [],
    }
    for name, holders in uses.items():
        place = root / "sys/module" / name
        (place / "holders").mkdir(parents=True)
        (place / "refcnt").write_text(f"{len(holders) + (users if name == 'nvidia' else 0)}\n")
        (place / "version").write_text(f"{version}\n")
        (place / "initstate").write_text("live\n")
    for name, holders in uses.items():
        for holder in holders:
            (root / "sys/module" / name / "holders" / holder).symlink_to(f"../../{holder}")
    return root


def tools(folder: Path, installed: str = "580.3", library: str = "580.3") -> Path:
    """modinfo and ldconfig that know these versions; none: not installed."""
    folder.mkdir(exist_ok=True)
    (folder / f"libnvidia-ml.so.{library}").touch()
    lib = folder / "libnvidia-ml.so.1"
    lib.symlink_to(f"libnvidia-ml.so.{library}")
    texts = {
        "modinfo": f"echo {installed}" if installed else "echo 'modinfo: ERROR: Module nvidia not found.' >&2; exit 1",
        "ldconfig": f"printf '\\tlibnvidia-ml.so.1 (libc6,x86-64) => {lib}\\n'" if library else "exit 0",
    }
    for name, text in texts.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return folder


def module_in(root: Path, path: Path | None = None, shell: str = "dash", library: str = "libnvidia-ml.so.1"):
    here = Here(path=path, shell=SHELLS[shell])
    command = ask_module("nvidia", library, str(root))
    assert command.effect is Effect.READ
    return read_module("nvidia", here.run(command)[0])


@pytest.mark.parametrize("shell", each(SHELLS))
def test_versions_users_and_the_order_in_which_modules_can_be_unloaded(tmp_path, shell):
    """Mutants: walk without recursion; users that count references between the modules."""
    seen = module_in(planted(tmp_path / "root", users=3), tools(tmp_path / "bin"), shell, library="")
    assert (seen.loaded, seen.version, seen.users, seen.built_in) == (True, "570.1.2", 3, False)
    assert seen.installed == "580.3" or shell == "busybox", "a busybox may have a modinfo of its own"
    order = seen.modules
    assert sorted(order) == ["nvidia", "nvidia_drm", "nvidia_modeset", "nvidia_uvm"]
    assert order[-1] == "nvidia"
    assert order.index("nvidia_drm") < order.index("nvidia_modeset")


def test_the_version_of_a_library_is_that_of_its_file(tmp_path):
    tools(tmp_path / "bin", library="580.126.03")
    here = Here(path=tmp_path / "bin")
    (done,) = here.run(ask_module("nvidia", "libnvidia-ml.so.1"))
    assert read_module("nvidia", done).library == "580.126.03"


def test_a_module_that_is_not_loaded_or_not_installed_has_unknown_versions_with_the_reason(tmp_path):
    (tmp_path / "root/sys/module").mkdir(parents=True)
    seen = module_in(tmp_path / "root", tools(tmp_path / "bin", installed=""))
    assert (seen.loaded, seen.modules) == (False, ())
    assert "not loaded" in seen.version.why
    assert "ERROR: Module nvidia not found" in seen.installed.why


def test_a_kernel_that_shows_no_modules_is_unknown(tmp_path):
    (tmp_path / "root").mkdir()
    with pytest.raises(ProbeError, match="there is no"):
        module_in(tmp_path / "root")
    with pytest.raises(ProbeError, match="no answer in time"):
        read_module("nvidia", Completed(exit_code=None, timed_out=True))


OLD = kernel_module.State(
    loaded=True, version="570", installed="580", library="580", stale=True, library_differs=True, users=0,
    modules=("nvidia_uvm", "nvidia"), root=True,
)  # fmt: skip


def test_it_is_unloaded_in_order_and_loaded_again_on_every_way_out():
    change = kernel_module.decide(ARGS, OLD)
    assert isinstance(change, Change)
    assert [it.argv for it in (*change.commands, *change.finally_)] == [
        ("nvidia_uvm", "nvidia"),
        ("nvidia", "nvidia_uvm"),
    ]
    assert all(it.unkillable for it in (*change.commands, *change.finally_))
    assert (change.risk, [it.key for it in change.targets]) == (Risk.RESETS_HARDWARE, ["nvidia_uvm", "nvidia"])


@every_row(
    ("changed", "why"),
    [
        ({"users": 2}, "2 references"),
        ({"users": Unknown(why="no refcnt")}, "no refcnt"),
        ({"stale": Unknown(why="no modinfo")}, "no modinfo"),
        ({"container": True}, "container"),
        ({"built_in": True}, "part of the kernel"),
        ({"root": False}, "become: true"),
        ({"library": "590"}, "libnvidia-ml.so.1 is 590, the installed module 580"),
        ({"stale": False, "installed": "570"}, "changes nothing"),
    ],
)
def test_what_stands_in_the_way_blocks_and_is_named(changed, why):
    """Mutants: decide without each of its obstacles."""
    decision = kernel_module.decide(ARGS, replace(OLD, **changed))
    assert isinstance(decision, Blocked)
    assert why in decision.why


def test_one_version_needs_nothing_and_no_module_is_skipped():
    new = replace(OLD, version="580", stale=False, library_differs=False)
    assert isinstance(kernel_module.decide(ARGS, new), NoChange)
    assert isinstance(kernel_module.holds(ARGS, new), Holds)
    gone = replace(OLD, loaded=False, version=Unknown(why="x"), stale=Unknown(why="x"))
    assert isinstance(kernel_module.decide(ARGS, gone), Skip)
    for state in (gone, OLD, replace(new, library_differs=True), replace(new, library_differs=Unknown(why="x"))):
        assert isinstance(kernel_module.holds(ARGS, state), Fails)


def test_what_is_loaded_already_is_not_loaded_again_and_a_failure_is_told(tmp_path):
    (tmp_path / "modprobe").write_text(f'#!/bin/sh\necho "$2" >>{tmp_path}/called; exit 1\n')
    (tmp_path / "modprobe").chmod(0o755)
    there = next(it.name for it in Path("/sys/module").iterdir())
    (done,) = Here(path=tmp_path).run(load((there, "no_such_module_x")))
    assert (done.exit_code, (tmp_path / "called").read_text()) == (18, "no_such_module_x\n")


@every_row("wrong", [{"name": "../x"}, {"name": "-f"}, {"name": "nvidia", "library": "/tmp/x.so"}])
def test_names_that_are_none_are_refused(wrong):
    with pytest.raises(ConfigError, match="valid name"):
        build(kernel_module.Args, wrong)
