"""What `attomaton probe` and `attomaton snap` leave on the disk: a record, its page, and heads on some texts.

FOLDER/summary.json            the record: `Probe` or `Snap`
       index.html, figures/    to look at
       model/                  of a probe: the exact limit of the corpus, as `fit` writes it
       texts.json              of a probe: contexts, and what the automaton retrieves in them
       attention.safetensors   what every head attends to there, from the last place: (texts, layers, heads, length)
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from attomaton.base.shapes import Float
from attomaton.disk.formats import read_arrays, write_arrays, write_json
from attomaton.disk.records import read_record
from attomaton.disk.storage import check_folder, read_mark
from attomaton.errors import DataError
from attomaton.probe.records import Probe
from attomaton.probe.snapping import Snap
from attomaton.probe.texts import Text

TEXTS, ATTENTION = "texts.json", "attention.safetensors"


@dataclass(frozen=True)
class _Texts:
    texts: tuple[Text, ...]


def write_texts(
    folder: Path, texts: tuple[Text, ...], attention: Float[np.ndarray, "texts layers heads length"]
) -> None:
    """Write contexts and what every head attends to there."""
    write_json(folder / TEXTS, _Texts(texts))
    write_arrays(folder / ATTENTION, {"attention": np.ascontiguousarray(attention, np.float32)})


def read_probe(folder: Path | str) -> Probe | Snap:
    """The record of a folder."""
    place = check_folder(folder, "probe")
    kind: type[Probe] | type[Snap] = Snap if read_mark(place).maker == "snap" else Probe
    return read_record(place / "summary.json", kind)


def read_texts(
    folder: Path | str,
) -> tuple[tuple[Text, ...], Float[np.ndarray, "texts layers heads length"]]:
    """Contexts of a probe's folder and the attention of every head on them; none where it has none."""
    place = check_folder(folder, "probe")
    if not (place / TEXTS).is_file():
        return (), np.zeros((0, 0, 0, 0))
    texts = read_record(place / TEXTS, _Texts).texts
    attention = read_arrays(place / ATTENTION).get("attention", np.zeros(0))
    lengths = {len(x.tokens) for x in texts}
    fits = attention.ndim == 4 and len(attention) == len(texts) and lengths <= {attention.shape[3]}
    if not fits or any(x.shares is not None and len(x.shares) != len(x.tokens) for x in texts):
        raise DataError(f"{place}: {TEXTS} and {ATTENTION} do not fit together.")
    return texts, attention
