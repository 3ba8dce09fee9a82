"""JUnit XML: every host, step and finding is a case, and nothing that is not known passes."""

from __future__ import annotations

import io
from xml.etree import ElementTree

import pytest

from runbook.reporting.reporters.junit import STATUSES, VERDICTS, Reporter
from runbook.values.plan import Finding, Presence
from runbook.values.playbook import Phase, Severity
from runbook.values.result import HostResult, Mode, Status, Verdict
from tests.reporters.hostile_texts import HOSTILE
from tests.support.sample_runs import command, finished, sample_host, step
from tests.support.tables import every_row


def written(*hosts: HostResult, **keys) -> str:
    stream = io.StringIO()
    Reporter(stream).on(finished(*hosts, **keys))
    return stream.getvalue()


def suites(*hosts: HostResult, **keys) -> dict[str, ElementTree.Element]:
    return {it.get("name", ""): it for it in ElementTree.fromstring(written(*hosts, **keys))}


def outcome(case: ElementTree.Element) -> str:
    kinds = [it.tag for it in case if it.tag in ("failure", "error", "skipped")]
    assert len(kinds) <= 1
    return kinds[0] if kinds else "passed"


def outcomes(suite: ElementTree.Element) -> dict[str, str]:
    return {it.get("name", ""): outcome(it) for it in suite.iter("testcase")}


def test_a_host_is_a_suite_with_a_case_for_its_verdict_each_finding_and_each_step():
    said = outcomes(suites(sample_host(7))["gpu-0007"])
    assert list(said) == ["verdict", "finding held", "finding in_use", *(f"diagnose {it}" for it in ("matches", "holders", "gpus", "kernel", "disk")),
                          *(f"remediate {it}" for it in ("stop_leftovers", "stop_hard", "reset_gpus", "restart_service", "enable_again")),
                          "verify gpus_free", "verify service_up"]  # fmt: skip
    assert said["verdict"] == said["finding held"] == said["remediate reset_gpus"] == "failure"
    assert said["finding in_use"] == said["remediate stop_leftovers"] == said["diagnose gpus"] == "passed"
    assert said["remediate stop_hard"] == "skipped"
    assert said["verify gpus_free"] == "error"


def test_what_is_not_known_is_an_error_and_never_passes():
    """Mutants: junit.py with "passed" for Status.UNKNOWN, Verdict.UNKNOWN or Presence.UNKNOWN."""
    passing = {it for it, word in STATUSES.items() if word == "passed"} | {
        it for it, word in VERDICTS.items() if word == "passed"
    }
    assert passing == {Status.OK, Status.CHANGED, Verdict.RESOLVED, Verdict.HEALTHY}
    assert set(STATUSES) == set(Status)
    assert set(VERDICTS) == set(Verdict)
    for severity in Severity:
        blind = Finding(id="dark", severity=severity, status=Presence.UNKNOWN, why="no answer")
        assert (
            outcomes(suites(HostResult(host="h", verdict=Verdict.HEALTHY, findings=(blind,)))["h"])["finding dark"]
            == "error"
        )
    steps = tuple(step(Phase.VERIFY, it, it) for it in Status)
    said = outcomes(suites(HostResult(host="h", verdict=Verdict.UNKNOWN, steps=steps))["h"])
    assert said["verdict"] == "error"
    assert {it for it in Status if said[f"verify {it}"] == "passed"} == {Status.OK, Status.CHANGED}


@pytest.mark.parametrize(
    ("severity", "word"), [("critical", "failure"), ("error", "failure"), ("warning", "skipped"), ("info", "passed")]
)
def test_a_finding_that_makes_the_run_fail_is_a_failure(severity, word):
    there = Finding(id="f", severity=Severity(severity), status=Presence.PRESENT, say="it is there")
    assert outcomes(suites(HostResult(host="h", verdict=Verdict.HEALTHY, findings=(there,)))["h"])["finding f"] == word


def test_a_failure_that_is_ignored_is_skipped_and_says_so():
    ignored = step(Phase.REMEDIATE, "try", Status.FAILED, why="exit code 7", ignored=True)
    suite = suites(HostResult(host="h", verdict=Verdict.HEALTHY, steps=(ignored,)))["h"]
    case = suite.find("testcase[@name='remediate try']/skipped")
    assert case is not None
    assert case.get("message") == "failed try: exit code 7 [failure ignored]"


def test_the_counts_are_those_of_the_cases():
    """Mutant: junit.py ``_counted`` that counts errors as failures."""
    document = ElementTree.fromstring(written(*map(sample_host, range(20))))
    for part in document:
        found = [outcome(it) for it in part.iter("testcase")]
        counted = {
            "tests": len(found),
            "failures": found.count("failure"),
            "errors": found.count("error"),
            "skipped": found.count("skipped"),
        }
        assert {name: int(part.get(name, "-1")) for name in counted} == counted
    counts = {name: int(document.get(name, "-1")) for name in ("tests", "failures", "errors")}
    assert counts == {name: sum(int(it.get(name, "-1")) for it in document) for name in counts}


def test_hosts_that_were_not_reached_or_left_out_are_there():
    said = suites(sample_host(8), sample_host(9))
    assert outcomes(said["gpu-0008"]) == outcomes(said["gpu-0009"]) == {"verdict": "error"}
    assert outcomes(said["hosts left out"]) == {"gpu-9001": "skipped"}


def test_a_plan_passes_nothing_that_it_would_change():
    would = step(Phase.REMEDIATE, "stop", Status.WOULD_CHANGE, why="end 3 processes")
    said = outcomes(suites(HostResult(host="h", verdict=Verdict.PLANNED, steps=(would,)), mode=Mode.PLAN)["h"])
    assert said == {"verdict": "skipped", "remediate stop": "skipped"}


def test_the_parts_stand_in_the_order_and_form_that_readers_expect():
    document = ElementTree.fromstring(written(sample_host(7)))
    assert (document.tag, document.get("time")) == ("testsuites", "51.516")
    suite = document[0]
    assert suite.get("timestamp") == "2026-11-22T18:50:36"
    assert [it.tag for it in suite] == ["properties"] + ["testcase"] * (len(suite) - 1)
    for case in suite.iter("testcase"):
        assert set(case.keys()) == {"name", "classname", "time"}
        assert [it.tag for it in case] in (
            [],
            ["failure"],
            ["error"],
            ["skipped"],
            ["skipped", "system-out"],
            ["system-out"],
        )


@every_row("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_stays_text(text):
    """Mutants: junit.py ``_xml`` without ``printable``, or without U+FFFE; ``_attributes`` without ``quoteattr``."""
    bad = step(Phase.REMEDIATE, "stop", Status.FAILED, why=text, commands=(command(f"echo {text}", text, text, 1),))
    there = Finding(
        id="f", severity=Severity.ERROR, status=Presence.PRESENT, say=text, evidence={"line": text}, advise=(text,)
    )
    host = HostResult(host="h", verdict=Verdict.FAILED, error=text, steps=(bad,), findings=(there,))
    suite = suites(host, inputs={"x": text})["h"]
    assert outcomes(suite) == {"verdict": "failure", "finding f": "failure", "remediate stop": "failure"}
    assert {it.tag for it in suite.iter()} == {"testsuite", "properties", "property", "testcase", "failure"}
    whole = "".join(suite.itertext())
    assert not set(whole) & {*map(chr, range(9)), "\x1b", "\u202e", "\ufffe", "\uffff"}


def test_what_exec_printed_is_in_its_case():
    done = step(Phase.DIAGNOSE, "exec", Status.OK, commands=(command("uname", "Linux\n"),))
    suite = suites(HostResult(host="h", verdict=Verdict.HEALTHY, steps=(done,)))["h"]
    assert outcomes(suite)["diagnose exec"] == "passed"
    assert "$ uname  [exit code 0]\nLinux" in "".join(suite.itertext())


def test_an_output_of_a_megabyte_is_cut_and_says_so():
    bad = step(Phase.REMEDIATE, "stop", Status.FAILED, commands=(command("yes", "y\n" * 500_000, "", 1),))
    text = written(HostResult(host="h", verdict=Verdict.FAILED, steps=(bad,)))
    assert len(text) < 20_000
    assert "bytes left out" in text


def test_a_stream_that_lacks_letters_gets_references():
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    Reporter(stream).on(finished(HostResult(host="h", verdict=Verdict.UNREACHABLE, error="漢é")))
    assert "漢é" in "".join(ElementTree.fromstring(raw.getvalue()).itertext())
