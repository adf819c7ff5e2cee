"""The sweep screen: heat maps with the numbers of `results.parquet`, cells, and sweeps started in the page."""

import shlex
from math import inf
from types import SimpleNamespace
from urllib.parse import parse_qs, quote, urlsplit

import pyarrow.parquet as pq
import pytest
from tests.chromium import eventually

from attomaton.disk.storage import new_folder
from attomaton.errors import UsageError
from attomaton.folders.sweep import Grid, cell_means, grid_words, parse_grid, read_sweep
from attomaton.jobs.sweep import sweep_run
from attomaton.lab.shared import Lab
from attomaton.lab.shelf import folder_id
from attomaton.lab.sweep.form import Form
from attomaton.lab.sweep.map import cells_on, drawn, read_axes, settings_of
from attomaton.lab.sweep.runs import launch, sweep_code

# T = 1 fails and eta_z = 1e30 diverges, so that every kind of cell is there.
GRID = {"eta_z": [0.5, 2.0, 1e30], "ratio": [1, 4], "T": [1, 16], "steps": [5], "batch": [8], "seeds": [2]}  # fmt: skip
CLASSES = ["syn-small", "syn-medium-1"]


@pytest.fixture(scope="module")
def lab(start_lab):
    """A lab whose work can be held."""
    return start_lab(held=inf)


@pytest.fixture(scope="module")
def done(lab):
    """A finished sweep in the workspace."""
    folder = lab.folder / "workspace" / "runs" / "mixed"
    sweep_run(folder, GRID, CLASSES, "sampled")
    return folder


def squares(tab):
    """The squares of the map, as ECharts holds them."""
    return tab.wait(
        "(() => { const e = document.querySelector('main div[role=img]'); if (!e) return null;"
        " const s = getElement(+e.id.slice(1))?.chart?.getOption()?.series?.[0];"
        " return s?.data?.length ? s.data : null; })()"
    )


def click_square(tab, column, row):
    """A real click on a square."""
    at = tab.wait(
        "(() => { const e = document.querySelector('main div[role=img]');"
        " e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect();"
        f" const p = getElement(+e.id.slice(1)).chart.convertToPixel({{seriesIndex: 0}}, [{column}, {row}]);"
        " return {x: r.x + p[0], y: r.y + p[1]}; })()"
    )
    tab.mouse("moved", at["x"], at["y"])
    for kind in ("pressed", "released"):
        tab.mouse(kind, at["x"], at["y"], button="left", clickCount=1)


def mean_of(folder, name, **settings):
    """A mean over seeds, straight from the table on disk."""
    rows = pq.read_table(folder / "results.parquet").to_pylist()
    values = [
        r[name]
        for r in rows
        if r["status"] == "finished" and all(r[k] == v for k, v in settings.items())
    ]
    return sum(values) / len(values) if values else None


def test_the_map_has_the_numbers_of_the_table(tab, done):
    tab.see(
        f"/sweep?on={folder_id(done)}&x=eta_z&y=ratio&value=loss&at_T=16&at_classes=syn-medium-1&cell=1"
    )
    shown = {tuple(s["value"][:2]): s for s in squares(tab)}
    assert len(shown) == 6
    for i, eta_z in enumerate(GRID["eta_z"]):
        for j, ratio in enumerate(GRID["ratio"]):
            wanted = mean_of(done, "loss", eta_z=eta_z, ratio=ratio, T=16, classes="syn-medium-1")
            if wanted is None:
                assert shown[i, j]["name"].endswith("diverged")
                assert "decal" in shown[i, j]["itemStyle"]
            else:
                assert shown[i, j]["value"][2] == pytest.approx(wanted, rel=1e-12)
                assert f"{wanted:.6g} ± " in shown[i, j]["name"]
    # The address chose the cell too.
    eventually("Cell 1", tab.text, ".cell .card-title")
    assert not tab.errors


def test_a_click_opens_a_cell_and_the_way_to_its_dynamics(tab, done):
    tab.see(f"/sweep?on={folder_id(done)}&x=eta_z&y=ratio&at_T=16")
    squares(tab)
    click_square(tab, 1, 0)
    tab.wait("document.querySelector('.cell .card-title')?.innerText.startsWith('Cell ')")
    number = int(tab.text(".cell .card-title").split()[1])
    cell = read_sweep(done).cells[number]
    assert (cell["eta_z"], cell["ratio"], cell["T"]) == (2.0, 1, 16)
    tab.wait(f"location.search.includes('cell={number}')")
    rows = tab.value(
        "[...document.querySelectorAll('.cell tbody tr')].map(r => [...r.cells].map(c => c.innerText))"
    )
    table = [r for r in pq.read_table(done / "results.parquet").to_pylist() if r["cell"] == number]
    assert len(rows) == len(table) == 2
    for row, wanted in zip(rows, table, strict=True):
        assert float(row[1]) == pytest.approx(wanted["entropy"], rel=1e-5)
        assert row[-1] == wanted["status"]
    link = urlsplit(tab.value("document.querySelector('.open-cell').href"))
    query = {k: v[0] for k, v in parse_qs(link.query).items()}
    assert link.path.endswith("/scan-snap")
    assert {k: query[k] for k in ("classes", "eta_y", "eta_z", "levels", "T")} == {
        "classes": "syn-small", "eta_y": "2.0", "eta_z": "2.0", "levels": "sampled", "T": "16",
    }  # fmt: skip
    # A failed cell says why; a row of the list opens it, and the map goes where it is.
    tab.value("document.querySelector('.failures tbody tr').click()")
    tab.wait("!!document.querySelector('.cell .problem')")
    tab.says("T=1: at least 2 is needed", ".cell .problem")
    tab.wait("location.search.includes('at_T=1') && !location.search.includes('at_T=16')")
    eventually({"failed"}, lambda: {s["name"].split(", ")[-1] for s in squares(tab)})
    assert not tab.errors


def choose(tab, field, option):
    tab.click(f".setting-{field} .q-field__control")
    tab.wait("!!document.querySelector('.q-menu .q-item')")
    tab.click_text(option, ".q-menu .q-item")


def test_controls_change_the_map_and_the_address_brings_it_back(tab, done):
    tab.see(f"/sweep?on={folder_id(done)}&at_T=16")
    before = squares(tab)
    choose(tab, "value", "norm of Y")
    tab.wait("location.search.includes('value=y_norm')")
    tab.wait("document.querySelector('main').innerText.includes('Norm of y by eta_z')")
    # x takes what y had: they change places.
    choose(tab, "x", "ratio")
    tab.wait("/y=eta_z/.test(location.search) && /x=ratio/.test(location.search)")
    after = {tuple(s["value"][:2]): s["value"][2] for s in squares(tab)}
    wanted = mean_of(done, "y_norm", eta_z=2.0, ratio=4, T=16, classes="syn-small")
    assert after[1, 1] == pytest.approx(wanted, rel=1e-12)
    assert after != {tuple(s["value"][:2]): s["value"][2] for s in before}
    tab.see("/sweep" + tab.value("location.search"))
    eventually(after, lambda: {tuple(s["value"][:2]): s["value"][2] for s in squares(tab)})
    # What makes no sense in an address becomes the usual.
    tab.see(f"/sweep?on={folder_id(done)}&x=../x&y=%00&value=<b>&cell=-3&at_T=99")
    assert squares(tab)
    eventually("Choose a cell", tab.text, ".cell .card-title")
    assert not tab.errors


def asked(tab, grid, **more):
    settings = "".join(f"&{k}={quote(v)}" for k, v in more.items())
    tab.see(f"/sweep?on=example&grid={quote(grid)}{settings}")
    tab.wait("!!document.querySelector('.grid-lines')")


def test_a_sweep_started_in_the_page_is_stopped_and_goes_on_to_the_numbers_of_the_library(
    lab, tab, tmp_path
):
    # Four pieces of one program, stopped after the first.
    rates = ",".join(str(1 + i / 32) for i in range(32))
    grid = f"eta_z={rates}\neta_y=1,2 T=16\nsteps=20\nbatch=16"
    asked(tab, grid, level="sampled", families="syn-small")
    lab.hold(1)
    tab.click_text("Start the sweep", "main .q-btn")
    tab.wait("!location.search.includes('on=example')")
    tab.wait("document.querySelector('.job')?.innerText.includes('1 of 4 pieces')")
    id = parse_qs(urlsplit(tab.value("location.href")).query)["on"][0]
    tab.click_text("Stop", "main .q-btn")
    tab.wait(
        "!document.querySelector('.job') && document.querySelector('.status')?.innerText !== 'running'"
    )
    lab.hold(inf)
    (folder,) = [p for p in (lab.folder / "workspace" / "runs").iterdir() if folder_id(p) == id]
    tab.wait("document.querySelector('.status').innerText === 'incomplete'")
    missing = read_sweep(folder).missing
    assert len(missing) == 48
    assert not (folder / "results.parquet").exists()
    tab.says(f"{64 - len(missing)} of 64 cells done", "main")
    tab.click_text("Resume", "main .q-btn")
    tab.wait("document.querySelector('.status')?.innerText === 'complete'")
    tab.wait("document.querySelector('main').innerText.includes('64 of 64 cells done')")
    sweep_run(tmp_path / "calm", parse_grid(grid.split()), ["syn-small"], "sampled")
    calm = (tmp_path / "calm" / "results.parquet").read_bytes()
    assert (folder / "results.parquet").read_bytes() == calm
    shown = {tuple(s["value"][:2]): s["value"][2] for s in squares(tab)}
    assert len(shown) == 64
    assert shown[1, 0] == pytest.approx(
        mean_of(folder, "entropy", eta_z=1 + 1 / 32, eta_y=1), rel=1e-12
    )
    assert not tab.errors


REFUSED = [
    "eta_z=1",
    "eta_z=1 ratio=1 stpes=4",
    "eta_z=1 eta_z=2",
    "eta_z",
    "eta_z=a ratio=1",
    "eta_z=1 ratio=1 T=1.5",
]


def refusal(grid, families=("syn-small",)):
    """What a form with this grid is told, without its page."""
    fields = {"families": list(families), "grid": grid, "level": "sampled"}
    with pytest.raises(UsageError) as said:
        Form.asked(SimpleNamespace(**{k: SimpleNamespace(value=v) for k, v in fields.items()}))
    return str(said.value)


@pytest.mark.parametrize("grid", REFUSED)
def test_grids_that_make_no_sense_are_refused_as_on_the_command_line(call, tmp_path, grid):
    code, _, said = call("sweep", "syn-small", *grid.split(), "-o", tmp_path / "s")
    assert code == 2
    assert refusal(grid) == said.split(": ", 1)[1].strip()


def test_grids_too_large_for_a_page_are_refused():
    many = (
        "eta_z=" + ",".join(map(str, range(1, 50))) + " ratio=" + ",".join(map(str, range(1, 50)))
    )
    for grid, says in (
        (many, "2,401 cells are too many"),
        ("eta_z=1 ratio=1 seeds=1000000000", "MB"),
        ("eta_z=1 ratio=1 T=1000000000", "tokens"),
    ):
        assert says in refusal(grid)


def test_a_refusal_stands_in_the_page_and_no_address_names_a_file(tab):
    asked(tab, REFUSED[0], level="sampled", families="../../secret.toml")
    tab.click_text("Start the sweep", "main .q-btn")
    tab.wait("!!document.querySelector('.problem')")
    eventually(refusal(REFUSED[0]), tab.text, ".problem .whitespace-pre-wrap")
    assert "secret" not in tab.text("main")
    assert not tab.errors


def test_the_page_fits_its_window(tab, done):
    for width, dark in ((400, True), (1400, False)):
        tab.see(f"/sweep?on={folder_id(done)}&cell=3", width, dark)
        squares(tab)
        tab.wait("!!document.querySelector('.cell table')")
        assert tab.value("document.documentElement.scrollWidth") <= width
        nameless = tab.value(
            "[...document.querySelectorAll('main input, main button, main div[role=img]')].filter(e =>"
            " e.offsetParent && !(e.getAttribute('aria-label') || e.innerText.trim() ||"
            " e.closest('label')?.innerText.trim())).length"
        )
        assert nameless == 0


# Without a browser


def test_axes_are_what_varies_and_the_rest_is_held(done):
    sweep = read_sweep(done)
    assert list(settings_of(sweep)) == ["classes", "eta_z", "ratio", "T"]
    axes = read_axes(sweep, {})
    assert (axes.x, axes.y, axes.value) == ("eta_z", "ratio", "entropy")
    assert axes.held == {"classes": "syn-small", "T": 1}
    assert read_axes(sweep, {"x": "T", "y": "T"}).y == "eta_z"
    for asked in ({}, {"x": "T", "y": "classes", "at_ratio": "4"}):
        axes = read_axes(sweep, asked)
        for (column, row), number in cells_on(sweep, axes).items():
            cell = sweep.cells[number]
            assert cell[axes.x] == settings_of(sweep)[axes.x][column]
            assert cell[axes.y] == settings_of(sweep)[axes.y][row]
            assert all(cell[k] == v for k, v in axes.held.items())


def test_one_setting_or_none_that_varies_is_one_row(tmp_path):
    grid = {"eta_z": [1, 2, 3], "ratio": [1], "until": [100.0]}
    sweep_run(tmp_path / "row", grid, ["syn-small"], "reduced")
    sweep = read_sweep(tmp_path / "row")
    axes = read_axes(sweep, {"y": "eta_z"})
    assert (axes.x, axes.y, axes.held) == ("eta_z", "", {})
    picture = drawn(sweep, axes, chosen=1)
    options, header, rows = picture.options(), picture.header, picture.rows
    means = cell_means(sweep, "entropy")
    assert [(r[0], r[2]) for r in rows] == [(i, means[i].mean) for i in range(3)]
    assert header[:3] == ["cell", "eta_z", "entropy"]
    # The chosen square is drawn last, above its neighbours.
    assert [d["value"][0] for d in options["series"][0]["data"]] == [0, 2, 1]
    assert picture.note == "Mean over seeds; 3 cells."
    one = dict(grid, eta_z=[1])
    sweep_run(tmp_path / "one", one, ["syn-small"], "reduced")
    options = drawn(read_sweep(tmp_path / "one"), axes, None).options()
    assert (len(options["series"][0]["data"]), options["visualMap"]["show"]) == (1, False)


def test_the_code_gives_the_same_numbers(done, tmp_path, call, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    sweep = read_sweep(done)
    grid = {"eta_z": [1, 2], "ratio": [1], "until": [100.0]}
    for out in ("by_cli", "by_python"):
        cli, python = sweep_code(tmp_path / out, Grid(grid, ["syn-small"], "reduced"), "loss")
        if out == "by_cli":
            assert call(*shlex.split(cli)[1:])[0] == 0
        else:
            exec(python, {})
            assert str(cell_means(read_sweep(tmp_path / out), "loss")) in capsys.readouterr().out
    one, other = (tmp_path / out / "results.parquet" for out in ("by_cli", "by_python"))
    assert pq.read_table(one).to_pylist() == pq.read_table(other).to_pylist()
    assert " ".join(grid_words(sweep.grid)) in sweep_code(done, sweep)[0]


def test_a_lab_that_is_read_only_starts_nothing(tmp_path):
    lab = Lab(tmp_path / "w", allow_run=False)
    with pytest.raises(UsageError, match="read only"):
        launch(lab, Grid({"eta_z": [1], "ratio": [1]}, ["syn-small"], "reduced"))
    assert not (tmp_path / "w" / "runs").exists()


def test_a_folder_that_is_broken_is_said_in_the_page(tab, lab, done):
    broken = done.parent / "torn"
    with new_folder(broken, "sweep") as work:
        (work / "sweep.json").write_text("{}")
    tab.see(f"/sweep?on={folder_id(broken)}")
    tab.wait("document.querySelector('.problem')?.innerText.includes('not of its kind')")
    assert not tab.errors
