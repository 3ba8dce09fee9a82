"""What is given to a playbook: files of every kind, inputs, durations; all of it is inspected before any connection."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from runbook.errors import ConfigError
from runbook.language.loader import load_playbook
from runbook.language.yaml_source import parse_inventory, parse_playbook
from runbook.values.units import duration
from tests.support.program import runbook
from tests.support.tables import every_row
from tests.support.toy_actions import ACTIONS

BOOK = """\
name: toy
inputs:
  patterns: {about: x, type: array, items: {type: string, minLength: 2}, default: [nosuchprocess]}
  grace: {about: x, default: 3s}
  word: {about: x, default: nosuch}
  never: {about: x, type: boolean, default: false}
diagnose:
  - {id: seen, processes: {patterns: "{{ inputs.patterns }}"}}
remediate:
  - {id: stop, pkill: {patterns: "{{ inputs.patterns }}", grace: "{{ inputs.grace }}"}}
  - {id: each, each: inputs.patterns, pkill: {patterns: ["{{ item }}"]}}
  - {id: off, when: inputs.never, pkill: {patterns: ["{{ inputs.word }}"]}}
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "toy.yaml").write_text(BOOK)
    (tmp_path / "hosts.yaml").write_text("hosts: {here: {ssh_host: 127.0.0.1, ssh_port: 1, gpu: none}}\n")
    return tmp_path


def run(place: Path, *argv: str, book: str = "toy.yaml", inventory: str = "hosts.yaml"):
    return runbook("run", book, "--hosts", "here", "-i", inventory, "--dry-run", *argv, cwd=place, timeout=60)


def deep(levels: int) -> str:
    return "".join(f"{' ' * it}a:\n" for it in range(levels))


FILES = {
    "huge": (b"a: b\n" * 2_000_000, "larger than"),
    "large": (b"a: b\n" * 400_000, "than"),
    "empty": (b"", "empty"),
    "binary": (bytes(range(256)) * 40, "not UTF-8 text"),
    "nul": (b"\0" * 100, "#x0000"),
    "deep": (deep(900).encode(), "nested deeper"),
    "brackets": (b"[" * 100_000, "nested deeper"),
    "commas": (b"a: [" + b"x," * 310_000 + b"]", "more than"),
    "scalar": (b"only text", ""),
}


@every_row("role", ["playbook", "inventory", "inputs"])
@every_row("kind", FILES)
def test_a_file_that_is_none_of_ours_is_one_clear_line_at_once(place, kind, role):
    content, words = FILES[kind]
    (place / "odd.yaml").write_bytes(content)
    said = as_role(place, role)  # within its 60 s
    assert said.code == 2
    assert said.out == ""
    assert "odd.yaml" in said.err
    assert words in said.err or "larger than" in said.err or role == "inputs"
    assert len(said.err.splitlines()) == 1, said.err


def as_role(place: Path, role: str):
    match role:
        case "playbook":
            return run(place, book="odd.yaml")
        case "inventory":
            return run(place, inventory="odd.yaml")
    return run(place, "--inputs", "odd.yaml")


@pytest.mark.parametrize("role", ["playbook", "inventory", "inputs"])
@pytest.mark.parametrize(
    ("kind", "words"), [("folder", "directory"), ("pipe", "pipe"), ("device", "not a regular file")]
)
def test_a_folder_a_pipe_and_a_device_are_not_read(place, kind, words, role):
    odd = place / "odd.yaml"
    {"folder": odd.mkdir, "pipe": lambda: os.mkfifo(odd), "device": lambda: odd.symlink_to("/dev/zero")}[kind]()
    said = as_role(place, role)
    assert said.code == 2
    assert said.err.count("\n") == 1
    assert "odd.yaml" in said.err
    assert words in said.err


@pytest.mark.soak
def test_bad_yaml_is_refused_within_bounded_time_and_memory():
    code = (
        "import resource, sys; from runbook.language.yaml_source import parse_inventory as read\n"
        "try: read(sys.stdin.read(), 'x')\n"
        "except Exception as error: print(type(error).__name__)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)"
    )
    for text in ("a: [" + "x," * 190_000 + "]", deep(2500), "- " * 150 + "x", "x\n" * 190_000):
        began = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        done = subprocess.run([sys.executable, "-c", code], input=text, capture_output=True, text=True, check=True)
        assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - began < 10
        assert int(done.stdout.split()[-1]) < 1000, "MiB"


@every_row("merge", ["[1, 2]", "3", "text", "", "[{a: 1}, x]", "!raw {a: 1}"])
def test_a_merge_key_takes_mappings_only(merge):
    with pytest.raises(ConfigError, match=r"x.yaml:2:\d+: .*"):
        parse_inventory(f"a:\n  <<: {merge}\n", "x.yaml")


def test_a_merge_key_is_overridden_by_what_stands_beside_it():
    text = "one: &one {a: 1, b: 1}\ntwo: {a: 2, c: 2}\nboth: {<<: [*one, {b: 3, d: 3}], a: 9}\nlate: {<<: *one, b: 7}\n"
    value = parse_playbook(text, "x.yaml").value
    assert value["both"] == {"a": 9, "b": 1, "d": 3}
    assert value["late"] == {"a": 1, "b": 7}


SCHEMAS = [
    ("{$ref: 'http://127.0.0.1:%d/x.json'}", "'$ref' is not allowed"),
    ("{$ref: 'file:///etc/passwd'}", "'$ref' is not allowed"),
    ("{$ref: '#/nowhere'}", "'$ref' is not allowed"),
    ("{$dynamicRef: '#x'}", "'$dynamicRef' is not allowed"),
    ("{$id: 'http://127.0.0.1:%d/', items: {$ref: y}}", "'$id' is not allowed"),
    ("{items: {anyOf: [{$ref: 'http://127.0.0.1:%d/x'}]}}", "'$ref' is not allowed"),
    ("{properties: {a: {$ref: x}}}", "'$ref' is not allowed"),
    ("{$defs: {a: {}}, type: array}", "'$defs' is not allowed"),
    ("{$schema: 'http://127.0.0.1:%d/'}", "'$schema' is not allowed"),
    ("{minLenght: 2}", "did you mean minLength?"),
    ("{type: nonsense}", "nonsense"),
    ("{pattern: '('}", "not a regular expression"),
    ("{patternProperties: {'(': {}}}", "not a regular expression"),
    ("{minimum: low}", "low"),
]


@every_row(("schema", "words"), SCHEMAS)
def test_a_schema_of_an_input_that_says_too_much_is_refused_with_its_place_and_nothing_is_fetched(schema, words):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)
        written = schema.replace("%d", str(server.getsockname()[1]))
        text = f"name: toy\ninputs:\n  a: {written[:-1]}, about: x, default: [aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!]}}\n"
        with pytest.raises(ConfigError) as caught:
            load_playbook(text, "toy.yaml", ACTIONS)
        with pytest.raises(TimeoutError):
            server.accept()
    problem = caught.value.problems[0]
    assert words in str(problem)
    assert (problem.file, problem.line) == ("toy.yaml", 3)
    assert problem.column > 3


def test_a_name_that_looks_like_a_keyword_is_a_name():
    text = "name: toy\ninputs: {a: {about: x, properties: {$ref: {type: string}}, default: {$ref: y}, enum: [{$ref: y}]}}\n"
    assert load_playbook(text, "toy.yaml", ACTIONS).inputs[0].default == {"$ref": "y"}


@every_row(
    ("value", "words"),
    [
        (
            "patterns=['x(']",
            ["toy.yaml:8:5", "toy.yaml:10:5", "toy.yaml:11:5", "not a regular expression", "patterns[0]"],
        ),
        ("patterns=['good.one', 'good(']", ["toy.yaml:10:5", "patterns[1]", "not a regular expression"]),
        ("patterns=['.*']", ["toy.yaml:8:5", "it matches the empty text"]),
        (f"patterns=['{'a' * 600}']", ["toy.yaml:8:5", "500 characters"]),
        ("grace=soon", ["input grace: pkill: grace: 'soon' is not a duration", "used at", "toy.yaml:10:5)"]),
        ("grace=99999999h", ["toy.yaml:10:5", "longer than a year"]),
        (f"grace={'9' * 5000}h", ["toy.yaml:10:5", "is not a duration"]),
        ("patterns=x", ["a list is wanted (YAML or JSON)", """-e 'patterns=["one", "another"]'"""]),
        ("patterns=one,two", ["a list is wanted (YAML or JSON)", "as one item or as several"]),
        ("patterns={a: 1}", ["a list is wanted (YAML or JSON), got a mapping"]),
        ("patterns=[a", ["-e patterns: cannot be read as YAML"]),
        ("patterns=[x]", ["'x' must have at least 2 characters"]),
    ],
)
def test_inputs_that_an_action_cannot_take_are_refused_before_any_connection(place, value, words):
    said = run(place, "-e", value)
    assert said.code == 2
    assert said.out == ""
    for it in words:
        assert it in said.err, said.err


def test_inputs_of_a_file_and_of_a_step_that_is_left_out(place):
    (place / "in.yaml").write_text("grace: never\nword: '('\n")
    said = run(place, "--inputs", "in.yaml")
    assert "grace: 'never' is not a duration" in said.err
    assert ":12:" not in said.err, "its `when` is false"
    said = run(place, "-e", "word=(", "-e", "never=true").err
    assert said.startswith("runbook: input word: pkill: patterns[0]")
    assert "toy.yaml:12:5" in said


def test_one_value_that_three_steps_cannot_take_is_one_mistake_at_its_own_place(place):
    """Mutants: the place of the step, or none; one line for each step; an input with its default is blamed."""
    said = run(place, "-e", "patterns=['x(']")
    assert len(said.err.splitlines()) == 1, said.err
    (place / "in.yaml").write_text("# ours\ngrace: soon\n")
    said = run(place, "--inputs", "in.yaml")
    assert said.err.startswith("runbook: in.yaml:2:1: input grace: pkill: grace: 'soon' is not a duration")
    assert len(said.err.splitlines()) == 1, said.err
    said = run(place, "--inputs", "in.yaml", "-e", "grace=late")
    assert said.err.startswith("runbook: input grace: pkill: grace: 'late' is not a duration")


def test_one_item_of_a_list_needs_no_brackets(place):
    assert "connection refused" in run(place, "-e", "patterns=nosuchprocess").out, "it came as far as the transport"


@every_row("value", ["0s", "0", 0, "0.001s", "0h0m"])
@every_row("line", ["timeout: %s", "within: 5s, every: %s", "retry: {times: 2}, timeout: %s"])
def test_no_time_at_all_is_refused(line, value):
    text = f"name: toy\ndiagnose:\n  - {{id: a, {line % value}, procs: {{word: zombie}}}}\n"
    with pytest.raises(ConfigError, match=r"toy.yaml:3:\d+: (timeout|every): .* is too short"):
        load_playbook(text, "toy.yaml", ACTIONS)


def test_a_deadline_of_no_time_is_refused_in_a_file_and_on_the_command_line(place):
    with pytest.raises(ConfigError, match=r"toy.yaml:2:10: deadline: .* is too short"):
        load_playbook("name: toy\nlimits: {deadline: 0s}\n", "toy.yaml", ACTIONS)
    said = run(place, "--deadline", "0s", "--timeout", "0", "--connect-timeout", "0s", "-e", "grace=soon")
    assert said.code == 2
    for it in ("--deadline: '0s'", "--timeout: '0'", "--connect-timeout: '0s'"):
        assert f"{it} is too short" in said.err


@every_row("value", ["-5s", -1, "5 weeks", "1e9s", "", None, True, "s", "1h-5m", float("nan")])
def test_what_is_no_duration_is_refused(value):
    with pytest.raises(ConfigError):
        duration(value)


@every_row(("value", "seconds"), [("1h30m", 5400), (" 10s ", 10), ("500ms", 0.5), (3, 3), ("2", 2), ("0s", 0)])
def test_what_is_a_duration(value, seconds):
    assert duration(value) == seconds
