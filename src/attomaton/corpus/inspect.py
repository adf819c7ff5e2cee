"""A data set in numbers, before anything is computed from it."""

from dataclasses import asdict
from typing import Any

import numpy as np

from attomaton.corpus.windows import Windows


def inspect_windows(windows: Windows, most: int = 20) -> dict[str, Any]:
    """Counts of documents, samples and tokens, context lengths, and the `most` frequent tokens."""
    samples = windows.samples()
    K = len(samples.vocabulary)
    rows = samples.rows[samples.sample_of]
    occurrences = np.bincount(samples.token, samples.count * rows, K).astype(int)
    as_last = np.bincount(samples.last, samples.rows, K).astype(int)
    as_label = np.bincount(samples.label, samples.rows, K).astype(int)
    length = np.add.reduceat(samples.count, samples.start[:-1])
    order = np.argsort(-occurrences, kind="stable")[:most]
    return {
        "samples": int(samples.rows.sum()),
        "distinct_samples": len(samples),
        "total_weight": samples.total_weight,
        "vocab": K,
        "last_tokens": len(np.unique(samples.last)),
        "shortest": int(length.min()),
        "longest": int(length.max()),
        "documents": windows.documents,
        "too_short": windows.too_short,
        "windows": samples.windows,
        "set_aside": asdict(samples.set_aside),
        "tokens": [
            {
                "token": samples.vocabulary[t],
                "occurrences": int(occurrences[t]),
                "as_last": int(as_last[t]),
                "as_label": int(as_label[t]),
            }
            for t in order
        ],
    }
