# %% [markdown]
# # From six tokens to WikiText
#
# What does a self-attention layer learn from next-token prediction? Its training has an end point that can be computed
# exactly. attomaton computes it, proves it, trains the real layer beside it, and explains what comes next.
#
# Twenty minutes of reading, from a data set you can check by hand to a real text. Every number is printed by the cell
# above or below the words about it. The source is `docs/tutorial.py`; `python docs/make_tutorial.py` runs it again.
# The outputs kept here were made with WikiText-2's `valid.txt` at hand; without it, part 5 takes the short text inside
# it.

# %%
import math
import shlex
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter
from pathlib import Path

import numpy as np

from attomaton import NextTokenClassifier
from attomaton.mechanics.theory.view import graph_view
from attomaton.report.figures import canvas, panels, priority
from attomaton.report.figures import training as figures
from attomaton.report.text import terminal

# %% [markdown]
# Two helpers: one shows a figure as SVG; the other runs a command line in a folder that is thrown away, and prints
# what it says (all of it, or the first lines).


# %%
class Picture:
    """An SVG that a notebook shows."""

    def __init__(self, svg):
        self.svg = svg if isinstance(svg, str) else canvas.to_svg(svg)

    def _repr_svg_(self):
        return self.svg


scratch = tempfile.TemporaryDirectory()
folder = Path(scratch.name)


def run(command, lines=None):
    """What an `attomaton` command prints."""
    program = [sys.executable, "-m", *shlex.split(command)]
    done = subprocess.run(
        program, cwd=folder, capture_output=True, text=True, encoding="utf-8", check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    said = done.stdout.splitlines()
    shown = said if lines is None or lines >= len(said) else [*said[:lines], "…"]
    # Sentences are wrapped; rows of a table, which hold double spaces, are not.
    print("\n".join(line if "  " in line else textwrap.fill(line, 100) for line in shown))


# %% [markdown]
# ## 1. Six tokens
#
# A waiter hears the bell. What stands at the counter is the *context*, its last token is what just happened (`bell`),
# and the *label* is what the waiter turns to. One row is one sample.

# %%
rows = [
    ("tea soup bell", "tea"),
    ("toast soup bell", "toast"),
    ("soup cake bell", "soup"),
    ("cake water bell", "cake"),
    ("tea toast bell", "tea"),
    ("tea toast bell", "tea"),
    ("tea toast bell", "tea"),
    ("tea toast bell", "toast"),
]
contexts = [context.split() for context, _ in rows]
labels = [label for _, label in rows]
model = NextTokenClassifier().fit(contexts, labels)
print(*model.classes_)

# %% [markdown]
# ### The priority graph
#
# Each sample says: the label goes before the other tokens of its context. So there is an arrow from the label to each
# of them, one graph for each last token. Tokens that reach each other both ways are *tied*: they form a component.
# Between components, arrows point one way only: that is *priority*.

# %%
limit = model.limit_
after_bell = limit.graph.vocabulary.id_of("bell")
view = graph_view(limit, after_bell)
print(terminal.graph_text(view))

# %%
Picture(priority.priority_figure(view))

# %% [markdown]
# Tea and toast each won against the other, so they share a box. They go before soup, soup before cake, cake before
# water. The bell itself never came next; it stands at the bottom, and nothing was said about bell and water.
#
# ### The exact limit
#
# Training makes the attention weights W grow without bound, in a direction that settles. Three things describe the
# end:
#
# - **W_svm**, the direction: the smallest matrix that puts a margin of at least 1 along each arrow between components.
#   It decides who is *retrieved*.
# - **W_fin**, the part that stays finite: the odds inside a component. It decides how ties are *mixed*.
# - **L\***, the floor that the loss tends to.
#
# Tokens are orthonormal here, so that the entry for (token, last token) is simply the token's score after `bell`.

# %%
hard = {node.token: node.svm_score for node in view.nodes}
soft = {node.token: node.log_pi for node in view.nodes}
scores = [[x, hard[x], soft[x]] for x in sorted(hard, key=hard.get, reverse=True)]
print(terminal.table(["token", "W_svm", "W_fin"], scores))
print(f"\nL* = {limit.finite.loss_floor:.6f}")

# %% [markdown]
# Read the margins: subtract along any arrow of the graph and you find 1 or more. Only tied tokens have a finite part.
#
# ### The certificate
#
# An answer from a solver is worth as much as its proof. These residuals are computed again from the samples, not taken
# from the solver: all of them 0 (to rounding) proves that no better answer exists.

# %%
certificate = limit.svm.certificate
print(f"margins violated by at most  {certificate.primal:.0e}")
print(f"stationarity missed by       {certificate.dual:.0e}")
print(f"gap between the two programs {certificate.gap:.0e}")
print(f"gradient of the odds         {limit.finite.gradient:.0e}")

# %% [markdown]
# ### A prediction, explained
#
# A counter that never occurred in the data. Who comes next, and why does everyone else lose?

# %%
explanation = model.explain(["cake", "toast", "soup", "tea", "bell"])
print(terminal.explanation_text(explanation))

# %%
Picture(figures.prediction_figure(explanation))

# %% [markdown]
# On the right is the layer on its way: while W is small, everyone gets a share; as it grows, only the top component is
# left.
#
# ### Train the real layer
#
# So far nothing was trained. Now gradient descent, from a few random starts; on the way we measure how far it still is
# from the limit that was computed without it.

# %%
from attomaton.jobs.train import train_beside_theory, training_records

training = train_beside_theory(
    limit, init="uniform", optimizer="gd", lr=5.0, steps=20_000, every="log", seeds=3
)
records = training_records(training, limit)
names = ["loss_gap", "cosine_svm", "distance_fin", "mass_retrieved"]
marks = [i for i, step in enumerate(records["steps"]) if i % 12 == 0 or step == 20_000]
table = [
    [int(records["steps"][i]), *(float(records[k][:, i].mean()) for k in names)] for i in marks
]
print(terminal.table(["step", *names], table))

# %%
Picture(figures.convergence_figure(records, limit.finite.loss_floor, limit.svm.norm))

# %% [markdown]
# The loss falls to its floor, the direction turns to W_svm (slowly, as one over the logarithm of the steps), the odds
# arrive at W_fin. Dashed is theory.

# %% [markdown]
# ## 2. Repeats, ties, a cycle: soft composition by hand
#
# Inside a component the layer mixes by a simple rule, Luce's: p(x) is proportional to m_x · π_x, how often x stands in
# the context times its strength. Below, phone and dishes stand there once each, and the phone wins three times in
# four. So its strength is three times that of the dishes.

# %%
calls = [["dishes", "phone"]] * 4
phone = NextTokenClassifier().fit(calls, ["phone", "phone", "phone", "dishes"])
strength = {"phone": 3, "dishes": 1}


def by_hand(context):
    """Luce's rule with the strengths above."""
    weight = {x: m * strength[x] for x, m in Counter(context).items()}
    return {x: w / sum(weight.values()) for x, w in weight.items()}


table = []
for context in (["dishes", "phone"], ["phone", "dishes", "phone"], ["dishes", "dishes", "phone"]):
    ours = dict(zip(phone.classes_, phone.predict_proba([context])[0], strict=True))
    odds = f"{ours['phone'] / ours['dishes']:.4g} : 1"
    table.append([" ".join(context), by_hand(context)["phone"], float(ours["phone"]), odds])
    assert math.isclose(by_hand(context)["phone"], ours["phone"], rel_tol=1e-9)
print(terminal.table(["context", "p(phone) by hand", "by attomaton", "odds"], table))

# %% [markdown]
# The floor of the loss by hand is the entropy of a coin that shows the phone three times in four. There is no
# direction to grow in: with everything tied, W_svm is 0.

# %%
entropy = -(3 / 4 * math.log(3 / 4) + 1 / 4 * math.log(1 / 4))
print(f"L* by hand {entropy:.12f}, by attomaton {phone.loss_floor_:.12f}")
print(f"‖W_svm‖ = {phone.limit_.svm.norm:g}")

# %% [markdown]
# Repeats *in the training data* count too. Here the phone stands twice in every context and still wins three times in
# four. Part of that is its count: 2π : 1 must be 3 : 1, so its strength is only three halves.

# %%
twice = [["phone", "dishes", "phone"]] * 4
louder = NextTokenClassifier().fit(twice, ["phone", "phone", "phone", "dishes"])
p = dict(zip(louder.classes_, louder.predict_proba([["dishes", "phone"]])[0], strict=True))
print(f"once each, the odds are {p['phone'] / p['dishes']:.6f} : 1")

# %% [markdown]
# A cycle: rock, paper and scissors, each beating the next once. Nobody outranks anybody, all three are tied, and by
# symmetry all strengths are equal. With two of them there, each gets a half, so that the floor is log 2.

# %%
rounds = [["rock", "scissors", "go"], ["scissors", "paper", "go"], ["paper", "rock", "go"]]
game = NextTokenClassifier().fit(rounds, ["rock", "scissors", "paper"])
after_go = game.limit_.graph.vocabulary.id_of("go")
print(terminal.graph_text(graph_view(game.limit_, after_go)))
print(f"\nL* = {game.loss_floor_:.12f}, log 2 = {math.log(2):.12f}")

# %% [markdown]
# ## 3. Scan and snap: how attention gets there
#
# Another view of the same layer, by Tian, Wang, Chen and Du: sequences come in classes with known distributions, the
# decoder and attention learn with rates η_Y and η_Z. In *Syn-Small* each class has tokens of its own (*distinct*),
# rarer and more frequent ones, and tokens that both share (*common*).
#
# Attention first *scans*: common tokens lose it, frequent distinct ones gain it. Then it *snaps*: the decoder has
# learned enough, its signal fades, and attention stays as it is. Theory says when, from η_Y and the sizes alone.

# %%
from attomaton.claims.picture import heat, line
from attomaton.report.words import tick
from attomaton.results import Panel, Upright
from attomaton.scan_snap.levels import find_classes, run_level
from attomaton.scan_snap.theory.phase import gain_transition, measure_phases

classes = find_classes("syn-small")
eta_y, eta_z = 1.0, 4.0
scan = run_level("limit", classes, eta_y, eta_z, until=1e5)
predicted = float(gain_transition(eta_y, classes.K, classes.M))
(phases,) = measure_phases(scan)
print(f"predicted transition  t = {predicted:.2f}")
print(f"measured              t = {phases.transition:.2f}")

# %%
shown = np.flatnonzero(classes.P[0] > 0)
seen = scan.attention[0, :, 0][:, shown].T
times, names = [tick(t) for t in scan.t], [classes.names[x] for x in shown]
attention = heat("attention of one class", "time", "token", seen, times, names, "attention")
later = scan.t > 0
entropy = line(scan.t[later], scan.entropy[0].mean(axis=-1)[later], "measured", points=None)
drop = Panel(
    "entropy over distinct tokens (nats)", "time", lines=[entropy], xscale="log",
    marks=[Upright(predicted, "predicted transition")],
)  # fmt: skip
Picture(panels.panels_figure("Syn-Small: scan, then snap", [attention, drop]))

# %%
common = scan.attention[0][:, 0, classes.common].sum(axis=-1)
print(f"attention on common tokens: {common[0]:.3f} at the start, {common[-1]:.3f} at the end")
print(f"entropy over distinct tokens: {scan.entropy[0, 0].mean():.3f}, then {phases.entropy:.3f}")

# %% [markdown]
# Attention moves away from common tokens and towards the frequent distinct ones, then hardly moves, still spread over
# several tokens. The measured transition comes a little after the predicted one: the formula takes classes as
# unrelated, and these two share their common tokens. [Scan and snap](scan_snap.md) says how exact it is where its
# conditions hold.

# %% [markdown]
# ## 4. Your own data: an event log
#
# From here on the command line. A file with one event per row, who did what and when, is enough; this one is drawn:
# people who choose among films and songs they met before in their session.

# %%
run("attomaton data synth --kind sessions -n 300 -o events.csv")
print("\n".join((folder / "events.csv").read_text().splitlines()[:4]))

# %% [markdown]
# For your own log, name the columns: `--sequence user --item product --order time`. Each event is predicted from those
# before it, at most as many as `--context` says.

# %%
run("attomaton fit events.csv --context 20 -o log")

# %% [markdown]
# Samples whose label is not in the context are set aside, and counted: attention can only name what it sees.

# %%
run("attomaton summary log --top 3 --figure log.svg", lines=19)

# %%
Picture((folder / "log.svg").read_text(encoding="utf-8"))

# %% [markdown]
# One last item more closely: songs in one component, at odds of e to the power of the number in brackets; films below.

# %%
run("attomaton graph log --last song5", lines=4)

# %% [markdown]
# ## 5. Text
#
# WikiText-2 if it is on this machine (`ATTOMATON_DATA`, or the cache), and there only its small `valid.txt`; else a
# little story of a harbour. Everything below is the same for both.

# %%
STORY = """
The harbour wakes before the town . The first boat leaves the harbour and the gulls follow the boat .
The baker opens the shop and the smell of the bread fills the street .
The old man walks to the harbour and the dog walks with the old man .
The boat comes back and the old man counts the fish and the dog counts the gulls .
The baker sells the bread to the old man and the old man gives the bread to the dog .
The gulls watch the dog and the dog watches the bread and the baker watches the gulls .
The second boat leaves the harbour and the rain begins and the gulls leave the harbour too .
The rain fills the street and the baker closes the shop and the dog sleeps in the shop .
The old man waits for the second boat and the rain waits with the old man .
The second boat comes back in the rain and the old man counts the fish in the rain .
The baker opens the shop again and the smell of the fish fills the street .
The old man sells the fish to the baker and the baker gives the old man the bread .
The dog follows the smell of the fish and the gulls follow the dog .
The rain ends and the town comes to the harbour and the children count the boats .
The children give the bread to the gulls and the dog watches the children and the gulls .
The old man tells the children of the sea and the children tell the old man of the town .
The sea is calm and the boats sleep in the harbour and the gulls sleep on the boats .
The baker closes the shop and walks to the harbour and the old man waits in the harbour .
The baker and the old man watch the sea and the dog watches the baker and the old man .
The children leave the harbour and the dog walks with the children to the town .
The first boat leaves the harbour in the night and the old man counts the boats .
The town sleeps and the harbour sleeps and the gulls sleep in the harbour .
""".strip().splitlines()


# %%
from attomaton.corpus.datasets import dataset_files
from attomaton.errors import DataError

try:
    text = dataset_files("wikitext-2")["valid"].read_text(encoding="utf-8").splitlines()
    print("text: valid.txt of WikiText-2")
except DataError:
    text = STORY
    print("text: the story of the harbour")

# %% [markdown]
# Three parts, by lines: one to learn from, one to choose settings on, one to judge on, seen by nobody before.

# %%
cuts = [0, int(0.8 * len(text)), int(0.9 * len(text)), len(text)]
for name, begin, end in zip(("learn", "choose", "judge"), cuts[:-1], cuts[1:], strict=True):
    (folder / f"{name}.txt").write_text("\n".join(text[begin:end]) + "\n", encoding="utf-8")
    print(f"{name}.txt: {sum(len(line.split()) for line in text[begin:end]):,} words")

# %% [markdown]
# ### The limit at full vocabulary
#
# Every word keeps its own token; nothing is cut off. The certificate covers every last token.

# %%
run("attomaton fit learn.txt --context 16 -o text")

# %%
run("attomaton summary text --top 3 --figure text.svg", lines=19)

# %%
Picture((folder / "text.svg").read_text(encoding="utf-8"))

# %% [markdown]
# ### A lens on one last token
#
# What did attention learn to do after “of”? Its key terms by TF-IDF stand beside its priorities.

# %%
run("attomaton summary text --last of --top 4 --figure of.svg", lines=28)

# %%
Picture((folder / "of.svg").read_text(encoding="utf-8"))

# %% [markdown]
# ### A predictor for unseen text
#
# The limit of training is too sure of itself on unseen text: what lost in the data is impossible for ever. `tune`
# keeps the layer and stops it earlier, at a place chosen on `choose.txt` (a small grid here).

# %%
grid = "--lambdas 1,2 --thetas 0.2,1"
run(f"attomaton tune learn.txt --validate choose.txt --context 16 {grid} -o predictor")

# %% [markdown]
# And how good is it? Beside baselines on the same windows of `judge.txt` (the trigram alone sees one word more), and
# beside the limit itself:

# %%
run("attomaton score predictor judge.txt --limit text --figure score.svg")

# %%
Picture((folder / "score.svg").read_text(encoding="utf-8"))

# %% [markdown]
# Log-loss is in nats, less is better. *Impossible* is the share of windows where a method gave the truth no chance at
# all, which makes its log-loss infinite. The story is far too short to
# judge anything; there, only the steps are worth reading.

# %% [markdown]
# ## 6. Verify: do not take our word
#
# Every theorem used above is a claim with a test: theory predicts, training measures, and a *control* that must fail
# shows that agreement means something. Two of them here; `attomaton verify` runs them all and writes a report.

# %%
run("attomaton verify --only luce,T1 -o evidence")

# %% [markdown]
# Each claim leaves a file with what was predicted, measured and allowed:

# %%
from attomaton.jobs.verify import read_evidence

evidence = read_evidence(folder / "evidence" / "claims" / "T1.json")
print(evidence.statement)
print(textwrap.fill("allowed:  " + evidence.tolerance, 100))
print("because: ", evidence.reason)
print("verdict: ", evidence.verdict, "· control:", evidence.control)
for assumption in evidence.assumptions:
    print("assumed: ", assumption.name, "·", assumption.found)
for name in ("cosine_svm", "distance_fin"):
    values = evidence.measured[name]
    print(f"{name}: {min(values):.4g} to {max(values):.4g} over {len(values)} data sets")

# %%
Picture(panels.panels_figure(evidence.title, evidence.panels[:3]))

# %% [markdown]
# `attomaton verify --data yours.jsonl` puts the same claims to the test on your data.
#
# ## Where to go from here
#
# - `make run`: the main job on embedded data, as a page to open.
# - [README](../README.md): all commands on one screen · [commands](cli.md) with their options.
# - [Data contract](data.md): what is read from your files · [event logs](event_logs.md).
# - [A corpus at its full vocabulary](full_vocabulary.md) · [predictor](predictor.md) · [scan and snap](scan_snap.md).

# %%
scratch.cleanup()
