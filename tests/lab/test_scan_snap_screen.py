"""The scan-and-snap screen: the numbers of `attomaton dynamics`, a scrubber, two settings, an address that restores."""

import json
import shlex
import threading
import time
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from tests.chromium import eventually
from tests.lab.conftest import COUNTING, enter

from attomaton.errors import UsageError
from attomaton.lab.scan_snap import charts as draw
from attomaton.lab.scan_snap.runs import (
    DATA,
    FEWEST,
    KEPT,
    RUN,
    Asked,
    Result,
    compute,
    found,
    own_classes,
    predicted,
    read_asked,
    results,
    run_settings,
    stored,
)
from attomaton.lab.scan_snap.scrubber import stops
from attomaton.lab.shared import Lab
from attomaton.lab.shelf import Shelf
from attomaton.lab.view import whole
from attomaton.scan_snap.data import sequence_classes
from attomaton.scan_snap.families import family
from attomaton.scan_snap.levels import run_level
from attomaton.scan_snap.theory.phase import scan_slope

QUICK = "/scan-snap?classes=symmetric&levels=reduced"
UNTIL = 1e4  # where the page ends unless told
SCRUBBER = "getElement(+document.querySelector('.scrubber').id.slice(1))"
# Another record at each of 60 frames: what stands on the page after each move, how often each side was painted, how
# often the scrubber took a slow frame for a rest, and what went to the server.
SCRUBBED = """new Promise((done) => {
  const s = SCRUBBER, seen = [], painted = s.sides.map(() => 0), {settle} = s;
  const charts = s.sides.map((side) => getElement(side.bars).chart);
  charts.forEach((chart, k) => chart.on('rendered', () => painted[k]++));
  window.rests = 0;
  s.settle = () => { window.rests++; settle(); };
  const now = (chart) => chart.getOption().series.find((x) => x.id === 'now').data.map((d) => d.value);
  const titles = () => s.sides.map((side) => document.getElementById(`c${side.title}`).innerText);
  const next = () => {
    const at = seen.length ? seen.at(-1).at + 3 : 1;
    if (seen.length < 60) {
      s.go(at);
      seen.push({at, when: document.querySelector('.when').innerText, titles: titles(), bars: charts.map(now)});
      return requestAnimationFrame(next);
    }
    const end = () => done({seen, painted, rests: window.rests, sent: window.sent.length});
    requestAnimationFrame(() => requestAnimationFrame(end));
  };
  window.sent = [];
  requestAnimationFrame(next);
})""".replace("SCRUBBER", SCRUBBER)


@pytest.fixture(autouse=True)
def no_figures(monkeypatch):
    """`attomaton dynamics` draws figures too; only its numbers are compared here."""
    monkeypatch.setattr("attomaton.jobs.dynamics.package_version", lambda name: None)


def reduced(eta_y=1.0, eta_z=1.0, classes="symmetric", **options):
    return run_level("reduced", family(classes), eta_y, eta_z, **{"until": UNTIL, **options})


def six(x):
    """A number as a table shows it."""
    return float(f"{x:.6g}")


# In front of a browser


def see(tab, path=QUICK, **more):
    tab.see(path, **more)
    tab.wait("document.querySelectorAll('.scrub').length === 1 && !document.querySelector('.job')")
    return tab


def figures(tab):
    return tab.value(
        "Object.fromEntries([...document.querySelectorAll('.figures > div')].map(d =>"
        " [d.children[1].innerText, d.children[0].innerText]))"
    )


def table(tab):
    """The rows of predicted and measured, by column."""
    rows = tab.value(
        "(() => { const t = document.querySelector('section[aria-label=\"Predicted and measured\"] table');"
        " const words = (row, cell) => [...row.querySelectorAll(cell)].map(c => c.innerText);"
        " const head = words(t.tHead, 'th');"
        " return [...t.tBodies[0].rows].map(r => Object.fromEntries(words(r, 'td').map((x, i) =>"
        " [head[i].replace(/arrow_upward/, '').trim(), x]))); })()"
    )
    return rows


def option(tab, chart, path, which=0):
    """A part of what ECharts draws; `path` is JavaScript on its option."""
    drawn = (
        f"(() => {{ const e = document.querySelectorAll('section[aria-label=\"{chart}\"] .nicegui-echart')[{which}];"
        " return e && getElement(+e.id.slice(1)).chart?.getOption(); })()"
    )
    tab.wait(f"!!{drawn}?.series?.length")
    return tab.value(f"{drawn}.{path}")


def bars(tab, which=0):
    return option(
        tab, "Attention now", "series.find(s => s.id === 'now').data.map(d => d.value)", which
    )


def marker(tab, chart, grid):
    """Where the marker stands between the ends of the axis."""
    x, width = tab.value(
        f"(() => {{ const m = document.querySelector('section[aria-label=\"{chart}\"] .marker');"
        " const [a, b] = [m, m.parentElement].map(e => e.getBoundingClientRect());"
        " return [a.x + a.width / 2 - b.x, b.width]; })()"
    )
    return (x - grid.left) / (width - grid.left - grid.right)


def address(tab):
    return {k: v[0] for k, v in parse_qs(urlsplit(tab.value("location.href")).query).items()}


def field(label):
    return f'input[aria-label="{label}"]'


def expected_bars(run, n, now):
    tokens = draw.tokens_of(run.classes, n)
    return pytest.approx(run.attention[0, now, n][tokens.at].tolist(), rel=1e-4)


def test_the_first_view_computes_by_itself_what_dynamics_reports(tab, call, tmp_path):
    see(tab, "/scan-snap")
    _, out, _ = call(
        "dynamics", "weak-overlap", "--level", "reduced,limit", "--until", "10000", "--eta-y", "0.5",
        "--eta-z", "3", "-o", tmp_path / "run", "--json",
    )  # fmt: skip
    said = json.loads(out)
    shown, rows = figures(tab), table(tab)
    times = said["predicted"]
    assert shown["scanning until t₀′ = K ln M/η_Y"] == f"{times['scanning_end']:.6g}"
    assert shown["snap, predicted"] == f"{times['transition']:.6g}"
    assert shown["snapping from t₀ = 2 t₀′"] == f"{times['snapping_start']:.6g}"
    assert [r["level"] for r in rows] == ["reduced", "limit"]
    for row in rows:
        level = said["levels"][row["level"]]
        phases = level["phases"][0]
        assert float(row["entropy at the end"]) == six(level["entropy"][0])
        assert float(row["on common tokens"]) == six(level["common_attention"][0])
        assert float(row["snap"]) == six(phases["transition"])
        assert float(row["knee"]) == six(phases["knee"])
        assert float(row["snap / predicted"]) == six(phases["transition"] / times["transition"])
        assert shown[f"snap, {row['level']}"].startswith(f"{phases['transition']:.6g} (")
    held = tab.value("[...document.querySelectorAll('.held')].map(e => e.innerText)")
    for words, asks in zip(held, said["conditions"].values(), strict=True):
        assert words.endswith("does not hold") is not asks["holds"]
    # What opens by itself is within what the theorem asks.
    assert all(asks["holds"] for asks in said["conditions"].values())
    assert not tab.errors


def test_the_copied_command_and_code_give_what_is_shown(tab, call, tmp_path, capsys):
    see(tab, QUICK + "&mixing=memory&eta_z=0.5")
    row = table(tab)[0]

    # What goes to the clipboard, which a browser without a window does not give back.
    tab.value("navigator.clipboard.writeText = async (x) => { window.copied = x; }; 1")

    def copied(what):
        tab.value("window.copied = ''")
        tab.click('[aria-label="Copy as command or Python"]')
        tab.click_text(f"Copy as {what}", ".q-item")
        return tab.wait("window.copied")

    words = shlex.split(copied("command"))
    assert words[:2] == ["attomaton", "dynamics"]
    code, out, _ = call(*words[1:], "-o", tmp_path / "run", "--json")
    assert code == 0
    level = json.loads(out)["levels"]["reduced"]
    assert float(row["entropy at the end"]) == six(level["entropy"][0])
    exec(copied("Python"), {})
    assert f"reduced {level['entropy'][0]}" in capsys.readouterr().out


def test_learning_rates_move_snap_knee_and_entropy_as_the_theory_says(tab):
    see(tab)
    first = table(tab)[0]
    tab.type(field("η_Y"), "4")
    tab.wait("location.search.includes('eta_y=4') && !document.querySelector('.job')")
    tab.wait("document.querySelector('.figure-value').innerText.startsWith('2.3')")
    tab.wait("document.querySelector('.numbers tbody').innerText.includes('η_Y = 4, η_Z = 1')")
    fast = table(tab)[0]
    assert float(fast["snap"]) < float(first["snap"]) / 3.5  # in proportion to 1/η_Y
    assert float(fast["entropy at the end"]) > float(first["entropy at the end"])  # denser
    tab.type(field("η_Y"), "1")
    tab.type(field("η_Z"), "4")
    tab.wait("location.search.includes('eta_z=4')")
    tab.wait("document.querySelector('.numbers tbody').innerText.includes('η_Y = 1, η_Z = 4')")
    far = table(tab)[0]
    t = np.geomspace(1, 1e4, 400)

    def knee(eta_z):
        slope = scan_slope(t, 1.0, eta_z, 3, 22)
        top = slope.argmax()
        return t[top + np.flatnonzero(slope[top:] <= slope[top] / 2)[0]]

    assert knee(4.0) < knee(1.0)
    assert float(far["knee"]) < float(first["knee"])
    assert far["snap"] == first["snap"]  # the decoder's clock does not know η_Z
    assert float(far["entropy at the end"]) < float(first["entropy at the end"])
    assert float(far["B at the end"]) > float(first["B at the end"])


def test_a_slider_sets_the_number_beside_it(tab):
    see(tab)
    tab.drag('[aria-label="η_Z, slider"]', 60, 0)
    # A drag that begins in the middle of the track begins at 1.
    tab.wait("Number(document.querySelector('input[aria-label=\"η_Z\"]').value) > 1.05")
    tab.wait("location.search.includes('eta_z=') && !document.querySelector('.job')")
    cell = "document.querySelector('.numbers tbody td').innerText.split('η_Z = ')[1]?.trim()"
    # The last move of the drag counts: field, address and table agree once it has arrived.
    asked = "new URLSearchParams(location.search).get('eta_z')"
    tab.wait(
        f"{cell} === {asked} && {asked} === document.querySelector('input[aria-label=\"η_Z\"]').value"
    )
    run = reduced(1.0, float(address(tab)["eta_z"]))
    eventually(six(run.entropy[0, -1].mean()), lambda: float(table(tab)[0]["entropy at the end"]))


def test_the_scrubber_moves_bars_and_markers_to_its_time(tab):
    see(tab, QUICK + "&class=1")
    run = reduced()
    eventually(expected_bars(run, 1, -1), bars, tab)
    tab.click('[aria-label="Recorded time"]')
    tab.wait("/[?&]t=\\d+/.test(location.search)")
    now = int(address(tab)["t"])
    assert 80 < now < 120
    eventually(expected_bars(run, 1, now), bars, tab)
    where = np.log(run.t[now]) / np.log(UNTIL)
    curve = marker(tab, "Entropy over distinct tokens (nats)", draw.CURVE)
    assert curve == pytest.approx(where, abs=0.005)  # a pixel or so
    eventually(pytest.approx(now / 200, abs=0.006), marker, tab, "Attention over time", draw.ROWS)
    eventually(f"t = {draw.moment(run.t[now])}", tab.text, ".when")
    # The table of the bars follows as well.
    tab.click('section[aria-label="Attention now"] [aria-label="Show the numbers as a table"]')
    row = tab.wait(
        "document.querySelector('section[aria-label=\"Attention now\"] tbody tr')?.innerText"
    ).split("\t")
    likely = draw.tokens_of(run.classes, 1).at[0]
    assert float(row[2]) == pytest.approx(run.attention[0, now, 1, likely], rel=1e-5)


def test_play_moves_on_and_pause_stays(tab):
    run = reduced()

    def rests():
        """Whether time stands still: what was on its way when it was stopped has arrived."""
        now = address(tab)["t"]
        time.sleep(0.5)
        said = f"t = {draw.moment(run.t[int(now)])}"
        return address(tab)["t"] == now and tab.text(".when") == said

    def played():
        """Where it was stopped; on a slow page perhaps only at the end."""
        see(tab, QUICK + "&t=10")
        tab.click('[aria-label="Play or pause"]')
        tab.wait("parseFloat(document.querySelector('.when').innerText.slice(4)) > 2")
        tab.click('[aria-label="Play or pause"]')
        tab.wait(
            "document.querySelector('[aria-label=\"Play or pause\"]').innerText === 'play_arrow'"
        )
        eventually(True, rests)
        return int(address(tab)["t"])

    eventually(True, lambda: 12 < played() < len(run.t) - 1)
    eventually(expected_bars(run, 0, int(address(tab)["t"])), bars, tab)


@pytest.mark.parametrize(
    "path", [QUICK, QUICK + "&beside_eta_y=4", f"/scan-snap?levels=reduced&classes={DATA}"]
)
def test_every_frame_of_scrubbing_is_drawn_without_the_server(tab, path, tmp_path):
    see(tab, path)
    if DATA in path:
        own = own_classes(Lab(tmp_path), Shelf(tmp_path).find("example"), DATA).classes
        runs = [run_level("reduced", own, 1.0, 1.0, until=UNTIL)]
    else:
        runs = [reduced(), reduced(4.0)][: 1 + ("beside" in path)]
    for i, run in enumerate(runs):
        eventually(expected_bars(run, 0, -1), bars, tab, i)
    tab.value(COUNTING)
    found = tab.promised(SCRUBBED)
    assert [one["at"] for one in found["seen"]] == list(range(1, 181, 3))
    for one in found["seen"]:
        said = f"t = {draw.moment(runs[0].t[one['at']])}"
        assert one["when"] == said
        assert one["titles"] == [f"Attention at {said}"] * len(runs)
        assert one["bars"] == [expected_bars(run, 0, one["at"]) for run in runs]
    assert min(found["painted"]) >= 60
    assert found["sent"] <= found["rests"]  # on a fast machine there is none of either
    # Only then does the server hear of it.
    tab.wait("/[?&]t=178/.test(location.search)")
    told = [one[1]["args"] for one in tab.value("window.sent")]
    assert told[-1] == ["178"]
    assert len(told) == tab.value("window.rests")


def test_the_keys_of_the_slider_move_bars_and_their_open_table(tab):
    see(tab)
    run, likely = reduced(), draw.tokens_of(family("symmetric"), 0).at[0]
    tab.click('section[aria-label="Attention now"] [aria-label="Show the numbers as a table"]')
    row = "document.querySelector('section[aria-label=\"Attention now\"] tbody tr').innerText"
    tab.value("document.querySelector('[aria-label=\"Recorded time\"]').focus()")
    for keys, now in (
        (["ArrowLeft", "ArrowDown"], 198),
        (["Home", "ArrowRight", "ArrowUp"], 2),
        (["End"], 200),
    ):
        for key in keys:
            code = {
                "ArrowLeft": 37,
                "ArrowUp": 38,
                "ArrowRight": 39,
                "ArrowDown": 40,
                "Home": 36,
                "End": 35,
            }[key]
            for kind in ("keyDown", "keyUp"):
                tab.send(
                    "Input.dispatchKeyEvent",
                    type=kind,
                    key=key,
                    code=key,
                    windowsVirtualKeyCode=code,
                )
        eventually(f"t = {draw.moment(run.t[now])}", tab.text, ".when")
        eventually(expected_bars(run, 0, now), bars, tab)
        eventually(str(now), lambda: address(tab)["t"])
        now_there = pytest.approx(run.attention[0, now, 0, likely], rel=1e-5)
        eventually(now_there, lambda: float(tab.value(row).split("\t")[2]))


def test_play_goes_to_the_end_and_from_there_begins_anew_in_steps_where_motion_is_not_wanted(tab):
    see(tab, QUICK + "&t=190")
    calm = {"name": "prefers-reduced-motion", "value": "reduce"}
    tab.send("Emulation.setEmulatedMedia", media="", features=[calm])
    tab.value(f"(() => {{ const s = {SCRUBBER}, {{go}} = s; window.places = [];"
              " s.go = (at) => { go(at); window.places.push(s.at); }; })()")  # fmt: skip
    tab.click('[aria-label="Play or pause"]')
    tab.wait("/[?&]t=200/.test(location.search)")
    eventually("t = 10,000", tab.text, ".when")
    places = tab.value("window.places")
    assert all(isinstance(x, int) for x in places)
    assert places == sorted(places)
    assert places[-1] == 200
    assert tab.value(f"{SCRUBBER}.playing") is False
    tab.click('[aria-label="Play or pause"]')
    tab.wait(f"{SCRUBBER}.playing && {SCRUBBER}.at < 200")


def test_time_goes_on_while_a_further_level_comes_and_begins_anew_with_other_classes(tab):
    see(tab, QUICK + "&shown=reduced&t=10")
    eventually(expected_bars(reduced(), 0, 10), bars, tab)
    # It is playing, so slowly that it stands still: where it is, only the browser knows.
    tab.value(f"(() => {{ const s = {SCRUBBER}; s.speed = 0; s.play(); s.go(60); }})()")
    tab.click_text("sampled", ".q-checkbox")
    tab.wait("document.querySelectorAll('.numbers tbody tr').length === 2")
    eventually(
        ["reduced", "sampled"], option, tab, "Entropy over distinct tokens (nats)", "legend[0].data"
    )
    eventually(expected_bars(reduced(), 0, 60), bars, tab)
    assert tab.value(f"[{SCRUBBER}.playing, {SCRUBBER}.at]") == [True, 60]
    assert address(tab)["t"] == "10"
    tab.click('[aria-label="Play or pause"]')
    eventually("60", lambda: address(tab)["t"])
    tab.value(f"{SCRUBBER}.speed = 1")
    tab.click(".q-select:has([aria-label='classes'])")
    tab.click_text("single-common", ".q-item")
    tab.says("single-common", 'section[aria-label="Predicted and measured"]')
    eventually(expected_bars(reduced(classes="single-common"), 0, -1), bars, tab)
    eventually("t = 10,000", tab.text, ".when")
    assert "t" not in address(tab)


def test_of_very_many_records_some_are_sent_and_the_page_says_so(tab):
    see(tab, "/scan-snap?classes=symmetric&levels=limit&steps=2500&t=1234")
    tab.says("Time moves over 2,000 of 2,501 recorded times.", ".scrub")
    run = run_level("limit", family("symmetric"), 1.0, 1.0, until=UNTIL, steps=2500)
    kept = stops(2501, len(draw.tokens_of(run.classes, 0).at))
    near = min(kept, key=lambda i: abs(i - 1234))
    eventually(f"t = {draw.moment(run.t[near])}", tab.text, ".when")
    eventually(expected_bars(run, 0, near), bars, tab)
    tab.value(f"{SCRUBBER}.go(17)")
    eventually(expected_bars(run, 0, kept[17]), bars, tab)
    eventually(str(kept[17]), lambda: address(tab)["t"])


def test_two_settings_stand_side_by_side_on_equal_scales(tab):
    see(tab)
    tab.click_text("Compare with other learning rates", ".q-toggle")
    tab.wait(
        "document.querySelectorAll('section[aria-label=\"Attention over time\"]').length === 2"
    )
    tab.wait("location.search.includes('beside_eta_y=4') && !document.querySelector('.job')")
    tab.type(field("η_Z beside"), "8")
    tab.wait("document.querySelector('.numbers tbody').innerText.includes('η_Y = 4, η_Z = 8')")
    eventually("8", lambda: address(tab)["beside_eta_z"])
    pair = reduced(), reduced(4.0, 8.0)
    ends = [six(run.entropy[0, -1].mean()) for run in pair]
    eventually(ends, lambda: [float(row["entropy at the end"]) for row in table(tab)])
    for i, run in enumerate(pair):
        eventually(expected_bars(run, 0, -1), bars, tab, i)
    for chart, path in (
        ("Attention over time", "visualMap[0].max"),
        ("Attention now", "xAxis[0].max"),
        ("Entropy over distinct tokens (nats)", "yAxis[0].min"),
        ("Scan progress B", "yAxis[0].max"),
    ):
        assert option(tab, chart, path, 0) == option(tab, chart, path, 1)
    most = max(run.attention[0, :, 0].max() for run in pair)
    eventually(
        pytest.approx(most, rel=1e-4), option, tab, "Attention over time", "visualMap[0].max"
    )
    tab.click('[aria-label="Recorded time"]')
    tab.wait("/[?&]t=\\d+/.test(location.search)")
    now = int(address(tab)["t"])
    eventually(expected_bars(pair[1], 0, now), bars, tab, 1)
    tab.click_text("Compare with other learning rates", ".q-toggle")
    tab.wait(
        "document.querySelectorAll('section[aria-label=\"Attention over time\"]').length === 1"
    )
    assert "beside_eta_y" not in address(tab)


def test_the_address_brings_everything_back(tab):
    see(
        tab,
        "/scan-snap?classes=single-common&levels=reduced&eta_y=0.5&eta_z=0.25&until=500&mixing=weak&class=2&t=40"
        "&beside_eta_y=2&beside_eta_z=3",
    )
    values = {name: tab.value(f"document.querySelector('{field(name)}').value") for name in
              ("η_Y", "η_Z", "η_Y beside", "η_Z beside", "until (limit, reduced)")}  # fmt: skip
    assert list(values.values()) == ["0.5", "0.25", "2", "3", "500"]
    for i, (y, z) in enumerate(((0.5, 0.25), (2.0, 3.0))):
        run = reduced(y, z, "single-common", until=500.0, mixing="weak")
        eventually(expected_bars(run, 2, 40), bars, tab, i)
    eventually(500, option, tab, "Entropy over distinct tokens (nats)", "xAxis[0].max")
    tab.says("Attention of class 2, reduced", 'section[aria-label="Attention over time"]')


def test_more_levels_are_more_lines_on_the_same_axes(tab):
    see(tab)
    names = "legend[0].data"
    chart = "Entropy over distinct tokens (nats)"
    eventually(["reduced"], option, tab, chart, names)
    tab.click_text("sampled", ".q-checkbox")
    tab.wait(
        "location.search.includes('levels=reduced%2Csampled') && !document.querySelector('.job')"
    )
    tab.wait("document.querySelectorAll('.numbers tbody tr').length === 2")
    eventually(["reduced", "sampled"], option, tab, chart, names)
    eventually("dashed", option, tab, chart, "series[0].lineStyle.type")
    eventually(["sampled", "closed form"], option, tab, "Decoder gain γ", names)
    run = run_level("sampled", family("symmetric"), 1.0, 1.0)
    drawn = np.array(option(tab, chart, "series[1].data"))
    assert drawn[:, 0].tolist() == run.t[1:].tolist()
    assert np.allclose(drawn[:, 1], run.entropy[0, 1:].mean(axis=-1), atol=1e-6)
    spans = option(
        tab,
        chart,
        "series.find(s => s.id === 'phases').markArea.data.map(a => [a[0].name, a[0].xAxis])",
    )
    times = predicted(family("symmetric"), (1.0, 1.0))
    assert spans == [["scanning", 1], ["snapping", pytest.approx(times.snapping_start)]]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ("levels=reduced&eta_y=-1", ["symmetric", "--level", "reduced", "--eta-y", "-1"]),
        ("levels=reduced&until=-5", ["symmetric", "--level", "reduced", "--until", "-5"]),
        ("levels=reduced&mixing=wild", ["symmetric", "--level", "reduced", "--mixing", "wild"]),
        ("levels=redused", ["symmetric", "--level", "redused"]),
        ("levels=,", ["symmetric", "--level", ""]),
        ("classes=syn-smal&levels=reduced", ["syn-smal", "--level", "reduced"]),
    ],
)
def test_a_bad_value_gets_the_message_of_the_command_line(tab, call, tmp_path, settings, words):
    path = "/scan-snap?" + (settings if "classes" in settings else f"classes=symmetric&{settings}")
    tab.see(path)
    said = tab.wait("document.querySelector('.problem')?.innerText")
    _, _, err = call("dynamics", *words, "-o", tmp_path / "run")
    assert said.removeprefix("error_outline").strip() == err.strip().split(": ", 1)[1]
    assert not tab.value("!!document.querySelector('.scrub')")


def test_a_bad_value_takes_the_charts_away_and_a_good_one_brings_them_back(tab):
    see(tab)
    tab.type(field("η_Y"), "-2")
    said = tab.wait("document.querySelector('.problem')?.innerText")
    assert "eta_y" in said
    assert "positive" in said
    tab.wait("!document.querySelector('.scrub')")
    tab.type(field("η_Y"), "2")
    tab.wait("!!document.querySelector('.scrub') && !document.querySelector('.problem')")
    eventually(pytest.approx(8.31, rel=1e-2), lambda: float(table(tab)[0]["snap"]))


def test_no_address_reaches_a_file_or_takes_all_memory(tab, tmp_path):
    (tmp_path / "own.toml").write_text(
        'normalise = true\n[[class]]\nquery="q"\nnext="a"\ntokens={b=1}\n'
    )
    tab.see(f"/scan-snap?classes={tmp_path / 'own.toml'}")
    assert "is no family" in tab.wait("document.querySelector('.problem')?.innerText")
    tab.see("/scan-snap?levels=limit&classes=syn-medium-10&steps=900000")
    assert "MB of memory" in tab.wait("document.querySelector('.problem')?.innerText")
    tab.see(QUICK + "&t=999999999999999999999&class=-4&shown=none&beside_eta_y=x&T=1e999&seeds=two")
    tab.wait("document.querySelectorAll('.scrub').length === 1")
    eventually("t = 10,000", tab.text, ".when")


@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_a_phone(tab, dark):
    see(tab, QUICK + "&beside_eta_y=4", width=400, dark=dark)
    tab.wait("document.querySelectorAll('.nicegui-echart canvas').length >= 10")
    assert tab.value("document.documentElement.scrollWidth") <= 400
    assert not tab.errors


def test_a_run_that_is_open_gives_the_settings(start_lab, browser, call, tmp_path):
    run = tmp_path / "run"
    call(
        "dynamics",
        "single-common",
        "--level",
        "reduced",
        "--eta-y",
        "0.5",
        "--until",
        "300",
        "-o",
        run,
    )
    enter(browser, start_lab(run))
    see(browser, "/scan-snap")
    said = json.loads((run / "summary.json").read_text())
    rows = table(browser)
    assert [r["level"] for r in rows] == ["reduced"]
    assert float(rows[0]["entropy at the end"]) == six(said["levels"]["reduced"]["entropy"][0])
    eventually(
        f"{said['predicted']['transition']:.6g}", lambda: figures(browser)["snap, predicted"]
    )


# Without one


def test_a_question_is_read_from_an_address_and_said_as_a_command():
    asked = read_asked(
        {"classes": "symmetric", "levels": "sampled,limit", "eta_y": "0.5", "beside_eta_z": "3", "T": "64",
         "seeds": "2.5", "mixing": "weak", "steps": "50"}
    )  # fmt: skip
    assert asked.levels == ("limit", "sampled")
    assert asked.rates == ((0.5, 1.0), (0.5, 3.0))
    assert asked.of("sampled") == {"steps": 50, "T": 64}
    assert asked.of("limit") == {"until": 1e4, "steps": 50}
    common = "attomaton dynamics symmetric --level limit,sampled --eta-y 0.5 --eta-z"
    more = "--until 10000 --steps 50 --length 64"  # no level here has a mixing
    assert asked.command() == f"{common} 1 {more}\n{common} 3 {more}"


def test_too_large_questions_are_refused_before_they_start():
    with pytest.raises(UsageError, match="tokens"):
        read_asked({"levels": "sampled", "T": "100000000"}).check()
    with pytest.raises(UsageError, match="tokens"):
        read_asked({"levels": "sampled", "steps": "100000000"}).check()
    with pytest.raises(UsageError, match="MB"):
        read_asked({"levels": "limit", "seeds": "100000", "start": "uniform"}).check()
    assert (
        read_asked({"levels": "reduced,limit,sampled", "classes": "syn-medium-10"}).check().K == 20
    )


def test_a_lab_that_may_not_run_says_so(tmp_path):
    with pytest.raises(UsageError, match="read only"):
        compute(Lab(tmp_path, allow_run=False), read_asked({}))


def test_a_result_is_computed_once(tmp_path):
    lab, asked = Lab(tmp_path), read_asked({"classes": "symmetric", "levels": "reduced"})
    assert compute(lab, asked).wait(180.0)
    first = found(lab, asked)[0]["reduced"]
    assert compute(lab, asked).wait(180.0)
    assert found(lab, asked)[0]["reduced"] is first
    two = read_asked({"classes": "symmetric", "levels": "reduced", "beside_eta_y": "7"})
    assert found(lab, two) == [{}, {}]  # half of a level is none
    assert compute(lab, two).wait(180.0)
    assert found(lab, two)[0]["reduced"] is first
    assert found(lab, two)[1]["reduced"].run.eta_y == 7


def test_a_job_that_no_page_waits_for_ends_early(tmp_path, monkeypatch):
    begun, go, asked_for = threading.Event(), threading.Event(), []

    def slow(level, classes, eta_y, eta_z, **options):
        begun.set()
        assert go.wait(180.0)
        asked_for.append(eta_y)
        return reduced(eta_y, eta_z)

    monkeypatch.setattr("attomaton.lab.scan_snap.runs.run_level", slow)
    lab = Lab(tmp_path)
    asked = read_asked({"classes": "symmetric", "levels": "reduced", "beside_eta_y": "7"})
    job, other = compute(lab, asked), compute(lab, asked)
    assert other is job
    assert job.about.pages == 2
    assert begun.wait(180.0)  # else there may be nobody left to begin for
    job.about.pages = 0  # both have gone on to another question
    go.set()
    assert job.wait(180.0)
    assert (job.state, asked_for) == ("done", [1.0])
    assert compute(lab, asked).wait(180.0)
    assert asked_for == [1.0, 7.0]  # taken up where it was


def test_results_are_few_and_the_used_ones_stay():
    run = reduced()
    kept, small = results(), Result(run, [])
    for i in range(KEPT + 5):
        kept.keep(str(i), small)
        assert kept.get("0") is small
    assert kept.get("1") is None
    assert kept.get(str(KEPT + 4)) is small

    class Huge(Result):
        megabytes = 1000.0

    for i in range(8):
        kept.keep(f"huge {i}", Huge(run, []))
    assert sum(kept.get(f"huge {i}") is not None for i in range(8)) == FEWEST


def test_rows_are_distinct_tokens_first_each_from_likely_to_rare():
    classes = sequence_classes(
        [[0.1, 0.5, 0.2, 0.2, 0, 0, 0, 0], [0, 0.9, 0, 0, 0.1, 0, 0, 0]], [5, 5], [6, 7],
        ("a", "the", "b", "common c", "d", "q", "x", "y"),
    )  # fmt: skip
    tokens = draw.tokens_of(classes, 0)
    assert tokens.names == ["b (distinct)", "common c (distinct)", "a (distinct)", "the (common)"]
    assert tokens.kinds == ["distinct"] * 3 + ["common"]


def test_a_heat_map_has_at_most_200_columns_and_its_table_has_all():
    run = reduced()
    tokens = draw.tokens_of(run.classes, 0)
    c = draw.attention_of(Result(run, []), 0, tokens)
    picture = draw.heat(c, run.t, tokens, 1.0)
    options, header, rows = picture.options(), picture.header, picture.rows
    assert len(run.t) == 201
    assert len(options["xAxis"]["data"]) == 200
    assert len(options["series"][0]["data"]) == 200 * len(tokens.names)
    assert len(rows) == 201
    assert rows[-1] == [run.t[-1], *c[-1]]
    assert header == ["time", *tokens.names]
    assert [draw.column_at(i, 201, len(tokens.at)) for i in (0, 200)] == [0.5 / 200, 199.5 / 200]
    wide = reduced(classes="syn-small")
    many = draw.tokens_of(wide.classes, 0)
    options = draw.heat(draw.attention_of(Result(wide, []), 0, many), wide.t, many, 1.0).options()
    assert len(options["series"][0]["data"]) == 2000


def test_runs_of_dynamics_give_settings_and_classes(tmp_path, call):
    own = tmp_path / "own.toml"
    own.write_text(
        'normalise = true\n[[class]]\nquery="q"\nnext="x"\ntokens={a=1, b=1}\n'
        '[[class]]\nquery="q"\nnext="y"\ntokens={a=1, c=1}\n'
    )
    shelf = Shelf(tmp_path / "w")
    for name, words in {"family": ["symmetric"], "own": [own]}.items():
        call("dynamics", *words, "--level", "reduced", "-o", tmp_path / name)
    settings = run_settings(shelf.open(tmp_path / "family"))
    assert settings == {"until": "1000000", "classes": "symmetric", "eta_y": "1", "eta_z": "1",
                        "levels": "reduced"}  # fmt: skip
    item = shelf.open(tmp_path / "own")
    assert run_settings(item) == {**settings, "classes": RUN}
    # What it stored is there without being computed; its classes are its own.
    own.unlink()
    lab = Lab(tmp_path / "w")
    question = replace(read_asked(run_settings(item)), own=own_classes(lab, item, RUN))
    assert found(lab, question) == [{}]
    stored(lab, item, question)
    (side,) = found(lab, question)
    assert side["reduced"].run.classes.K == 2
    assert len(side["reduced"].run.t) == 201
    assert run_settings(shelf.find("example")) == {}


def test_whole_numbers_of_an_address_stay_in_their_range():
    assert [whole(x, 5, 9) for x in ("", "3", "12", "-1", "x", "٣", "9" * 5000)] == [
        5,
        3,
        9,
        5,
        5,
        5,
        9,
    ]


def test_a_question_without_a_level_is_the_command_lines_error():
    with pytest.raises(UsageError, match="level '' is not one of"):
        Asked("symmetric", (), ((1.0, 1.0),), ()).check()
