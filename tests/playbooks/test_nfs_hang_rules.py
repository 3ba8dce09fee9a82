"""What `nfs-hang` says of mounts that answer, that do not, and that only their own user could ask."""

from __future__ import annotations

from functools import cache
from typing import Any

from runbook.codec import to_json
from runbook.commands.input_files import find_playbook, read_playbook
from runbook.execution.diagnosis.findings import evaluated
from runbook.language.arguments import build
from runbook.language.expressions.templates import Scope
from runbook.library.files import mounts
from runbook.plugins import discover
from runbook.values.command import Completed
from runbook.values.plan import Finding, Presence
from runbook.values.playbook import Playbook
from tests.support.probe_driver import drive
from tests.support.tables import every_row

NFS = "9 1 0:9 / /data rw - nfs4 filer:/export rw\n"
WELL = "4096 8 4 4 9 9"
WAITS = {"pid": 7, "name": "python3", "waits_for": "FUSE"}
SILENT = {"server": "filer", "silent": True, "kind": "NFS", "at": "12:00", "text": "not responding"}


@cache
def book() -> Playbook:
    return read_playbook(find_playbook("nfs-hang"), discover())


def users(count: int, options: str = "user_id=65534") -> str:
    """The lines of so many mounts that ordinary users have made."""
    return "".join(f"{at} 1 0:{at} / /u/{at} rw - fuse.sshfs u:/ rw,{options}\n" for at in range(100, 100 + count))


class Answering:
    """A host with a table of mounts, of which each answers as *answers* says by number; else as a private one."""

    def __init__(self, table: str, answers: dict[str, str]) -> None:
        self._table = table
        self._answers = answers

    def run(self, *commands):
        if len(commands[0].argv) == 1:
            return (Completed(exit_code=0, stdout=self._table),)
        asked = commands[0].argv[2::2]
        said = [self._answers.get(it, f"said {it} runbook-mount {it} 4096 0 0 0 0 0") for it in asked]
        ids = " ".join(line.split()[0] for line in self._table.splitlines())
        return (Completed(exit_code=0, stdout="\n".join([*said, f"ids {ids}", ""])),)


def found(table: str, answers: dict[str, str], tasks: tuple[Any, ...] = (), servers: tuple[Any, ...] = ()):
    """The findings that are there, by id."""
    state = drive(mounts.probe(build(mounts.Args, {"remote": True})), Answering(table, answers))
    looks = {
        "mounts": to_json(state), "blocked": {"tasks": list(tasks)}, "expected": {"missing": []},
        "kernel": {"file_servers": list(servers), "links_down": [], "network": [], "sources": ["dmesg"]},
    }  # fmt: skip
    inputs = {it.name: it.default for it in book().inputs}
    scope = Scope(inputs=inputs, host={"name": "a"}, states=looks, let=book().let[""])
    made: dict[str, Finding] = {}
    for rule in book().findings:
        made[rule.id] = evaluated(rule, scope, made)
    return {name: it for name, it in made.items() if it.status is not Presence.ABSENT}


FINE = {"0:9": f"said 0:9 runbook-mount 0:9 {WELL}"}
HANGS = {"0:9": "hung 0:9 4711"}


def test_a_private_mount_of_an_ordinary_user_is_said_and_keeps_no_host_from_healthy():
    """Mutant: taken for one that should have answered."""
    there = found(NFS + users(1), FINE)
    assert {name: (it.status.value, it.severity.value) for name, it in there.items()} == {
        "private": ("present", "info")
    }
    assert there["private"].say == "not asked: /u/100, which answers only the user who mounted it"
    many = found(NFS + users(300), FINE)
    assert list(many) == ["private"]
    assert many["private"].say.startswith(
        "not asked: /u/100, /u/101, /u/102, /u/103, /u/104 and 295 more, which answer"
    )


@every_row("options", ["user_id=65534", "user_id=65534,allow_other"])
def test_users_with_many_mounts_do_not_hide_a_server_that_hangs(options):
    """Mutant: the mounts of users asked first."""
    there = found(NFS.replace("/data", "/a/longer/path/to/data") + users(259, options), HANGS)
    assert "1 mount does not answer: /a/longer/path/to/data (nfs4, filer:/export)" in there["hangs"].say
    assert ("not_known" in there) == ("allow_other" in options), "what was left out and could answer is named"
    if "not_known" in there:
        assert len(there["not_known"].evidence["mounts"]) == 4
        assert there["not_known"].say.startswith("it is not known whether /u/355, /u/356, /u/357, /u/358 answer: more")


@every_row(
    ("table", "answers", "says"),
    [
        (NFS, FINE, "though every mount answers: a slow server, or one that was unmounted lazily"),
        (NFS + users(1), FINE, "though no mount that could be asked hangs (not asked: /u/100): a slow server, or one "
         "that was unmounted lazily, or a mount that was not asked"),
        (NFS, {"0:9": ""}, "though no mount that could be asked hangs (not asked: /data): a slow"),
        (NFS, {"0:9": "said 0:9 stat: x: Stale file handle"}, "though no mount hangs: a slow"),
    ],
)  # fmt: skip
def test_who_waits_is_not_said_to_wait_for_nothing_that_was_asked(table, answers, says):
    """Mutant: every mount said to answer."""
    assert says in found(table, answers, tasks=(WAITS,))["waiting"].say


@every_row(
    ("answers", "says"),
    [
        (FINE, "did not respond at 12:00, and no mount hangs now"),
        ({"0:9": ""}, "did not respond at 12:00, and whether its mounts answer now is not known"),
        ({"0:9": "said 0:9 stat: x: Stale file handle"}, "did not respond at 12:00, and no mount hangs now"),
    ],
)
def test_a_server_that_was_silent_is_not_said_to_answer_unasked(answers, says):
    assert found(NFS, answers, servers=(SILENT,))["was_silent"].say.endswith(says)


def test_a_newline_in_the_name_of_a_mount_breaks_no_line_of_the_report():
    """Mutant: the names shown as they are."""
    there = found(NFS.replace("/data", r"/da\012gpu-02:\040healthy"), HANGS)
    assert r"/da\ngpu-02: healthy (nfs4" in there["hangs"].say
    assert all("\n" not in text for text in (there["hangs"].say, *there["hangs"].evidence["mounts"]))
