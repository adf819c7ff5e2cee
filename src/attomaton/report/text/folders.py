"""Folders of ours on a terminal: a list of them, one of them in full, two side by side."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import product
from typing import Any

from attomaton.disk.kinds import title
from attomaton.errors import counted, cut, size_text, visible
from attomaton.report.text.terminal import table
from attomaton.report.words import setting_text, share_text, value_text, when_text

Record = Mapping[str, Any]
LEAST, ROOMY = 12, 30  # characters of a command that are worth a column, and that say enough
FEW = 6  # tokens of a component that are named
WIDEST = 1000  # characters of a line: a command that is to be copied is not cut
SHOWN = 12  # lines of a log that a person looks through


def _line(text: str) -> str:
    """A text from a file or a file's name, on one line."""
    return visible(text, WIDEST)


# A list


def list_text(folders: Sequence[Record], width: int) -> str:
    """One row for each folder, commands cut to the width; below it what there is to say, uncut, to be copied."""
    rows = [
        [_line(f["shown"]), _line(f["kind"]), f["state"], when_text(f["when"]), size]
        for f, size in _sized(folders)
    ]
    header = ["name", "kind", "state", "when (UTC)", "size"]
    room = _room(header, rows, width)
    if room < ROOMY and len({f["when"][:4] for f in folders}) == 1:
        for row in rows:
            row[3] = row[3][5:]  # all of one year
        room = _room(header, rows, width)
    # The command of a folder, unless what goes on with it is said below.
    commands = ["" if f["go_on"] else _line(f["command"] or "") for f in folders]
    typed = [command.removeprefix("attomaton ") for command in commands]
    if room >= LEAST:
        header.append("command")
        for row, command in zip(rows, typed, strict=True):
            row.append(cut(command, room))
    head, *lines = table(header, rows).splitlines()
    text, stopped = [head], {f["path"] for f in folders if f["state"] == "interrupted"}
    for line, command, f in zip(lines, typed, folders, strict=True):
        text.append(line)
        if command and room < LEAST:
            text.append(f"  {cut(command, width - 2)}")
        text += [f"  {said}" for said in _remarks(f, stopped)]
    return "\n".join(text)


def check_text(folders: Sequence[Record]) -> str:
    """Folders with their verdicts, the reasons below each."""
    rows = [
        [_line(f["shown"]), _line(f["kind"]), size, f["verdict"]] for f, size in _sized(folders)
    ]
    head, *lines = table(["name", "kind", "size", "verdict"], rows).splitlines()
    text = [head]
    for line, f in zip(lines, folders, strict=True):
        text += [line, *(f"  {_line(reason)}" for reason in f["reasons"])]
    verdicts = Counter(f["verdict"] for f in folders)
    said = ", ".join(f"{n} {verdict}" for verdict, n in verdicts.items())
    return "\n".join([*text, f"{counted(len(folders), 'folder')}: {said}"])


def _room(header: Sequence[str], rows: Sequence[Sequence[object]], width: int) -> int:
    """Characters that are left for one more column."""
    return width - max(map(len, table(header, rows).splitlines())) - 2


def _sized(folders: Sequence[Record]) -> list[tuple[Record, str]]:
    """Folders with their sizes, those to the right of a column."""
    sizes = [size_text(f["bytes"]) for f in folders]
    width = max(len("size"), *map(len, sizes))
    return [(f, size.rjust(width)) for f, size in zip(folders, sizes, strict=True)]


def _remarks(f: Record, stopped: Collection[str]) -> list[str]:
    if f["place"] in stopped:  # which says it all
        return [f"checkpoint of {_line(f['place'])}"]
    said = [_line(f["note"])] if f["note"] else []
    done = done_text(f["done"])
    if f["go_on"] and f["state"] == "interrupted":
        said.append(_line(f"{done + '; ' if done else ''}go on: {f['go_on']}"))
    elif done:
        said.append(done)
    return said


def done_text(done: Record | None) -> str:
    """How much of some work is done.

    >>> done_text({"done": 3, "of": 9, "what": "claims"})
    '3 of 9 claims done'
    """
    if done is None:
        return ""
    if done["of"] is None:
        return done["what"]
    return f"{done['done']:,} of {done['of']:,} {done['what']} done"


# One folder


def folder_text(f: Record) -> str:
    """All that a folder says of itself."""
    kind = title(f["kind"], f["maker"])
    took = "" if f["seconds"] is None else f", {f['seconds']:.1f} s of work"
    unlike = f["begins_anew"]
    lines = [
        _line(f"{f['path']}: {kind}, {f['state']}"),
        *_headed("note", [f["note"]]),
        *_headed("so far", [done_text(f["done"])]),
        *_headed("go on", [f["go_on"]]),
        *_headed("but", [f"it would begin anew: {'; '.join(unlike)}"] if unlike else []),
        *_headed("when", [f"{when_text(f['when'])} UTC{took}"]),
        *_headed("command", [] if f["go_on"] else [f["command"]]),
        *_headed("settings", _pairs(f["settings"], setting_text)),
        *_headed("versions", [", ".join(f"{k} {v}" for k, v in f["versions"].items())]),
        *_headed("figures", _pairs(f["figures"], value_text)),
        *_headed("log", _log(f["log"])),
        *_headed("files", _files(f["files"], f["bytes"])),
    ]
    return "\n".join(lines)


def _headed(title: str, lines: Sequence[str | None]) -> list[str]:
    lines = [_line(line) for line in lines if line]
    return [f"{title if i == 0 else '':<9} {line}" for i, line in enumerate(lines)]


def _pairs(record: Record, text: Callable[[Any], str]) -> list[str]:
    width = max((len(name) for name in record), default=0)
    return [f"{name:<{width}}  {text(value)}" for name, value in record.items()]


def _log(log: Record) -> list[str]:
    lines = [
        f"{line['event']:<11} {line['time'][:19].replace('T', ' ')}" for line in log["processes"]
    ]
    if len(lines) > SHOWN:
        lines[SHOWN // 2 : -SHOWN // 2] = [f"… {len(lines) - SHOWN} more"]
    names = {"done": "finished", "found": "found finished", "failed": "failed"}
    pieces = [f"{n:,} {names.get(event, event)}" for event, n in log["pieces"].items()]
    return [*lines, *([f"pieces: {', '.join(pieces)}"] if pieces else [])]


def _files(files: Sequence[Record], total: int) -> list[str]:
    count = sum(f["files"] for f in files)
    sizes = [size_text(f["bytes"]) for f in files]
    width = max((len(f["name"]) for f in files), default=0)
    right = max(map(len, sizes), default=0)
    lines = [f"{size_text(total)} in {counted(count, 'file')}"]
    for f, size in zip(files, sizes, strict=True):
        many = f"  {counted(f['files'], 'file')}" if f["name"].endswith("/") else ""
        lines.append(f"  {f['name']:<{width}}  {size:>{right}}{many}")
    return lines


# Two folders


def difference_text(d: Record) -> str:
    """Two folders side by side: what differs, and what does not in one word."""
    kind = title(d["kind"], d["maker"])
    lines = [_line(f"A  {d['a']}"), _line(f"B  {d['b']}")]
    if d["same"]:
        same = _SAME.get(kind, "settings, versions, figures and tables are the same.")
        return "\n".join([*lines, f"no difference: {same}"])
    if d["states"][0] != d["states"][1]:
        lines.append(f"state: {d['states'][0]} / {d['states'][1]}")
    for name in ("settings", "versions"):
        rows = [[r["name"], setting_text(r["a"]), setting_text(r["b"])] for r in d[name]]
        if rows:
            lines += ["", table([name, "A", "B"], rows)]
        elif name == "settings" or d["kind"] != "sweep":  # a sweep keeps no versions
            lines += ["", f"{name}: no difference"]
    lines += ["", *_figures(d["figures"])]
    for name, text in _PARTS.items():
        if name in d:
            lines += ["", *map(_line, text(d[name]))]
    return "\n".join(lines)


_SAME = {
    "model": "settings, versions, figures, graphs and scores are the same, bit for bit.",
    "sweep": "settings and every cell are the same, bit for bit.",
    "run of train": "settings, versions and all that was measured are identical, bit for bit.",
}


def _figures(rows: Sequence[Record]) -> list[str]:
    unlike = [r for r in rows if not r["same"]]
    if not unlike:
        return [f"figures: no difference ({len(rows)} compared)"]
    shown = [
        [r["name"], value_text(r["a"]), value_text(r["b"]), _change(r.get("difference"))]
        for r in unlike
    ]
    same = len(rows) - len(unlike)
    lines = [table(["figures", "A", "B", "B − A"], shown)]
    return [*lines, f"{same} more are the same"] if same else lines


def _change(x: int | float | None) -> str:
    return "" if x is None else f"{x:+,}" if isinstance(x, int) else f"{x:+.4g}"


def _graphs(g: Record) -> list[str]:
    if g["same"]:
        return ["graphs and scores: identical, bit for bit"]
    both = g["in_both"]
    lines = [f"graphs: {both['pairs']:,} pairs and {both['edges']:,} edges are in both"]
    for sort, change in product(("tokens", "last_tokens"), ("gained", "lost")):
        part = g[sort][change]
        if part["count"]:
            words = ", ".join(map(visible, part["examples"]))
            more = ", …" if part["count"] > len(part["examples"]) else ""
            lines.append(f"{_count(part, sort.replace('_', ' '))} {change}: {words}{more}")
    for sort, change, how in _CHANGES:
        part = g[sort][change]
        if part["count"]:
            lines.append(f"{_count(part, sort)} {how}:")
            lines += [
                f"  after {visible(e['last'])}: {_changed(sort, e)}" for e in part["examples"]
            ]
    for whose, name in (("of_a", "A"), ("of_b", "B")):
        lines += _answers(g["answers"][whose], name)
    moved = g["moved"]
    said = [f"weights of {moved['edge_weights']:,} edges"] if moved["edge_weights"] else []
    said += [f"{k} by up to {moved[k]:.4g}" for k in ("svm_score", "log_pi") if moved[k]]
    return [*lines, *([f"in both, but moved: {', '.join(said)}"] if said else [])]


_CHANGES = (
    ("edges", "gained", "gained, those of the most samples first"),
    ("edges", "lost", "lost, those of the most samples first"),
    ("components", "split", "split (tied in A, apart in B)"),
    ("components", "merged", "merged (apart in A, tied in B)"),
    ("orders", "tied", "turned (strict in A, tied in B)"),
    ("orders", "apart", "turned (tied in A, apart in B)"),
    ("orders", "reversed", "turned (the other way in B)"),
)


def _changed(sort: str, e: Record) -> str:
    """An edge, a component or an order that changed, in words."""
    if sort == "components":
        return _few(" | ", [_few(" ~ ", map(visible, x)) for x in e["groups"]])
    between = " over " if sort == "edges" else ", "
    return f"{visible(e['winner'])}{between}{visible(e['loser'])} (weight {e['weight']:g})"


def _answers(part: Record, name: str) -> list[str]:
    """In how many contexts of a model two models answer otherwise, and the heaviest of them."""
    if not part["retrieved"] + part["likeliest"] + part["unanswered"]:
        return [f"answers: the same in all {part['contexts']:,} contexts of {name}"]
    lines = [
        f"answers in {part['contexts']:,} contexts of {name}: other tokens retrieved in {part['retrieved']:,}, another "
        f"one likeliest in {part['likeliest']:,}, none by one of the two in {part['unanswered']:,}; the same by "
        f"{share_text(part['same'])} of the weight"
    ]
    return lines + [
        f"  {{{_few(' ', map(visible, e['tokens']))}}} … {visible(e['last'])}: {visible(e['a'])} by A, "
        f"{visible(e['b'])} by B (weight {e['weight']:g})"
        for e in part["examples"]
    ]


def _few(sign: str, words: Iterable[str]) -> str:
    """The first few words, and how many more there are."""
    words = list(words)
    more = [f"… {len(words) - FEW} more"] if len(words) > FEW + 1 else []
    return sign.join([*(words[:FEW] if more else words), *more])


def _count(part: Record, noun: str) -> str:
    return f"{part['count']:,} {noun if part['count'] != 1 else noun.removesuffix('s')}"


def _training(t: Record) -> list[str]:
    if t["same"]:
        return ["training: identical, bit for bit"]
    seeds = counted(t["compared_seeds"], "seed")
    compared = f"{t['compared_steps']:,} recorded steps and {seeds} in both"
    first = t["first_difference"]
    lines = []
    if first is None:
        lines.append(f"training: identical, bit for bit, at the {compared}")
    else:
        lines.append(
            f"training: differs first at step {first['step']:,}, seed {first['seed']}: {first['metric']} "
            f"{value_text(first['a'])} / {value_text(first['b'])} ({compared})"
        )
    alone = [f"{n:,} only in {side.upper()}" for side, n in t["steps_alone"].items() if n]
    lines += [f"recorded steps: {', '.join(alone)}"] if alone else []
    if t["metrics_alone"]:
        lines.append(f"measured in one of them only: {', '.join(t['metrics_alone'])}")
    if t["parameters_identical"] is not None:
        lines.append(
            f"trained parameters: {'identical' if t['parameters_identical'] else 'differ'}"
        )
    return lines


def _cells(c: Record) -> list[str]:
    if c["same"]:
        return [f"cells: all {c['compared']:,} identical, bit for bit"]
    lines = [f"cells: {c['compared']:,} in both, {c['different']:,} of them differ"]
    lines += [f"  {_settings(e['settings'])}: {_outcomes(e['a'], e['b'])}" for e in c["examples"]]
    if c["different"] > len(c["examples"]):
        lines.append(f"  … and {c['different'] - len(c['examples']):,} more")
    for side in ("a", "b"):
        only = c[f"only_{side}"]
        if only:
            lines.append(f"only in {side.upper()}: {len(only):,} cells")
            lines += [f"  {_settings(cell)}" for cell in only[:3]]
            lines += [f"  … and {len(only) - 3:,} more"] if len(only) > 3 else []
    return lines


def _settings(cell: Record) -> str:
    return " ".join(f"{k}={v}" for k, v in cell.items())


def _outcomes(a: Any, b: Any) -> str:
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        unlike = [k for k in a if a[k] != b[k]] or list(a)
        return ", ".join(f"{k} {value_text(a[k])} / {value_text(b[k])}" for k in unlike)
    return " / ".join("finished" if isinstance(x, Mapping) else x or "not ended" for x in (a, b))


def _tables(t: Record) -> list[str]:
    if t["same"]:
        return [f"tables: identical ({', '.join(t['compared'])})"] if t["compared"] else []
    return [f"tables that differ: {', '.join(t['different'])}"]


_PARTS = {"graphs": _graphs, "training": _training, "cells": _cells, "tables": _tables}


# Removal


def removal_text(folders: Iterable[Record], verb: str) -> str:
    """The folders that are, or would be, deleted."""
    rows = [[verb, f["path"], f["kind"], f["state"], size_text(f["bytes"])] for f in folders]
    return table([""] * 5, rows).removeprefix("\n")
