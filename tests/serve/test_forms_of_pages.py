"""Every page in a real browser: in light and dark, on a phone, by keyboard alone, and without JavaScript."""

from __future__ import annotations

from contextlib import contextmanager
from typing import NamedTuple

import pytest

from runbook.commands.serve.access import Role
from runbook.commands.serve.server import serving
from runbook.watch.events import Approved, Held
from tests.serve.busy_scene import PATHS, RUN, busy
from tests.serve.fake_desk import DIGEST, Served
from tests.serve.in_browser import HERE, clean, go, log_in, text
from tests.support.browser import Browser
from tests.support.waiting import until

pytestmark = [pytest.mark.real("chromium", "bash"), pytest.mark.slow]

COLOURS = """
function numbers(colour) {
  const found = colour.match(/[\\d.]+/g).map(Number);
  return found.length < 4 ? [...found, 1] : found;
}
function light(colour) {
  const [red, green, blue] = numbers(colour).map(part => part / 255)
    .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
function ratio(one, other) {
  const [more, less] = [light(one), light(other)].sort((a, b) => b - a);
  return (more + 0.05) / (less + 0.05);
}
function behind(element) {
  for (let at = element; at; at = at.parentElement) {
    const colour = getComputedStyle(at).backgroundColor, alpha = numbers(colour)[3];
    if (alpha === 1) return colour;
    if (alpha !== 0) throw new Error("half transparent: " + colour);
  }
  throw new Error("no background");
}
"""
CONTRASTS = f"""(() => {{ {COLOURS}
  const found = {{}};
  for (const each of document.body.querySelectorAll("*")) {{
    const says = each.tagName === "INPUT" || [...each.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    if (!says || !each.getClientRects().length) continue;
    const colour = getComputedStyle(each).color, ground = behind(each);
    found[`${{each.tagName}} ${{each.className}} ${{each.dataset.is ?? ""}}: ${{colour}} on ${{ground}}`] = ratio(colour, ground);
  }}
  return found;
}})()"""
"""The contrast of all text that is visible, by WCAG 2, under the kind of element and its colours."""
FOCUSED = f"""(() => {{ {COLOURS}
  const at = document.activeElement, style = getComputedStyle(at);
  return {{
    place: window.stops.indexOf(at), width: style.outlineStyle === "none" ? 0 : parseFloat(style.outlineWidth),
    contrast: ratio(style.outlineColor, behind(at.parentElement)), is: at.outerHTML.slice(0, 80),
  }};
}})()"""
STOPS = """
  window.stops = [...document.querySelectorAll("a[href], button, input:not([type=hidden]), [tabindex='0']")];
  document.body.tabIndex = -1;
  document.body.focus();
  document.body.removeAttribute("tabindex");
  stops.length;
"""
"""Gather all that the keyboard has to reach, and begin at the top."""
WORDS = {
    "/": "Look at plan dddddddd, and decide",
    "/rules": "The breaker has tripped",
    "/hosts": "Hosts of all rules (24)",
    "/hosts/gpu-0001": "2 leftover processes hold /dev/nvidia0",
    f"/plans/{DIGEST}": "kill -TERM 4711 4712",
    "/runs": "Running (1)",
    f"/runs/{RUN}": "load the page again for the newest state",
    "/login": "Token",
}


class Scene(NamedTuple):
    made: Served
    browser: Browser
    base: str


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    with (
        busy(tmp_path_factory.mktemp("busy")) as made,
        serving(made.app, HERE) as server,
        Browser() as browser,
    ):
        base = f"http://127.0.0.1:{server.port}"
        log_in(browser, base, Role.ADMIN)
        yield Scene(made, browser, base)
        go(browser, "about:blank#")
        made.desk.closing = True


def open_page(scene: Scene, path: str) -> None:
    scene.browser.js("window.isOld = true")
    scene.browser.call("Page.navigate", url=scene.base + path)
    until(lambda: scene.browser.js("!window.isOld && document.readyState") == "complete", path)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_can_be_read(scene, scheme):
    scene.browser.prefer(scheme)
    grounds = set()
    for path in PATHS:
        open_page(scene, path)
        found = scene.browser.js(CONTRASTS)
        assert {words: ratio for words, ratio in found.items() if ratio < 4.5} == {}, path
        assert len(found) > 5
        grounds.add(scene.browser.js("getComputedStyle(document.body).backgroundColor"))
    assert grounds == {"rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 23, 27)"}


def test_a_phone_shows_every_page_without_scrolling_sideways(scene):
    browser = scene.browser
    browser.size(360, 740)
    for path in PATHS:
        open_page(scene, path)
        assert browser.js("innerWidth") == 360
        assert browser.js("document.documentElement.scrollWidth") <= 360, path
        wide = "[...document.querySelectorAll('main *')].filter(each => !each.closest('.wide') && each.scrollWidth > each.clientWidth && each.clientWidth)"
        assert browser.js(f"{wide}.map(each => each.outerHTML.slice(0, 80))") == [], path
    open_page(scene, f"/runs/{RUN}")
    box = "document.querySelector('.wide')"
    assert browser.js(f"{box}.scrollWidth > {box}.clientWidth && {box}.scrollHeight > {box}.clientHeight")
    browser.js(f"{box}.scrollTo(500, 900)")
    assert browser.js(f"[{box}.scrollLeft, {box}.scrollTop]") == [500, 900]
    kept = "(each => [Math.round(each.left - box.left), Math.round(each.top - box.top)])"
    corner = (
        f"(box => {kept}(document.querySelector('#matrix th').getBoundingClientRect()))({box}.getBoundingClientRect())"
    )
    assert max(map(abs, browser.js(corner))) <= 1  # the names of the hosts and steps stay in sight
    browser.size(1280, 900)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_keyboard_alone_reaches_everything_and_shows_where_it_is(scene, scheme):
    browser = scene.browser
    browser.prefer(scheme)
    for path in PATHS:
        open_page(scene, path)
        many = browser.js(STOPS)
        assert many >= 6
        for place in range(many):
            browser.press("Tab")
            at = browser.js(FOCUSED)
            assert at["place"] == place, (path, at)
            assert at["width"] >= 2, (path, at)
            assert at["contrast"] >= 3, (path, at)


def test_enter_skips_to_the_content_follows_a_link_and_sends_a_form(scene):
    browser = scene.browser
    open_page(scene, "/rules")
    browser.js(STOPS)
    browser.press("Tab")
    browser.press("Enter")
    until(lambda: browser.js("document.activeElement.id") == "main", "the content")
    open_page(scene, "/rules")
    browser.js(STOPS)
    for _ in range(4):
        browser.press("Tab")
    browser.press("Enter")
    until(lambda: browser.js("location.pathname") == "/hosts", "the link")
    open_page(scene, "/hosts/gpu-0012")
    browser.type("#hold-why-host", "by keyboard")
    browser.press("Enter")
    until(lambda: browser.js("location.pathname") == "/", "the first page")
    held = scene.made.desk.events()[-1]
    assert isinstance(held, Held)
    assert (held.host, held.why) == ("gpu-0012", "by keyboard")


def test_a_page_that_is_shown_anew_keeps_the_place_of_the_keyboard(scene):
    browser = scene.browser
    open_page(scene, "/")
    browser.js(f"document.querySelector(\"a.button[href='/plans/{DIGEST}']\").focus()")
    scene.made.desk.tell(Held(at=scene.made.clock.now, host="gpu-0013", until=scene.made.clock.now + 600, by="zoe"))
    until(lambda: "by zoe" in text(browser), "the news")
    assert browser.js("document.activeElement.getAttribute('href')") == f"/plans/{DIGEST}"


@contextmanager
def no_scripts(browser: Browser):
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        yield
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)


def test_without_javascript_every_page_has_its_content_and_a_plan_is_approved(scene):
    browser = scene.browser
    with no_scripts(browser):
        begun = len(browser.asked_for())
        for path in PATHS:
            open_page(scene, path)
            assert WORDS[path] in text(browser), path
        assert not any("/events" in url for url in browser.asked_for()[begun:])  # no script ran
        open_page(scene, f"/runs/{RUN}")
        assert browser.js("document.querySelectorAll('#matrix tbody tr').length") == 1000
        open_page(scene, f"/plans/{DIGEST}")
        browser.js(f"document.querySelector(\"form[action='/plans/{DIGEST}/approve'] button\").focus()")
        browser.press("Enter")
        until(lambda: "(1 of 1)" in text(browser), "the first page")
        assert browser.js("location.pathname") == "/"
    assert scene.made.desk.events()[-1] == Approved(
        at=scene.made.clock.now, rule="gpu-held", host="gpu-0001", digest=DIGEST, by="admin"
    )


def test_no_page_asks_another_host_or_breaks_its_policy(scene):
    for path in PATHS:
        open_page(scene, path)
    clean(scene.browser, scene.base)
