# %% [markdown]
# # A transformer, trained and probed
#
# Which priorities did a transformer learn, and when did its heads settle? Here you draw data whose priorities you
# know, train a small transformer on them in seconds, and ask it. The same two commands read models of your own: see
# [Read a trained transformer](trained.md).
#
# Install it with `pip install "attomaton[plot]"`. Every number is printed by the cell above or below the words
# about it. The source is `docs/probing.py`; `python docs/make_tutorial.py` runs it again.

# %%
import json
import tempfile
import textwrap
from pathlib import Path

import numpy as np

from attomaton.jobs.probe import Asked, probe_model
from attomaton.jobs.snap import snap_models
from attomaton.report.figures import canvas
from attomaton.report.figures.probe import probe_figure
from attomaton.report.figures.snap import snap_figure
from attomaton.report.text import probe as probe_words
from attomaton.report.text import snap as snap_words
from attomaton.report.text.terminal import table
from attomaton.trained.train import Schedule, train_form
from attomaton.trained.write import gpt2_form, write_gpt2


class Picture:
    """An SVG that a notebook shows."""

    def __init__(self, figure):
        self.svg = canvas.to_svg(figure)

    def _repr_svg_(self):
        return self.svg


scratch = tempfile.TemporaryDirectory()
folder = Path(scratch.name)

# %% [markdown]
# ## Data with known priorities
#
# After each of four last tokens the other tokens lie in four tiers, drawn anew for every last token. A context
# holds some tokens and ends with a last token; what comes next is one of its tokens in the highest tier, those in
# one tier tied by Luce's odds. This is what the theory says attention can learn exactly, so the truth is known.

# %%
TOKENS, LASTS, TIERS, LENGTH, ROWS = 20, 4, 4, 5, 4000
words = [f"t{i}" for i in range(TOKENS)]
rng = np.random.default_rng(0)
tier = np.array([rng.permutation(np.arange(TOKENS) % TIERS) for _ in range(LASTS)])
taste = rng.normal(size=(LASTS, TOKENS))
last = rng.integers(0, LASTS, ROWS)
items = np.array(
    [LASTS + rng.choice(TOKENS - LASTS, LENGTH - 1, replace=False) for _ in range(ROWS)]
)
height = tier[last[:, None], items]
score = np.where(height == height.min(1, keepdims=True), taste[last[:, None], items], -np.inf)
chosen = (score + rng.gumbel(size=score.shape)).argmax(1)
rows = np.column_stack([items, last, items[np.arange(ROWS), chosen]])
corpus = folder / "rows.jsonl"
with corpus.open("w") as file:
    for *context, label in rows.tolist():
        print(json.dumps({"tokens": [words[x] for x in context], "next": words[label]}), file=file)
print(corpus.read_text().splitlines()[0])

# %% [markdown]
# ## Train
#
# One standard layer with two heads: learned embeddings and positions, norms, residuals, a hidden layer, AdamW.
# Checkpoints are folders in the layout of Hugging Face, which other tools open, too.

# %%
form = gpt2_form(TOKENS, 16, 1, 2, 8, hidden=32, tied=False)
checkpoints = []
for course in train_form(form, rows, Schedule(steps=600, batch=64, lr=1e-2), marks=12):
    checkpoints.append(folder / f"step-{course.step}")
    write_gpt2(checkpoints[-1], form, course.weights, words)
    if course.step % 200 == 0:
        print(f"step {course.step}: loss {course.loss[-50:].mean():.3f}")

# %% [markdown]
# ## Probe
#
# `attomaton probe step-600 --text rows.jsonl` on the command line. The exact priority graph of the corpus is
# computed; strict orders are drawn from it, and the model is asked for its odds: in real contexts that call for the
# first of two tokens, in those that call for a third, and in minimal ones that hold the two and the last token
# alone.

# %%
found = probe_model(checkpoints[-1], corpus, asked=Asked(pairs=300, contexts=60))
about = probe_words.in_words(found).replace(f"{folder}/", "")
print(textwrap.fill(about, 110))

# %%
orders, *_ = probe_words.sections(found, top=5)
print(table(orders["header"], orders["rows"]))

# %% [markdown]
# The controls stand near one half: against another last token's graph, with shuffled labels, and before training
# there is nothing to agree with. The model's own share is far above them in real and in minimal contexts. It is
# lower where a third token is called for: there training never had to order the two, so whatever order it has is by
# the way.
#
# Counts of what follows the last token would give these orders as well, and where they give all of them nothing can
# tell whether a model knows more. On a corpus of your own, look at the last row: the model's share where counts are
# wrong.

# %%
Picture(probe_figure(found))

# %% [markdown]
# Heads attend to what the automaton retrieves far more than attention spread evenly would (the number in the
# title). Do the query–key scores of one head give the order, or only their sum?

# %%
first = found.first_layer
for i, head in enumerate(first.heads):
    print(f"head {i}: {head.value:.3f} of strict orders ({head.low:.3f} to {head.high:.3f})")
print(f"sum:    {first.sum.value:.3f}; before training {first.untrained.value:.3f}")
print(first.verdict)

# %% [markdown]
# ## Snap
#
# `attomaton snap step-* --text rows.jsonl`: the same questions and texts at every checkpoint. When does each head's
# entropy stop changing, and when are the orders there?

# %%
course = snap_models(checkpoints, corpus, asked=Asked(pairs=150, contexts=60))
heads, _ = snap_words.sections(course, top=20)
print(table(heads["header"], heads["rows"]))

# %%
Picture(snap_figure(course))

# %% [markdown]
# ## The finding

# %%
learned = next(m.step for m in course.marks if m.minimal.value >= 0.9)
frozen = [x.frozen_at for x in course.courses if x.frozen_at is not None]
print(f"nine in ten orders are there at step {learned}")
print(f"{len(frozen)} of {len(course.courses)} heads froze, at steps {frozen}")

# %% [markdown]
# The orders are learned well before the heads have settled: attention goes on sharpening what it has in the right
# order already. That is what the theory of one layer says, whose direction is found early while its norm keeps
# growing. A word of caution: the learning rate falls towards the end, and a rate of nothing freezes anything.
#
# To look further: `attomaton probe MODEL --text CORPUS -o probed` leaves a folder with a page and the exact model
# of the corpus, and `attomaton lab probed` opens it: every head on texts of the corpus, or on your own words,
# beside what the automaton retrieves there.

# %%
scratch.cleanup()
