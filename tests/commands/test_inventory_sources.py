"""``-i kubectl:CONTEXT`` and its like: the program is asked once, for a list, and its words are told where it fails."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from runbook.commands.input_files import inventory_paths, read_inventory
from runbook.commands.inventory_sources import is_source, lasting_name, split_at_colons
from runbook.commands.plans.approvals import signers_file
from runbook.commands.plans.binding import _of_inventory
from runbook.commands.rests_on import host_digests
from runbook.commands.secret_masking import secrets_on_command_line
from runbook.errors import ConfigError
from runbook.inventory.listing_program import forget_lists
from runbook.values.inventory import Address, Host, Inventory
from tests.support.program import runbook
from tests.support.tables import every_row

NODE = {
    "kind": "Node",
    "metadata": {"name": "n1", "resourceVersion": "1"},
    "spec": {},
    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
}
POD = {
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "ml", "uid": "3f1c8a52-0d6e-4b7a-9c41-000000000001"},
    "spec": {"containers": [{"name": "c"}]},
    "status": {"phase": "Running", "containerStatuses": [{"name": "c", "state": {"running": {}}}]},
}
LISTING = {"_meta": {"hostvars": {"a": {"ansible_host": "192.0.2.1"}}}, "all": {"hosts": ["a"]}}
SCONTROL = "NodeName=gpu01 CPUAlloc=0\n   NodeAddr=192.0.2.1 State=DOWN*+DRAIN\n   BootTime=2026-01-01T00:00:00\n"


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Puts a program on PATH that prints a text, and keeps what it was asked."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    (tmp_path / "bin").mkdir()
    forget_lists()

    def install(name: str, text: str, code: int = 0, said: str = "") -> Path:
        (tmp_path / "text").write_text(text)
        asked = tmp_path / "asked"
        lines = [
            "#!/bin/sh",
            f'printf "%s\\n" "$*" >>{asked}',
            f"cat {tmp_path / 'text'}",
            f'printf "%s\\n" "{said}" >&2',
            f"exit {code}",
        ]
        (tmp_path / "bin" / name).write_text("\n".join(lines) + "\n")
        (tmp_path / "bin" / name).chmod(0o755)
        return asked

    yield install
    forget_lists()


def items(*objects: dict) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


@pytest.mark.parametrize(
    ("source", "name", "printed", "asked", "hosts"),
    [
        ("kubectl:lab", "kubectl", items(POD), "get pods --output json --context lab", {"p": "ready"}),
        ("kubectl:", "kubectl", items(POD), "get pods --output json", {"p": "ready"}),
        ("kubectl:lab,nodes", "kubectl", items(NODE), "get nodes --output json --context lab", {"n1": "ready"}),
        (
            "kubectl:lab,namespace=ml,selector=app=x",
            "kubectl",
            items(POD),
            "get pods --output json --context lab --namespace ml --selector app=x",
            {"p": "ready"},
        ),
        (
            "kubectl:arn:aws:eks:eu:1:cluster/a,namespace=*",
            "kubectl",
            items(POD),
            "get pods --output json --context arn:aws:eks:eu:1:cluster/a --all-namespaces",
            {"p": "ready"},
        ),
        (
            "docker:far,label=team=ml",
            "docker",
            json.dumps(
                {"ID": "c0ffee" * 10 + "1234", "Image": "i", "Names": "c", "State": "exited", "RunningFor": "2 hours"}
            ),
            "--context far ps --all --no-trunc --format {{json .}} --filter label=team=ml",
            {"c": "exited"},
        ),
        (
            "podman:far",
            "podman",
            json.dumps([{"Id": "c0ffee" * 10 + "1234", "Image": "i", "Names": ["c"], "State": "running"}]),
            "--connection far ps --all --no-trunc --format json",
            {"c": "ready"},
        ),
        ("scontrol:", "scontrol", SCONTROL, "show nodes", {"gpu01": "drained"}),
    ],
)
def test_a_source_asks_its_program_once_for_a_list(program, source, name, printed, asked, hosts):
    """Mutants: a program that is asked at each reading; an option that is lost."""
    told = program(name, printed)
    for _ in range(2):
        inventory = read_inventory(inventory_paths([source]))
        assert {host.name: host.status for host in inventory.hosts} == hosts
        assert inventory.sources == (source,)
    assert told.read_text() == f"{asked}\n"
    (host,) = inventory.hosts
    if host.container:
        context = source.partition(":")[2].partition(",")[0]
        assert (host.container.context, host.container.engine) == (context, name)
        assert host.container.id == (POD["metadata"]["uid"] if name == "kubectl" else "c0ffee" * 10 + "1234")


def test_a_saved_plan_is_not_applied_to_a_container_of_the_same_name_in_another_engine(program):
    """Mutants: a source that leaves the ids out; digests without the entry of the machine that has the containers."""
    plans = []
    for digit in ("1", "1", "2"):
        forget_lists()
        program("docker", json.dumps({"ID": digit * 64, "Image": "i", "Names": "c", "State": "running"}))
        plans.append(read_inventory(inventory_paths(["docker:"])))
    assert [refused(plans[0], now) for now in plans] == [False, False, True]
    node = Host(name="node", addresses=(Address(host="192.0.2.1"),))
    behind = [replace(node, name="c", addresses=(), via=replace(node, vars={"rack": rack})) for rack in (1, 1, 2)]
    lists = [Inventory(hosts=(host,), digest=str(at), sources=("docker:",)) for at, host in enumerate(behind)]
    assert [refused(lists[0], now) for now in lists] == [False, False, True]


def test_ansible_is_asked_where_its_file_is(program, tmp_path, monkeypatch):
    told = program("ansible-inventory", json.dumps(LISTING))
    file = tmp_path / "a,b.ini"
    file.write_text("a\n")
    (host,) = read_inventory(inventory_paths([f"ansible:{file}"])).hosts
    assert (host.name, str(host.addresses[0])) == ("a", "192.0.2.1")
    assert told.read_text() == f"-i {file} --list\n"


def test_a_heartbeat_changes_no_digest(program):
    """Mutant: the text of the program itself."""
    digests = set()
    for version in ("1", "2"):
        forget_lists()
        program("kubectl", items({**NODE, "metadata": {"name": "n1", "resourceVersion": version}}))
        digests.add(read_inventory(inventory_paths(["kubectl:lab,nodes"])).digest)
    assert len(digests) == 1


@every_row(
    ("source", "words"),
    [
        ("kubectl:lab,nodez", "kubectl:lab,nodez: unknown option nodez (did you mean nodes?)"),
        ("kubectl:lab,nodes,pods", "nodes, or pods"),
        ("kubectl:lab,nodes,namespace=x", "nodes are in no namespace"),
        ("kubectl:lab,namespace", "namespace needs a value"),
        ("kubectl:lab,nodes=yes", "nodes has no value"),
        ("kubectl:lab,namespace=-A", "is no option of a source"),
        ("kubectl:lab,namespace=a,namespace=b", "or is given twice"),
        ("kubectl:--server=x", "'--server=x' is no name of a context"),
        ("docker:a b", "'a b' is no name of a context"),
        ("scontrol:x", "write scontrol: alone"),
        ("ansible:/no/such", "there is no such file"),
        ("ansible:", "there is no such file"),
        ("kubectl:", "there is no kubectl on this machine"),
    ],
)
def test_a_mistyped_source_is_told_before_anything_is_asked(monkeypatch, source, words):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ConfigError) as caught:
        read_inventory(inventory_paths([source]))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("printed", "code", "said", "words"),
    [
        ("", 1, "error: context lab does not exist", "kubectl: error: context lab does not exist"),
        ("", 3, "", "kubectl: "),
        ("<html>", 0, "", "kubectl printed no list of hosts"),
        ("[]", 0, "", "kubectl printed no list of hosts"),
        (items(), 0, "", "kubectl lists no node and no pod"),
    ],
)
def test_a_program_that_fails_is_told_in_its_words(program, printed, code, said, words):
    program("kubectl", printed, code, said)
    with pytest.raises(ConfigError) as caught:
        read_inventory(inventory_paths(["kubectl:lab"]))
    assert words in str(caught.value)
    assert "kubectl:lab" in str(caught.value)


def test_a_mistyped_program_is_told_with_the_one_that_was_meant(tmp_path):
    for word, hint in (("dockr:lab", "did you mean docker:lab?"), ("kubctl:", "did you mean kubectl:?")):
        with pytest.raises(ConfigError) as caught:
            read_inventory(inventory_paths([word]))
        assert (f"there is no file {word} ({hint})") == str(caught.value)
    with pytest.raises(ConfigError, match="cannot read hosts:: No such file"):
        read_inventory(inventory_paths(["hosts:"]))


def test_an_inventory_program_of_ansible_is_asked_once_for_a_piece_of_work(program, tmp_path):
    """Mutant: a list that is kept although it shall be forgotten, as by a server that runs for days."""
    told = program("ansible-inventory", json.dumps(LISTING))
    (tmp_path / "list.sh").write_text("#!/bin/sh\nexec hosts-of-the-cloud\n")
    (tmp_path / "list.sh").chmod(0o755)
    for _ in range(2):
        forget_lists()
        for _ in range(2):
            assert [host.name for host in read_inventory([tmp_path / "list.sh"]).hosts] == ["a"]
    assert told.read_text() == f"-i {tmp_path}/list.sh --list\n" * 2


def test_a_secret_in_the_words_of_a_failing_program_is_masked(program):
    program("kubectl", "", 1, "cannot use --token=sk-hunter2hunter2hunter2 here")
    with pytest.raises(ConfigError) as caught:
        read_inventory(inventory_paths(["kubectl:lab"]))
    assert "hunter2" not in str(caught.value)
    assert "cannot use --token=***" in str(caught.value)


def test_a_file_of_such_a_name_is_written_with_its_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("docker:x").write_text("hosts: {a: {}}\n")
    assert not is_source("./docker:x")
    assert is_source("docker:x")
    assert not is_source("dockers:x")
    assert not is_source("docker")


def test_the_variable_has_sources_too(monkeypatch):
    monkeypatch.setenv("RUNBOOK_INVENTORY", "a.yaml:kubectl:lab,nodes:b.yaml")
    assert [str(path) for path in inventory_paths([])] == ["a.yaml", "kubectl:lab,nodes", "b.yaml"]
    assert split_at_colons("a::docker:") == ["a", "docker:"]


def test_a_record_names_the_source_and_the_working_directory_gives_it_no_signers(tmp_path, monkeypatch):
    """Mutant: a file ``allowed_signers`` of the working directory, where another user may have put it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "allowed_signers").write_text("x")
    assert lasting_name("kubectl:lab") == "kubectl:lab"
    assert lasting_name("a.yaml") == str(tmp_path / "a.yaml")
    assert signers_file("", ["kubectl:lab"]) is None
    assert signers_file("", ["a.yaml"]) == Path("allowed_signers")


def test_the_masking_of_a_mistake_asks_no_program(program):
    """Mutant: ``secrets_on_command_line`` that reads a source as it reads a file."""
    told = program("kubectl", items(NODE))
    assert secrets_on_command_line("", ["kubectl:lab,nodes"]) == ()
    assert not told.exists()


def test_the_secrets_of_a_source_are_masked_in_its_mistakes(program, tmp_path):
    host = {"ansible_host": "192.0.2.1", "ansible_password": "hunter2-secret", "gpu": {"hunter2-secret": 1}}
    program("ansible-inventory", json.dumps({"_meta": {"hostvars": {"a": host}}, "all": {"hosts": ["a"]}}))
    (tmp_path / "hosts.ini").write_text("a\n")
    said = runbook("hosts", "all", "-i", f"ansible:{tmp_path}/hosts.ini", cwd=tmp_path)
    assert "hunter2" not in said.err + said.out


def refused(before: Inventory, now: Inventory) -> bool:
    """Whether a plan for the first host of *before* is refused with the inventory *now*."""
    digests = host_digests(before, before.hosts[:1])
    rests = SimpleNamespace(inventory=before.sources, inventory_digest=before.digest, hosts=digests)
    saved = SimpleNamespace(rests_on=rests, made=SimpleNamespace(at="then"))
    return bool(_of_inventory(saved, SimpleNamespace(inventory=now, selection=SimpleNamespace(hosts=now.hosts[:1]))))


@every_row(
    ("inventory", "changed", "is_refused"),
    [
        (("docker:",), "other", False),
        (("docker:",), "mine", True),
        (("docker:", "/etc/hosts.yaml"), "other", True),
        (("/etc/hosts.yaml",), "other", True),
    ],
)
def test_a_saved_plan_outlives_what_a_source_says_of_other_hosts(inventory, changed, is_refused):
    """Mutants: any change of a list that refuses the plan; a change of the plan's own host that does not."""
    hosts = tuple(Host(name=name, vars={"container": name}) for name in ("mine", "other"))
    before = Inventory(hosts=hosts, digest="a", sources=inventory)
    now = tuple(replace(host, vars={"container": "new"}) if host.name == changed else host for host in hosts)
    assert refused(before, replace(before, hosts=now, digest="b")) == is_refused
