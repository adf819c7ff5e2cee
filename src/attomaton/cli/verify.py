"""The command that verifies every theorem and figure, on their own data or on a user's."""

from pathlib import Path
from typing import Annotated, Any

import typer

from attomaton.cli.console import (
    Address,
    Column,
    Context,
    Dates,
    EngineName,
    Force,
    Format,
    Json,
    Split,
    TokenizerName,
    Workers,
    emit,
    progress_bar,
    reading,
    say_replaced,
)
from attomaton.errors import UsageError, cut


def register(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command()(verify)


def verify(
    only: Annotated[
        str | None, typer.Option(help="Claims, several with commas: T1,S3,scan-snap-fig6.")
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick/--full", help="Small problems (about 2 minutes), or all of them."),
    ] = True,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Your data instead: JSONL, text, CSV, TSV, Parquet, or a data set by name."
        ),
    ] = None,
    context: Context = None,
    format: Format = None,
    sequence: Column = None,
    item: Column = None,
    order: Column = None,
    dates: Dates = None,
    split: Split = None,
    tokenizer: TokenizerName = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Run folder (default: under runs/).")
    ] = None,
    engine: EngineName = "local",
    workers: Workers = None,
    address: Address = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Put every theorem and figure to the test, each with a control that must fail, and write a report."""
    asked = reading(locals())
    from attomaton.engine.choose import open_engine
    from attomaton.jobs.verify import verify_run
    from attomaton.report.text.terminal import table

    if asked.given and data is None:
        said = ", ".join(f"--{name}" for name in asked.given)
        raise UsageError(f"{said} says how to read a file: name one with --data.")
    place = (
        out or Path("runs") / f"verify{'' if quick else '-full'}{f'-{data.stem}' if data else ''}"
    )
    wanted = [x.strip() for x in only.split(",") if x.strip()] if only is not None else None
    with (
        open_engine(engine, workers, address=address) as where,
        progress_bar("verifying") as progress,
    ):
        summary = verify_run(wanted, quick, place, progress, data, asked, where, force)
    say_replaced(summary)
    rows = [
        [r["claim"], cut(r["title"], 46), r["verdict"], r["control"], _figures(r), round(r["seconds"], 1)]
        for r in summary["claims"]
        if r["verdict"] != "not applicable"
    ]  # fmt: skip
    header = ["claim", "title", "verdict", "control", "key figures", "s"]
    lines = [table(header, rows)] if rows else []
    for broken in summary["broken_assumptions"]:
        lines.append(f"{', '.join(broken['claims'])}: {broken['what']}")
    failed = [r for r in summary["claims"] if "error" in r]
    lines += [f"{r['claim']}: {r['error'].strip().splitlines()[-1]}" for r in failed]
    counts = ", ".join(f"{n} {name}" for name, n in summary["counts"].items() if n)
    lines.append(f"{counts} in {summary['seconds']:.0f} s; report in {place / 'report.html'}")
    emit(summary, "\n".join(lines), json)
    code = {"holds": 0, "fails": 4, "not applicable": 3}[summary["verdict"]]
    if code:
        raise typer.Exit(code)


def _figures(row: dict[str, Any]) -> str:
    return cut("; ".join(f"{k} {v}" for k, v in row["figures"].items()), 70)
