"""The page of a run in a real Chromium: it asks for nothing, runs nothing of a host's, and can be searched and read."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runbook.reporting import reporters
from runbook.values.event import HostStarted, RunFinished, StepFinished
from runbook.values.plan import Finding, Presence
from runbook.values.playbook import Phase, Severity
from runbook.values.result import HostResult, RunResult, Status, Verdict
from tests.reporters.hostile_texts import HOSTILE
from tests.support.browser import Browser
from tests.support.sample_runs import command, sample_of, sample_run, step

pytestmark = [pytest.mark.real("chromium", "bash"), pytest.mark.slow]

ROWS = "document.querySelectorAll('tr.host-row').length"
PAPER = "getComputedStyle(document.body).backgroundColor"
COUNT = "document.querySelector('.tools [aria-live]').textContent"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as it:
        yield it


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Callable[[RunResult], Path]:
    """The file of a run's page."""
    folder = tmp_path_factory.mktemp("pages")

    def write(result: RunResult) -> Path:
        path = folder / f"{len(os.listdir(folder))}.html"
        with path.open("w", encoding="utf-8", errors="backslashreplace") as stream:
            reporters.make("html", stream).on(RunFinished(result=result))
        return path

    return write


@pytest.fixture(scope="module")
def pages(page) -> dict[int, Path]:
    """A page of 3, one of 100 and one of 1000 hosts."""
    return {many: page(sample_of(many)) for many in (3, 100, 1000)}


@pytest.fixture(autouse=True)
def on_a_desk(browser) -> None:
    browser.size(1280, 900)
    browser.prefer("light")


@pytest.mark.parametrize("many", [3, 100, 1000])
def test_a_page_asks_for_nothing_but_itself(browser, pages, many):
    """Mutants: page.html with a style sheet, an image or a script of another place."""
    before = len(browser.asked_for())
    browser.open(pages[many], "open=gpu-0007")
    browser.js("document.querySelectorAll('details').forEach(it => it.open = true)")
    assert browser.asked_for()[before:] == [f"file://{pages[many]}"]
    assert browser.complaints() == []


def test_what_the_page_would_ask_for_is_refused(browser, pages):
    """So that the test before sees what it is about: a request is seen, and the policy stops it."""
    browser.open(pages[3])
    refused = browser.js("fetch('http://127.0.0.1:9/x').then(() => 'sent', it => it.name)")
    assert refused == "TypeError"
    browser.js("document.body.append(Object.assign(new Image(), {src: 'http://127.0.0.1:9/y.png'}))")
    browser.js(
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.owned = 1'}))"
    )
    assert browser.js("window.owned") is None
    assert any("Content Security Policy" in it for it in browser.complaints())
    browser.events.clear()


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_nothing_of_a_host_runs_or_becomes_an_element(browser, page, text):
    """Mutants: page.js ``make`` with innerHTML; html/__init__.py ``_json`` without ``_IN_SCRIPT``."""
    bad = step(
        Phase.REMEDIATE, "stop", Status.FAILED, why=text, diff=text, name=text, commands=(command(text, text, text, 1),)
    )
    there = Finding(
        id="f", severity=Severity.ERROR, status=Presence.PRESENT, say=text, evidence={"line": text}, advise=(text,)
    )
    host = HostResult(host="h", verdict=Verdict.UNRESOLVED, error=text, steps=(bad,), findings=(there,))
    browser.open(page(sample_run(host, playbook=text, inputs={text: text})), "open=h")
    browser.js("document.querySelectorAll('details').forEach(it => it.open = true)")
    browser.js("new Promise(done => setTimeout(done, 20))")
    assert browser.js("window.owned") is None
    assert browser.js("document.querySelectorAll('img,a,b b,testcase,script:not(#record)').length") == 1
    assert (
        browser.js(
            "[...document.querySelectorAll('*')].some(it => [...it.attributes].some(a => a.name.startsWith('on')))"
        )
        is False
    )
    assert browser.js("document.querySelectorAll('pre').length") == 4
    if text.isprintable():
        assert browser.js("[...document.querySelectorAll('pre')].at(-1).textContent") == text
    assert browser.complaints() == []


def test_the_search_leaves_the_rows_that_fit(browser, pages):
    """Mutant: page.js ``fits`` without one of its conditions."""
    browser.open(pages[100])
    assert browser.js(ROWS) == 100
    browser.type("input[type=search]", "reset_gpus failed")
    assert (browser.js(ROWS), browser.js(COUNT)) == (10, "10 of 100 hosts")
    browser.type("input[type=search]", " 0017")
    assert browser.js("document.querySelector('tr.host-row').textContent").startswith("gpu-0017failed")
    browser.type("input[type=search]", " nosuch")
    assert browser.js(ROWS) == 0
    assert browser.js("document.querySelector('tbody').textContent") == "no host fits"


def test_filters_by_verdict_finding_and_cause_leave_the_rows_that_fit(browser, pages):
    browser.open(pages[100])
    browser.click(".chips button[data-verdict=resolved]")
    assert browser.js(COUNT) == "20 of 100 hosts"
    browser.click(".chips button[data-verdict=resolved]")
    assert browser.js(COUNT) == "100 hosts"
    browser.js(
        "(it => { it.value = 'held'; it.dispatchEvent(new Event('change')) })(document.querySelector('select[aria-label=finding]'))"
    )
    assert browser.js(COUNT) == "30 of 100 hosts"
    assert "finding=held" in browser.js("location.hash")
    browser.open(pages[100])
    browser.click("#causes .card button")
    assert browser.js(COUNT) == "10 of 100 hosts"


def test_an_address_with_a_filter_opens_a_filtered_page(browser, pages):
    browser.open(pages[1000], "q=gpu-00&verdict=failed&open=gpu-0007")
    assert browser.js(COUNT) == "10 of 1000 hosts"
    assert browser.js("document.querySelectorAll('tr.more').length") == 1


def test_a_host_opens_with_its_findings_steps_and_outputs(browser, pages):
    browser.open(pages[3])
    browser.js("[...document.querySelectorAll('td.host button')].find(it => it.textContent === 'gpu-0007').click()")
    text = browser.js("document.querySelector('tr.more').innerText")
    for said in ("3 leftover processes hold /dev/nvidia0", "pid 4007 (python3) holds /dev/nvidia0", "Stop the supervisor that starts them.",
                 "failed: exit code 3: In use by another client", "runbook settle --hosts gpu-0007", "0.4 s"):  # fmt: skip
        assert said in text, said
    assert "In use by another client\n" not in browser.js(
        "[...document.querySelectorAll('pre')].map(it => it.textContent).join()"
    )
    browser.js("document.querySelectorAll('details.step')[7].open = true")
    browser.js("new Promise(done => setTimeout(done, 20))")
    assert (
        browser.js("[...document.querySelectorAll('pre')].map(it => it.textContent)")[-1]
        == "In use by another client\n"
    )
    bars = browser.js("[...document.querySelectorAll('.bar i')].map(it => parseFloat(it.style.left))")
    assert bars == sorted(bars)
    assert len(bars) == 8


def test_every_cell_can_be_read_without_its_colour(browser, pages):
    """Mutant: page.js with the same letter for two statuses."""
    browser.open(pages[100])
    signs = browser.js(
        "[...document.querySelectorAll('td.step .cell')].map(it => it.getAttribute('aria-label').split(': ')[1] + '=' + it.textContent)"
    )
    pairs = {it.split("=")[0]: it.split("=")[1] for it in signs}
    assert len(set(pairs.values())) == len(pairs) == 5
    assert pairs["failed"] == "F"


def test_it_is_light_or_dark_as_the_system_is_and_as_the_button_says(browser, pages):
    """Mutants: page.css without its media rule; page.js whose button does nothing."""
    browser.open(pages[3])
    assert browser.js(PAPER) == "rgb(255, 255, 255)"
    browser.prefer("dark")
    assert browser.js(PAPER) == "rgb(20, 23, 27)"
    browser.click("#head button")
    assert browser.js(PAPER) == "rgb(255, 255, 255)"
    browser.click("#head button")
    browser.prefer("light")
    assert browser.js(PAPER) == "rgb(20, 23, 27)"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out_from_what_is_behind_them(browser, pages, scheme):
    """A contrast of 4.5 to 1, as WCAG 2 AA asks for."""
    browser.prefer(scheme)
    browser.open(pages[100], "open=gpu-0007")
    assert browser.js(CONTRAST) == []


CONTRAST = """(() => {
  const parts = (text) => text.match(/[0-9.]+/g).map(Number);
  const light = (rgb) => { const [r, g, b] = rgb.map(it => (it /= 255) <= 0.03928 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (it) => { for (; it; it = it.parentElement) { const c = parts(getComputedStyle(it).backgroundColor); if (c.length < 4 || c[3]) return c.slice(0, 3); } return [255, 255, 255]; };
  const poor = new Set();
  for (const it of document.querySelectorAll('.badge,.cell,.soft,td.why,.took,button,p,li,dt,dd,th,summary span')) {
    if (!it.textContent.trim() || !it.offsetParent) continue;
    const [a, b] = [light(parts(getComputedStyle(it).color).slice(0, 3)), light(behind(it))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) poor.add(it.className + ' ' + ((a + 0.05) / (b + 0.05)).toFixed(2));
  }
  return [...poor];
})()"""


@pytest.mark.parametrize("many", [3, 100, 1000])
def test_on_a_phone_only_the_table_scrolls_sideways(browser, pages, many):
    """Mutant: page.css whose frame does not scroll, or whose names do not break."""
    browser.size(400, 800)
    browser.open(pages[many], "open=gpu-0007")
    browser.js("document.querySelectorAll('details').forEach(it => it.open = true)")
    browser.js("new Promise(done => setTimeout(done, 50))")
    assert browser.js("document.documentElement.scrollWidth") == 400
    assert browser.js("window.visualViewport.scale") == 1
    assert browser.js("document.querySelector('.inner').getBoundingClientRect().right") <= 400


def test_a_host_with_endless_words_stays_within_a_phone(browser, page):
    browser.size(400, 800)
    word = "x" * 3000
    there = Finding(
        id="f" * 300,
        severity=Severity.ERROR,
        status=Presence.PRESENT,
        say=word,
        evidence={word[:500]: word},
        advise=(word,),
    )
    bad = step(Phase.REMEDIATE, "s" * 300, Status.FAILED, why=word, diff=word, commands=(command(word, word, word, 1),))
    host = HostResult(host="h" * 200, verdict=Verdict.FAILED, error=word, findings=(there,), steps=(bad,))
    browser.open(page(sample_run(host, playbook=word, inputs={word: word})), f"open={host.host}")
    browser.js("document.querySelectorAll('details').forEach(it => it.open = true)")
    assert browser.js("document.documentElement.scrollWidth") == 400


def test_all_hosts_are_in_a_print_and_a_thousand_are_drawn_as_they_are_scrolled_to(browser, pages):
    browser.open(pages[1000])
    assert browser.js(ROWS) < 400
    browser.js("document.querySelector('.frame').scrollTop = 1e9")
    deadline = time.monotonic() + 20
    while browser.js(ROWS) < 1000 and time.monotonic() < deadline:
        browser.js("document.querySelector('.frame').scrollTop = 1e9; new Promise(done => setTimeout(done, 50))")
    assert browser.js(ROWS) == 1000
    browser.open(pages[1000])
    browser.js("dispatchEvent(new Event('beforeprint'))")
    assert browser.js(ROWS) == 1000


def test_what_exec_printed_is_seen_at_once_and_found(browser, page):
    """Mutant: page.js ``printed`` that returns nothing."""
    hosts = [HostResult(host=f"h{it}", verdict=Verdict.HEALTHY, steps=(step(Phase.DIAGNOSE, "exec", Status.OK, commands=(command("show", f"out{it}\n"),)),))
             for it in (1, 2)]  # fmt: skip
    browser.open(page(sample_run(*hosts, playbook="exec")))
    assert browser.js("[...document.querySelectorAll('td.why')].map(it => it.textContent)") == ["out1", "out2"]
    browser.type("input[type=search]", "out2")
    assert browser.js(ROWS) == 1
    browser.click("td.host button")
    browser.js("new Promise(done => setTimeout(done, 20))")
    assert browser.js("[...document.querySelectorAll('pre')].map(it => it.textContent)") == ["$ show", "out2\n"]


def test_a_run_without_hosts_has_a_page(browser, page):
    browser.open(page(sample_run()))
    assert browser.js("document.querySelector('tbody').textContent") == "no host"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_the_timeline_has_each_step_where_it_ran(browser, tmp_path, scheme, width):
    """Mutants: page.js that lays the bars end to end; a bar that leaves its line; a pale bar without its words."""
    browser.size(width, 800)
    browser.prefer(scheme)
    look = step(Phase.DIAGNOSE, "look", Status.OK, seconds=2.0)
    steps = [step(Phase.REMEDIATE, f"s{it}", Status.CHANGED, seconds=2.0) for it in range(2)]
    host = HostResult(host="a", verdict=Verdict.RESOLVED, seconds=20.0, steps=(look, *steps))
    path = tmp_path / "page.html"
    with path.open("w", encoding="utf-8") as stream:
        reporter = reporters.make("html", stream)
        reporter.on(HostStarted(host="a", at="2026-11-23T10:00:00.000Z"))
        for it, second in zip(steps, (7, 20), strict=True):
            reporter.on(StepFinished(host="a", result=it, at=f"2026-11-23T10:00:{second:02}.000Z"))
        reporter.on(RunFinished(result=sample_run(host)))
    browser.open(path, "open=a")
    bars = browser.js(
        "[...document.querySelectorAll('.bar i')].map(it => [it.style.left, it.style.width, it.className])"
    )
    assert bars == [["0%", "10%", "unsure"], ["25%", "10%", ""], ["90%", "10%", ""]]
    titles = browser.js("[...document.querySelectorAll('.bar')].map(it => it.title)")
    assert titles == ["", "began after 5 s", "began after 18 s"]
    text = browser.js("document.querySelector('tr.more').innerText")
    assert "Timeline over 20 s" in text
    assert "only how long it took is known" in text
    inside = "[...document.querySelectorAll('.bar i')].every(it => it.getBoundingClientRect().right <= it.parentElement.getBoundingClientRect().right + 1)"
    assert browser.js(inside)
    assert browser.js("document.documentElement.scrollWidth") == width
