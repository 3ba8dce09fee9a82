"""A plan that is made through workers is carried out through them: once, where it is still true."""

from __future__ import annotations

import json

import pytest

from tests.cluster.site_scene import Scene, verdicts
from tests.support.program import Said, runbook
from tests.support.waiting import LIMIT

pytestmark = [pytest.mark.real("postgres"), pytest.mark.slow]

SITES = {"h0": "berlin", "h1": "berlin", "h2": "oslo"}


@pytest.fixture
def scene(tmp_path, cluster):
    made = Scene(tmp_path, cluster, dict(SITES)).made()
    made.worker("berlin")
    made.worker("oslo")
    yield made
    made.close()


def said(scene: Scene, *words: str, **env: str) -> Said:
    return runbook(*words, "--output", "json", cwd=scene.folder, timeout=LIMIT, **{**scene.environment, **env})


def plan(scene: Scene, *words: str) -> Said:
    given = ("-i", "hosts.yaml", "--hosts", "all", "-e", f"place={scene.folder / 'marks'}", "--out", "plan.json")
    return said(scene, "plan", "toy.yaml", *given, *words)


def test_a_plan_is_made_and_carried_out_by_workers_and_drifted_hosts_are_left(scene):
    """Mutants: RemoteFleet.carry_out without its condition on the verdict; a plan that forgets that workers made it."""
    toy = scene.folder / "toy.yaml"
    text = toy.read_text().replace('test -e "$1.mark"', 'grep -qs done "$1.mark" || exit 1')
    text = text.replace('echo done >>"$1.mark"', 'echo "done after $3" >>"$1.mark"')
    text = text.replace('| string }}"]', '| string }}", "{{ mark.stdout }}"]')
    toy.write_text(text)
    made = plan(scene, "--via", "cluster")
    assert verdicts(made) == dict.fromkeys(SITES, "planned"), made.err
    assert scene.marks() == {}
    saved = json.loads((scene.folder / "plan.json").read_text())
    assert saved["options"]["via"] == "cluster"
    (scene.folder / "marks/h0.mark").write_text("other\n")  # other work than was shown
    checked = said(scene, "apply", "plan.json", "--dry-run")
    assert scene.marks() == {"h0": 0}, checked.err
    done = said(scene, "apply", "plan.json", "--yes")
    assert verdicts(done) == {"h0": "drifted", "h1": "resolved", "h2": "resolved"}, done.err
    assert scene.marks() == {"h0": 0, "h1": 1, "h2": 1}
    again = said(scene, "apply", "plan.json", "--yes")
    assert (again.code, "was already applied" in again.err) == (2, True)


def test_a_plan_of_workers_is_not_carried_out_from_here(scene):
    """The addresses in the inventory are those that the site sees: from here they may be other machines."""
    assert plan(scene, "--via", "cluster").code == 0
    done = said(scene, "apply", "plan.json", "--yes", RUNBOOK_CLUSTER="")
    assert (done.code, scene.marks()) == (2, {})
    assert "--cluster" in done.err


def test_an_expression_means_the_run_that_made_the_plan(scene):
    """Mutant: an order without ``planned_in``."""
    toy = scene.folder / "toy.yaml"
    toy.write_text(toy.read_text().replace('echo done >>"$1.mark"', 'echo "done {{ run.id }}" >>"$1.mark"'))
    made = plan(scene, "--via", "cluster")
    done = said(scene, "apply", "plan.json", "--yes")
    assert verdicts(done) == dict.fromkeys(SITES, "resolved"), done.err
    assert (scene.folder / "marks/h2.mark").read_text() == f"done {made.document['run']}\n"
