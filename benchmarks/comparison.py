"""The predictor beside every baseline on real data: `python -m benchmarks.comparison FOLDER`.

Data lie under ATTOMATON_DATA (or beside the checkout): wikitext-2/{train,valid,test}.txt and
logs/{bpi12,fifa}.{train,valid,test}.csv.gz. What was measured is kept in FOLDER, window by window, and not measured
again: baselines in groups (`SET.GROUP.npz`), the predictor as `SET.predictor` (tuned where there is none; put another
there to have its row). Tables are printed as Markdown, or put in their places in a page (`--page`).
"""

import argparse
import json
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.corpus.readers import read_windows
from attomaton.corpus.reading import Reading
from attomaton.corpus.windows import Windows
from attomaton.predictor.bags import aligned
from attomaton.predictor.measured import Measured
from attomaton.predictor.rivals.named import KINDS, fit_field
from attomaton.predictor.scoring import ScoreTable, in_context, over_vocabulary, table_of
from benchmarks.table import say

DATA = Path(os.environ.get("ATTOMATON_DATA", Path(__file__).resolve().parents[2] / "shared/data"))
GROUPS = {
    "counting": [k.name for k in KINDS if k.package is None and not k.many_sequences],
    "neighbours": [k.name for k in KINDS if k.many_sequences],
    "trees": ["trees", "trees-order"],
    "gru": ["gru"],
    "transformer": ["transformer"],
}


@dataclass(frozen=True)
class Set:
    """One data set: its name in files and in print, its files, the context, and the epochs that networks are given."""

    name: str
    title: str
    files: str
    context: int
    epochs: dict[str, float]
    groups: tuple[str, ...] = tuple(GROUPS)
    every: int = 1  # test windows that are asked about: every one, or fewer

    def path(self, part: str) -> Path:
        return DATA / self.files.format(part)

    def read(self, part: str) -> Windows:
        return read_windows(self.path(part), Reading(context=self.context))

    def asked(self) -> Windows:
        """The test windows."""
        windows = self.read("test")
        names = ("left", "length", "label", "weight", "source", "realizable")
        some = {name: getattr(windows, name)[:: self.every] for name in names}
        return windows if self.every == 1 else replace(windows, **some)


SETS = (
    Set("bpi12", "BPI 2012", "logs/bpi12.{}.csv.gz", 20, {"gru": 4.0, "transformer": 10.0}),
    Set("fifa", "FIFA", "logs/fifa.{}.csv.gz", 32, {"gru": 8.0, "transformer": 3.0}),
    Set("wikitext-2", "WikiText-2", "wikitext-2/{}.txt", 32, {"gru": 5.0, "transformer": 4.0},
        ("counting", "trees", "gru", "transformer")),
)  # fmt: skip
LONG = 4 * 3600.0  # seconds: networks are held to epochs, which are the same on every machine


def measure_group(one: Set, group: str, folder: Path) -> None:
    """Fit the baselines of a group and judge them on all test windows, unless that was done."""
    place = folder / f"{one.name}.{group}.npz"
    if place.is_file():
        return
    begin = time.perf_counter()
    last = [begin]

    def progress(done: int, total: int, what: str) -> None:
        if time.perf_counter() - last[0] > 20:
            last[0] = time.perf_counter()
            say(f"{one.name} {group}: {done:,} of {total:,} {what}, {last[0] - begin:.0f} s")

    train, valid, test = one.read("train"), one.read("valid"), one.asked()
    epochs = one.epochs.get(group, 1.0)
    field = fit_field(GROUPS[group], train, valid, progress, LONG, epochs)
    fitted, used = time.perf_counter(), time.process_time()
    judged = field.judge(aligned(test, train.vocabulary), progress)
    arrays = {
        f"{name}|{where}|{figure}": value
        for where, found in zip(("inside", "whole"), judged, strict=True)
        for name, m in found.items()
        for figure, value in m._asdict().items()
    }
    told: dict[str, Any] = {
        "fit_seconds": fitted - begin, "judge_seconds": time.perf_counter() - fitted,
        "fit_processor_seconds": used,
        "residual": field.residual,
        "trained": {x: vars(c.trained) for x, c in field.components.items() if hasattr(c, "trained")},
    }  # fmt: skip
    np.savez(place.with_suffix(".part.npz"), **arrays)
    place.with_suffix(".part.npz").rename(place)
    place.with_suffix(".json").write_text(json.dumps(told, indent=1), encoding="utf-8")
    say(f"{one.name} {group}: {told}")


def kept(one: Set, group: str, folder: Path) -> dict[str, dict[str, Measured]]:
    """What was measured of a group: by where, by name."""
    found: dict[str, dict[str, Any]] = {"inside": {}, "whole": {}}
    with np.load(folder / f"{one.name}.{group}.npz") as arrays:
        for key in arrays.files:
            name, where, figure = key.split("|")
            found[where].setdefault(name, {})[figure] = arrays[key]
    told = json.loads((folder / f"{one.name}.{group}.json").read_text(encoding="utf-8"))
    # A network is only worth what its training was.
    much = "".join(f" ({x['epochs']:.1f} epochs)" for x in told["trained"].values())
    return {
        where: {f"{name}{much}": Measured(**m) for name, m in rows.items()}
        for where, rows in found.items()
    }


def markdown(table: ScoreTable) -> str:
    """A table with differences from the first row and their standard errors."""
    lines = [
        "| | log-loss | − predictor | top-1 | − predictor | MRR@10 | ECE |",
        "|---|---|---|---|---|---|---|",
    ]
    for r in table.rows:
        first = r.name == table.compared_with
        more = "" if first else f"{r.log_loss_more:+.4f} ± {r.log_loss_more_error:.4f}"
        hits = "" if first else f"{r.top1_more:+.4f} ± {r.top1_more_error:.4f}"
        lines.append(
            f"| {r.name} | {r.log_loss:.4f} ± {r.log_loss_error:.4f} | {more} | {r.top1:.4f} | {hits} "
            f"| {r.mrr10:.4f} | {r.calibration_error:.3f} |"
        )
    return "\n".join(lines).replace("-0.", "−0.").replace("-1.", "−1.")


def tuned(one: Set, folder: Path) -> Path:
    """The predictor's folder, tuned with what `attomaton tune` does by itself where there is none."""
    from attomaton.jobs.tune import tune_run

    place = folder / f"{one.name}.predictor"
    if not place.is_dir():
        say(f"{one.name}: tuning")
        tune_run(one.path("train"), one.path("valid"), place, reading=Reading(context=one.context))
    return place


def tables(one: Set, groups: list[str], folder: Path) -> list[tuple[str, ScoreTable]]:
    """The predictor and all that was measured, on the same windows."""
    from attomaton.predictor.model import Predictor

    predictor = Predictor.open(tuned(one, folder))
    test = one.asked()
    own = aligned(test, predictor.vocabulary)
    found = {
        "inside": in_context(own, {"predictor": predictor.log_weights}),
        "whole": {"predictor": over_vocabulary(own, predictor)["predictor"]},
    }
    for group in groups:
        if (folder / f"{one.name}.{group}.npz").is_file():
            for where, rows in kept(one, group, folder).items():
                found[where] |= rows
    holding = np.flatnonzero(test.realizable)
    which = "" if one.every == 1 else f", one in {one.every}"
    both = {
        "Label in the context": table_of(found["inside"], test, holding, "predictor"),
        "All windows": table_of(found["whole"], test, np.arange(len(test)), "predictor"),
    }
    return [
        (f"{name} ({x.windows:,} windows{which}; standard errors over {x.clusters:,} {x.clustered_by})", x)
        for name, x in both.items()
    ]  # fmt: skip


def put(page: Path, name: str, text: str) -> None:
    """The tables of a data set between its marks in a page."""
    begin, end = f"<!-- {name}: made by benchmarks/comparison.py -->", f"<!-- end of {name} -->"
    old = page.read_text(encoding="utf-8")
    head, rest = old.split(begin)
    page.write_text(f"{head}{begin}\n{text}\n{end}{rest.split(end)[1]}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.comparison", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", choices=[x.name for x in SETS])
    parser.add_argument("--groups", nargs="+", choices=list(GROUPS), default=list(GROUPS))
    parser.add_argument("--no-predictor", action="store_true", help="measure baselines alone")
    parser.add_argument("--page", type=Path, help="put the tables between the marks of this page")
    parser.add_argument("--figure", action="store_true", help="also draw FOLDER/SET.png")
    parser.add_argument("--every", type=int, default=1, help="ask about every so many-th window")
    given = parser.parse_args()
    given.folder.mkdir(exist_ok=True)
    for one in (replace(x, every=given.every) for x in SETS):
        if given.only and one.name not in given.only:
            continue
        groups = [x for x in given.groups if x in one.groups]
        for group in groups:
            measure_group(one, group, given.folder)
        if given.no_predictor:
            continue
        found = tables(one, list(one.groups), given.folder)
        text = "\n\n".join(f"{heading}:\n\n{markdown(table)}" for heading, table in found)
        if given.page is None:
            print(f"\n{text}", flush=True)
        else:
            put(given.page, one.name, text)
        if given.figure:
            from attomaton.report.figures import canvas
            from attomaton.report.figures.scores import scores_figure

            canvas.write(scores_figure(one.title, found), given.folder / f"{one.name}.png")


if __name__ == "__main__":
    main()
