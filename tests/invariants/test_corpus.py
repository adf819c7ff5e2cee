"""From what a user has to bags: nothing is lost, nothing depends on how the data were cut."""

from collections import Counter

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st
from tests.invariants.harness import holds_for, refuted
from tests.invariants.strategies import data, pick, seeds, shuffled

from attomaton.corpus import samples as samples_room
from attomaton.corpus import windows as windows_room
from attomaton.corpus.samples import merge_samples
from attomaton.corpus.vocabulary import Vocabulary, encode
from attomaton.corpus.windows import windows_from_streams
from attomaton.errors import DataError
from attomaton.mechanics.theory.graph import build_graph

COLUMNS = ("last", "label", "weight", "start", "token", "count", "rows", "source")
K = 5

streams = st.lists(st.lists(st.integers(0, K - 1), max_size=12), min_size=1, max_size=4)
labels = st.one_of(st.text("abé", max_size=3), st.integers(-9, 9))


def cut(lists, context, partial):
    """The windows of some streams, or None where there is none."""
    ids = np.array([x for row in lists for x in row], np.int32)
    start = np.cumsum([0, *map(len, lists)])
    try:
        windows = windows_from_streams(Vocabulary(range(K)), ids, start, context, partial)
    except DataError:
        return None
    return windows if windows.realizable.any() else None


def naive(lists, context, partial):
    """Label and context of every position that has one."""
    for row in lists:
        for t in range(len(row)):
            before = row[max(0, t - context) : t]
            if len(before) >= (1 if partial else context):
                yield row[t], before


@holds_for(st.lists(labels, max_size=30))
def test_ids_are_places_of_first_appearance(words):
    vocabulary, ids = encode(words)
    assert [vocabulary[i] for i in ids] == words
    assert list(vocabulary) == list(dict.fromkeys(words))
    assert all(vocabulary.id_of(word) == i for i, word in enumerate(vocabulary))


@holds_for(streams, st.integers(1, 5), st.booleans())
def test_a_window_is_realizable_where_its_label_is_in_its_context(lists, context, partial):
    wanted = list(naive(lists, context, partial))
    assume(wanted)
    windows = windows_from_streams(
        Vocabulary(range(K)), np.array([x for row in lists for x in row], np.int32),
        np.cumsum([0, *map(len, lists)]), context, partial,
    )  # fmt: skip
    assert windows.label.tolist() == [y for y, _ in wanted]
    assert windows.realizable.tolist() == [y in before for y, before in wanted]
    assert windows.last.tolist() == [before[-1] for _, before in wanted]
    assert windows.length.tolist() == [len(before) for _, before in wanted]


@holds_for(streams, st.integers(1, 5), st.booleans(), share=0.5)
def test_no_weight_is_lost(lists, context, partial):
    windows = cut(lists, context, partial)
    assume(windows is not None)
    samples = windows.samples()
    assert samples.total_weight + samples.set_aside.weight == len(windows)
    assert samples.rows.sum() + samples.set_aside.rows == len(windows) == samples.windows


@holds_for(streams, st.integers(1, 5), st.booleans(), st.integers(1, 30), share=0.5)
def test_parts_of_any_size_are_the_whole(lists, context, partial, size):
    """Samples and graphs of all parts, one after the other, bit for bit."""
    windows = cut(lists, context, partial)
    assume(windows is not None)
    whole = windows.samples()
    parts = [windows.samples(rows) for rows in windows.parts(size)]
    for name in COLUMNS:
        if name != "start":
            joined = np.concatenate([getattr(part, name) for part in parts])
            np.testing.assert_array_equal(joined, getattr(whole, name))
    graph, graphs = build_graph(whole), [build_graph(part) for part in parts]
    for name in ("pair_last", "pair_token", "edge_weight", "level"):
        joined = np.concatenate([getattr(g, name) for g in graphs])
        np.testing.assert_array_equal(joined, getattr(graph, name))
    shift = np.cumsum([0, *(len(g.level) for g in graphs)])
    joined = np.concatenate([g.component + s for g, s in zip(graphs, shift, strict=False)])
    np.testing.assert_array_equal(joined, graph.component)


@holds_for(data())
def test_merging_twice_is_merging_once(raw):
    once = raw.samples()
    twice = merge_samples(once)
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(once, name), getattr(twice, name))


@holds_for(data(), seeds, st.integers(1, 20), share=0.5)
def test_bags_depend_on_neither_order_nor_chunks(raw, seed, chunk):
    """The same samples with the same weights, whatever is read first and however much is sorted at a time."""

    def contents(samples):
        heads = zip(samples.last.tolist(), samples.label.tolist(), strict=True)
        bags = (tuple(sorted(samples.bag(i).items())) for i in range(len(samples)))
        rows = zip(samples.weight.tolist(), samples.rows.tolist(), strict=True)
        return dict(zip(zip(heads, bags, strict=True), rows, strict=True))

    wanted = Counter()
    for row, y, w in raw:
        wanted[(row[-1], y), tuple(sorted(Counter(row).items()))] += w
    whole = samples_room.CHUNK
    try:
        samples_room.CHUNK = chunk
        other = contents(pick(raw, shuffled(seed, len(raw.rows))).samples())
    finally:
        samples_room.CHUNK = whole
    assert other == contents(raw.samples())  # weights are sums of halves and integers: exact
    assert {key: w for key, (w, _) in other.items()} == wanted


# Controls


def test_control_a_label_looked_for_one_place_too_far(monkeypatch):
    honest = windows_room.previous_places
    monkeypatch.setattr(windows_room, "previous_places", lambda *rest: honest(*rest) + 1)
    refuted(test_a_window_is_realizable_where_its_label_is_in_its_context)


def test_control_merging_without_counts(monkeypatch):
    """Bags that differ in multiplicity alone, taken for one."""
    from dataclasses import replace

    honest = samples_room.merge_samples
    monkeypatch.setattr(
        samples_room, "merge_samples", lambda s: honest(replace(s, count=np.ones_like(s.count)))
    )
    refuted(test_bags_depend_on_neither_order_nor_chunks)


def test_control_parts_that_cut_a_last_token_in_two(monkeypatch):
    def anywhere(self, size=1):
        at = np.flatnonzero(self.realizable)
        at = at[np.argsort(self.last[at], kind="stable")]
        return [rows for rows in np.array_split(at, 1 + len(at) // size) if len(rows)]

    monkeypatch.setattr(windows_room.Windows, "parts", anywhere)
    refuted(test_parts_of_any_size_are_the_whole)
