"""The secrets of a lab: what each opens, how long, and that another user of the machine gets hold of none."""

import http.client
import http.server
import json
import os
import re
import stat
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import pytest
from tests.lab.conftest import looking_at

from attomaton.lab.keys import Key, Keys, kept_key

BASE = "http://127.0.0.1:8765"
NOBODY = 65534


def once_of(page):
    return re.search(r"token=([\w-]+)", page.read_text())[1]


@pytest.fixture
def keys():
    now = [0.0]
    made = Keys(8765, seconds=10.0, clock=lambda: now[0])
    made.now = now
    yield made
    made.close()


def test_a_users_key_is_kept_for_his_eyes_and_ends_when_he_says(tmp_path):
    folder = tmp_path / "state" / "attomaton"
    key = kept_key(folder)
    (file,) = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert kept_key(folder) == key
    one, two = Keys(8765, key), Keys(8765, key)
    assert (one.path, one.token, one.cookie) == (two.path, two.token, two.cookie)
    assert one.session != two.session  # ends with the lab
    fresh = kept_key(folder, fresh=True)
    assert not set(vars(fresh).values()) & set(vars(key).values())
    assert kept_key(folder) == fresh


def spoil_mode(file):
    file.chmod(0o644)


def spoil_text(file):
    file.write_text("{")


def spoil_short(file):
    file.write_text(json.dumps({**json.loads(file.read_text()), "token": "short"}))


def spoil_more(file):
    file.write_text(json.dumps({**json.loads(file.read_text()), "more": 1}))


@pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX")
@pytest.mark.parametrize("spoil", [spoil_mode, spoil_text, spoil_short, spoil_more])
def test_a_key_that_may_not_be_believed_is_drawn_anew(tmp_path, spoil):
    key = kept_key(tmp_path)
    spoil(next(tmp_path.iterdir()))
    drawn = kept_key(tmp_path)
    assert drawn.token != key.token
    assert kept_key(tmp_path) == drawn


def test_where_no_key_can_be_kept_there_is_one_for_this_start(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    assert kept_key(tmp_path / "file") != kept_key(tmp_path / "file")
    assert "cannot be kept" in caplog.text


NONCE = "0123456789abcdef"


def answer(keys, told):
    """What a page that knows the seal says in its turn."""
    return keys._sealed("page", f"{NONCE} {told['nonce']}")


def test_a_page_and_a_lab_know_each_other_by_the_seal():
    key = Key.drawn()
    lab, again, elsewhere = Keys(8765, key), Keys(8765, key), Keys(9999, key)
    told = again.proves(NONCE)
    assert told["proof"] == lab._sealed("lab", NONCE)
    assert told["proof"] != elsewhere._sealed("lab", NONCE)  # a proof made on another port is none
    assert told["proof"] != Keys(8765).proves(NONCE)["proof"]
    assert not again.believes(NONCE, told["proof"])
    told = again.proves(NONCE)
    assert again.believes(NONCE, answer(lab, told))
    assert not again.believes(NONCE, answer(lab, told))  # once
    assert again.proves("short") is None
    assert again.proves("x" * 1000) is None
    for i in range(200):
        again.proves(f"{i:016d}")
    assert len(again._asked) <= 64


def test_all_secrets_differ_and_are_drawn_anew(keys):
    other = Keys(8765)
    both = [(k.path, k.session, k.token, k.cookie, k._once) for k in (keys, other)]
    assert len({x for one in both for x in one}) == 10
    assert all(len(x) > 20 for x in (keys.path, keys.session, keys.token))


def test_the_printed_token_opens_again_and_again_and_the_other_once(keys):
    once = once_of(keys.page(BASE))
    assert keys.opens(keys.token)
    assert keys.opens(keys.token)
    assert keys.opens(once)
    assert not keys.opens(once)
    assert keys.opens(keys.token)


def test_the_one_time_token_dies_with_time(keys):
    once = once_of(keys.page(BASE))
    keys.now[0] = 10.5
    assert not keys.opens(once)
    keys.now[0] = 0.0
    assert not keys.opens(once)  # a late attempt has ended it for good


@pytest.mark.parametrize("wrong", ["", "x", "None", "é"])
def test_nothing_else_opens(keys, wrong):
    page = keys.page(BASE)
    assert not keys.opens(wrong)
    assert not keys.opens(keys.session)
    assert not keys.opens(keys.path[1:])
    assert page.exists()  # a wrong guess does not spend the right one
    assert not keys.knows(keys.token)
    assert not keys.knows(wrong)


def test_the_page_is_for_its_user_alone_and_goes_when_it_was_used(keys):
    page = keys.page(BASE)
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert stat.S_IMODE(page.parent.stat().st_mode) == 0o700
    text = page.read_text()
    assert keys.token not in text
    assert keys.session not in text
    assert keys.opens(once_of(page))
    assert not page.parent.exists()
    keys.close()


# Another user of the machine

# Runs as another user: all it can read of command lines, environments and folders, then every way to use it.
STRANGER = """
import encodings.idna, glob, http.client, itertools, json, os, re, sys
from urllib.parse import quote
os.setgroups([]); os.setgid({nobody}); os.setuid({nobody})
asked = json.load(sys.stdin)
found = []
for place in [*glob.glob("/proc/[0-9]*/cmdline"), *glob.glob("/proc/[0-9]*/environ")]:
    try:
        found += open(place, errors="replace").read().split("\\0")
    except OSError:
        pass
for folder, _, files in itertools.chain.from_iterable(os.walk(f) for f in asked["folders"]):
    for file in files:
        try:
            found.append(open(os.path.join(folder, file), errors="replace").read())
        except OSError:
            pass
words = set(asked["words"])
for text in found:
    if any(mark in text for mark in asked["marks"]):
        words |= {{text, *re.findall(r"[\\w-]{{16,}}", text)}}

def ask(path, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", int(asked["port"]), timeout=30)
    try:
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()

cookies = ["", *asked["cookies"], *(f"{{asked['name']}}={{quote(w)}}" for w in words)]
steps = ["", *("/" + quote(w, safe="") for w in words if len(w) < 200)]
tokens = ["", *(f"?token={{quote(w)}}" for w in words if len(w) < 200)]
tries = {{(step + "/" + token, cookie) for step in steps for token in tokens for cookie in cookies[:2]}}
tries |= {{(step + "/", cookie) for step in steps for cookie in cookies}}
print(json.dumps({{"uid": os.getuid(), "words": sorted(words),
    "answers": [ask(path, Cookie=cookie) for path, cookie in sorted(tries)],
    "control": ask(asked["right"][0], Cookie=asked["right"][1])}}))
"""


@pytest.fixture
def other_port():
    """A server on another port, as another user may run it: it keeps what a browser sends it."""
    seen = []

    class Server(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append((self.path, self.headers.get("Cookie", "")))
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            # Whatever page led here, what a page asks of its own host takes all cookies of the host along.
            self.wfile.write(
                b"<script>fetch('/again').then(() => document.title = 'seen')</script>"
            )

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port, seen
    server.shutdown()
    server.server_close()


@pytest.fixture
def stay(tmp_path):
    """A browser that only notes what it was started with, and stays, so that its command line can be read."""
    program, said = tmp_path / "browser.sh", tmp_path / "said"
    program.write_text(
        f'#!/bin/sh\necho "$$" "$@" > {said}.new\nmv {said}.new {said}\nexec tail -f /dev/null "$@" 2> /dev/null\n'
    )
    program.chmod(0o755)
    yield program, said
    if said.exists():
        os.kill(int(said.read_text().split()[0]), 9)


def started_with(said, running):
    """What the browser was started with, once it was."""
    while not said.exists():
        assert running.process.poll() is None
        threading.Event().wait(0.02)
    return said.read_text().split(" ", 1)[1].strip()


def test_a_browser_is_started_with_a_page_and_the_page_leads_into_the_lab(
    start_lab, browser, stay, other_port
):
    program, said = stay
    running = start_lab(browser=program)
    asked = started_with(said, running)
    page = Path(unquote(urlsplit(asked).path))
    secrets = (running.token, running.step[1:], running.cookie.split("=")[1], once_of(page))
    assert asked.startswith("file:///")
    assert not any(x in asked for x in secrets)
    for process in (running.process.pid, int(said.read_text().split()[0])):
        for what in ("cmdline", "environ"):
            assert not any(
                x.encode() in Path(f"/proc/{process}/{what}").read_bytes() for x in secrets
            )
    browser.open(page, 1400)
    browser.wait("!!document.querySelector('main.page') && window.did_handshake === true")
    assert "token" not in browser.value("location.href")
    assert not page.parent.exists()
    looking_at(browser, running)("/data")
    port, seen = other_port
    browser.open(f"http://127.0.0.1:{port}/", 1400)
    browser.wait("document.title === 'seen'")
    assert [path for path, _ in seen if "favicon" not in path] == ["/", "/again"]
    assert not any(cookie for _, cookie in seen)


@pytest.mark.skipif(
    os.name != "posix" or os.getuid() != 0, reason="only root can become another user"
)
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="no /proc here")
def test_what_another_user_can_see_is_of_no_use(start_lab, browser, stay, other_port):
    program, said = stay
    running = start_lab(browser=program)
    page = Path(unquote(urlsplit(started_with(said, running)).path))
    looking_at_lab = looking_at(browser, running)
    browser.open(running.address, 1400)
    browser.wait("!!document.querySelector('main.page')")
    looking_at_lab("/graph")
    port, seen = other_port
    browser.open(f"http://127.0.0.1:{port}/", 1400)
    browser.wait("document.title === 'seen'")
    asked = {
        "port": running.origin.rsplit(":", 1)[1],
        "folders": [str(page.parent)],
        "marks": [running.origin, str(page.parent), str(program), str(running.folder)],
        "words": [running.origin, *(c for _, c in seen)],
        "cookies": sorted({c for _, c in seen}),
        "name": running.cookie.split("=")[0],
        "right": [f"{running.step}/", running.cookie],
    }
    done = subprocess.run([sys.executable, "-c", STRANGER.format(nobody=NOBODY)], input=json.dumps(asked),
                          capture_output=True, text=True, timeout=300, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    stranger = json.loads(done.stdout)
    assert stranger["uid"] == NOBODY
    assert any(page.as_uri() in word for word in stranger["words"])  # it did see the command lines
    # The secrets, had it found them, would have opened the lab to it.
    assert stranger["control"] == 200
    assert len(stranger["answers"]) > 20
    assert set(stranger["answers"]) == {403}
    assert page.exists()  # and the page still waits for the one it was written for


def test_the_page_goes_with_the_lab(start_lab, stay):
    program, said = stay
    running = start_lab(browser=program)
    page = Path(unquote(urlsplit(started_with(said, running)).path))
    assert page.exists()
    running.close()
    assert not page.parent.exists()


def test_an_address_copied_to_someone_else_does_not_let_him_in(lab):
    asked = http.client.HTTPConnection(urlsplit(lab.base).netloc, timeout=120)
    asked.request("GET", f"{lab.step}/graph?last={quote('bell')}")
    assert asked.getresponse().status == 403
    asked.close()
