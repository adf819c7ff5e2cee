"""Tokens a second in training the transformer of Figure 7, compilation left out.

`python -m benchmarks.transformer [--json] [--only NAME …]` from the repository. The text is `train.txt` of WikiText-2
in `--data`, or in `wikitext-2` under `ATTOMATON_DATA`; where there is none, random tokens of its size and vocabulary
with Zipf's law take its place (which costs the same time). `--reference` adds the textbook program of the tests,
one compiled call a step, and writes both loss curves to the JSON. `--losses` measures the loss as it is beside the
same without kernels of ours, in the short chunks of processors, and the textbook loss that JAX differentiates, with
tf32 and with bfloat16. `--curves FILE` trains several starts of each and of the textbook program and writes the table
of `docs/figures/transformer_loss.csv`.
"""

import argparse
import csv
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from attomaton.base import programs
from attomaton.corpus.text import read_stream
from attomaton.transformer import model
from attomaton.transformer.data import windows
from attomaton.transformer.model import Settings
from attomaton.transformer.train import train
from benchmarks.table import best_of, say

VOCAB, TOKENS = 33_279, 2_090_473  # of WikiText-2
RATE, STEPS = 5.0, 1_500
VARIANTS: dict[str, dict[str, Any]] = {
    "float32": {"precision": "float32"},
    "tf32": {"precision": "tf32"},
    "bfloat16": {"precision": "bfloat16"},
    "untuned": {"precision": "bfloat16", "autotune": False},
    "no-dropout": {"precision": "bfloat16", "dropout": 0.0},
    "5-runs": {"precision": "bfloat16", "seeds": 5},
    "25-runs": {"precision": "bfloat16", "seeds": 25},
    "3-layers": {"precision": "bfloat16", "layers": 3},
}
LOSSES = ("as it is", "no kernels", "short chunks", "plain")
VARIANTS |= {
    f"{precision}-{loss.replace(' ', '-')}": {"precision": precision, "loss": loss}
    for precision in ("tf32", "bfloat16")
    for loss in LOSSES[1:]
}
FEW = ("float32", "tf32", "bfloat16")
COMPARED = [n for n in VARIANTS if n in ("tf32", "bfloat16") or VARIANTS[n].get("loss")]
MEANS, STARTS = 50, 5  # steps in a mean of the curves, and starts


def load(data: Path | None, vocab: int, tokens: int) -> tuple[int, np.ndarray, str]:
    """Size of the vocabulary, token ids, and where they come from."""
    if data is None and os.environ.get("ATTOMATON_DATA"):
        data = Path(os.environ["ATTOMATON_DATA"]) / "wikitext-2"
    if data is not None and (data / "train.txt").is_file():
        vocabulary, ids = read_stream(data / "train.txt")
        return len(vocabulary), ids, "WikiText-2"
    p = 1 / (np.arange(vocab) + 2.7)
    rng = np.random.default_rng(0)
    return vocab, rng.choice(vocab, size=tokens, p=p / p.sum()), "Zipf"


def plain_loss(x: Any, R: Any, rows: Any, target: Any, vocab: int, precision: str) -> Any:
    """The textbook loss, rounded as the library's; its gradient is left to JAX."""
    import jax
    import jax.numpy as jnp

    D, b = model.parted(R, vocab, x.shape[1])
    factor = jnp.bfloat16 if precision == "bfloat16" else x.dtype
    logits = jnp.matmul(x.astype(factor), D.astype(factor).T, preferred_element_type=x.dtype) + b
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), target[:, None], axis=1).mean()


@contextmanager
def using(loss: str) -> Iterator[None]:
    """Programs compiled inside have another loss, one of `LOSSES`; all but the first do without kernels of ours."""
    kept = model.joined_loss, model.CHUNK_BYTES_ELSEWHERE, model.with_kernels
    programs._compiled.cache_clear()  # what is compiled is kept by shapes, not by the loss
    if loss != LOSSES[0]:
        model.with_kernels = lambda precision: False
    if loss == "plain":
        model.joined_loss = plain_loss
    elif loss == "short chunks":
        model.CHUNK_BYTES_ELSEWHERE = model.CHUNK_BYTES["cpu"]
    try:
        yield
    finally:
        model.joined_loss, model.CHUNK_BYTES_ELSEWHERE, model.with_kernels = kept
        programs._compiled.cache_clear()


def measure(
    name: str, vocab: int, data: np.ndarray, width: int, steps: int, every: int
) -> dict[str, Any]:
    """One variant: the second of two trainings, so that nothing is measured that happens once."""
    chosen = {"autotune": True} | VARIANTS[name]
    shape = {k: chosen.pop(k) for k in ("layers", "dropout") if k in chosen}
    settings = Settings(vocab, width=width, hidden=width, **shape)
    say(f"transformer: {name}")
    with using(chosen.pop("loss", LOSSES[0])):
        first = train(data, settings, lr=RATE, steps=every, every=every, **chosen)
        run = train(data, settings, lr=RATE, steps=steps, every=every, **chosen)
    batch, length = data.shape[1], data.shape[2] - 1
    return {
        "variant": name,
        "tokens_per_s": len(run.lr) * steps * batch * length / run.seconds["run"],
        "ms_per_step": 1e3 * run.seconds["run"] / steps,
        "runs": len(run.lr),
        "steps": steps,
        "compile_s": first.seconds["compile"],
        "first_loss": float(run.loss[0, 0]),
        "last_losses": float(run.loss[0, -min(100, steps) :].mean()),
        "loss": run.loss[0].tolist(),
    }


def measure_reference(vocab: int, data: np.ndarray, width: int, steps: int) -> dict[str, Any]:
    """The textbook program of the tests, in single precision."""
    from tests.transformer.reference import train_plainly

    settings = Settings(vocab, width=width, hidden=width)
    say("transformer: reference")
    train_plainly(data, settings, RATE, 2)
    seconds, (_, loss) = best_of(lambda: train_plainly(data, settings, RATE, steps), 1)
    return {
        "variant": "reference",
        "tokens_per_s": steps * data.shape[1] * (data.shape[2] - 1) / seconds,
        "ms_per_step": 1e3 * seconds / steps,
        "runs": 1,
        "steps": steps,
        "first_loss": float(loss[0]),
        "last_losses": float(loss[-min(100, steps) :].mean()),
        "loss": loss.tolist(),
    }


def write_curves(path: Path, vocab: int, data: np.ndarray, width: int, steps: int) -> None:
    """Mean losses of some steps at a time, over several starts, with the standard error of their mean."""
    from tests.transformer.reference import train_plainly

    settings = Settings(vocab, width=width, hidden=width)
    say("transformer: curves of the textbook program")
    plain = [train_plainly(data, settings, RATE, steps, index=i)[1] for i in range(STARTS)]
    curves = {"reference": np.stack(plain)}
    for precision in ("bfloat16", "tf32"):
        say(f"transformer: curves with {precision}")
        curves[precision] = train(
            data, settings, lr=RATE, steps=steps, seeds=STARTS, precision=precision
        ).loss
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(("program", "steps", "mean_loss", "standard_error"))
        for name, loss in curves.items():
            means = loss.reshape(STARTS, -1, MEANS).mean(axis=2)
            errors = means.std(axis=0, ddof=1) / np.sqrt(STARTS)
            for i, (mean, error) in enumerate(zip(means.mean(axis=0), errors, strict=True)):
                span = f"{MEANS * i + 1}-{MEANS * (i + 1)}"
                out.writerow((name, span, f"{mean:.5f}", f"{error:.5f}"))


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.transformer", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON, with the loss curves")
    parser.add_argument("--data", type=Path, help="folder with train.txt of WikiText-2")
    parser.add_argument("--only", nargs="+", choices=VARIANTS, default=FEW, help="variants")
    parser.add_argument("--all", action="store_true", help="all variants")
    parser.add_argument("--losses", action="store_true", help=", ".join(LOSSES))
    parser.add_argument("--curves", type=Path, metavar="FILE", help="write mean losses as CSV")
    parser.add_argument("--reference", action="store_true", help="the textbook program too")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--every", type=int, default=500, help="steps in one compiled call")
    parser.add_argument("--width", type=int, default=200)
    parser.add_argument("--vocab", type=int, default=VOCAB, help="of random tokens")
    parser.add_argument("--tokens", type=int, default=TOKENS, help="of random text")
    asked = parser.parse_args()
    vocab, ids, source = load(asked.data, asked.vocab, asked.tokens)
    data = windows(ids)
    if asked.curves:
        write_curves(asked.curves, vocab, data, asked.width, asked.steps)
        return
    names = VARIANTS if asked.all else COMPARED if asked.losses else asked.only
    found = [measure(n, vocab, data, asked.width, asked.steps, asked.every) for n in names]
    if asked.reference:
        found.append(measure_reference(vocab, data, asked.width, asked.steps))
    if asked.json:
        import jax

        device = jax.devices()[0].device_kind
        print(json.dumps({"device": device, "text": source, "vocab": vocab, "variants": found}))
    else:
        for f in found:
            print(
                f"{f['variant']:24} {f['tokens_per_s']:12,.0f} tokens/s {f['ms_per_step']:8.3f} ms a step "
                f"({f['runs']} runs)  loss {f['first_loss']:.3f} → {f['last_losses']:.3f}"
                + (f"  compiled in {f['compile_s']:.1f} s" if "compile_s" in f else "")
            )


if __name__ == "__main__":
    main()
