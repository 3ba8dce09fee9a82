"""What is concluded from the findings of many playbooks: one cause, one next step, and what else there is."""

from __future__ import annotations

from runbook.commands.diagnose import ORDER, lines_of, playbooks_of_a_host
from runbook.commands.input_files import known_playbooks
from runbook.commands.joined_playbooks import Conclusion, Named, concluded
from runbook.plugins import discover
from runbook.values.plan import Finding, Presence
from runbook.values.playbook import FindingRule, Phase, Playbook, Severity, Step, Telling
from runbook.values.result import HostResult, Verdict


def book(name: str, *findings: str, mends: str = "") -> Playbook:
    gaps = {"no_answer": Telling.UNKNOWN}
    rules = tuple(
        FindingRule(id=it, when="true", severity=Severity.ERROR, say=it, tells=gaps.get(it, Telling.FAULT))
        for it in findings
    )
    steps = (Step(id="mend", phase=Phase.REMEDIATE, action="note", for_=(mends,)),) if mends else ()
    return Playbook(name=name, findings=rules, remediate=steps)


def host(*present: str, verdict: Verdict = Verdict.UNRESOLVED, **said: str) -> HostResult:
    found = tuple(
        Finding(
            id=it, severity=Severity.ERROR, status=Presence.PRESENT, say=said.get(it, f"{it} is so"), why=None,
            evidence={}, advise=(f"Do something about {it}.",),
        )
        for it in present
    )  # fmt: skip
    return HostResult(host="gpu-01", verdict=verdict, seconds=1.0, findings=found)


BOOKS = {
    "a": book("gpu-lost", "lost", "no_answer"),
    "b": book("zombie-gpu", "held", mends="held"),
    "c": book("gpu-health", "hung"),
}


def test_the_first_playbook_that_finds_something_names_the_cause_and_the_rest_is_said_beside_it():
    """Mutants: ``concluded`` that takes the findings as they come; that repeats what was said."""
    seen = concluded(host("b_held", "a_lost", "c_hung", b_held="a_lost is so"), BOOKS)
    assert seen.cause == Named(
        playbook="gpu-lost", finding="lost", say="a_lost is so", next="Do something about a_lost."
    )
    assert [(it.playbook, it.finding) for it in seen.also] == [("gpu-health", "hung")]


def test_what_a_playbook_includes_counts_where_nobody_else_says_it():
    """Mutants: ``_errors`` without what is included; with it before what others find themselves."""
    inner = FindingRule(id="docker_full", when="true", severity=Severity.ERROR, say="x", part="docker")
    whole = {"d": Playbook(name="disk-full", findings=(inner,)), **BOOKS}
    assert concluded(host("d_docker_full"), whole).cause.playbook == "disk-full"
    seen = concluded(host("d_docker_full", "c_hung"), whole)
    assert (seen.cause.playbook, [it.playbook for it in seen.also]) == ("gpu-health", ["disk-full"])


def test_a_playbook_that_can_mend_it_is_what_comes_next():
    assert concluded(host("b_held"), BOOKS).cause.next == "runbook run zombie-gpu --hosts gpu-01 --dry-run"


def test_what_only_says_that_nothing_is_seen_is_the_cause_where_nothing_else_is_found():
    """Mutants: ``_follows`` that is never true; that leaves nothing."""
    assert concluded(host("a_no_answer", "c_hung"), BOOKS).cause.playbook == "gpu-health"
    assert concluded(host("a_no_answer"), BOOKS).cause.finding == "no_answer"


def test_where_nothing_is_found_the_verdict_stands_with_its_reason():
    assert concluded(host(verdict=Verdict.HEALTHY), BOOKS) == Conclusion(host="gpu-01", verdict=Verdict.HEALTHY)
    down = HostResult(host="gpu-02", verdict=Verdict.UNREACHABLE, seconds=1.0, error="connection refused")
    assert concluded(down, BOOKS).why == "connection refused"


def test_a_host_has_four_lines_at_most_and_the_worst_comes_first():
    named = [Named(playbook=f"p{it}", finding="x", say=f"s{it}", next="n") for it in range(6)]
    sick = Conclusion(host="gpu-02", verdict=Verdict.UNRESOLVED, cause=named[0], also=tuple(named[1:]))
    well = Conclusion(host="gpu-01", verdict=Verdict.HEALTHY)
    assert [*lines_of([well, sick])] == [
        "gpu-02: s0 (p0)",
        "  next: n",
        "  also: s1; s2; s3",
        "  by: p1, p2, p3, p4, p5",
        "gpu-01: healthy",
    ]


def test_the_playbooks_that_are_asked_need_no_input_and_those_of_the_user_come_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "playbooks").mkdir()
    text = "name: mine\ndiagnose: [{id: up, command: {argv: [uptime]}}]\nfindings: [{id: x, when: up.stdout, severity: error}]\n"
    (tmp_path / "playbooks/mine.yaml").write_text(text)
    asking = text.replace("mine", "asks").replace("diagnose:", "inputs: {it: {about: x, required: true}}\ndiagnose:")
    (tmp_path / "playbooks/asks.yaml").write_text(asking)
    (tmp_path / "playbooks/monitor.yaml").write_text(text.replace("mine", "monitor"))
    assert [it.name for it in playbooks_of_a_host(known_playbooks(discover())).values()] == ["mine", *ORDER]


def test_a_playbook_of_the_users_own_that_is_broken_is_left_out_and_named(tmp_path, monkeypatch):
    """Mutants: one that is read by its path; one whose mistakes end everything."""
    (tmp_path / "playbooks").mkdir()
    (tmp_path / "playbooks" / "broken.yaml").write_text("name: broken\ndiagnose: [{id: x}]\n")
    (tmp_path / "playbooks" / "own.yaml").write_text(
        "name: own\ndiagnose: [{id: up, command: {argv: [uptime]}}]\n"
        "findings: [{id: odd, when: up.exit_code, severity: error, say: x, advise: [y]}]\n"
    )
    monkeypatch.chdir(tmp_path)
    known = known_playbooks(discover())
    assert list(known.faulty) == ["broken"]
    assert known.faulty["broken"].endswith("(runbook check broken)")
    assert next(iter(playbooks_of_a_host(known))) == "of_own"


def test_the_line_to_go_on_with_names_the_inventory_that_was_given():
    """Mutant: ``_next`` without it: another host of that name is asked."""
    seen = concluded(host("b_held"), BOOKS, " -i other.yaml")
    assert seen.cause
    assert seen.cause.next == "runbook run zombie-gpu --hosts gpu-01 -i other.yaml --dry-run"
