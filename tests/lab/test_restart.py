"""A lab killed and started again: an open page comes back by itself, a copied address opens."""

import http.client
import http.server
import threading
from urllib.parse import urlsplit

import pytest
from tests.chromium import eventually
from tests.lab.conftest import Running, enter


def killed(running):
    """End a lab that has no time to say good-bye."""
    running.process.kill()
    running.process.wait()
    running.process.stdout.close()


@pytest.fixture
def lab(tmp_path):
    """A lab of its own, which tests end and start again."""
    running = [Running(tmp_path)]

    def again(*arguments):
        killed(running[-1])
        port = urlsplit(running[0].base).port
        running.append(Running(tmp_path, *arguments, port=port))
        return running[-1]

    running[0].again = again
    yield running[0]
    running[-1].close()
    assert "Traceback" not in running[-1].log.read_text()


def asked(base, path, **headers):
    connection = http.client.HTTPConnection(urlsplit(base).netloc, timeout=60)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def test_an_open_page_comes_back_by_itself_and_a_copied_address_opens(lab, browser):
    enter(browser, lab)
    browser.see("/graph?last=phone")
    copied = browser.value("location.href")
    browser.value("window.before = 1")
    again = lab.again()
    assert (again.base, again.token) == (lab.base, lab.token)
    assert again.cookie != lab.cookie
    assert asked(lab.base, urlsplit(copied).path, Cookie=lab.cookie)[0] == 403
    browser.wait(
        "window.before === undefined && window.did_handshake === true && !!document.querySelector('.page')"
    )
    eventually(urlsplit(copied).path, lambda: urlsplit(browser.value("location.href")).path)
    assert "last=phone" in browser.value("location.search")
    browser.open(copied, 1400)
    browser.wait("document.querySelector('main')?.innerText.includes('phone')")


def test_a_page_whose_lab_was_only_busy_stays_as_it_is(lab, browser):
    enter(browser, lab)
    browser.see("/graph?last=phone")
    browser.value("window.before = 1")
    browser.value("window.socket.io.reconnection(false), window.socket.io.engine.close(), 1")
    looks = "performance.getEntriesByType('resource').filter(e => e.name.includes('/again')).length"
    browser.wait(f"{looks} >= 3")
    assert browser.value("window.before") == 1
    assert not [url for url in browser.requests if "proof=" in url]
    browser.value("window.socket.io.reconnection(true), window.socket.connect(), 1")
    browser.wait("window.socket.connected && window.did_handshake === true")
    browser.click("[aria-label='Light or dark']")
    browser.wait("document.body.classList.contains('body--dark')")
    assert browser.value("window.before") == 1


def test_a_new_key_ends_what_was_before_and_a_page_says_how_to_come_in(lab, browser):
    enter(browser, lab)
    browser.see("/data")
    again = lab.again("--new-key")
    assert again.step != lab.step
    assert again.token != lab.token
    browser.wait("document.querySelector('#popup')?.innerText.includes('has another key')")
    browser.open(lab.url("/data"), 1400)
    assert "come in again" in browser.value("document.title")
    browser.says("attomaton lab")
    status, text = asked(lab.base, f"{lab.step}/data", Accept="text/html")
    assert status == 403
    assert not any(secret in text for secret in (again.step[1:], again.token, again.cookie))
    enter(browser, again)


def test_whoever_takes_the_port_of_a_lab_that_is_gone_gets_nothing_of_use(lab, browser):
    enter(browser, lab)
    browser.see("/data")
    seen = []

    class Squatter(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append((self.path, self.headers.get("Cookie", "")))
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(b'{"proof": "0", "nonce": "0"}')

        def log_message(self, *_):
            pass

    port = urlsplit(lab.base).port
    killed(lab)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Squatter)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        browser.wait(
            "document.querySelector('#popup')?.innerText.includes('not the lab of before')"
        )
    finally:
        server.shutdown()
        server.server_close()
    assert [path for path, _ in seen if "/again" in path]
    assert not any(cookie for path, cookie in seen if "/again" in path)
    assert not any("proof" in path for path, _ in seen)
    again = lab.again()
    for path, cookie in {(urlsplit(p).path, c) for p, c in seen}:
        assert asked(again.base, path, Cookie=cookie)[0] in (400, 403)


def test_what_asks_who_is_there_has_to_come_as_pages_do(lab):
    path = f"{lab.step}/again?nonce=0123456789abcdef"
    assert asked(lab.base, path)[0] == 200
    assert asked(lab.base, path, Origin="http://evil.example")[0] == 403
    assert asked(lab.base, path, Host="evil.example")[0] == 403
    assert asked(lab.base, "/again?nonce=0123456789abcdef")[0] == 403
    assert asked(lab.base, f"{path}&proof=00")[0] == 403
    assert asked(lab.base, f"{lab.step}/again")[0] == 403
