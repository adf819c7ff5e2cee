"""The start screen and the frame: the example at once, pasted data with the CLI's numbers, errors beside the field."""

import json
import re
from math import inf

import pytest
from tests.chromium import eventually
from tests.lab.conftest import enter

ROWS = "\n".join(
    json.dumps({"tokens": t.split(), "next": n})
    for t, n in (("x y z q", "x"), ("y z q", "y"), ("z y q", "z"), ("x z q", "x"), ("z q", "q"))
)


FITTED = "/on=[0-9a-f]{16}/.test(location.search) && !!document.querySelector('.figures')"


def paste(tab, text):
    tab.see("/")
    tab.type("textarea", text)
    tab.wait(f"document.querySelector('textarea').value.length === {len(text)}")
    tab.click_text("Open what is pasted", ".q-btn")


def figures(tab):
    """The numbers of the first card, by name."""
    return tab.value(
        "Object.fromEntries([...document.querySelectorAll('.figures > div')].map(d =>"
        " [d.children[1].innerText, d.children[0].innerText]))"
    )


def test_the_example_is_on_screen_with_the_numbers_of_fit(tab, tmp_path, call):
    from attomaton.lab.shelf import Shelf

    example = Shelf(tmp_path).find("example").path
    code, out, _ = call("fit", example, "-o", tmp_path / "m", "--json")
    s = json.loads(out)
    tab.see("/")
    shown = figures(tab)
    assert code == 0
    assert shown["samples"] == str(s["samples"])
    assert shown["loss floor L*"] == f"{s['loss_floor']:.10g}"
    assert shown["‖W_svm‖ (hard)"] == f"{s['svm_norm']:.6g}"
    assert shown["set aside"] == str(s["dropped"])
    assert not tab.errors


def test_a_pasted_data_set_gives_the_numbers_of_the_command_line(tab, tmp_path, call):
    paste(tab, ROWS)
    tab.wait(FITTED)
    (tmp_path / "pasted.jsonl").write_text(ROWS)
    code, out, _ = call("fit", tmp_path / "pasted.jsonl", "-o", tmp_path / "m", "--json")
    s, shown = json.loads(out), figures(tab)
    assert code == 0
    assert shown["samples"] == str(s["samples"]) == "5"
    assert shown["loss floor L*"] == f"{s['loss_floor']:.10g}"
    assert shown["‖W_fin‖ (soft)"] == f"{s['finite_norm']:.6g}"
    assert shown["components"] == str(s["components"])


def test_pasted_text_is_read_with_the_settings_of_the_page(tab, tmp_path, call):
    text = "a b a b c a b a c b a a b c\n" * 3
    paste(tab, text)
    tab.wait("!!document.querySelector('.sequences')")
    tab.click_text("Fit it")
    tab.wait(FITTED)
    (tmp_path / "t.txt").write_text(text)
    _, out, _ = call("fit", tmp_path / "t.txt", "--context", "8", "-o", tmp_path / "m", "--json")
    eventually(f"{json.loads(out)['loss_floor']:.10g}", lambda: figures(tab)["loss floor L*"])


def test_bad_rows_get_the_message_of_the_command_line_and_lose_nothing(
    tab, tmp_path, call, monkeypatch
):
    bad = '{"tokens": ["a"], "next": "a"}\n{"tokens": [], "next": "a"}\nnot json'
    paste(tab, bad)
    said = tab.wait("document.querySelector('.problem')?.innerText")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pasted.jsonl").write_text(bad)
    _, _, err = call("fit", "pasted.jsonl", "-o", "m")
    message = err.strip().split(": ", 1)[1]
    assert message in re.sub(r"^error_outline\s*", "", said).strip()
    eventually(bad, tab.value, "document.querySelector('textarea').value")


def test_an_unknown_address_says_so_and_shows_the_example(tab):
    tab.see("/?on=0123456789abcdef")
    tab.says("nothing is open under this address", ".problem")
    tab.says("Café counter", "main")


def test_a_reload_and_a_second_browser_see_the_same_data(tab, other):
    paste(tab, ROWS)
    tab.wait(FITTED)
    shown, address = figures(tab), tab.value("location.pathname + location.search")
    tab.see(address)
    eventually(shown, figures, tab)
    other.see(address)
    eventually(shown, figures, other)
    other.says("pasted.jsonl", "main")


def test_every_screen_opens_without_an_error_a_sideways_scroll_or_a_request_that_leaves(tab, lab):
    for path in (
        "/",
        "/data",
        "/graph",
        "/graph?last=bell",
        "/automaton",
        "/training",
        "/scan-snap",
        "/lens",
        "/lens?last=bell",
        "/sweep",
        "/probe",
        "/claims",
    ):
        tab.see(path, width=400)
        tab.wait("document.querySelector('main.page').children.length > 0")
        for width in (400, 1400):
            tab.resize(width)
            tab.wait(f"innerWidth === {width}")
            assert tab.value("document.documentElement.scrollWidth") <= width, (path, width)
    assert not tab.errors
    assert "Traceback" not in lab.log.read_text()
    asked = {re.sub(r"^(\w+:(//[^/]*)?).*", r"\1", url, flags=re.S) for url in tab.requests}
    assert asked <= {lab.origin, "data:", "blob:" + lab.origin, "blob:"}
    assert len(tab.requests) > 20


def test_light_and_dark_change_the_page_and_stay(tab):
    tab.see("/")
    light = tab.value("getComputedStyle(document.body).backgroundColor")
    tab.click("[aria-label='Light or dark']")
    tab.wait("document.body.classList.contains('body--dark')")
    dark = tab.value("getComputedStyle(document.body).backgroundColor")
    assert dark != light
    # Dark words on light buttons: white ones could not be read.
    tab.wait(
        "getComputedStyle(document.querySelector('main .bg-primary')).color === 'rgb(11, 14, 17)'"
    )
    tab.wait("document.cookie.includes('theme=dark')")
    tab.see("/data")
    tab.wait("document.body.classList.contains('body--dark')")


def test_the_system_setting_is_followed_until_something_is_chosen(tab):
    tab.see("/", dark=True)
    tab.wait("document.body.classList.contains('body--dark')")
    tab.see("/", dark=False)
    tab.wait("!document.body.classList.contains('body--dark')")


def test_the_keyboard_opens_screens_and_help(tab):
    tab.see("/")
    tab.press("2", "Digit2", modifiers=1)
    tab.wait("location.pathname.endsWith('/data')")
    tab.see("/graph")
    tab.press("?", "Slash", modifiers=8)
    tab.wait(
        "(e => e && e.getBoundingClientRect().x < innerWidth - 100)(document.querySelector('.help'))"
    )


def test_copy_as_command_gives_a_command_that_runs(tab, tmp_path, call):
    import shlex

    tab.see("/")
    tab.click("[aria-label='Copy as command or Python']")
    tab.click_text("Copy as command", ".q-item")
    said = tab.wait("document.querySelector('.copied')?.innerText")
    command = shlex.split(said.split(": ", 1)[1].splitlines()[0])
    assert command[:2] == ["attomaton", "fit"]
    command[-1] = str(tmp_path / "m")
    assert call(*command[1:])[0] == 0


@pytest.mark.parametrize("arguments", [("absent.jsonl",), (".",), ("--port", "99999999")])
def test_a_lab_that_cannot_start_says_why(call, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    code, out, err = call("lab", "--no-browser", "--workspace", tmp_path / "w", *arguments)
    assert code in (2, 3)
    assert out == ""
    assert len(err.strip().splitlines()) == 1


def test_a_data_file_given_at_the_start_is_open(start_lab, browser, tmp_path):
    (tmp_path / "mine.jsonl").write_text(ROWS)
    running = start_lab(tmp_path / "mine.jsonl")
    enter(browser, running)
    browser.says("mine.jsonl", "main")
    eventually("5", lambda: figures(browser)["samples"])


def test_a_file_is_uploaded_and_its_name_is_only_a_title(tab, lab, tmp_path):
    path = tmp_path / "..%2f..%2fevil <b>name.jsonl"
    path.write_text(ROWS)
    tab.see("/")
    tab.send("DOM.enable")
    root = tab.send("DOM.getDocument")["root"]["nodeId"]
    field = tab.send("DOM.querySelector", nodeId=root, selector="input[type=file]")["nodeId"]
    tab.send("DOM.setFileInputFiles", files=[str(path)], nodeId=field)
    tab.wait(FITTED)
    eventually("5", lambda: figures(tab)["samples"])
    tab.says(path.name, "main")
    eventually(0, tab.value, "document.querySelectorAll('main b').length")
    kept = [p.name for p in (lab.folder / "workspace" / "data").iterdir()]
    assert kept
    assert all(re.fullmatch(r"[0-9a-f]{16}\.\w+", name) for name in kept)


def test_a_long_fit_shows_progress_stops_and_goes_on(start_lab, browser, tmp_path):
    words = [f"w{i * i % 97}" for i in range(2000)]
    (tmp_path / "long.txt").write_text(" ".join(words))
    running = start_lab(tmp_path / "long.txt", "--context", "24", held=0)
    enter(browser, running)
    browser.wait("!!document.querySelector('.job')")
    eventually(1, browser.value, "document.querySelectorAll('.job').length")  # one fit, one bar
    browser.click_text("Stop")
    browser.wait("document.querySelector('main')?.innerText.includes('was stopped')")
    assert not list((running.folder / "workspace" / "models").glob("[0-9a-f]*"))
    running.hold(inf)
    browser.see("/")
    # A reload does not start it again.
    browser.wait("document.querySelector('main').innerText.includes('was stopped')")
    browser.click_text("Go on")
    browser.wait("!!document.querySelector('.figures')")
    eventually(str(len(set(words))), lambda: figures(browser)["tokens"])


def test_a_lab_that_others_can_reach_shows_but_starts_nothing(start_lab, browser):
    running = start_lab("--host", "0.0.0.0")
    enter(browser, running)
    browser.says("read only; start it with --allow-run", ".problem")
    assert not list((running.folder / "workspace").iterdir())
