"""Numbers, depths and characters that no report can hold: they cost the host that sent them its answer, and no other."""

from __future__ import annotations

import json
import math
from typing import NoReturn

import pytest

from runbook.codec import to_json
from runbook.errors import ConfigError, ProbeError
from runbook.language.expressions.templates import Scope, evaluate, say, value_of
from runbook.library.docker.facts.engine import bytes_of, read_docker
from runbook.reporting.reporters.json import Reporter
from runbook.reporting.reporters.jsonl import Reporter as Lines
from runbook.text.host_json import DEEPEST, finite, loads
from runbook.values.command import Completed
from runbook.values.event import HostFinished, RunFinished
from runbook.values.playbook import Phase
from runbook.values.result import HostResult, Mode, RunResult, Status, StepResult, Verdict
from tests.support.program import runbook
from tests.support.tables import every_row

ODD = {
    "large": '{"load": 1e999}',
    "negative": "[-1e999]",
    "nan": '{"load": NaN}',
    "infinity": "[Infinity]",
    "deep": "[" * 5000 + "]" * 5000,
    "deeper": '{"a":' * 80 + "1" + "}" * 80,
    "digits": "1" * 5000,
}
FINE = {"surrogate": r'"\ud800"', "nul": r'"a\u0000b"', "long": "7" * 1000, "small": "1e-999", "minus": "-0.0"}

BOOK = """
name: odd
about: Odd numbers.
hosts: all
diagnose:
  - id: told
    command: {{argv: [cat, "{folder}/told"], parse: json}}
  - id: other
    command: {{argv: [echo, '{{"load": 1}}'], parse: json}}
  - id: config
    config_value: {{read: {{a: {{file: "{folder}/a.toml", key: a}}, b: {{file: "{folder}/b.yaml", key: b}}}}}}
findings:
  - id: high
    when: told.value.load > 5
    say: "{{{{ told.value.load * 2 }}}}"
    severity: error
  - id: reckoned
    when: other.value.load
    say: "{{{{ 1e308 * 10 }}}}"
    severity: warning
    evidence: {{number: "other.value.load * 1e308 * 10"}}
"""


def strict(text: str) -> dict:
    def refuse(name: str) -> NoReturn:
        raise AssertionError(f"{name} in a report")

    return json.loads(text, parse_constant=refuse)


@every_row("odd", [*ODD, *FINE])
def test_one_host_with_an_odd_number_does_not_cost_the_report(odd, tmp_path):
    (tmp_path / "told").write_text({**ODD, **FINE}[odd])
    (tmp_path / "a.toml").write_text("a = inf\n")
    (tmp_path / "b.yaml").write_text(f"b: 0x{'f' * 5000}\n")
    (tmp_path / "odd.yaml").write_text(BOOK.format(folder=tmp_path))
    (tmp_path / "hosts.yaml").write_text("hosts: {one: {transport: local}, two: {transport: local}}")
    where = (str(tmp_path / "odd.yaml"), "-i", str(tmp_path / "hosts.yaml"), "--hosts", "all")
    said = runbook("run", *where, "--output", "json", "--report", str(tmp_path / "r.jsonl"))
    assert "internal error:" not in said.err + said.out
    for host in strict(said.out)["hosts"]:
        steps = {it["id"]: it for it in host["steps"]}
        assert steps["other"]["status"] == "ok"
        known = "$unknown" not in json.dumps(steps["told"]["state"]["value"])
        assert known is (odd in FINE)
        assert steps["config"]["status"] in ("ok", "failed")
        assert host["findings"][0]["status"] == "unknown", "what rests on it is not known"
        assert host["verdict"] == "unknown"
    for line in (tmp_path / "r.jsonl").read_text().splitlines():
        strict(line)


EXPRESSIONS = [
    "'inf' | float", "'nan' | float", "'1e999' | float", "1e308 * 10", "1e308 + 1e308", "-1e308 - 1e308", "1e999",
    "1e300 / 1e-300", "[1e308, 1e308] | sum", "{'a': 1e999}", "[1e999]", "['inf'] | map('float') | list", "x.n * x.n",
    "x.n * 1e308", "1 / 0", "10 ** 10000", "(10 ** 400) | float", "x.n / 1e-300", "-(1e999)", "1e999 // 1",
    "[1e308, 1e308] | sum | string", "x.n | float * 1e300", "[x.n * 1.0, 1e308 * 1.7] | sum", "1e999 | round", "1e999 | string",
    "1e999 | abs", "1e999 ~ ''", "[1e999, 2] | max", "1e999 if true", "1e999 | tojson",
]  # fmt: skip


@every_row("expression", EXPRESSIONS)
def test_no_expression_gives_a_number_that_is_not_finite(expression):
    scope = Scope(states={"x": {"n": 9 * 10**307}})
    try:
        found = value_of(expression, scope)
        json.dumps(found, allow_nan=False)
        assert not any(it in str(found).lower() for it in ("inf", "nan")), found
    except ConfigError as error:
        assert str(error)
    try:
        text = say("it is {{ " + expression + " }}", scope)
    except ConfigError:
        return
    assert not any(it in text.lower() for it in ("inf", "nan")), text


def test_a_comparison_with_a_finite_number_still_works():
    scope = Scope(states={"x": {"n": 1.5}})
    assert evaluate("x.n - 1 < 1 and x.n / 3 == 0.5 and 7 // 2 == 3", scope) is True


@every_row("text", ["nan", "inf", "-inf", "1e999", "infinity", "x", ""])
def test_a_number_of_a_host_is_finite(text):
    with pytest.raises(ValueError, match=r"."):
        finite(text)
    with pytest.raises((ProbeError, ValueError), match=r"."):
        bytes_of(f"{text}MB")
    with pytest.raises(ValueError, match=r"."):
        loads(f"[{text}]" if text else "")


def test_docker_rows_are_read_as_strictly():
    for text in ODD.values():
        with pytest.raises(ProbeError, match="could not be parsed"):
            read_docker(Completed(exit_code=0, stdout=f"row {text}\n"))


def test_brackets_within_strings_are_no_depth():
    assert loads(json.dumps(["[" * 500 + '\\"' + "{" * 500]))
    assert loads("[" * DEEPEST + "]" * DEEPEST)
    with pytest.raises(ValueError, match="nested deeper"):
        loads("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1))


def test_values_to_json_without_what_json_lacks():
    deep: object = 1
    for _ in range(3000):
        deep = [deep]
    made = to_json({"a": math.inf, "b": math.nan, "c": 1 << 20000, "d": deep, "e": True, "f": 1.5})
    text = json.dumps(made, allow_nan=False, indent=1)
    assert text.count("$unknown") == 4
    assert json.loads(text)["f"] == 1.5


class Stream:
    encoding = "utf-8"

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        pass


def test_what_cannot_be_written_costs_one_step_and_is_named():
    def host(name: str, value: object) -> HostResult:
        states = {"bad": {"x": value}, "good": {"x": 1}}
        steps = tuple(
            StepResult(id=it, phase=Phase.DIAGNOSE, action="a", status=Status.OK, state=state)  # type: ignore[arg-type]
            for it, state in states.items()
        )
        return HostResult(host=name, verdict=Verdict.HEALTHY, steps=steps)

    hosts = (host("h1", object()), host("h2", 2))
    result = RunResult(run="r", playbook="p", mode=Mode.RUN, started_at="", seconds=1.0, exit_code=0, hosts=hosts)
    stream = Stream()
    Reporter(stream).on(RunFinished(result=result))  # type: ignore[arg-type]
    first, second = strict(stream.text)["hosts"]
    assert "cannot be written as JSON (TypeError" in first["error"]
    assert "cannot be written as JSON (TypeError" in first["steps"][0]["why"]
    assert first["steps"][1]["state"] == {"x": 1}
    assert second["error"] is None
    assert second["steps"][0]["state"] == {"x": 2}
    lines = Stream()
    for it in hosts:
        Lines(lines).on(HostFinished(result=it))  # type: ignore[arg-type]
    broken, whole = map(strict, lines.text.splitlines())
    assert broken["kind"] == "host_finished"
    assert "cannot be written" in broken["error"]
    assert whole["result"]["host"] == "h2"
