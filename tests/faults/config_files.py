"""Files that are not what they were, on disks that do not take them, and two who want the same."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.faults.environment import Place, Told

CONFIG = "rollout:\n  timeout: 60   # seconds\n" + "".join(f"# line {it}\n" for it in range(800))


def _patch(place: Place, config: Path, more: str = "") -> str:
    words = f"path: {config}, set: {{rollout.timeout: 7200}}{more}"
    return place.playbook(f"remediate:\n  - {{id: patch, config_patch: {{{words}}}}}\n")


def _after_the_plan(place: Place, happens: Callable[[], object], book: str) -> Told:
    """What becomes of a plan that a person has seen, and agrees to after something has happened."""
    run = place.start("run", book, "--hosts", "all", terminal=True)
    run.says("Do this on 1 host?")
    happens()
    os.write(run.terminal, b"y\n")
    return run.ended()


def full_disk(place: Place) -> Told:
    """The disk fills up before the new file is written."""
    there, disk = place.disk("disk", "size=64k")
    (disk / "train.yaml").write_text(CONFIG)

    def fill() -> None:
        with contextlib.suppress(OSError), (disk / "filling").open("wb", buffering=0) as filling:
            while True:
                filling.write(b"x" * 4096)

    said = _after_the_plan(place, fill, _patch(place, there / "train.yaml"))
    assert (disk / "train.yaml").read_text() == CONFIG
    assert sorted(it.name for it in disk.iterdir()) == ["filling", "train.yaml"]
    return said


def read_only_disk(place: Place) -> Told:
    """The disk becomes read-only before the new file is written."""
    there, disk = place.disk("disk", "size=64k")
    (disk / "train.yaml").write_text(CONFIG)
    remount = (*place.inside, "mount", "-o", "remount,ro", str(there))
    again = lambda: subprocess.run(remount, check=True)  # noqa: E731 - handed on
    said = _after_the_plan(place, again, _patch(place, there / "train.yaml"))
    assert (disk / "train.yaml").read_text() == CONFIG
    return said


def file_changes(place: Place) -> Told:
    """Somebody else edits the file while the plan is read."""
    config = place.file("job/train.yaml", CONFIG)
    edited = CONFIG.replace("60", "61")
    said = _after_the_plan(place, lambda: config.write_text(edited), _patch(place, config))
    assert config.read_text() == edited
    assert [it.name for it in config.parent.iterdir()] == ["train.yaml"]
    return said


def file_changes_in_the_write(place: Place) -> Told:
    """The file changes while its new text is checked on the host."""
    config = place.file("job/train.yaml", CONFIG)
    validate = f", validate: [sh, -c, 'echo mine: 1 >>{config}', sh, '{{}}']"
    said = place.run(_patch(place, config, validate), "--yes")
    assert config.read_text() == CONFIG + "mine: 1\n"
    assert [it.name for it in config.parent.iterdir()] == ["train.yaml"]
    return said


def symlink_instead(place: Place) -> Told:
    """Somebody puts a link to another file, of the same content, in the place of the file while the plan is read."""
    config, other = place.file("job/train.yaml", CONFIG), place.file("elsewhere/shadow", CONFIG)

    def swap() -> None:
        config.unlink()
        config.symlink_to(other)

    said = _after_the_plan(place, swap, _patch(place, config))
    assert other.read_text() == CONFIG
    assert config.is_symlink()
    assert [it.name for it in (*config.parent.iterdir(), *other.parent.iterdir())] == ["train.yaml", "shadow"]
    return said


def two_at_once(place: Place) -> Told:
    """Two runs want to change one host; the second waits, looks again, and finds nothing left to do."""
    log, go, done = (place.folder / it for it in ("writes", "go", "done"))
    book = place.playbook(
        f"remediate:\n  - id: write\n    command:\n      check: {{script: 'test -e {done}'}}\n"
        f"      do: {{script: 'echo written >>{log}; until test -e {go}; do sleep 0.1; done; touch {done}'}}\n"
    )
    first = place.start("run", book, "--hosts", "all", "--yes")
    first.until(log.exists, "the first one writes")
    told = place.file("second.jsonl", "")
    second = place.start("run", book, "--hosts", "all", "--yes", "--report", str(told))
    second.until(lambda: "another run is changing this host" in told.read_text(), "the second one waits")
    go.touch()
    assert first.ended().code == 0
    said = second.ended()
    assert log.read_text() == "written\n"
    assert said.writes() == []
    return said
