"""Scoring a model on files: the data it is asked about, and those its baselines are fitted on."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from attomaton.base.progress import Progress, quiet
from attomaton.corpus.readers import read_windows
from attomaton.corpus.reading import ReadAs, Reading
from attomaton.corpus.splits import History
from attomaton.corpus.windows import Windows
from attomaton.disk.records import as_record
from attomaton.disk.storage import is_folder
from attomaton.errors import DataError, UsageError
from attomaton.folders.model import ModelFolder, open_model
from attomaton.jobs.tune import read_corpora
from attomaton.predictor.model import Predictor
from attomaton.predictor.rivals.named import check_names
from attomaton.predictor.rivals.neural import SECONDS
from attomaton.predictor.scoring import Scores, score_limit, score_predictor


def score_run(
    model: Path,
    file: Path,
    *,
    reading: Reading,
    limit: Path | None = None,
    data: Path | None = None,
    validate: Path | None = None,
    baselines: Sequence[str] = (),
    history: Sequence[Path] = (),
    seconds: float = SECONDS,
    progress: Progress = quiet,
) -> Scores:
    """A predictor or a limit on unseen data, read as the training data were unless told.

    Contexts reach back into the files of `history`, the earliest first, where a sequence of the same name goes on; by
    default into those of a predictor whose own validation data went on.
    Baselines that are asked for by name are fitted on what the model was (`data`, `validate`, by default as recorded),
    networks for so many `seconds` each.
    """
    check_names(baselines)  # before anything is read
    if not 1.0 <= seconds < float("inf"):
        raise UsageError(f"seconds must be at least 1, not {seconds:g}.")
    if not is_folder(model, "predictor"):
        if limit is not None:
            raise UsageError("--limit goes with a predictor; this model is a limit itself.")
        opened = ModelFolder(model)
        how = reading.over(opened.record.reading)
        if baselines and validate is None:
            raise UsageError(
                "--baselines are mixed on validation data, and a limit has none; say --validate."
            )
        recorded = opened.record.data
        if data is None and (baselines or Path(recorded or "").is_file()):
            data = _recorded(recorded, "--data", model)
        train, valid = (None if x is None else read_windows(x, how) for x in (data, validate))
        windows = _going_on(read_windows(file, how), history, how)
        return score_limit(opened.limit(), windows, train, valid, baselines, progress, seconds)
    if not baselines and (data is not None or validate is not None):
        raise UsageError(
            "a predictor keeps its simple baselines; --data and --validate are for --baselines and for limits."
        )
    predictor = Predictor.open(model)
    how = reading.over(as_record(ReadAs, predictor.record["reading"], model))
    train = valid = None
    known = _data(predictor)
    goes_on = bool(predictor.record.get("history"))
    usual = goes_on and not history
    if usual:
        history = [_recorded(known.get(x), "--history", model) for x in ("train", "validate")]
    if baselines:
        data = data or _recorded(known.get("train"), "--data", model)
        if validate is None and not predictor.record.get("split"):  # which is the same each time
            validate = _recorded(known.get("validate"), "--validate", model)
        corpora = read_corpora(data, validate, how, goes_on)
        train, valid = corpora.train, corpora.valid
        _check_same(train, predictor, data)
    windows = _going_on(read_windows(file, how), history, how, certain=not usual)
    beside = None if limit is None else open_model(limit)
    return score_predictor(predictor, windows, beside, train, valid, baselines, progress, seconds)


def training_windows(model: Path, predictor: Predictor) -> Windows:
    """What a predictor was tuned on, read again as it was read then."""
    record = predictor.record
    how = Reading().over(as_record(ReadAs, record["reading"], model))
    data = Path(str(_data(predictor).get("train") or ""))
    if not data.is_file():
        raise DataError(
            f"{data}: {model} was tuned on these data, which are not there now (a relative path starts at the current "
            "folder); what lies behind its counts is read from them."
        )
    if record.get("split"):  # a part of it was set apart, the same each time
        train = read_corpora(data, None, how, bool(record.get("history"))).train
    else:
        train = read_windows(data, how)
    _check_same(train, predictor, data)
    return train


def _data(predictor: Predictor) -> Mapping[str, object]:
    """Which files a predictor was tuned on, as far as it says so."""
    kept = predictor.record.get("data")
    return kept if isinstance(kept, dict) else {}


def _going_on(
    windows: Windows, history: Sequence[Path], how: Reading, certain: bool = True
) -> Windows:
    """The windows, their contexts reaching back into earlier files: certainly, or where their order says so."""
    if not history:
        return windows
    if how.context is None:
        raise UsageError(
            "--history is about sequences, and rows of contexts are whole as they are."
        )
    known = History.of([read_windows(path, how) for path in history], how.context)
    if not certain and not known.precedes(windows):
        return windows
    try:
        return known.before(windows)
    except DataError as fault:
        raise DataError(f"{windows.origin}: {fault}") from None


def _recorded(path: object, option: str, model: Path) -> Path:
    """Data that a model was made from, where they still are."""
    what = {"--data": "training", "--validate": "validation"}.get(option, "earlier")
    if not isinstance(path, str) or not path:
        raise UsageError(f"{model}: does not say what its {what} data were; say {option} FILE.")
    if not Path(path).is_file():
        raise DataError(
            f"{path}: {model} was made from these {what} data, which are not there now (a relative path "
            f"starts at the current folder); say {option} FILE."
        )
    return Path(path)


def _check_same(train: Windows, predictor: Predictor, path: Path) -> None:
    """Whether training data are those of the predictor: other ones would make the baselines incomparable."""
    expected = predictor.record.get("train", {}).get("windows")
    same_words = set(train.vocabulary.labels) == set(predictor.vocabulary.labels)
    if not same_words or len(train) != expected:
        raise DataError(
            f"{path}: not what the predictor was tuned on ({len(train):,} windows over "
            f"{len(train.vocabulary):,} tokens, not {expected:,} over {len(predictor.vocabulary):,})."
        )
