"""The commands of the predictor: tune one, score one against the baselines."""

from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attomaton.cli.console import emit, progress_bar, say_replaced
from attomaton.cli.options import EngineOptions, Figure, Force, Json, command, said
from attomaton.errors import UsageError, counted

if TYPE_CHECKING:
    from attomaton.corpus.reading import Reading
    from attomaton.mechanics.theory.prediction import Prediction
    from attomaton.predictor.model import Reasons
    from attomaton.predictor.scoring import Scores, ScoreTable


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    command(app, "Learn")(tune)
    command(app, "Ask")(score)


def tune(
    data: Annotated[
        Path, typer.Argument(help="What to learn from: a file, or a data set: wikitext-2.")
    ],
    validate: Annotated[Path, typer.Option(help="What to choose settings on, of the same kind.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for the predictor.")],
    reading: "Reading",
    free_engine: EngineOptions,
    priors: Annotated[
        str | None,
        typer.Option(help="zero, or of main, bigram, kin, odds joined by +; several with commas."),
    ] = None,
    lambdas: Annotated[
        str | None, typer.Option(help="Penalties (λ), in units of one window; several with commas.")
    ] = None,
    thetas: Annotated[
        str | None, typer.Option(help="Exponents of the counts; several with commas.")
    ] = None,
    widen: Annotated[
        int | None,
        typer.Option(help="How often the grid grows where the best lies at its edge (default: 4)."),
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Fit a predictor for unseen text.

    Prior, penalty and exponent are chosen on validation data.
    """
    from attomaton.jobs.tune import tune_run
    from attomaton.report.text.terminal import table

    grid = said(
        priors=None if priors is None else [x for x in priors.split(",") if x],
        lambdas=_numbers("lambdas", lambdas),
        thetas=_numbers("thetas", thetas),
        widen=widen,
    )
    with free_engine.open() as where, progress_bar("tuning") as progress:
        record = tune_run(
            data,
            validate,
            out,
            reading=reading,
            engine=where,
            force=force,
            progress=progress,
            **grid,
        )
    say_replaced(record["replaced"])
    chosen, found = record["chosen"], record["resumed_pieces"]
    resumed = f"; {found} of {record['pieces']} pieces were there" if found else ""
    rows = [
        [r["prior"], r["theta"], r["lambda"], f"{r['log_loss']:.4f}", f"{r['top1']:.4f}"]
        for r in record["grid"]["theta_lambda"]
    ]
    text = (
        f"{record['train']['realizable']:,} windows, {record['train']['pairs']:,} pairs\n"
        f"{table(['prior', 'theta', 'lambda', 'log-loss', 'top-1'], rows)}\n"
        f"chosen: prior {chosen['prior']}, theta {chosen['theta']:g}, lambda {chosen['lambda']:g}; "
        f"gradient residual {record['certificates']['gradient']:.1g}\n"
        f"{_edges(record)}"
        f"predictor in {out} ({record['seconds']:.0f} s{resumed})"
    )
    emit(record, text, json)


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


def predicted(
    folder: Path, tokens: list[str], top: int, backoff: bool, sample: int, seed: int
) -> "Prediction":
    """What `attomaton predict` answers with a predictor: the likeliest, and those of the context it does not know."""
    from attomaton.mechanics.theory.prediction import Prediction, falling
    from attomaton.numerics import named_rng
    from attomaton.predictor.model import Predictor, taken_as

    predictor = Predictor.open(folder)
    words = [predictor.vocabulary.read(token) for token in tokens]
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
        continuation=drawn,
    )


def explained(folder: Path, tokens: list[str], backoff: bool) -> "tuple[Reasons, str]":
    """What `attomaton explain` answers with a predictor: the branch that answered, every term of every score."""
    from attomaton.predictor.model import Predictor
    from attomaton.report.text.terminal import reasons_text

    predictor = Predictor.open(folder)
    words = [predictor.vocabulary.read(token) for token in tokens]
    reasons = predictor.explain(words, backoff)
    return reasons, reasons_text(reasons)


def score(
    model: Annotated[
        Path, typer.Argument(help="Folder written by `attomaton tune` or `attomaton fit`.")
    ],
    file: Annotated[Path, typer.Argument(help="Data to score on, unseen in training.")],
    reading: "Reading",
    limit: Annotated[
        Path | None, typer.Option(help="A limit (`attomaton fit`) to score beside a predictor.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Training data, for the baselines of a limit (default: as recorded)."),
    ] = None,
    validate: Annotated[
        Path | None, typer.Option(help="Validation data, for the baselines of a limit.")
    ] = None,
    figure: Figure = None,
    json: Json = False,
) -> None:
    """Score a model on unseen data, beside baselines.

    Log-loss and hits, beside unigram, recency, bigram and trigram on the same windows.
    """
    if figure is not None:
        from attomaton.disk.storage import check_file
        from attomaton.report.figures.canvas import FIGURES

        check_file(figure, FIGURES, (model, limit))
    with progress_bar("scoring"):
        result = _scored(model, file, limit, data, validate, reading)
    if figure is not None:
        from attomaton.report.figures import canvas
        from attomaton.report.figures.scores import scores_figure

        canvas.write(scores_figure(f"Next tokens of {file.name}", _headed(result)), figure)
    emit(result, "\n\n".join(_text(*table) for table in _headed(result)), json)


def _scored(
    model: Path,
    file: Path,
    limit: Path | None,
    data: Path | None,
    validate: Path | None,
    asked: "Reading",
) -> "Scores":
    """A predictor or a limit on unseen data, read as the training data were unless told."""
    from attomaton.corpus.readers import read_windows
    from attomaton.corpus.reading import ReadAs
    from attomaton.disk.records import as_record
    from attomaton.disk.storage import is_folder
    from attomaton.folders.model import ModelFolder, open_model
    from attomaton.predictor.scoring import score_limit, score_predictor

    if is_folder(model, "predictor"):
        from attomaton.predictor.model import Predictor

        if data is not None or validate is not None:
            raise UsageError(
                "a predictor keeps its baselines; --data and --validate are for limits."
            )
        predictor = Predictor.open(model)
        how = asked.over(as_record(ReadAs, predictor.record["reading"], model))
        windows = read_windows(file, how)
        return score_predictor(predictor, windows, None if limit is None else open_model(limit))
    if limit is not None:
        raise UsageError("--limit goes with a predictor; this model is a limit itself.")
    opened = ModelFolder(model)
    known = opened.record
    how = asked.over(known.reading)
    if data is None and Path(known.data or "").is_file():
        data = Path(str(known.data))
    train = None if data is None else read_windows(data, how)
    valid = None if validate is None else read_windows(validate, how)
    windows = read_windows(file, how)
    return score_limit(opened.limit(), windows, train, valid)


def _headed(result: "Scores") -> "list[tuple[str, ScoreTable]]":
    titles = {
        "label in the context": result.realizable,
        "all windows, whole vocabulary": result.all,
    }
    return [(f"{x} ({table.windows:,})", table) for x, table in titles.items() if table is not None]


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
    return f"{heading}\n{table(header, rows)}\n{told}"


def _more(more: float, error: float) -> str:
    if isnan(more) or (more == 0 and error == 0):
        return ""
    return f"{more:+.4f}" if isnan(error) else f"{more:+.4f} ± {error:.4f}"


def _numbers(name: str, text: str | None) -> list[float] | None:
    try:
        return None if text is None else [float(x) for x in text.split(",") if x]
    except ValueError:
        raise UsageError(f"--{name} {text}: expected numbers with commas between them.") from None
