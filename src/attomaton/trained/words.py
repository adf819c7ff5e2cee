"""The tokens of a trained model by id, from its `tokenizer.json`: what the rows of its embeddings stand for."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attomaton.disk.formats import read_json
from attomaton.errors import DataError, visible

EOS = "<eos>"  # the reader's token for a line end
LINE_ENDS = ("<eos>", "Ċ", "\n", "<0x0A>")  # how vocabularies spell it


@dataclass(frozen=True, eq=False)
class Words:
    """Tokens and their ids, as a tokenizer spells them; `file` is the tokenizer."""

    file: Path
    ids: Mapping[str, int]

    def id_of(self, token: object, end: int | None = None) -> int | None:
        """The id of a token, None where there is none; a line end is whatever the vocabulary spells it as."""
        if token == EOS:
            spelled = (self.ids[x] for x in LINE_ENDS if x in self.ids)
            return next(spelled, end)
        return self.ids.get(str(token))


def read_words(path: Path, vocab: int) -> Words | None:
    """The tokens that a tokenizer's file lists, all within the vocabulary; None where there is no such file."""
    if not os.path.lexists(path):
        return None
    said = read_json(Path(os.path.realpath(path)))
    model = said.get("model") if isinstance(said, dict) else None
    listed = model.get("vocab") if isinstance(model, dict) else None
    ids = _ids(listed)
    if ids is None or not isinstance(said, dict):
        raise DataError(
            f"{path}: model.vocab is neither a table of ids by token nor a list of tokens."
        )
    added = said.get("added_tokens")
    for entry in added if isinstance(added, list) else ():
        if not isinstance(entry, dict) or type(entry.get("content")) is not str:
            raise DataError(f"{path}: one of added_tokens has no content.")
        ids[entry["content"]] = entry.get("id")
    wrong = [x for x, i in ids.items() if type(i) is not int or not 0 <= i < vocab]
    if wrong:
        raise DataError(
            f"{path}: {len(wrong):,} tokens have no id from 0 to {vocab - 1}, the first is {visible(wrong[0])!r}; "
            "tokenizer and weights belong to different models."
        )
    return Words(path, ids)


def _ids(listed: Any) -> dict[str, Any] | None:
    """Ids by token: of a table as it is, of a list (of tokens with their scores) by place."""
    if isinstance(listed, dict):
        return dict(listed)
    fits = isinstance(listed, list) and all(
        isinstance(x, list) and x and isinstance(x[0], str) for x in listed
    )
    return {x[0]: i for i, x in enumerate(listed)} if fits else None
