"""What earlier runs did counts in later ones: in expressions, and in limits over several runs; what is edited stops."""

from __future__ import annotations

import os
import re
import shutil
import time
from pathlib import Path

import pytest

from tests.past_runs.counting_scene import cut_in
from tests.support.program import Said, runbook

pytestmark = pytest.mark.slow  # whole runs, one after the other

HOSTS = [f"h{it}" for it in range(5)]
INVENTORY = "hosts:\n" + "".join(f"  {it}: {{transport: local}}\n" for it in HOSTS)
BOOK = """\
name: counted
about: Counts on each host how often it was changed.
inputs:
  place: {about: Where it counts., type: string, required: true}
limits: LIMITS
diagnose:
  - id: seen
    command:
      parse: json
      params: ["{{ inputs.place }}/{{ host.name }}.count"]
      script: 'echo "{\\"n\\": $(cat "$1" 2>/dev/null | wc -l)}"'
findings:
  - id: known
    when: history.runs('7d') >= 0
    severity: info
    say: "{{ history.runs('7d') }} {{ history.changed('count', '7d') }} {{ history.previous('seen.value.n') }}"
  - {id: due, when: "true", severity: error, say: "it is always to be done"}
remediate:
  - id: count
    command: {do: {params: ["{{ inputs.place }}/{{ host.name }}.count"], script: 'echo >>"$1"'}}
"""


class Scene:
    """Hosts on this machine that count how often they were changed."""

    def __init__(self, folder: Path, limits: str = "{deadline: 5m}") -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        (folder / "counted.yaml").write_text(BOOK.replace("LIMITS", limits))
        (folder / "hosts.yaml").write_text(INVENTORY)

    def run(self, *words: str, hosts: str = "h0", inventory: str = "hosts.yaml") -> Said:
        words = words or ("--yes",)
        where = ("--hosts", hosts, "-i", inventory, "-e", f"place={self.folder}", "--output", "json")
        return runbook("run", "counted.yaml", *where, *words, cwd=self.folder)

    def counts(self, host: str = "h0") -> int:
        path = self.folder / f"{host}.count"
        return len(path.read_text().splitlines()) if path.exists() else 0


def journals() -> list[Path]:
    return sorted(Path(os.environ["XDG_STATE_HOME"], "runbook", "runs").glob("*.jsonl"))


def edited(path: Path, old: bytes, new: bytes) -> None:
    text = path.read_bytes()
    assert old in text
    path.write_bytes(text.replace(old, new, 1))


def why(said: Said, host: str = "h0") -> str:
    step = said.step(host, "count")
    return step["why"] if step["status"] == "blocked" else ""


def test_expressions_see_what_earlier_runs_changed_and_saw(tmp_path):
    """Mutants: a dry run that counts; a past that has this run, too; the first answer in place of the last."""
    scene = Scene(tmp_path)
    assert scene.run().finding("h0", "known")["say"] == "0 0 None"
    assert scene.run("--dry-run").finding("h0", "known")["say"].startswith("1 1 ")
    assert scene.run().finding("h0", "known")["say"] == "1 1 1"
    assert scene.run("--dry-run").finding("h0", "known")["say"] == "2 2 1"
    assert scene.run("--dry-run", hosts="h1").finding("h1", "known")["say"] == "0 0 None"


@pytest.mark.soak
def test_a_host_is_changed_twice_and_a_third_run_is_refused(tmp_path):
    """Mutants: ``begin`` and ``refused`` that never refuse; ``<=`` for ``<`` in the count."""
    scene = Scene(tmp_path, "{attempts: {per_host: 2, within: 7d}}")
    assert [why(scene.run()) for _ in range(2)] == ["", ""]
    third, dry = scene.run(), scene.run("--dry-run")
    for said in (third, dry):
        assert "changed the host within 7 d, and 2 is the most" in why(said)
        assert re.search("; it may be changed again in (6 d 23 h|7 d); ", why(said))
        assert "`runbook history list --host h0 --playbook counted`" in why(said)
        assert said.finding("h0", "due")["status"] == "present"
    used = scene.run("--dry-run", hosts="h0,h1").document["limits"]
    assert (used["attempts"], used["attempts_within"], used["used"]["attempts"]) == (2, 604800.0, {"h0": 2})
    assert (third.code, scene.counts()) == (1, 2)
    assert why(scene.run(hosts="h1"), "h1") == ""


@pytest.mark.soak
def test_dry_runs_and_other_inventories_do_not_count(tmp_path):
    """Mutants: an inventory that is not compared; attempts that count runs without a change."""
    scene = Scene(tmp_path, "{attempts: {per_host: 1, within: 7d}}")
    (tmp_path / "other.yaml").write_text(INVENTORY)
    for _ in range(2):
        assert why(scene.run("--dry-run")) == ""
    assert why(scene.run(inventory="other.yaml")) == ""
    assert why(scene.run()) == ""
    assert "limits.attempts" in why(scene.run())
    assert scene.counts() == 2


def test_a_host_rests_for_the_cooldown(tmp_path):
    """Mutant: a cooldown that is compared the other way round."""
    scene = Scene(tmp_path, "{cooldown: 1h}")
    assert why(scene.run()) == ""
    assert "limits.cooldown: run" in why(scene.run())
    assert scene.counts() == 1
    Scene(tmp_path, "{cooldown: 20ms}")
    time.sleep(0.05)  # noqa: TID251 the program goes by the clock of this machine
    assert why(scene.run()) == ""


@pytest.mark.parametrize(("share", "most"), [('"40%"', 2), ("3", 3)])
@pytest.mark.soak
def test_the_breaker_counts_this_run_and_earlier_ones(tmp_path, share, most):
    """Mutants: hosts of this run, or of earlier ones, that do not count."""
    scene = Scene(tmp_path, f"{{breaker: {{hosts: {share}, within: 1h}}}}")
    assert why(scene.run(hosts="h4"), "h4") == ""
    said = scene.run(hosts="all")
    assert sum(scene.counts(it) for it in HOSTS) == most + 1  # h4 is changed again: it is no further host
    refused = [it for it in HOSTS if why(said, it)]
    assert len(refused) == len(HOSTS) - most
    assert all("limits.breaker" in why(said, it) for it in refused)
    assert {said.host(it)["verdict"] for it in refused} == {"unresolved"}
    later = scene.run(hosts=refused[0])
    assert "limits.breaker" in why(later, refused[0])


LIMITS = ("{attempts: {per_host: 9, within: 7d}}", "{cooldown: 20ms}", '{breaker: {hosts: "100%", within: 1h}}')


def test_a_record_that_was_edited_stops_changes_and_is_unknown(tmp_path):
    """Mutants: faults of a journal that are skipped; an Unknown that lets a host be changed."""
    scene = Scene(tmp_path, LIMITS[0])
    assert why(scene.run()) == ""
    edited(journals()[0], b'"kind": "change_started"', b'"kind": "change_stopped"')
    found = {}
    for limits in LIMITS:
        said = Scene(tmp_path, limits).run()
        found[limits] = ("is not as it was written" in why(said), said.finding("h0", "known")["status"])
    assert found == dict.fromkeys(LIMITS, (True, "unknown"))
    assert scene.counts() == 1


def cut(path: Path) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))


def another_first_line(path: Path) -> None:
    edited(path, b'"counted"', b'"another"')


def writable(path: Path) -> None:
    path.chmod(0o666)


def test_a_record_that_is_damaged_in_any_way_is_not_believed(tmp_path, monkeypatch):
    """Each damage is done to a copy of all that was recorded."""
    scene = Scene(tmp_path, "{attempts: {per_host: 9, within: 7d}}")
    assert why(scene.run()) == ""
    state = Path(os.environ["XDG_STATE_HOME"])
    damages = (cut, Path.unlink, another_first_line, writable)
    believed = {}
    for damage in damages:
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / damage.__name__))
        shutil.copytree(state, tmp_path / damage.__name__)
        (path,) = journals()
        damage(path)
        reason = why(scene.run())
        believed[damage.__name__] = "" if "nobody knows how often" in reason else reason or "changed"
    assert believed == {damage.__name__: "" for damage in damages}
    assert scene.counts() == 1


def test_a_damaged_record_of_another_playbook_stops_nothing(tmp_path):
    scene = Scene(tmp_path, "{attempts: {per_host: 9, within: 7d}}")
    (tmp_path / "other.yaml").write_text(BOOK.replace("LIMITS", "{deadline: 5m}").replace("counted", "other"))
    assert runbook("run", "other.yaml", "--hosts", "h0", "-i", "hosts.yaml", "-e", f"place={tmp_path}", "--yes", cwd=tmp_path).code == 1  # fmt: skip
    edited(journals()[0], b'"kind": "change_started"', b'"kind": "change_stopped"')
    assert why(scene.run()) == ""


def test_a_run_without_a_record_is_held_to_the_limits_all_the_same(tmp_path):
    scene = Scene(tmp_path, "{attempts: {per_host: 1, within: 7d}}")
    assert why(scene.run()) == ""
    assert "limits.attempts" in why(scene.run("--yes", "--no-record"))


def test_a_run_that_is_gone_on_with_is_held_to_the_limits(tmp_path):
    """A change that failed counts: it may have done half of its work."""
    scene = Scene(tmp_path, "{attempts: {per_host: 1, within: 7d}}")
    book = tmp_path / "counted.yaml"
    book.write_text(book.read_text().replace("""'echo >>"$1"'""", """'echo >>"$1"; exit 1'"""))
    assert scene.run().host("h0")["verdict"] == "failed"
    said = runbook("resume", "last", "--yes", "--output", "json", cwd=tmp_path)
    assert "limits.attempts" in why(said), said.err
    assert scene.counts() == 1


@pytest.mark.parametrize(
    "limit",
    [
        "attempts: {per_host: 1, within: 7d}",
        *(pytest.param(it, marks=pytest.mark.soak) for it in ("cooldown: 1h", "breaker: {hosts: 1, within: 1h}")),
    ],
)
def test_a_host_that_was_left_in_the_middle_is_finished_and_that_is_one_attempt(tmp_path, limit):
    """Mutant: a past that is not told which run is gone on with."""
    scene = Scene(tmp_path, f"{{{limit}}}")
    book = tmp_path / "counted.yaml"
    step = book.read_text().splitlines()[-1]
    book.write_text(f"{book.read_text()}  - id: more\n{step}\n")
    assert scene.run().code == 1  # what was found is still there
    run = cut_in("count")
    resumed = runbook("resume", run, "--yes", "--assume-done", "count", "--output", "json", cwd=tmp_path)
    assert resumed.step("h0", "more")["status"] == "changed", resumed.out + resumed.err
    other = "h1" if "breaker" in limit else "h0"
    again = scene.run(hosts=other)
    assert "limits." in why(again, other), again.out


def test_a_saved_plan_is_held_to_the_limits(tmp_path):
    """What is applied is asked for again: a run in between has used the limit up."""
    scene = Scene(tmp_path, "{attempts: {per_host: 1, within: 7d}}")
    where = ("--hosts", "h0", "-i", "hosts.yaml", "-e", f"place={tmp_path}")
    runbook("plan", "counted.yaml", *where, "-o", "plan.json", cwd=tmp_path)
    assert why(scene.run()) == ""
    said = runbook("apply", "plan.json", "--yes", "--output", "json", cwd=tmp_path)
    assert "limits.attempts" in why(said), said.err
    assert scene.counts() == 1


def test_records_that_were_pruned_within_the_time_are_missed(tmp_path):
    scene = Scene(tmp_path, "{attempts: {per_host: 9, within: 7d}}")
    assert why(scene.run()) == ""
    assert runbook("history", "prune", "--keep-size", "0", cwd=tmp_path).code == 0
    assert not journals()
    assert "was pruned" in why(scene.run())
