"""The main job from end to end on the embedded data, left behind as a run folder and one page."""

import sys
from dataclasses import asdict
from pathlib import Path
from shutil import which
from typing import Any

import numpy as np

from attomaton.base.progress import Progress
from attomaton.corpus.example import example_samples
from attomaton.disk.formats import plain, write_columns, write_json, write_text
from attomaton.disk.ledger import command
from attomaton.disk.provenance import environment, package_version, provenance, run_folder
from attomaton.disk.storage import check_place, new_folder
from attomaton.folders.model import save_model
from attomaton.folders.run import write_snapshots
from attomaton.jobs.train import SNAPSHOT_MB, train_beside_theory, training_records
from attomaton.mechanics.experiment.train import metric_columns
from attomaton.mechanics.theory.automaton import Automaton, Explanation
from attomaton.mechanics.theory.limit import Limit, solve_limit
from attomaton.mechanics.theory.view import GraphView, graph_view
from attomaton.report.text.terminal import explanation_text, fit_text, graph_text, table

TRAINING = {"init": "uniform", "optimizer": "gd", "lr": 5.0, "steps": 100_000, "seeds": 5}
CONTEXT = ["floor", "order", "bill", "dishes", "guest"]
SHOWN = ["cosine_svm", "distance_fin", "loss_gap", "mass_retrieved"]


def demo_run(
    out: Path | None = None, progress: Progress | None = None, force: bool = False
) -> tuple[dict[str, Any], str]:
    """Graph, limit, training against it, one prediction explained; the summary and what a person reads."""
    folder = out or run_folder("demo", TRAINING)
    place = check_place(folder, "run", force=force)
    # Made first: where nothing can be written, that is said before the training.
    with new_folder(place, "demo") as work:
        limit = solve_limit(example_samples())
        kept: Any = {"every": "log", "snapshots": round(SNAPSHOT_MB * 1e6), **TRAINING}
        run = train_beside_theory(limit, progress=progress, **kept)
        records = training_records(run, limit)
        explanation = Automaton(limit).explain(CONTEXT)
        views = [graph_view(limit, int(k)) for k in limit.graph.last_tokens]
        summary = {
            **plain(limit.summary()),
            "training": {"status": run.status, "seconds": run.seconds}
            | {name: records[name][:, -1] for name in SHOWN},
            "explanation": explanation.record(),
            "run": str(folder),
        }
        text = {
            "limit": fit_text({**summary, "set_aside": asdict(limit.samples.set_aside)}),
            "graphs": "\n".join(graph_text(view) for view in views),
            "training": _training_text(records),
            "explanation": explanation_text(explanation),
        }
        provenance(work, TRAINING, summary)
        write_columns(work / "metrics.parquet", metric_columns(records, len(run.status)))
        write_snapshots(work, run.snapshots)
        write_json(work / "status.json", {"status": run.status})
        pictures = _draw(work, limit, views, records, explanation)
        write_text(work / "index.html", _page(text, views, pictures))
        save_model(limit, work / "model", {"data": "embedded example", "command": command()})
    program = "attomaton" if which("attomaton") else sys.argv[0]
    opened = [
        f"open {folder / 'index.html'}",
        f"ask  {program} explain {folder / 'model'} tea soup cake bell",
    ]
    headed = [f"{title.upper()}\n{body}" for title, body in text.items()]
    return {**summary, "replaced": place.replaced}, "\n\n".join([*headed, "\n".join(opened)])


def _training_text(records: dict[str, np.ndarray]) -> str:
    seeds, n = records["loss"].shape
    rows = [
        [int(records["steps"][i]), *(float(records[name][:, i].mean()) for name in SHOWN)]
        for i in [*range(0, n, 12), n - 1]
    ]
    return f"mean over {seeds} random starts, gradient descent\n" + table(["step", *SHOWN], rows)


def _draw(
    work: Path,
    limit: Limit,
    views: list[GraphView],
    records: dict[str, np.ndarray],
    explanation: Explanation,
) -> dict[str, str]:
    """Figures as files, and as SVG text for the page; none where matplotlib is not installed."""
    if package_version("matplotlib") is None:
        return {}
    from attomaton.report.figures import canvas, priority
    from attomaton.report.figures import training as figures

    drawn = {f"graph-{i}": priority.priority_figure(view) for i, view in enumerate(views)}
    drawn["training"] = figures.convergence_figure(records, limit.finite.loss_floor, limit.svm.norm)
    drawn["prediction"] = figures.prediction_figure(explanation)
    for name, figure in drawn.items():
        canvas.save(figure, work / "figures", name)
    return {name: canvas.to_svg(figure) for name, figure in drawn.items()}


def _page(text: dict[str, str], views: list[GraphView], pictures: dict[str, str]) -> str:
    from attomaton.report.html.page import page

    def picture(name: str) -> dict[str, Any]:
        return {"svg": pictures[name]} if pictures else {}

    sections: list[dict[str, Any]] = [
        {
            "heading": "What the layer will learn",
            "text": "A café counter, told in 41 short event lists. In the limit of training, one "
            "self-attention layer becomes an automaton: it retrieves the tokens of highest priority "
            "(hard), then mixes those that are tied (soft). Both parts are computed exactly and "
            "certified below.",
            "code": text["limit"],
        },
        *(
            {"heading": f"After “{x.last}”", **picture(f"graph-{i}"), "code": graph_text(x)}
            for i, x in enumerate(views)
        ),
        {
            "heading": "Training approaches it",
            "text": "The real layer, trained by gradient descent from five random starts, measured "
            "against the limit that theory computed without it.",
            **picture("training"),
            "code": text["training"],
        },
        {
            "heading": "A prediction explained",
            **picture("prediction"),
            "code": text["explanation"],
        },
    ]
    footer = f"attomaton {environment()['attomaton']} · {command()}"
    return page("What self-attention learns from a café counter", sections, footer)
