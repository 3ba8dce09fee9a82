"""Which secrets a run reads, when, how often, and what is said of those that cannot be had."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest

from runbook.commands.input_files import read_inventory, read_playbook
from runbook.commands.one_run import Order
from runbook.commands.secret_masking import SecretMasking
from runbook.commands.workspace import with_secrets_resolved
from runbook.errors import ConfigError
from runbook.execution.diagnosis.probe_types import ProbeFailure, ProbeRequest
from runbook.execution.diagnosis.probing import run_probes
from runbook.execution.executor.apply import send
from runbook.plugins import discover
from runbook.secret_sources.resolution import problems_with_references, resolved
from runbook.values.command import Command, Effect
from runbook.values.inventory import Selection
from runbook.values.plan import Change, Risk
from runbook.values.result import Status
from tests.support.program import runbook
from tests.support.run_step import site

PLAIN = "command: {argv: ['true']}"
TRUE = Command(argv=("true",), effect=Effect.WRITE, foreign=True)


class Reads:
    """Gives a value to every secret, and remembers which were asked for."""

    def __init__(self, **values: str) -> None:
        self.asked: list[str] = []
        self._values = values

    def __call__(self, reference) -> str:
        self.asked.append(reference.name)
        if reference.name in self._values:
            return self._values[reference.name]
        raise ConfigError(f"no {reference.name}")


@pytest.fixture
def files(tmp_path):
    def write(inventory: str = "", **books: str):
        (tmp_path / "hosts.yaml").write_text(f"hosts: {{h: {{transport: local}}}}\n{inventory}")
        for name, text in books.items():
            (tmp_path / f"{name}.yaml").write_text(f"name: {name}\n{text}".replace("PLAIN", PLAIN))
        book = read_playbook(tmp_path / f"{next(iter(books))}.yaml", discover())
        return book, read_inventory([tmp_path / "hosts.yaml"])

    return write


def values(book, inventory, reads, *, changes=True):
    return resolved(book, inventory, inventory.hosts, discover(), changes=changes, read=reads)


def problems(book, inventory):
    return problems_with_references(book, inventory, inventory.hosts)


def test_each_reference_is_read_once_and_what_nobody_uses_is_not_read(files):
    book = """
secrets: {one: {env: ONE}, two: {env: TWO}, idle: {env: IDLE}}
diagnose:
  - {id: a, env: {X: '{{ secrets.one }}', Y: '{{ secrets.one }}{{ secrets.two }}'}, PLAIN}
  - {id: b, env: {X: '{{ secrets.one }}'}, PLAIN}
"""
    reads = Reads(one="canary-1", two="canary-2")
    found = values(*files(main=book), reads)
    assert reads.asked == ["one", "two"]
    assert found.by_part == {"": {"one": "canary-1", "two": "canary-2"}}
    assert set(found.masked) == {"canary-1", "canary-2"}


def test_a_dry_run_does_not_read_what_only_a_change_sends(files):
    """Mutants: resolution.py without ``only_in_change``."""
    book = """
secrets: {one: {env: ONE}, two: {env: TWO}}
diagnose:
  - {id: a, env: {X: '{{ secrets.one }}'}, PLAIN}
remediate:
  - {id: b, env: {X: '{{ secrets.two }}'}, command: {do: {argv: ['true']}}}
"""
    reads = Reads(one="canary-1")
    assert values(*files(main=book), reads, changes=False).by_part == {"": {"one": "canary-1"}}
    with pytest.raises(ConfigError, match="secret two: no two"):
        values(*files(main=book), Reads(one="canary-1"))


def test_all_that_cannot_be_had_is_said_at_once_with_both_places(files):
    book = """
secrets: {one: {env: ONE}, two: {env: TWO}, three: {env: THREE}}
diagnose:
  - {id: a, env: {X: '{{ secrets.one }}', Y: '{{ secrets.two }}', Z: '{{ secrets.three }}'}, PLAIN}
"""
    with pytest.raises(ConfigError) as caught:
        values(*files(main=book), Reads(two="canary-2"))
    said = [str(it).rpartition("/")[2] for it in caught.value.problems]
    assert [it.message for it in caught.value.problems] == ["secret one: no one", "secret three: no three"]
    assert [(it.line, it.hint.rpartition("/")[2]) for it in caught.value.problems] == [(3, "main.yaml:5:5")] * 2, said


def test_what_one_program_says_of_another_secret_is_masked(files):
    book = """
secrets: {one: {env: ONE}, two: {command: [sh]}}
diagnose:
  - {id: a, env: {X: '{{ secrets.one }}', Y: '{{ secrets.two }}'}, PLAIN}
"""

    def read(reference):
        if reference.name == "one":
            return "canary-1"
        raise ConfigError("the program said: canary-1 is wrong")

    with pytest.raises(ConfigError, match=r"the program said: \*\*\* is wrong"):
        values(*files(main=book), read)


USES = "diagnose:\n  - {id: a, env: {X: '{{ secrets.one }}'}, PLAIN}\n"


def test_the_inventory_gives_what_the_playbook_does_not(files):
    inventory = "secrets: {one: {env: FROM_INVENTORY}}"
    for declared in ("", "secrets: {one: {description: x}}\n"):
        book, hosts = files(inventory, main=declared + USES)
        assert problems(book, hosts) == []
        assert values(book, hosts, Reads(one="canary-1")).by_part == {"": {"one": "canary-1"}}


def test_where_the_playbook_says_where_that_counts(files):
    read: list[str] = []

    def remembered(reference):
        read.append(reference.words[0])
        return "canary-1"

    values(*files("secrets: {one: {env: OF_INVENTORY}}", main="secrets: {one: {env: OF_BOOK}}\n" + USES), remembered)
    assert read == ["OF_BOOK"]


def test_a_name_that_nobody_declares_is_a_mistake_before_anything_is_read(files):
    (found,) = problems(*files("secrets: {onne: {env: X}}", main=USES))
    assert (found.message.partition(":")[0], found.line, found.hint) == (
        "there is no secret 'one'",
        3,
        "did you mean onne?",
    )
    (found,) = problems(*files(main="secrets: {one: {description: x}}\n" + USES))
    assert "neither the playbook nor" in found.message
    assert found.line == 2


def test_an_included_playbook_sees_its_own_secrets_only_and_those_of_the_inventory(files):
    """Mutants: includes.py ``prefixed`` without the secrets; resolution.py ``_Choice`` that searches the outer ones."""
    inner = "secrets: {one: {env: INNER}}\n" + USES
    outer = "secrets: {one: {env: OUTER}}\ndiagnose:\n  - {id: part, include: inner}\n  - {id: a, env: {X: '{{ secrets.one }}'}, PLAIN}\n"
    read = values(*files(main=outer, inner=inner), lambda it: f"canary {it.words[0]}")
    assert read.by_part == {"": {"one": "canary OUTER"}, "part": {"one": "canary INNER"}}
    (found,) = problems(*files(main=outer, inner=USES))
    assert "there is no secret 'one'" in found.message
    read = values(*files("secrets: {one: {env: SHARED}}", main=outer, inner=USES), lambda it: f"canary {it.words[0]}")
    assert read.by_part == {"": {"one": "canary OUTER"}, "part": {"one": "canary SHARED"}}


def test_two_playbooks_that_take_the_same_from_the_same_place_have_it_read_once(files):
    """Mutants: resolution.py without ``known``."""
    declared = "secrets: {one: {command: [pass, show, x]}}\n"
    reads = Reads(one="canary-1")
    outer = declared + "diagnose:\n  - {id: part, include: inner}\n  - {id: a, env: {X: '{{ secrets.one }}'}, PLAIN}\n"
    found = values(*files(main=outer, inner=declared + USES), reads)
    assert found.by_part == {"": {"one": "canary-1"}, "part": {"one": "canary-1"}}
    assert reads.asked == ["one"]


def test_several_lines_are_refused_for_a_header_and_not_for_a_variable(files):
    book = "secrets: {one: {env: ONE}}\ndiagnose:\n  - {id: a, http: {url: 'http://x/', headers: {A: '{{ secrets.one }}'}}}\n"
    with pytest.raises(ConfigError, match="it has several lines"):
        values(*files(main=book), Reads(one="line one\nline two"))
    found = values(*files(main="secrets: {one: {env: ONE}}\n" + USES), Reads(one="the line one\nthe line two"))
    assert set(found.masked) == {"the line one\nthe line two", "the line one", "the line two"}


INVENTORY = {
    "secrets: {one: abc-4711-xyz}": "never the value itself",
    "secrets: {one: {description: x}}": "give one of env, file, command, keyring",
    "secrets: {one: {evn: X}}": "did you mean env",
    "secrets: [one]": "expected a mapping",
}


@pytest.mark.parametrize("text", INVENTORY)
def test_a_mistake_in_the_inventory_has_its_place_and_repeats_no_value(files, text):
    with pytest.raises(ConfigError) as caught:
        files(text, main=USES)
    assert INVENTORY[text] in str(caught.value)
    assert "hosts.yaml:2:" in str(caught.value)
    assert "4711" not in str(caught.value)


def test_a_name_stands_in_one_inventory_only(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text(f"hosts: {{{name}: {{transport: local}}}}\nsecrets: {{one: {{env: X}}}}\n")
    with pytest.raises(ConfigError, match=r"the secret one is also in .*/a:2:"):
        read_inventory([tmp_path / "a", tmp_path / "b"])


def test_where_a_secret_is_may_be_shown(files):
    """Mutants: documents.py ``_without_references`` that leaves them in."""
    _, inventory = files("secrets: {one: {command: [pass, show, a-long-name]}, two: {file: /etc/hostname}}", main=USES)
    assert inventory.secrets == ()


def test_a_mistake_that_comes_after_they_were_read_shows_none(files, monkeypatch):
    """Mutants: run.py ``with_secrets_resolved`` without ``learn``."""
    monkeypatch.setenv("ONE", "canary-4711")
    book, inventory = files(main="secrets: {one: {env: ONE}}\n" + USES)
    order = Order(playbook=book, inputs={}, inventory=inventory, selection=Selection(hosts=()))
    hiding = SecretMasking(lambda: ())

    def read_and_fail() -> None:
        with hiding:
            with_secrets_resolved(order, hiding, changes=True)
            raise ConfigError("it is canary-4711")

    with pytest.raises(ConfigError, match=r"^it is \*\*\*$"):
        read_and_fail()


def test_what_needs_a_secret_that_was_not_read_is_not_sent(files):
    """Mutants: probing.py or apply.py without ``unread_secret``: the host would get the reference."""
    book, _ = files(main="secrets: {one: {env: ONE}}\n" + USES)
    change = "remediate:\n  - {id: b, env: {X: '{{ secrets.one }}'}, command: {do: {argv: ['true']}}}\n"
    changing, _ = files(main="secrets: {one: {env: ONE}}\n" + change)
    with site(book) as place:
        (probed,) = run_probes([ProbeRequest(step=book.diagnose[0], args=book.diagnose[0].args)], place)
        done = send(place, changing.remediate[0], Change(summary="x", commands=(TRUE,), risk=Risk.UNKNOWN))
        assert place.connection.sent == []
    assert probed.outcome == ProbeFailure(why="the secret 'one' was not read for this run")
    assert (done.status, done.sent, done.why) == (
        Status.FAILED,
        False,
        "nothing was sent: the secret 'one' was not read for this run",
    )


# ---- with the program ------------------------------------------------------------------------------------------------

WITNESS = """
secrets: {{one: {{command: [sh, -c, 'echo read >>{log}; echo canary-4711']}}}}
diagnose:
  - {{id: a, command: {{script: 'echo here'}}}}
findings: [{{id: f, when: a.stdout, severity: error, say: s, advise: x}}]
remediate:
  - {{id: b, for: f, env: {{X: '{{{{ secrets.one }}}}'}}, command: {{do: {{script: 'test "$X" = canary-4711'}}}}}}
"""


@pytest.fixture
def witness(tmp_path):
    log = tmp_path / "log"
    (tmp_path / "hosts.yaml").write_text("hosts: {h: {transport: local}}\n")
    (tmp_path / "main.yaml").write_text("name: main\n" + WITNESS.format(log=log))

    def reads() -> int:
        return log.read_text().count("read") if log.exists() else 0

    return tmp_path, reads


def test_check_show_hosts_and_a_dry_run_that_needs_no_secret_read_none(witness):
    folder, reads = witness
    for argv in (("check", "main.yaml"), ("show", "main.yaml"), ("hosts", "-i", "hosts.yaml"),
                 ("run", "main.yaml", "-i", "hosts.yaml", "--hosts", "all", "--dry-run")):  # fmt: skip
        said = runbook(*argv, cwd=folder)
        assert said.code in (0, 1), said.err
    assert reads() == 0


def test_a_run_reads_each_once_whatever_the_number_of_hosts_and_the_command_gets_it(witness):
    folder, reads = witness
    (folder / "hosts.yaml").write_text(json.dumps({"hosts": {f"h{it}": {"transport": "local"} for it in range(5)}}))
    said = runbook("run", "main.yaml", "-i", "hosts.yaml", "--hosts", "all", "--yes", "--output", "json", cwd=folder)
    assert [it["steps"][1]["status"] for it in said.document["hosts"]] == ["changed"] * 5, said.out
    assert reads() == 1
    assert "4711" not in said.out + said.err


def test_nothing_is_sent_to_any_host_where_a_secret_cannot_be_had(witness):
    folder, _ = witness
    probed = Path("/dev/shm", f"runbook-{uuid.uuid4()}")  # where a probe of an author's can write, also as root
    (folder / "probe.py").write_text(f"open({str(probed)!r}, 'w')")
    text = (folder / "main.yaml").read_text().replace("script: 'echo here'", f"argv: [python3, {folder / 'probe.py'}]")
    (folder / "main.yaml").write_text(text)
    argv = ("run", "main.yaml", "-i", "hosts.yaml", "--hosts", "all", "--yes")
    assert runbook(*argv, cwd=folder).code == 0
    probed.unlink()
    (folder / "main.yaml").write_text(text.replace("echo canary-4711", "exit 7"))
    said = runbook(*argv, cwd=folder)
    assert said.code == 2
    assert "main.yaml:3:11: secret one: the program sh exited with 7: what it says may" in said.err
    assert "(used at main.yaml:8:5)" in said.err
    assert not probed.exists()
