"""Where the vectors of tokens come from: nowhere (orthonormal), a file, or drawn once the vocabulary is known."""

import os
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from attomaton.corpus.vocabulary import Label, Vocabulary, fingerprint
from attomaton.disk.formats import matrix_file, read_json, read_matrix, read_text
from attomaton.errors import DataError, UsageError, whole_number
from attomaton.mechanics.data import Embeddings, check_embeddings

WIDEST = 100_000  # dimensions that may be asked for
VECTORS = ("embeddings", "vocabulary", "dimension")  # options that say where vectors come from


@dataclass(frozen=True, eq=False)
class Source:
    """What was asked for: a `table` whose rows stand for the tokens of a `vocabulary`, or a `dimension` to draw in."""

    table: Embeddings | None = None
    vocabulary: Vocabulary | None = None
    file: str = ""
    dimension: int | None = None
    seed: int = 0

    @property
    def coupled(self) -> bool:
        """Whether last tokens may have to do with each other, so that a corpus cannot be cut into parts."""
        return self.dimension is not None or (self.table is not None and not self.table.orthonormal)

    @property
    def mark(self) -> str | None:
        """What was asked for, in a few letters."""
        if self.table is None:
            return self.words(0)
        words = [] if self.vocabulary is None else self.vocabulary.labels
        return sha256(fingerprint(words, self.table.E).encode()).hexdigest()

    def embeddings(self, K: int) -> Embeddings | None:
        """The vectors of K tokens; None for orthonormal ones."""
        if self.dimension is None:
            return self.table
        from attomaton.mechanics.synthetic import drawn_embeddings

        return drawn_embeddings(K, self.dimension, self.seed)

    def words(self, K: int) -> str | None:
        """What they are, in words; None for orthonormal ones, which nobody asked for."""
        if self.dimension is not None:
            return f"drawn: unit vectors in {self.dimension} dimensions, seed {self.seed}"
        return (
            None
            if self.table is None
            else f"{self.file}: {K:,} vectors in {self.table.E.shape[1]} dimensions"
        )


def embeddings_source(
    embeddings: Path | str | None = None,
    vocabulary: Path | str | None = None,
    dimension: int | None = None,
    seed: int | None = None,
) -> Source:
    """Embeddings as the options say: a matrix in a file (see `read_matrix`), or drawn in so many dimensions.

    Rows of a file stand for the integers 0, 1, … or for the tokens that the file `vocabulary` lists in their order.
    """
    if embeddings is not None and dimension is not None:
        raise UsageError("--embeddings reads vectors, --dimension draws them: give one of the two.")
    if vocabulary is not None and embeddings is None:
        raise UsageError(
            "--vocabulary says what the rows of --embeddings stand for: name that file."
        )
    if dimension is not None:
        d = whole_number("dimension", dimension, least=1, most=WIDEST)
        return Source(dimension=d, seed=whole_number("seed", seed or 0, least=0))
    if embeddings is None:
        return Source()
    table = check_embeddings(read_matrix(embeddings, "embeddings"))
    words = Vocabulary(range(len(table.E)))
    if vocabulary is not None:
        words = _listed_tokens(Path(vocabulary), len(table.E))
    return Source(table, words, str(embeddings))


def input_files(*names: Path | str | None) -> list[Path | None]:
    """The files behind names such as `FILE.safetensors:NAME`."""
    return [None if name is None else matrix_file(name)[0] for name in names]


def _listed_tokens(path: Path, rows: int) -> Vocabulary:
    """The tokens of a file in the order of their rows: a JSON list, a JSON table of rows by token, or lines of text."""
    path = Path(os.path.realpath(path))  # a link is fine here
    found: list[Label]
    if path.suffix.lower() == ".json":
        said = read_json(path)
        if isinstance(said, dict) and sorted(said.values(), key=str) == sorted(
            range(len(said)), key=str
        ):
            said = sorted(said, key=said.__getitem__)
        if not isinstance(said, list) or any(type(x) not in (str, int) for x in said):
            raise DataError(
                f"{path}: a list of tokens is needed, or a table that gives each a row from 0 on."
            )
        found = said
    else:
        found = list(read_text(path).splitlines())
    if len(found) != rows or len(set(found)) != rows:
        raise DataError(
            f"{path}: {len(found):,} tokens, {len(set(found)):,} of them different, for {rows:,} embeddings; "
            "one for each row is needed."
        )
    return Vocabulary(found)
