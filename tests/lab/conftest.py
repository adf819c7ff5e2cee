"""A lab in a process of its own and a real browser in front of it."""

import atexit
import http.client
import os
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests import chromium
from tests.lab.nursery import Nursery

# Lists what a page tells the server from now on; not that it has heard what the server said.
COUNTING = """(() => { const {emit} = window.socket; window.sent = []; window.socket.emit = function (name, ...what) {
  if (name !== 'ack') window.sent.push([name, ...what]); return emit.call(this, name, ...what); }; })()"""
# Where a process that is not our child can be waited for: Linux.
FORKS = hasattr(os, "pidfd_open") and hasattr(signal, "pidfd_send_signal")


def outside():
    """The environment of a lab: NiceGUI behaves differently where it believes to be inside a test."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    return {**kept, "JAX_PLATFORMS": "cpu"}


@cache
def nursery():
    """The process that starts the labs of all tests of this one; it ends with it."""
    started = Nursery(outside())
    atexit.register(started.close)
    return started


class Running:
    """One `attomaton lab`: `address` with its token, `url(path)` without, `step` the secret beginning of its paths.

    `browser` is a program to open it with. Its key is kept in `folder`, and so is what it holds: a second one there,
    on the same `port`, is the same lab started again. Where `held` is a count, its work goes no further (`hold`).
    """

    def __init__(self, folder, *arguments, browser=None, port=0, held=None):
        self.folder = folder
        self.log = folder / "stderr.txt"
        command = ["lab", *map(str, arguments), "--port", str(port),
                   "--workspace", str(folder / "workspace")]  # fmt: skip
        command += ["--no-browser"] if browser is None else []
        program = ["-m", "attomaton"]
        if held is not None:
            self.hold(held)
            program = [str(Path(__file__).with_name("held.py")), str(folder / "hold")]
        env = {**outside(), "ATTOMATON_STATE": str(folder / "state")}
        env |= {} if browser is None else {"BROWSER": f"{browser} %s"}
        with self.log.open("w") as log:
            # Of one that starts a browser, tests look at the command line and the environment: all its own.
            if browser is None and FORKS:
                own = command if held is None else [*program, *command]
                self.process = nursery().start(own, folder, env, log)
            else:
                self.process = subprocess.Popen(
                    [sys.executable, *program, *command], env=env, stdout=subprocess.PIPE, stderr=log,
                    text=True, cwd=folder,
                )  # fmt: skip
        self.address = self.process.stdout.readline().strip()
        if not self.address:
            self.close()
            raise AssertionError(self.log.read_text())
        self.base, self.token = self.address.split("/?token=")
        place = urlsplit(self.base)
        self.origin, self.step = f"http://{place.netloc}", place.path
        self.cookie = self._welcomed()

    def _welcomed(self):
        """The cookie that the lab gives in exchange for its token."""
        asked = http.client.HTTPConnection(urlsplit(self.base).netloc, timeout=60)
        asked.request("GET", self.address.removeprefix(self.origin))
        given = asked.getresponse().headers["set-cookie"]
        asked.close()
        return given.split(";")[0]

    def url(self, path="/"):
        """The address of a page; a path taken from an address bar has its first step already."""
        return self.base + path.removeprefix(self.step)

    def hold(self, count):
        """Let the work of a lab that was started as `held` go on to a count and wait there; infinity lets it go on."""
        (self.folder / "held").write_text(str(count))
        (self.folder / "held").replace(self.folder / "hold")

    def close(self):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


@pytest.fixture(scope="module")
def start_lab(tmp_path_factory):
    """Start labs that end with the module: start_lab("file.jsonl", "--context", 3)."""
    running = []

    def start(*arguments, **options):
        running.append(Running(tmp_path_factory.mktemp("lab"), *arguments, **options))
        return running[-1]

    yield start
    for one in running:
        one.close()
    for one in running:
        said = one.log.read_text()
        assert "Traceback" not in said, said


@pytest.fixture(scope="module")
def lab(start_lab):
    """A lab on the embedded example."""
    return start_lab()


@pytest.fixture(scope="session")
def chrome(tmp_path_factory):
    """A real browser, one for all tests of a process: every test gets a tab that knows nothing of the others."""
    if chromium.program() is None:
        pytest.skip("no Chromium here; .ci/run installs it")
    process = chromium.Browser(tmp_path_factory.mktemp("profile"))
    yield process
    process.close()


@pytest.fixture
def browser(chrome):
    """A fresh tab of it."""
    chrome.fresh()
    return chrome


@pytest.fixture
def tab(lab, browser):
    """A tab that holds the token, as if the lab had been opened in it once: tab.see("/graph")."""
    name, value = lab.cookie.split("=")
    browser.send("Network.setCookie", name=name, value=value, url=lab.base,
                 path=f"{lab.step}/", httpOnly=True)  # fmt: skip
    browser.see = looking_at(browser, lab)
    return browser


@pytest.fixture
def other(lab, tmp_path):
    """A second browser in which the lab is open, beside `tab`."""
    process = chromium.Browser(tmp_path / "other")
    enter(process, lab)
    yield process
    process.close()


def enter(browser, lab, width=1400, dark=False):
    """Open the lab by the address it printed, and give the tab a `see(path)`."""
    browser.open(lab.address, width, dark)
    browser.wait("!!document.querySelector('main.page')")
    browser.see = looking_at(browser, lab, width, dark)


def looking_at(browser, lab, width=1400, dark=False):
    """A function that opens a page of this lab and waits until the page answers."""

    def see(path="/", width=width, dark=dark):
        browser.open(lab.url(path), width, dark)
        browser.wait("!!document.querySelector('main.page') && window.did_handshake === true")
        return browser

    return see
