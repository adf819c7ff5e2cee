"""Every claim and published figure by name: what is said, how it is checked, how large, and what is kept of it.

`verify`, `reproduce`, the report and the lab read this one list.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from attomaton.claims import (
    active_subspace,
    any_embeddings,
    attention_entropy,
    automaton_limit,
    collapse,
    components,
    consistency,
    convexity,
    critical_points,
    decoder_gain,
    disconnected,
    factorised,
    fates,
    general_heads,
    general_losses,
    global_protocol,
    gradient_descent,
    growth,
    interval_coverage,
    joma,
    learning_rates,
    linear_decoder,
    local_protocol,
    long_sequences,
    longest_chain,
    loss_floor,
    lp_margin,
    luce_identity,
    many_tokens,
    optimiser_norm,
    phase_transition,
    published,
    regularisation,
    scan_snap_figures,
    special_cases,
    step_bound,
    text_attention,
)
from attomaton.claims.published import Figure, Panels
from attomaton.errors import UsageError, nearest
from attomaton.results import Evidence, Result

CLASSES = "speaks of sequence classes with known distributions, not of a finite set of samples"
TRUTH = "is about data drawn from odds that are known: attomaton coverage speaks of yours"
FIGURE = "is a published experiment on data of its own"


@dataclass(frozen=True)
class Claim:
    """One claim: what it says, its check, and the arguments of each way to run it.

    `paper` is what it is called in the paper, where it has a name there.
    `data` are the arguments on a user's data, None where the claim does not speak about them, with the reason in `why`.
    One that is `long` takes minutes at its smallest: a quick verification leaves it out unless it is named, and
    `reproduce` has a quick version of it that can be resumed. A published experiment has its `figure`.
    """

    name: str
    title: str
    statement: str
    run: Callable[..., Evidence]
    quick: Mapping[str, int] = field(default_factory=dict)
    full: Mapping[str, int] = field(default_factory=dict)
    data: Mapping[str, int] | None = None
    why: str = ""
    long: bool = False
    figure: Figure | None = None
    paper: str = ""

    def named(self, evidence: Evidence) -> Evidence:
        """Evidence of this claim, with its name."""
        about = {k: getattr(self, k) for k in ("title", "statement", "paper")}
        return replace(evidence, claim=self.name, **about)

    def check(self, **arguments: Any) -> Evidence:
        """The claim put to the test."""
        return self.named(self.run(**arguments))


FORMULA = "rounding: the figure is a formula"
# A figure whose numbers are mostly curves
_of_curves = partial(Figure, big=("curves",), table=published.curves_table)


def _figure(name: str, title: str, statement: str, figure: Figure, **sizes: Any) -> Claim:
    number = name.partition("-fig")[2]
    paper = f"Figure {number}" if number else ""
    return Claim(
        name, title, statement, figure.check, why=FIGURE, figure=figure, paper=paper, **sizes
    )


def _settling(make: Callable[..., Result], published_as: str) -> Figure:
    """Figures 6 and 7 of Mechanics."""
    return Figure(
        make,
        "W/‖W‖ → W_svm(pseudo graph)/‖W_svm(pseudo graph)‖",
        local_protocol.settled(),
        f"published: {published_as}",
        published.local_means_panels,
        lambda r: {"cosine with the local W_svm": 1.0},
        published.means("cosine_local", "distance_local"),
        published.means("cosine_global", "outside_global", "distance_global"),
        big=("instances", "curves"),
    )


def _ordered(make: Callable[..., Result], formula: str, panels: Panels) -> Figure:
    """Figures 6, 11 and 12 of Scan and Snap."""
    return Figure(
        make,
        formula,
        "no pair contradicts by two standard errors, more obey than chance, "
        "largest difference ≥ 0.02",
        "pairs are compared stream by stream; by chance one in forty obeys by two standard errors",
        panels,
        lambda r: {"contradicting pairs": 0},
    )


_LIST = [
    Claim(
        "luce", "Attention is a Luce choice model",
        "A label's probability is its Luce choice probability, and the gradient by W is that by scores.",
        luce_identity.check, quick={"problems": 2}, full={"problems": 10}, data={},
    ),
    Claim(
        "convexity", "The log-loss is convex in W",
        "Along every line the log-loss lies below its chords, with a variance as its curvature.",
        convexity.check, quick={"lines": 6}, full={"problems": 12, "lines": 20}, data={"lines": 4},
    ),
    Claim(
        "loss-floor", "L* is the infimum of the loss",
        "No W has a loss below L*, and minimisers under falling penalties approach it.",
        loss_floor.check, full={"problems": 20, "drawn": 4000, "steps": 100_000}, data={},
    ),
    Claim(
        "T1", "Gradient descent finds W_svm and W_fin",
        "Gradient descent grows along W_svm while its part in S_fin tends to W_fin and its loss to L*.",
        gradient_descent.check, quick={"problems": 6}, full={"problems": 24}, data={"steps": 50_000},
        paper="Theorem 2",
    ),
    Claim(
        "T2", "The regularisation path ends at W_svm and W_fin",
        "Minimisers of growing norm have the same two limits as gradient descent.",
        regularisation.check, full={"problems": 20}, data={}, paper="Theorem 3, log-loss",
    ),
    Claim(
        "T3", "Acyclic data: one token is selected; fully cyclic data: W converges",
        "Acyclic data: W_fin = 0, attention selects one token; one component: W_svm = 0, W tends to W_fin + Π_⊥ W(0).",
        special_cases.check, quick={"problems": 4}, full={"problems": 12}, data={},
        paper="Section 4.1; Theorem 2, end",
    ),
    Claim(
        "T4", "The trained layer is the automaton",
        "Training ends in an automaton: hard retrieval of one component, then soft composition.",
        automaton_limit.check, quick={"problems": 3}, full={"problems": 8}, data={"steps": 50_000},
        paper="Figure 1",
    ),
    Claim(
        "T5", "Other heads and losses settle in a local direction",
        "With a tied head, descent aligns with the Graph-SVM of the order its own attention selects.",
        local_protocol.check, full={"seeds": 30},
        why="speaks of other heads and losses: attomaton train --head tied --loss squared shows them on your data",
        paper="Section 5",
    ),
    Claim(
        "no-critical-point", "Where tokens are outranked, no finite W has a gradient of 0",
        "At every finite W the loss falls along W_svm, by at least the attention on outranked tokens.",
        critical_points.check, full={"problems": 12, "drawn": 200}, data={}, paper="Theorem 5, Lemma 13",
    ),
    Claim(
        "active-subspace", "Outside S_active nothing ever moves",
        "Descent, normalised descent and mini-batches leave W outside the span of all edges as it started.",
        active_subspace.check, full={"problems": 12}, data={}, paper="Lemma 8",
    ),
    Claim(
        "step-bound", "Which steps never raise the loss",
        "Descent never rises for steps up to 2/β, β = max ‖e_i − e_j‖²‖e_k‖²/4, which two even tokens reach.",
        step_bound.check, full={"problems": 20}, data={}, paper="Theorem 2, its step",
    ),
    Claim(
        "general-losses", "The paths of other losses end at W_svm, or at half of its margins",
        "The path of a loss ends at W_svm where its slope stays; of (1 − u)², with half margins where no tie is left.",
        general_losses.check, full={"problems": 8}, data={}, paper="Theorem 3",
    ),
    Claim(
        "general-heads", "Under general heads the path is global where descent is local",
        "Acyclic data, any head of Assumption 3: the path ends at W_svm and L*, wherever descent settles.",
        general_heads.check, full={"problems": 16}, paper="Theorem 4, Lemma 3",
        why="speaks of heads that are drawn: attomaton train --head general shows them on your data",
    ),
    Claim(
        "any-embeddings", "More tokens than dimensions: what is tied is linear",
        "With dependent embeddings descent grows along W_svm of the linear ties; its part in S_fin tends to W_fin.",
        any_embeddings.check, full={"problems": 20, "steps": 1_000_000},
        why="speaks of fewer dimensions than tokens: attomaton train --embeddings shows them on your data",
    ),
    Claim(
        "optimiser-norm", "Each optimiser tends to the largest margin in a norm of its own",
        "NGD tends to it in Frobenius', sign and Adam in max, spectral and Muon in spectral, mirror descent in ℓp.",
        optimiser_norm.check, quick={"problems": 2}, full={"problems": 10},
        why="speaks of W as a matrix over few tokens: attomaton train --optimizer trains each on your data",
    ),
    Claim(
        "longest-chain", "The largest margin in the max norm is 2 over the longest chain",
        "For one-hot tokens γ_max = 2/c, c the longest chain's steps; sign descent tends to it, with ties held at 0.",
        longest_chain.check, full={"problems": 10, "graphs": 1000},
        why="needs no training on your data: solve_limit(samples, norm=\"max\") counts their chain, with a certificate",
    ),
    Claim(
        "lp-margin", "Mirror descent in ℓp finds W_p, with cycles too",
        "Mirror descent with p = 1.5 and 3 turns to W_p and away from W_2 on data with cycles.",
        lp_margin.check, full={"problems": 10},
        why="speaks of W as a matrix over few tokens: attomaton train --optimizer mirror:1.5 trains it on your data",
    ),
    Claim(
        "factorised", "Keys and queries tend to the nuclear limit, and order pairs never seen together",
        "W = K Qᵀ from a small start tends to the smallest nuclear norm; last tokens then share what they learn.",
        factorised.check, full={"problems": 30, "steps": 60_000},
        why="speaks of orders that were planted: attomaton train --factorised trains keys and queries on your data",
    ),
    Claim(
        "decoder", "A linear decoder finds W_mm and W*",
        "Next-token prediction with a linear decoder is a Graph-SVM with other keys and queries.",
        linear_decoder.check, full={"problems": 10},
        why="speaks of vectors of contexts, which are drawn: solve_limit(queries=, support=) takes yours",
    ),
    Claim(
        "collapse", "A context that is fed its own draws ends with one token",
        "Of two tokens with odds r < 1 the share of the weak one falls like t^−(1 − r) as draws are appended.",
        collapse.check, full={"trajectories": 1000, "steps": 100_000},
        why="speaks of two tokens of known odds: attomaton simulate shows trajectories on your data",
    ),
    Claim(
        "interval-coverage", "95 % intervals of log-odds hold the truth in 95 of 100 data sets",
        "Intervals from the information hold the truth as often as they say; of clustered rows, those by sequence do.",
        interval_coverage.check, quick={"draws": 300, "rows": 2}, full={"draws": 1000}, why=TRUTH,
    ),
    Claim(
        "consistency", "The error of the odds falls like 1/n",
        "Rows of a context-conditioned chain give its probabilities with n χ² about K − 1, as the information says.",
        consistency.check, quick={"draws": 100, "rows": 2}, full={"draws": 300}, why=TRUTH,
    ),
    Claim(
        "disconnected", "Groups never seen together are not compared; one linking pair mends it",
        "Pairs across groups never seen together are marked and stay unknown; with one link the error falls like 1/n.",
        disconnected.check, full={"draws": 200}, why=TRUTH,
    ),
    Claim(
        "S1", "The decoder's backward signal rises, peaks and fades",
        "The decoder's backward signal rises with time, peaks near K ln M / η_Y, and fades like ln t / t.",
        decoder_gain.check, why=CLASSES,
    ),
    Claim(
        "S1-mixing", "How a decoder trained from zero mixes classes",
        "A decoder trained from zero mixes classes by 1/(M − 1) at first and remembers past attention.",
        decoder_gain.check_mixing, why=CLASSES,
    ),
    Claim(
        "S2", "Distinct tokens gain attention, common ones lose it",
        "Distinct tokens gain, a common token (or several alike) loses, at every moment and at the predicted rates.",
        fates.check, why=CLASSES,
    ),
    Claim(
        "S3", "Relative gains grow by one factor",
        "Relative gains between distinct tokens grow by the factor χ of the larger one.",
        growth.check, full={"seeds": 10}, why=CLASSES,
    ),
    Claim(
        "S4", "Attention scans, then snaps",
        "Attention scans like ½ ln t until about K ln M / η_Y and snaps from t_0 = 2 K ln M / η_Y on: ½ ln ln t.",
        phase_transition.check, why=CLASSES,
    ),
    Claim(
        "S5", "What the two learning rates do to attention",
        "Rates at a fixed ratio set the pace, their ratio sets how far attention scans by t_0.",
        learning_rates.check, why=CLASSES,
    ),
    Claim(
        "long-sequences", "Long contexts and large batches tend to the limit level",
        "Sampled training tends to the limit level: its error is of order 1/√batch + 1/√(batch · T) + 1/T.",
        long_sequences.check, quick={"ends": True}, why=CLASSES,
    ),
    Claim(
        "joma", "Attention follows from the hidden layer above it, and narrows before it widens",
        "Scores trained beside a hidden layer are those its weights predict; attention's entropy dips, then rises.",
        joma.check, full={"seeds": 50}, paper="JoMA, Theorems 1 and 4",
        why="speaks of classes of contexts with one query, which are drawn",
    ),
    _figure(
        "mechanics-global", "Normalised gradient descent finds W_svm and W_fin",
        "Ten runs as published end along W_svm, with the finite part near W_fin.",
        Figure(
            global_protocol.reproduce,
            "W/‖W‖ → W_svm/‖W_svm‖,  Π_fin W → W_fin",
            f"every cosine ≥ {global_protocol.ALIGNED:g}, every distance ≤ {global_protocol.NEAR:g}",
            f"published: {global_protocol.PUBLISHED}; the step of {global_protocol.RATE:g} bounds the distance",
            published.global_panels,
            lambda r: {"cosine": 1.0, "distance": 0.0, "published": global_protocol.PUBLISHED},
            lambda r: {k: [x[k] for x in r["rows"]] for k in ("cosine_svm", "distance_fin", "distance_exact")},
            lambda r: {"cosine, shuffled labels": [x["cosine_shuffled"] for x in r["rows"]]},
            big=("curves",),
        ),
    ),
    _figure(
        "mechanics-local", "With a tied head and squared loss, descent finds the local W_svm",
        "Ten runs as published end along the Graph-SVM of their own attention's order, not of the data's.",
        Figure(
            local_protocol.reproduce,
            "W/‖W‖ → W_svm(pseudo graph)/‖W_svm(pseudo graph)‖",
            local_protocol.tolerance("squared"),
            f"published: {local_protocol.PUBLISHED}",
            published.local_panels,
            lambda r: {"cosine": 1.0, "published": local_protocol.PUBLISHED},
            lambda r: {"cosine_local": [x["cosine_local"] for x in r["rows"]]},
            lambda r: {"cosine_global": [x["cosine_global"] for x in r["rows"]]},
        ),
    ),
    _figure(
        "mechanics-fig4", "On average over instances, descent finds W_svm and W_fin",
        "On average over 100 instances the cosine with W_svm is 0.987, the distance to W_fin below 0.01.",
        Figure(
            global_protocol.fig4,
            "W/‖W‖ → W_svm/‖W_svm‖,  Π_fin W → W_fin",
            f"mean cosine within {global_protocol.OFF:g} of 0.987, mean distance to W_fin < 0.01, trained and exact",
            "published: about 0.987, below 0.01; of 100 instances the mean is known to 0.0005",
            published.global_means_panels,
            lambda r: {"cosine": 1.0, "distance": 0.0},
            published.means("cosine_svm", "distance_exact", "distance_fin"),
            published.means("cosine_shuffled"),
            big=("instances", "curves"),
        ),
        quick={"seeds": 30},
    ),
    _figure(
        "mechanics-fig5", "Acyclic data: on average over instances, descent finds W_svm",
        "With acyclic data the cosine with W_svm is above 0.99 on average over 100 instances.",
        Figure(
            global_protocol.fig5,
            "W/‖W‖ → W_svm/‖W_svm‖",
            f"mean cosine > {global_protocol.FIGURE_5:g}",
            "published: above 0.99",
            published.global_means_panels,
            lambda r: {"cosine": 1.0},
            published.means("cosine_svm"),
            published.means("cosine_shuffled"),
            big=("instances", "curves"),
        ),
        quick={"seeds": 30},
    ),
    _figure(
        "mechanics-fig6", "Squared loss and a head of Assumption 3: descent finds the local W_svm",
        "100 instances end along the Graph-SVM of their own attention's order, away from that of the data.",
        _settling(local_protocol.fig6, "above 0.99 and about 0.70; distances 0 and about 17"),
    ),
    _figure(
        "mechanics-fig7", "Cross-entropy and a head of Assumption 3: descent finds the local W_svm",
        "100 instances end along the Graph-SVM of their own attention's order, away from that of the data.",
        _settling(local_protocol.fig7, "above 0.99 and about 0.75; distances 0.09 and 9.59"),
    ),
    _figure(
        "mechanics-fig9", "Ten thousand tokens in 128 dimensions: the direction",
        "With far more tokens than dimensions, normalised descent turns towards W_svm.",
        _of_curves(
            many_tokens.fig9,
            "W/‖W‖ → W_svm/‖W_svm‖",
            f"mean cosine ≥ {many_tokens.ALIGNED:g}",
            f"published: {many_tokens.COSINE:g}; the paper names neither the step (here {many_tokens.RATE:g}) nor how "
            "data come to be tied (here one last token, redrawn until there is a cycle)",
            published.many_tokens_panels,
            lambda r: {"cosine": 1.0, "published": r["published"]},
            lambda r: {"mean cosine": r["mean"], "standard error": r["error"]},
            lambda r: {"cosine, other labels": [x["control"] for x in r["curves"]]},
        ),
        quick={"seeds": 4},
    ),
    _figure(
        "mechanics-fig10", "Ten thousand tokens in 128 dimensions: the finite part",
        "With far more tokens than dimensions, the part of W in S_fin settles half a step from W_fin.",
        _of_curves(
            many_tokens.fig10,
            "‖Π_fin W − W_fin‖ → η/2",
            f"mean distance ≤ {many_tokens.NEAR:g} steps",
            f"published: {many_tokens.DISTANCE:g}; a normalised step along a single tie overshoots, and stays half of "
            "its length away",
            published.many_tokens_panels,
            lambda r: {"distance": r["expected"], "published": r["published"]},
            lambda r: {"mean distance": r["mean"], "standard error": r["error"]},
            lambda r: {"least length along a strict difference": [x["control"] for x in r["curves"]]},
        ),
        quick={"seeds": 4},
    ),
    _figure(
        "mechanics-fig11", "Components against the number of samples",
        "A token stands alone while it never was a label: 1 + K exp(−n/K) components from n = 1,000 on.",
        Figure(
            components.fig11,
            "components ≈ 1 + K e^{−n/K}",
            "9,055 ± 40 at n = 1,000 and 3,701 ± 60 at n = 10,000",
            "published: about 9,060 and 3,700",
            published.components_panels,
            lambda r: {"components": [x["theory"] for x in r["rows"]]},
            lambda r: {"components": [x["components"] for x in r["rows"]]},
            lambda r: {"components, contexts of 2": [x["pairs"] for x in r["rows"]]},
        ),
        quick={"seeds": 2},
    ),
    _figure(
        "mechanics-fig12", "How many dimensions hard retrieval needs",
        "The mass on the label's component rises with the dimension, to exactly 1 with one for each token.",
        Figure(
            components.fig12,
            "mass on the label's component ↑ 1 as d → K",
            "never falls, and is 1 at d = K = 512",
            "published: 0.46, 0.96, 1, 1 at d = 2, 8, 32, 512 after training; here the limit itself",
            published.dimensions_panels,
            lambda r: {"selected at d = K": 1.0},
            lambda r: {"selected": [x["selected"] for x in r["rows"]], "d": [x["d"] for x in r["rows"]]},
            lambda r: {"selected at d = 4": next(x["selected"] for x in r["rows"] if x["d"] == 4)},
        ),
        quick={"seeds": 1},
    ),
    _figure(
        "ntp-fig1", "A linear decoder in the plane: descent finds W_mm and W*",
        "Outside F the decoder's rows turn to those of W_mm, the largest margin over what never comes next.",
        _of_curves(
            linear_decoder.fig1,
            "W/‖W‖ → W_mm/‖W_mm‖,  Π_F W → W*,  CE → H",
            f"entropy {linear_decoder.ENTROPY_1:g}, mean cosine outside F ≥ {linear_decoder.ALIGNED_1:g}",
            f"published: H = {linear_decoder.ENTROPY_1:g}; the paper names neither contexts nor a step (here as in its "
            "Figure 4)",
            published.ntp_fig1_panels,
            lambda r: {"cosine": 1.0, "distance": 0.0, "entropy": linear_decoder.ENTROPY_1},
            published.means("entropy", "loss_gap", *linear_decoder.KEPT),
            published.means("control"),
            big=("curves", "path"),
        ),
    ),
    _figure(
        "ntp-fig4", "A linear decoder with more dimensions than contexts: descent, normalised descent, Adam",
        "All three bring the loss to the entropy, W along W_mm, and its part in F to W*.",
        _of_curves(
            linear_decoder.fig4,
            "W/‖W‖ → W_mm/‖W_mm‖,  Π_F W → W*,  CE → H",
            f"mean entropy within {linear_decoder.OFF:g} of {linear_decoder.ENTROPY:g}, mean cosines ≥ "
            f"{linear_decoder.ALIGNED:g}",
            f"published: H ≈ {linear_decoder.ENTROPY:g}; probabilities uniform on the simplex have "
            "1/2 + … + 1/6 = 1.45 on average",
            published.ntp_fig4_panels,
            lambda r: {"cosine": 1.0, "distance": 0.0, "entropy": linear_decoder.ENTROPY},
            lambda r: {x["quantity"]: x["mean"] for x in r["rows"] if not x["quantity"].endswith("control")},
            lambda r: {x["quantity"]: x["mean"] for x in r["rows"] if x["quantity"].endswith("control")},
        ),
        quick={"seeds": 2},
    ),
    _figure(
        "joma-fig2", "A hidden layer over attention: scores follow from its weights",
        "Scores of softmax attention correlate with what the weights of the hidden layer predict, all the way.",
        _of_curves(
            joma.fig2,
            "z = (1/2T)(Σ_k v_k² − x̄ Σ_k ‖w_k‖²) + c",
            f"mean correlation ≥ {joma.ALIGNED:g} at every step; tokens shuffled: ≤ {joma.APART:g} in size",
            "published: near 1 all the way; x̄ stands for contexts that differ",
            published.joma_fig2_panels,
            lambda r: {"correlation": 1.0},
            big=("curves", "share"),
        ),
    ),
    _figure(
        "joma-fig3", "A hidden layer over attention: which components grow",
        "Hidden nodes first grow along what sets their class apart, at the rate 1/K, and attention turns sparse.",
        Figure(
            joma.fig3,
            "K v̇_k = x_k − x̄ at first",
            f"every correlation ≥ {joma.ALIGNED:g}, mean rate within {joma.ORDER:g} of 1, entropy of attention falls",
            "from nearly zero weights all classes are equally likely",
            published.joma_fig3_panels,
            lambda r: {"early": 1.0, "early rate": 1.0},
            big=("rows", "curves", "maps"),
        ),
    ),
    _figure(
        "joma-fig4", "Attention that follows what was learned: its entropy dips, then rises",
        "Large targets are learned first and take the attention; as the others arrive it widens again.",
        _of_curves(
            joma.fig4,
            "v̇ = (μ − v) ∘ softmax(v²/T)",
            f"steps within {joma.SAME:g} of the solution; every entropy rises by ≥ {joma.DIP:g} nats after its dip",
            "published: a dip and a rise; steps of 0.02 leave errors of that order",
            published.joma_fig4_panels,
            lambda r: {"entropy": "dips, then rises"},
            big=("curves", "entropy", "target"),
        ),
    ),
    _figure(
        "scan-snap-fig3", "Attention grows, then freezes: growth factor over time",
        "The growth factor is nearly proportional to time while scanning and hardly grows from t_0 on.",
        _of_curves(
            scan_snap_figures.fig3,
            "χ = e^{2B(t)}",
            "exponent ≥ 0.9 while scanning, < 0.5 at t_0; control: at a tenth of t_0",
            FORMULA,
            published.fig3_panels,
            lambda r: {"t_0": [c["t_0"] for c in r["curves"]]},
            lambda r: {k: r[k] for k in ("exponent while scanning", "exponent at t_0")},
            lambda r: {"rule": "exponent < 0.5 at a tenth of t_0"},
        ),
    ),
    _figure(
        "scan-snap-fig4", "Attention drops common tokens and rare distinct ones",
        "Common tokens lose, gain follows P(l|n), and a larger decoder rate leaves attention denser.",
        Figure(
            attention_entropy.fig4,
            "c_{l|n} ∝ P(l|n) e^{z_ml}",
            "all common tokens lose, together ≥ 5%; rank correlation ≥ 0.8; more entropy for η_Y = 10 on every stream",
            "chance in 128 contexts of 128 tokens reorders neighbours only",
            published.fig4_panels,
            lambda r: {"common tokens that lose": 1.0, "rank correlation": 1.0},
            big=("rows", "sgd"),
            table=published.attention_table,
        ),
        quick={"seeds": 3},
    ),
    _figure(
        "scan-snap-fig5", "Adam selects other distinct tokens than SGD",
        "The half of the distinct tokens whose logits grow most differs between Adam and SGD.",
        Figure(
            attention_entropy.fig5,
            "picks(Adam) ≠ picks(SGD)",
            "on average at most 4 of 5 picks shared, at every rate",
            "SGD at other rates (the control) shares nearly all",
            published.fig5_panels,
            lambda r: {"picks shared, at most": 0.8},
            big=("rows", "sgd"),
            table=published.attention_table,
        ),
        quick={"seeds": 3},
    ),
    _figure(
        "scan-snap-fig6", "Entropy of attention by the two learning rates, 1 to 10 queries",
        "Entropy falls with η_Z at a fixed ratio, and rises with η_Y/η_Z from 2 on.",
        _ordered(attention_entropy.fig6, "H(c_n) ↓ in η_Z,  ↑ in η_Y/η_Z ≥ 2", published.fig6_panels),
        quick={"seeds": 3},
    ),
    _figure(
        "scan-snap-fig7", "Attention of a transformer on WikiText-2 becomes sparse, and its entropy freezes",
        "First-layer entropy falls and then hardly moves, for one layer and for three.",
        Figure(
            text_attention.fig7,
            "H(attention) ↓, then constant",
            "as its result says",
            "standard errors over validation windows",
            published.fig7_panels,
            lambda r: {"sparse": "holds", "frozen": "holds"},
            lambda r: {f"{x['layers']} layers": {k: x[k] for k in published.FREEZING} for x in r["rows"]},
            lambda r: {"rate 1e-4 of the published": r["control_measured"]},
            big=("maps",),
            text=True,
            table=published.maps_table,
        ),
        quick={"quick": True}, long=True,
    ),
    _figure(
        "scan-snap-fig8", "Decoder growth in steps against its continuous form",
        "The discrete h* leads the closed form h by no more than η_Y/M.",
        _of_curves(
            scan_snap_figures.fig8,
            "0 ≤ h*(s) − h(s) ≤ η_Y/M",
            "the lead is at least −1e-12 and at most 1, in units of η_Y/M",
            FORMULA,
            published.fig8_panels,
            lambda r: {"lead in units of eta_Y / M, at most": 1.0},
            lambda r: {"lead in units of eta_Y / M": r["lead in units of eta_Y / M"]},
            lambda r: {"rule": "steps that know nothing of α"},
        ),
    ),
    _figure(
        "scan-snap-fig9", "Scan progress at a fixed ratio of the rates",
        "B at t_0 is the same for all rates of one ratio.",
        _of_curves(
            scan_snap_figures.fig9,
            "B(t_0) = function of K, M, η_Y/η_Z",
            "spread ≤ 1e-12",
            FORMULA,
            published.fig9_panels,
            lambda r: {"spread at t_0": 0.0},
            lambda r: {"spread at t_0": r["spread at t_0"]},
            lambda r: {"spread at t = 10": r["spread at t = 10"]},
        ),
    ),
    _figure(
        "scan-snap-fig10", "Entropy of attention on WikiText-2 by the learning rate",
        "Entropy on the validation text falls as the learning rate grows.",
        Figure(
            text_attention.fig10,
            "dH/d(rate) < 0",
            "as its result says",
            "Student's t over seeds",
            published.fig10_panels,
            lambda r: {"slope": "below 0"},
            text=True,
            table=published.curves_table,
        ),
        quick={"quick": True, "seeds": 3}, long=True,
    ),
    _figure(
        "scan-snap-fig11", "Recall of distinct tokens against the ratio of the rates",
        "Recall of distinct tokens rises with η_Y/η_Z from 2 on.",
        _ordered(
            attention_entropy.fig11, "recall(c_n > 1/M) ↑ in η_Y/η_Z ≥ 2", published.recall_panels("ratio", "η_Y/η_Z"),
        ),
    ),
    _figure(
        "scan-snap-fig12", "Recall of distinct tokens against the attention rate",
        "Recall of distinct tokens falls with η_Z.",
        _ordered(attention_entropy.fig12, "recall(c_n > 1/M) ↓ in η_Z", published.recall_panels("eta_z", "η_Z")),
    ),
]  # fmt: skip
CLAIMS: dict[str, Claim] = {claim.name: claim for claim in _LIST}


def figures() -> dict[str, Claim]:
    """The claims that are published experiments."""
    return {name: claim for name, claim in CLAIMS.items() if claim.figure is not None}


def find_claims(only: Sequence[str] | None) -> list[str]:
    """The names asked for, in the order of `CLAIMS`; all of them where none is named."""
    if not only:
        return list(CLAIMS)
    known = {name.lower(): name for name in CLAIMS}
    unknown = [x for x in only if x.lower() not in known]
    if unknown:
        said = "; ".join(f"no claim {x!r}{nearest(x, CLAIMS)}" for x in unknown)
        raise UsageError(f"{said} Known: {', '.join(CLAIMS)}.")
    wanted = {known[x.lower()] for x in only}
    return [name for name in CLAIMS if name in wanted]


def check_claim(name: str, **arguments: Any) -> Evidence:
    """One claim of the theory put to the test: a prediction, a measurement, and a control that must fail.

    `name` is one that `attomaton verify` lists ("T1", "convexity"); sizes and seeds are those of a quick verification
    unless `arguments` say others. A name that does not exist raises a `UsageError` with the nearest that does.

    >>> check_claim("convexity", problems=1, lines=2)
    Evidence(convexity holds, its control fails)
    """
    claim = CLAIMS[find_claims([str(name)])[0]]
    return claim.check(**{**claim.quick, **arguments})
