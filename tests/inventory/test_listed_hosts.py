"""Nodes, pods and containers become hosts with a way in, a state and groups, from what kubectl and docker print."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from runbook.commands.input_files import read_inventory
from runbook.connections.containers import NotRunning
from runbook.connections.transports.kubectl import _Kubectl
from runbook.errors import ConfigError
from runbook.inventory.host_patterns import select
from runbook.inventory.kubernetes_objects import load, tree_of
from runbook.values.inventory import Container, Host
from runbook.values.playbook import Where
from tests.support.tables import every_row

CASES = yaml.safe_load((Path(__file__).parents[1] / "data/listed_hosts.yaml").read_text())
ROWS = [(kind, case["about"]) for kind, cases in CASES.items() for case in cases]


def way(host: Host) -> str:
    """The way in, in words."""
    if not host.container:
        return str(host.addresses[0])
    return " ".join(filter(None, (host.container.engine, host.container.context, str(host.container))))


def text_of(case: dict) -> str:
    """The text that the program printed."""
    if "lines" in case:
        return "".join(f"{json.dumps(line)}\n" for line in case["lines"])
    if "context" in case:  # as the source adds it
        return json.dumps(tree_of(case["says"], case["context"]))
    return json.dumps(case["says"], indent=4)


@every_row(("kind", "about"), ROWS)
def test_each_host_has_its_way_in_and_its_state(tmp_path, kind, about):
    """Mutants: a node without conditions that is ready; the first of several containers; a status that is not told."""
    (case,) = (case for case in CASES[kind] if case["about"] == about)
    file = tmp_path / "listed.json"
    file.write_text(text_of(case))
    if "mistakes" in case:
        with pytest.raises(ConfigError) as caught:
            read_inventory([file])
        for words in case["mistakes"]:
            assert words.replace("items.0 ", "items.0: ") in str(caught.value)
        return
    found = read_inventory([file])
    of_engine = "engine" in case.get("says", {})  # as the source adds it; a list in a file may be old
    assert {bool(host.container.id) for host in found.hosts if host.container} <= {of_engine}
    assert {host.name: way(host) for host in found.hosts} == case["hosts"]
    left = case.get("left", {})
    assert {host.name: host.status for host in found.hosts if host.status != "ready"} == left
    if set(left) < set(case["hosts"]):
        taken = select(found, "all", include_not_ready=False)
        assert {each.host: each.why for each in taken.left_out} == {
            name: f"status: {why}" for name, why in left.items()
        }
    for name, groups in case.get("groups", {}).items():
        (host,) = (host for host in found.hosts if host.name == name)
        assert set(host.groups) == set(groups)


def test_there_are_twelve_of_each():
    assert all(len(cases) >= 12 for cases in CASES.values())


def test_what_kubectl_prints_in_yaml_is_read_too(tmp_path):
    (case,) = (case for case in CASES["kubernetes"] if case["about"] == "cordoned for maintenance")
    (tmp_path / "nodes.yaml").write_text(yaml.safe_dump(case["says"]))
    (host,) = read_inventory([tmp_path / "nodes.yaml"]).hosts
    assert (str(host.addresses[0]), host.status) == ("10.0.0.4", "cordoned")


def test_a_heartbeat_changes_no_host(tmp_path):
    """Mutant: ``_lasting`` that keeps the whole status."""
    (case,) = (case for case in CASES["kubernetes"] if case["about"].startswith("one container"))
    later = json.loads(json.dumps(case["says"]))
    later["items"][0]["metadata"]["resourceVersion"] = "2"
    later["items"][0]["status"]["hostIP"] = "10.0.0.9"
    assert tree_of(later) == tree_of(case["says"])


CONTAINERS = """\
hosts:
  node: {ssh_host: 192.0.2.1}
  a: {transport: docker, container_host: node}
  b: {transport: docker, container: other, container_id: c0ffee012345, container_engine: podman, container_user: app, context: far}
  c: {transport: kubectl, pod: p-0, namespace: ml, context: lab, container: main, container_host: node}
  d: {transport: kubectl}
"""


def test_containers_in_our_own_inventory(tmp_path):
    (tmp_path / "hosts.yaml").write_text(CONTAINERS)
    _, a, b, c, d = read_inventory([tmp_path / "hosts.yaml"]).hosts
    assert [way(host) for host in (a, b, c, d)] == [
        "docker a",
        "podman far other",
        "kubectl lab ml/p-0/main",
        "kubectl d",
    ]
    assert [host.via and host.via.name for host in (a, b, c, d)] == ["node", None, "node", None]
    assert (b.container.user, b.container.id, a.addresses) == ("app", "c0ffee012345", ())


@every_row(
    ("fields", "words"),
    [
        ("{transport: docker, container_host: nodes}", "a: container_host: no host of the inventory is called nodes (did you mean node?)"),
        ("{transport: docker, container_host: c}", "a: container_host: c is a container, not a machine"),
        ("{transport: docker, container_host: a}", "a: container_host forms a loop: a via a"),
        ("{transport: docker, pod: p}", "hosts.a.pod: the transport docker has no such field"),
        ("{transport: kubectl, container_user: p}", "hosts.a.container_user: the transport kubectl has no such field"),
        ("{transport: docker, container_engine: dokcer}", "hosts.a.container_engine: expected docker or podman, not 'dokcer'"),
        ("{transport: docker, container: -v}", "hosts.a.container: expected one word that does not begin with '-'"),
        ("{transport: docker, container: 'a;b'}", "hosts.a.container: expected the name of a container, not 'a;b'"),
        ("{transport: docker, container_id: abc}", "hosts.a.container_id: expected the id of a container, or the uid of a pod, not 'abc'"),
        ("{transport: kubectl, pod: deploy/x}", "hosts.a.pod: expected the name of a pod, not 'deploy/x'"),
        ("{transport: kubectl, namespace: A}", "hosts.a.namespace: expected the name of a namespace, not 'A'"),
        ("{transport: docker, context: 'a b'}", "hosts.a.context: expected one word"),
        ("{transport: docker, contaner: x}", "hosts.a.contaner: unknown field (did you mean container?)"),
        ("{container: x}", "hosts.a.container: the transport ssh has no such field (to reach a container"),
        ("{transport: dockr}", "a: there is no transport 'dockr' (did you mean docker?)"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_container_is_told_with_its_place(tmp_path, fields, words):
    text = f"hosts:\n  node: {{ssh_host: 192.0.2.1}}\n  c: {{transport: docker}}\n  a: {fields}\n"
    (tmp_path / "hosts.yaml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_inventory([tmp_path / "hosts.yaml"])
    assert words in str(caught.value)
    assert "hosts.yaml:4:" in str(caught.value)


@every_row(
    ("containers", "default", "meant"),
    [
        (["main"], "", "main"),
        (["side", "train 8"], "", "train"),
        (["side", "train 8"], "side", "side"),
        (["side", "main"], "", None),
        (["a 1", "b 1"], "", None),
    ],
)
def test_a_pod_is_entered_where_the_list_of_pods_enters_it(containers, default, meant):
    """Mutant: a transport with a rule of its own."""
    pairs = [each.partition(" ") for each in containers]
    rows = [{"name": name, **({"resources": {"limits": {"nvidia.com/gpu": n}}} if n else {})} for name, _, n in pairs]
    chosen = {"kubectl.kubernetes.io/default-container": default} if default else {}
    running = [{"name": name, "state": {"running": {}}} for name, _, _ in pairs]
    pod = {
        "metadata": {"name": "p", "annotations": chosen},
        "spec": {"containers": rows},
        "status": {"phase": "Running", "containerStatuses": running},
    }
    engine = _Kubectl(Container(engine="kubectl", pod="p"))
    if meant is None:
        with pytest.raises(NotRunning, match="several containers: name one with `container:`"):
            engine.entered(pod)
        return
    assert engine.entered(pod)[-3:-1] == ("--container", meant)
    listed = load(tree_of({"kind": "PodList", "items": [{**pod, "kind": "Pod"}]}), "f", lambda _: Where())
    assert [host.container.name for host in listed.hosts] == [meant]
