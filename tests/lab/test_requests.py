"""What pages may be asked: no address and no upload leads to a fault, whatever stands in it."""

import http.client
import re
from math import inf
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

PARAMETERS = {
    "/": (),
    "/data": ("last", "row", "aside", "ids"),
    "/graph": ("last", "min", "condensed", "most", "centre", "chosen", "over"),
    "/automaton": ("context", "last", "radius", "why", "seed", "drawn"),
    "/training": ("run", "beside", "axis", "cosine", "init", "optimizer", "lr", "steps", "every", "head", "loss",
                  "batch_size", "seeds", "seed"),
    "/scan-snap": ("classes", "levels", "eta_y", "eta_z", "beside_eta_y", "beside_eta_z", "until", "steps", "T",
                   "batch", "optimizer", "start", "mixing", "seeds", "seed", "shown", "t", "class"),
    "/lens": ("last", "doc", "split", "top", "max_df", "find", "filter"),
    "/sweep": ("x", "y", "value", "at_eta_z", "cell", "families", "level", "grid"),
    "/probe": ("measure", "head", "text", "mark"),
    "/claims": ("claim", "only", "find", "verdict"),
}  # fmt: skip
NUMBERS = ("1e400", "-1e400", "nan", "1e308", "5e-324", "9" * 400, "-1", "²", "٣")
TEXTS = (
    "\x00",
    "<script>alert(1)</script>",
    "../../etc/passwd",
    "a" * 700,
    "%zz",
    "\n",
    "[",
    "(",
    "\u202eabc",
)


def get(lab, path):
    """The status of a page for the owner of the lab, and the page."""
    asked = http.client.HTTPConnection(urlsplit(lab.base).netloc, timeout=120)
    asked.request("GET", lab.step + path, headers={"Cookie": lab.cookie})
    answer = asked.getresponse()
    try:
        return answer.status, answer.read().decode()
    finally:
        asked.close()


# Uploads; before all that sets the lab to work, whose memory would be counted with theirs

HEAD = b'--x\r\nContent-Disposition: form-data; name="f"; filename="a.txt"\r\n\r\n'
TAIL = b"\r\n--x--\r\n"
FORM = "multipart/form-data; boundary=x"


@pytest.fixture
def upload(lab):
    """Send something to the place where the start page takes files; the status."""
    place = re.search(r"/_nicegui/client/[\w-]+/upload/\d+", get(lab, "/")[1])[0]

    def send(kind, body, **headers):
        asked = http.client.HTTPConnection(urlsplit(lab.base).netloc, timeout=120)
        own = {"Cookie": lab.cookie, "Origin": lab.origin, "Content-Type": kind, **headers}
        asked.request(
            "POST", lab.step + place, body, own, encode_chunked="Transfer-Encoding" in headers
        )
        try:
            return asked.getresponse().status
        finally:
            asked.close()

    return send


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (FORM, b"nonsense"),
        (FORM, b'--x\r\nContent-Disposition: form-data; name="f"\r\n\r\nno file\r\n--x--\r\n'),
        (
            FORM,
            b'--x\r\nContent-Disposition: form-data; name="f"\r\n\r\n' + b"h" * (2 << 20) + TAIL,
        ),
        (FORM, (HEAD + b"z\r\n") * 2000 + TAIL),
        ("multipart/form-data", b"no boundary"),
        ("application/x-www-form-urlencoded", b"a=b"),
    ],
)
def test_an_upload_that_is_none_is_refused(lab, upload, kind, body):
    assert 400 <= upload(kind, body) < 500
    assert "Traceback" not in lab.log.read_text()


def test_an_upload_without_length_ends_at_the_limit_and_fills_no_memory(lab, upload):
    def body():
        yield HEAD
        for _ in range(80):
            yield b"a b c d " * (1 << 17)
        yield TAIL

    before = peak(lab)
    assert upload(FORM, body(), **{"Transfer-Encoding": "chunked"}) == 413
    assert peak(lab) - before < 32
    assert "Traceback" not in lab.log.read_text()
    assert get(lab, "/")[0] == 200


def peak(lab):
    """The most memory the lab has held so far, in MB; where that cannot be known, nothing."""
    status = Path(f"/proc/{lab.process.pid}/status")
    found = re.search(r"VmHWM:\s+(\d+)", status.read_text()) if status.exists() else None
    return int(found[1]) >> 10 if found else 0


# Addresses


@pytest.mark.parametrize("screen", PARAMETERS)
def test_no_setting_of_an_address_leads_to_a_fault(lab, screen):
    names = (*PARAMETERS[screen], "on", "unknown")
    for value in (*NUMBERS, *TEXTS):
        settings = "&".join(f"{name}={quote(value, safe='')}" for name in names)
        status, page = get(lab, f"{screen}?{settings}")
        assert status == 200, (screen, value, status)
        assert "<script>alert(1)" not in page
        assert "Traceback" not in lab.log.read_text(), (screen, value)


@pytest.mark.parametrize(
    ("screen", "name"),
    [("/automaton", "radius"), ("/graph", "min"), ("/lens", "max_df"), ("/data", "row"),
     *(("/scan-snap", x) for x in ("eta_y", "eta_z", "beside_eta_y", "until", "steps", "T", "seeds"))],
)  # fmt: skip
def test_no_number_of_an_address_leads_to_a_fault(lab, screen, name):
    for value in ("1e400", "nan", "1e308", "5e-324", "-1e16"):
        assert get(lab, f"{screen}?{name}={value}")[0] == 200, (screen, name, value)
    assert "Traceback" not in lab.log.read_text()


def test_an_address_that_is_too_long_gets_a_short_answer(lab):
    status, page = get(lab, f"/automaton?context={'a+' * 10_000}")
    assert status == 414
    assert len(page) < 100


def test_a_lab_that_is_ended_while_it_works_ends_quietly(start_lab, tmp_path):
    words = " ".join(f"w{i * i % 4999}" for i in range(300_000))
    (tmp_path / "long.txt").write_text(words)
    running = start_lab(tmp_path / "long.txt", "--context", "24", held=0)
    assert "job-note" in get(running, "/")[1]  # its progress is shown, so it is not finished
    running.hold(inf)
    running.close()
    assert "Traceback" not in running.log.read_text()
