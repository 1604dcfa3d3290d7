"""A headless Chromium of the machine, driven over its debugging pipe: a page opened, asked, photographed and printed.

Messages of the DevTools protocol are JSON ended by a zero byte, read by Chromium from descriptor 3 and written to 4.
"""

from __future__ import annotations

import base64
import fcntl
import itertools
import json
import os
import select
import shutil
import signal
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
    "--remote-debugging-pipe",
)
PATIENCE_S = 120.0


def find() -> str | None:
    """Where a Chromium is, None where none is installed."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Chromium:
    """One browser with one page.

    Args:
        program: see `find`.
        folder: an empty one, for its profile.
    """

    def __init__(self, program: str, folder: Path):
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        # moved out of the way of 3 and 4 first
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (to_read, to_write)]
        quiet = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_WRONLY, 0) for number in (1, 2)]
        given = [(os.POSIX_SPAWN_DUP2, end, number) for end, number in zip(ends, (3, 4), strict=True)]
        line = [program, *FLAGS, f"--user-data-dir={folder}"]
        self._process = os.posix_spawn(program, line, os.environ, file_actions=[*quiet, *given])
        for end in (to_read, to_write, *ends):
            os.close(end)
        self._numbers, self._buffer, self._session = itertools.count(1), b"", None
        self.requested: list[str] = []
        """Addresses that pages have asked for."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Chromium:
        return self

    def __exit__(self, *error: object) -> None:
        self._session = None
        try:
            self.call("Browser.close")
        except (RuntimeError, OSError):
            os.kill(self._process, signal.SIGKILL)
        os.close(self._write)
        os.close(self._read)
        os.waitpid(self._process, 0)

    def call(self, method: str, **given: Any) -> dict[str, Any]:
        """A command's result. Raises RuntimeError where it is refused or Chromium has ended."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": given}
        message |= {"sessionId": self._session} if self._session else {}
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            heard = self._hear()
            if heard.get("id") == number:
                if "error" in heard:
                    raise RuntimeError(f"{method}: {heard['error']}")
                return heard["result"]

    def open(self, path: Path, width: int, height: int = 844, dark: bool = False, media: str = "") -> None:
        """Show a file on a screen of `width` by `height` CSS pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self.requested.clear()
        self.call("Page.navigate", url=path.as_uri())
        while self.ask("document.readyState") != "complete":
            time.sleep(0.05)

    def ask(self, script: str) -> Any:
        """The value of an expression in the page, as JSON holds it."""
        output_text = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in output_text:
            raise RuntimeError(f"{script}: {output_text['exceptionDetails']}")
        return output_text["result"].get("value")

    def picture(self, file: Path) -> Path:
        """A PNG of the whole page, as long as it is."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        file.write_bytes(base64.b64decode(shot["data"]))
        return file

    def pdf(self, file: Path) -> Path:
        """The page as printed on A4."""
        printed = self.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69, printBackground=False)
        file.write_bytes(base64.b64decode(printed["data"]))
        return file

    def _hear(self) -> dict[str, Any]:
        """The next message; requests of the page are noted on the way."""
        while b"\0" not in self._buffer:
            if not select.select([self._read], [], [], PATIENCE_S)[0]:
                raise RuntimeError(f"Chromium has said nothing for {PATIENCE_S:.0f} s")
            if not (more := os.read(self._read, 1 << 20)):
                raise RuntimeError("Chromium has ended")
            self._buffer += more
        line, _, self._buffer = self._buffer.partition(b"\0")
        heard = json.loads(line)
        if heard.get("method") == "Network.requestWillBeSent":
            self.requested.append(heard["params"]["request"]["url"])
        return heard
