"""Lists of Slurm's nodes come to hosts with their addresses, partitions, GPUs and states."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from runbook.commands.input_files import read_inventory
from runbook.errors import ConfigError
from runbook.inventory.host_patterns import select
from runbook.values.inventory import Inventory
from tests.support.tables import every_row


def written(folder: Path, text: str) -> Inventory:
    (folder / "nodes").write_text(dedent(text))
    return read_inventory([folder / "nodes"])


def mistake(folder: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        written(folder, text)
    return str(caught.value).replace(f"{folder}/", "")


SCONTROL = """\
NodeName=gpu01 Arch=x86_64 CoresPerSocket=32
   CPUAlloc=8 CPUEfctv=64 CPUTot=64 CPULoad=1.20
   AvailableFeatures=h100,ib
   ActiveFeatures=h100
   Gres=gpu:h100:8(S:0-1)
   NodeAddr=192.0.2.1 NodeHostName=gpu01 Version=23.02.6
   OS=Linux 5.15.0-91-generic #101-Ubuntu SMP State=DOWN NodeAddr=203.0.113.9
   RealMemory=1000 AllocMem=0 FreeMem=900 Sockets=2 Boards=1
   State=MIXED ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=train,debug
   BootTime=2024-01-01T00:00:00 SlurmdStartTime=2024-01-01T00:00:00

NodeName=gpu02 CoresPerSocket=32
   CPUAlloc=0 CPUTot=64
   AvailableFeatures=(null)
   Gres=gpu:8
   NodeAddr=192.0.2.2 NodeHostName=host2
   State=IDLE+DRAIN ThreadsPerCore=1
   Partitions=train
   Reason=bad gpu State=IDLE [root@2024-01-01T00:00:00]

NodeName=cpu01 Arch=x86_64
   CPUAlloc=0
   Gres=(null)
   NodeHostName=cpu01.example.net
   State=IDLE*
   Partitions=debug
"""


def summary(found: Inventory) -> dict[str, tuple[str, str, object]]:
    return {host.name: (str(host.addresses[0]), host.status, host.vars.get("gpu")) for host in found.hosts}


@every_row("text", [SCONTROL, "\n".join(" ".join(part.split("\n")) for part in SCONTROL.split("\n\n"))])
def test_both_forms_of_scontrol_come_to_the_same(tmp_path, text):
    """Mutants: values of people and hosts (OS, Reason) read for keys."""
    found = written(tmp_path, text)
    assert summary(found) == {
        "gpu01": ("192.0.2.1", "ready", "8x h100"),
        "gpu02": ("192.0.2.2", "drained", "8x GPU"),
        "cpu01": ("cpu01.example.net", "not_responding", "none"),
    }
    assert found.groups["train"] == ("gpu01", "gpu02")
    assert found.groups["debug"] == ("gpu01", "cpu01")
    assert found.groups["gpu"] == ("gpu01", "gpu02")
    assert found.hosts[0].vars["features"] == ["h100"]
    assert [host.name for host in select(found, "all", False).hosts] == ["gpu01"]
    assert [host.name for host in select(found, "partition=train", True).hosts] == ["gpu01", "gpu02"]


CONF = """
    ClusterName=lab   # a comment
    SlurmctldHost=head
    NodeName=DEFAULT CPUs=64 State=UNKNOWN
    NodeName=gpu[01-03] NodeAddr=192.0.2.[11-13] \\
        Gres=gpu:a100:4,mps:200 Feature=ib,a100
    nodename=old1 State=FUTURE
    NodeName=cpu[1,3] NodeHostname=c[1-2].example.net State=CLOUD
    DownNodes=gpu03 State=DOWN Reason="broken fan"
    NodeSet=fast Feature=a100
    PartitionName=train Nodes=fast Default=YES
    PartitionName=every Nodes=ALL
    PartitionName=some Nodes=gpu[01-02],cpu1
"""


def test_lines_of_slurm_conf_are_read(tmp_path):
    found = written(tmp_path, CONF)
    assert summary(found) == {
        "gpu01": ("192.0.2.11", "ready", "4x a100"),
        "gpu02": ("192.0.2.12", "ready", "4x a100"),
        "gpu03": ("192.0.2.13", "down", "4x a100"),
        "old1": ("old1", "future", "none"),
        "cpu1": ("c1.example.net", "cloud", "none"),
        "cpu3": ("c2.example.net", "cloud", "none"),
    }
    assert found.groups["train"] == ("gpu01", "gpu02", "gpu03")
    assert found.groups["some"] == ("gpu01", "gpu02", "cpu1")
    assert len(found.groups["every"]) == 6
    assert str(found.hosts[0].where).endswith("nodes:5:1")


@every_row(("state", "status"), [
    ("IDLE", "ready"), ("ALLOCATED+COMPLETING", "ready"), ("IDLE+CLOUD", "ready"), ("DOWN*", "down"),
    ("MIXED+DRAIN", "draining"), ("DOWN+DRAIN", "drained"), ("IDLE+MAINTENANCE", "maintenance"),
    ("IDLE+POWERED_DOWN", "powered_down"), ("FUTURE", "future"), ("NEWSTATE", "newstate"), ("(null)", "unknown"),
])  # fmt: skip
def test_a_state_is_ready_only_where_jobs_run(tmp_path, state, status):
    assert written(tmp_path, f"NodeName=n1 CPUAlloc=0 State={state}").hosts[0].status == status


@every_row(("text", "said"), [
    ("NodeName=gpu[1-3] NodeAddr=192.0.2.[1-2]", "nodes:1:19: 2 addresses for 3 nodes (each node needs one address)"),
    ("NodeName=gpu[3-1]", "nodes:1:1: the list of nodes has a range that ends before it begins"),
    ("NodeName=gpu[1-x]", "nodes:1:1: the list of nodes has something else than numbers and ranges between [ and ]"),
    ("NodeName=gpu[1-100000]", "nodes:1:1: the list of nodes stands for more than 20000 nodes"),
    ("NodeName=a\n# x\nNodeName=a", "nodes:3:1: the node a is also on line 1"),
    ("NodeName=a Gres=gpu:x:y:z", "nodes:1:12: expected Gres=gpu:COUNT or Gres=gpu:TYPE:COUNT"),
    ("NodeName=a\nPartitionName=p Nodes=b", "nodes:2:17: there is no node b (name it in a line with NodeName=)"),
    ("NodeName=a\ninclude /etc/x", "nodes:2:1: Include: another file of Slurm's is not read from here (give the nodes of all files together: scontrol show nodes > nodes.txt)"),
    ("NodeName=a NodeAddr=b:22", "nodes:1:12: slurm_nodes.a.ssh_host: expected an address without a port, not 'b:22' (the port goes into ssh_port)"),
])  # fmt: skip
def test_mistakes_have_their_line(tmp_path, text, said):
    assert mistake(tmp_path, text) == said


def test_two_thousand_nodes_of_scontrol_are_read(tmp_path):
    node = SCONTROL.split("\n\n")[0]
    text = "\n\n".join(node.replace("gpu01", f"n{number}") for number in range(2000))
    assert len(written(tmp_path, text).hosts) == 2000


@every_row("text", ["Port=22\nUser=x\n", "name=NodeName=x\n", "# NodeName=x\nplain words\n"])
def test_a_file_of_another_kind_keeps_its_message(tmp_path, text):
    assert "not an inventory in a known format" in mistake(tmp_path, text)


def test_what_stands_first_in_a_record_counts(tmp_path):
    """Mutants: the last value of a key, which a comment may hold."""
    found = written(
        tmp_path, "NodeName=a CPUAlloc=0 NodeAddr=192.0.2.1 State=DOWN Owner=NodeAddr=x State=IDLE NodeAddr=192.0.2.2"
    )
    assert summary(found) == {"a": ("192.0.2.1", "down", None)}


def test_long_lists_are_read_in_a_time_that_grows_with_them(tmp_path):
    """Mutants: splitting at commas by searching ahead for a bracket at each of them."""
    names = ",".join(f"n{number}" for number in range(19_000))
    found = written(tmp_path, f"NodeName=n[0-18999]\nPartitionName=p Nodes={names}\n")
    assert len(found.groups["p"]) == 19_000
