"""Each case of tests/data: what is concluded from an answer of a host; nothing sick is called healthy, and nothing raises."""

from __future__ import annotations

import re

import pytest
import yaml

from runbook.commands.input_files import read_playbook
from runbook.language.expressions.templates import Scope, evaluate, names
from runbook.library.gpu import gpu_health
from runbook.library.gpu.facts.verdict import Condition
from runbook.library.kernel.facts.patterns import worth_sending
from runbook.plugins import discover
from runbook.values.playbook import Severity
from tests.support.data_cases import Case, CaseError, Contains, Includes, UnknownFor, cases, differences, load, subjects
from tests.support.data_readers import PLAYBOOKS, READERS, PlaybookLoader, kernel_conclusions
from tests.support.tables import every_row

EVERY = [case for subject in subjects() for case in cases(subject)]
"""All cases."""


@every_row("case", [pytest.param(case, id=f"{case.subject}/{case.name}") for case in EVERY])
def test_what_is_concluded_is_what_the_case_says(case):
    reader = READERS[case.subject]
    assert set(case.given) <= reader.given, f"given: a case of {case.subject} may give {sorted(reader.given)}"
    wrong = list(differences(case.concludes, reader.conclude(case)))
    assert not wrong


def test_each_directory_has_a_reader_and_each_reader_cases():
    assert set(subjects()) == set(READERS)
    assert {case.subject for case in EVERY} == set(READERS)


def kernel_cases() -> list[Case]:
    return [case for case in EVERY if case.subject == "kernel_log"]


def test_what_a_reader_of_the_kernels_log_knows_comes_through_the_filter_on_the_host():
    """Mutants: patterns.py ``worth_sending`` without one of its kinds."""
    worth = re.compile(worth_sending())
    for case in kernel_cases():
        sent = [line for line in case.text.splitlines() if worth.search(line.lower())]
        assert not list(differences(case.concludes, kernel_conclusions("\n".join(sent) or "-"))), case.name


@every_row("playbook", ["monitor", "runner-preflight", "training-crash", "zombie-gpu"])
def test_a_playbook_that_needs_healthy_gpus_includes_what_looks_at_them(playbook):
    steps = yaml.load((PLAYBOOKS / f"{playbook}.yaml").read_text(encoding="utf-8"), PlaybookLoader)["diagnose"]
    assert "gpu-health" in [step.get("include") for step in steps]


def test_the_health_of_gpus_has_a_finding_for_every_fault_of_a_gpu_or_of_the_machine():
    """Mutants: the findings kernel_broken and hardware_errors without one of the fields that they look at."""
    whole = read_playbook(PLAYBOOKS / "gpu-health.yaml", discover())
    grave = [rule.when for rule in whole.findings if rule.severity is not Severity.INFO]
    rules = [when for when in grave if "kernel" in {root for root, _ in names(when, whole.let[""])}]
    serious = {"gpu_faults", "panics", "hardware_errors", "lockups"}
    held = [case for case in kernel_cases() if serious & set(case.concludes.get("faults", ()))]
    assert len(held) > 50
    for case in held:
        scope = Scope(
            inputs={"need_kernel": True},
            states={
                "kernel": kernel_conclusions(case.text),
                "health": {"off_the_bus": [], "smi": "answers", "unknown": []},
            },
            let=whole.let[""],
        )
        assert any(evaluate(rule, scope) is True for rule in rules), case.name


def test_the_health_of_gpus_has_a_finding_for_every_condition_that_costs_a_gpu_its_health():
    """Mutant: a condition without a finding, such as `warm`."""
    rules = [rule.when for rule in read_playbook(PLAYBOOKS / "gpu-health.yaml", discover()).findings]
    assert set(gpu_health._LISTS.values()) == set(Condition)
    assert [
        name for name in (*gpu_health._LISTS, "unknown") if not any(f"health.{name}" in rule for rule in rules)
    ] == []


def test_there_are_as_many_cases_as_there_were():
    """A case goes only together with what it was about."""
    assert len(EVERY) >= 526


@every_row(
    ("text", "words"),
    [
        ("says: x\nconcludes: {a: 1}\nexpects: {a: 1}\n", "expects: no such key"),
        ("says: x\n", "concludes is missing"),
        ("concludes: {a: 1}\n", "says is missing"),
        ("says: x\nconcludes: {}\n", "at least one conclusion"),
        ("says: x\nconcludes: healthy\n", "at least one conclusion"),
        ("says: x\nsays: y\nconcludes: {a: 1}\n", "stands there twice"),
        ("says: x\nconcludes: {a: 1, a: 2}\n", "stands there twice"),
        ("says: x\nconcludes: {a: !any 1}\n", "could not determine a constructor"),
        ("says: x\nconcludes: {a: 1}\ngiven: root\n", "given: a mapping is wanted"),
        ("- says\n", "a mapping is wanted"),
        ("", "a mapping is wanted"),
        ("says: [\n", "tests/data/case/x.yaml"),
    ],
)
def test_a_file_that_is_no_case_is_an_error_with_its_name(tmp_path, text, words):
    (tmp_path / "case").mkdir()
    path = tmp_path / "case" / "x.yaml"
    path.write_text(text)
    with pytest.raises(CaseError, match=re.escape(words)) as raised:
        load(path)
    assert str(raised.value).startswith("tests/data/case/x.yaml: ")


def test_a_file_that_would_not_be_read_as_yaml_is_an_error(tmp_path):
    (tmp_path / "x.yml").write_text("says: x\nconcludes: {a: 1}\n")
    with pytest.raises(CaseError, match=r"ends with \.yaml"):
        load(tmp_path / "x.yml")


FOUND = {"need": "reset", "faults": ["xids", "oom"], "idle": {"$unknown": "no second probe"}, "count": 1, "deep": {"a": [{"b": 1}]}}  # fmt: skip


@every_row(
    ("expected", "differs_at"),
    [
        ({"need": "reset"}, None),
        ({"need": "rese"}, "need"),
        ({"need": Contains("rese")}, None),
        ({"need": Contains("reboot")}, "need"),
        ({"faults": Contains("xid")}, None),
        ({"faults": Contains("panic")}, "faults"),
        ({"faults": Includes("oom")}, None),
        ({"faults": Includes("oo")}, "faults"),
        ({"need": Includes("reset")}, "need"),
        ({"faults": ["xids"]}, "faults"),
        ({"faults": ["oom", "xids"]}, "faults[0]"),
        ({"faults": []}, "faults"),
        ({"idle": UnknownFor("second")}, None),
        ({"idle": UnknownFor("first")}, "idle"),
        ({"need": UnknownFor("")}, "need"),
        ({"count": True}, "count"),
        ({"count": 1.0}, "count"),
        ({"nonsense": 1}, "nonsense"),
        ({"deep": {"a": [{"b": 1}]}}, None),
        ({"deep": {"a": [{}]}}, None),
        ({"deep": {"a": [{"b": 2}]}}, "deep.a[0].b"),
        ({"deep": {"a": [{}, {}]}}, "deep.a"),
        ({"need": {"a": 1}}, "need"),
    ],
)
def test_what_differs_is_named_by_its_place(expected, differs_at):
    """Mutants: data_cases.py with any of its comparisons left out."""
    places = [one.partition(":")[0] for one in differences(expected, FOUND)]
    assert places[:1] == ([differs_at] if differs_at else [])
