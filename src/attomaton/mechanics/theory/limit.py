"""The exact end point of training on a data set: direction, finite part, loss floor, certificates."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from attomaton.base.face import Tabular, figure_of
from attomaton.base.lazily import pa
from attomaton.base.progress import Progress, quiet
from attomaton.base.shapes import Float, Int
from attomaton.corpus.samples import Samples, expect_samples
from attomaton.corpus.vocabulary import Label
from attomaton.errors import SolverError, UsageError, counted
from attomaton.mechanics.data import Embeddings, check_embeddings, expect_rows
from attomaton.mechanics.theory.finite import FiniteComponent, finite_component
from attomaton.mechanics.theory.graph import PriorityGraph, build_graph
from attomaton.mechanics.theory.information import StandardErrors, luce_errors
from attomaton.mechanics.theory.svm import COUPLED_PAIRS, GraphSVM, graph_svm
from attomaton.results import absent

if TYPE_CHECKING:
    from attomaton.corpus.windows import Windows
    from attomaton.mechanics.theory.norms import Norm, NormLimit

# Width above which a dense d×d matrix is refused (two of them would take 400 MB)
DENSE_WIDTH = 5000

Table = Embeddings | np.ndarray | Sequence[Any]

ADDING = (
    "samples", "distinct_samples", "last_tokens", "pairs", "edges", "components",
    "cyclic_components", "pairs_in_cyclic", "cyclic_samples",
)  # fmt: skip


@dataclass(frozen=True)
class Certificates:
    """How far an answer can be trusted, recomputed from the samples; all 0 is a proof."""

    svm_primal: float
    svm_dual: float
    svm_gap: float
    luce_gradient: float
    luce_error: float | None = absent()  # models written before it was kept have none


@dataclass(frozen=True)
class Summary:
    """A data set and its limit in counts; `windows` are the contexts looked at, `dropped` those set aside."""

    tokens: int
    vocab: int
    windows: int
    samples: int
    distinct_samples: int
    dropped: int
    last_tokens: int
    pairs: int
    edges: int
    components: int
    cyclic_components: int
    pairs_in_cyclic: int
    largest_component: int
    levels: int
    cyclic_samples: int
    loss_floor: float
    svm_norm: float
    finite_norm: float
    certificates: Certificates


@dataclass(frozen=True, eq=False, repr=False)
class Limit(Tabular):
    """What a self-attention layer learns from these samples, in the limit of training.

    W(τ)/‖W(τ)‖ tends to `svm`'s direction (hard retrieval), the part of W(τ) inside S_fin to `finite`
    (soft composition), and the loss to `finite.loss_floor`. `embeddings` is None for the standard basis. As a table it
    has one row for each pair of a last token and a token seen with it: `last`, `token`, `component` (numbered within
    the last token), `level`, `svm_score`, `log_pi`.

    >>> from attomaton import example_samples, solve_limit
    >>> limit = solve_limit(example_samples())
    >>> limit
    Limit(3 last tokens, 12 tokens, loss floor 0.464158, ‖W_svm‖ 3.34664, ‖W_fin‖ 0.961133)
    >>> limit.to_arrow().select(["last", "token", "level"]).to_pylist()[1]
    {'last': 'bell', 'token': 'espresso', 'level': 0}
    """

    samples: Samples
    graph: PriorityGraph
    svm: GraphSVM
    finite: FiniteComponent
    embeddings: Embeddings | None = None
    direction: "NormLimit | None" = (
        None  # in the norm that was asked for; None: `svm`, in Frobenius'
    )

    def _in_short(self) -> str:
        return (
            f"{counted(len(self.graph.last_tokens), 'last token')}, {counted(len(self.graph.vocabulary), 'token')}, "
            f"loss floor {self.finite.loss_floor:.6g}, ‖W_svm‖ {self.svm.norm:.6g}, ‖W_fin‖ {self.finite.norm:.6g}"
        )

    def _notes(self) -> str:
        off = "" if self.finite.error is None else f"; log-odds within {self.finite.error:.1e} nats"
        return f"Certified: worst residual of W_svm {self.svm.certificate.worst:.1e}{off}."

    def to_arrow(self) -> Any:
        """One row for each pair of a last token and a token, in words, as a `pyarrow.Table`."""
        graph = self.graph
        return pa.table(
            {
                "last": graph.vocabulary.column(graph.pair_last),
                "token": graph.vocabulary.column(graph.pair_token),
                "component": graph.component_number,
                "level": graph.level[graph.component],
                "svm_score": self.svm.score,
                "log_pi": self.finite.log_pi,
            }
        )

    @property
    def dependent(self) -> bool:
        """Whether tokens may tie that no cycle of the data goes through: their vectors depend on each other."""
        return self.embeddings is not None and not self.embeddings.independent

    def plot(self, last: Label) -> Any:
        """Who outranks whom after one last token, as a `matplotlib.figure.Figure`; `last` is its label."""
        return figure_of(self, self.graph.last_token(last))

    def dense(
        self, coefficient: Float[np.ndarray, " pairs"]
    ) -> Float[np.ndarray, "key_width query_width"]:
        """Σ_p M_p e_x e_kᵀ written out: W_svm from `svm.coefficient`, W_fin from `finite.coefficient`."""
        graph = self.graph
        check_dense(len(graph.vocabulary), self.embeddings)
        return dense_matrix(
            len(graph.vocabulary), self.embeddings, graph.pair_last, graph.pair_token, coefficient
        )

    def scores(
        self,
        coefficient: Float[np.ndarray, " pairs"],
        last: Int[np.ndarray, " n"],
        token: Int[np.ndarray, " n"],
        pair: Int[np.ndarray, " n"] | None = None,
    ) -> Float[np.ndarray, " n"]:
        """e_xᵀ W e_q for many last tokens q and tokens x, seen together or not; `pair` is where they were looked up.

        −1 stands for a token outside the vocabulary: its vector is unknown to W, so its score is 0. With
        orthonormal embeddings the same holds for tokens never seen together.
        """
        graph, K = self.graph, len(self.graph.vocabulary)
        if self.embeddings is None or self.embeddings.orthonormal:
            pair = graph.pairs(last, token) if pair is None else pair
            seen = pair >= 0
            return np.where(seen, coefficient[pair], 0.0) if seen.any() else np.zeros(len(pair))
        from scipy.sparse import csr_array

        keys, queries = self.embeddings.keys, self.embeddings.queries
        M = csr_array((coefficient, (graph.pair_last, graph.pair_token)), shape=(K, K))
        lasts, which = np.unique(last, return_inverse=True)
        W = queries.T @ (M @ keys)  # one row for each dimension of the last token
        S = (queries[lasts] @ W)[which]
        return np.where((last >= 0) & (token >= 0), (S * keys[token]).sum(axis=1), 0.0)

    def standard_errors(self, windows: "Windows | None" = None) -> StandardErrors:
        """How sure the soft numbers are, from the observed information of the Luce fits.

        With the `windows` it was fitted to, windows of one sequence (a case of an event log, a document of a text)
        count as dependent; contexts that were given as such are then a sequence each. A limit with dependent
        embeddings is a `UsageError`: there ties do not come from cycles alone.

        >>> from attomaton import samples_from_sequences, solve_limit
        >>> limit = solve_limit(samples_from_sequences([["tea", "bell"]] * 4, ["tea", "tea", "tea", "bell"]))
        >>> odds = limit.standard_errors().odds("bell", "tea", "bell")  # of 3 to 1: √(1/3 + 1/1)
        >>> round(odds.value, 6), round(odds.se, 6)
        (1.098612, 1.154701)
        """
        if self.dependent:
            raise UsageError(
                "standard errors are those of tokens that cycles of the data tie; these embeddings depend on each "
                "other and tie others, too."
            )
        return luce_errors(self.graph, self.samples, self.finite.log_pi, windows)

    def errors_after(self, last: int) -> StandardErrors:
        """As `standard_errors`, of one last token alone; pairs are numbered as in its own graph."""
        rows = np.arange(*np.searchsorted(self.samples.last, [last, last + 1]))
        log_pi = self.finite.log_pi[self.graph.pairs_of(last)]
        return luce_errors(self.graph.only(last), self.samples.take(rows), log_pi)

    def summary(self) -> Summary:
        """The data set and its limit in counts: what `attomaton fit` prints."""
        samples, graph, svm, finite = self.samples, self.graph, self.svm, self.finite
        return Summary(
            tokens=samples.tokens,
            vocab=len(graph.vocabulary),
            windows=samples.windows,
            samples=int(samples.rows.sum()),
            distinct_samples=len(samples),
            dropped=samples.set_aside.rows,
            last_tokens=len(graph.last_tokens),
            pairs=len(graph.pair_last),
            edges=len(graph.edge_from),
            components=len(graph.level),
            cyclic_components=int((graph.component_size > 1).sum()),
            pairs_in_cyclic=int(graph.cyclic.sum()),
            largest_component=int(graph.component_size.max()),
            levels=int(graph.level.max()) + 1,
            cyclic_samples=finite.cyclic_samples,
            loss_floor=finite.loss_floor,
            svm_norm=svm.norm,
            finite_norm=finite.norm,
            certificates=Certificates(
                svm.certificate.primal, svm.certificate.dual, svm.certificate.gap,
                finite.gradient, finite.error,
            ),
        )  # fmt: skip


def expect_limit(x: object) -> None:
    """Refuse what was passed where a limit is needed, with how to get one."""
    if not isinstance(x, Limit):
        raise UsageError(
            f"limit: {type(x).__name__} is no Limit. Make one with solve_limit(samples), or open_model(folder)."
        )
    if x.embeddings is not None and x.embeddings.split is not None:
        raise UsageError(
            "limit: it is that of a decoder with keys and queries of its own, not of attention over samples. Its "
            "matrices are limit.dense(limit.svm.coefficient) and limit.dense(limit.finite.coefficient)."
        )


def check_dense(K: int, embeddings: Embeddings | None) -> None:
    """Refuse to write out a matrix over K tokens that nobody could hold."""
    width = K if embeddings is None else embeddings.E.shape[1]
    if width > DENSE_WIDTH:
        raise UsageError(
            f"a dense matrix of width {width:,} over {K:,} tokens is refused (limit "
            f"{DENSE_WIDTH:,}); the scores on the observed pairs hold the same answer."
        )


def dense_matrix(
    K: int,
    embeddings: Embeddings | None,
    last: Int[np.ndarray, " pairs"],
    token: Int[np.ndarray, " pairs"],
    coefficient: Float[np.ndarray, " pairs"],
) -> Float[np.ndarray, "key_width query_width"]:
    """Σ_p M_p e_x e_kᵀ over pairs of a last token k and a token x."""
    from scipy.sparse import csr_array

    M = csr_array((coefficient, (token, last)), shape=(K, K))
    return M.toarray() if embeddings is None else embeddings.keys.T @ (M @ embeddings.queries)


def merge_summaries(parts: Sequence[tuple[float, Summary]]) -> Summary:
    """The summary of a whole corpus from those of its parts, each with its total weight.

    Parts hold whole last tokens, so counts add up, squared norms too, and the worst certificate is the whole's.
    """
    weights, summaries = zip(*parts, strict=True)
    worst: list[Any] = [  # None where a part was written before it was kept
        None if None in told else max(told)
        for told in zip(*(astuple(s.certificates) for s in summaries), strict=True)
    ]
    floors = (w * s.loss_floor for w, s in zip(weights, summaries, strict=True))
    return replace(
        summaries[0],  # tokens, vocab, windows and dropped speak of the corpus in every part
        **{name: sum(getattr(s, name) for s in summaries) for name in ADDING},
        largest_component=max(s.largest_component for s in summaries),
        levels=max(s.levels for s in summaries),
        loss_floor=math.fsum(floors) / math.fsum(weights),
        svm_norm=math.sqrt(sum(s.svm_norm**2 for s in summaries)),
        finite_norm=math.sqrt(sum(s.finite_norm**2 for s in summaries)),
        certificates=Certificates(*worst),
    )


def solve_limit(
    samples: Samples | None = None,
    embeddings: Table | None = None,
    stage: Callable[[str, float | None], None] = lambda name, seconds: None,
    norm: "Norm" = "frobenius",
    *,
    keys: Table | None = None,
    queries: Table | None = None,
    support: Table | None = None,
    progress: Progress = quiet,
) -> Limit:
    """The limit of training on these samples.

    `embeddings` are a matrix, one row per token; without them the tokens are the standard basis. `norm` is the one
    whose steepest steps train: "frobenius" (gradient descent), "max" (signs, Adam without ε), "spectral" (Muon),
    "nuclear" (W = K Qᵀ from a small start), or the p of an entrywise norm (mirror descent). Its direction is then
    `direction`; `svm` stays that of gradient descent, `finite` and the loss floor are the same for all.

    Instead of samples a linear decoder may be given, whose logits for context j are keys · W queries[j]: `queries` are
    the vectors of contexts, `keys` those of tokens (without them the standard basis), and `support[j, v]` says how
    often token v came after context j, 0 outside its support.
    `stage(name, None)` is called when a stage begins and `stage(name, seconds)` when it ends; `progress` is told how
    far the one is that may take minutes, where embeddings tie some differences and leave some strict.

    >>> from attomaton.corpus.windows import samples_from_sequences
    >>> limit = solve_limit(samples_from_sequences([[0, 1, 2], [1, 2]], [0, 1]))
    >>> limit.svm.score.round(9).tolist(), limit.finite.loss_floor
    ([1.0, 0.0, -1.0], 0.0)
    """
    # Whoever only opens a limit needs no solver.
    from attomaton.mechanics.theory import dependent, extremes
    from attomaton.mechanics.theory.decoder import decoder_samples
    from attomaton.mechanics.theory.mixed import mixed
    from attomaton.mechanics.theory.norms import check_norm, norm_limit

    if keys is not None or queries is not None or support is not None:
        if samples is not None or embeddings is not None:
            raise UsageError("solve_limit takes samples, or keys, queries and support, not both.")
        samples, embeddings = decoder_samples(keys, queries, support)
    expect_samples(samples)
    assert samples is not None
    norm = check_norm(norm)
    if embeddings is not None and not isinstance(embeddings, Embeddings):
        embeddings = check_embeddings(embeddings, len(samples.vocabulary))
    if embeddings is not None:
        expect_rows(embeddings.E, len(samples.vocabulary))

    def timed(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        stage(name, None)
        begin = time.perf_counter()
        answer = function(*arguments)
        stage(name, time.perf_counter() - begin)
        return answer

    graph = timed("graph", build_graph, samples)
    few = embeddings is None or embeddings.orthonormal or len(graph.pair_last) <= COUPLED_PAIRS
    if embeddings is None or (embeddings.independent and few):
        finite = timed("luce", finite_component, graph, samples, embeddings)
        svm = timed("svm", graph_svm, graph, samples, embeddings)
    elif (whole := timed("ties", extremes.all_tied, graph, samples, embeddings)) is not None:
        graph, finite = whole
        # Nothing is above anything: 0 whatever the embeddings.
        svm = timed("svm", graph_svm, graph, samples)
    elif (apart := timed("svm", extremes.tied_apart, graph, samples, embeddings)) is not None:
        graph, finite, svm = apart
    elif (both := timed("ties", mixed, graph, samples, embeddings, progress)) is not None:
        graph, finite, svm = both
    else:
        features = timed("ties", dependent.pair_features, graph, embeddings)
        ties = timed("ties", dependent.linear_ties, graph, features)
        graph = ties.graph
        finite = timed("luce", dependent.dependent_finite, ties, samples)
        svm = timed("svm", dependent.dependent_svm, ties, samples)
    check_finite(graph, finite, svm)
    direction = None
    if norm != "frobenius":
        direction = timed("norm", norm_limit, graph, samples, embeddings, norm)
    return Limit(samples, graph, svm, finite, embeddings, direction)


def check_finite(graph: PriorityGraph, finite: FiniteComponent, svm: GraphSVM) -> None:
    """Refuse an answer that holds a number no file could: a certificate can be right about the rest."""
    found: dict[str, float | np.ndarray] = {
        "loss floor": finite.loss_floor, "‖W_fin‖": finite.norm, "‖W_svm‖": svm.norm,
        "log π": finite.log_pi, "scores of W_fin": finite.score, "coefficients of W_fin": finite.coefficient,
        "scores of W_svm": svm.score, "coefficients of W_svm": svm.coefficient, "multipliers": svm.multiplier,
        "weights of edges": graph.edge_weight,
    }  # fmt: skip
    wrong = [name for name, value in found.items() if not np.isfinite(value).all()]
    if wrong:
        raise SolverError(
            f"limit: numbers beyond float64 in {', '.join(wrong)}. Rescale weights and embeddings towards 1."
        )
