"""Secrets of an inventory: of single hosts, of groups and of all; which counts, who gets it, and who must not see it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from runbook.commands import run as run_command
from runbook.commands.input_files import read_inventory, read_playbook
from runbook.commands.listings import hosts_text
from runbook.commands.options import Choosing
from runbook.errors import ConfigError
from runbook.plugins import discover
from runbook.secret_sources.resolution import problems_with_references, resolved
from runbook.secrets.names import REFERENCE
from runbook.values.command import shown_variable
from tests.support.parse_text import inventory, mistakes
from tests.support.program import runbook
from tests.support.secret_forms import leaks

HOSTS = """
hosts:
  a: {transport: local, region: north, secrets: {bmc: {env: BMC_OF_A}}}
  b: {transport: local, region: north}
  c: {transport: local, region: south}
groups:
  rack: {hosts: [b, c], secrets: {bmc: {env: BMC_OF_RACK}}}
  north: {secrets: {ntp: {file: ntp-key}}}
  plain: [a, c]
secrets: {bmc: {env: BMC_OF_ALL}, all: {env: OF_ALL}}
"""


def of_hosts(text: str) -> dict[str, dict[str, str]]:
    return {host.name: {it.name: it.words[0] for it in host.secrets} for host in inventory(text).hosts}


def test_a_host_has_its_own_secrets_and_those_of_its_groups_also_of_derived_ones():
    """Mutants: host_secrets.py ``_with_groups`` in which the group goes before the host; ``formed`` without groups of
    ``members`` None.
    """
    found = {"a": {"bmc": "BMC_OF_A", "ntp": "ntp-key"}, "b": {"bmc": "BMC_OF_RACK", "ntp": "ntp-key"}, "c": {"bmc": "BMC_OF_RACK"}}  # fmt: skip
    assert of_hosts(HOSTS) == found
    assert inventory(HOSTS).groups["rack"] == ("b", "c")


WRONG = {
    "hosts: {a: {secrets: {bmc: hunter2-4711}}}": "a.yaml:1:23: secret bmc: expected where its value is",
    "hosts: {a: {secrets: {bmc: {evn: X}}}}": "a.yaml:1:29: secret bmc: 'evn' is not allowed in a reference (did you mean env?)",
    "hosts: {a: {secrets: [hunter2-4711]}}": "a.yaml:1:13: secrets: expected a mapping",
    "hosts: {a: {secrets: {bmc: {description: x}}}}": "secret bmc: give one of env, file, command, keyring",
    "hosts: {a: {secrest: {bmc: {env: X}}}}": "a.yaml:1:13: unknown key 'secrest', with references to secrets (did you mean secrets?)",
    "hosts: {a: {secret: {bmc: {env: GOOD}, other: {envv: X}}}}": "a.yaml:1:13: unknown key 'secret', with references to secrets (did you mean secrets?)",
    "hosts: {a: {Secrets: {bmc: {env: GOOD, descr: x}}}}": "a.yaml:1:13: unknown key 'Secrets', with references",
    "hosts: {a: {secrest: {bmc: {evn: GOOD}}}}": "a.yaml:1:13: unknown key 'secrest', with references",
    "hosts: {a: {secert: {bmc: {envv: GOOD}}}}": "a.yaml:1:13: unknown key 'secert', with references",
    "hosts: {a: {}}\nSECRETS: {bmc: {Env: GOOD}, other: hunter2-4711}": "a.yaml:2:1: unknown key 'SECRETS', with references",
    "hosts: {a: {}}\ngroup: {rack: {hosts: [a], secrets: {bmc: {env: X}}}}": "a.yaml:2:1: unknown key 'group', with hosts or secrets as `groups` has them (did you mean groups?)",
    "hosts: {a: {}}\nGroups: {rack: {hosts: [a]}, north: 3}": "a.yaml:2:1: unknown key 'Groups', with hosts or",
    "hosts: {a: {region: b}}\ngruops: {b: {secrets: {bmc: {envv: X}}}}": "a.yaml:2:1: unknown key 'gruops', with hosts or",
    "hosts: {a: {region: b}}\ngroup: {b: {secretes: {bmc: {env: X}}}}": "a.yaml:2:1: unknown key 'group', with hosts or",
    "hosts: {a: {}}\ngroups: {x: [a]}\ngroup: {rack: {hosts: [a], secrets: {bmc: {env: X}}}}": "a.yaml:3:1: unknown key 'group', with",
    "hosts: {a: {}}\nsecret: {bmc: {env: X}}": "a.yaml:2:1: unknown key 'secret', with references to secrets (did you mean secrets?)",
    "hosts: {a: {}}\ngroups: {g: {hosts: [a], secrets: {bmc: hunter2-4711}}}": "a.yaml:2:36: secret bmc: expected where",
    "hosts: {a: {}}\ngroups: {g: {hosts: [a], secretes: {bmc: {env: X}}}}": "unknown key 'secretes', with references",
    "hosts: [{name: a, host: x, secrets: {bmc: hunter2-4711}}]": "a.yaml:1:38: secret bmc: expected where",
    "standard_hosts: {a: {host: x, secrets: {bmc: hunter2-4711}}}": "a.yaml:1:41: secret bmc: expected where",
}  # fmt: skip


@pytest.mark.parametrize("text", WRONG)
def test_a_mistyped_reference_has_its_place_and_repeats_no_value(text):
    """Mutants: host_secrets.py without ``slips_of_secrets``, with all for any in it, or ``looks_like_reference``;
    ``secrets_at`` whose places leave *path* out; groups.py ``_slips`` of lists alone, or only where no groups are.
    """
    said = "\n".join(mistakes(text))
    assert WRONG[text] in said
    assert "4711" not in said


def test_what_only_looks_alike_belongs_to_other_programs():
    found = inventory(
        "hosts: {a: {secret: abc-4711-def, sectors: {x: {env: Y}}}}\nsectors: {x: {env: Y}}\n"
        "group: {x: 3, y: {hosts: 7}, z: {secrets: plain}, gid: [a, 1]}\nsecret: {db: {key: x, value: y}}"
    )
    assert "abc-4711-def" in found.secrets
    assert found.hosts[0].vars["secret"] == "***"


def test_two_groups_of_one_host_that_say_two_places_are_a_mistake_unless_the_host_says_its_own():
    """Mutants: ``_with_groups`` without the comparison; that takes equal references for two."""
    two = "groups: {g: {hosts: [a], secrets: {bmc: {env: X}}}, h: {hosts: [a], secrets: {bmc: {env: %s}}}}"
    (said,) = mistakes("hosts: {a: {}}\n" + two % "Y")
    assert "a.yaml:2:" in said
    assert "the secret bmc of a: its group g says another place (a.yaml:2:" in said
    assert of_hosts("hosts: {a: {}}\n" + two % "X") == {"a": {"bmc": "X"}}
    assert of_hosts("hosts: {a: {secrets: {bmc: {env: Z}}}}\n" + two % "Y") == {"a": {"bmc": "Z"}}


def test_a_reference_is_no_secret_and_what_is_written_in_its_place_is():
    """Mutants: documents.py ``_without_references`` of the whole file alone; of any mapping."""
    found = inventory(HOSTS.replace("{env: BMC_OF_A}", "{command: [pass, show, a-long-name-4711]}"))
    assert found.secrets == ()
    assert "secrets" not in found.hosts[0].vars
    assert "abcdef-4711" in inventory("hosts: {a: {own: {secrets: {x: {env: abcdef-4711}}}}}").secrets


# ---- which counts ----------------------------------------------------------------------------------------------------

PLAIN = "command: {argv: ['true']}"


class Place:
    """A folder with a playbook and an inventory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, uses: str, hosts: str = HOSTS, *, before: str = ""):
        (self.folder / "hosts.yaml").write_text(hosts)
        step = f"diagnose:\n  - {{id: x, env: {{A: '{uses}'}}, {PLAIN}}}\n"
        (self.folder / "main.yaml").write_text(f"name: main\n{before}{step}")
        return read_playbook(self.folder / "main.yaml", discover()), read_inventory([self.folder / "hosts.yaml"])

    def values(self, uses: str, *names: str, **more):
        """What each of the hosts *names* gets, and what was read for that."""
        book, found = self(uses, **more)
        hosts = [it for it in found.hosts if it.name in (names or ("a", "b", "c"))]
        read: list[str] = []

        def value(reference) -> str:
            read.append(reference.words[0])
            return f"canary of {reference.words[0]}"

        values = resolved(book, found, hosts, discover(), changes=True, read=value)
        return {it.name: dict(values.of(it.name)[""]) for it in hosts}, read, values.masked


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def test_the_most_particular_place_counts_and_only_the_hosts_of_the_run_are_read_for(place):
    """Mutants: ``resolved`` with every host of the inventory; choice.py ``referred`` without the inventory's own."""
    got, read, masked = place.values("{{ secrets.bmc }}")
    assert got == {
        "a": {"bmc": "canary of BMC_OF_A"},
        "b": {"bmc": "canary of BMC_OF_RACK"},
        "c": {"bmc": "canary of BMC_OF_RACK"},
    }
    assert (read, set(masked)) == (["BMC_OF_A", "BMC_OF_RACK"], {"canary of BMC_OF_A", "canary of BMC_OF_RACK"})
    assert place.values("{{ secrets.bmc }}", "b")[1] == ["BMC_OF_RACK"]
    assert place.values("{{ secrets.all }}", "b")[:2] == ({"b": {"all": "canary of OF_ALL"}}, ["OF_ALL"])
    without = HOSTS.replace("hosts: [b, c]", "hosts: [c]")
    assert place.values("{{ secrets.bmc }}", "b", hosts=without)[1] == ["BMC_OF_ALL"]


OWN = "secrets: {bmc: {env: OF_BOOK}}\n"


def test_what_a_playbook_says_itself_goes_before_and_host_secrets_leaves_the_playbook_out(place):
    """Mutants: choice.py ``referred`` in which ``of_host`` sees the playbook's own."""
    assert place.values("{{ secrets.bmc }}", before=OWN)[1] == ["OF_BOOK"]
    assert place.values("{{ host.secrets.bmc }}", "a", before=OWN)[1] == ["BMC_OF_A"]
    both, read, _ = place.values("{{ secrets.bmc }} {{ host.secrets.bmc }}", "a", before=OWN)
    assert both == {"a": {"bmc": "canary of OF_BOOK", "host.bmc": "canary of BMC_OF_A"}}
    assert read == ["OF_BOOK", "BMC_OF_A"]


def test_a_host_without_one_is_named_before_anything_is_read(place):
    """Mutants: choice.py without ``_lacking``."""
    for uses in ("{{ secrets.ntp }}", "{{ host.secrets.ntp }}"):
        book, found = place(uses)
        (said,) = problems_with_references(book, found, found.hosts)
        assert said.message == "there is no secret 'ntp' for c, while other hosts of the run have one"
        assert (said.file.rpartition("/")[2], said.line) == ("main.yaml", 3)
        assert problems_with_references(book, found, found.hosts[:2]) == []
    book, found = place("{{ host.secrets.bcm }}")
    (said,) = problems_with_references(book, found, found.hosts)
    assert said.message.startswith("there is no secret 'bcm' in ")
    assert said.hint == "did you mean bmc?"


def test_a_probe_of_all_hosts_cannot_have_a_secret_that_differs(place):
    book, found = place("{{ secrets.bmc }}")
    text = (place.folder / "main.yaml").read_text().replace("{id: x,", "{id: x, once: true,")
    (place.folder / "main.yaml").write_text(text)
    book = read_playbook(place.folder / "main.yaml", discover())
    (said,) = problems_with_references(book, found, found.hosts)
    assert "runs once for all hosts, whose secrets of this name differ" in said.message
    assert problems_with_references(book, found, found.hosts[1:]) == []


def test_a_step_that_would_send_the_mask_of_a_field_is_refused_and_says_what_to_write(place):
    """Mutants: ``problems_with_references`` without ``_masked_fields``; ``host_fields`` without the environment."""
    hosts = "hosts:\n  a: {transport: local, db_password: hunter2-4711}\n  b: {transport: local, db_password: {env: X}}\n  c: {transport: local, plain: {env: X}, note: x}\n"
    book, found = place("-u {{ host.db_password }}", hosts=hosts)
    (said,) = problems_with_references(book, found, found.hosts)
    assert said.message == "host.db_password of a,b is a secret field, which no expression sees"
    assert said.hint == "in the host: secrets: {db_password: {file: PATH}}, and here: {{ host.secrets.db_password }}"
    assert (said.line, "4711" in str(said)) == (3, False)
    assert problems_with_references(book, found, found.hosts[2:]) == []
    book, found = place("{{ host.plain }} {{ host.note }}", hosts=hosts)
    assert problems_with_references(book, found, found.hosts) == []


BENT = [
    "{{ host.secrets.bmc | upper }}", "{{ host.secrets }}", "{{ host.secrets[inputs.x] }}", "{% if host.secrets.bmc %}x{% endif %}",
    "{{ host.secrets.bmc }}{{ host | tojson }}", "{% set x = host.secrets.bmc %}{{ x }}",
]  # fmt: skip


@pytest.mark.parametrize("text", BENT)
def test_a_secret_of_a_host_is_only_inserted_as_it_is(place, text):
    """Mutants: parsed_template.py ``_bends_secrets`` without its last line; without ``steps.count``."""
    with pytest.raises(ConfigError, match="a secret can only be inserted as it is"):
        place(text, before="inputs: {x: {about: x, type: string, default: bmc}}\n")


@pytest.mark.parametrize("step", ["when: host.secrets.bmc, PLAIN", "command: {argv: [x, '{{ host.secrets.bmc }}']}", "note: {text: '{{ host.secrets.bmc }}'}"])  # fmt: skip
def test_and_only_where_its_value_travels_unseen(place, step):
    (place.folder / "main.yaml").write_text(f"name: main\ndiagnose:\n  - {{id: x, {step.replace('PLAIN', PLAIN)}}}\n")
    with pytest.raises(ConfigError, match="cannot be used here: it would be visible"):
        read_playbook(place.folder / "main.yaml", discover())


def test_a_plan_shows_the_reference():
    """Mutants: names.py REFERENCE without ``host``."""
    assert REFERENCE.fullmatch("Bearer {{ host.secrets.bmc }}")
    assert shown_variable("BMC_PASSWORD", "{{ host.secrets.bmc }}") == "{{ host.secrets.bmc }}"


def test_the_hosts_are_shown_with_the_places_of_their_secrets(place):
    place("{{ secrets.bmc }}")
    shown = hosts_text("a", Choosing(inventory=(str(place.folder / "hosts.yaml"),)), verbose=True)
    assert (
        "    secrets: ntp (the file ntp-key), bmc (the environment variable BMC_OF_A of runbook)" in shown.splitlines()
    )


def test_whoever_makes_an_order_has_its_secrets_read():
    """Every command that runs something: one without would send the references. Mutants: any of them without the call."""
    folder = Path(run_command.__file__).parent
    texts = {str(it.relative_to(folder)): it.read_text() for it in folder.rglob("*.py")}
    makers = {name for name, text in texts.items() if re.search(r"= (order_(for|from|of)|undo_order)\(", text)}
    assert makers >= {
        "run.py",
        "exec.py",
        "locks.py",
        "api/__init__.py",
        "apply.py",
        "undo.py",
        "diagnose.py",
        "monitor.py",
    }
    lacking = {it for it in makers if not re.search(r"= (with_secrets_resolved|at_its_place)\(", texts[it])}
    assert lacking == {"settle.py", "cluster/site_order.py"}, (
        "`Settling` reads them for records, and a worker for its site"
    )
    assert "= with_secrets_resolved(" in texts["cluster/shard_work.py"]


# ---- with the program ------------------------------------------------------------------------------------------------

CANARIES = {"of a": "k4nary-a/'1\"x", "of b": "k4nary+b=2 &y", "of all": "k4nary-all\\3"}

BOOK = """
name: main
diagnose:
  - {id: seen, env: {OWN: "{{ secrets.own }}", ALL: "{{ host.secrets.all }}"}, command: {script: 'cat %(folder)s/everything; echo "$OWN $ALL" | base64 -w 0; echo; echo "got $OWN"; test -n "$ALL"'}}
findings: [{id: f, when: seen.stdout, severity: error, say: "{{ seen.stdout[:80] }}", advise: x, evidence: {out: seen.stdout}}]
remediate:
  - {id: write, for: f, file: {path: "%(folder)s/{{ host.name }}.conf", content: "mode: new\\n"}}
  - {id: use, for: f, env: {OWN: "{{ secrets.own }}"}, command: {check: {script: 'test -e %(folder)s/{{ host.name }}.out'}, do: {script: 'printf %%s "$OWN" >%(folder)s/{{ host.name }}.out; cat %(folder)s/everything >&2'}}}
"""


@pytest.fixture
def site(tmp_path, monkeypatch):
    monkeypatch.setenv("K4_A", CANARIES["of a"])
    (tmp_path / "of-b").write_text(CANARIES["of b"] + "\n")
    (tmp_path / "of-b").chmod(0o600)
    (tmp_path / "everything").write_text("".join(f"x {it} y\n" for it in CANARIES.values()))
    for name in ("a", "b"):
        (tmp_path / f"{name}.conf").write_text("mode: old\n" + (tmp_path / "everything").read_text())
    (tmp_path / "all").write_text(f"echo read >>{tmp_path}/log\ncat {tmp_path}/of-all\n")
    (tmp_path / "of-all").write_text(CANARIES["of all"])
    (tmp_path / "main.yaml").write_text(BOOK % {"folder": tmp_path})
    (tmp_path / "hosts.yaml").write_text(
        "hosts:\n"
        "  a: {transport: local, secrets: {own: {env: K4_A}}}\n"
        "  b: {transport: local, region: south}\n"
        "  c: {transport: local, secrets: {own: {env: K4_NOT_SET}}}\n"
        "groups: {south: {secrets: {own: {file: of-b}}}}\n"
        f"secrets: {{all: {{command: [sh, {tmp_path}/all]}}}}\n"
    )
    return tmp_path


def test_every_host_gets_its_own_and_no_sink_has_any_of_any_host(site):
    """Mutants: fleet/host_work.py with the secrets of another host; run.py whose ``hiding`` knows those of one host alone;
    undo_steps.py without ``lent_secrets``.
    """
    said: dict[str, str] = {}
    plan = str(site / "plan.json")
    where = ("-i", str(site / "hosts.yaml"))
    both = ("main.yaml", "--hosts", "a,b", *where)

    def does(name: str, *argv: str, codes: tuple[int, ...] = (0,)) -> None:
        reports = [it for end in ("json", "html", "md") for it in ("--report", f"report.{end}")]
        done = runbook(*argv, *(reports if name in ("dry run", "apply", "undo") else ()), cwd=site)
        said.update({f"{name} stdout": done.out, f"{name} stderr": done.err})
        said.update({f"{name} {it.name}": it.read_text() for it in site.glob("report.*")})
        assert done.code in codes, (name, done.code, done.err)

    does("dry run", "run", *both, "--dry-run")
    does("plan", "plan", *both, "-o", plan)
    said["plan.json"] = Path(plan).read_text()
    does("show", "show", plan)
    does("apply", "apply", plan, "--yes", "--parallel", "1", "--output", "json", codes=(0, 1))  # both are this machine
    assert [(site / f"{it}.out").read_text() for it in "ab"] == [CANARIES["of a"], CANARIES["of b"]]
    assert "got ***" in said["apply stdout"]
    (site / "a.conf").write_text("by hand: 1\n" + (site / "everything").read_text())
    does("undo --dry-run", "undo", "last", *where, "--dry-run", codes=(0, 6))
    does("undo", "undo", "last", *where, "--yes", codes=(6,))
    assert (site / "b.conf").read_text().startswith("mode: old"), said["undo stdout"] + said["undo stderr"]
    assert (site / "a.conf").read_text().startswith("by hand")
    does("history", "history", "show", "last")
    does("hosts", "hosts", "-v", *where)
    does("wrong", "run", "main.yaml", "--hosts", "all", *where, "--dry-run", codes=(2,))
    assert (
        "hosts.yaml:4:35: secret own: the environment variable K4_NOT_SET is not set (used at" in said["wrong stderr"]
    )
    records = [it for it in Path(os.environ["XDG_STATE_HOME"], "runbook").rglob("*") if it.is_file()]
    said |= {f"record {it.name}": it.read_text("latin-1") for it in records}
    assert len(records) > 2
    assert {where: found for where, text in said.items() if (found := leaks(text, CANARIES, 9))} == {}
    assert (site / "log").read_text().count("read") == 4, "dry run, plan, apply and the run that could not be begun"
