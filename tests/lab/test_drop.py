"""A file dropped on the first screen ends in a model: guessed, shown, corrected by choosing, fitted, told in words."""

import gzip
import json

import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.chromium import eventually
from tests.lab.test_start import FITTED, figures

from attomaton.corpus.readers import read_windows
from attomaton.corpus.reading import Reading

HEAD = ("Vorgang", "Schritt", "Zeit")
STEPS = [
    "view",
    "search",
    "view",
    "cart",
    "search",
    "view",
    "pay",
    "view",
    "search",
    "cart",
    "view",
    "search",
]
EVENTS = [
    (f"c{c}", STEPS[(c * 5 + i * (c % 3 + 1)) % len(STEPS)], f"2024-03-{c + 1:02d} 10:{i:02d}:00")
    for c in range(9)
    for i in range(4 + c % 4)
]
SHUFFLED = sorted(EVENTS, key=lambda e: e[2][::-1])
LOG = Reading(context=8, sequence="Vorgang", item="Schritt", order="Zeit")


def write(folder, name):
    """One of the formats a file may come in, and how the command line reads it."""
    path = folder / name
    rows = [",".join(r) for r in (HEAD, *SHUFFLED)]
    if name == "log.csv":
        path.write_text("\n".join(rows).replace(",", ";"))
        return path, Reading(**{**LOG.given, "delimiter": ";"})
    if name == "log.tsv":
        path.write_text("\n".join(rows).replace(",", "\t"))
        return path, LOG
    if name == "log.parquet":
        columns = zip(HEAD, zip(*SHUFFLED, strict=True), strict=True)
        parquet.write_table(pa.table({k: list(v) for k, v in columns}), path)
        return path, LOG
    if name == "log.csv.gz":
        path.write_bytes(gzip.compress("\n".join(rows).encode()))
        return path, LOG
    if name == "rows.jsonl":
        path.write_text('{"tokens": ["x", "y", "q"], "next": "x"}\n' * 3)
        return path, Reading()
    path.write_text("tea cake tea soup. Cake tea tea cake soup.\n" * 5)
    return path, Reading(context=8)


def drop(tab, path):
    """Give a file to the field for it, as a drop does."""
    tab.send("DOM.enable")
    root = tab.send("DOM.getDocument")["root"]["nodeId"]
    field = tab.send("DOM.querySelector", nodeId=root, selector="input[type=file]")["nodeId"]
    tab.send("DOM.setFileInputFiles", files=[str(path)], nodeId=field)


def fitted(tab):
    """Take what is guessed, and wait for the sentences."""
    tab.wait(
        "!!document.querySelector('.sequences') && !document.querySelector('.reading .q-btn.disabled')"
    )
    tab.click_text("Fit it")
    tab.wait(FITTED + " && !!document.querySelector('.sentences')")


@pytest.mark.parametrize(
    "name", ["log.csv", "log.tsv", "log.parquet", "log.csv.gz", "rows.jsonl", "words.txt"]
)
def test_a_dropped_file_ends_in_a_model_without_a_reload(tab, lab, tmp_path, name):
    path, how = write(tmp_path, name)
    tab.see("/")
    drop(tab, path)
    if name != "rows.jsonl":
        tab.wait("!!document.querySelector('.sequences')")
        said = tab.text(".reading")
        if name.startswith("log"):
            first = tab.value(
                "[...document.querySelectorAll('.sequences li:first-child .tok')].map(e => e.innerText)"
            )
            assert first == [e[1] for e in EVENTS if e[0] == "c0"]
            assert "Zeit" in said
            assert "guessed: it holds times" in said
        fitted(tab)
    tab.wait(FITTED)
    want = read_windows(path, how).samples()
    eventually(f"{int(want.rows.sum()):,}", lambda: figures(tab)["samples"])
    tab.says("After", ".sentences")
    assert not tab.errors


def test_a_second_drop_is_taken_after_one_that_failed(tab, tmp_path):
    bad, good = tmp_path / "bad.jsonl", tmp_path / "good.jsonl"
    bad.write_text("not json\n")
    good.write_text('{"tokens": ["m", "n", "q"], "next": "m"}\n' * 2)
    tab.see("/")
    drop(tab, bad)
    assert "line 1: broken JSON" in tab.wait("document.querySelector('.yours .problem')?.innerText")
    drop(tab, good)
    tab.wait(FITTED)
    tab.says("good.jsonl", "main")


def test_a_wrong_choice_is_said_without_options_and_the_old_preview_goes(tab, tmp_path):
    path = tmp_path / "own.csv"
    path.write_text(
        "a,b,c\n" + "".join(f"{c},{s},{c}-{i}x\n" for i, (c, s, _) in enumerate(EVENTS))
    )
    tab.see("/")
    drop(tab, path)
    tab.wait("!!document.querySelector('.sequences')")
    tab.click("[aria-label='order (when)']")
    tab.click_text("c — " + ", ".join(f"{EVENTS[i][0]}-{i}x" for i in range(3)), "[role=option]")
    said = tab.wait("document.querySelector('.reading .problem')?.innerText")
    assert "neither numbers nor times" in said
    assert "--" not in said
    assert "“order”" in said
    eventually(0, tab.value, "document.querySelectorAll('.sequences').length")
    assert tab.value("document.querySelector('.reading .q-btn').disabled")
    tab.click("[aria-label='order (when)']")
    tab.click_text("as the rows stand", "[role=option]")
    fitted(tab)


def test_the_same_name_twice_is_told_apart(tab, lab, tmp_path):
    for folder, n in (("a", 2), ("b", 3)):
        (tmp_path / folder).mkdir()
        path = tmp_path / folder / "same.jsonl"
        path.write_text('{"tokens": ["u", "q"], "next": "u"}\n' * n)
        tab.see("/")
        drop(tab, path)
        tab.wait(FITTED)
    names = tab.value("[...document.querySelectorAll('.items a')].map(e => e.innerText)")
    assert {"same.jsonl", "same.jsonl (2)"} <= set(names)
    assert len(names) == len(set(names))


SCREENS = (
    "/",
    "/data",
    "/graph",
    "/automaton",
    "/training",
    "/scan-snap",
    "/lens",
    "/sweep",
    "/claims",
)


def test_an_event_log_of_the_command_line_opens_on_every_screen(start_lab, browser, tmp_path):
    from tests.lab.conftest import enter

    path, _ = write(tmp_path, "log.tsv")
    running = start_lab(
        path, "--sequence", "Vorgang", "--item", "Schritt", "--order", "Zeit", "--context", 8
    )
    enter(browser, running)
    for screen in SCREENS:
        browser.see(screen)
        browser.wait("document.querySelector('main.page').children.length > 0")
        assert not browser.value("!!document.querySelector('.problem')"), browser.text("main")
    assert not browser.errors
    assert "Traceback" not in running.log.read_text()


def test_without_options_it_waits_to_be_looked_at(start_lab, browser, tmp_path):
    from tests.lab.conftest import enter

    path, _ = write(tmp_path, "log.csv")
    running = start_lab(path)
    browser.open(running.address, 1400)
    browser.wait("location.pathname.endsWith('/data') && !!document.querySelector('.sequences')")
    enter(browser, running)
    browser.see("/graph?" + browser.value("location.search.slice(1)"))
    browser.says("was guessed", "main")
    assert not list((running.folder / "workspace").rglob("model.json"))
    browser.click_text("Look at how it is read")
    fitted(browser)
    assert "log.csv" in browser.text(".picker") or "log.csv" in browser.text("main")
    assert json.dumps(figures(browser)["samples"])


def test_a_folder_without_a_model_opens_on_its_own_screen_not_on_an_error(
    start_lab, browser, tmp_path
):
    from attomaton.jobs.sweep import sweep_run

    folder = tmp_path / "grid"
    sweep_run(
        folder, {"eta_z": [0.1, 1.0], "ratio": [1], "until": [100.0]}, ["syn-small"], "reduced"
    )
    running = start_lab(folder)
    browser.open(running.address, 1400)
    browser.wait("location.pathname.endsWith('/sweep') && window.did_handshake === true")
    on = browser.value("location.search")
    for screen in ("/", "/graph"):
        browser.open(running.url(screen) + on, 1400)
        browser.wait("document.querySelector('main')?.innerText.includes('is a sweep')")
        assert not browser.value("!!document.querySelector('.problem')")
    browser.click_text("Open it on its own screen, Sweep")
    browser.wait("location.pathname.endsWith('/sweep')")
