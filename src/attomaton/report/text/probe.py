"""What a trained transformer learned of its corpus, told to a person: sentences and tables."""

from collections.abc import Iterator

from attomaton.errors import counted, visible
from attomaton.probe.records import Behaviour, Correlation, Estimate, FirstLayer, Head, Probe, Share
from attomaton.report.text.summary import Section, as_text, section
from attomaton.report.words import NONE, or_none, share_text

TITLE = "What a trained transformer learned"
# Kinds of contexts: as the head of a column, and in a sentence.
KINDS = {"real": "real contexts", "outranked": "a third retrieved", "minimal": "minimal contexts"}
WHERE = {
    "real": "In real contexts that call for the first of two tokens",
    "outranked": "In real contexts that call for a third token, where training never had to order the two,",
    "minimal": "In minimal contexts",
}


def probe_text(found: Probe, top: int) -> str:
    """All of it for a terminal."""
    return as_text(TITLE, in_words(found), sections(found, top))


def in_words(found: Probe) -> str:
    """The record in a few sentences, every number of which is in it."""
    said = []
    if found.form is not None:
        form = found.form
        said.append(
            f"{visible(found.model)}: {form.family}, {counted(form.layers, 'layer')} of {counted(form.heads, 'head')}, "
            f"{found.parameters:,} parameters; asked on {visible(found.corpus)} about "
            f"{counted(found.strict_orders, 'strict order')} after {counted(found.last_tokens, 'last token')}."
        )
    said += map(_behaviour_words, found.behaviour)
    if found.first_layer is not None:
        first = found.first_layer
        best = max(x.value for x in first.heads)
        said.append(
            f"Query–key scores of tokens: {first.verdict} (best head {share_text(best)}, "
            f"sum {share_text(first.sum.value)})."
        )
    if found.heads:
        hard = sum(x.largest.value > 0.9 for x in found.heads)
        said.append(
            f"On {counted(found.contexts, 'context')} of {found.context} tokens, {hard} of "
            f"{counted(len(found.heads), 'head')} put more than 90% on one key."
            + (" Orders were asked in these contexts alone." if found.one_pass else "")
        )
    return " ".join([*said, *found.notes])


def _behaviour_words(one: Behaviour) -> str:
    said = (
        f"{WHERE[one.contexts]} the model orders {share_text(one.agreement.value)} of "
        f"{one.agreement.cases:,} as the corpus does"
    )
    controls = [
        (one.other_last, "another last token's graph"),
        (one.shuffled, "shuffled labels"),
        (one.untrained, "an untrained copy"),
    ]
    told = [f"{share_text(x.value)} for {name}" for x, name in controls if x is not None]
    return said + (f" (controls: {', '.join(told)})." if told else ".")


def sections(found: Probe, top: int, words: int = 8) -> list[Section]:
    """The tables of the record, each of at most `top` rows, with so many words of a context."""
    parts: list[Section] = []
    if found.behaviour:
        parts += [_agreement(found), _bands(found), _ties(found), _wrong(found, top, words)]
    if found.first_layer is not None:
        parts += _first_layer(found.first_layer)
    if found.heads:
        parts.append(_heads(found))
    return parts


def share_interval(x: Share | Estimate | None) -> str:
    """A share with its interval.

    >>> share_interval(Estimate(0.5, 0.25, 0.75))
    '0.500 (0.250–0.750)'
    """
    return NONE if x is None else f"{x.value:.3f} ({max(x.low, 0):.3f}–{min(x.high, 1):.3f})"


def _agreement(found: Probe) -> Section:
    names = (
        ("agreement", "strict orders the model shares"),
        ("other_last", "control: another last token's graph"),
        ("shuffled", "control: shuffled labels"),
        ("untrained", "control: untrained copies"),
        ("bigrams", "what follows the last token, counted, gives the order"),
        ("beyond", "the model's share where those counts do not"),
    )
    return section(
        "Orders",
        "Share with its 95% interval; cases after one last token count together. In real contexts the first token is "
        "retrieved; where a third one is, training never had to order the two.",
        ["", *(KINDS[x.contexts] for x in found.behaviour)],
        (
            [words, *(share_interval(getattr(x, name)) for x in found.behaviour)]
            for name, words in names
        ),
    )


def _bands(found: Probe) -> Section:
    def rows() -> Iterator[list[object]]:
        for field in ("by_frequency", "by_margin", "by_evidence"):
            kinds = [{b.name: b.share for b in getattr(x, field)} for x in found.behaviour]
            for name, own in kinds[0].items():
                yield [name, own.cases, *(share_interval(x.get(name)) for x in kinds)]

    return section(
        "Orders by what they rest on",
        "",
        ["", "orders", *(KINDS[x.contexts] for x in found.behaviour)],
        rows(),
    )


def _ties(found: Probe) -> Section:
    def row(name: str, x: Correlation | None) -> list[object]:
        if x is None:
            return [name, 0, NONE, NONE]
        rank = f"{x.rank:.3f} ({x.rank_low:.3f}–{x.rank_high:.3f})"
        return [name, x.pairs, rank, f"{x.slope:.2f} ({x.slope_low:.2f}–{x.slope_high:.2f})"]

    asked = [x for x in found.behaviour if x.contexts != "outranked"]
    rows = [row(KINDS[x.contexts], x.ties) for x in asked]
    rows += [row(f"{KINDS[x.contexts]}, untrained", x.ties_untrained) for x in asked]
    return section(
        "Odds on ties",
        "The model's log-odds against Luce's: rank correlation, and slope (1 where the model is calibrated).",
        ["", "pairs", "rank correlation", "slope"],
        rows,
    )


def _wrong(found: Probe, top: int, words: int) -> Section:
    def context(tokens: tuple[str, ...]) -> str:
        shown = " ".join(visible(x, 20) for x in tokens[-words:])
        return f"… {shown}" if len(tokens) > words else shown

    return section(
        "Orders the model has the other way round",
        "In real contexts; those with most samples behind them first; log-odds of the first against the second.",
        ["after", "first", "second", "samples", "log-odds", "context"],
        ([visible(x.last, 20), visible(x.above, 20), visible(x.below, 20), f"{x.samples:g}", f"{x.odds:.2f}",
          context(x.tokens)] for x in found.behaviour[0].wrong[:top]),
    )  # fmt: skip


def _first_layer(first: FirstLayer) -> list[Section]:
    named: dict[str, Share | None] = {f"head {i}": x for i, x in enumerate(first.heads)}
    named |= {"sum of all": first.sum, "sum, untrained": first.untrained}
    scores = section(
        "Query–key scores of tokens in layer 0",
        f"Share of strict orders they give, norms folded in: {first.verdict}.",
        ["", "agreement"],
        ([name, share_interval(x)] for name, x in named.items()),
    )
    offsets = section(
        "The same by offset",
        "Both tokens so many places before the last one.",
        ["offset", "best head", "sum"],
        ([x.offset, f"{x.best:.3f}", f"{x.sum:.3f}"] for x in first.offsets),
    )
    return [scores, offsets] if first.offsets else [scores]


def _heads(found: Probe) -> Section:
    names = ("largest", "entropy", "previous", "first", "same", "induction", "retrieved", "hits")

    def row(name: str, head: Head) -> list[object]:
        margin = NONE if head.margin is None else " ".join(f"{m:.2f}" for m in head.margin)
        values = [getattr(head, field) for field in names]
        told = [or_none(x, lambda x: f"{x.value:.3f}") for x in values]
        return [name, *told[:2], margin, *told[2:]]

    rows = [row(f"{x.layer}.{x.head}", x) for x in found.heads]
    if found.even is not None:
        rows.append(row("even", found.even))
    return section(
        "Heads",
        "Mass on the largest key, entropy over log keys, gap of the two highest scores (10, 50, 90%), masses by kind "
        "of key, mass on what the automaton retrieves, and how often the largest key is among it. Even: chance.",
        ["head", "largest", "entropy", "margin", *names[2:]],
        rows,
    )
