"""A headless Chromium driven through its debugging pipe: true widths, colour schemes, requests and downloads."""

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
from pathlib import Path

PATIENCE = 60  # seconds
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chrome")


def program():
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Browser:
    """One tab; `requests` keeps every address it asked for."""

    def __init__(self, folder):
        self.requests, self.errors, self._events, self._count, self._rest = [], [], [], 0, b""
        down, self._to = os.pipe()
        self._from, up = os.pipe()
        shell = 'in=$1 out=$2; shift 2; exec "$@" 3<&"$in" 4>&"$out"'
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
                   "--hide-scrollbars", "--no-first-run", "--disable-background-networking",
                   "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={folder}"]  # fmt: skip
        self._process = subprocess.Popen(
            ["bash", "-c", shell, "pipe", str(down), str(up), program(), *options, "about:blank"],
            pass_fds=(down, up), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(down)
        os.close(up)
        self._session = None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method, **params):
        self._count += 1
        message = {"id": self._count, "method": method, "params": params}
        if self._session and not method.startswith("Browser."):
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._count:
                assert "error" not in answer, answer
                return answer["result"]

    def event(self, name):
        """The next event of that name; one that came meanwhile counts."""
        while True:
            for i, (found, params) in enumerate(self._events):
                if found == name:
                    del self._events[: i + 1]
                    return params
            self._read()

    def _read(self):
        while b"\0" not in self._rest:
            assert select.select([self._from], [], [], PATIENCE)[0], "the browser says nothing"
            part = os.read(self._from, 1 << 20)
            assert part, "the browser has gone"
            self._rest += part
        one, self._rest = self._rest.split(b"\0", 1)
        message = json.loads(one)
        if "method" in message:
            self._events.append((message["method"], message["params"]))
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(message["params"]["request"]["url"])
        if message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(str(message["params"]))
        if message.get("method") == "Log.entryAdded":
            self.errors.append(message["params"]["entry"]["text"])
        return message

    def open(self, path, width, dark=False, media=""):
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=900,
                  deviceScaleFactor=1, mobile=False)  # fmt: skip
        self.send("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self.send("Page.navigate", url=Path(path).as_uri())
        ready = "location.href !== 'about:blank' && document.readyState === 'complete'"
        while not self.value(ready):
            pass

    def value(self, expression):
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def screenshot(self, path, clip=None):
        options = {"clip": {**clip, "scale": 1}} if clip else {}
        data = self.send("Page.captureScreenshot", captureBeyondViewport=True, **options)["data"]
        Path(path).write_bytes(base64.b64decode(data))

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            message = {"id": 0, "method": "Browser.close"}
            os.write(self._to, json.dumps(message).encode() + b"\0")
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
        os.close(self._to)
        os.close(self._from)
