"""The commands of the predictor: tune one, score one against the baselines."""

from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, Unpack

import typer

from attomaton.cli.commands import LARGE, EngineOptions, command, is_large, listing
from attomaton.cli.console import emit, progress_bar
from attomaton.cli.options import Force, Json, argument, option
from attomaton.cli.pictures import Figure, check_pictures, write_pictures
from attomaton.errors import UsageError, counted

if TYPE_CHECKING:
    from attomaton.corpus.reading import Reading
    from attomaton.mechanics.theory.prediction import Prediction
    from attomaton.predictor.model import Predictor
    from attomaton.predictor.scoring import Scores, ScoreTable

app = typer.Typer()


class Choices(TypedDict, total=False):
    """What `tune_run` is told of how settings are chosen."""

    validate: Annotated[
        Path, "What to choose settings on, of the same kind (default: some of the data)."
    ]
    history: Annotated[
        bool,
        option(
            "Let contexts to validate on reach back into the data, by the names of sequences "
            "(default: where their order says that they go on).",
            "--history/--no-history",
        ),
    ]
    metric: Annotated[
        str, "What decides: nats (default), top1, mrr in the context; all: nats of all windows."
    ]
    minutes: Annotated[float, "Try no more settings after so many minutes."]
    priors: Annotated[str, "zero, or of main, bigram, kin, odds joined by +; several with commas."]
    lambdas: Annotated[str, "Penalties (λ), in units of one window; several with commas."]
    thetas: Annotated[str, "Exponents of the counts; several with commas."]
    widen: Annotated[int, "How often the grid grows where the best lies at its edge (default: 4)."]


@command(app, "Learn")
def tune(
    data: Annotated[Path, argument("What to learn from: a file, or a data set: wikitext-2.")],
    out: Annotated[Path, option("Folder for the predictor.", "-o", "--out")],
    reading: "Reading",
    engine: EngineOptions,
    stage: Annotated[
        bool,
        option(
            "Leave out the convex stage on top: recency, induction, longer n-grams.", " /--no-stage"
        ),
    ] = True,
    force: Force = False,
    json: Json = False,
    **choices: Unpack[Choices],
) -> None:
    """Fit a predictor for unseen text.

    Prior, penalty and exponent are chosen on validation data; on top comes a convex stage of readable terms, where it
    pays.
    """
    from attomaton.jobs.tune import tune_run
    from attomaton.report.text.terminal import table

    asked: dict[str, Any] = {"validate": None, **choices}
    if "priors" in asked:
        asked["priors"] = [x for x in asked["priors"].split(",") if x]
    for name in ("lambdas", "thetas"):
        if name in asked:
            asked[name] = _numbers(name, asked[name])
    with engine.open(is_large(data, LARGE / 4)) as where, progress_bar("tuning") as progress:
        record = tune_run(
            data,
            out=out,
            reading=reading,
            engine=where,
            stage=stage,
            force=force,
            progress=progress,
            **asked,
        )
    chosen, found = record["chosen"], record["resumed_pieces"]
    resumed = f"; {found} of {record['pieces']} pieces were there" if found else ""
    rows = [
        [r["prior"], r["theta"], r["lambda"], f"{r['log_loss']:.4f}", f"{r['top1']:.4f}"]
        for r in record["grid"]["theta_lambda"]
    ]
    text = (
        f"{''.join(f'{x}{chr(10)}' for x in record['said'])}"
        f"{_many(record['train']['realizable'], 'window')}, {_many(record['train']['pairs'], 'pair')}\n"
        f"{table(['prior', 'theta', 'lambda', 'log-loss', 'top-1'], rows)}\n"
        f"chosen: prior {chosen['prior']}, theta {chosen['theta']:g}, lambda {chosen['lambda']:g}; "
        f"{'' if chosen['metric'] == 'nats' else 'by ' + chosen['metric'] + '; '}"
        f"gradient residual {record['certificates']['gradient']:.1g}\n"
        f"{_edges(record)}{_not_tried(record)}"
        f"{_staged(record['stage'])}"
        f"predictor in {out} ({record['seconds']:.0f} s{resumed})"
    )
    emit(record, text, json)


def _many(n: int, noun: str) -> str:
    return f"{n:,} {noun if n == 1 else noun + 's'}"


def _staged(stage: dict[str, Any]) -> str:
    """What the stage came to, in a line."""
    if stage["reason"]:
        return f"no stage on top: {stage['reason']}\n"
    groups = ", ".join(stage["groups"]) or "the slope alone"
    return (
        f"stage on top: {groups} ({stage['weights']:,} weights); on validation windows that judge it "
        f"{stage['tuned_loss']:.4f} → {stage['stage_loss']:.4f}; gradient residual {stage['gradient']:.1g}\n"
    )


def _edges(record: dict[str, Any]) -> str:
    """Whether the best lay at an edge of the grid, and what became of it, in lines."""
    from attomaton.predictor.tune import wider

    lines = []
    if n := record["grid"]["widened"]:
        lines.append(f"the best lay at an edge: the grid was widened {counted(n, 'time')}\n")
    for name in record["chosen"]["at_edge"]:
        tried = sorted({r[name] for r in record["grid"]["theta_lambda"]})
        ends = tried[:2] if record["chosen"][name] == tried[0] else tried[-2:]
        far = wider(tried, record["chosen"][name], 0.0 if name == "theta" else None)
        further = ",".join(f"{v:g}" for v in sorted([*ends, *([] if far is None else [far])]))
        lines.append(
            f"{name} {record['chosen'][name]:g} lies at the edge of what was tried; "
            f"to try further: --{name}s {further}\n"
        )
    return "".join(lines)


def _not_tried(record: dict[str, Any]) -> str:
    """What there was no time for, in a line."""
    left, groups = record["grid"]["not_tried"], record["stage"].get("not_tried")
    if not left and not groups:
        return ""
    some = [
        f"prior {p}, theta {t:g}" for p, t in dict.fromkeys((x["prior"], x["theta"]) for x in left)
    ]
    some = some if len(some) <= 6 else [*some[:6], f"and {len(some) - 6} more"]
    some += [f"prices of the stage's terms: {', '.join(groups)}"] if groups else []
    most = "; ".join(some)
    return f"not tried in {record['grid']['minutes']:g} minutes: {most}\n"


def opened(folder: Path, tokens: list[str]) -> "tuple[Predictor, list[Any]]":
    """A predictor, and command-line words as its token labels."""
    from attomaton.predictor.model import Predictor

    predictor = Predictor.open(folder)
    return predictor, [predictor.vocabulary.read(token) for token in tokens]


def predicted(
    folder: Path, tokens: list[str], top: int, backoff: bool, sample: int, seed: int
) -> "Prediction":
    """What `attomaton predict` answers with a predictor: the likeliest, and those of the context it does not know."""
    from attomaton.mechanics.theory.prediction import Prediction, falling
    from attomaton.numerics import named_rng
    from attomaton.predictor.reasons import taken_as
    from attomaton.report.text.reasons import main_reason

    predictor, words = opened(folder, tokens)
    shares = falling(predictor.predict_proba(words, backoff))
    unknown = predictor.unknown(words)
    new = {x.token for x in unknown}
    drawn = None
    if sample:
        with progress_bar("drawing"):
            drawn = predictor.sample(words, named_rng("sample", seed), sample, backoff)
    return Prediction(
        context=words,
        backoff=backoff,
        prediction=predictor.predict(words, backoff),
        probabilities=[*shares[:top], *(x for x in shares[top:] if x.token in new)],
        unknown=unknown,
        unseen=(),
        note=taken_as(unknown),
        why=main_reason(predictor.explain(words, backoff)),
        continuation=drawn,
    )


def show_order(folder: Path, last: str, json: bool) -> None:
    """What `attomaton graph` shows of a predictor: the order it learned after one last token."""
    from attomaton.predictor.learned import order_after
    from attomaton.report.text.learned import order_text

    predictor, (token,) = opened(folder, [last])
    found = order_after(predictor, token)
    emit(found, order_text(found), json)


def show_learned(folder: Path, top: int, json: bool) -> None:
    """What `attomaton summary` tells of a predictor: what was learned, in words and tables."""
    from attomaton.disk.formats import plain
    from attomaton.predictor.learned import learned
    from attomaton.report.text.learned import learned_text, learned_words

    with progress_bar("summary"):
        found = learned(opened(folder, [])[0], top)
    emit({**plain(found), "in_words": learned_words(found)}, learned_text(found), json)


def _baselines() -> list[tuple[str, str]]:
    """Every baseline by name, and what it is."""
    from attomaton.predictor.rivals.named import KINDS

    return [(x.name, x.words + (f" (extra: {x.extra})" if x.extra else "")) for x in KINDS]


class Beside(TypedDict, total=False):
    """What `score_run` is told of other models and data."""

    baselines: Annotated[str, "Also fit these baselines: all, or names with commas (see below)."]
    limit: Annotated[Path, "A limit (`attomaton fit`) to score beside a predictor."]
    data: Annotated[Path, "Training data, for the baselines (default: as recorded)."]
    validate: Annotated[
        Path, "Validation data, for the baselines (default: as a predictor recorded)."
    ]
    seconds: Annotated[float, "Time to train each network among the baselines (default: 180)."]
    history: Annotated[
        list[Path],
        "Earlier data that sequences of the same name go on from, the earliest first; may be repeated.",
    ]


@command(app, "Ask", cls=listing("Baselines", _baselines))
def score(
    model: Annotated[Path, argument("Folder written by `attomaton tune` or `attomaton fit`.")],
    file: Annotated[Path, argument("Data to score on, unseen in training.")],
    reading: "Reading",
    out: Annotated[
        Path | None, option("Also write the tables: a .csv file.", "-o", "--out")
    ] = None,
    figure: Figure = None,
    json: Json = False,
    **beside: Unpack[Beside],
) -> None:
    """Score a model on unseen data, beside baselines.

    Log-loss, hits, reciprocal ranks and calibration, beside unigram, recency, bigram and trigram on the same windows;
    stronger baselines by name.
    """
    from attomaton.disk.storage import check_file

    inputs = (model, beside.get("limit"))
    check_pictures(inputs, figure)
    if out is not None:
        check_file(out, (".csv",), inputs)
    from attomaton.jobs.score import score_run
    from attomaton.report.figures.scores import scores_figure

    names = [x for x in beside.get("baselines", "").split(",") if x]
    asked: Any = {**beside, "baselines": names}
    with progress_bar("scoring") as progress:
        result = score_run(model, file, reading=reading, progress=progress, **asked)
    if out is not None:
        from attomaton.disk.formats import write_text
        from attomaton.disk.storage import write_whole

        write_whole(out, write_text, _csv(result))
    write_pictures(lambda: scores_figure(f"Next tokens of {file.name}", _headed(result)), figure)
    parts = [_text(*table) for table in _headed(result)]
    parts += ["\n".join(_notes(result))]
    emit(result, "\n\n".join(x for x in parts if x), json)


def _notes(result: "Scores") -> list[str]:
    """What has to be known about the tables."""
    lines = []
    if n := result.new_labels:
        of = result.all.windows if result.all is not None else n
        lines.append(f"training never saw the label of {n:,} of all {of:,} windows")
    for name, x in (result.trained or {}).items():
        lines.append(
            f"{name}: trained for {x.epochs:.1f} epochs in {x.seconds:.0f} s; it is worth no more than that "
            "(--seconds)"
        )
    return lines + [f"left out: {x.name}, {x.reason}" for x in result.left_out or ()]


def _csv(result: "Scores") -> str:
    """All rows of all tables, with their standard errors."""
    from dataclasses import fields

    from attomaton.predictor.scoring import ScoreRow
    from attomaton.report.text.spreadsheets import csv_text

    columns = [x.name for x in fields(ScoreRow) if x.name != "reliability"]
    about = ("windows", "clusters", "clustered_by")
    rows = [
        [name, *(getattr(table, x) for x in about), *(getattr(row, x) for x in columns)]
        for name, table in _tables(result)
        for row in table.rows
    ]
    return csv_text(["table", *about, *columns], rows)


def _tables(result: "Scores", more: str = "") -> "list[tuple[str, ScoreTable]]":
    """The tables that there are, by name; `more` is said of that of all windows."""
    both = {"label in the context": result.realizable, f"all windows{more}": result.all}
    return [(name, table) for name, table in both.items() if table is not None]


def _headed(result: "Scores") -> "list[tuple[str, ScoreTable]]":
    tables = _tables(result, ", whole vocabulary")
    return [(f"{name} ({table.windows:,})", table) for name, table in tables]


def _text(heading: str, result: "ScoreTable") -> str:
    from attomaton.report.text.terminal import table

    rows = [
        [r.name, f"{r.log_loss:.4f}", _more(r.log_loss_more, r.log_loss_more_error), f"{r.top1:.4f}",
         _more(r.top1_more, r.top1_more_error), f"{r.top5:.4f}", f"{r.mrr10:.4f}", f"{r.calibration_error:.3f}",
         f"{100 * r.impossible:.1f}%" if r.impossible else ""]
        for r in result.rows
    ]  # fmt: skip
    first = result.compared_with
    header = [
        "",
        "log-loss",
        f"− {first}",
        "top-1",
        f"− {first}",
        "top-5",
        "MRR@10",
        "ECE",
        "impossible",
    ]
    told = f"± one standard error, over {result.clusters:,} {result.clustered_by}"
    if result.clusters < 2:
        told = "too few windows for standard errors"
    return f"{heading}\n{table(header, rows)}\n{told}"


def _more(more: float, error: float) -> str:
    if isnan(more) or (more == 0 and (error == 0 or isnan(error))):
        return ""
    return f"{more:+.4f}" if isnan(error) else f"{more:+.4f} ± {error:.4f}"


def _numbers(name: str, text: str) -> list[float]:
    try:
        return [float(x) for x in text.split(",") if x]
    except ValueError:
        raise UsageError(f"--{name} {text}: expected numbers with commas between them.") from None
