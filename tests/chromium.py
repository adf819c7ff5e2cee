"""A headless Chromium driven through its debugging pipe: true widths, colour schemes, requests and downloads."""

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path

PATIENCE = 180  # seconds; nobody waits so long but for a fault: machines that test are busy
LEAVING = ("navigated or closed", "context was destroyed", "Cannot find context")
# All tabs are drawn by one process, and none is kept at hand: to start one takes a tenth of the time of a page, and
# what it has compiled for one page serves the next.
ONE_PROCESS = (
    "--renderer-process-limit=1",
    "--disable-site-isolation-trials",
    "--disable-features=SpareRendererForSitePerProcess",
)
# The window has no frame of its own: every page that loads had its tab and its buttons drawn anew, by the processor.
NO_FRAME = "--kiosk"
# No page is open long enough to earn back what optimising compilers take, in threads of their own, of a test's time.
NO_OPTIMISING = "--js-flags=--no-maglev,--no-turbofan"
PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chrome")


def program():
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


# Tell where the next click falls: on the element meant (as it was, or as the page has drawn it anew), or on one around
# it that takes its clicks, as a drawing does for its parts. What lies around a button does not: there a click falls on
# the page that moved meanwhile. What was pressed and then drawn anew has had none; what was pressed and is gone has
# acted upon being pressed, as a list of suggestions does.
_CLICKED = """selector => {
  const meant = [document.querySelector(selector)];
  let pressed;
  window.fell = 'nowhere';
  window.acted = undefined;
  document.addEventListener('mousedown', event => {
    pressed = event.target;
    window.acted = () => meant[0]?.contains(pressed) && !document.querySelector(selector);
  }, {capture: true, once: true});
  document.addEventListener('click', event => {
    const hit = event.target;
    meant.push(document.querySelector(selector));
    const taken = e => e instanceof SVGElement || getComputedStyle(e).pointerEvents === 'none';
    const on = meant.some(e => e && (e.contains(hit) || hit.contains(e) && taken(e)));
    window.fell = on && pressed?.isConnected ? 'there' : 'elsewhere';
  }, {capture: true, once: true});
}"""


def eventually(wanted, read, *arguments, **options):
    """Read something until it is what is wanted: what a page shows may come a moment after what was waited for."""
    end, pause = time.monotonic() + PATIENCE, 0.01
    while True:
        late = time.monotonic() > end
        try:
            found = read(*arguments, **options)
        except (AssertionError, AttributeError, LookupError, TypeError, ValueError):
            if late:
                raise
        else:
            if late or found == wanted:
                assert found == wanted, f"{found!r} is not {wanted!r}"
                return
        time.sleep(pause)
        pause = min(1.5 * pause, 0.1)


class Browser:
    """One tab; `requests` keeps every address it asked for."""

    def __init__(self, folder):
        self._events, self._count, self._rest = [], 0, b""
        self.requests, self.errors = [], []
        down, self._to = os.pipe()
        self._from, up = os.pipe()
        shell = 'in=$1 out=$2; shift 2; exec "$@" 3<&"$in" 4>&"$out"'
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
                   "--hide-scrollbars", "--no-first-run",
                   "--disable-background-networking", *ONE_PROCESS, NO_OPTIMISING, NO_FRAME,
                   "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", f"--user-data-dir={folder}"]  # fmt: skip
        self._process = subprocess.Popen(
            ["bash", "-c", shell, "pipe", str(down), str(up), program(), *options, "about:blank"],
            pass_fds=(down, up), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(down)
        os.close(up)
        self._session = self._target = None
        self.fresh()

    def fresh(self):
        """A new tab that knows nothing of what was before: no cookies, no requests, no errors."""
        old, self._session = self._target, None
        self._target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=self._target, flatten=True)
        if old is not None:
            self.send("Target.closeTarget", targetId=old)
        self._session = attached["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.send(f"{domain}.enable")
        self.send("Network.clearBrowserCookies")
        self.requests, self.errors, self._events = [], [], []

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
        if message.get("sessionId") not in (None, self._session):
            return {}  # of a tab that is being closed
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
        """Open a file of this machine, or an address."""
        url = str(path) if str(path).startswith("http") else Path(path).as_uri()
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.resize(width)
        self.send("Emulation.setEmulatedMedia", media=media, features=[scheme])
        answer = self.send("Page.navigate", url=url)
        assert not answer.get("errorText"), (url, answer)
        ready = "location.href !== 'about:blank' && document.readyState === 'complete'"
        self.wait(ready)

    def resize(self, width):
        """The window's width, in pixels; what is open in it stays."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=900,
                  deviceScaleFactor=1, mobile=False)  # fmt: skip

    def value(self, expression):
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, expression, seconds=PATIENCE):
        """Wait until an expression is true in the page; its value."""
        found = self._within(expression, seconds)
        assert found, f"never came true: {expression}\n{self.text()[:2000]}"
        return found

    def _within(self, expression, seconds):
        """The value of an expression as soon as it is true, or its last one after so many seconds."""
        end, pause = time.monotonic() + seconds, 0.01
        while not (found := self._asked(expression)) and time.monotonic() < end:
            time.sleep(pause)
            pause = min(1.5 * pause, 0.1)  # asking takes work from what is waited for
        return found

    def until(self, expression, act):
        """Do something again and again until an expression is true in the page; its value.

        What is done to a page that is being drawn anew is lost, and nobody knows which moment is the last of that: what
        can be done twice is done until it has had its effect.
        """
        end, patience = time.monotonic() + PATIENCE, 1.0
        while True:
            act()
            if found := self._within(expression, patience):
                return found
            assert time.monotonic() < end, f"never came true: {expression}\n{self.text()[:2000]}"
            patience *= 2

    def _asked(self, expression):
        """The value of an expression, or None while one page makes room for the next."""
        try:
            return self.value(expression)
        except AssertionError as error:
            if not any(words in str(error) for words in LEAVING):
                raise
            return None

    def text(self, selector="body"):
        """The visible text of the first element that matches."""
        return self.value(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    def says(self, words, selector="body"):
        """Wait until an element says something."""
        found = f"document.querySelector({json.dumps(selector)})?.innerText"
        self.wait(f"{found}?.includes({json.dumps(words)})")

    def box(self, selector):
        """Where an element is: its middle and its size, in pixels of the window.

        It is scrolled into view, and its place is taken once it stays: a page that is still filling moves it.
        """
        look = (
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); if (!e) return null;"
            " e.scrollIntoView({block: 'nearest'}); const r = e.getBoundingClientRect();"
            " return {x: r.x + r.width / 2, y: r.y + r.height / 2, width: r.width, height: r.height}; })()"
        )
        before, end = None, time.monotonic() + 3
        while (found := self.wait(look)) != before and time.monotonic() < end:
            before = found
            time.sleep(0.05)
        return found

    def mouse(self, kind, x, y, **more):
        """One mouse event: moved, pressed, released or wheel."""
        name = {"moved": "mouseMoved", "pressed": "mousePressed", "released": "mouseReleased",
                "wheel": "mouseWheel"}[kind]  # fmt: skip
        self.send("Input.dispatchMouseEvent", type=name, x=x, y=y, **more)

    def hover(self, selector, until):
        """Rest on an element until an expression is true; away and back again while it is not."""

        def rest():
            at = self.box(selector)
            self.mouse("moved", 0, 0)
            self.mouse("moved", at["x"], at["y"])

        return self.until(until, rest)

    def click(self, selector):
        """A real click on the middle of an element; again where it fell elsewhere: pages move while they load."""
        for _ in range(9):
            at = self.box(selector)
            self.value(f"({_CLICKED})({json.dumps(selector)})")
            self.mouse("moved", at["x"], at["y"])
            for kind in ("pressed", "released"):
                self.mouse(kind, at["x"], at["y"], button="left", clickCount=1)
            if self._has_landed():
                return
        raise AssertionError(f"no click falls on {selector}\n{self.text()[:2000]}")

    def _has_landed(self):
        """Whether the click fell where it was meant to; a page that was left had it."""
        end = time.monotonic() + 1
        while (fell := self._asked("window.acted?.() ? 'there' : window.fell ?? 'left'")) in (
            "nowhere",
            None,
        ):
            # Where press and release met different elements, or an element that was gone by then, no click comes.
            if time.monotonic() > end:
                return False
            time.sleep(0.01)
        return fell != "elsewhere"

    def drag(self, selector, dx, dy, steps=8):
        """Press on the middle of an element, move, let go."""
        at = self.box(selector)
        self.mouse("moved", at["x"], at["y"])
        self.mouse("pressed", at["x"], at["y"], button="left", clickCount=1)
        for i in range(1, steps + 1):
            x, y = at["x"] + dx * i / steps, at["y"] + dy * i / steps
            self.mouse("moved", x, y, button="left", buttons=1)
        self.mouse("released", at["x"] + dx, at["y"] + dy, button="left", clickCount=1)

    def type(self, selector, text):
        """Put the cursor into a field, take out what is there, and type; again where the field was drawn anew."""
        field = f"document.querySelector({json.dumps(selector)})"

        def write():
            self.click(selector)
            self.value(f"{field}?.select?.()")
            self.send("Input.insertText", text=text)

        self.until(f"{field}?.value === {json.dumps(text)}", write)

    def press(self, key, code=None, modifiers=0):
        """A key, down and up; Alt is modifier 1."""
        more = {"text": "\r"} if key == "Enter" else {}
        number = {"Enter": 13, "Tab": 9, "Escape": 27, " ": 32}.get(key, 0)
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=code or key,
                      modifiers=modifiers, windowsVirtualKeyCode=number, **more)  # fmt: skip
            more = {}

    def click_text(
        self,
        text,
        selector="button, a, [role=menuitem], [role=option], .q-item, .q-tab, label, .chip",
    ):
        """Click the first visible element of these whose text is just that, also where a page makes it anew."""
        mark = "data-wanted"
        self.wait(
            f"(() => {{ const find = () => {{"
            f" document.querySelectorAll('[{mark}]').forEach(e => e.removeAttribute('{mark}'));"
            f" const e = [...document.querySelectorAll({json.dumps(selector)})].find(e => e.offsetParent &&"
            f" ([...e.querySelectorAll('i')].reduce((t, i) => t.replace(i.innerText, ''), e.innerText).trim()"
            f" === {json.dumps(text)} || e.getAttribute('aria-label') === {json.dumps(text)}));"
            f" e?.setAttribute('{mark}', ''); return !!e; }};"
            " window.wanted?.disconnect(); window.wanted = new MutationObserver(() =>"
            f" document.querySelector('[{mark}]') || find());"
            " window.wanted.observe(document.body, {childList: true, subtree: true}); return find(); })()"
        )
        self.click(f"[{mark}]")

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

    def promised(self, expression):
        """The value that an expression of the page promises, once it is there."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)  # fmt: skip
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")
