"""The pictures of the first visit: python docs/make_visit.py FOLDER."""

import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests import chromium  # noqa: E402

STEPS = ("Anfrage", "Prüfung", "Rückfrage", "Angebot", "Auftrag", "Rechnung")
OFTEN = (3, 5, 3, 3, 2, 1)


def write_log(path: Path) -> Path:
    """A log with names of its own, semicolons and shuffled rows."""
    rng = random.Random(7)
    rows = []
    for case in range(90):
        for i in range(rng.randint(5, 14)):
            step = rng.choices(STEPS, OFTEN)[0]
            rows.append(
                f"F{case:03d};{step};2024-0{1 + case % 9}-{1 + case % 27:02d} 09:{i:02d}:00;{i % 4}"
            )
    rng.shuffle(rows)
    path.write_text("\n".join(["Vorgang;Schritt;Zeit;Stelle", *rows]), encoding="utf-8")
    return path


def main(folder: Path) -> None:
    """Start a lab, look around, take pictures."""
    with tempfile.TemporaryDirectory() as work:
        lab = subprocess.Popen(
            [sys.executable, "-m", "attomaton", "lab", "--no-browser", "--port", "0"],
            stdout=subprocess.PIPE, text=True, cwd=work, env={**os.environ, "ATTOMATON_STATE": f"{work}/state"},
        )  # fmt: skip
        assert lab.stdout is not None
        address = lab.stdout.readline().strip()
        base = address.split("/?token=")[0]
        browser = chromium.Browser(f"{work}/profile")

        def take(name: str, high: int = 900, wait: str = "true") -> None:
            browser.wait(wait)
            time.sleep(2.0)
            clip = {"x": 0, "y": 0, "width": 1400, "height": high}
            browser.screenshot(folder / f"visit-{name}.png", clip)

        try:
            browser.open(address, 1400)
            take("start", 790, "!!document.querySelector('.story svg')")
            browser.open(f"{base}/?step=2&on=example", 1400)
            browser.wait("!!document.querySelector('.story canvas') && window.did_handshake")
            browser.click(".story .q-slider")
            take("hard", 790)
            number = "[data-figure='‖W_svm‖ (hard)'] + .figure-name"
            browser.hover(number, until="!!document.querySelector('.q-tooltip.term math')")
            time.sleep(1)
            top = "document.querySelector('.q-tooltip.term').getBoundingClientRect().y + scrollY"
            clip = {"x": 180, "y": browser.value(top) - 40, "width": 1200, "height": 360}
            browser.screenshot(folder / "visit-hover.png", clip)
            browser.open(f"{base}/?on=example", 1400)
            browser.wait("window.did_handshake === true")
            browser.send("DOM.enable")
            root = browser.send("DOM.getDocument")["root"]["nodeId"]
            field = browser.send("DOM.querySelector", nodeId=root, selector="input[type=file]")
            log = str(write_log(Path(work) / "log.csv"))
            browser.send("DOM.setFileInputFiles", files=[log], nodeId=field["nodeId"])
            take("reading", 760, "!!document.querySelector('.sequences')")
            browser.click_text("Fit it")
            take("learned", 1000, "!!document.querySelector('.sentences')")
        finally:
            browser.close()
            lab.terminate()
            lab.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
