"""The tools of ``runbook mcp``, called by the package's own client: what an assistant may name, and what it gets."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from runbook.commands.find import playbooks_in_text
from runbook.commands.mcp.tools import TOOLS
from tests.support.mcp_client import call, conversation, error, value
from tests.support.program import runbook

pytestmark = pytest.mark.slow

ACTS = ("apply", "approve", "undo", "resume", "settle", "run", "exec", "edit", "write", "init", "new")


def test_the_tools_are_six_and_each_says_that_it_reads(folder):
    """Mutants: a tool that applies; a tool without its hint."""
    listed = conversation(folder, lambda session: session.list_tools()).tools
    assert [tool.name for tool in listed] == ["find", "list", "show", "diagnose", "plan", "history"]
    assert not set(ACTS) & {tool.name for tool in listed}
    assert all(tool.annotations.read_only_hint for tool in listed)
    assert all(tool.input_schema["additionalProperties"] is False for tool in listed)


def test_find_names_the_playbook_and_reads_no_file(folder):
    """Mutants: a find that takes ``@FILE``, or ``-`` for stdin, as the command line does."""
    (folder / "log").write_text("NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=x\n")

    async def talk(session):
        texts = ("CUDA-capable device(s) is/are busy or unavailable", "@log", "-")
        return [await session.call_tool("find", {"error": text}) for text in texts]

    found, *others = (value(each)["found"]["untrusted_data"]["playbooks"] for each in conversation(folder, talk))
    assert found[0]["playbook"] == "zombie-gpu"
    assert others == [[], []]
    assert playbooks_in_text("@log")["playbooks"] == []


def test_list_and_show_give_what_the_commands_give(folder):
    async def talk(session):
        return await session.call_tool("list", {}), await session.call_tool("show", {"playbook": "tune"})

    listed, shown = map(value, conversation(folder, talk))
    known = json.loads(runbook("list", "--output", "json", cwd=folder).out)["playbooks"]
    assert listed["playbooks"] == known
    assert shown["text"].split() == runbook("show", "tune", cwd=folder).out.split()


@pytest.mark.parametrize(
    "name", ["./playbooks/tune.yaml", "playbooks/tune.yaml", "tune.yaml", "name: x", "/etc/passwd"]
)
def test_a_playbook_is_a_name_and_never_a_path_or_text(folder, name):
    """Mutants: served.py ``playbook_name`` that returns every name; tools.py ``_show`` without it."""

    async def talk(session):
        shown = await session.call_tool("show", {"playbook": name})
        return shown, await session.call_tool("plan", {"playbook": name, "hosts": "here"})

    for result in conversation(folder, talk):
        assert "no playbook is called" in error(result)
    assert not list((folder / "state").rglob("*.json"))


def test_a_file_in_the_working_directory_takes_no_playbooks_name(folder):
    """Mutants: ``playbook_name`` without its second test."""
    (folder / "tune").write_text("name: tune\nremediate: [{id: x, file: {path: /tmp/x, content: x}}]\n")
    assert "hides the playbook tune" in error(call(folder, "show", playbook="tune"))


def test_only_hosts_of_the_command_line_are_probed(folder):
    """Mutants: served.py ``narrowed`` without ``_refuse``; ``allowed`` that gives every host."""

    async def talk(session):
        given = {"playbook": "tune"}
        results = [await session.call_tool("plan", {**given, "hosts": hosts}) for hosts in ("here", "all", "there")]
        return [*results, await session.call_tool("plan", {**given, "hosts": "root@127.0.0.9:1"})]

    here, *others, address = conversation(folder, talk, "--hosts", "here")
    assert [host["host"] for host in value(here)["hosts"]] == ["here"]
    for other in others:
        assert "there: not among the hosts that this server was started for" in error(other)
    assert address.is_error


def test_a_step_on_another_host_stays_within_the_hosts_of_the_command_line(folder):
    """Mutants: ``narrowed`` without the places of steps; one that lets an input name the controller."""
    book = folder / "playbooks" / "tune.yaml"
    probe = 'diagnose:\n  - {id: look, on: "{{ inputs.place }}", command: {argv: [hostname]}}\nremediate:'
    book.write_text(book.read_text().replace("remediate:", probe))

    async def talk(session):
        given = {"playbook": "tune", "hosts": "here"}
        places = ("here", "there", "controller")
        return [await session.call_tool("plan", {**given, "inputs": {"place": place}}) for place in places]

    here, there, controller = conversation(folder, talk, "--hosts", "here")
    value(here)
    assert "there: not among the hosts" in error(there)
    assert "controller: not among the hosts" in error(controller)


def test_inputs_are_checked_as_on_the_command_line_and_secrets_are_refused(folder):
    """Mutants: ``_as_typed`` without its refusals; one that gives values that the environment overrides."""

    async def talk(session):
        inputs = ({"count": "many"}, {"no": 1}, {"token": "hunter2hunter2"}, {"text": "x", "count": 7}, {"text=a": "b"})
        return [await session.call_tool("plan", {"playbook": "tune", "hosts": "here", "inputs": it}) for it in inputs]

    many, unknown, secret, good, odd = conversation(folder, talk)
    assert "input count" in error(many)
    assert "tune has no input 'no'" in error(unknown)
    assert "token: an assistant gives no secret input" in error(secret)
    assert "hunter2" not in error(secret)
    assert "has no input 'text=a'" in error(odd)
    assert "+x 7" in value(good)["text"]["untrusted_data"]


def test_arguments_that_no_schema_has_are_refused(folder):
    """Mutants: tools.py ``called`` without the schema."""

    async def talk(session):
        calls = [
            ("diagnose", {"hosts": "here", "inventory": "other.yaml"}),
            ("plan", {"playbook": "tune", "hosts": "here", "force": True}),
            ("plan", {"playbook": "tune"}),
            ("find", {}),
            ("history", {"limit": 100000}),
            ("apply", {"plan": "x"}),
            ("show", {"playbook": "tune", "run": "20260101T000000Z-0000"}),
        ]
        return [await session.call_tool(name, given) for name, given in calls]

    results = conversation(folder, talk)
    assert all(result.is_error for result in results)
    assert "there is no tool 'apply'" in error(results[5])
    assert "either a playbook or a run" in error(results[6])


def test_records_are_resources_and_only_of_hosts_that_may_be_seen(folder):
    """Mutants: recorded.py ``_opened`` and ``runs`` without the limit."""
    env = {"XDG_STATE_HOME": str(folder / "state"), "HOME": str(folder), "cwd": folder}
    for hosts in ("there", "all"):
        assert runbook("run", "tune", "-i", "hosts.yaml", "--hosts", hosts, "--dry-run", **env).code == 0

    async def talk(session):
        listed = (await session.list_resources()).resources
        (own,) = listed
        texts = [
            (await session.read_resource(own.uri + it)).contents[0].text for it in ("", "/findings", "/hosts/here")
        ]
        hidden = await session.call_tool("show", {"run": own.name, "host": "there"})
        rows = value(await session.call_tool("history", {}))["runs"]["untrusted_data"]
        return [json.loads(text) for text in texts], hidden, rows

    (record, findings, evidence), hidden, rows = conversation(folder, talk, "--hosts", "here")
    assert ([host["host"] for host in record["hosts"]], record["hosts_not_shown"]) == (["here"], 1)
    assert [host["host"] for host in findings["hosts"]] == ["here"]
    assert "remediate write: would_change" in evidence["untrusted_data"]
    assert "no host 'there' that may be shown" in error(hidden)
    assert len(rows) == 1


def test_no_password_is_asked_and_an_inventory_is_needed(folder):
    """Mutants: ``Served`` without the refusal of -K; one that goes on without an inventory."""
    asked = runbook("mcp", "-i", "hosts.yaml", "-K", cwd=folder)
    assert (asked.code, "--become-password-file" in asked.err) == (2, True)
    without = runbook("mcp", cwd=folder / "target")
    assert (without.code, "no inventory" in without.err) == (2, True)


def test_without_the_package_the_extra_is_named():
    """Mutants: cli/mcp.py without its ``except``."""
    text = "import sys; sys.modules['mcp'] = sys.modules['anyio'] = None; sys.argv[1:] = ['mcp']; from runbook.cli import main; main()"
    done = subprocess.run((sys.executable, "-c", text), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert done.stderr.strip().endswith("the package mcp is not installed: pip install 'runbook-engine[mcp]'")


def test_every_tool_has_a_description_that_fits_a_line_of_a_menu():
    assert all(tool.about.endswith(".") and len(tool.about) < 300 for tool in TOOLS)
