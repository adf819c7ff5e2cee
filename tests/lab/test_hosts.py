"""Where the lab listens: names it answers to and names it refuses, and hosts it cannot listen on."""

import http.client
import socket
from urllib.parse import urlsplit

import pytest

from attomaton.errors import UsageError
from attomaton.lab.hosts import base, free_port, is_alone, is_any, names, resolved


def machine_address():
    """An address of this machine that is not loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(("192.0.2.1", 9))  # sends nothing
            found = s.getsockname()[0]
        except OSError:
            found = "127.0.0.1"
    if found.startswith("127."):
        pytest.skip("this machine has no address but loopback")
    return found


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("", "a name or an address alone"),
        ("http://127.0.0.1", "a name or an address alone"),
        ("127.0.0.1/x", "a name or an address alone"),
        ("me@127.0.0.1", "a name or an address alone"),
        ("two words", "a name or an address alone"),
        ("no-such-host.invalid", "no such host name or address"),
        ("256.1.1.1", "no such host name or address"),
        ("127.0.0.1:9000", "The port goes to --port"),
        ("x" * 300, "no such host name or address"),
        ("a..b", "no such host name or address"),
        ("\u202eevil", "no such host name or address"),
    ],
)
def test_a_host_that_is_none_is_said_so(host, said):
    with pytest.raises(UsageError, match=said) as caught:
        resolved(host)
    assert len(str(caught.value)) < 250
    assert str(caught.value).isprintable()


def test_a_host_of_another_machine_is_said_so(call, tmp_path):
    code, out, err = call("lab", "--no-browser", "--host", "192.0.2.7", "--workspace", tmp_path)
    assert (code, out) == (2, "")
    assert "192.0.2.7 is not an address of this machine" in err


def test_a_port_in_use_is_said_so():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"port {port} of 127.0.0.1 cannot be used"):
            free_port(["127.0.0.1"], port)
        assert free_port(["127.0.0.1"], None) != port


@pytest.mark.parametrize(
    ("host", "alone", "all_own", "begins"),
    [
        ("127.0.0.1", True, False, "http://127.0.0.1:1"),
        ("127.0.0.5", True, False, "http://127.0.0.5:1"),
        ("localhost", True, False, "http://localhost:1"),
        ("::1", True, False, "http://[::1]:1"),
        ("0.0.0.0", False, True, "http://127.0.0.1:1"),
        ("::", False, True, "http://[::1]:1"),
        ("192.0.2.7", False, False, "http://192.0.2.7:1"),
    ],
)
def test_who_can_reach_a_host(host, alone, all_own, begins):
    found = resolved(host)
    assert is_alone(found) == alone
    assert is_any(found) == all_own
    assert base(host, 1) == begins
    known = names(host, found)
    assert urlsplit(begins).netloc.rsplit(":", 1)[0] in known
    assert (socket.gethostname().lower() in known) == (not alone)


def status(running, at, host):
    """The answer to the owner of a lab who asks it at an address under a host name."""
    connection = http.client.HTTPConnection(at, urlsplit(running.base).port, timeout=120)
    port = urlsplit(running.base).port
    connection.request(
        "GET", f"{running.step}/", headers={"Host": f"{host}:{port}", "Cookie": running.cookie}
    )
    try:
        return connection.getresponse().status
    finally:
        connection.close()


FOREIGN = ("evil.example", "192.0.2.7", "8.8.8.8", "localhost.evil.example", "[2001:db8::1]")


def test_a_lab_on_all_addresses_answers_to_each_of_them_and_to_its_own_names(start_lab):
    own = machine_address()
    running = start_lab("--host", "0.0.0.0")
    for at, host in (("127.0.0.1", "127.0.0.1"), ("127.0.0.1", "localhost"), (own, own),
                     (own, socket.gethostname()), (own, socket.getfqdn().upper())):  # fmt: skip
        assert status(running, at, host) == 200, (at, host)
    for host in FOREIGN:
        assert status(running, own, host) == 403, host
    # An address is only right on a connection that came to it.
    assert status(running, "127.0.0.1", own) == 403


def test_a_lab_on_one_address_answers_to_it_and_to_its_own_names(start_lab):
    own = machine_address()
    running = start_lab("--host", own)
    assert running.origin.startswith(f"http://{own}:")
    for host in (own, socket.gethostname()):
        assert status(running, own, host) == 200, host
    for host in FOREIGN:
        assert status(running, own, host) == 403, host


def test_a_lab_of_this_machine_alone_answers_to_no_other_name(start_lab):
    running = start_lab("--host", "localhost")
    for host in ("localhost", "127.0.0.1"):
        assert status(running, "127.0.0.1", host) == 200, host
    for host in (*FOREIGN, "0.0.0.0", "lab.localhost"):
        assert status(running, "127.0.0.1", host) == 403, host
