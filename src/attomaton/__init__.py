"""What a self-attention layer learns from next-token prediction, exactly, on your data.

Nothing here imports JAX or touches a device until something is trained.
"""

# `typing` has it too, but takes longer to load than all else that is needed here
TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from attomaton.claims.registry import check_claim as check_claim
    from attomaton.corpus.example import example_samples as example_samples
    from attomaton.corpus.given import as_samples as as_samples
    from attomaton.corpus.given import as_windows as as_windows
    from attomaton.corpus.readers import read_samples as read_samples
    from attomaton.corpus.readers import read_windows as read_windows
    from attomaton.corpus.samples import Samples as Samples
    from attomaton.corpus.vocabulary import Vocabulary as Vocabulary
    from attomaton.corpus.windows import Windows as Windows
    from attomaton.corpus.windows import samples_from_sequences as samples_from_sequences
    from attomaton.errors import AssumptionError as AssumptionError
    from attomaton.errors import AttomatonError as AttomatonError
    from attomaton.errors import DataError as DataError
    from attomaton.errors import SolverError as SolverError
    from attomaton.errors import StorageError as StorageError
    from attomaton.errors import UsageError as UsageError
    from attomaton.estimator import NextTokenClassifier as NextTokenClassifier
    from attomaton.folders.model import open_model as open_model
    from attomaton.folders.model import save_model as save_model
    from attomaton.mechanics.data import check_embeddings as check_embeddings
    from attomaton.mechanics.experiment.path import PathPoint as PathPoint
    from attomaton.mechanics.experiment.path import norm_path as norm_path
    from attomaton.mechanics.experiment.path import penalty_path as penalty_path
    from attomaton.mechanics.experiment.train import Training as Training
    from attomaton.mechanics.experiment.train import train as train
    from attomaton.mechanics.synthetic import draw_samples as draw_samples
    from attomaton.mechanics.theory.automaton import Automaton as Automaton
    from attomaton.mechanics.theory.automaton import Explanation as Explanation
    from attomaton.mechanics.theory.graph import PriorityGraph as PriorityGraph
    from attomaton.mechanics.theory.graph import build_graph as build_graph
    from attomaton.mechanics.theory.inference import Inference as Inference
    from attomaton.mechanics.theory.inference import infer as infer
    from attomaton.mechanics.theory.limit import Limit as Limit
    from attomaton.mechanics.theory.limit import solve_limit as solve_limit
    from attomaton.predictor.estimator import NextTokenPredictor as NextTokenPredictor
    from attomaton.predictor.model import Predictor as Predictor
    from attomaton.predictor.scoring import score as score
    from attomaton.predictor.tune import tune as tune
    from attomaton.results import Evidence as Evidence
    from attomaton.scan_snap.data import SequenceClasses as SequenceClasses
    from attomaton.scan_snap.data import sequence_classes as sequence_classes
    from attomaton.scan_snap.levels import simulate as simulate
    from attomaton.scan_snap.trajectory import Dynamics as Dynamics
    from attomaton.summaries.coverage import coverage as coverage

__version__ = "0.1.0"

_HOME = {
    "AssumptionError": "errors",
    "AttomatonError": "errors",
    "Automaton": "mechanics.theory.automaton",
    "DataError": "errors",
    "Dynamics": "scan_snap.trajectory",
    "Evidence": "results",
    "Explanation": "mechanics.theory.automaton",
    "Inference": "mechanics.theory.inference",
    "Limit": "mechanics.theory.limit",
    "NextTokenClassifier": "estimator",
    "NextTokenPredictor": "predictor.estimator",
    "PathPoint": "mechanics.experiment.path",
    "Predictor": "predictor.model",
    "PriorityGraph": "mechanics.theory.graph",
    "Samples": "corpus.samples",
    "SequenceClasses": "scan_snap.data",
    "SolverError": "errors",
    "StorageError": "errors",
    "Training": "mechanics.experiment.train",
    "UsageError": "errors",
    "Vocabulary": "corpus.vocabulary",
    "Windows": "corpus.windows",
    "as_samples": "corpus.given",
    "as_windows": "corpus.given",
    "build_graph": "mechanics.theory.graph",
    "check_claim": "claims.registry",
    "check_embeddings": "mechanics.data",
    "coverage": "summaries.coverage",
    "draw_samples": "mechanics.synthetic",
    "example_samples": "corpus.example",
    "infer": "mechanics.theory.inference",
    "norm_path": "mechanics.experiment.path",
    "open_model": "folders.model",
    "penalty_path": "mechanics.experiment.path",
    "read_samples": "corpus.readers",
    "read_windows": "corpus.readers",
    "samples_from_sequences": "corpus.windows",
    "save_model": "folders.model",
    "score": "predictor.scoring",
    "sequence_classes": "scan_snap.data",
    "simulate": "scan_snap.levels",
    "solve_limit": "mechanics.theory.limit",
    "train": "mechanics.experiment.train",
    "tune": "predictor.tune",
}

__all__ = ["__version__", *sorted(_HOME)]  # noqa: PLE0604


def __getattr__(name: str) -> "Any":
    """Public names are loaded when first used, so that `attomaton --help` starts at once."""
    if name not in _HOME:
        raise AttributeError(f"module 'attomaton' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"attomaton.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
