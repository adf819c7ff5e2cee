"""The commands that check: theorems and figures, a published experiment, this installation."""

import ast
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attomaton.cli.commands import EngineOptions, command, listing
from attomaton.cli.console import emit, progress_bar, say_replaced
from attomaton.cli.options import Force, Json, RunFolder, argument, option
from attomaton.errors import UsageError, cut, visible

if TYPE_CHECKING:
    from attomaton.corpus.reading import Reading

app = typer.Typer()


def _registered(*makers: str) -> list[tuple[str, str]]:
    """Names and titles in `claims.registry`, by the text of it: importing it takes a second that no help is worth."""
    text = (files("attomaton.claims") / "registry.py").read_text(encoding="utf-8")
    calls = (x for x in ast.walk(ast.parse(text)) if isinstance(x, ast.Call) and len(x.args) > 1)
    return [
        (ast.literal_eval(x.args[0]), ast.literal_eval(x.args[1]))
        for x in calls
        if isinstance(x.func, ast.Name)
        and x.func.id in makers
        and isinstance(x.args[0], ast.Constant)
    ]


@command(app, "Check", cls=listing("Claims", lambda: _registered("Claim", "_figure")))
def verify(
    reading: "Reading",
    plain_engine: EngineOptions,
    only: Annotated[str | None, "Claims, several with commas: T1,S3,scan-snap-fig6."] = None,
    quick: Annotated[
        bool, option("Small problems (a few minutes), or all of them.", "--quick/--full")
    ] = True,
    data: Annotated[
        Path | None, "Your data instead: JSONL, text, CSV, TSV, Parquet, or a data set by name."
    ] = None,
    out: RunFolder = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Verify every theorem and figure, and write a report.

    Each has a control that must fail.
    """
    from attomaton.jobs.verify import verify_run
    from attomaton.report.text.terminal import table

    if reading.given and data is None:
        said = ", ".join(f"--{name}" for name in reading.given)
        raise UsageError(f"{said} says how to read a file: name one with --data.")
    place = (
        out or Path("runs") / f"verify{'' if quick else '-full'}{f'-{data.stem}' if data else ''}"
    )
    wanted = [x.strip() for x in only.split(",") if x.strip()] if only is not None else None
    large = not quick and (wanted is None or len(wanted) > 1)
    with plain_engine.open(large) as where, progress_bar("verifying") as progress:
        summary = verify_run(wanted, quick, place, progress, data, reading, where, force)
    claims = summary["claims"]
    rows = [
        [r["claim"], r["paper"], cut(r["title"], 46), r["verdict"], r["control"],
         cut("; ".join(f"{k} {v}" for k, v in r["figures"].items()), 70), round(r["seconds"], 1)]
        for r in claims
        if r["verdict"] not in ("not applicable", "skipped")
    ]  # fmt: skip
    header = ["claim", "paper", "title", "verdict", "control", "key figures", "s"]
    counts = ", ".join(f"{n} {name}" for name, n in summary["counts"].items() if n)
    lines = [
        *([table(header, rows)] if rows else []),
        *(f"{', '.join(x['claims'])}: {x['what']}" for x in summary["broken_assumptions"]),
        *(f"{r['claim']}: skipped, {r['reason']}" for r in claims if r["verdict"] == "skipped"),
        *(f"{r['claim']}: {r['error'].strip().splitlines()[-1]}" for r in claims if "error" in r),
        f"{counts} in {summary['seconds']:.0f} s; report in {place / 'report.html'}",
    ]
    emit(summary, "\n".join(lines), json)
    if code := {"holds": 0, "fails": 4, "not applicable": 3}[summary["verdict"]]:
        raise typer.Exit(code)


@command(app, "Check", cls=listing("Presets", lambda: _registered("_figure")))
def reproduce(
    preset: Annotated[
        str | None, argument("A published experiment, e.g. mechanics-global.")
    ] = None,
    more: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    every: Annotated[bool, option("All of them, each into a folder of its own.", "--all")] = False,
    seeds: Annotated[int | None, "Draws (default: as published)."] = None,
    settings: Annotated[
        list[str] | None,
        option("Other settings: K=20 d=8 n=40 lr=0.05 head=tied. Not judged.", "--set"),
    ] = None,
    quick: Annotated[bool, option("A small version, for those that take long.", "--quick")] = False,
    out: RunFolder = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Reproduce a published experiment, or all, and judge it."""
    from attomaton.disk.provenance import run_folder, unfinished_run
    from attomaton.jobs.reproduce import reproduce_all, reproduce_run
    from attomaton.report.text.terminal import reproduction_text, table

    words = [*filter(None, (preset, *(more or ())))]
    names = [word for word in words if "=" not in word]
    said = _pairs([*(settings or ()), *(word for word in words if "=" in word)])
    preset = names[0] if names else None
    if every == (preset is not None) or len(names) > 1:
        raise UsageError("name one published experiment, or say --all (not both).")
    if every and said:
        raise UsageError("--set with --all: experiments have settings of their own; name one.")
    if preset is None:
        place = out or run_folder("reproduce", {"seeds": seeds, "quick": quick})
        with progress_bar("reproducing") as progress:
            summary = reproduce_all(place, seeds, quick, progress, force)
        for row in summary["presets"]:
            say_replaced(row.get("replaced"))
        rows = [[r["preset"], r["verdict"], r.get("error", r["title"])] for r in summary["presets"]]
        emit(summary, f"{table(['preset', 'verdict', ''], rows)}\nruns in {place}", json)
        if summary["verdict"] != "holds":
            raise typer.Exit(4)
        return
    asked = {"preset": preset, "seeds": seeds, "quick": quick, **said}
    place = out or unfinished_run(preset, asked) or run_folder(preset, asked)
    with progress_bar(preset) as progress:
        summary = reproduce_run(preset, place, seeds, quick, progress, force, said)
    emit(summary, reproduction_text(summary), json)
    if summary["verdict"] not in ("holds", "not applicable"):
        raise typer.Exit(4)


def _pairs(texts: Sequence[str]) -> dict[str, str]:
    """Settings written NAME=VALUE, with blanks or commas between them.

    >>> _pairs(["K=20 d=8,n=10,100", "head=tied"])
    {'K': '20', 'd': '8', 'n': '10,100', 'head': 'tied'}
    """
    # A comma parts two settings where a name and = follow; others are inside a value.
    words = [x for text in texts for x in re.split(r"\s+|,\s*(?=[A-Za-z_]\w*=)", text) if x]
    found: dict[str, str] = {}
    for word in words:
        name, given, value = word.partition("=")
        if not given or name in found:
            why = "once is enough" if given else "NAME=VALUE is needed, such as K=20"
            raise UsageError(f"--set {visible(word)}: {why}.")
        found[name] = value
    return found


@command(app, "Check")
def doctor(json: Json = False) -> None:
    """Check this installation.

    Whether everything attomaton needs is here and computes what it should.
    """
    from attomaton.jobs.doctor import examine
    from attomaton.report.text.terminal import table

    record = examine()
    rows = [[c.check, "ok" if c.ok else "FAILS", c.detail] for c in record.checks]
    emit(record, table(["check", "", "detail"], rows), json)
    if not record.ok:
        raise typer.Exit(1)
