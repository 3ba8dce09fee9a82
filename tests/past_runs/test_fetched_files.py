"""Files that runs fetch from hosts: where they lie, how much they may be, who finds one that was edited, and their end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runbook.commands.history.listing import Query, export_text
from runbook.commands.history.showing import show_text
from runbook.records import fetched_files
from runbook.records.fetched_files import FetchedFiles, folder_name
from runbook.records.private_folder import PrivateFolder
from runbook.records.pruning import expired, prune, verified
from runbook.secrets.masking import masking
from runbook.values.event import HostStarted, StepFinished
from runbook.values.kept_file import Fetched, KeptFile, NotKept
from runbook.values.playbook import Phase
from runbook.values.result import Status, StepResult
from tests.past_runs.recorded import RUN, finished, host_end, journal, started
from tests.support.tables import every_row


def files_in(place: Path) -> FetchedFiles:
    return FetchedFiles(PrivateFolder(place), RUN, masking([]))


def recorded(place: Path, *kept: KeptFile) -> PrivateFolder:
    """A run that has fetched *kept*."""
    result = StepResult(id="logs", phase=Phase.REMEDIATE, action="fetch", status=Status.CHANGED, kept=kept)
    end = host_end(steps=(result,))
    return journal(place, started(), HostStarted(host="a"), StepFinished(host="a", result=result), end, finished(end))


@pytest.fixture
def scene(tmp_path: Path) -> tuple[PrivateFolder, Path]:
    kept = files_in(tmp_path).keep("a", "log", Fetched(content=b"one\n", exit_code=0))
    assert isinstance(kept, KeptFile)
    return recorded(tmp_path, kept), tmp_path / kept.path


@every_row("host", ["../../etc", "/etc", "..", ".", "a/b", "gpu 01", "x" * 300, "ä"])
@every_row("name", ["../x", "/x", "..", "a/b", ".x"])
def test_no_name_leads_out_of_the_directory_of_the_run(tmp_path, host, name):
    kept = files_in(tmp_path / "runs").keep(host, name, Fetched(content=b"x"))
    assert isinstance(kept, KeptFile)
    place = (tmp_path / "runs" / kept.path).resolve()
    assert place.parent.parent == tmp_path / "runs" / f"{RUN}.files"
    assert [it for it in tmp_path.rglob("*") if it.is_file()] == [place]


def test_hosts_do_not_share_a_directory():
    hosts = ["a", "a/b", "a%2Fb", "..", ".", "x" * 300, "x" * 301]
    assert len({folder_name(it) for it in hosts}) == len(hosts)


def test_a_name_that_is_taken_gets_a_number(tmp_path):
    files = files_in(tmp_path)
    paths = [files.keep("a", "log", Fetched(content=bytes([it]))) for it in range(3)]
    assert [it.path.rpartition("/")[2] for it in paths] == ["log", "log.2", "log.3"]


@pytest.mark.parametrize(("bound", "hosts"), [("MOST_OF_HOST", ("a", "a")), ("MOST_OF_RUN", ("a", "b"))])
def test_what_is_more_than_a_run_keeps_is_not_kept_and_said(tmp_path, monkeypatch, bound, hosts):
    monkeypatch.setattr(fetched_files, bound, 10)
    files = files_in(tmp_path)
    assert isinstance(files.keep(hosts[0], "x", Fetched(content=b"12345678")), KeptFile)
    refused = files.keep(hosts[1], "y", Fetched(content=b"123"))
    assert isinstance(refused, NotKept)
    assert "a run keeps at most 10 B" in refused.why
    assert isinstance(files.keep(hosts[1], "z", Fetched(content=b"12")), KeptFile)


def test_a_directory_that_cannot_be_written_to_is_said_and_leaves_no_half_file(tmp_path):
    (tmp_path / f"{RUN}.files").write_text("a file")
    refused = files_in(tmp_path).keep("a", "x", Fetched(content=b"1"))
    assert isinstance(refused, NotKept)
    assert "cannot be written" in refused.why


def test_show_and_export_name_the_files(scene):
    folder, path = scene
    assert f"file {path} (4 B; sha256 2c8b08da5ce60398)" in show_text(folder, RUN, "a")
    header, row = export_text(folder, Query(), "csv").splitlines()
    assert dict(zip(header.split(","), row.split(","), strict=True))["files"] == "1"


def test_verify_finds_a_file_that_was_edited_and_one_that_is_gone(scene):
    """Mutant: ``faults_of`` without the files."""
    folder, path = scene
    assert verified(folder)[0] == []
    path.write_bytes(b"two\n")
    assert "not the file that was fetched" in verified(folder)[0][0]
    path.unlink()
    assert "it is gone" in verified(folder)[0][0]


def test_prune_counts_and_removes_the_files(scene, tmp_path):
    folder, path = scene
    size = (tmp_path / f"{RUN}.jsonl").stat().st_size
    assert expired(folder, "", str(size + 4)) == []
    assert expired(folder, "", str(size + 3)) == [RUN]
    prune(folder, [RUN])
    assert (path.exists(), (tmp_path / f"{RUN}.files").exists()) == (False, False)
    assert verified(folder)[0] == []


def test_what_a_killed_run_left_half_written_goes_with_the_run(scene, tmp_path):
    folder, path = scene
    (path.parent / ".0123456789abcdef.new").write_bytes(b"half")
    prune(folder, [RUN])
    assert os.listdir(tmp_path) == [it for it in os.listdir(tmp_path) if not it.endswith(".files")]


def test_a_journal_that_names_a_path_elsewhere_has_no_file_read(tmp_path):
    kept = KeptFile(path="../../etc/passwd", size=1, sha256="0")
    assert "no path of a fetched file" in verified(recorded(tmp_path, kept))[0][0]
