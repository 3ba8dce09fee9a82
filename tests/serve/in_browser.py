"""Log in and look around in a real browser."""

from __future__ import annotations

from runbook.commands.serve.access import Role
from runbook.commands.serve.settings import ServeSettings
from tests.serve.fake_desk import ROLES
from tests.support.browser import Browser
from tests.support.waiting import until

HERE = ServeSettings(listen="127.0.0.1:0")


def go(browser: Browser, url: str) -> None:
    browser.call("Page.navigate", url=url)
    until(lambda: browser.js("document.readyState") == "complete" and browser.js("location.href") != "about:blank", url)


def text(browser: Browser) -> str:
    return str(browser.js("document.body ? document.body.innerText : ''"))


def log_in(browser: Browser, base: str, role: Role) -> None:
    go(browser, base)
    until(lambda: browser.js("location.pathname") == "/login", "the form")
    browser.type("#token", ROLES[role])
    browser.click("main button")
    until(lambda: browser.js("location.pathname") == "/", "the first page")


def clean(browser: Browser, base: str) -> None:
    """Check that nothing was asked for elsewhere, and that nothing was refused."""
    assert {url.partition("/")[2].lstrip("/").partition("/")[0] for url in browser.asked_for()} == {
        base.partition("//")[2]
    }
    assert [each for each in browser.complaints() if "favicon" not in each and "[DOM]" not in each] == []
