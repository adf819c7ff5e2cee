"""The training screen: runs started, stopped and resumed in a page, against `train_run` itself."""

import json
import shlex
import shutil
from dataclasses import asdict
from math import inf
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from tests.chromium import eventually
from tests.lab.conftest import enter

from attomaton.disk.formats import read_json
from attomaton.errors import DataError, UsageError
from attomaton.folders.run import read_metrics
from attomaton.jobs import demo
from attomaton.jobs.fit import fit_run
from attomaton.jobs.train import train_run
from attomaton.lab.shared import Lab
from attomaton.lab.shelf import Shelf, folder_id
from attomaton.lab.training.curves import SEEDS, Shown, drawn
from attomaton.lab.training.form import OF_LARGE, USUAL, Form
from attomaton.lab.training.runs import (
    BROKEN,
    Asked,
    all_runs,
    asked_for,
    find_run,
    resume,
    start,
)
from attomaton.mechanics.experiment.arguments import Settings

STEPS = 50_000  # in about fifty chunks
LONG = f"/training?on=example&steps={STEPS}&lr=5&seeds=2&init=uniform"
CHARTS = {
    "loss_gap": "Loss above its floor, L − L*",
    "cosine_svm": "Cosine of W with W_svm",
    "margin": "Margin, of the best in a norm",
    "distance_fin": "Distance to W_fin inside S_fin",
    "mass_retrieved": "Attention on the retrieved component",
    "norm": "Norm of W",
}


@pytest.fixture(scope="module")
def lab(start_lab):
    """A lab whose work can be held."""
    return start_lab(held=inf)


def ready(tab, path):
    """The page, once its list of runs has had time to be read."""
    tab.see(path)
    tab.wait("!!document.querySelector('[aria-label=\"A new run\"] .q-btn')")
    return tab


def drawn_in(tab, name):
    """The lines of one chart, as ECharts holds them."""
    return tab.value(
        f"(() => {{ const c = [...document.querySelectorAll('section.card')].find(s =>"
        f" s.querySelector('.card-title')?.innerText === {json.dumps(CHARTS[name])});"
        " const e = c?.querySelector('div[role=img]');"
        " return e ? getElement(+e.id.slice(1)).chart?.getOption()?.series : null; })()"
    )


def points(line):
    return np.array([[x, np.nan if y is None else y] for x, y in line["data"]], float)


def run_of(tab):
    return parse_qs(urlsplit(tab.value("location.href")).query).get("run", [""])[0]


def finish(tab):
    tab.wait("!document.querySelector('.job') && !!document.querySelector('.results')")


def folder_of(lab, id):
    (found,) = [p for p in (lab.folder / "workspace" / "runs").iterdir() if folder_id(p) == id]
    return found


def test_a_run_stopped_and_resumed_in_the_page_equals_one_never_disturbed(
    lab, tab, other, tmp_path
):
    ready(tab, LONG)
    lab.hold(0)
    tab.click_text("Start", "main .q-btn")
    tab.wait("document.querySelector('.job')?.innerText.includes('compiling')")
    tab.wait("location.search.includes('run=')")
    id = run_of(tab)
    # Curves grow while the run goes on.
    lab.hold(STEPS // 3)
    tab.wait("document.querySelector('.job')?.innerText.includes('step ')")
    first = len(tab.wait("(" + js_lines("loss_gap") + ")"))
    assert first == 2
    # A reload finds the job again, with all its curves.
    ready(tab, "/training?on=example&run=" + id)
    tab.wait("!!document.querySelector('.job') && !!" + js_lines("norm"))
    tab.wait("document.querySelector('.status').innerText === 'running'")
    early = points(drawn_in(tab, "loss_gap")[0])
    assert early[0, 0] == 1
    second_browser_stops(tab, other)
    lab.hold(inf)
    tab.wait("document.querySelector('.status').innerText === 'interrupted'")
    run = folder_of(lab, id)
    stopped = read_metrics(run)
    assert STEPS // 3 <= stopped["steps"][-1] < STEPS
    assert stopped["loss_gap"][0, 1 : len(early) + 1].tolist() == early[:, 1].tolist()
    tab.wait(f"({js_lines('loss_gap')})?.[0].at(-1)[0] === {stopped['steps'][-1]}")
    # Resumed, it ends as `train_run` does with the same options.
    tab.click_text("Resume", "main .q-btn")
    tab.wait("document.querySelector('.status').innerText === 'finished'")
    finish(tab)
    eventually(id, run_of, tab)
    options = {"init": "uniform", "optimizer": "gd", "lr": 5.0, "steps": STEPS, "every": "log"}
    model = lab.folder / "workspace" / "models" / "example"
    calm = train_run(model, tmp_path / "calm", seeds=2, **options)
    assert (run / "metrics.parquet").read_bytes() == (
        tmp_path / "calm" / "metrics.parquet"
    ).read_bytes()
    tab.wait(f"({js_lines('loss_gap')})?.[0].at(-1)[0] === {STEPS}")
    # What is shown is what is on disk, and what theory says of it.
    records = read_metrics(run)
    for name in CHARTS:
        lines, own = drawn_in(tab, name), "margin_frobenius" if name == "margin" else name
        for seed in range(2):
            assert points(lines[seed])[:, 0].tolist() == records["steps"][1:].tolist()
            assert points(lines[seed])[:, 1].tolist() == records[own][seed, 1:].tolist()
    theory = drawn_in(tab, "norm")[2]
    assert theory["name"].startswith("theory")
    (x0, y0), (x1, y1) = theory["data"][0], theory["data"][-1]
    assert (y1 - y0) / np.log(x1 / x0) == pytest.approx(calm["svm_norm"])
    eventually(1, lambda: drawn_in(tab, "cosine_svm")[0]["markLine"]["data"][0]["yAxis"])
    rows = tab.value(
        "[...document.querySelectorAll('.results tbody tr')].map(r => [...r.cells].map(c => c.innerText))"
    )
    for row, final in zip(rows, calm["final"], strict=True):
        assert [float(x) for x in row[:-1]] == pytest.approx(list(final.values()), rel=1e-5)
    # The command recorded is that of `attomaton train`, not of the lab.
    words = shlex.split((run / "command.txt").read_text())
    assert words[:5] == ["attomaton", "train", str(model.resolve()), "-o", str(run.resolve())]
    assert "--lr" in words
    assert not tab.errors


def second_browser_stops(tab, other):
    """Another browser sees the same training, may not start one beside it, and can stop it."""
    ready(other, "/training?on=example")
    other.wait("!!document.querySelector('.job') && !!" + js_lines("loss_gap"))
    refused = "document.querySelector('.problem')?.innerText.includes('is running already')"
    other.until(refused, lambda: other.click_text("Start", "main .q-btn"))
    other.click_text("Stop", "main .q-btn")
    for page in (other, tab):
        finish(page)
        page.wait("document.querySelector('.status').innerText === 'interrupted'")
    assert drawn_in(other, "norm")[0]["data"] == drawn_in(tab, "norm")[0]["data"]
    assert not other.errors


def js_lines(name):
    """The lines of a chart, once there are points in them."""
    return (
        f"(() => {{ const c = [...document.querySelectorAll('section.card')].find(s =>"
        f" s.querySelector('.card-title')?.innerText === {json.dumps(CHARTS[name])});"
        " const e = c?.querySelector('div[role=img]'); if (!e) return null;"
        " const s = getElement(+e.id.slice(1))?.chart?.getOption()?.series;"
        " return s?.[0]?.data?.length > 1 ? s.map(x => x.data) : null; })()"
    )


@pytest.fixture(scope="module")
def two_runs(lab, tmp_path_factory):
    """Two short runs in the workspace, as the command line would leave them there."""
    model = lab.folder / "workspace" / "models" / "example"
    fit_run(Shelf(lab.folder).find("example").path, model)
    runs = []
    for name, options in (("short-gd", {"optimizer": "gd"}), ("short-adam", {"optimizer": "adam"})):
        out = lab.folder / "workspace" / "runs" / name
        train_run(model, out, init="zeros", steps=50, every=1, head="identity", loss="log",
                  batch_size=None, seeds=1, seed=0, lr=None, **options)  # fmt: skip
        runs.append(out)
    return runs


def test_a_run_of_the_list_is_chosen_compared_and_brought_back_by_its_address(tab, two_runs):
    gd, adam = two_runs
    ready(tab, f"/training?on=example&run={folder_id(gd)}")
    tab.wait("!!document.querySelector('.runs tbody tr')")
    tab.wait("document.querySelector('.status')?.innerText === 'finished'")
    tab.wait(js_lines("norm"))
    last = float(read_metrics(gd)["norm"][0, -1])
    tab.wait(f"({js_lines('norm')})?.[0].at(-1)[1] === {last!r}")
    assert (
        points(drawn_in(tab, "norm")[0])[:, 1].tolist() == read_metrics(gd)["norm"][0, 1:].tolist()
    )
    tab.value(
        "[...document.querySelectorAll('.runs tbody tr')].find(r => r.innerText.includes('short-adam')).click()"
    )
    tab.wait(f"location.search.includes('run={folder_id(adam)}')")
    tab.wait("document.querySelector('main').innerText.includes('optimizer adam')")
    # Theory gives no rate for Adam, so no slope is drawn.
    last = float(read_metrics(adam)["norm"][0, -1])
    tab.wait(f"({js_lines('norm')})?.[0].at(-1)[1] === {last!r}")
    eventually(["seed 0"], lambda: [s["name"] for s in drawn_in(tab, "norm")])
    ready(tab, f"/training?on=example&run={folder_id(gd)}&beside={folder_id(adam)}&axis=linear")
    tab.wait(f"({js_lines('loss_gap')})?.length === 2")
    one, other = drawn_in(tab, "loss_gap")
    assert [one["name"], other["name"]] == ["A: seed 0", "B: seed 0"]
    assert [one["lineStyle"]["type"], other["lineStyle"]["type"]] == ["solid", "dashed"]
    # On a linear axis step 0 has its place.
    assert points(other)[:, 1].tolist() == read_metrics(adam)["loss_gap"][0].tolist()
    tab.click_text("of W outside S_fin", "main .q-btn")
    tab.wait("location.search.includes('cosine=outside')")
    outside = read_metrics(gd)["cosine_outside"][0]
    CHARTS["cosine_outside"] = "Cosine of W outside S_fin with W_svm"
    tab.wait(js_lines("cosine_outside"))
    shown = points(drawn_in(tab, "cosine_outside")[0])[:, 1]
    assert np.array_equal(shown, outside, equal_nan=True)
    assert not tab.errors


REFUSED = {
    "lr=-1": ["--lr", "-1"],
    "steps=0": ["--steps", "0"],
    "batch_size=4": ["--batch-size", "4"],
    "head=tied": ["--head", "tied"],
    "optimizer=polyak&loss=squared": ["--optimizer", "polyak", "--loss", "squared"],
}


def asked(settings):
    """What a form of these settings asks for, without its page."""
    values = USUAL | dict(word.split("=") for word in settings.split("&"))
    return Form.asked(
        SimpleNamespace(fields={k: SimpleNamespace(value=v) for k, v in values.items()})
    )


@pytest.mark.parametrize("settings", REFUSED)
def test_what_makes_no_sense_is_refused_as_on_the_command_line(settings, call, tmp_path):
    example = Shelf(tmp_path).find("example").path
    code, _, said = call("train", example, "-o", tmp_path / "run", *REFUSED[settings])
    assert code == 2
    with pytest.raises(UsageError) as refusal:
        asked(settings)
    assert str(refusal.value) == said.split(": ", 1)[1].strip()


@pytest.mark.parametrize("settings", ["lr=abc", "steps=many", "seeds=1000", "steps=1e9", "seed=x"])
def test_what_no_command_would_be_given_is_refused_by_its_name(settings):
    with pytest.raises(UsageError, match=f"^{settings}: "):
        asked(settings)


def test_a_refusal_stands_in_the_page_and_nothing_is_started(tab, two_runs):
    for settings in ("lr=-1", "steps=many"):
        ready(tab, f"/training?on=example&{settings}")
        tab.click_text("Start", "main .q-btn")
        tab.wait("!!document.querySelector('[aria-label=\"A new run\"] .problem')")
        with pytest.raises(UsageError) as refusal:
            asked(settings)
        eventually(str(refusal.value), tab.text, ".problem .whitespace-pre-wrap")
        assert not tab.value("!!document.querySelector('.job')")


def test_an_address_that_names_no_run_is_answered_with_a_sentence(tab):
    for asked in ("../../etc/passwd", "example", "0123456789abcdef", "%00", "<b>"):
        ready(tab, f"/training?on=example&run={asked}&beside={asked}&axis=oblique&every=3")
        tab.wait("!!document.querySelector('.problem')")
        assert "Traceback" not in tab.text()
    assert not tab.errors


def test_settings_typed_in_are_in_the_address_and_come_back(tab):
    ready(tab, "/training?on=example")
    tab.type(".field-steps input", "77")
    tab.wait("location.search.includes('steps=77')")
    tab.see("/training" + tab.value("location.search"))
    tab.wait("document.querySelector('.field-steps input')?.value === '77'")


def test_the_page_fits_its_window(tab, two_runs):
    for width, dark in ((400, True), (1400, False)):
        fits(tab, two_runs, width, dark)


def fits(tab, two_runs, width, dark):
    tab.see(
        f"/training?on=example&run={folder_id(two_runs[0])}&beside={folder_id(two_runs[1])}",
        width,
        dark,
    )
    tab.wait(js_lines("norm"))
    assert tab.value("document.documentElement.scrollWidth") <= width
    nameless = tab.value(
        "[...document.querySelectorAll('main input, main button, main div[role=img]')].filter(e => e.offsetParent &&"
        " !(e.getAttribute('aria-label') || e.innerText.trim() || e.closest('label')?.innerText.trim())).length"
    )
    assert nameless == 0


def test_a_run_or_a_demo_opened_by_the_command_line_shows_at_once(
    start_lab, two_runs, tmp_path, browser, monkeypatch
):
    monkeypatch.setitem(demo.TRAINING, "steps", 200)
    monkeypatch.setattr(demo, "_draw", lambda *_: {})
    demo.demo_run(tmp_path / "demo")
    for path, form in ((tmp_path / "demo", True), (two_runs[1], False)):
        enter(browser, start_lab(path))
        browser.see("/training")
        browser.wait(js_lines("distance_fin"))
        records = read_metrics(path)
        shown = points(drawn_in(browser, "distance_fin")[0])
        assert shown[:, 1].tolist() == records["distance_fin"][0, 1:].tolist()
        eventually(form, browser.value, "!!document.querySelector('.fields')")
    assert not browser.errors


# Without a browser


@pytest.fixture
def room(tmp_path):
    """A lab object and the model of the example in it."""
    lab = Lab(tmp_path / "w")
    fit_run(lab.shelf.find("example").path, tmp_path / "w" / "models" / "example")
    return lab, tmp_path / "w" / "models" / "example"


OPTIONS = {"init": "uniform", "optimizer": "gd", "lr": None, "steps": 40, "every": None, "head": "identity",
           "loss": "log", "batch_size": None, "seeds": 2, "seed": 3}  # fmt: skip


def test_a_run_killed_with_its_process_is_listed_and_can_go_on(room, tmp_path):
    lab, model = room
    job = start(lab, lab.shelf.find("example"), model, Settings(**OPTIONS))
    assert job.wait(180.0)
    (run,) = all_runs(lab)
    assert (run.id, run.status, run.unfinished) == (job.about.run.id, ("finished",) * 2, False)
    assert run.id == lab.shelf.find(run.id).id
    # What a killed process leaves: the work folder alone.
    killed = lab.shelf.workspace / "runs" / "killed"

    def stop(done, *_):
        if done >= 20:
            raise KeyboardInterrupt

    asked = asked_for(run.config)
    train_run(asked.data, killed, reading=asked.reading, progress=stop, **asdict(asked.settings))
    shutil.rmtree(killed)
    (broken,) = [r for r in all_runs(lab) if r.status == (BROKEN,)]
    assert (broken.title, broken.unfinished, broken.records) == ("killed", True, {})
    again = resume(lab, lab.shelf.find("example"), find_run(lab, broken.id))
    assert again.wait(180.0)
    assert again.result["resumed_at_step"] > 0
    assert (killed / "metrics.parquet").read_bytes() == (run.path / "metrics.parquet").read_bytes()


def test_the_code_gives_the_same_numbers(room, tmp_path, call, monkeypatch):
    lab, model = room
    monkeypatch.chdir(tmp_path)
    job = start(lab, lab.shelf.find("example"), model, Settings(**OPTIONS | {"lr": 0.5}))
    assert job.wait(180.0)
    run = find_run(lab, job.about.run.id)
    wanted = (run.path / "metrics.parquet").read_bytes()
    for out in ("by_cli", "by_python"):
        cli, python = Asked(str(model), Settings(**OPTIONS | {"lr": 0.5})).code(out)
        if out == "by_cli":
            assert call(*shlex.split(cli)[1:])[0] == 0
        else:
            exec(python, {})
        assert (tmp_path / out / "metrics.parquet").read_bytes() == wanted
    # A run records what was left to the defaults, too.
    said = Settings(**OPTIONS | {"lr": 0.5, "every": 1})
    assert run.code() == Asked(str(model.resolve()), said).code(run.path.resolve())
    assert set(shlex.split(run.command)) <= set(shlex.split(run.code()[0]))


@pytest.mark.parametrize(
    ("change", "says"),
    [({"steps": "many"}, "steps = 'many'"), ({"seeds": True}, "seeds = True"), ({"data": None}, "which data"),
     ({"optimizer": 3}, "optimizer = 3"), ({"loss": None}, "lacks loss")],
)  # fmt: skip
def test_a_config_that_was_meddled_with_is_refused(change, says):
    with pytest.raises(DataError, match=says):
        asked_for({"data": "model", **OPTIONS, **change})


def test_a_lab_that_is_read_only_starts_nothing(room):
    lab, model = room
    lab.allow_run = False
    with pytest.raises(UsageError, match="read only"):
        start(lab, lab.shelf.find("example"), model, Settings(**OPTIONS))
    assert not (lab.shelf.workspace / "runs").exists()


def some_records(seeds, count):
    rng = np.random.default_rng(0)
    names = ("loss", "loss_gap", "norm", "cosine_svm", "cosine_outside", "distance_fin")
    return {"steps": np.arange(count), **{k: rng.uniform(0.1, 1, (seeds, count)) for k in names}}


def test_many_points_and_seeds_are_thinned_and_said():
    run = Shown("a", some_records(SEEDS + 5, 5000), {"optimizer": "gd"}, 2.0)
    picture = drawn("norm", [run], linear=True)
    options = picture.options()
    assert len(options["series"]) == SEEDS + 1
    assert max(len(s["data"]) for s in options["series"]) == 2000
    assert options["series"][0]["data"][-1][0] == 4999
    assert f"{SEEDS} of {SEEDS + 5} seeds" in picture.note
    assert (len(picture.header), len(picture.rows)) == (5, (SEEDS + 5) * 5000)


def test_margins_of_two_norms_are_drawn_and_how_wrong_they_were_is_cut():
    records = some_records(2, 5)
    records["margin_max"] = np.array([[np.nan, -8.0, 0.1, 0.5, 0.8]] * 2)
    records["margin_frobenius"] = records["margin_max"] / 2
    run = Shown("a", records, {"optimizer": "adam"}, 2.0)
    options = drawn("margin", [run], linear=True).options()
    assert [s["name"] for s in options["series"]] == [
        "seed 0, max norm", "seed 1, max norm", "seed 0, Frobenius norm", "seed 1, Frobenius norm",
    ]  # fmt: skip
    assert options["yAxis"]["min"] == -0.25
    # A run of gradient descent has the other norm in front, a mirror descent the cosine with its own limit.
    assert next(iter(Shown("a", records, {}, 2.0).drawn("margin"))) == "margin_frobenius"
    records["cosine_3"] = records["cosine_svm"]
    by_mirror = Shown("a", records, {"optimizer": "mirror:3"}, 2.0)
    assert list(by_mirror.drawn("cosine_svm")) == ["cosine_svm", "cosine_3"]
    del records["margin_max"], records["margin_frobenius"]
    said = drawn("margin", [run], linear=True).options()["graphic"][0]["style"]["text"]
    assert "not recorded" in said


def test_the_form_has_the_options_of_single_optimizers():
    found = asked("optimizer=adam&eps=0&beta2=0.95&schedule=inverse-sqrt")
    assert (found.eps, found.beta1, found.beta2, found.schedule) == (
        0.0,
        None,
        0.95,
        "inverse-sqrt",
    )
    assert asked("optimizer=mirror:2.5").optimizer == "mirror:2.5"


def test_what_has_no_logarithm_is_left_out_and_nothing_at_all_is_said():
    records = some_records(1, 4)
    records["loss_gap"][0] = [0.5, 0.0, -1e-17, np.nan]
    records["distance_fin"][:] = 0.0
    records["cosine_svm"][:] = np.nan
    run = Shown("a", records, {"optimizer": "gd"}, 0.0)
    assert drawn("loss_gap", [run], linear=True).options()["series"][0]["data"] == [
        [0, 0.5],
        [1, None],
        [2, None],
        [3, None],
    ]
    words = [
        drawn(n, [run], linear=True).options()["graphic"][0]["style"]["text"]
        for n in ("distance_fin", "cosine_svm")
    ]
    assert words[0] == "0 throughout"
    assert "W_svm is 0" in words[1]


def test_an_end_of_0_is_said_and_not_drawn_as_a_line_at_the_floor_of_a_log_axis():
    run = Shown("a", some_records(1, 6), {}, 2.0)
    options = drawn("loss_gap", [run], linear=False).options()
    assert options["xAxis"]["axisLine"] == {"onZero": False}
    assert "towards 0" in options["graphic"][0]["style"]["text"]


def test_the_lowest_label_of_margins_is_a_round_number():
    records = some_records(1, 5)
    records["margin_frobenius"] = np.array([[0.2191324704812319, 0.3, 0.4, 0.5, 0.6]])
    assert (
        drawn("margin", [Shown("a", records, {}, 2.0)], linear=True).options()["yAxis"]["min"]
        == 0.2
    )


def test_a_large_model_starts_from_settings_that_move(room):
    form = SimpleNamespace(
        fields={k: SimpleNamespace(value=v) for k, v in (USUAL | OF_LARGE).items()}
    )
    found = Form.asked(form)
    assert (found.optimizer, found.lr, found.steps) == ("adam", 0.1, 300)
    assert asked("factorised=3").factorised == 3


def test_a_factorised_run_goes_on_from_what_it_wrote(room, tmp_path):
    lab, model = room
    train_run(model, tmp_path / "w" / "runs" / "factors", steps=5, factorised=True)
    run = find_run(lab, folder_id(tmp_path / "w" / "runs" / "factors"))
    words = shlex.split(run.code()[0])
    assert "--factorised" in words
    assert "--init" not in words
    assert asked_for(run.config).settings.factorised is True


def test_the_line_of_theory_does_not_pull_the_axis_below_zero():
    run = Shown("a", some_records(1, 11), {}, 500.0)
    line = drawn("norm", [run], linear=False).options()["series"][-1]
    assert line["name"].startswith("theory")
    assert [y for _, y in line["data"]][-1] == pytest.approx(run.records["norm"][0, -1])
    assert all(y is None for _, y in line["data"][:-1])


@pytest.mark.parametrize(
    ("config", "rate"),
    [
        ({}, 3.0),
        ({"optimizer": "adam"}, None),
        ({"loss": "squared"}, None),
        ({"head": "tied"}, None),
    ],
)
def test_the_slope_of_theory_is_that_of_gradient_descent_alone(config, rate):
    assert Shown("a", {}, config, 3.0).rate == rate


def test_a_broken_folder_does_not_hide_the_others(two_runs):
    lab = Lab(two_runs[0].parents[1])
    broken = two_runs[0].parent / "broken"
    broken.mkdir()
    (broken / "attomaton.json").write_text(json.dumps({"kind": "run", "schema_version": 1}))
    (broken / "metrics.parquet").write_bytes(b"")
    (broken / "config.toml").write_text("steps = [")
    assert {"short-gd", "short-adam"} <= {r.title for r in all_runs(lab)}
    with pytest.raises(DataError, match=r"config\.toml"):
        find_run(lab, folder_id(broken))
    assert read_json(Path(two_runs[0]) / "status.json") == {"status": ["finished"]}


def test_a_run_that_was_edited_is_not_opened(two_runs):
    lab = Lab(two_runs[0].parents[1])
    edited = two_runs[0].parent / "edited"
    shutil.copytree(two_runs[0], edited)
    assert find_run(lab, folder_id(edited)).ended == "finished"
    said = (edited / "summary.json").read_text()
    (edited / "summary.json").write_text(said.replace('"samples": ', '"samples": 1'))
    with pytest.raises(DataError, match=r"summary\.json: was changed"):
        find_run(lab, folder_id(edited))
    shutil.rmtree(edited)
