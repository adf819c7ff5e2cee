"""What a predictor has learned, in words and tables."""

from attomaton.errors import counted
from attomaton.predictor.learned import Learned, Order
from attomaton.report.text.terminal import joined, quoted, table

ABOUT = {
    "recency": "how long ago a token stood",
    "induction": "what followed the last tokens before in this context",
    "own recency": "how single tokens come back",
    "n-grams": "longer histories in training",
    "count": "how often a token stands there",
    "token": "single tokens as such",
}


def learned_words(s: Learned) -> list[str]:
    """The main things in sentences."""
    prior = ", ".join(f"{name} {w:.3g}" for name, w in s.prior.items()) or "none"
    context = "contexts of any length" if s.context is None else f"contexts of {s.context} tokens"
    lines = [
        f"A predictor over {s.tokens:,} tokens, {context}: {s.pairs:,} pairs of last token and token were learned at "
        f"λ = {s.penalty:g}.",
        f"A token that stands m times counts m^{s.theta:g}; weights of the prior: {prior}.",
    ]
    if s.reason:
        return [*lines, f"No stage on top: {s.reason}."]
    lines.append(
        f"On top a convex stage: {s.tuned_loss:.4f} nats without, {s.stage_loss:.4f} with it, on the validation "
        f"windows that judge it; the tuned score counts {s.slope:.2f} in it, n-grams reach back "
        f"{counted(s.order - 1, 'token')}."
    )
    kept = sorted((g for g in s.groups if g.kept), key=lambda g: -g.gain)
    left = [g for g in s.groups if not g.kept]
    if kept:
        first = kept[0]
        lines.append(
            f"Most is owed to {first.name} ({ABOUT[first.name]}): without it {first.gain:.4f} nats more."
        )
    if left:
        lines.append(f"Left out, as it does not pay: {', '.join(g.name for g in left)}.")
    return lines


def learned_text(s: Learned) -> str:
    """The sentences, then tables of groups, weights, telling n-grams and the strongest pairs."""
    tables: list[tuple[str, list[str], list[list[object]]]] = [
        ("", ["terms", "", "weights", "nats it saves", "about"],
         [[g.name, "kept" if g.kept else "left out", g.weights, f"{g.gain:+.4f} ± {g.error:.4f}", ABOUT[g.name]]
          for g in sorted(s.groups, key=lambda g: (not g.kept, -g.gain))]),
        ("recency, beside the last token itself\n", ["", "rare tokens", "frequent tokens"],
         [["the last token" if r.distance == 1 else f"{r.distance} places back",
           round(r.rare, 2), round(r.frequent, 2)] for r in s.recency]),
        ("induction, beside no match\n", ["", "weight"],
         [[f"match of {x.name}", round(x.weight, 2)] for x in s.induction]),
        ("n-grams, what each order adds counts\n", ["", "times"],
         [[x.name, round(x.weight, 2)] for x in s.orders]),
        ("where two tokens tell most beyond the last alone\n",
         ["after", "comes", "in training windows", "after the last token alone"],
         [[joined(t.history), t.token, _of(t.times, t.of), _of(t.after_last, t.of_last)] for t in s.telling]),
        ("learned most beyond the prior\n", ["after", "token", "learned"],
         [[p.last, p.token, round(p.learned, 2)] for p in s.strongest]),
    ]  # fmt: skip
    shown = [title + table(header, rows) for title, header, rows in tables if rows]
    return "\n\n".join(["\n".join(learned_words(s)), *shown])


def _of(times: float, of: float) -> str:
    return f"{times:,.10g} of {of:,.10g}"


def order_text(o: Order) -> str:
    """The order after one last token."""
    came = ", ".join(f"{quoted(x.token)} {x.times:,.10g} times" for x in o.came)
    lines = [f"after {quoted(o.last)} came in {o.of:,.10g} training windows: {came or 'nothing'}"]
    if not o.tokens:
        lines.append("none of them was held by its context, so attention learned nothing")
        return "\n".join(lines)
    first = f"the first {len(o.tokens)} of {o.seen:,} by score = prior + learned"
    lines.append(f"what attention adds for a token of the context, {first}")
    names = [*o.tokens[0].prior]
    rows = [
        [t.token, round(t.score, 3), *(round(t.prior[n], 3) for n in names), round(t.learned, 3), f"{t.times:,.10g}"]
        for t in o.tokens
    ]  # fmt: skip
    return "\n".join([*lines, table(["token", "score", *names, "learned", "came next"], rows)])
