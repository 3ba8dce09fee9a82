"""Groups follow from what a host is, and no name of one is left to chance."""

from __future__ import annotations

from tests.support.parse_text import host, inventory, mistakes
from tests.support.tables import every_row


@every_row(
    ("gpu", "device"),
    [
        ("gpu: H100 SXM", "gpu"),
        ("gpu: GH200 (96 GB)", "gpu"),
        ("gpu: 8x RTX 4090", "gpu"),
        ("gpu: A100D-20C (vGPU)", "gpu"),
        ("gpu: 4090", "gpu"),
        ("gpu: Tesla M4", "gpu"),
        ("gpu: M40", "gpu"),
        ("gpu: RTX 4090 beside Intel UHD", "gpu"),
        ("gpu: yes", "gpu"),
        ("gpu: none", "cpu"),
        ("gpu: None", "cpu"),
        ("gpu: ' NONE '", "cpu"),
        ("gpu: ''", "cpu"),
        ("gpu: null", "cpu"),
        ("gpu: no", "cpu"),
        ("gpu: 0", "cpu"),
        ("", "cpu"),
        ("gpu: M3 Max/Ultra (MPS)", "cpu"),
        ("gpu: M3 Max", "cpu"),
        ("gpu: Apple M2", "cpu"),
        ("gpu: MI300X", "gpu"),
        ("gpu: Gaudi3", "cpu"),
        ("gpu: Intel Max 1550", "cpu"),
        ("gpu: H100, cuda_capable: false", "cpu"),
        ("gpu: none, cuda_capable: true", "gpu"),
    ],
)
def test_only_a_gpu_of_nvidia_makes_a_gpu_host(gpu, device):
    groups = host(gpu).groups
    assert [it for it in ("gpu", "cpu") if it in groups] == [device]


@every_row(
    ("name", "provider"),
    [
        ("vast-29118471", "vast"),
        ("runpod-a100", "runpod"),
        ("nebius-h100-3", "nebius"),
        ("vultr-a100-20gb", "vultr"),
        ("hetzner-cpu1", "hetzner"),
        ("lambda-gh200-a", "lambda"),
        ("aws-proxy", "aws"),
        ("mac-studio", "local"),
        ("localhost", "local"),
        ("vastly-1", None),
        ("vast", None),
        ("macbook", None),
        ("node-7", None),
    ],
)
def test_the_prefix_of_a_name_tells_the_provider(name, provider):
    assert set(host("", name=name).groups) - {"cpu", "ready"} == ({provider} if provider else set())


def test_a_provider_that_the_file_names_goes_before_the_prefix():
    assert "colo" in host("provider: colo", name="vast-1").groups
    assert "vast" not in host("provider: colo", name="vast-1").groups


def test_a_host_is_in_the_groups_of_its_role_its_status_and_its_region():
    found = host("role: gpu_selfplay, status: ' Offline ', region: eu-north1")
    assert found.status == "offline"
    assert set(found.groups) == {"gpu_selfplay", "offline", "eu-north1", "cpu"}


@every_row("fields", ["", "status: null", "status: ''", "status: READY"])
def test_a_host_is_ready_unless_the_file_says_otherwise(fields):
    assert host(fields).status == "ready"


def test_a_group_that_the_file_names_is_in_the_order_of_the_hosts():
    found = inventory("hosts: {a: {}, b: {}, c: {}}\ngroups: {rack: [c, a]}")
    assert found.groups["rack"] == ("a", "c")
    assert ["rack" in it.groups for it in found.hosts] == [True, False, True]


def test_a_group_in_two_files_has_the_hosts_of_both():
    assert inventory("hosts: {a: {}}\ngroups: {g: [a]}", "hosts: {b: {}}\ngroups: {g: [b]}").groups["g"] == ("a", "b")


@every_row(
    ("groups", "said"),
    [
        ("{trainer: [a]}", "the group trainer is also what hosts are grouped by (role: trainer)"),
        ("{a: [b]}", "a.yaml:2:10: the group a has the name of a host"),
        ("{g: [a, nobody]}", "groups.g: no host is called nobody"),
        ("{g: [aa-2]}", "groups.g: no host is called aa-2 (did you mean aa-1?)"),
        ("{g: a}", "groups.g: expected a list of host names, not 'a'"),
        ("{g: {a: 1}}", "a.yaml:2:14: groups.g: unknown key 'a' (a group has hosts and secrets)"),
        ("{g: {}}", "a.yaml:2:10: groups.g: names neither hosts nor secrets"),
        ("{g: {host: [a]}}", "groups.g: unknown key 'host' (did you mean hosts?)"),
        ("{g: {hosts: a}}", "groups.g: expected a list of host names, not 'a'"),
        ("{g: {hosts: [nobody]}}", "groups.g: no host is called nobody"),
        (
            "{gpuu: {secrets: {x: {env: X}}}}",
            "groups.gpuu: there is no such group, and it names no hosts (did you mean gpu?)",
        ),
        ("{g: [[a]]}", "groups.g: expected the name of a host, not a list"),
        ("[a]", "a.yaml:2:1: groups: expected a mapping of group names to lists of hosts, not a list"),
        ("{all: [a]}", "the group name 'all' cannot be used ('all' means every host)"),
        ("{'a,b': [a]}", "the group name 'a,b' cannot be used (a name may have letters"),
    ],
)
def test_a_group_that_cannot_be_meant_is_a_mistake(groups, said):
    text = f"hosts: {{a: {{gpu: H100}}, b: {{role: trainer}}, aa-1: {{}}}}\ngroups: {groups}"
    assert said in "\n".join(mistakes(text))


def test_a_group_called_gpu_is_that_group_and_not_what_follows_from_the_field():
    """Mutant: the derived group and the named one together."""
    found = inventory("hosts: {a: {gpu: H100}, b: {gpu: none}, c: {gpu: H100}}\ngroups: {gpu: [b, c]}")
    assert found.groups["gpu"] == ("b", "c")
    assert ["gpu" in one.groups for one in found.hosts] == [False, True, True]
    assert found.groups["cpu"] == ("b",)


def test_a_host_called_like_a_group_of_others_is_a_mistake():
    (said,) = mistakes("hosts:\n  trainer: {}\n  a: {role: trainer}\n")
    assert said.startswith("a.yaml:2:3: trainer is the name of a host and also the role of 1")


def test_a_host_called_like_the_group_that_only_it_is_in_is_no_mistake():
    assert inventory("hosts: {coordinator: {role: coordinator}, a: {}}").groups["coordinator"] == ("coordinator",)


def test_a_value_that_two_kinds_share_for_other_hosts_makes_no_group():
    found = inventory("hosts: {mac-1: {}, office: {region: local}}")
    assert "local" not in found.groups
    assert inventory("hosts: {mac-1: {region: local}}").groups["local"] == ("mac-1",)


@every_row("role", ["'train,serve'", "'train , serve,'", "[train, serve]"])
def test_each_of_several_roles_makes_a_group(role):
    assert set(host(f"role: {role}").groups) == {"ready", "cpu", "train", "serve"}


def test_a_role_that_no_pattern_can_write_makes_no_group():
    assert set(host("role: 'train (old)'").groups) == {"ready", "cpu"}


@every_row(
    ("fields", "device"),
    [
        ("has_gpu: true, gpu_type: H100", "gpu"),
        ("gpu_type: RTX 4090", "gpu"),
        ("has_gpu: true", "gpu"),
        ("has_gpu: false, gpu_type: H100", "cpu"),
        ("has_gpu: true, gpu: none", "cpu"),
        ("gpu_type: MI300X", "gpu"),
        ("has_gpu: true, gpu_type: 'M3 Max (MPS)'", "cpu"),
    ],
)
def test_older_files_say_in_two_fields_whether_there_is_a_gpu(fields, device):
    assert device in host(fields).groups
