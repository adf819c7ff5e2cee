"""Pictures of every screen of the lab, light and dark, wide and narrow: python docs/make_screens.py FOLDER [STATE …].

Those the pages show are in docs/images; this writes all of them, to be looked at: the screens in the states that the
tests look at too (tests/lab/everything.py), each from its top to its end.
"""

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests import chromium  # noqa: E402
from tests.lab.conftest import enter  # noqa: E402
from tests.lab.everything import STATES, show, stocked  # noqa: E402

SIZES = ((1400, 900), (390, 844))
MOST = 3000  # pixels of a picture's height


def main(folder: Path, names: list[str]) -> None:
    """Make things to look at, start a lab, open a browser, take all pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        lab, ids = stocked(Path(work))
        browser = chromium.Browser(f"{work}/profile")
        try:
            enter(browser, lab)
            for state in STATES:
                if not names or state.name in names:
                    show(browser, state, ids)
                    for size in SIZES:
                        for theme in ("light", "dark"):
                            take(browser, size, theme, folder / state.name.replace(" ", "-"))
        finally:
            browser.close()
            lab.close()


def take(browser: chromium.Browser, size: tuple[int, int], theme: str, name: Path) -> None:
    """The page that is open as a picture of its full height."""
    width, height = size
    browser.send("Emulation.setDeviceMetricsOverride", width=width, height=height,
                 deviceScaleFactor=1, mobile=width < 600)  # fmt: skip
    scheme = {"name": "prefers-color-scheme", "value": theme}
    browser.send("Emulation.setEmulatedMedia", media="", features=[scheme])
    browser.wait(
        f"document.body.classList.contains('body--dark') === {str(theme == 'dark').lower()}"
    )
    # What follows the window and the theme is drawn in the next frames.
    browser.promised(
        "new Promise(done => setTimeout(() => requestAnimationFrame(() => done()), 700))"
    )
    high = browser.value("document.documentElement.scrollHeight")
    clip = {"x": 0, "y": 0, "width": width, "height": min(max(high, height), MOST)}
    place = name.with_name(f"{name.name}-{width}-{theme}.png")
    browser.screenshot(place, clip)
    print(place, f"{width}x{high}", *browser.errors)
    browser.errors.clear()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
