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

# Each screen in a state worth seeing, and how long it may compute.
SCREENS = {
    "start": ("/", 1.0),
    "data": ("/data", 1.5),
    "graph": ("/graph?last=guest&token=guest", 1.5),
    "automaton": ("/automaton?context=floor order bill dishes guest&why=floor", 1.5),
    "training": ("/training", 1.5),
    "scan-snap": ("/scan-snap", 15.0),
    "lens": ("/lens?last=guest", 2.0),
    "sweep": ("/sweep", 1.5),
    "claims": ("/claims", 1.5),
}


def main(folder: Path, names: list[str]) -> None:
    """Start a lab, open a browser, take all pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        command = [sys.executable, "-m", "attomaton", "lab", "--no-browser", "--port", "0"]
        lab = subprocess.Popen(
            [*command, "--workspace", f"{work}/lab"], stdout=subprocess.PIPE, text=True, cwd=work
        )
        assert lab.stdout is not None
        address = lab.stdout.readline().strip()
        base = address.split("/?token=")[0]
        browser = chromium.Browser(f"{work}/profile")
        try:
            browser.open(address, 1400)
            for name in names or SCREENS:
                path, seconds = SCREENS[name]
                for width in (1400, 400):
                    for theme in ("light", "dark"):
                        take(
                            browser,
                            base + path.replace(" ", "%20"),
                            width,
                            theme,
                            seconds,
                            folder / name,
                        )
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
