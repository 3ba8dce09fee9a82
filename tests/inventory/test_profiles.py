"""``profiles:`` in an inventory: which hosts they mean, and every mistake with its place."""

from __future__ import annotations

import pytest

from runbook.commands.input_files import read_inventory
from runbook.errors import ConfigError
from tests.support.tables import every_row

HOSTS = """\
hosts:
  a: {ssh_host: 192.0.2.1, gpu: 8x H100}
  b: {ssh_host: 192.0.2.2, gpu: 8x A100, status: drained}
profiles:
"""


def test_a_profile_has_the_hosts_of_its_pattern_whatever_their_status(tmp_path):
    file = tmp_path / "hosts.yaml"
    lines = ["one: {hosts: gpu=*A100*, inputs: {gpu-health: {x: [1]}}}", "two: {hosts: a, limits: {cooldown: 90s}}"]
    file.write_text(HOSTS + "".join(f"  {line}\n" for line in lines))
    one, two = read_inventory([file]).profiles
    assert (one.name, one.hosts, one.inputs, one.cooldown) == ("one", ("b",), {"gpu-health": {"x": [1]}}, 0)
    assert (two.hosts, two.cooldown, two.host_deadline) == (("a",), 90, 0)
    assert str(one.places["gpu-health", "x"]) == f"{file}:5:50"


def test_a_section_of_another_program_is_left_alone(tmp_path):
    file = tmp_path / "hosts.yaml"
    file.write_text(HOSTS + "  fast: {threads: 8}\n  slow: 1\n")
    assert read_inventory([file]).profiles == ()


@every_row(
    ("entry", "words"),
    [
        ("{hosts: c, limits: {}}", ":5:3: profiles.p.hosts: no host and no group is called 'c'"),
        ("{hosts: gpu=*B200*, limits: {}}", ":5:3: profiles.p.hosts: no host has gpu=*B200*"),
        ("{limits: {}}", ":5:3: profiles.p.hosts: expected a pattern"),
        ("{hosts: [a], limits: {}}", "profiles.p.hosts: expected a pattern"),
        ("{host: a, limits: {}}", ":5:7: profiles.p: unknown key 'host' (did you mean hosts?)"),
        ("{hosts: a, limits: {coldown: 1s}}", "profiles.p.limits: unknown key 'coldown' (did you mean cooldown?)"),
        ("{hosts: a, limits: {cooldown: soon}}", "profiles.p.limits.cooldown: 'soon' is not a duration"),
        ("{hosts: a, input: {x: {y: 1}}}", "profiles.p: unknown key 'input' (did you mean inputs?)"),
        ("{hosts: a, limit: {cooldown: 1s}}", "profiles.p: unknown key 'limit' (did you mean limits?)"),
        ("{hosts: a, limits: 5}", "profiles.p.limits: expected a mapping with host_deadline, cooldown"),
        ("{hosts: a, inputs: 5}", "profiles.p.inputs: expected a mapping of playbooks to inputs, not 5"),
        ("{hosts: a, inputs: {x: 5}}", "profiles.p.inputs.x: expected a mapping of inputs to values, not 5"),
        ("{hosts: a, limits: {}}\n  q: 5", ":6:3: profiles.q: expected a mapping with hosts, inputs, limits"),
        (
            "{hosts: all, inputs: {x: {y: 1}}}\n  q: {hosts: a, inputs: {x: {y: 2}}}",
            ":6:30: y of x: the profile p gives a another value (see ",
        ),
    ],
)
def test_a_mistake_in_a_profile_is_told_with_its_place(tmp_path, entry, words):
    """Mutants: a pattern that is not resolved; a clash of which the later one counts."""
    (tmp_path / "hosts.yaml").write_text(f"{HOSTS}  p: {entry}\n")
    with pytest.raises(ConfigError) as caught:
        read_inventory([tmp_path / "hosts.yaml"])
    assert words in str(caught.value)


def test_a_mistyped_name_of_the_section_is_a_mistake_and_a_section_of_another_program_is_none(tmp_path):
    (tmp_path / "hosts.yaml").write_text(HOSTS.replace("profiles:", "profile:") + "  p: {hosts: a, limits: {}}\n")
    with pytest.raises(ConfigError, match=r"unknown key 'profile' \(did you mean profiles\?\)"):
        read_inventory([tmp_path / "hosts.yaml"])
    (tmp_path / "hosts.yaml").write_text(HOSTS.replace("profiles:", "profile:") + "  fast: {threads: 8}\n")
    assert read_inventory([tmp_path / "hosts.yaml"]).profiles == ()


def test_two_files_with_a_profile_of_one_name_are_a_mistake(tmp_path):
    for name, host in (("one", "a"), ("two", "b")):
        text = f"hosts: {{{host}: {{ssh_host: 192.0.2.1}}}}\nprofiles: {{p: {{hosts: {host}, limits: {{}}}}}}\n"
        (tmp_path / f"{name}.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"the profile p is also in .*one.yaml:2:12"):
        read_inventory([tmp_path / "one.yaml", tmp_path / "two.yaml"])


def test_equal_values_of_two_profiles_are_no_clash(tmp_path):
    rows = ["p: {hosts: all, inputs: {x: {y: 1}}}", "q: {hosts: a, inputs: {x: {y: 1, z: 2}}}"]
    (tmp_path / "hosts.yaml").write_text(HOSTS + "".join(f"  {row}\n" for row in rows))
    assert [it.name for it in read_inventory([tmp_path / "hosts.yaml"]).profiles] == ["p", "q"]
