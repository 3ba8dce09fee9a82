"""Runs through workers that are continued and undone through them, and their records beside those of a run without workers."""

from __future__ import annotations

import json
import re

import pytest

from tests.cluster.site_scene import Scene, verdicts
from tests.support.program import Said, runbook
from tests.support.waiting import LIMIT, until

pytestmark = [pytest.mark.real("postgres"), pytest.mark.slow]

SITES = {f"h{number}": ("berlin" if number < 4 else "oslo") for number in range(6)}
FILES = """\
name: files
about: Writes a file for each host.
inputs:
  place: {about: The directory of the files., type: string, required: true}
remediate:
  - {id: write, file: {path: "{{ inputs.place }}/{{ host.name }}.conf", content: "new\\n", mode: '0600'}}
"""


@pytest.fixture
def scene(tmp_path, cluster):
    made = Scene(tmp_path, cluster, dict(SITES)).made()
    yield made
    made.close()


@pytest.fixture
def staffed(scene):
    scene.worker("berlin")
    scene.worker("oslo")
    return scene


def again(scene: Scene, *words: str, **env: str) -> Said:
    given = ("-i", "hosts.yaml", "--via", "cluster", "--output", "json")
    return runbook(*words, *given, cwd=scene.folder, timeout=LIMIT, **{**scene.environment, **env})


def test_hosts_that_no_worker_began_are_gone_on_with(scene):
    """Mutant: a resume that orders from nobody."""
    scene.worker("berlin")
    first = scene.run("--yes", "--start-within", "3s")
    assert set(verdicts(first)) == set(SITES)
    scene.worker("oslo")
    said = again(scene, "resume", first.document["run"], "--yes")
    assert verdicts(said) == {"h4": "resolved", "h5": "resolved"}, said.err
    assert scene.marks() == dict.fromkeys(SITES, 1)
    shown = runbook("history", "show", said.document["run"], cwd=scene.folder, **scene.environment)
    assert f"resumes    {first.document['run']}" in shown.out


def test_a_change_in_flight_is_not_sent_again_by_whoever_goes_on(scene):
    """Mutant: an order without ``earlier``."""
    book = scene.folder / "toy.yaml"
    lines = book.read_text().splitlines()
    book.write_text("\n".join(line for line in lines if not line.lstrip().startswith("check:")))  # no probe can tell
    victim = scene.worker("berlin", "--parallel", "1")
    process = scene.start("--yes", "-e", "takes=2", hosts="h0")
    until(lambda: scene.marks().get("h0"))
    victim.kill()
    scene.worker("berlin")
    out, err = process.communicate(timeout=LIMIT)
    first = json.loads(out)
    assert [it["verdict"] for it in first["hosts"]] == ["unknown"], err
    mark = scene.folder / "marks/h0.mark"
    mark.write_text("half\n")  # as if it had not come to its end
    said = again(scene, "resume", first["run"], "--yes")
    assert mark.read_text() == "half\n"
    (step,) = [it for it in said.host("h0")["steps"] if it["id"] == "write"]
    assert step["status"] in ("unknown", "blocked"), step
    assert "--assume-done" in json.dumps(said.document) + said.err


@pytest.mark.parametrize("way", ["at once", "as a plan"])
def test_what_workers_changed_is_undone_through_them(scene, way):
    """Mutants: ``undo --plan`` that works from here whatever ``--via`` says; arguments of an undo that are read as templates; a site that undoes hosts of another one."""
    for site in ("berlin", "oslo"):  # one host after the other: they are one machine, with one place for copies
        scene.worker(site, "--parallel", "1")
    staffed = scene
    place = staffed.folder / "{{ 7 * 7 }}"
    place.mkdir()
    before = {f"{name}.conf": f"old {name}\n" for name in list(SITES)[:5]}
    for name, text in before.items():
        (place / name).write_text(text)
    (staffed.folder / "files.yaml").write_text(FILES)
    done = again(staffed, "run", "files.yaml", "--hosts", "all", "--yes", "-e", f"place={place}")
    assert verdicts(done) == dict.fromkeys(SITES, "resolved"), done.err
    assert {path.read_text() for path in place.iterdir()} == {"new\n"}
    shown = again(staffed, "undo", done.document["run"], "--dry-run")
    assert verdicts(shown) == dict.fromkeys(SITES, "planned"), shown.err
    if way == "at once":
        said = again(staffed, "undo", done.document["run"], "--yes")
    else:
        planned = again(staffed, "undo", done.document["run"], "--plan", "undo.json")
        assert verdicts(planned) == dict.fromkeys(SITES, "planned"), planned.err
        assert json.loads((staffed.folder / "undo.json").read_text())["options"]["via"] == "cluster"
        said = runbook("apply", "undo.json", "--yes", "--output", "json", cwd=staffed.folder, **staffed.environment)
    assert verdicts(said) == dict.fromkeys(SITES, "resolved"), said.err
    assert {path.name: path.read_text() for path in place.iterdir()} == before


def without_times(text: str, run: str) -> list[str]:
    """The lines of *text* without times, and without the id of the run and of the command that recorded it."""
    lines = re.sub(
        r"\d{4}-\d\d-\d\d[T ][0-9:.]+Z?|\d+(\.\d+)? (ms|s)\b|[0-9a-f]{12,}", "...", text.replace(run, "RUN")
    ).splitlines()
    return sorted(line for line in lines if not line.startswith(("command", "process")))


@pytest.mark.parametrize("words", [("--yes",), ("--dry-run",)])
def test_records_are_those_of_a_run_without_workers(staffed, words):
    """Of the client, and of whoever follows the run elsewhere.  Mutant: a client that records no events of workers."""
    here = staffed.run(*words, via="local").document["run"]
    for path in (staffed.folder / "marks").glob("*"):
        path.unlink()
    there = staffed.run(*words).document["run"]
    env = staffed.environment
    elsewhere = {**env, "XDG_STATE_HOME": str(staffed.folder / "elsewhere")}
    attached = runbook("attach", there, "--output", "json", cwd=staffed.folder, **elsewhere)
    assert attached.code == 0, attached.err

    def asked(run: str, own: dict[str, str], *command: str) -> object:
        said = runbook("history", *command, run, cwd=staffed.folder, **own)
        assert said.code == 0, said.err
        return without_times(said.out.replace(own["XDG_STATE_HOME"], "STATE"), run)

    for command in (("show",), ("verify",), ("replay",)):
        assert asked(there, env, *command) == asked(here, env, *command), command
        assert asked(there, elsewhere, *command) == asked(here, env, *command), command
