"""Runs docs/tutorial.py and docs/probing.py as notebooks: `python docs/make_tutorial.py [NAME …]`.

Cells begin at `# %%` (code) and `# %% [markdown]` (prose behind `# `). The outputs kept in docs/tutorial.ipynb are
those with WikiText-2 at hand; where it is not found, the notebook goes to docs/_site/ and the kept one stays as it is.
Needs attomaton[docs].
"""

import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
NOTEBOOKS = ("tutorial", "probing")
PATIENCE = 600  # seconds that one cell may take
MARK = re.compile(r"^# %%( \[markdown\])?\n", re.MULTILINE)


def cells(text: str) -> list[tuple[str, str]]:
    """The cells of a percent file: `("markdown" or "code", source)`.

    >>> cells("# %% [markdown]\\n# # Title\\n#\\n# words\\n\\n# %%\\n1 + 1\\n")
    [('markdown', '# Title\\n\\nwords'), ('code', '1 + 1')]
    """
    _, *parts = MARK.split(text)
    found = []
    for prose, body in zip(parts[::2], parts[1::2], strict=True):
        source = body.strip("\n")
        if prose:
            source = "\n".join(
                line.removeprefix("#").removeprefix(" ") for line in source.split("\n")
            )
        found.append(("markdown" if prose else "code", source))
    return found


def make(name: str, target: Path | None = None) -> Path:
    """Run every cell in a fresh kernel and write the notebook; where it was written."""
    import nbformat
    from nbclient import NotebookClient

    from attomaton.corpus.datasets import dataset_files
    from attomaton.errors import DataError

    if target is None:
        target = HERE / f"{name}.ipynb"
        try:
            if name == "tutorial":
                dataset_files("wikitext-2")
        except DataError:
            target = HERE / "_site" / target.name
            print(f"WikiText-2 was not found: the notebook goes to {target}.", file=sys.stderr)
    new = {"markdown": nbformat.v4.new_markdown_cell, "code": nbformat.v4.new_code_cell}
    notebook = nbformat.v4.new_notebook(
        cells=[
            new[kind](source, id=f"cell-{i}")
            for i, (kind, source) in enumerate(
                cells((HERE / f"{name}.py").read_text(encoding="utf-8"))
            )
        ]
    )
    client = NotebookClient(
        notebook,
        timeout=PATIENCE,
        kernel_name="python3",
        record_timing=False,  # times of execution would change the file at every run
        extra_arguments=["--log-level=40"],
    )
    client.execute(cwd=str(HERE))
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    target.parent.mkdir(exist_ok=True)
    nbformat.validate(notebook)
    nbformat.write(notebook, target)
    return target


if __name__ == "__main__":
    for name in sys.argv[1:] or NOTEBOOKS:
        print(make(name), file=sys.stderr)
