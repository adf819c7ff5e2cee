"""axe-core finds nothing against WCAG 2 A and AA on any screen, in both themes, on a desk and on a phone."""

import json
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.lab.everything import STATES, show, stocked

from attomaton.lab.server import screens

AXE = Path(find_spec("axe_playwright_python").submodule_search_locations[0]) / "axe.min.js"
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]
LOOKS = [(1400, "light"), (390, "dark"), (1400, "dark"), (390, "light")]
# The first state of every screen is looked at in all of them; what others add to it, on a light desk and a dark phone.
FIRST = {urlsplit(state.path).path: state for state in reversed(STATES)}
RUN = f"""axe.run(document, {{runOnly: {json.dumps(TAGS)}, resultTypes: ["violations"], preload: false}}).then(found =>
  found.violations.flatMap(v => v.nodes.map(n => `${{v.id}}: ${{n.html.slice(0, 200)}}: ${{n.failureSummary}}`)))"""
# Colours are looked at once they are there, not on their way.
STILL = """document.head.insertAdjacentHTML("beforeend",
  "<style>*, *::before, *::after { transition: none !important; animation: none !important; }</style>")"""


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    lab, ids = stocked(tmp_path_factory.mktemp("everything"))
    yield lab, ids
    lab.close()
    assert "Traceback" not in lab.log.read_text()


@pytest.fixture(scope="module")
def lab(everything):
    return everything[0]


@pytest.fixture(scope="module")
def ids(everything):
    return everything[1]


def found(tab, looks):
    """What axe finds in the page that is open, by width and theme."""
    tab.value(STILL)
    tab.value(f"{AXE.read_text()}; true")
    faults = {}
    for width, theme in looks:
        tab.resize(width)
        scheme = {"name": "prefers-color-scheme", "value": theme}
        tab.send("Emulation.setEmulatedMedia", media="", features=[scheme])
        tab.wait(
            f"document.body.classList.contains('body--dark') === {json.dumps(theme == 'dark')}"
        )
        faults[width, theme] = tab.promised(RUN)
    return faults


def test_every_screen_is_among_the_states():
    assert {urlsplit(state.path).path for state in STATES} == {s.path for s in screens()}


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.name)
def test_axe_finds_nothing(tab, ids, state):
    show(tab, state, ids)
    looks = LOOKS if state in FIRST.values() else LOOKS[:2]
    assert found(tab, looks) == {look: [] for look in looks}


def test_axe_finds_what_is_put_there(tab, ids):
    show(tab, STATES[0], ids)
    tab.value("document.querySelector('main').insertAdjacentHTML('beforeend', '<button></button>"
              "<p style=\"color: var(--paper); background: var(--fill)\">faint</p>')")  # fmt: skip
    for rules in found(tab, LOOKS).values():
        assert {fault.split(":")[0] for fault in rules} == {"button-name", "color-contrast"}
