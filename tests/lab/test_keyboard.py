"""The keyboard alone reaches every control, sees where it is, and operates each kind of them."""

import json
import re

import pytest
from tests.lab.everything import STATES, show, stocked

# One state of every screen.
NAMES = (
    "start", "data", "data to be read", "graph", "graph as a list", "graph as a matrix", "automaton", "training",
    "scan and snap", "lens on a token", "sweep", "claims", "two models", "probe", "to be deleted",
)  # fmt: skip
WALKED = [state for state in STATES if state.name in NAMES]
CODES = {
    "Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "End": 35, "Home": 36,
    "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40,
}  # fmt: skip
# What a mouse could click, type into or drag; what stands for it where several are one stop of the Tab key (words of a
# text, nodes of a graph, a field for files and its button); and where the focus was.
WALK = """(() => {
  const controls = 'a[href], button, input:not([type=hidden]), select, textarea, th.sortable, .choosable tbody tr,' +
    '[role=button], [role=checkbox], [role=switch], [role=slider], [role=combobox], [role=menuitem], [role=listbox]';
  const seen = (e) => e.checkVisibility({visibilityProperty: true}) && !e.closest('[aria-hidden=true], [inert]')
    && !e.disabled && !e.closest('.disabled, [aria-disabled=true]');
  const stop = (e) => e.closest('.pg') ?? e.closest('[role=listbox]') ?? e.closest('.upload-head') ?? e;
  const shown = (e) => {
    const s = getComputedStyle(e), rect = e.closest('.pg') && e.querySelector('rect');
    return s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 1
      || rect && parseFloat(getComputedStyle(rect).strokeWidth) >= 3
      || !!e.closest('.q-field--focused, .q-slider--focus');
  };
  const told = (e) => e.outerHTML.slice(0, 160);
  const reached = [], hidden = [], graphs = [];
  let around = 0; // how often the page was left
  window.walk = {
    step() {
      const e = document.activeElement;
      if (!e || e === document.body) return ++around > 1;
      if (reached.includes(e)) return true;
      reached.push(e);
      if (e.closest('.pg')) graphs.push(e.closest('.pg'));
      if (!shown(e)) hidden.push(told(e));
      return false;
    },
    ended() {
      const all = [...document.querySelectorAll(controls)].filter(seen);
      const missed = all.filter((e) => !reached.some((r) => r === e || stop(e).contains(r) || e.contains(r)));
      return {all: all.length, stops: reached.length, missed: missed.map(told), hidden,
              twice: graphs.filter((g, i) => graphs.indexOf(g) !== i).map(told)};
    },
  };
})()"""


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    wanted = {name for state in WALKED for name in re.findall(r"{(\w+)}", state.path)}
    lab, ids = stocked(tmp_path_factory.mktemp("everything"), wanted)
    yield lab, ids
    lab.close()
    assert "Traceback" not in lab.log.read_text()


@pytest.fixture(scope="module")
def lab(everything):
    return everything[0]


@pytest.fixture(scope="module")
def ids(everything):
    return everything[1]


def stroke(tab, key):
    """A key, down and up, as a keyboard sends it."""
    text = {"Enter": "\r", " ": " "}.get(key, "")
    more = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": CODES[key]}
    tab.send("Input.dispatchKeyEvent", type="keyDown", **more, **({"text": text} if text else {}))
    tab.send("Input.dispatchKeyEvent", type="keyUp", **more)


def walked(tab):
    """Tab from the beginning of the page until it begins anew."""
    tab.value(WALK)
    tab.value("document.activeElement?.blur()")
    for _ in range(500):
        stroke(tab, "Tab")
        if tab.value("walk.step()"):
            break
    return tab.value("walk.ended()")


@pytest.mark.parametrize("state", WALKED, ids=lambda state: state.name)
def test_tab_reaches_every_control_and_shows_where_it_is(tab, ids, state):
    show(tab, state, ids)
    found = walked(tab)
    assert found["all"] > 10
    assert (found["missed"], found["hidden"], found["twice"]) == ([], [], [])


def test_what_tab_does_not_reach_is_told(tab, ids):
    show(tab, WALKED[0], ids)
    tab.value("document.querySelector('main').insertAdjacentHTML('beforeend', '<button tabindex=\"-1\">x</button>"
              "<button style=\"outline: none !important\">y</button>')")  # fmt: skip
    found = walked(tab)
    assert [len(found[name]) for name in ("missed", "hidden")] == [1, 1]


# Each kind of control, with its keys


def on(tab, selector):
    """Put the focus where Tab was seen to bring it."""
    tab.wait(f"(document.querySelector({json.dumps(selector)})?.focus(), "
             f"document.activeElement?.matches({json.dumps(selector)}))")  # fmt: skip


def test_a_menu_is_opened_walked_and_left(tab):
    tab.see("/data")
    button = "[aria-label='Copy as command or Python']"
    on(tab, button)
    stroke(tab, "Enter")
    tab.wait("document.querySelectorAll('.q-menu [role=menuitem]').length === 4")
    tab.wait("!!document.activeElement.closest('.q-menu')")
    stroke(tab, "Tab")
    tab.wait("document.activeElement.matches('.q-menu [role=menuitem]')")
    stroke(tab, "Escape")
    tab.wait("!document.querySelector('.q-menu')")
    tab.wait(f"document.activeElement.matches({json.dumps(button)})")


def test_help_is_opened_and_left(tab):
    tab.see("/graph")
    on(tab, "[aria-label='What is shown here']")
    stroke(tab, "Enter")
    tab.wait("!document.querySelector('.q-drawer--right.q-layout--prevent-focus')")
    stroke(tab, "Escape")
    tab.wait("!!document.querySelector('.q-drawer--right.q-layout--prevent-focus')")


def test_a_table_is_sorted_and_its_rows_are_chosen(tab, ids):
    tab.see("/runs?on=example")
    tab.wait("document.querySelectorAll('.items-table tbody tr').length > 3")
    on(tab, ".items-table th:nth-child(2)")
    names = (
        "[...document.querySelectorAll('.items-table tbody td:nth-child(2)')].map(e => e.innerText)"
    )
    for order, turned in (("ascending", False), ("descending", True)):
        stroke(tab, "Enter")
        tab.wait(f"document.activeElement.getAttribute('aria-sort') === '{order}'")
        assert tab.value(names) == sorted(tab.value(names), key=str.casefold, reverse=turned)
    on(tab, "tbody .q-checkbox")
    stroke(tab, " ")
    tab.wait("location.search.includes('chosen=')")
    tab.wait("document.activeElement.matches('tbody .q-checkbox[aria-checked=true]')")


def test_the_squares_of_a_heat_map_are_walked_and_chosen(tab, ids):
    tab.see(f"/sweep?on={ids['sweep']}")
    tab.wait("(() => { const e = document.querySelector('main div[role=img]');"
             " return getElement(+e?.id.slice(1))?.chart?.getOption()?.series?.[0]?.data?.length; })()")  # fmt: skip
    on(tab, "main div[role=img]")
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "ArrowRight"):
        stroke(tab, key)
    tab.wait("document.activeElement.getAttribute('aria-label').endsWith('2 of 4')")
    stroke(tab, "Enter")
    tab.wait("/[?&]cell=/.test(location.search)")


def test_a_choice_is_made(tab, ids):
    tab.see("/data?on=example")
    on(tab, ".picker input")
    stroke(tab, "ArrowDown")
    tab.wait("document.querySelectorAll('.q-menu .q-item').length > 1")
    stroke(tab, "End")
    stroke(tab, "Enter")
    tab.wait("!/on=example/.test(location.search)")


def test_a_slider_moves_and_a_switch_turns(tab):
    tab.see("/graph?on=example&last=guest")
    tab.wait("!!document.querySelector('.pg .node')")
    on(tab, ".pg-least .q-slider [tabindex]")
    now = "document.querySelector('.pg-least [role=slider]').getAttribute('aria-valuenow')"
    before = tab.value(now)
    stroke(tab, "ArrowRight")
    tab.wait(f"{now} !== {json.dumps(before)}")
    on(tab, ".q-toggle")
    stroke(tab, " ")
    tab.wait("/condensed=1/.test(location.search)")


def test_a_file_is_chosen_and_a_screen_opened(tab):
    tab.see("/?on=example")
    tab.send("Page.setInterceptFileChooserDialog", enabled=True)
    on(tab, "[aria-label='Choose a file']")
    stroke(tab, "Enter")
    assert tab.event("Page.fileChooserOpened")["mode"] == "selectSingle"
    on(tab, ".nav-link:nth-child(2)")
    stroke(tab, "Enter")
    tab.wait("document.querySelector('.nav-link.here')?.innerText.includes('Data')")
