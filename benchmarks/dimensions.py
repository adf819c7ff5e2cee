"""Some differences tied and some strict: ties by parts of the data against the linear program over all differences.

The first 5,000 tokens of WikiText-2's validation text with contexts of 16, unit vectors in 64 dimensions.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import process_time

from attomaton.corpus.readers import read_windows
from attomaton.corpus.reading import Reading
from attomaton.mechanics.synthetic import drawn_embeddings
from attomaton.mechanics.theory.extremes import Rows
from attomaton.mechanics.theory.graph import build_graph
from attomaton.mechanics.theory.interior import split
from attomaton.mechanics.theory.limit import solve_limit
from attomaton.mechanics.theory.matrices import Matrices
from attomaton.mechanics.theory.partial import partial_ties
from benchmarks.table import Row, say
from benchmarks.text import wikitext

TOKENS, D, CONTEXT = 5000, 64, 16


def piece(path: Path, tokens: int) -> str:
    """The first words of a text, line ends counted as words."""
    words = path.read_text(encoding="utf-8").replace("\n", " \n ").split(" ")
    return " ".join([word for word in words if word][:tokens])


def rows() -> Iterator[Row]:
    train = wikitext("dimensions")
    if train is None:
        return
    say(f"dimensions: {TOKENS:,} tokens in {D} dimensions")
    with tempfile.TemporaryDirectory() as folder:
        part = Path(folder) / "part.txt"
        part.write_text(piece(train.with_name("valid.txt"), TOKENS), encoding="utf-8")
        samples = read_windows(part, Reading(context=CONTEXT)).samples()
    embeddings = drawn_embeddings(len(samples.vocabulary), D, 0)
    graph = build_graph(samples)
    differences = Rows(
        Matrices.of(graph, embeddings), graph.edge_from, graph.edge_to, len(graph.edge_from)
    )
    seconds = []
    begin = process_time()
    known = partial_ties(graph, differences)
    seconds.append(process_time() - begin)
    _, tied = split(differences)
    seconds.append(process_time() - begin - seconds[0])
    limit = solve_limit(samples, embeddings)
    seconds.append(process_time() - begin - sum(seconds))
    same = "same ties" if (known.tied == tied).all() else "OTHER TIES"
    yield Row(
        "dimensions",
        f"one linear program / parts ({TOKENS:,} tokens, d={D}, {tied.mean():.0%} tied)",
        seconds[1] / seconds[0],
        f"{same}; limit in {seconds[2]:.0f} s of processor, residual {limit.svm.certificate.worst:.0e}",
        {"parts_s": seconds[0], "program_s": seconds[1], "limit_s": seconds[2]},
    )
