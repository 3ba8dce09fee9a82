"""A person who is asked: the plans of all sites are shown, and no more than that is done, at the sites themselves."""

from __future__ import annotations

import pytest

from tests.cluster.site_scene import Scene
from tests.support.program import on_terminal

pytestmark = [pytest.mark.real("postgres"), pytest.mark.slow]


@pytest.fixture
def staffed(tmp_path, cluster):
    made = Scene(tmp_path, cluster, {"h0": "berlin", "h1": "berlin", "h2": "oslo"}).made()
    made.worker("berlin")
    made.worker("oslo")
    yield made
    made.close()


def asked(scene: Scene, answer: str, *words: str) -> tuple[int, str]:
    argv = (
        "run",
        "toy.yaml",
        "-i",
        "hosts.yaml",
        "--hosts",
        "all",
        "-e",
        f"place={scene.folder / 'marks'}",
        "--via",
        "cluster",
    )
    return on_terminal((*argv, *words), answer, cwd=scene.folder, **scene.environment)


def test_a_yes_does_what_was_shown(staffed):
    """Mutant: ``carry_out`` that orders nothing."""
    code, said = asked(staffed, "yes\n")
    assert code == 0, said
    assert "3 resolved" in said
    assert staffed.marks() == {"h0": 1, "h1": 1, "h2": 1}
    phases = staffed.cluster.sql("SELECT phase, count(*) FROM runbook.shard GROUP BY phase ORDER BY phase")
    assert phases == [("apply", 2), ("probe", 2)]


def test_a_no_changes_nothing(staffed):
    code, said = asked(staffed, "no\n")
    assert code == 130, said
    assert staffed.marks() == {}
    assert staffed.cluster.sql("SELECT count(*) FROM runbook.shard WHERE phase = 'apply'") == [(0,)]


def test_hosts_for_which_nothing_was_shown_are_not_ordered_again(staffed):
    """Mutant: ``carry_out`` for every host."""
    (staffed.folder / "marks/h0.mark").write_text("done\n")
    code, said = asked(staffed, "yes\n")
    assert (code, staffed.marks()) == (0, {"h0": 1, "h1": 1, "h2": 1}), said
    hosts = staffed.cluster.sql("SELECT hosts FROM runbook.shard WHERE phase = 'apply' ORDER BY number")
    assert hosts == [(["h1"],), (["h2"],)]
