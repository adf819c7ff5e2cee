"""Names that try to leave a folder: steps up, encoded once and twice, other systems' paths, control characters."""

from itertools import product
from urllib.parse import quote

TARGETS = ("etc/passwd", "canary.txt", "proc/self/environ", "windows/win.ini")
STEPS = ("../", "..\\", "..;/", "....//", "..//", "./../", ".%2e/", "%2e%2e/", "..%2f", "..%5c", "%2e%2e%2f",
         "%252e%252e%252f", "..%252f", "..%255c", "..%c0%af", "..%ef%bc%8f", "%c0%ae%c0%ae/", "..%00/", "..%0d%0a/",
         "．．/", "..\u2215", "..\x00/")  # fmt: skip
ABSOLUTE = ("/", "//", "///", "\\", "\\\\", "file:///", "file://localhost/", "C:\\", "C:/", "c:%5c", "\\\\?\\C:\\",
            "\\\\server\\share\\", "//server/share/", "%2f", "%252f", "/./", "/../", "~/",
            "~root/", "%7e/")  # fmt: skip
ODD = ("", ".", "..", "...", "../", "/", "//", "\\", "%", "%%", "%2", "%zz", "%00", "\x00", "a\x00.jsonl", "a%00.jsonl",
       "CON", "NUL.jsonl", "aux.txt", "LPT1", "-rf", "--help", "$HOME", "${HOME}", "`id`", "$(id)", "; ls", "| ls",
       "a" * 5000, "a/" * 500, "<script>alert(1)</script>.txt", "'\"><img src=x>.txt", "data.jsonl/..", ".git/config",
       "..jsonl", "\u202etxt.exe", "\ud7ff.txt", "é.txt", "a\nb.txt", "a\r\nSet-Cookie: x=1", "*", "?", "a?b", "a#b",
       "attomaton.json", "../attomaton.json", "models/../../x", "data/../../../x", "example/../..",
       "0" * 16)  # fmt: skip


def names():
    """All of them, each once."""
    climbing = [step * n + target for step, n, target in product(STEPS, (1, 3, 8), TARGETS)]
    rooted = [root + target for root, target in product(ABSOLUTE, TARGETS)]
    twice = [quote(quote(name)) for name in climbing[:40]]
    return list(dict.fromkeys([*climbing, *rooted, *twice, *ODD]))
