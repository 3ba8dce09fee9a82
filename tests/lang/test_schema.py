"""The schema for editors agrees with the loader: it takes what the loader takes, and refuses what people mistype."""

from __future__ import annotations

import json
from dataclasses import MISSING, fields
from functools import cache
from pathlib import Path
from typing import get_type_hints

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from runbook.errors import ConfigError
from runbook.language.lenient_read import unraw
from runbook.language.loader import load_playbook
from runbook.language.schema_export import exported_schema
from runbook.language.yaml_source import parse_playbook
from runbook.plugins import discover
from tests.support.program import runbook
from tests.support.tables import every_row

SHIPPED = sorted(Path(__file__).parents[2].joinpath("playbooks").glob("*.yaml"))
INNER = "name: inner\ninputs: {word: {about: x, default: zombie}}\ndiagnose:\n  - {id: seen, processes: {patterns: [some_thing]}}\n"


@cache
def validator() -> Draft202012Validator:
    return Draft202012Validator(exported_schema(discover()))


def loads(text: str) -> bool:
    try:
        load_playbook(text, "toy.yaml", discover(), lambda name, file: ("inner.yaml", INNER))
    except ConfigError:
        return False
    return True


def faults(text: str) -> list[str]:
    return [
        f"{list(it.absolute_path)}: {it.message[:200]}"
        for it in validator().iter_errors(unraw(parse_playbook(text, "toy.yaml").value))
    ]


def test_it_is_a_schema():
    Draft202012Validator.check_schema(exported_schema(discover()))


def test_the_program_prints_it():
    said = runbook("schema")
    assert said.code == 0
    assert json.loads(said.out) == exported_schema(discover())
    assert "yaml-language-server" in runbook("schema", "--help").out


def test_every_action_every_argument_and_every_key_is_in_it_with_its_words():
    schema = exported_schema(discover())
    for name, action in discover().items():
        own = schema["$defs"][f"action_{name}"]
        assert set(own["properties"]) == {it.name.rstrip("_") for it in fields(action.Args)}
        assert own["description"].startswith(action.summary)
        assert all(it.get("description") for it in own["properties"].values()), name
    for section in ("diagnose", "remediate", "verify"):
        item = schema["properties"][section]["items"]
        step = item.get("else", item)
        assert all(it.get("description") for it in step["properties"].values()), section
    assert all(it.get("description") for it in schema["properties"].values())
    for form in (schema["properties"]["findings"]["items"]["then"], schema["properties"]["findings"]["items"]["else"]):
        assert all(it.get("description") for it in form["properties"].values())


GOOD = [
    *(it.read_text() for it in SHIPPED),
    "name: toy\n",
    """\
name: toy
inputs:
  a: {about: x, type: array, items: {type: string, minLength: 2}, default: [bb]}
  b: {about: x, required: true, type: [integer, "null"]}
  c: {about: x, default: 7s, secret: true, enum: [7s, 8s]}
diagnose:
  - id: one
    name: The first
    when: inputs.a and true
    each: [a, b]
    retry: {times: 2, every: 500ms}
    become: someone
    env: {A: b, C: 1, D: true}
    timeout: 1h30m
    tags: [x, y]
    command: {argv: ["echo", "{{ item }}"], parse: {regex: 'a+'}, accepts: [0, 1]}
  - {id: two, once: true, on: controller, within: 5, every: 0.5, wait_for: {port: 80, at_most: "{{ inputs.c }}"}}
  - {id: three, command: {argv: ["echo", !raw "{{ not ours }}"]}, scratch: true, cwd: /tmp}
  - {id: four, gpu_idle: }
  - {id: sub, include: inner, inputs: {word: "{{ inputs.c }}"}}
findings:
  - {id: f, when: true, severity: critical, advise: Call somebody., unless: [], evidence: {a: two.waited}}
  - {id: g, when: two.waited > 3, severity: info, say: "{{ two.waited }}", unless: f, settle: 3s, gone_for: 1}
remediate:
  - {id: k, for: f, pkill: {patterns: "{{ inputs.a }}", grace: "{{ inputs.c }}", max_victims: "{{ inputs.b }}"}}
  - {id: l, after: [k], if_failed: k, always: true, confirm: true, command: {check: {script: "test $1", params: [x]}, do: {argv: [touch, /x]}}}
  - {if_changed: [k, l], ignore_failure: true, pause: {seconds: 3}}
  - {id: rest, name: All of it, include: inner}
verify:
  - {gpu_idle: {below: 5}, within: 3m, after: k, retry: {times: 1}}
limits: {batches: [1, "10%", "33.3%"], stop_after: 10%, deadline: 5m}
""",
]


@every_row("text", GOOD)
def test_what_people_write_is_good_for_both(text):
    if "name: toy" in text:
        load_playbook(text, "toy.yaml", discover(), lambda name, file: ("inner.yaml", INNER))
    assert faults(text) == []


WORD = "patterns: [some_thing]"
LOOK = f"name: toy\ndiagnose:\n  - {{id: a, processes: {{{WORD}}}}}\n"
BAD = [
    "[]",
    "hosts: all",
    LOOK + "remediat: []\n",
    LOOK + "hosts: [a]\n",
    LOOK.replace("id: a, ", ""),
    LOOK.replace("id: a", "id: 1a"),
    LOOK.replace("processes", "process"),
    LOOK.replace("patterns", "pattern"),
    LOOK.replace("{patterns: [some_thing]}", "{}"),
    LOOK.replace("[some_thing]", "some_thing"),
    LOOK.replace("[some_thing]", "[]"),
    LOOK.replace("[some_thing]", "[1]"),
    LOOK.replace("[some_thing]", "[some_thing], busy_above: 101"),
    LOOK.replace("[some_thing]", "[some_thing], busy_above: much"),
    LOOK.replace("id: a", "id: a, for: held"),
    LOOK.replace("id: a", "id: a, always: true"),
    LOOK.replace("id: a", "id: a, timeout: soon"),
    LOOK.replace("id: a", "id: a, timeout: -1"),
    LOOK.replace("id: a", "id: a, retry: 3"),
    LOOK.replace("id: a", "id: a, retry: {times: 0}"),
    LOOK.replace("id: a", "id: a, once: yes"),
    LOOK.replace("id: a", "id: a, inputs: {x: 1}"),
    LOOK.replace("id: a", "id: a, note: {text: x}"),
    LOOK + f"remediate:\n  - {{processes: {{{WORD}}}}}\n",
    LOOK + f"remediate:\n  - {{scratch: true, pkill: {{{WORD}}}}}\n",
    LOOK + f"remediate:\n  - {{retry: {{times: 3}}, pkill: {{{WORD}}}}}\n",
    LOOK + f"remediate:\n  - {{pkill: {{{WORD}, signal: term}}}}\n",
    LOOK + f"remediate:\n  - {{pkill: {{{WORD}, grace: 10 seconds}}}}\n",
    LOOK + f"remediate:\n  - {{pkill: {{{WORD}, max_victims: 1.5}}}}\n",
    LOOK + "remediate:\n  - {include: inner}\n",
    LOOK + "remediate:\n  - {id: b, include: inner, for: a}\n",
    LOOK + f"verify:\n  - {{pkill: {{{WORD}}}}}\n",
    LOOK + "verify:\n  - {id: b, include: inner}\n",
    LOOK + "findings:\n  - {id: f, when: a.matches}\n",
    LOOK + "findings:\n  - {id: f, when: a.matches, severity: bad}\n",
    LOOK + "findings:\n  - {id: f, when: a.matches, severity: error, advice: x}\n",
    LOOK + "inputs: {a: {type: string, default: x}}\n",
    LOOK + "inputs: {a: {about: x}}\n",
    LOOK + "inputs: {a: {about: x, default: 1, minimun: 0}}\n",
    LOOK + "inputs: {a: {about: x, default: 1, $ref: 'http://x'}}\n",
    LOOK + "inputs: {a: {about: x, required: false}}\n",
    LOOK + "limits: {attempts: 3}\n",
    LOOK + "limits: {batches: 1}\n",
    LOOK + "limits: {stop_after: 10 percent}\n",
]


@every_row("text", BAD)
def test_what_people_mistype_is_bad_for_both(text):
    assert not loads(text)
    assert faults(text) != []


def values(kind: str):
    """Values for an argument of a type, right and wrong ones."""
    texts = [
        "",
        "x",
        "some_thing",
        "10s",
        "0s",
        "5 m",
        "1GiB",
        "16 GiB",
        "1e3",
        "TERM",
        "KILL",
        "/x",
        "text",
        "lines",
        "(a+)+$",
    ]
    templates = ["{{ inputs.a }}", "{{ 5 }}", "{% if true %}3{% endif %}", "all", "leftover"]
    plain = st.sampled_from([0, 1, 5, -1, 2.5, 200, True, False, None, [], {}, *texts, *templates])
    lists = st.lists(plain, max_size=2)
    maps = st.dictionaries(st.sampled_from(["argv", "script", "params", "x", "regex"]), plain | lists, max_size=2)
    return (
        lists | plain
        if "tuple" in kind
        else maps | plain
        if "Mapping" in kind or "Program" in kind or "Json" in kind
        else plain
    )


def right(kind: str):
    """Values of the right type, as far as its name tells."""
    for word, known in {
        "Duration": ["10s", 5, "{{ inputs.a }}", " 1m30s "],
        "Size": ["1GiB", "16 GiB", 5, "3"],
        "Literal": [it.strip("'\" ") for it in kind.partition("Literal[")[2].partition("]")[0].split(",")],
        "tuple": [["/some_thing"], ["some_thing", "{{ 5 }}"], "{{ [inputs.a] }}"],
        "Mapping": [{"x": "y"}, {"x": "some_thing"}],
        "bool": [True, False, "{{ true }}"],
        "int": [1, 5, "{{ 5 }}"],
        "float": [2.5, 5, 1, "{{ 2 }}"],
        "str": ["/some_thing", "some_thing", "{{ inputs.a }}"],
    }.items():
        if word in kind:
            return st.sampled_from([it for it in known if it != ""])
    return values(kind)


@st.composite
def steps(draw, section: str):
    able = {"remediate": "decide", "verify": "holds"}.get(section, "probe")
    name = draw(st.sampled_from(sorted(it for it, action in discover().items() if getattr(action, able))))
    kind = discover()[name].Args
    hints = get_type_hints(kind)
    args = {}
    for it in fields(kind):
        needed = it.default is MISSING and it.default_factory is MISSING
        if needed or draw(st.integers(0, 4)) == 0:
            form = str(hints[it.name])
            args[it.name.rstrip("_")] = draw(values(form) if draw(st.integers(0, 11)) == 11 else right(form))
    step = {name: draw(st.sampled_from([args, args, args, args, None]))}
    if section == "diagnose" or draw(st.booleans()):
        step["id"] = draw(st.sampled_from(["one", "two", "three", "four"]))
    extras = {
        "when": ["true", True, "inputs.a", 3], "timeout": ["10s", 5, 0, "1m30s", " 5s ", "x", -1, 0.5], "become": [True, "me", 1],
        "within": ["5s", 0, "never"], "every": [1, "1s", 0], "retry": [{"times": 1}, {"times": 0}, {"times": 2, "every": "1s"}, 3],
        "each": [[1, "a"], "inputs.a", []], "tags": ["x", ["y"], [], 3], "env": [{"A": 1}, {"A": None}, []], "cwd": ["/", ""],
        "on": ["controller", "{{ inputs.a }}", 3], "once": [True, False, "yes"], "for": ["f", ["f"], [], "nope"], "always": [True, 1],
        "samples": [{"times": 3}, {"for": "10s", "every": 1}, {"times": 1}, {"every": 1}, {"times": "{{ inputs.a }}"}, {"times": 3, "while": True}, 3],
        "confirm": [True], "scratch": [True], "ignore_failure": [True, False], "name": ["A name", ""], "after": ["one", []],
        "if_failed": ["one"], "if_changed": [["one"]], "include": ["inner"], "inputs": [{}],
    }  # fmt: skip
    if draw(st.integers(0, 2)) == 2:
        key = draw(st.sampled_from(sorted(extras)))
        step[key] = draw(st.sampled_from(extras[key]))
    return step


@st.composite
def playbooks(draw):
    book = {
        "name": "toy",
        "inputs": {"a": {"about": "x", "default": draw(st.sampled_from(["some_thing", ["some_thing"], 3, "5s"]))}},
    }
    section = draw(st.sampled_from(["diagnose", "remediate", "verify"]))
    book[section] = [draw(steps(section))]
    book["findings"] = [{"id": "f", "when": "inputs.a", "severity": "error"}]
    if draw(st.integers(0, 3)) == 3:
        shares = [1, "10%", "0.5%", 0, "x", 1.5, True, " 5 % "]
        book["limits"] = {
            draw(st.sampled_from(["deadline", "stop_after"])): draw(st.sampled_from([*shares, "5s", 60])),
            "batches": draw(st.lists(st.sampled_from(shares), max_size=2)),
        }
    return yaml.safe_dump(book, allow_unicode=True)


TAKEN: list[bool] = []


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(playbooks())
def test_what_the_loader_takes_the_schema_takes(text):
    taken = loads(text)
    TAKEN.append(taken)
    if taken:
        assert faults(text) == [], text


def test_some_of_those_playbooks_are_taken():
    if len(TAKEN) >= 200:
        assert sum(TAKEN) > 10, "else the test above says nothing"
