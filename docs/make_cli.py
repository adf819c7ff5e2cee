"""Writes docs/cli.md from the command line's own definitions: `python docs/make_cli.py`."""

from pathlib import Path
from typing import Any

import typer

from attomaton.cli.main import app

INTRO = """# Commands

Results go to stdout, everything else to stderr; `--json` prints the result as one JSON object with
`schema_version`. `--debug` shows where an error came from.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | a fault of attomaton itself, of the disk, or too little memory |
| 2 | a command or option that makes no sense |
| 3 | data that cannot be read, or that break an assumption of the theorem |
| 4 | no certified answer; training diverged; an experiment was not reproduced |
| 5 | some cells of a sweep failed |
| 6 | answered, but the model does not know some tokens of the context; they are marked |
| 130 | interrupted, by Ctrl-C or SIGTERM |

Ctrl-C and SIGTERM end every command at once, at any moment, with one line that says what is kept; the same
command again goes on from there (`fit`, `train`, `tune`, `sweep`, `verify`, `dimensions`, and those of `reproduce` that
take long). A reader that leaves (`| head`) ends a command with exit code 0.

Work that takes longer than three seconds says how far it is: as a bar on a terminal, elsewhere as a line on
stderr every 15 seconds. Tokens and other text from files are shown with control characters, escapes and marks
that turn the direction of writing spelled out (`\\x1b`, `\\u202e`), and cut where they are long; JSON and
exported files hold them whole. Where an output cannot hold a character (an old code page) something plain
stands for it, and JSON is plain ASCII there. In tables saved as CSV a word that begins with `=`, `+`, `-`,
`@`, a tab or a line break has a `'` before it, so that no spreadsheet takes it for a formula.
"""


def pages(command: Any, path: str) -> list[str]:
    """One section for each command, groups opened up."""
    if hasattr(command, "commands"):
        return [s for name, c in command.commands.items() for s in pages(c, f"{path} {name}")]
    rows, words = [], [path]
    for p in command.params:
        name = p.name.upper() if p.param_type_name == "argument" else ""
        if name:
            words.append(name + ("…" if p.nargs == -1 else ""))
        shown = f"`{name}`" if name else ", ".join(f"`{o}`" for o in [*p.opts, *p.secondary_opts])
        if shown != "`--help`":
            default = "required" if p.required else plain(p.default)
            said = (p.help or "").replace("|", r"\|")  # a bar of its own would end the cell
            rows.append(f"| {shown} | {said} | {default} |")
    table = ["| argument or option | | default |", "|---|---|---|", *rows]
    said = [command.help.strip(), *([command.epilog.strip()] if command.epilog else [])]
    listed = [f"| `{name}` | {title} |" for name, title in command.rows()]
    if listed:
        table += ["", f"| {command.heading.lower()} | |", "|---|---|", *listed]
    return ["\n".join([f"## `{' '.join(words)}`", "", "\n\n".join(said), "", *table])]


def plain(default: Any) -> str:
    """A default as a person would say it."""
    return "" if default is None or default is False else f"`{default}`"


def text() -> str:
    """The whole page."""
    return "\n\n".join([INTRO.rstrip(), *pages(typer.main.get_command(app), "attomaton")]) + "\n"


if __name__ == "__main__":
    Path(__file__).with_name("cli.md").write_text(text(), encoding="utf-8")
