"""Rows of a database: counted without a trace, and never guessed."""

from __future__ import annotations

import os
import sqlite3
import threading

import pytest

from runbook.errors import ConfigError, ProbeError
from runbook.language.arguments import build
from runbook.library.system import sqlite_count
from runbook.protocols import Fails, Holds
from runbook.values.command import Effect
from runbook.values.types import Unknown
from tests.support.probe_driver import SHELLS, Here, drive
from tests.support.real_processes import each
from tests.support.tables import every_row

shells = pytest.mark.parametrize("shell", each(SHELLS))
pytestmark = pytest.mark.real("sqlite3")


def looked(database, table="games", shell=SHELLS["dash"], **values):
    made = build(sqlite_count.Args, {"database": str(database), "table": table, **values})
    here = Here(shell=shell)
    state = drive(sqlite_count.probe(made), here)
    assert [it.effect for it in here.sent] == [Effect.READ]
    return made, state


def planted(path, rows=3, mode="delete", table="games"):
    database = sqlite3.connect(path, check_same_thread=False)
    database.execute(f"PRAGMA journal_mode={mode}")
    name = table.replace('"', '""')
    database.execute(f'CREATE TABLE "{name}" (a)')
    database.executemany(f'INSERT INTO "{name}" VALUES (?)', [(it,) for it in range(rows)])
    database.commit()
    return database


@shells
@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_rows_are_counted_and_nothing_is_left(tmp_path, shell, mode):
    place = tmp_path / "a b?%20#'c.db"
    planted(place, mode=mode).close()
    before = os.listdir(tmp_path)
    made, state = looked(place, shell=SHELLS[shell], at_least=3)
    assert (state.rows, state.problem, state.size) == (3, "", place.stat().st_size)
    assert os.listdir(tmp_path) == before
    assert isinstance(sqlite_count.holds(made, state), Holds)
    assert isinstance(sqlite_count.holds(*looked(place, at_least=4)), Fails)


@shells
def test_what_a_writer_has_not_yet_put_into_the_file_is_counted(tmp_path, shell):
    writer = planted(tmp_path / "x.db", mode="wal")
    writer.execute("INSERT INTO games VALUES (9)")
    writer.commit()
    assert looked(tmp_path / "x.db", shell=SHELLS[shell])[1].rows == 4
    writer.close()


@shells
def test_a_locked_database_is_unknown_and_said(tmp_path, shell):
    writer = planted(tmp_path / "x.db")
    writer.execute("BEGIN EXCLUSIVE")
    made, state = looked(tmp_path / "x.db", shell=SHELLS[shell])
    writer.rollback()
    writer.close()
    assert (state.problem, isinstance(state.rows, Unknown)) == ("locked", True)
    with pytest.raises(ProbeError, match="is locked"):
        sqlite_count.holds(made, state)


@shells
@pytest.mark.parametrize("name", ['od"d', "a b", "--x", "games; DROP TABLE games", "select"])
def test_any_name_of_a_table_is_only_a_name(tmp_path, shell, name):
    planted(tmp_path / "x.db", rows=2, table=name).close()
    assert looked(tmp_path / "x.db", name, SHELLS[shell])[1].rows == 2


@shells
def test_what_is_missing_is_told_from_what_cannot_be_read(tmp_path, shell):
    planted(tmp_path / "x.db").close()
    (tmp_path / "text.db").write_text("no database at all, only text\n" * 100)
    cases = {"x.db": ("no table", Fails), "no.db": ("no database", Fails), "text.db": ("not a database", None)}
    for name, (problem, kind) in cases.items():
        made, state = looked(tmp_path / name, "other", SHELLS[shell])
        assert (state.problem, isinstance(state.rows, Unknown)) == (problem, True)
        if kind:
            assert isinstance(sqlite_count.holds(made, state), kind)
        else:
            with pytest.raises(ProbeError):
                sqlite_count.holds(made, state)
    assert sorted(os.listdir(tmp_path)) == ["text.db", "x.db"]
    assert looked(tmp_path, "t", SHELLS[shell])[1].why == "no file"


@shells
def test_growth_is_seen(tmp_path, shell):
    writer = planted(tmp_path / "x.db", mode="wal")

    counted = threading.Event()

    def more():
        while not counted.wait(0.2):
            writer.execute("INSERT INTO games VALUES (9)")
            writer.commit()

    thread = threading.Thread(target=more)
    thread.start()
    made, state = looked(tmp_path / "x.db", shell=SHELLS[shell], apart="2s", growing=True)
    counted.set()
    thread.join()
    assert (state.growing, state.grown > 0, state.rows > 3) == (True, True, True)
    assert isinstance(sqlite_count.holds(made, state), Holds)
    made, state = looked(tmp_path / "x.db", shell=SHELLS[shell], apart="100ms", growing=True)
    writer.close()
    assert (state.growing, state.grown) == (False, 0)
    assert isinstance(sqlite_count.holds(made, state), Fails)


def test_one_count_sees_no_growth(tmp_path):
    planted(tmp_path / "x.db").close()
    assert isinstance(looked(tmp_path / "x.db")[1].growing, Unknown)


def test_without_sqlite3_nothing_is_known(tmp_path):
    with pytest.raises(ProbeError, match="sqlite3 is not on this host"):
        looked(tmp_path / "x.db", shell=("env", "-i", f"PATH={tmp_path}", "/bin/dash"))


@pytest.mark.real("root", "setpriv")
def test_a_database_that_may_not_be_read_is_unknown_and_not_missing():
    state = looked("/root/x.db", shell=("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "dash"))[1]
    assert (state.problem, state.why) == ("other", "Permission denied")


@pytest.mark.real("root")
@pytest.mark.parametrize("whose", ["file", "directory", "open to all", "shared directory"])
def test_a_database_that_others_can_change_is_not_opened_by_root(tmp_path, whose):
    """Its views are programs to sqlite3, and files beside it are believed, locked and written to."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    place = folder / "x.db"
    writer = planted(place, mode="wal")
    before = {it.name: it.stat().st_mtime_ns for it in folder.iterdir()}
    if whose in ("file", "directory"):
        os.chown(place if whose == "file" else folder, 4242, 4242)
    elif whose == "open to all":
        place.chmod(0o666)
    else:
        folder.chmod(0o1777)
    with pytest.raises(ProbeError, match="4242" if whose in ("file", "directory") else r"every(body| user) can"):
        looked(place)
    assert {it.name: it.stat().st_mtime_ns for it in folder.iterdir()} == before
    writer.close()


@every_row("values", [{"database": "x"}, {"table": ""}, {"growing": True}, {"table": "a\nb"}, {"apart": "1h"}])
def test_a_mistake_is_refused(values):
    with pytest.raises(ConfigError):
        build(sqlite_count.Args, {"database": "/x", "table": "t", **values})
