"""Output in narrow encodings, the short version of `faults encodings`."""

import subprocess
import sys

from faults.cases import ROOT
from faults.encodings import NARROW, _bad, _told_otherwise, _unlike, missing
from faults.scratch import Ended

UTF8 = Ended(0, '{"token": "→", "seconds": 1.5}\n'.encode(), b"", 0.0, 0)


def test_commands_answer_in_every_encoding_what_they_answer_in_utf_8():
    words = ["encodings", "--only", "predict", "runs", "--no-real"]
    command = [sys.executable, "-m", "faults", *words, "--encodings", "ascii", "cp1252"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 faults" in done.stdout


def test_every_command_has_a_line():
    assert missing() == []
    assert "ascii" in NARROW


def test_what_is_not_as_in_utf_8_is_found():
    fine = UTF8._replace(out=b'{"token": "\\u2192", "seconds": 1.25}\n')
    assert _bad(fine, "ascii") == _unlike(UTF8, fine) == []
    assert _told_otherwise((UTF8, UTF8, fine), "ascii") == []
    assert _bad(UTF8, "ascii") != []
    assert _unlike(UTF8, fine._replace(code=1)) != []
    assert _unlike(UTF8, fine._replace(out=b"")) != []
    other = fine._replace(out=b'{"token": "?", "seconds": 1.25}\n')
    assert _told_otherwise((UTF8, UTF8, other), "ascii") != []
    torn = fine._replace(out=b'{"token": ')
    assert _told_otherwise((UTF8, UTF8, torn), "ascii") != []
    assert _bad(fine._replace(err=b"InternalError: no"), "ascii") != []
