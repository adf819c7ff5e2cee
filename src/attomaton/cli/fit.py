"""The commands that learn from a data set: the exact limit of training, training itself, and both on embedded data."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, Unpack

import typer

from attomaton.cli.commands import EngineOptions, command, is_large
from attomaton.cli.console import emit, progress_bar, say
from attomaton.cli.options import Data, Force, Json, RunFolder, argument, option, whole_numbers
from attomaton.errors import AttomatonError, UsageError

if TYPE_CHECKING:
    from attomaton.corpus.reading import Reading
    from attomaton.jobs.dimensions import Dimensions

app = typer.Typer()

EmbeddingsFile = Annotated[
    Path | None,
    "Vectors of tokens, a matrix: FILE.npy or FILE.safetensors[:NAME]; tokens are integers naming its rows.",
]
VocabularyFile = Annotated[
    Path | None,
    "Tokens that the rows of --embeddings stand for: one per line, or a JSON list or table.",
]


class Vectors(TypedDict, total=False):
    """Where the vectors of tokens come from."""

    embeddings: EmbeddingsFile
    vocabulary: VocabularyFile
    dimension: Annotated[int, "Draw unit vectors in so many dimensions as embeddings."]


@command(app, "Learn")
def demo(
    out: RunFolder = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Run the whole pipeline on embedded data.

    Graph, limit, training measured against it, a prediction explained.
    """
    from attomaton.jobs.demo import demo_run

    with progress_bar("training") as progress:
        summary, text = demo_run(out, progress, force)
    emit(summary, text, json)


@command(app, "Learn")
def fit(
    data: Data,
    out: Annotated[Path, option("Folder for the model.", "-o", "--out")],
    reading: "Reading",
    engine: EngineOptions,
    seed: Annotated[int | None, "Random seed of --dimension (default: 0)."] = None,
    dense: Annotated[bool, "Also write W_svm and W_fin as matrices."] = False,
    estimate: Annotated[
        bool, option("Estimate time, memory and disk, then stop.", "--estimate")
    ] = False,
    shard_size: Annotated[
        int | None,
        option(
            "Tokens of contexts that one process holds of one last token; beyond that it is divided "
            "(default: 16,777,216).",
            min=1,
        ),
    ] = None,
    force: Force = False,
    json: Json = False,
    **vectors: Unpack[Vectors],
) -> None:
    """Compute the exact limit of training on a data set.

    Writes a model folder for `predict`, `explain`, `graph` and `summary`.
    """
    from attomaton.engine.choose import engine_name
    from attomaton.jobs.estimate import estimate_fit, takes_long
    from attomaton.jobs.fit import fit_run
    from attomaton.report.text.terminal import fit_text

    if seed is not None and "dimension" not in vectors:
        raise UsageError("--seed goes with --dimension: nothing else is drawn.")
    embedded = "embeddings" in vectors or "dimension" in vectors
    large = is_large(data) and not embedded  # which makes one piece of the work
    if estimate and embedded:
        raise UsageError(
            "--estimate is for orthonormal embeddings (the default). With others the sizes are checked, and refused "
            "with an estimate where they are too large, once the data are read and before anything is solved."
        )
    if estimate or (takes_long(data, reading.format) and not embedded):
        try:
            with progress_bar("estimating"):
                before = estimate_fit(
                    data,
                    reading,
                    engine=engine_name(engine.name, engine.workers, large),
                    workers=engine.workers,
                    memory=engine.memory,
                    shard_size=shard_size,
                )
        except AttomatonError as fault:
            if estimate:
                raise
            say(f"no estimate: {fault}")  # the fit itself may go well
        else:
            if estimate:
                emit(vars(before), before.text(), json)
                return
            say(before.text())
    with engine.open(large) as where, progress_bar("fitting") as progress:
        summary = fit_run(
            data,
            out,
            **vectors,
            seed=seed,
            dense=dense,
            engine=where,
            progress=progress,
            force=force,
            reading=reading,
            shard_size=shard_size,
        )
    text = f"{fit_text(summary)}\nmodel in {out} ({summary['seconds']['total']:.1f} s)"
    emit(summary, text, json)


@command(app, "Learn")
def dimensions(
    data: Data,
    reading: "Reading",
    plain_engine: EngineOptions,
    d: Annotated[
        str | None,
        option("Dimensions, with commas (default: 2,4,8,… until all is strict, up to 128).", "--d"),
    ] = None,
    draws: Annotated[int | None, "Draws of the vectors in each dimension (default: 3)."] = None,
    seed: Annotated[int, "Random seed of the first draw."] = 0,
    embeddings: EmbeddingsFile = None,
    vocabulary: VocabularyFile = None,
    out: RunFolder = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Find out how many dimensions hard retrieval needs.

    Solves the data set exactly with vectors in more and more dimensions, drawn ones or the principal directions of
    those given, and draws what is strict, what is hard and the loss floor.
    """
    from attomaton.disk.provenance import run_folder, unfinished_run
    from attomaton.jobs.dimensions import dimensions_run

    sizes = None if d is None else whole_numbers("--d", d)
    asked = {
        "data": str(data),
        "d": sizes,
        "draws": draws,
        "seed": seed,
        "embeddings": str(embeddings),
    }
    place = out or unfinished_run("dimensions", asked) or run_folder("dimensions", asked)
    with plain_engine.open() as where, progress_bar("dimensions") as progress:
        found = dimensions_run(
            data, place, d=sizes, draws=draws, seed=seed, embeddings=embeddings,
            vocabulary=vocabulary, reading=reading, engine=where, progress=progress, force=force,
        )  # fmt: skip
    emit(found, _dimensions_text(found), json)


def _dimensions_text(found: "Dimensions") -> str:
    from attomaton.report.text.terminal import table
    from attomaton.report.words import percent

    end, rows = found.end, []
    for row in found.rows:
        shares = [
            percent(x.mean) + (f" ({percent(x.low)}–{percent(x.high)})" if x.low < x.high else "")
            for x in (row.strict, row.hard)
        ]
        means = row.loss_floor.mean, row.svm_norm.mean
        rows.append([row.d, row.draws, *shares, *means, row.residual, row.seconds])
    shares = [percent(end.strict), percent(end.hard)]
    rows.append(["≥ K", "", *shares, end.loss_floor, end.svm_norm, end.residual, ""])
    reached = "no dimension here leaves all of them strict"
    if found.all_strict_from is not None:
        reached = f"from d = {found.all_strict_from} on they are strict in every draw"
    return "\n".join(
        [
            f"{found.samples:,} samples over K = {found.tokens:,} tokens, {found.differences:,} differences; "
            f"vectors {found.embeddings}",
            table(["d", "draws", "strict", "hard", "L*", "‖W_svm‖", "residual", "seconds"], rows),
            f"{percent(end.strict)} of the differences are strict with a dimension for each token; {reached}",
            f"rule of thumb: √(differences / 2) = {found.rule_of_thumb:.3g} dimensions",
            *(f"left out, d = {x.d}: {x.why}" for x in found.left_out),
            f"run in {found.run}",
        ]
    )


class TrainingOptions(Vectors, total=False):
    """What `train_run` is told of the training."""

    init: Annotated[str, "zeros (default), uniform, or a .npy file with W(0)."]
    optimizer: Annotated[
        str,
        "gd (default), ngd, polyak, sgd, adam, sign, spectral, muon, or mirror:p with p > 1 (mirror:1.5, "
        "mirror:3).",
    ]
    lr: Annotated[
        float,
        "Step size (default: 1 for gd, 0.1 for sgd, 0.01 for the others; polyak finds its own).",
    ]
    schedule: Annotated[str, "Step sizes: constant (default), or inverse-sqrt (lr/√t at step t)."]
    factorised: Annotated[
        bool,
        option(
            "Train keys and queries, W = K Qᵀ, from a small start (gd, ngd, polyak, sgd).",
            "--factorised",
        ),
    ]
    rank: Annotated[int, "Columns of keys and queries (default: as many as W has)."]
    init_scale: Annotated[float, "Factorised: size of the start's normal entries (default: 0.01)."]
    eps: Annotated[float, "Added to √v by adam (default: 1e-08; may be 0), to ‖g‖ by ngd (0)."]
    beta1: Annotated[float, "Momentum of adam (default: 0.9) and muon (0.95)."]
    beta2: Annotated[float, "How long adam remembers squared gradients (default: 0.999)."]
    steps: Annotated[int, "Number of steps (default: 4000)."]
    every: Annotated[
        str, "Steps between records, or log: evenly on a log axis (default: 100 records)."
    ]
    head: Annotated[str, "identity (default), tied (C = E) or general (drawn, Assumption 3)."]
    loss: Annotated[
        str,
        "log (default); squared or cross-entropy of softmax(C f); squared-score or logistic-score of c_y·f.",
    ]
    batch_size: Annotated[int, "Mini-batch (sgd, adam; default: all samples)."]
    seeds: Annotated[int, "Runs side by side, each from its own random start (default: 1)."]
    seed: Annotated[int, "Random seed (default: 0)."]
    snapshots: Annotated[
        float, "Megabytes of scores to keep on the way (default: 8; 0 keeps none)."
    ]
    snapshots_of: Annotated[
        str, "Last tokens to keep first, between spaces (default: the heaviest)."
    ]


@command(app, "Training")
def train(
    data: Annotated[Path, argument("A data file, or a folder written by `attomaton fit`.")],
    out: Annotated[Path, option("Folder for the run.", "-o", "--out")],
    reading: "Reading",
    force: Force = False,
    json: Json = False,
    **options: Unpack[TrainingOptions],
) -> None:
    """Train the real layer and measure how far it is from its limit."""
    from attomaton.jobs.train import train_run
    from attomaton.report.text.terminal import table
    from attomaton.report.text.training import limit_words

    given: dict[str, Any] = {**options}
    with suppress(ValueError):  # what is no number is the library's to judge
        given["every"] = int(options.get("every", ""))
    if "rank" in given:
        if "factorised" not in given:
            raise UsageError("--rank is of --factorised: give both, or none.")
        given["factorised"] = given.pop("rank")
    with progress_bar("training") as progress:
        summary = train_run(data, out, reading=reading, progress=progress, force=force, **given)
    names, settings = list(summary["final"][0]), summary["settings"]
    rate = f" (lr {settings['lr']:g})" if "lr" in settings else ""
    if "factorised" in settings:
        rate += f" on keys and queries of rank {settings['factorised']}"
    rows = [[row[name] for name in names] for row in summary["final"]]
    vectors = f"embeddings {summary['embeddings']}\n" if summary["embeddings"] else ""
    towards = limit_words(
        settings["optimizer"], summary["limit_norm"], summary["final"], eps=settings.get("eps"),
        left_out=summary["left_out"], tied=summary["tied"],
        plain=(settings["loss"], settings["head"]) == ("log", "identity"),
    )  # fmt: skip
    text = (
        f"{summary['steps']:,} steps of {settings['optimizer']}{rate} on {summary['samples']:,} samples; L* = "
        f"{summary['loss_floor']:.8g}\n{vectors}{towards}\n{table(names, rows)}\nrun in {out}"
    )
    emit(summary, text, json)
    stopped = [s for s in summary["status"] if s != "finished"]
    if stopped:
        say(f"not finished: {', '.join(stopped)}; what was computed is kept.")
        raise typer.Exit(130 if "interrupted" in stopped else 4)
