"""Why a predictor answers as it does, in words: the branch that answered, and why the first token is ahead."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp

from attomaton.corpus.vocabulary import Label
from attomaton.errors import visible
from attomaton.predictor.evidence import LEARNED, Behind
from attomaton.predictor.reasons import Reasons, Term, scored
from attomaton.predictor.stage.model import SCORE
from attomaton.predictor.stage.reasons import BRANCH, WITHIN, Contrast, Facts, Gram, Share
from attomaton.report.text.terminal import WIDEST, joined, named, quoted, table
from attomaton.report.words import number

SLIGHT = 0.005  # shares that would be printed as 0 are told together
SPELLED = 2  # tokens of a history that are written out; of longer ones their number is told
REST = "the rest"
RECENT = 12  # tokens of a long context that are repeated
ALIKE = 0.5  # the cosine from which on tokens are said to be used alike
FEW = 5  # windows that say little by themselves: a shorter history is told, too

_PARTS = {
    "count": "how often each stands in the context",
    "main": "how often each wins where it stands, after anything",
    "bigram": "how often each follows {last} where it is new",
    "kin": "how well each suits tokens like {last}",
    "odds": "how often each won after {last}",
    "learned": "what was learned about each after {last}",
}
_GATE = (  # what the features of the gate are about, by what is in their names
    ("always", "in general"),
    ("match", "by what followed the last tokens before"),
    ("last token", "by the last token"),
    ("gram", "by the n-grams"),
    ("history", "by the n-grams"),
    ("it stands", "by the n-grams"),
)
_SCORES = "by the scores in the context"


@dataclass(frozen=True)
class Why:
    """One reason why the first token is ahead of the second: its share in their log-odds, and the facts in words."""

    term: str
    share: float
    words: str


def whys(r: Reasons) -> tuple[Why, ...]:
    """Why the prediction is ahead of the next best, the largest share first; they add up to the log-odds."""
    c = r.against
    if c is None:
        return ()
    told = [Why(s.term, s.difference, _words(s, r, c)) for s in c.shares]
    return tuple(sorted(told, key=lambda w: -abs(w.share)))


def main_reason(r: Reasons) -> str:
    """The branch that answered and what speaks most for the prediction, in a line."""
    where = "one of the context's tokens" if r.inside else "a token outside the context"
    chance = ""
    if r.gate is not None:
        mine = r.gate if r.inside else 1 - r.gate
        chance = f" ({'inside' if r.inside else 'outside'} with {number(mine)})"
    answer, c = f"{quoted(r.prediction)}: {where}{chance}", r.against
    if c is None:
        return answer
    if c.facts and c.winner_inside != c.runner_up_inside:
        return f"{answer}; {_apart(c.facts[0], r)}"
    told = max(_telling(whys(r), c), key=lambda w: w.share)
    ahead = f"ahead of {quoted(c.runner_up)} most of all by {told.term} ({told.share:+.2f})"
    return f"{answer}; {ahead}: {told.words}"


def _telling(told: Sequence[Why], c: Contrast) -> Sequence[Why]:
    """What may be called the main reason: that a token is frequent is none where histories speak for it."""
    if c.winner_inside:
        return told
    longer = [w for w in told if w.term.endswith("-gram") and w.term != "1-gram" and w.share > 0]
    return longer or told


def story(r: Reasons) -> list[str]:
    """The answer in plain words: what comes, from where, and why it and not the next best."""
    c = r.against
    comes = f"after '{_recent(r.context)}' comes {quoted(r.prediction)} with p = {r.p:.4g}"
    if c is not None:
        comes += f", then {quoted(c.runner_up)} with {r.p / exp(c.log_odds):.4g}"
    lines = [comes, *_branch(r)]
    lines += [r.note] if r.note else []
    if c is None:
        return [*lines, "no other token can come next"]
    odds = f"log-odds {c.log_odds:+.2f}, {number(exp(c.log_odds))} to 1, the sum of"
    if not (c.winner_inside or c.runner_up_inside):
        odds += " what each order adds to the shorter ones"
    lines += ["", f"why {quoted(c.winner)} and not {quoted(c.runner_up)}: {odds}"]
    shown = [w for w in whys(r) if abs(w.share) >= SLIGHT]
    slight = [w for w in whys(r) if abs(w.share) < SLIGHT]
    if slight and shown:
        names = ", ".join(w.term for w in slight)
        shown.append(Why(REST, sum(w.share for w in slight), names))
    width = max((len(w.term) for w in shown), default=0)
    lines += [f"  {w.share:+.2f}  {w.term.ljust(width)}  {w.words}" for w in shown or slight]
    if c.winner_inside != c.runner_up_inside:
        lines += [f"  {_apart(f, r)}" for f in c.facts]
        lines += _inside(r, c.winner if c.winner_inside else c.runner_up)
    return lines


def _recent(context: Sequence[Label]) -> str:
    """The last tokens of a context, as many as a line or two hold."""
    n = 1
    while n < min(len(context), RECENT) and len(joined(context[-n - 1 :])) <= WIDEST:
        n += 1
    return f"… {joined(context[-n:])}" if n < len(context) else joined(context)


def reasons_text(r: Reasons) -> str:
    """The story of an answer, then the terms of every score and the likeliest tokens outside the context."""
    gate = 1.0 if r.gate is None else r.gate
    rows = [
        [t.token, t.count, gate * t.p, t.p, t.count_term, *t.prior.values(), t.learned if t.seen else "unseen",
         *t.stage.values()]
        for t in r.terms
    ]  # fmt: skip
    header = ["token", "count", "p", "share", "θ log m"]
    header += [*r.terms[0].prior, "learned", *r.terms[0].stage]
    lines = [*story(r), "", "in the context: p = probability of the context × share"]
    lines.append(table(header, rows))
    if r.outside:
        after = f"outside it, by the n-grams after '{joined(r.context[1 - r.order :])}':"
        if r.order == 2:
            after = f"outside it, by the bigram after {quoted(r.context[-1])}:"
        if r.order == 1:
            after = "outside it, by the unigram:"
        lines += ["", after, table(["token", "p"], [[named(x), p] for x, p in r.outside])]
    return "\n".join(lines)


def evidence_text(found: Sequence[Behind]) -> str:
    """The training windows behind an answer, some of each count."""
    lines = []
    for b in found:
        after = _tokens(b.history)
        held = ", which its context held," if b.kind == LEARNED else ""
        windows = (
            "1 training window" if b.windows == 1 else f"{_counted(b.windows)} training windows"
        )
        lines.append(f"behind {b.kind}: after {after} came {quoted(b.token)}{held} in {windows}")
        lines += [f"  {row.place}: {_recent(row.context)} → {visible(row.next)}" for row in b.rows]
    return "\n".join(lines)


def _branch(r: Reasons) -> list[str]:
    """Which branch answered, and why that one is likely."""
    where = "a token of the context" if r.inside else "a token outside the context"
    if r.gate is None:
        return ["without back-off: only tokens of the context can come next"]
    chance = f"with probability {number(r.gate)}, another with {number(1 - r.gate)}"
    lines = [f"{where}: the next token is one of the context {chance}"]
    if r.gate_terms:
        told = ", ".join(f"{name} {value:+.2f}" for name, value in gate_parts(r).items())
        lines.append(f"  log-odds of the context {sum(r.gate_terms.values()):+.2f}: {told}")
    return lines


def gate_parts(r: Reasons) -> dict[str, float]:
    """What the gate goes by, added up by what its features are about, the largest first."""
    parts: dict[str, float] = {}
    for name, value in r.gate_terms.items():
        about = next((told for part, told in _GATE if part in name), _SCORES)
        parts[about] = parts.get(about, 0.0) + value
    return dict(sorted(parts.items(), key=lambda part: -abs(part[1])))


def _inside(r: Reasons, token: Label) -> list[str]:
    """Why a token is the first of its context, where it stands against one outside."""
    if len(r.terms) < 2 or r.terms[0].token != token:
        return []
    w, u = r.terms[:2]
    mine, other = scored(w), scored(u)
    shares = sorted(((x - other[name], name) for name, x in mine.items()), key=lambda s: -abs(s[0]))
    told = ", ".join(f"{name} {x:+.2f}" for x, name in shares if abs(x) >= SLIGHT)
    odds = f"log-odds {w.score - u.score:+.2f}"
    return [f"  in the context {quoted(w.token)} is ahead of {quoted(u.token)}, {odds}: {told}"]


# Each term in words


def _words(share: Share, r: Reasons, c: Contrast) -> str:
    """What one term says about the winner beside the runner-up."""
    term = share.term
    if term == BRANCH:
        return _which_branch(r, c)
    if term == WITHIN:
        return _within(r, c)
    w, u = c.facts or (None, None)
    if w is None or u is None or (term in _PARTS and not r.terms[0].stage):
        return _PARTS.get(term, "").format(last=quoted(r.context[-1])) or _bigram(r)
    if term == SCORE:
        return _tuned(r, c)
    if term.endswith("-gram"):
        n = int(term.removesuffix("-gram"))
        return _grams(w, u, n - 1) if n <= len(w.grams) else "its history is new"
    told = {
        "recency": f"{_stood(w)}; {_stood(u)}",
        "own recency": "how these two tokens themselves come back after so many places",
        "induction": f"{_followed(w, r)}; {_followed(u, r)}",
        "n-grams": _longest(w, u, share.difference),
        "count": f"{_count(w)}; {_count(u)}",
        "token": "each token as such, whatever stands around it",
    }
    return told.get(term, "what shorter histories say where the longer ones are new")


def _bigram(r: Reasons) -> str:
    if r.order == 1:
        return f"how often each came in training, where nothing followed {quoted(r.context[-1])}"
    return f"how often each followed {quoted(r.context[-1])} in training"


def _which_branch(r: Reasons, c: Contrast) -> str:
    gate = 1.0 if r.gate is None else r.gate
    inside, outside = number(gate), number(1 - gate)
    if c.winner_inside:
        return f"a token of the context has probability {inside}, one outside it {outside}"
    return f"a token outside the context has probability {outside}, one of its own {inside}"


def _within(r: Reasons, c: Contrast) -> str:
    share = {s.term: s for s in c.shares}[WITHIN]
    mine, other = exp(share.winner), exp(share.runner_up)
    inside, outside = "of what the context has", "of what is outside it"
    first, second = (inside, outside) if c.winner_inside else (outside, inside)
    return f"{quoted(c.winner)} has {number(mine)} {first}, {quoted(c.runner_up)} {number(other)} {second}"


def _tuned(r: Reasons, c: Contrast) -> str:
    """The parts of the tuned score, as they go into the log-odds."""
    terms = {t.token: t for t in r.terms}
    w, u = terms[c.winner], terms[c.runner_up]
    parts = {name: w.slope * (x - _parts(u)[name]) for name, x in _parts(w).items()}
    order = sorted(parts.items(), key=lambda part: -abs(part[1]))
    told = ", ".join(f"{name} {x:+.2f}" for name, x in order if abs(x) >= SLIGHT)
    return f"attention after {quoted(r.context[-1])}: {told or 'alike'}"


def _parts(t: Term) -> dict[str, float]:
    return {"count": t.count_term, **t.prior, "learned": t.learned}


def _stood(f: Facts) -> str:
    if f.distance is None:
        return f"{quoted(f.token)} does not stand there"
    if f.distance == 1:
        return f"{quoted(f.token)} is the last token"
    return f"{quoted(f.token)} stood {f.distance} places back"


def _count(f: Facts) -> str:
    times = {0: "does not stand there", 1: "stands there once"}
    return f"{quoted(f.token)} {times.get(f.count, f'stands there {f.count} times')}"


def _followed(f: Facts, r: Reasons) -> str:
    """Induction: what stood before a token when it stood there before."""
    if f.matched:
        return f"{quoted(f.token)} followed {_tokens(f.matched)} {f.match_distance} places back"
    last = quoted(r.context[-1])
    if f.alike is None:
        return f"{quoted(f.token)} followed nothing used like {last}"
    like = f"{quoted(f.alike)}, cosine {f.cosine:.2f}"
    if f.cosine >= ALIKE:
        return f"{quoted(f.token)} followed what is used like {last} ({like})"
    return f"{quoted(f.token)} followed nothing much like {last} (at most {like})"


def _tokens(tokens: Sequence[Label | None]) -> str:
    """Some last tokens of the context: written out, or their number."""
    begins = tokens[0] is None
    rest = [x for x in tokens if x is not None]
    text = f"'{joined(rest)}'" if len(rest) <= SPELLED else f"the same last {len(rest)} tokens"
    return f"{text} at the beginning" if begins else text


def _longest(w: Facts, u: Facts, share: float) -> str:
    """The longest history after which training saw one of the two.

    Where that is thin or does not say what all of them say together, the next shorter one and what else there is.
    """
    seen = [
        n for n, (a, b) in enumerate(zip(w.grams, u.grams, strict=True)) if a.times + b.times > 0
    ]
    if not seen:
        return "training saw neither"
    n = seen[-1]
    told = _grams(w, u, n)
    against = (w.grams[n].times - u.grams[n].times) * share <= 0
    if n > 1 and (against or w.grams[n].of < FEW):
        told += f"; {_grams(w, u, n - 1)}"
    return (
        f"{told}; the rest by shorter histories and the token before the last" if against else told
    )


def _grams(w: Facts, u: Facts, n: int) -> str:
    """How often each of the two followed the last n tokens in training."""
    a, b = w.grams[n], u.grams[n]
    if not a.history:
        return (
            f"after anything came {quoted(w.token)} {_counted(a.times)} times in training, "
            f"{quoted(u.token)} {_counted(b.times)} times"
        )
    return f"after {_tokens(a.history)} came {quoted(w.token)} in {_of(a)}, {quoted(u.token)} in {_counted(b.times)}"


def _of(g: Gram) -> str:
    return f"{_counted(g.times)} of {_counted(g.of)} training windows"


def _counted(x: float) -> str:
    """Windows: whole, unless their weights are not."""
    return number(int(x) if x.is_integer() else x)


def _apart(f: Facts, r: Reasons) -> str:
    """What speaks for a token within its own branch."""
    told = [_stood(f), _followed(f, r)] if f.count else []
    if seen := [g for g in f.grams if g.times > 0]:
        g = seen[-1]
        after = f"after {_tokens(g.history)}" if g.history else "after anything"
        told.append(f"{quoted(f.token)} came {after} in {_of(g)}")
    elif not told:
        return _stood(f)
    return "; ".join([told[0], *(x.removeprefix(f"{quoted(f.token)} ") for x in told[1:])])
