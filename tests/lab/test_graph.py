"""The priority graph screen: what is drawn, hovered, chosen, dragged, zoomed, filtered and saved."""

import json
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from tests.chromium import PATIENCE, eventually
from tests.lab.conftest import enter

from attomaton.corpus.readers import read_samples
from attomaton.disk.formats import plain
from attomaton.errors import UsageError
from attomaton.lab.graph.data import (
    CAP,
    TOP,
    TokenGraph,
    around,
    part_of,
    passing,
    thresholds,
    top_part,
)
from attomaton.lab.graph.matrix import matrix
from attomaton.lab.graph.scene import node_id, number_text, scene
from attomaton.lab.graph.screen import graph_code
from attomaton.lab.graph.tables import edge_table, node_table
from attomaton.lab.shelf import _example
from attomaton.mechanics.theory.automaton import samples_behind
from attomaton.mechanics.theory.limit import solve_limit
from attomaton.mechanics.theory.view import graph_view

TOKENS = 80  # in a chain, every one above all later ones: more edges than one picture takes


@pytest.fixture(scope="module")
def big_file(tmp_path_factory):
    """A chain of `TOKENS` tokens before one last token, the first ones seen more often; and one small graph."""
    path = tmp_path_factory.mktemp("big") / "big.jsonl"
    names = [f"t{i:02d}" for i in range(TOKENS)]
    rows = [
        {"tokens": [*names[i:], "end"], "next": names[i]}
        for i in range(TOKENS)
        for _ in range(1 + (i == 7))
    ]
    rows += [{"tokens": ["a", "b", "small"], "next": "a"}]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


@pytest.fixture(scope="module")
def lab(start_lab, big_file):
    """One lab for all: the big data at hand, the example under its own id."""
    return start_lab(big_file)


@pytest.fixture(scope="module")
def limit():
    return solve_limit(read_samples(_example().path))


@pytest.fixture(scope="module")
def big(big_file):
    limit = solve_limit(read_samples(big_file))
    return TokenGraph(limit, limit.graph.vocabulary.id_of("end"))


def token_graph(limit, last):
    return TokenGraph(limit, limit.graph.vocabulary.id_of(last))


# What is drawn of a graph, without a browser


@pytest.mark.parametrize("last", ["guest", "phone", "bell"])
def test_the_arrays_are_those_of_the_library(limit, last):
    graph, view = token_graph(limit, last), graph_view(limit, limit.graph.vocabulary.id_of(last))
    assert graph.word == [node.token for node in view.nodes]
    for name, mine in (("component", graph.net.component), ("level", graph.net.level),
                       ("svm_score", graph.net.score), ("log_pi", graph.log_pi)):  # fmt: skip
        assert mine.tolist() == [getattr(node, name) for node in view.nodes]
    edges = np.arange(len(graph.net.weight))
    found = zip(
        graph.net.source, graph.net.target, graph.net.weight, graph.net.margin(edges), strict=True
    )
    assert [tuple(map(float, e)) for e in found] == [
        tuple(map(float, (e.source, e.target, e.weight, e.margin))) for e in view.links
    ]


def test_counts_of_a_token_are_those_of_the_samples(limit):
    graph, samples = token_graph(limit, "guest"), limit.samples
    own = np.flatnonzero(samples.last == graph.last)
    for i, word in enumerate(graph.word):
        label = [samples.weight[r] for r in own if samples.vocabulary[samples.label[r]] == word]
        held = [samples.weight[r] for r in own if word in samples.bag(int(r))]
        assert (graph.net.as_next[i], graph.present[i]) == (sum(label), sum(held))
    assert np.allclose(
        [graph.share[graph.net.component == c].sum() for c in range(graph.components)], 1
    )


def test_the_filter_hides_light_edges_and_what_hangs_on_nothing_else(limit):
    net = token_graph(limit, "bell").net
    assert [len(x) for x in passing(net, 0.0)] == [6, 12]
    nodes, edges = passing(net, 3.0)
    assert set(net.weight[edges]) == {3.0}
    assert set(nodes) == {*net.source[edges], *net.target[edges]}
    assert [len(x) for x in passing(net, 100.0)] == [0, 0]


def test_condensed_there_is_one_node_per_component_and_weights_add_up(limit):
    graph = token_graph(limit, "guest")
    part = part_of(graph, condensed=True)
    assert (len(part.nodes), len(part.edges), part.all) == (3, 2, (3, 2))
    net = graph.net
    for e in part.edges:
        a, b = part.net.source[e], part.net.target[e]
        between = (net.component[net.source] == a) & (net.component[net.target] == b)
        assert part.net.weight[e] == net.weight[between].sum()


def test_a_neighbourhood_keeps_the_cap_and_the_strongest_edges(big):
    assert len(big.net.level) + len(big.net.weight) > CAP
    part = part_of(big, most=200)
    assert part.centre == big.word.index("t07")  # came next most often
    assert len(part.nodes) + len(part.edges) <= 200
    assert len(part.nodes) > 20
    assert {*big.net.source[part.edges], *big.net.target[part.edges]} <= {*part.nodes}
    # The heavy edges out of t07 all weigh 2, the others 1: those that are drawn of it are among the strongest.
    out = part.edges[big.net.source[part.edges] == part.centre]
    assert set(big.net.weight[out]) == {2.0}
    other = part_of(big, centre=big.word.index("t69"), most=200)
    assert other.centre == big.word.index("t69")
    assert part_of(big, least=2.0).centre is None  # few enough again


def test_a_neighbourhood_ends_where_the_graph_does(big):
    lonely = np.array([0])
    nodes, edges = around(big.net, lonely, int(big.net.source[0]), 100)
    assert (len(nodes), edges.tolist()) == (2, [0])


def test_scenes_say_what_they_show(limit):
    graph = token_graph(limit, "guest")
    drawn = scene(graph, part_of(graph))
    assert [n.level for n in drawn.nodes] == sorted(n.level for n in drawn.nodes)
    assert [b.title for b in drawn.boxes] == ["tied: 3"]
    assert [n.name for n in drawn.nodes if n.last] == ["guest"]
    kinds = [e.kind for e in drawn.edges]
    assert (kinds.count("tie"), kinds.count("active"), kinds.count("slack")) == (6, 6, 0)
    assert json.dumps(plain(drawn))


def test_tables_have_everything_that_passes(limit, big):
    part = part_of(big, most=100)
    assert edge_table(big, part, 10).total == len(big.net.weight) > len(part.edges)
    assert len(edge_table(big, part, 10).rows) == 10
    table = node_table(big, part)
    assert [row[6] for row in table.rows] == sorted(big.net.as_next.tolist(), reverse=True)
    assert table.rows[0][0] == big.name[table.ends[0][0]] == "t07"


def test_tokens_are_found_by_name_or_the_nearest_is_named(limit):
    graph = token_graph(limit, "bell")
    assert graph.word[graph.find("soup")] == "soup"
    with pytest.raises(
        UsageError,
        match=r"'sop' is never seen together with the last token 'bell'; did you mean 'soup'",
    ):
        graph.find("sop")
    assert [graph.word[i] for i in graph.search("o")] == ["soup", "espresso", "toast"]


def test_steps_of_the_slider():
    assert thresholds(np.zeros(0)) == [0.0]
    many = thresholds(np.arange(1.0, 5000))
    assert many[:3] == [0.0, 2.0, 3.0]
    assert len(many) <= 41
    assert many[-1] == 4999


@pytest.mark.parametrize(
    ("x", "text"), [(3.0, "3"), (-0.5, "−0.5"), (1e-9, "0"), (12345.0, "12,345")]
)
def test_numbers_in_words(x, text):
    assert number_text(x) == text


# In the browser


def seen(tab, last, **more):
    query = "&".join(f"{k}={v}" for k, v in {"on": "example", "last": last, **more}.items())
    tab.see(f"/graph?{query}")
    tab.wait("document.querySelectorAll('.pg .node').length > 0")
    return tab


def node(graph, word):
    return f".pg .node[data-id='{graph.word.index(word)}']"


def figure(tab, name):
    return tab.text(f".pg-panel [data-figure='{name}']")


def transform(tab, selector=".pg .world"):
    """The numbers of an element's transform, once it stands still: x, y and, of the whole drawing, the zoom."""
    tab.wait("getComputedStyle(document.querySelector('.pg-sketch')).display === 'none'")
    said = tab.value(f"document.querySelector(\"{selector}\").getAttribute('transform')")
    return [float(x) for x in re.findall(r"-?[\d.]+(?:e-?\d+)?", said)]


def settings(tab):
    return {k: v[0] for k, v in parse_qs(urlsplit(tab.value("location.href")).query).items()}


def test_hovering_a_node_says_what_it_is_and_lights_its_edges(tab, limit):
    graph = token_graph(limit, "bell")
    seen(tab, "bell")
    tab.hover(
        node(graph, "soup"),
        until="document.querySelector('.pg-tip').innerText.startsWith('soup')",
    )
    i = graph.word.index("soup")
    tip = tab.text(".pg-tip").splitlines()
    assert tip == [
        "soup",
        f"level {graph.net.level[i]}, component {graph.net.component[i]}",
        f"score {number_text(graph.net.score[i])}, log π 0",
        f"came next {graph.net.as_next[i]:.0f} times",
        f"in {graph.present[i]:.0f} samples",
    ]
    touching = ((graph.net.source == i) | (graph.net.target == i)).sum()
    eventually(touching, tab.value, "document.querySelectorAll('.pg.dim .edge.lit').length")
    eventually(12, tab.value, "document.querySelectorAll('.pg .edge').length")


def test_hovering_an_edge_says_who_won(tab, limit):
    seen(tab, "phone")
    tab.hover(
        ".pg .edges .hit", until="document.querySelector('.pg-tip').innerText.includes(' over ')"
    )
    title, numbers = tab.text(".pg-tip").splitlines()
    graph = token_graph(limit, "phone")
    winner, loser = (graph.word.index(w) for w in title.split(" over "))
    (e,) = np.flatnonzero((graph.net.source == winner) & (graph.net.target == loser))
    assert numbers == f"weight {number_text(graph.net.weight[e])} · tied"


def test_clicking_a_node_shows_the_numbers_of_the_library(tab, limit):
    graph = token_graph(limit, "guest")
    seen(tab, "guest")
    tab.click(node(graph, "order"))
    tab.wait("document.querySelector('.pg-panel .card-title').innerText === 'order'")
    i = graph.word.index("order")
    for name, value in (
        ("level", graph.net.level[i]), ("component", graph.net.component[i]), ("W_svm score", graph.net.score[i]),
        ("log π", graph.log_pi[i]), ("soft odds", graph.share[i]), ("came next", graph.net.as_next[i]),
        ("in samples", graph.present[i]),
    ):  # fmt: skip
        eventually(number_text(float(value)), figure, tab, name)
    panel = tab.text(".pg-panel")
    assert f"Won over ({(graph.net.source == i).sum()})" in panel
    assert f"Lost to ({(graph.net.target == i).sum()})" in panel
    assert panel.count("→ order") == len(np.flatnonzero(graph.labels == i))
    eventually("order", lambda: settings(tab)["chosen"])
    link = tab.value(
        "[...document.querySelectorAll('.pg-panel a')].map(a => a.getAttribute('href')).join()"
    )
    assert "/automaton?on=example&context=order+guest" in link
    assert "/lens?on=example&last=guest" in link
    # A row of a table chooses the token at the other end.
    tab.click(".pg-panel .choosable tbody tr")
    heaviest = np.flatnonzero(graph.net.source == i)
    other = graph.word[graph.net.target[heaviest[np.argmax(graph.net.weight[heaviest])]]]
    tab.wait(f"document.querySelector('.pg-panel .card-title').innerText === '{other}'")
    eventually(
        str(graph.word.index(other)),
        tab.value,
        "document.querySelector('.pg .node.chosen').dataset.id",
    )


def test_an_edge_shows_the_samples_that_made_it_and_the_address_restores_it(tab, limit):
    graph = token_graph(limit, "guest")
    seen(tab, "guest", chosen="guest", over="floor")
    tab.wait("document.querySelector('.pg-panel .card-title').innerText === 'guest over floor'")
    i, j = (graph.word.index(w) for w in ("guest", "floor"))
    rows = samples_behind(limit.samples, graph.last, int(graph.token[i]), int(graph.token[j]))
    eventually(number_text(limit.samples.weight[rows].sum()), figure, tab, "weight")
    eventually(len(rows), tab.value, "document.querySelectorAll('.pg-samples li').length")
    said = tab.text(".pg-samples")
    assert all(f"row {limit.samples.source[r]}" in said for r in rows)
    eventually(1, tab.value, "document.querySelectorAll('.pg .edge.chosen').length")


def test_a_dragged_node_takes_its_edges_along_and_stays_where_it_is(tab, lab, limit):
    graph = token_graph(limit, "guest")
    seen(tab, "guest")
    floor = node(graph, "floor")
    before, zoom = transform(tab, floor), transform(tab)[2]
    first = transform(tab, node(graph, "order"))
    line = "[...document.querySelectorAll('.pg .edge')].map(e => e.getAttribute('d')).join()"
    lines = tab.value(line)
    tab.drag(floor, 90, 45)
    moved = [before[0] + 90 / zoom, before[1] + 45 / zoom]
    eventually(pytest.approx(moved, abs=0.2), transform, tab, floor)
    after = transform(tab, floor)
    assert tab.value(line) != lines
    box = "document.querySelector('.pg .box rect').getBoundingClientRect()"
    wide = tab.value(f"{box}.width")
    tab.drag(node(graph, "order"), 60, 0)
    tab.wait(f"{box}.width > {wide + 40}")  # the box stretches with its member
    order = transform(tab, node(graph, "order"))

    def stays(floor_at, order_at):
        """Whether a page that is opened now has both there: what was dropped is a moment on its way to the lab."""
        seen(tab, "guest")
        return [transform(tab, floor), transform(tab, node(graph, "order"))] == [floor_at, order_at]

    eventually(True, stays, after, order)
    tab.click("[aria-label='Reset']")
    eventually(before, transform, tab, floor)
    eventually(True, stays, before, first)


def inside(tab):
    """Whether all nodes are inside the drawing, once it stands still."""
    tab.wait("getComputedStyle(document.querySelector('.pg-sketch')).display === 'none'")
    return tab.value(
        "(() => { const s = document.querySelector('.pg').getBoundingClientRect();"
        " return [...document.querySelectorAll('.pg .node')].every(n => { const r = n.getBoundingClientRect();"
        " return r.left >= s.left && r.right <= s.right && r.top >= s.top && r.bottom <= s.bottom; }); })()"
    )


def test_zoom_buttons_wheel_and_panning(tab):
    seen(tab, "bell")
    x, y, zoom = transform(tab)
    assert inside(tab)
    tab.click("[aria-label='Zoom in']")
    eventually(pytest.approx(1.25 * zoom), lambda: transform(tab)[2])
    tab.click("[aria-label='Zoom out']")
    eventually(pytest.approx(zoom), lambda: transform(tab)[2])
    for _ in range(4):
        tab.click("[aria-label='Zoom in']")
    assert not inside(tab)
    tab.click("[aria-label='Fit']")
    eventually(pytest.approx([x, y, zoom]), transform, tab)
    at = tab.box(".pg-frame")
    corner = at["x"] - at["width"] / 2 + 30, at["y"] + at["height"] / 2 - 30
    tab.mouse("moved", *corner)
    tab.mouse("pressed", *corner, button="left", clickCount=1)
    tab.mouse("moved", corner[0] + 80, corner[1] - 40, button="left", buttons=1)
    tab.mouse("released", corner[0] + 80, corner[1] - 40, button="left", clickCount=1)
    eventually(pytest.approx([x + 80, y - 40, zoom], abs=0.2), transform, tab)
    # The wheel zooms at the pointer: the point under it stays.
    left, top = tab.value(
        "(r => [r.x, r.y])(document.querySelector('.pg').getBoundingClientRect())"
    )
    p = corner[0] - left, corner[1] - top
    under = [(p[i] - transform(tab)[i]) / zoom for i in (0, 1)]
    tab.mouse("wheel", *corner, deltaX=0, deltaY=-200)
    tab.wait(
        f"!document.querySelector('.pg .world').getAttribute('transform').endsWith('({zoom})')"
    )
    now = transform(tab)
    assert now[2] > zoom
    assert [(p[i] - now[i]) / now[2] for i in (0, 1)] == pytest.approx(under, abs=0.5)


def test_the_keyboard_zooms_pans_walks_and_chooses(tab, limit):
    graph = token_graph(limit, "bell")
    seen(tab, "bell")
    x, y, zoom = transform(tab)
    tab.value("document.querySelector('.pg').focus()")
    tab.press("+")
    assert transform(tab)[2] > zoom
    tab.press("0")
    tab.press("ArrowLeft")
    eventually(pytest.approx([x + 60, y, zoom]), transform, tab)
    tab.press("Tab")  # into the first node: level 0
    first = tab.value("document.activeElement.getAttribute('aria-label')")
    assert "level 0" in first
    tab.press("ArrowDown")
    assert "level 1" in tab.value("document.activeElement.getAttribute('aria-label')")
    tab.press("Enter")
    tab.wait("!!document.querySelector('.pg-panel [data-figure=\"W_svm score\"]')")
    i = int(tab.value("document.activeElement.dataset.id"))
    eventually(graph.name[i], tab.text, ".pg-panel .card-title")
    tab.press("Escape")
    tab.wait("document.querySelector('.pg-panel .card-title').innerText.startsWith('After')")


def test_the_filter_and_condensing_change_what_is_shown_and_the_address(tab, limit):
    graph = token_graph(limit, "guest")
    seen(tab, "guest")
    eventually("Shown 5 of 5 tokens, 12 of 12 edges.", tab.text, ".pg-said")
    tab.type("input[aria-label='Minimum count']", "5")
    nodes, edges = passing(graph.net, 5.0)
    tab.wait(
        f"document.querySelector('.pg-said').innerText.startsWith('Shown {len(nodes)} of 5 tokens, {len(edges)} of 12')"
    )
    assert tab.value("document.querySelectorAll('.pg .node').length") == len(nodes) < 5
    eventually(len(edges), tab.value, "document.querySelectorAll('.pg .edge').length")
    tab.wait("new URLSearchParams(location.search).get('min') === '5'")
    tab.click("[aria-label='One node per component'], .q-toggle")
    tab.wait("document.querySelector('.pg-said').innerText.includes('components')")
    part = part_of(graph, 5.0, True)
    eventually(
        f"Shown {len(part.nodes)} of 3 components, {len(part.edges)} of 2 relations.",
        tab.text,
        ".pg-said",
    )
    eventually("1", lambda: settings(tab)["condensed"])
    shown = tab.value(
        "[...document.querySelectorAll('.pg .node text')].map(t => t.textContent).join('|')"
    )
    tab.see("/graph?" + urlsplit(tab.value("location.href")).query)
    tab.wait("document.querySelectorAll('.pg .node').length > 0")
    eventually(
        shown,
        tab.value,
        "[...document.querySelectorAll('.pg .node text')].map(t => t.textContent).join('|')",
    )
    eventually(
        "5", tab.value, "document.querySelector(\"input[aria-label='Minimum count']\").value"
    )
    tab.click(".pg .node.several")
    tab.wait("document.querySelector('.pg-panel .card-title').innerText === '3 tied tokens'")
    tab.click(".pg-panel .choosable tbody tr")  # a member: expands, and shows it
    tab.wait("document.querySelector('.pg-said').innerText.includes('tokens')")
    eventually(1, tab.value, "document.querySelectorAll('.pg .node.chosen').length")


def test_a_large_graph_shows_its_top_tokens_and_folds_the_others(tab, big):
    tab.see("/graph?last=end")
    tab.wait("document.querySelectorAll('.pg .node').length > 0")
    part = top_part(big)
    counts = (
        f"Shown {TOP} of {len(big)} tokens, {len(part.edges)} of {len(big.net.weight):,} edges."
    )
    assert tab.text(".pg-said").startswith(counts)
    folds = "[...document.querySelectorAll('.pg .node.fold')].map(e => e.textContent)"
    eventually([f"+ {n} more" for _, n in part.folded], tab.value, folds)
    assert sum(n for _, n in part.folded) == len(big) - TOP
    tab.value("document.querySelector('.pg .node.fold').scrollIntoView()")
    tab.click(".pg .node.fold")  # draws twice as many
    tab.wait(
        f"document.querySelector('.pg-said').innerText.startsWith('Shown {2 * TOP} of {len(big)}')"
    )
    eventually(str(2 * TOP), lambda: settings(tab)["tokens"])
    eventually([f"+ {n} more" for _, n in top_part(big, top=2 * TOP).folded], tab.value, folds)
    # A token that is chosen is drawn, however rare.
    rare = next(i for i in range(len(big)) if i not in part.nodes)
    tab.see(f"/graph?last=end&chosen={big.word[rare]}")
    tab.wait(
        f"document.querySelector('.pg .node.chosen text')?.textContent === {json.dumps(big.name[rare])}"
    )


def test_names_are_never_smaller_than_eleven_pixels(tab, big):
    tab.see("/graph?last=end&tokens=80")
    tab.wait("document.querySelectorAll('.pg .node').length > 60")
    sizes = """[...document.querySelectorAll('.pg .node text, .pg .box text, .pg .level')].filter(e =>
      getComputedStyle(e).display !== 'none').map(e => parseFloat(getComputedStyle(e).fontSize)
      * e.getScreenCTM().a)"""
    resting = "getComputedStyle(document.querySelector('.pg-sketch')).display === 'none'"
    for zoom in (1, 0.5, 0.25, 3):
        tab.value(f"getElement(+document.querySelector('.pg-frame').id.slice(1)).zoom({zoom})")
        tab.wait(resting)
        found = tab.value(sizes)
        assert found
        assert min(found) >= 10.9, zoom


def test_the_matrix_has_the_weights_and_a_square_shows_its_samples(tab, limit):
    graph = token_graph(limit, "bell")
    drawn, ends = matrix(graph, part_of(graph), 40)
    net = graph.net
    assert {(r[0], r[1]): r[2] for r in drawn.rows} == {
        (graph.name[a], graph.name[b]): w
        for a, b, w in zip(net.source, net.target, net.weight, strict=True)
    }
    assert [[graph.name[a], graph.name[b]] for a, b in ends] == [r[:2] for r in drawn.rows]
    tab.see("/graph?on=example&last=bell&view=matrix")
    tab.wait("!!document.querySelector('[aria-label=\"Who outranks whom\"] canvas')")
    assert not tab.value("!!document.querySelector('.pg')?.getBoundingClientRect().width")
    tab.see("/graph?on=example&last=bell&view=list")
    tab.wait("document.querySelectorAll('.pg-tables tbody tr').length > 3")


def test_suggestions_break_no_word(tab):
    tab.see("/graph?last=end")
    tab.wait("document.querySelectorAll('.pg .node').length > 0")
    tab.type("input[aria-label='Around']", "t6")
    tab.wait("document.querySelectorAll('.find-list [role=option]').length === 10")
    spans = "[...document.querySelectorAll('.find-list [role=option] span')]"
    assert all(tab.value(f"{spans}.map(e => e.offsetHeight < 30)"))
    # However narrow the field: what is said of a word takes no letter of it.
    wide = "e => e.scrollWidth <= e.clientWidth && getComputedStyle(e).overflowWrap !== 'anywhere'"
    assert all(tab.value(f"{spans}.map({wide})"))


def test_no_old_graph_stands_under_an_error(tab):
    tab.see("/graph?last=end")
    tab.wait("document.querySelectorAll('.pg .node').length > 0")
    tab.type("input[aria-label='Last token']", "nobody")
    tab.press("Enter")
    tab.wait("!!document.querySelector('.problem')")
    assert not tab.value("document.querySelector('.pg').getBoundingClientRect().width")


def test_a_graph_above_the_cap_shows_a_neighbourhood(tab, big):
    tab.see("/graph?last=end&centre=t07")
    tab.wait("document.querySelectorAll('.pg .node').length > 0")
    part = part_of(big, most=400)
    said = tab.text(".pg-said")
    counts = f"Shown {len(part.nodes)} of {len(big)} tokens, {len(part.edges)} of {len(big.net.weight):,} edges."
    assert said.startswith(counts)
    assert "neighbourhood of “t07”" in said
    assert "raise the minimum count" in said
    elements = "document.querySelectorAll('.pg .node, .pg .edge').length"
    assert tab.value(elements) == len(part.nodes) + len(part.edges) <= 400
    tab.type("input[aria-label='Around']", "t6")
    tab.wait("document.querySelectorAll('.find-list [role=option]').length === 10")
    tab.press("ArrowDown")
    tab.press("Enter")
    tab.wait("document.querySelector('.pg-said').innerText.includes('“t69”')")
    eventually("t69", lambda: settings(tab)["centre"])
    tab.see("/graph?last=end&centre=t69&most=2000")
    tab.wait("document.querySelector('.pg-said')?.innerText.includes('“t69”')")
    assert 1000 < tab.value(elements) <= CAP
    # A token that is not in the picture, chosen in a list, becomes its middle.
    tab.see("/graph?last=end&most=40&centre=t69")
    tab.wait("document.querySelectorAll('.pg .node').length > 0")
    hidden = part_of(big, centre=big.word.index("t69"), most=40)
    assert big.word.index("t00") not in hidden.nodes
    tab.click(".pg-chips .chip:nth-child(2)")
    tab.wait("document.querySelector('.pg-said').innerText.includes('“t00”')")
    tab.wait("document.querySelector('.pg .node.chosen text')?.textContent === 't00'")


def test_another_last_token_is_found_by_typing(tab):
    seen(tab, "guest")
    tab.value("window.here = true")
    tab.type("input[aria-label='Last token']", "be")
    tab.wait("document.querySelectorAll('.find-list [role=option]').length === 1")
    eventually(["bell", "11 samples, 6 tokens"], lambda: tab.text(".find-list").split("\n"))
    tab.click(".find-list li")
    tab.wait("document.querySelector('.title').innerText === 'Priority graph after “bell”'")
    assert tab.value("window.here")  # no new page was loaded
    shown = "Shown 6 of 6 tokens, 12 of 12 edges"
    tab.wait(f"document.querySelector('.pg-said').innerText.startsWith('{shown}')")
    tab.wait("new URLSearchParams(location.search).get('last') === 'bell'")


def test_an_unknown_last_token_is_named_with_the_nearest(tab, lab, call):
    tab.see("/graph?on=example&last=bel")
    tab.wait("!!document.querySelector('.problem')")
    said = tab.text(".problem")
    folder = lab.folder / "workspace" / "models" / "example"
    code, _, err = call("graph", folder, "--last", "bel")
    assert code == 2
    message = "'bel' is not a token of this model; did you mean 'bell'?"
    assert message in said
    assert message in err
    tab.click_text("bell")
    tab.wait("document.querySelector('.title')?.innerText.includes('bell')")


@pytest.mark.parametrize(
    "query", ["min=-3&most=nan", "min=inf&most=1e99", "min=x&condensed=2&most=&over=soup"]
)
def test_odd_settings_in_the_address_do_no_harm(tab, query):
    tab.see(f"/graph?on=example&last=bell&{query}")
    tab.wait("document.querySelector('.pg-said')?.innerText.includes('6 of 6 tokens')")


def test_an_unknown_token_in_the_address_is_said(tab):
    seen(tab, "bell", chosen="sop")
    tab.says(
        "'sop' is never seen together with the last token 'bell'; did you mean 'soup'?", ".problem"
    )


def test_tables_hold_the_same_numbers_and_choose(tab, limit):
    graph = token_graph(limit, "bell")
    seen(tab, "bell")
    tab.click("[aria-label='Show the numbers as tables']")
    tab.wait("document.querySelectorAll('.pg-tables tbody tr').length >= 18")
    cells = tab.value(
        "[...document.querySelectorAll('.pg-tables tbody tr')]"
        ".map(r => [...r.children].map(c => c.innerText).join('|'))"
    )
    table = edge_table(graph, part_of(graph))
    assert cells[6:] == [
        "|".join(f"{x:g}" if isinstance(x, float) else str(x) for x in row) for row in table.rows
    ]
    tab.click(".pg-tables .twin:nth-child(2) tbody tr")
    winner, loser = table.rows[0][:2]
    tab.wait(
        f"document.querySelector('.pg-panel .card-title').innerText === '{winner} over {loser}'"
    )


def test_saved_files(tab, lab, limit, call, tmp_path):
    tab.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    graph = token_graph(limit, "bell")
    seen(tab, "bell")
    tab.drag(node(graph, "tea"), 40, 10)
    place = tab.value(f"document.querySelector(\"{node(graph, 'tea')}\").getAttribute('transform')")

    def saved(item, name):
        tab.wait("!document.querySelector('.q-menu')")
        tab.click_text("Save this graph")
        tab.click_text(item)
        end = time.monotonic() + PATIENCE
        while not (tmp_path / name).exists() or not (tmp_path / name).stat().st_size:
            assert time.monotonic() < end, list(tmp_path.iterdir())
            time.sleep(0.05)
        return tmp_path / name

    folder = lab.folder / "workspace" / "models" / "example"
    code, out, _ = call("graph", folder, "--last", "bell", "--format", "graphml")
    assert code == 0
    assert saved("GraphML, all of it", "graph-bell.graphml").read_text() == out.rstrip("\n") + "\n"
    svg = saved("SVG, as on screen", "graph-bell.svg").read_text()
    assert "var(--" not in svg
    assert place in svg
    assert svg.count("data-node=") == 6
    assert saved("PNG, as on screen", "graph-bell.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    lines = saved("Edges as CSV", "graph-bell-edges.csv").read_text().splitlines()
    assert len(lines) == 1 + 12
    assert lines[0] == "winner,loser,weight,margin,kind"
    tab.click("[aria-label='Reset']")


def test_the_saved_drawing_stands_alone(tab, limit, tmp_path):
    import xml.etree.ElementTree as ET

    tab.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    seen(tab, "guest")
    tab.click_text("Save this graph")
    tab.click_text("SVG, as on screen")
    path, end = tmp_path / "graph-guest.svg", time.monotonic() + PATIENCE
    while not path.exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    root = ET.parse(path).getroot()
    words = {t.text for t in root.iter("{http://www.w3.org/2000/svg}text")}
    assert words == {"level 0", "level 1", "tied: 3", "guest", "order", "bill", "dishes", "floor"}
    assert root.get("viewBox").startswith("0 0 ")


def test_copy_as_gives_what_runs(lab, tab, call):
    seen(tab, "bell")
    folder = str(lab.folder / "workspace" / "models" / "example")
    cli, python = graph_code(folder, "bell")
    code, out, _ = call(*shlex.split(cli)[1:], "--json")
    assert code == 0
    done = subprocess.run(
        [sys.executable, "-c", python], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == {**json.loads(out), "graph": {"last": "bell"}}
    assert graph_code(folder, "-x")[0].endswith("--last=-x")
    tab.click_text("Copy as command or Python")
    tab.click_text("Copy as command")
    tab.wait("!!document.querySelector('.copied')")
    tab.says(f"attomaton graph {Path(folder).resolve()} --last bell", ".copied")


@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_a_narrow_window(lab, browser, dark):
    enter(browser, lab, width=400, dark=dark)
    browser.see("/graph?on=example&last=guest&chosen=guest")
    browser.wait("document.querySelectorAll('.pg .node').length > 0")
    assert browser.value("document.documentElement.scrollWidth") <= 400
    browser.wait("document.querySelector('.pg').clientWidth > 300")
    assert inside(browser)
    assert browser.errors == []


def test_ids_in_the_browser(limit):
    graph = token_graph(limit, "guest")
    assert node_id(part_of(graph), 3) == "3"
    assert node_id(part_of(graph, condensed=True), 1) == "c1"


def test_the_lab_had_nothing_to_complain_about(lab, browser):
    assert lab.log.read_text() == "attomaton lab is open at this address; Ctrl-C ends it.\n"
    assert browser.errors == []
