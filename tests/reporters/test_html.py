"""The page of a run: whole, of a sane size, and with nothing in it that a host could make run."""

from __future__ import annotations

import io
import json
import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from importlib.resources import files
from typing import Any

import pytest

from runbook.reporting import reporters
from runbook.reporting.reporters.html import LEAST_OF_HOST
from runbook.values.event import HostStarted, StepFinished
from runbook.values.plan import Finding, Presence
from runbook.values.playbook import Phase, Severity
from runbook.values.result import HostResult, Status, StepResult, Verdict
from tests.reporters.hostile_texts import HOSTILE
from tests.support.sample_runs import command, finished, sample_host, sample_of, step
from tests.support.tables import every_row


class Page(HTMLParser):
    """The elements of a page with their attributes, and the texts of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append((self.elements[-1][0] if self.elements else "", data))

    @property
    def record(self) -> dict[str, Any]:
        at = next(number for number, (tag, has) in enumerate(self.elements) if has.get("id") == "record")
        del at
        return json.loads(next(text for tag, text in self.texts if tag == "script" and text.lstrip().startswith("{")))


def written(*hosts: HostResult, **keys) -> str:
    stream = io.StringIO()
    reporters.make("html", stream).on(finished(*hosts, **keys))
    return stream.getvalue()


@pytest.fixture(scope="module")
def empty() -> list[tuple[str, dict[str, str | None]]]:
    """The elements of a page on which nobody has said anything."""
    return Page(written()).elements


def test_the_page_names_no_other_place_and_its_policy_forbids_all(empty):
    """Mutants: page.html with a style sheet of somebody, or with a weaker policy."""
    text = written(*map(sample_host, range(10)))
    assert not [
        it
        for _, has in Page(text).elements
        for name, it in has.items()
        if name in ("src", "href", "action", "style") and it != "data:,"
    ]
    assert "url(" not in text
    assert "@import" not in text
    (policy,) = [has["content"] for _, has in empty if has.get("http-equiv") == "Content-Security-Policy"]
    rules = dict((policy or "").split(" ", 1) for policy in (policy or "").split("; "))
    assert rules.pop("default-src") == rules.pop("base-uri") == rules.pop("form-action") == "'none'"
    assert rules.pop("img-src") == "data:"
    for part, kind in (("style", "css"), ("script", "js")):
        source = files("runbook.reporting.reporters.html").joinpath(f"page.{kind}").read_text()
        assert rules.pop(f"{part}-src") == f"'sha256-{b64encode(sha256(source.encode()).digest()).decode()}'"
        assert f"<{part}>{source}</{part}>" in text
    assert rules == {}


def test_its_script_makes_no_markup_out_of_text():
    source = files("runbook.reporting.reporters.html").joinpath("page.js").read_text()
    assert not re.findall(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function|fetch\(|XMLHttp|import\(|\.cssText",
        source,
    )


@every_row("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_adds_no_element_and_comes_back_as_it_was(text, empty):
    """Mutants: html/__init__.py ``_json`` without ``_IN_SCRIPT``, ``_page`` without ``escape``; ``Texts`` without ``printable``."""
    bad = step(
        Phase.REMEDIATE,
        "stop",
        Status.FAILED,
        why=text,
        diff=text,
        name=text,
        commands=(command(f"echo {text}", text, text, 1),),
    )
    there = Finding(
        id=text,
        severity=Severity.ERROR,
        status=Presence.PRESENT,
        say=text,
        evidence={"line": text, text: [text]},
        advise=(text,),
    )
    host = HostResult(host=text, verdict=Verdict.FAILED, error=text, steps=(bad,), findings=(there,))
    said = written(host, playbook=text, run=text, inputs={text: text}, scripts={"d": text})
    page = Page(said)
    assert [it for it in page.elements if it[0] != "meta"] == [it for it in empty if it[0] != "meta"]
    shown = "".join([*page.record["texts"], json.dumps(page.record, ensure_ascii=False)])
    assert not set(shown) & {*map(chr, range(9)), "\x1b", "\u202e", "\x9b", "\udc80"}
    if text.isprintable():
        assert text in page.record["texts"]


def test_the_record_has_every_host_step_finding_and_output():
    record = Page(written(*map(sample_host, range(10)))).record
    texts = record["texts"]
    assert [it["h"] for it in record["hosts"]] == [f"gpu-{it:04}" for it in range(10)]
    assert [it[1] for it in record["run"]["columns"]][5:8] == ["stop_leftovers", "stop_hard", "reset_gpus"]
    seven = record["hosts"][7]
    assert seven["v"] == "failed"
    assert [record["run"]["columns"][it["k"] - 1][1] for it in seven["p"]][7] == "reset_gpus"
    assert texts[seven["p"][7]["w"]] == "exit code 3: In use by another client"
    assert texts[seven["p"][7]["c"][0]["e"]] == "In use by another client\n"
    assert texts[seven["p"][5]["v"][0]] == "pid 4007 (root) python3 train.py --rank 0"
    group = record["run"]["findings"][seven["f"][0]["g"] - 1]
    assert (group["id"], group["st"], group["h"]) == ("held", "present", "gpu-0007")
    assert group["adv"] == ["Stop the supervisor that starts them.", "runbook run zombie-gpu --hosts HOST"]
    assert record["run"]["causes"][seven["c"] - 1]["h"] == "gpu-0007"
    assert record["run"]["owed"][0]["l"][1] == "next: `runbook settle --hosts gpu-0007`"
    assert record["run"]["leftOut"] == [["gpu-9001", "status: offline"]]


def test_advice_is_for_now_only_where_neither_the_plan_nor_the_run_takes_care():
    """Mutant: document.py whose ``now`` is always true."""
    bad = Finding(id="f", severity=Severity.ERROR, status=Presence.PRESENT, say="bad", advise=("pull the plug",))
    hint = replace(bad, id="hint", severity=Severity.INFO)
    hosts = (
        HostResult(host="a", verdict=Verdict.PLANNED, findings=(bad, hint)),
        HostResult(host="b", verdict=Verdict.UNRESOLVED, findings=(bad,)),
    )
    groups = Page(written(*hosts)).record["run"]["findings"]
    assert [(it["h"], it["id"], it["now"]) for it in groups] == [
        ("a", "f", False),
        ("b", "f", True),
        ("a", "hint", True),
    ]


def test_the_times_of_a_step_share_a_column_and_steps_stand_in_the_order_of_the_playbook():
    """Mutants: document.py ``_columns`` without ``written_id``, or that appends what an earlier host lacked."""
    one = HostResult(
        host="a",
        verdict=Verdict.HEALTHY,
        steps=(step(Phase.REMEDIATE, "first", Status.OK), step(Phase.REMEDIATE, "third", Status.OK)),
    )
    two = HostResult(host="b", verdict=Verdict.HEALTHY, steps=tuple(
        step(Phase.REMEDIATE, it, Status.OK) for it in ("first", "second[0]", "second[1]", "third")))  # fmt: skip
    record = Page(written(one, two)).record
    assert [it[1] for it in record["run"]["columns"]] == ["first", "second", "third"]
    assert [it["k"] for it in record["hosts"][1]["p"]] == [1, 2, 2, 3]


def test_a_page_on_a_thousand_hosts_has_a_few_kilobytes_for_each():
    """Mutant: document.py ``Texts`` that gives each text a number of its own."""
    stream = io.StringIO()
    reporters.make("html", stream).on(finished(*sample_of(1000).hosts))
    assert len(stream.getvalue()) < 3_000_000


def test_outputs_are_cut_where_there_are_many_and_the_page_says_so():
    """Mutant: document.py without ``kept``."""
    loud = step(Phase.DIAGNOSE, "look", Status.OK, commands=(command("yes", "y\n" * 500_000),))
    hosts = [
        HostResult(
            host=f"h{it}",
            verdict=Verdict.HEALTHY,
            steps=(replace(loud, commands=(command("yes", f"{it}\n" * 200_000),)),),
        )
        for it in range(100)
    ]
    text = written(*hosts)
    assert len(text) < 100 * 256 * 1024
    assert text.count("bytes left out") == 100
    few = Page(written(*hosts[:1])).record["texts"]
    assert max(map(len, few)) > LEAST_OF_HOST


def test_a_stream_that_lacks_letters_gets_references():
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="latin-1", errors="strict")
    reporters.make("html", stream).on(finished(HostResult(host="漢é", verdict=Verdict.HEALTHY), playbook="漢é"))
    page = Page(raw.getvalue().decode("ascii"))
    assert page.record["hosts"][0]["h"] == "漢é"
    assert ("title", "漢é: 1 healthy") in page.texts


def test_numbers_that_json_lacks_do_not_cost_the_page():
    odd = step(Phase.DIAGNOSE, "look", Status.OK, seconds=float("nan"))
    found = Finding(id="f", severity=Severity.INFO, status=Presence.PRESENT, evidence={"x": float("inf")})
    record = Page(
        written(HostResult(host="h", verdict=Verdict.HEALTHY, seconds=float("inf"), steps=(odd,), findings=(found,)))
    ).record
    assert "x: inf" in record["texts"]


def timed(*steps: StepResult, planned: float = 0.0) -> list[dict[str, Any]]:
    """The steps in the page of a host that began at 10:00:00, each of which ended two seconds before the next began."""
    host = HostResult(host="a", verdict=Verdict.RESOLVED, steps=steps)
    stream, end = io.StringIO(), planned
    reporter = reporters.make("html", stream)
    reporter.on(HostStarted(host="a", at="2026-11-23T10:00:00.000Z"))
    for it in (it for it in steps if it.phase is not Phase.DIAGNOSE):
        end += 2 + it.seconds
        reporter.on(StepFinished(host="a", result=it, at=f"2026-11-23T10:00:{end:06.3f}Z"))
    reporter.on(finished(host))
    return Page(stream.getvalue()).record["hosts"][0]["p"]


def test_a_step_stands_where_it_ran_on_the_timeline_with_the_gaps_between():
    """Mutants: ``began`` that gives the end; ``HostTimes`` that counts from the first step."""
    look = step(Phase.DIAGNOSE, "look", Status.OK, seconds=3.0)
    first, second = (step(Phase.REMEDIATE, it, Status.CHANGED, seconds=4.0) for it in ("first", "second"))
    after = step(Phase.VERIFY, "first", Status.OK, seconds=1.0)
    made = timed(look, first, second, after, planned=5.0)
    assert [(it.get("b"), it.get("u"), it["t"]) for it in made] == [
        (None, 1, 3.0),
        (7.0, None, 4.0),
        (13.0, None, 4.0),
        (19.0, None, 1.0),
    ]


def test_a_record_without_times_has_its_steps_end_to_end():
    """Mutant: ``known`` that is always true."""
    record = Page(written(HostResult(host="a", verdict=Verdict.HEALTHY, steps=(step(Phase.REMEDIATE, "x", Status.OK, seconds=1.0),)))).record  # fmt: skip
    (host,) = record["hosts"]
    assert "q" not in host
    assert not {"b", "u"} & host["p"][0].keys()
