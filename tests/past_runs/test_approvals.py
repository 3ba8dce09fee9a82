"""Plans that others must approve: by signatures that ssh-keygen checks."""

from __future__ import annotations

import os
import shutil

import pytest

from runbook.commands.approve import ApproveOptions, approve_plan
from runbook.commands.plans.approvals import Approval, counted
from runbook.reporting.terminal import Terminal
from tests.past_runs.scene import ME, Scene, alive, asked, ended, resealed
from tests.support.sshd import make_key
from tests.support.tables import every_row

pytestmark = pytest.mark.real("ssh")

LIMITS = "limits: {approvals: %s}\n"


@pytest.fixture
def keys(tmp_path):
    """The keys of carol and dave, of anybody who runs the tests, and of a stranger."""
    return {name: make_key(tmp_path / name) for name in ("carol", "dave", "own", "stranger")}


def public(key) -> str:
    return " ".join(key.with_suffix(".pub").read_text().split()[:2])


def signers(scene: Scene, keys) -> None:
    names = {"carol": "carol@example.com", "dave": "dave", "own": f"{ME.upper()}@example.com"}
    path = scene.folder / "allowed_signers"
    path.write_text("".join(f"{principal} {public(keys[name])}\n" for name, principal in names.items()))
    path.chmod(0o644)


@pytest.fixture
def scene(scenes, keys) -> Scene:
    """A playbook that asks for one approval, with a victim on one host."""
    made = scenes(LIMITS % 1)
    signers(made, keys)
    made.sleeper("a")
    return made


def approve(scene: Scene, key, out: str = "plan.json.other.sig") -> None:
    done = scene.run("approve", "plan.json", "--yes", "--key", str(key), "-o", out)
    assert done.code == 0, done.err


def test_without_a_saved_plan_nothing_is_changed(scene):
    """Mutants: run.py ``_unapproved`` that gives nothing."""
    words = ("run", "sleepers.yaml", "-i", "hosts.yaml", "--hosts", "a", "-e", f"mark={scene.mark}")
    done = scene.run(*words, "--yes")
    assert (done.code, done.out) == (2, "")
    assert "sleepers changes nothing without 1 approval (limits.approvals)" in done.err
    assert "runbook approve plan.json" in done.err
    assert scene.run(*words, "--dry-run").code == 0
    assert scene.run(*words, "--only", "diagnose").code == 1
    assert alive(scene.processes[0])


def test_an_include_takes_no_approval_away(scene):
    """Mutants: includes.py ``as_careful`` that gives the limits of the including playbook."""
    outer = (
        "name: outer\nhosts: all\nremediate:\n  - {id: it, include: sleepers, inputs: {mark: nothing-is-called-so}}\n"
    )
    (scene.folder / "outer.yaml").write_text(outer)
    done = scene.run("run", "outer.yaml", "-i", "hosts.yaml", "--hosts", "a", "--yes")
    assert (done.code, "outer changes nothing without 1 approval" in done.err) == (2, True), done.err


def test_a_plan_is_applied_with_the_approval_of_another_person_only(scene, keys):
    """Mutants: apply.py without ``_unapproved``; approvals.py ``counted`` without the excluded."""
    made = scene.plan()
    assert "it needs 1 approval of others: each runs `runbook approve plan.json`" in made.err
    without = scene.apply()
    assert without.code == 2
    assert "plan.json needs 1 approval, and has 0 (another user runs `runbook approve plan.json`" in without.err
    approve(scene, keys["own"])
    own = scene.apply()
    assert own.code == 2
    assert f"{ME.upper()}@example.com made the plan or applies it: another person has to approve it" in own.err
    approve(scene, keys["carol"], "plan.json.carol.sig")
    shown = scene.run("show", "plan.json").out
    assert "needs 1 approval, has 1" in shown
    assert "  approved by carol@example.com (plan.json.carol.sig, SHA256:" in shown
    done = scene.apply()
    assert done.code == 0, done.err
    assert ended(scene.processes[0])


@pytest.mark.parametrize(
    "words", [(), *(pytest.param(it, marks=pytest.mark.soak) for it in (("--replan",), ("--dry-run",)))]
)
def test_a_plan_that_asks_for_fewer_approvals_than_its_playbook_is_refused(scene, words):
    """Mutants: binding.py ``changes`` without ``_of_approvals``."""
    assert scene.plan().code == 0
    scene.file.write_bytes(resealed({**scene.document(), "approvals": 0}))
    done = scene.apply(*words)
    assert (done.code, done.out) == (2, ""), done.err
    assert "the plan asks for 0 approvals, and sleepers for 1 (limits.approvals)" in done.err
    assert alive(scene.processes[0])


@pytest.mark.soak
def test_a_signature_may_lie_elsewhere(scene, keys, tmp_path):
    assert scene.plan().code == 0
    approve(scene, keys["carol"], str(tmp_path / "elsewhere"))
    assert scene.apply().code == 2
    assert scene.apply("--approval", str(tmp_path / "elsewhere")).code == 0


def strangers(scene, keys):
    approve(scene, keys["stranger"])
    return "its key is not in"


def of_another_plan(scene, keys):
    approve(scene, keys["carol"])
    assert scene.plan().code == 0
    return "not a good signature of this plan by carol@example.com"


def made_up(scene, keys):
    (scene.folder / "plan.json.x.sig").write_text("-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n")
    return "plan.json.x.sig does not count: no signature"


def for_something_else(scene, keys):
    import subprocess

    argv = ("ssh-keygen", "-q", "-Y", "sign", "-n", "git", "-f", str(keys["carol"]), str(scene.file))
    subprocess.run(argv, check=True, capture_output=True)
    shutil.move(f"{scene.file}.sig", f"{scene.file}.git.sig")
    return "not a good signature of this plan by carol@example.com"


def a_pipe(scene, keys):
    os.mkfifo(scene.folder / "plan.json.x.sig")
    return "plan.json.x.sig does not count: cannot read plan.json.x.sig: it is not a regular file"


def by_a_pattern(scene, keys):
    (scene.folder / "allowed_signers").write_text(f"*@example.com {public(keys['carol'])}\n")
    approve(scene, keys["carol"])
    return "a pattern does not say who approved"


def without_signers(scene, keys):
    approve(scene, keys["carol"])
    (scene.folder / "allowed_signers").unlink()
    return "nothing says whose key is whose"


def signers_of_others(scene, keys):
    approve(scene, keys["carol"])
    (scene.folder / "allowed_signers").chmod(0o666)
    return "allowed_signers may be another user's work: other users can write to "


def signers_in_an_open_folder(scene, keys):
    approve(scene, keys["carol"])
    scene.folder.chmod(0o777)
    return "allowed_signers may be another user's work: other users can write to "


ATTACKS = (
    strangers,
    of_another_plan,
    made_up,
    for_something_else,
    a_pipe,
    by_a_pattern,
    without_signers,
    signers_of_others,
    signers_in_an_open_folder,
)


def test_what_is_no_approval_does_not_count(scene, keys):
    """Each attack on a plan that has no approval of another attack.

    Mutants: approvals.py ``_checked`` without verify, without -n, or with the first principal whatever it is.
    """
    assert scene.plan().code == 0
    found, expected = {}, {}
    for attack in ATTACKS:
        lived = alive(scene.processes[0])
        words = attack(scene, keys)
        done = scene.apply(XDG_STATE_HOME=str(scene.folder / attack.__name__))
        reason = words if words in done.err else done.err
        found[attack.__name__] = (done.code, done.out, reason, alive(scene.processes[0]) == lived)
        expected[attack.__name__] = (2, "", words, True)
        for signature in scene.folder.glob("*.sig"):
            signature.unlink()
        scene.folder.chmod(0o700)
        signers(scene, keys)
    assert found == expected
    assert alive(scene.processes[0])


@pytest.mark.soak
def test_two_approvals_are_of_two_people(scenes, keys):
    """Mutants: approvals.py ``counted`` without its last refusal."""
    scene = scenes(LIMITS % 2)
    signers(scene, keys)
    assert scene.plan().code == 0
    approve(scene, keys["carol"], "plan.json.1.sig")
    approve(scene, keys["carol"], "plan.json.2.sig")
    done = scene.apply()
    assert done.code == 2
    assert "plan.json needs 2 approvals, and has 1" in done.err
    assert "plan.json.2.sig does not count: carol@example.com has approved it already" in done.err
    approve(scene, keys["dave"], "plan.json.2.sig")
    assert scene.apply().code == 0


def test_one_key_of_two_names_is_one_approval():
    one = Approval(file="1", principals=("carol",), key="SHA256:x")
    good, refused = counted([one, Approval(file="2", principals=("dave",), key="SHA256:x")], frozenset({"root"}))
    assert (good, [it.file for it in refused]) == ([one], ["2"])


@pytest.mark.parametrize("lines", [
    pytest.param('bob@x {0}\n{1}@x {0}\n', id="below"),
    pytest.param('bob@x {0}\n"{1}@x,carol@x" namespaces="runbook-plan" {0} a comment\n', id="quoted"),
    pytest.param('bob@x {0}\n{1} valid-before="20200101" {0}\n', id="over"),
])  # fmt: skip
def test_a_key_is_of_everybody_under_whose_name_it_stands(scene, keys, lines):
    """Mutants: ``_checked`` with the principals of ssh-keygen alone; ``_names_of_key`` without quotes."""
    assert scene.plan().code == 0
    path = scene.folder / "allowed_signers"
    path.write_text(lines.format(public(keys["own"]), ME))
    approve(scene, keys["own"])
    done = scene.apply()
    assert (done.code, done.out) == (2, ""), done.err
    assert "made the plan or applies it: another person has to approve it" in done.err
    path.write_text(f"bob@x {public(keys['own'])}\n*@x {public(keys['own'])}\n")
    assert "a pattern does not say who approved" in scene.apply().err
    path.write_text(f"bob@x {public(keys['own'])}\n#*@x {public(keys['own'])}\n{ME} {public(keys['carol'])}\n")
    done = scene.apply()
    assert done.code == 0, done.err


@every_row("other", ["bob@y", "BOB@x", "bob", "Bob", "carol@x,bob@z"])
def test_two_names_of_one_person_are_one_approval(other):
    """Mutant: ``counted`` that compares whole principals."""
    one = Approval(file="1", principals=("bob@x",), key="SHA256:x")
    two = Approval(file="2", principals=tuple(other.split(",")), key="SHA256:y")
    assert [len(each) for each in counted([one, two], frozenset({"root"}))] == [1, 1]
    assert [len(each) for each in counted([two], frozenset({"BOB"}))] == [0, 1]
    assert [len(each) for each in counted([one, two], frozenset({"bobby"}))] == [1, 1]


def test_an_approval_is_asked_for_and_shows_what_is_signed(scene, keys):
    """Mutants: approve_command.py that signs before it asks."""
    assert scene.plan().code == 0
    words = ("approve", "plan.json", "--key", str(keys["carol"]))
    code, said = asked(scene, words, "n\n")
    assert (code, "would change stop: end 1 process" in said, "nothing was signed" in said) == (130, True, True)
    assert not list(scene.folder.glob("*.sig"))
    assert "there is no terminal to ask on" in scene.run(*words).err
    code, said = asked(scene, words, "y\n")
    assert code == 0, said
    (signature,) = scene.folder.glob("*.sig")
    assert signature.name == f"plan.json.{ME}.sig"
    assert f"you are {ME}, who made this plan" in said
    assert scene.apply().code == 0


def test_a_signature_opens_no_file_to_others_by_a_link_in_its_place(scene, keys, monkeypatch):
    """It lies where anybody who made the plan may exchange it.  Mutant: ``chmod`` by its name, once it is there."""
    assert scene.plan().code == 0
    secret = scene.folder / "secret"
    secret.write_text("")
    secret.chmod(0o600)
    out = scene.folder / "plan.json.x.sig"
    modes = []
    real = os.rename

    def exchanged(*names, **keys):
        real(*names, **keys)
        modes.append(out.stat().st_mode & 0o777)
        out.unlink()
        out.symlink_to(secret)

    monkeypatch.setattr(os, "rename", exchanged)
    monkeypatch.chdir(scene.folder)
    options = ApproveOptions(yes=True, key=str(keys["carol"]), out=str(out))
    assert approve_plan("plan.json", options, Terminal()) == 0
    assert (modes, secret.stat().st_mode & 0o777) == ([0o644], 0o600)


@pytest.mark.soak
def test_signers_beside_the_inventory_that_is_used_say_who_approves(scene, keys, tmp_path):
    """Anybody who makes a plan writes the place of its inventory.  Mutant: ``_unapproved`` that goes by that place."""
    assert scene.plan().code == 0
    approve(scene, keys["stranger"])
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o700)
    shutil.copy(scene.inventory, theirs / "hosts.yaml")
    (theirs / "allowed_signers").write_text(f"stranger {public(keys['stranger'])}\n")
    tree = scene.document()
    tree["rests_on"]["inventory"] = [str(theirs / "hosts.yaml")]
    scene.file.write_bytes(resealed(tree))
    approve(scene, keys["stranger"])
    done = scene.apply("-i", "hosts.yaml")
    assert (done.code, "its key is not in" in done.err) == (2, True), done.err
    approve(scene, keys["carol"])
    assert scene.apply("-i", "hosts.yaml").code == 0


def test_an_edited_plan_is_not_approved(scene, keys):
    assert scene.plan().code == 0
    scene.file.write_text(scene.file.read_text().replace('"force": false', '"force": true'))
    done = scene.run("approve", "plan.json", "--yes", "--key", str(keys["carol"]))
    assert (done.code, "the plan file was changed after it was made" in done.err) == (2, True)
    assert not list(scene.folder.glob("*.sig"))


@pytest.mark.soak
def test_a_new_plan_for_drifted_hosts_would_need_approvals_of_its_own(scene, keys):
    assert scene.plan().code == 0
    approve(scene, keys["carol"])
    code, said = asked(scene, ("apply", "plan.json", "--replan"), "y\n")
    assert (code, "a new plan would need approvals of its own" in said) == (2, True)


@pytest.mark.real("root")
def test_signers_of_another_user_are_not_believed(scene, keys):
    assert scene.plan().code == 0
    approve(scene, keys["carol"])
    os.chown(scene.folder / "allowed_signers", 4242, 4242)
    done = scene.apply()
    assert (done.code, "belongs to the user 4242" in done.err) == (2, True), done.err
