"""Plans that an agent made: they say so, and nothing applies them before a person has approved them on a terminal."""

from __future__ import annotations

import getpass
import json
from pathlib import Path

import pytest

from tests.past_runs.scene import resealed
from tests.support.mcp_client import call, value
from tests.support.program import Said, on_terminal, runbook
from tests.support.sshd import make_key

pytestmark = [pytest.mark.real("ssh"), pytest.mark.slow]

ME = getpass.getuser()


def env(folder: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(folder / "state"), "HOME": str(folder)}


@pytest.fixture
def keys(folder):
    found = {name: make_key(folder / name) for name in (ME, "carol")}
    lines = (f"{name}@x {' '.join(key.with_suffix('.pub').read_text().split()[:2])}\n" for name, key in found.items())
    (folder / "allowed_signers").write_text("".join(lines))
    (folder / "allowed_signers").chmod(0o644)
    return found


def made(folder: Path) -> dict:
    return value(call(folder, "plan", playbook="tune", hosts="here"))


def apply(folder: Path, file: str, *words: str) -> Said:
    return runbook("apply", file, "--yes", *words, cwd=folder, **env(folder))


def approve(folder: Path, file: str, key: Path) -> str:
    words = ("approve", file, "--key", str(key), "-o", f"{file}.{key.name}.sig")
    code, said = on_terminal(words, "y\n", cwd=folder, **env(folder))
    assert code == 0, said
    return said


def target(folder: Path) -> Path:
    return folder / "target" / "conf"


def test_a_plan_says_that_an_agent_made_it_and_is_named_by_its_digest(folder):
    """Mutants: a plan without ``agent``; a file that has another name."""
    answer = made(folder)
    file = Path(answer["file"])
    assert json.loads(file.read_text())["digest"] == answer["plan"] == file.stem
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert f"made by an agent through runbook mcp, for {ME} on " in answer["text"]["untrusted_data"]
    assert answer["a_person_types"] == [f"runbook {word} {file}" for word in ("show", "approve", "apply")]
    assert "made by an agent through runbook mcp" in runbook("show", str(file), cwd=folder, **env(folder)).out
    assert not target(folder).exists()


def test_an_agents_plan_is_not_applied_before_a_person_has_approved_it(folder, keys):
    """Mutants: document.py ``signatures`` that gives ``approvals``; apply.py ``_unapproved`` that asks for those."""
    file = made(folder)["file"]
    without = apply(folder, file)
    assert without.code == 2
    assert "was made by an agent, and needs 1 approval of a person, and has 0" in without.err
    assert not target(folder).exists()
    assert apply(folder, file, "--dry-run").code == 0
    approve(folder, file, keys[ME])  # the person for whom the agent made it, where the playbook asks for nobody else
    done = apply(folder, file)
    assert done.code == 0, done.err
    assert target(folder).read_text() == "new 1\n"
    assert "already applied" in apply(folder, file).err


def test_nobody_is_known_without_signers(folder):
    file = made(folder)["file"]
    assert "nothing says whose key is whose" in apply(folder, file).err
    assert not target(folder).exists()


def test_an_agents_plan_is_approved_on_a_terminal_only(folder, keys):
    """Mutants: approve.py without its refusal of --yes."""
    file = made(folder)["file"]
    done = runbook("approve", file, "--yes", "--key", str(keys["carol"]), cwd=folder, **env(folder))
    assert (done.code, "on a terminal, without --yes" in done.err) == (2, True)
    assert not list(Path(file).parent.glob("*.sig"))
    assert "made by an agent through runbook mcp" in approve(folder, file, keys["carol"])


def test_where_another_person_has_to_approve_the_agents_own_user_does_not_count(folder, keys):
    """Mutants: ``approvals_of`` that excludes nobody for an agent's plan."""
    book = folder / "playbooks" / "tune.yaml"
    book.write_text(f"{book.read_text()}limits: {{approvals: 1}}\n")
    file = made(folder)["file"]
    approve(folder, file, keys[ME])
    own = apply(folder, file)
    assert (own.code, f"{ME}@x made the plan or applies it" in own.err) == (2, True), own.err
    approve(folder, file, keys["carol"])
    assert apply(folder, file).code == 0


def test_an_approval_is_of_the_bytes_that_were_shown(folder, keys):
    """Mutants: an apply that takes any signature beside the plan."""
    file = Path(made(folder)["file"])
    approve(folder, str(file), keys[ME])
    file.write_bytes(resealed({**json.loads(file.read_text()), "plan": "ab" * 16}))
    done = apply(folder, str(file))
    assert (done.code, "not a good signature of this plan" in done.err) == (2, True), done.err


def test_an_agents_plan_is_not_replanned(folder, keys):
    """Mutants: apply.py that asks ``approvals`` before --replan."""
    file = made(folder)["file"]
    approve(folder, file, keys[ME])
    code, said = on_terminal(("apply", file, "--replan"), "y\n", cwd=folder, **env(folder))
    assert (code, "a new plan would need approvals of its own" in said) == (2, True), said


def test_a_folder_of_many_plans_takes_no_more(folder):
    """Mutants: proposals.py without MOST_PLANS."""
    plans = folder / "plans"
    plans.mkdir(mode=0o700)
    for number in range(500):
        (plans / f"{number}.json").touch()
    result = call(folder, "plan", "--plans", str(plans), playbook="tune", hosts="here")
    assert result.is_error
    assert "a person has to remove old ones first" in result.structured_content["error"]
