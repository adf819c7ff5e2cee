"""Pictures of every screen of the lab, light and dark, wide and narrow: python docs/make_screens.py FOLDER [SCREEN …].

Those the pages show are in docs/images; this writes all of them, to be looked at.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests import chromium  # noqa: E402

from attomaton.lab.shelf import Shelf  # noqa: E402

# Each screen in a state worth seeing, which folder is open, and how long it may compute.
SCREENS = {
    "start": ("/", "example", 1.0),
    "data": ("/data", "example", 1.5),
    "graph": ("/graph?last=guest&chosen=guest", "example", 1.5),
    "automaton": ("/automaton?context=floor order bill dishes guest&why=floor", "example", 1.5),
    "training": ("/training", "training", 2.5),
    "scan-snap": ("/scan-snap", "example", 15.0),
    "lens": ("/lens?last=guest", "example", 2.0),
    "sweep": ("/sweep?cell=7", "sweep", 2.0),
    "claims": ("/claims?claim=S4", "verification", 2.0),
}
# What those folders hold.
MADE = {
    "training": "demo",
    "sweep": "sweep syn-small --level limit eta_z=0.1,0.3,1,3 ratio=0.5,1,2,4,8 until=10000",
    "verification": "verify --quick --only luce,convexity,loss-floor,T3,S1,S2,S4,scan-snap-fig3",
}


def main(folder: Path, names: list[str]) -> None:
    """Make runs to look at, start a lab, open a browser, take all pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [str(Path(sys.executable).with_name("attomaton"))]
    names = names or list(SCREENS)
    with tempfile.TemporaryDirectory() as work:
        space = Path(
            "runs/lab"
        )  # as a page shows it, seen from the folder where the lab is started
        for name, words in MADE.items():
            if any(SCREENS[n][1] == name for n in names):
                made = [*command, *words.split(), "-o", str(space / "runs" / name)]
                subprocess.run(made, check=True, stdout=subprocess.DEVNULL, cwd=work)
        ids = {item.title: item.id for item in Shelf(Path(work) / space).items()} | {
            "example": "example"
        }
        lab = subprocess.Popen(
            [*command, "lab", "--no-browser", "--port", "0", "--workspace", str(space)],
            stdout=subprocess.PIPE, text=True, cwd=work,
        )  # fmt: skip
        assert lab.stdout is not None
        address = lab.stdout.readline().strip()
        base = address.split("/?token=")[0]
        browser = chromium.Browser(f"{work}/profile")
        try:
            browser.open(address, 1400)
            for name in names:
                path, opened, seconds = SCREENS[name]
                url = f"{base}{path}{'&' if '?' in path else '?'}on={ids[opened]}".replace(
                    " ", "%20"
                )
                for width in (1400, 400):
                    for theme in ("light", "dark"):
                        take(browser, url, width, theme, seconds, folder / name)
        finally:
            browser.close()
            lab.terminate()
            lab.wait()


def take(
    browser: chromium.Browser, url: str, width: int, theme: str, seconds: float, name: Path
) -> None:
    """One page as a picture of its full height."""
    browser.open(url, width, theme == "dark")
    browser.wait("document.querySelector('main.page')?.children.length > 0")
    time.sleep(seconds)
    high = browser.value("document.documentElement.scrollHeight")
    place = name.with_name(f"{name.name}-{width}-{theme}.png")
    browser.screenshot(place, {"x": 0, "y": 0, "width": width, "height": max(high, 600)})
    print(place, f"{width}x{high}", *browser.errors)
    browser.errors.clear()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
