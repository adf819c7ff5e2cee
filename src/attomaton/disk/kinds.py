"""The kinds of folders: what each is called, which commands make it, and every name they write into it.

A new kind is one record in `KINDS`: what may be replaced, deleted, listed and checked goes by it. How a folder of a
kind is read, where it is not read as every run is, says `folders.kinds`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """One kind of folder; `version` is that of its format, `makers` are the commands that make such folders.

    `files` are the names at its top, each with the form of what lies in it, if it is a folder; `numbered` is the form
    of names that are counted; `inner` are those that are folders of ours again.
    """

    name: str
    version: int
    makers: tuple[str, ...]
    files: Mapping[str, str]
    numbered: str = ""
    inner: tuple[str, ...] = ()
    scratch: tuple[str, ...] = ()  # patterns of what is needed for the work alone
    # Of finished pieces of it: nobody throws them away without being told to
    pieces: tuple[str, ...] = ()
    reads: tuple[int, ...] = ()  # earlier versions that are still read
    grows: bool = False  # filled where it lies: its manifest lists all of it only when it has ended

    def holds(self, name: str) -> bool:
        """Whether its makers write a file or folder of this name, which is relative to the folder."""
        top, _, rest = name.partition("/")
        if rest:
            return top in self.files and re.fullmatch(self.files[top], rest) is not None
        return top in self.files or re.fullmatch(self.numbered, top) is not None

    def maker(self, said: str | None) -> str | None:
        """The command that made a folder of this kind which says this of it; None where nobody can know."""
        if len(self.makers) == 1:
            return self.makers[0]  # folders of earlier versions do not say it
        return said if said in self.makers else None


def _files(*names: str, **folders: str) -> dict[str, str]:
    return {**dict.fromkeys(names, ""), **folders}


_CORPUS = (
    r"(parts|vocabulary)\.json|(embeddings|slots)\.safetensors|runs|runs/\d+\.(run|at\.npy)|"
    r"shards|shards/\d+\.(ids|ends|map|json|run|at\.npy)"
)
_COLUMNS = r"\d+(-\d+)?\.parquet"
# The last three were written by earlier versions.
_SHARD = (
    r"\d+\.(edges|outline|ties|json|written\.json|half-\d+-\d+(\.torn-\d+)?|"
    r"cyclic|half-\d+\.\w+|\w+\.torn-\d+)"
)
_DIVIDED = rf"\d+|\d+/(graph|svm|luce|(luce|theta)-\d+|{_SHARD})"
# What `disk.provenance` and the pages write.
_TOLD = _files(
    "config.toml", "command.txt", "env.json", "summary.json", "status.json", "index.html",
    figures=r"[^/]+\.(svg|png)",
)  # fmt: skip
_LEVELS = (f"{x}.{y}" for x in ("sampled", "limit", "reduced") for y in ("parquet", "safetensors"))

KINDS = {
    kind.name: kind
    for kind in (
        Kind(
            "model", 3, ("fit",),
            _files("model.json", "vocabulary.json", "arrays.safetensors", samples=_COLUMNS, pairs=_COLUMNS,
                   edges=_COLUMNS, corpus=_CORPUS, divided=_DIVIDED),
            numbered=r"part-\d+\.json", scratch=("corpus", "divided", "part-*.json"),
            pieces=("part-*.json", "corpus/parts.json"),
        ),
        Kind(
            "run", 2, ("train", "demo", "dynamics", "reproduce", "dimensions", "bootstrap"),
            {**_TOLD, **_files(
                "metrics.parquet", "state.safetensors", "snapshots.safetensors", "checkpoint.safetensors",
                "vocabulary.json", "model",
                "data.parquet", "classes.toml", "result.json", *_LEVELS, checkpoints=r"[^/]+\.safetensors",
                pieces=r"\d+-\d+\.(json|safetensors)")},
            inner=("model",), scratch=("checkpoints", "pieces"),
            pieces=("checkpoint.safetensors", "checkpoints/*.safetensors", "pieces/*.json", "pieces/*.safetensors"),
        ),
        Kind(
            "sweep", 2, ("sweep",),
            _files("sweep.json", "results.parquet", pieces=r"\d+-[0-9a-f]{12}\.(parquet|json)"), grows=True,
        ),
        Kind(
            "verification", 2, ("verify",),
            {**_TOLD, **_files("panels.parquet", "report.html", "report.md", claims=r"[^/]+\.json")},
            pieces=("claims/*.json",),
        ),
        Kind(
            "probe", 1, ("probe", "snap"),
            {**_TOLD, **_files("model", "texts.json", "attention.safetensors")}, inner=("model",),
        ),
        Kind(
            "predictor", 3, ("tune",),
            _files("predictor.json", "vocabulary.json", "pairs.safetensors", "prior.safetensors", "ngrams.safetensors",
                   "stage.safetensors", pieces=r"[^/]+\.(parquet|safetensors)"),
            scratch=("pieces",), pieces=("pieces/*.parquet", "pieces/*.safetensors"), reads=(2,),
        ),
    )
}  # fmt: skip


def title(kind: str, maker: str | None) -> str:
    """A kind in words: with its command, where several make such folders and its name is another.

    >>> title("run", "train"), title("model", "fit"), title("run", None), title("probe", "probe")
    ('run of train', 'model', 'run', 'probe')
    """
    several = kind in KINDS and len(KINDS[kind].makers) > 1
    return f"{kind} of {maker}" if several and maker and maker != kind else kind


def made_by(maker: str) -> Kind:
    """The kind of folder that a command makes."""
    for kind in KINDS.values():
        if maker in kind.makers:
            return kind
    raise LookupError(f"no kind of folder is made by {maker!r}")
