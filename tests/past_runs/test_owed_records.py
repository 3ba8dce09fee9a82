"""The records of owed clean-ups: what is believed, what is not, and what they never hold."""

from __future__ import annotations

import json
import os
import stat
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from runbook.records.owed_record import (
    Damaged,
    Record,
    Withheld,
    decoded,
    encoded,
    inputs_in,
    parsed,
    without_secrets,
)
from runbook.records.owed_records import RunRecords, all_records
from runbook.records.private_folder import PrivateFolder, Unsafe, state_directory
from runbook.records.process_identity import lives, this_process
from runbook.secrets.masking import masking
from runbook.values.owed import NotePlace, OwedCleanup, OwedStep
from runbook.values.run_origin import ProcessIdentity, RestsOn, SecretPlace
from tests.support.tables import every_row

STEP = OwedStep(id="put_back", action="command", say="restore it", args={"do": {"argv": ["true"]}}, by_hand=("true",))
GOOD = Record(
    run="20261123T020000Z-7f3a", playbook="flip", host="gpu-01",
    rests_on=RestsOn(
        playbook="/p/flip.yaml", playbook_digest="a" * 64, inputs={"n": 1.5, "l": [None]}, secret_inputs=("token",), inventory=("/i.yaml",),
        secret_places=(SecretPlace(secret="token", hosts=("gpu-01",), digest="1"),), hosts={"gpu-01": "x"},
    ), by="ann@ops", since="2026-11-23T02:00:00+00:00",
    steps=(STEP,), notes=(NotePlace(become="root"),), maker=ProcessIdentity(machine="ops", boot="b", pid=1, start=2),
)  # fmt: skip
CASES = yaml.safe_load(Path(__file__).with_name("damaged_records.yaml").read_text())


def text_of(case: dict) -> str:
    if "text" in case:
        return case["text"] * case.get("repeat", 1)
    data = {**json.loads(GOOD.text()), **case.get("set", {})}
    data["rests_on"] |= case.get("rests_on", {})
    text = json.dumps({name: it for name, it in data.items() if name not in case.get("without", ())})
    return text[: case.get("cut", len(text))]


def test_a_record_survives_its_file():
    assert parsed(GOOD.text(), GOOD.name) == GOOD


@every_row("case", CASES, ids=[it["name"] for it in CASES])
def test_what_is_damaged_is_named_and_not_believed(case):
    """Mutants: `parsed` without the comparison of the round trip, the name, or the pattern of the run."""
    with pytest.raises(Damaged, match=case["why"]):
        parsed(text_of(case), GOOD.name)


def test_a_record_of_the_format_before_is_read_as_it_was_meant():
    """Mutants: ``_from_format_2`` without the secret places; with the places of other hosts."""
    tree = json.loads(GOOD.text())
    basis = tree.pop("rests_on")
    tree |= {name: basis[name] for name in ("inputs", "secret_inputs", "inventory", "hosts")}
    tree |= {
        "format": 2,
        "path": basis["playbook"],
        "digest": basis["playbook_digest"],
        "secret_places": {"token": "1"},
    }
    assert parsed(json.dumps(tree), GOOD.name) == GOOD
    earlier = json.loads(GOOD.text())
    del earlier["rests_on"]["profile_inputs"]
    assert parsed(json.dumps(earlier), GOOD.name) == GOOD, "as it was before there were profiles"
    for wrong in ({"secret_places": [1]}, {"secret_places": {"token": 1}}, {"path": 7}, {"exec": "x"}):
        with pytest.raises(Damaged):
            parsed(json.dumps(tree | wrong), GOOD.name)


@given(st.integers(0, len(GOOD.text())), st.text(max_size=3), st.integers(0, 5))
def test_no_damage_ever_crashes(at, put, gone):
    text = GOOD.text()
    with suppress(Damaged):
        parsed(text[:at] + put + text[at + gone :], GOOD.name)


def test_good_records_are_found_beside_damaged_ones(tmp_path):
    folder = PrivateFolder(tmp_path / "owed")
    folder.write(GOOD.name, GOOD.text())
    folder.write("20261123T020000Z-0000-x-1.json", "{")
    (tmp_path / "owed" / "20261123T020000Z-0001-x-1.json").write_bytes(b"\xff\xfe{")
    (tmp_path / "owed" / "20261123T020000Z-0002-x-1.json").mkdir()
    os.mkfifo(tmp_path / "owed" / "20261123T020000Z-0003-x-1.json")
    (tmp_path / "owed" / "20261123T020000Z-0004-x-1.json").symlink_to(tmp_path / "owed" / GOOD.name)
    (tmp_path / "owed" / "20261123T020000Z-0005-x-1.json").write_text(" " * 2_000_000)
    records, damaged = all_records(folder)
    assert records == (GOOD,)
    assert [Path(it.file).name[17:21] for it in damaged] == ["0000", "0001", "0002", "0003", "0004", "0005"]


def test_no_directory_is_no_record(tmp_path):
    assert all_records(PrivateFolder(tmp_path / "none" / "owed")) == ((), ())
    (tmp_path / "file").write_text("")
    assert len(all_records(PrivateFolder(tmp_path / "file" / "owed"))[1]) == 1


def test_a_record_has_what_the_inventory_said_of_its_own_host_and_of_those_that_its_steps_name(tmp_path, monkeypatch):
    """Mutants: those of every host of the run; none."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    places = (
        SecretPlace(secret="token", hosts=("a", "b"), digest="1"), SecretPlace(secret="token", hosts=("c",), digest="2"),
    )  # fmt: skip
    basis = RestsOn(
        playbook="/p", playbook_digest="a" * 64, hosts={"a": "of a", "b": "of b", "c": "of c"}, secret_places=places,
    )  # fmt: skip
    cleanup = OwedCleanup(
        run=GOOD.run, playbook="p", host="a", by="me", since="now", steps=(replace(STEP, on="c"), replace(STEP, id="x"))
    )
    RunRecords(basis, masking([])).keep(cleanup)
    ((record,), _) = all_records(PrivateFolder(state_directory("owed")))
    assert record.rests_on.hosts == {"a": "of a", "c": "of c"}
    assert record.rests_on.secret_places == (SecretPlace(secret="token", hosts=("a",), digest="1"),)


# ---- the directory -------------------------------------------------------------------------------------------------


def test_the_directory_is_private_whatever_the_umask_and_files_are_replaced_whole(tmp_path):
    before = os.umask(0)
    try:
        folder = PrivateFolder(tmp_path / "state" / "runbook" / "owed")
        folder.write("a.json", "1")
        folder.write("a.json", "22")
    finally:
        os.umask(before)
    there = tmp_path / "state" / "runbook" / "owed"
    assert [it.name for it in there.iterdir()] == ["a.json"]
    assert folder.read("a.json") == "22"
    assert stat.S_IMODE(there.stat().st_mode) == 0o700
    assert stat.S_IMODE((there / "a.json").stat().st_mode) == 0o600
    folder.remove("a.json")
    folder.remove("a.json")
    assert list(there.iterdir()) == []


def test_a_record_that_cannot_be_written_whole_leaves_nothing(tmp_path, monkeypatch):
    """Mutants: `write` without the removal of what it began."""
    folder = PrivateFolder(tmp_path / "owed")
    folder.write("a.json", "1")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        folder.write("a.json", "22")
    assert [it.name for it in (tmp_path / "owed").iterdir()] == ["a.json"]
    assert (tmp_path / "owed" / "a.json").read_text() == "1"


@pytest.mark.parametrize("home", ["relative/state", ""])
def test_the_directory_is_below_home_where_xdg_names_none(home, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", home)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert state_directory("owed") == tmp_path / ".local/state/runbook/owed"


STRANGER = 4242


@pytest.mark.real("root")
def test_another_users_link_is_not_followed_and_another_users_record_is_not_believed(tmp_path):
    """Mutants: `_link` without the owner; `_opened` without the owner; `read` without the owner, or following links."""
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    PrivateFolder(mine).write(GOOD.name, GOOD.text())
    theirs.mkdir(mode=0o700)
    os.chown(theirs, STRANGER, STRANGER)
    with pytest.raises(Unsafe, match="another user"):
        PrivateFolder(theirs).write("a.json", "1")
    link = tmp_path / "link"
    link.symlink_to(mine)
    assert PrivateFolder(link).names() == [GOOD.name]
    os.chown(link, STRANGER, STRANGER, follow_symlinks=False)
    with pytest.raises(Unsafe, match="symbolic link owned by"):
        PrivateFolder(link / "below").write("a.json", "1")
    with pytest.raises(Unsafe, match="symbolic link owned by"):
        PrivateFolder(link).names()
    os.chown(mine / GOOD.name, STRANGER, STRANGER)
    records, damaged = all_records(PrivateFolder(mine))
    assert (records, [it.why for it in damaged]) == ((), ["it belongs to another user"])


def test_a_record_with_another_name_or_that_others_may_write_is_not_believed(tmp_path):
    """Mutants: `read` without the number of links, or without the mode."""
    folder = PrivateFolder(tmp_path / "owed")
    folder.write(GOOD.name, GOOD.text())
    path = tmp_path / "owed" / GOOD.name
    path.chmod(0o620)
    assert all_records(folder)[0] == ()
    path.chmod(0o600)
    os.link(path, tmp_path / "second")
    assert all_records(folder)[0] == ()
    (tmp_path / "second").unlink()
    assert all_records(folder)[0] == (GOOD,)


# ---- secrets -------------------------------------------------------------------------------------------------------

SECRETS = {"token": "hunter2-of-ann", "pin": "77", "many": ["s3cret-one", "s3cret-two"], "on": True, "none": ""}
MASK = masking(["hunter2-of-ann", "s3cret-one", "s3cret-two", "of-the-inventory"])


@every_row(
    "args",
    [
        {"a": "hunter2-of-ann"},
        {"headers": {"Authorization": "Bearer hunter2-of-ann"}},
        {"url": "https://x/?t=hunter2-of-ann&u=hunter2-of-ann"},
        {"list": ["s3cret-one", "s3cret-two"]},
        {"pin": "77"},
        {"$input": "token", "$text": [1], "deep": {"$map": "x"}},
        {"on": True, "none": "", "n": None, "f": 1.5},
    ],
)
def test_secret_inputs_are_named_instead_and_filled_in_again(args):
    """Mutants: `encoded` that leaves lists alone, or mappings whose keys are its own."""
    made = encoded(args, SECRETS, MASK)
    assert decoded(made, SECRETS) == args
    assert json.loads(json.dumps(made)) == made
    for secret in ("hunter2", "s3cret"):
        assert secret not in json.dumps(made)
    assert inputs_in(made) <= SECRETS.keys()
    step = without_secrets(replace(STEP, args=args), SECRETS, MASK)
    assert (step.withheld, step.args) == ("", made)


@every_row(
    "args",
    [
        {"a": "x of-the-inventory"},
        {"a": "1777"},
        {"password": "abc-of-nobody"},
        {"a": "ann:pw1234@host --api-key Xy12345678"},
    ],
)
def test_what_holds_another_secret_is_withheld_as_a_whole(args):
    """Mutants: `without_secrets` without the comparison with the mask; `_encoded_text` without that of pieces."""
    step = without_secrets(replace(STEP, args=args), SECRETS, MASK)
    assert step.withheld
    assert step.args == {}


def test_words_and_lines_by_hand_are_masked():
    step = replace(STEP, say="say hunter2-of-ann", by_hand=("curl -H hunter2-of-ann",), args={})
    shown = without_secrets(step, SECRETS, MASK)
    assert (shown.say, shown.by_hand) == ("say ***", ("curl -H ***",))


@given(
    st.recursive(
        st.text("ab$hunter2-of-ann7", max_size=20) | st.none() | st.booleans() | st.integers(),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "$input", "$text", "$map"]), inner)
        ),
        max_leaves=8,
    )
)
def test_whatever_is_recorded_comes_back_as_it_was(value):
    try:
        made = encoded(value, SECRETS, MASK)
    except Withheld:
        return
    assert decoded(json.loads(json.dumps(made)), SECRETS) == value


# ---- processes -----------------------------------------------------------------------------------------------------


def test_a_maker_lives_as_long_as_its_very_process():
    """Mutants: `lives` without the start, or without the machine."""
    this = this_process()
    assert lives(this)
    assert not lives(replace(this, start=this.start + 1))
    assert not lives(replace(this, machine="another"))
    assert not lives(replace(this, boot="another"))
    assert not lives(replace(this, pid=2**22 + 1))
