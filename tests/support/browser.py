"""A headless Chromium, driven by the DevTools protocol over two pipes."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.support.waiting import until


class Browser:
    """One page, opened from a file, in a browser that has a profile and a cache of its own."""

    def __init__(self, width: int = 1280, height: int = 900) -> None:
        self._profile = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        theirs_in, self._write = os.pipe()
        self._read, theirs_out = os.pipe()
        # a shell gives the browser the numbers 3 and 4 that it reads and writes
        start = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self._process = subprocess.Popen(
            ("bash", "-c", start, "bash", "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
             "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking", "--disable-component-update",
             "--disable-sync", "--disable-default-apps", f"--user-data-dir={self._profile.name}", "about:blank"),
            pass_fds=(theirs_in, theirs_out), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        os.close(theirs_in)
        os.close(theirs_out)
        self._number, self._rest, self._session = 0, b"", ""
        self.events: list[dict[str, Any]] = []
        page = next(it for it in self.call("Target.getTargets")["targetInfos"] if it["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.size(width, height)

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._write)
        os.close(self._read)
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._profile.cleanup()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command of the protocol, and wait for its answer; events meanwhile go to ``events``."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data) :]
        while True:
            said = self._next()
            if said.get("id") == self._number:
                assert "error" not in said, said
                return said["result"]
            self.events.append(said)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._read, 1 << 20)
            assert more, "the browser has ended"
            self._rest += more
        first, _, self._rest = self._rest.partition(b"\0")
        return json.loads(first)

    def open(self, page: Path, fragment: str = "") -> float:
        """Open *page*; seconds until its script is done and the first picture can be drawn."""
        self.call("Page.navigate", url="about:blank")
        began = time.monotonic()
        self.call("Page.navigate", url=f"file://{page}{'#' + fragment if fragment else ''}")
        until(lambda: self.js("document.documentElement?.dataset.ready") == "yes", "the page to be ready")
        self.js("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")
        return time.monotonic() - began

    def js(self, expression: str) -> Any:
        """What *expression* comes to in the page; a promise is waited for."""
        done = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def size(self, width: int, height: int) -> None:
        """Make the window so large; below 600 it is a phone."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def prefer(self, scheme: str) -> None:
        """Prefer light or dark, as the system's settings do."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def type(self, selector: str, text: str) -> None:
        """Click into a field, and type as a person does."""
        self.js(f"document.querySelector({json.dumps(selector)}).focus()")
        self.call("Input.insertText", text=text)

    def click(self, selector: str) -> None:
        self.js(f"document.querySelector({json.dumps(selector)}).click()")

    def picture(self, path: Path) -> None:
        """A screenshot of the window."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def asked_for(self) -> list[str]:
        """Every address that the page asked for, whether it got there or not."""
        urls = [it["params"]["request"]["url"] for it in self.events if it.get("method") == "Network.requestWillBeSent"]
        return [it for it in urls if not it.startswith(("about:", "data:"))]

    def complaints(self) -> list[str]:
        """What the console of the page says: errors, and what its policy has refused."""
        logged = [it["params"]["entry"]["text"] for it in self.events if it.get("method") == "Log.entryAdded"]
        return logged + [str(it["params"]) for it in self.events if it.get("method") == "Runtime.exceptionThrown"]

    def press(self, key: str) -> None:
        """Press and release a key: Tab or Enter."""
        code, text = {"Tab": (9, ""), "Enter": (13, "\r")}[key]
        for kind in ("keyDown" if text else "rawKeyDown", "keyUp"):
            typed = {"text": text} if text and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **typed)
