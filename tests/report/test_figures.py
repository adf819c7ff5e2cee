import re
import sys
from dataclasses import fields, replace
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_hex

from attomaton.corpus.windows import samples_from_sequences
from attomaton.errors import UsageError
from attomaton.mechanics.theory.automaton import Automaton
from attomaton.mechanics.theory.limit import solve_limit
from attomaton.mechanics.theory.view import Component, GraphView, Link, Node, graph_view
from attomaton.predictor.scoring import Bin, ScoreRow, ScoreTable
from attomaton.report.figures.canvas import save, to_svg, write
from attomaton.report.figures.priority import COMPONENT_CAP, priority_figure
from attomaton.report.figures.scores import scores_figure
from attomaton.report.figures.training import convergence_figure, prediction_figure, protocol_figure
from attomaton.report.html.page import page

HOSTILE = [
    '"',
    "<script>",
    "&amp;",
    "a\nb",
    "",
    " ",
    "\x01",
    "$x$",
    "$",
    "中",
    "🙂",
    "\ud800",
    "3",
    3,
    "w" * 90,
]


@pytest.fixture(scope="module")
def mixed():
    """Last token d: a and b are tied 3 : 1 and outrank c and d; e outranks d alone."""
    rows = [("abcd", "a")] * 3 + [("abd", "b"), ("ed", "e"), ("ed", "e")]
    return solve_limit(samples_from_sequences([list(x) for x, _ in rows], [y for _, y in rows]))


def view_of(limit, last):
    return graph_view(limit, limit.graph.vocabulary.id_of(last))


def chain_view(tokens):
    """Tokens in a chain, each over the next, with all the arrows that this implies."""
    count = len(tokens)
    return GraphView(
        last=tokens[-1],
        nodes=tuple(Node(i, x, i, i, float(-i), 0.0) for i, x in enumerate(tokens)),
        links=tuple(
            Link(i, j, weight=1.0, margin=float(j - i))
            for i in range(count)
            for j in range(i + 1, count)
        ),
        components=tuple(Component(i, i, (x,)) for i, x in enumerate(tokens)),
    )


def gids(figure, prefix):
    found = figure.findobj(lambda a: (a.get_gid() or "").startswith(prefix))
    return {artist.get_gid(): artist for artist in found}


def words(figure):
    return [t.get_text() for t in figure.findobj(matplotlib.text.Text) if t.get_text()]


def records(seeds=3, steps=(0, 1, 10, 100)):
    rng = np.random.default_rng(0)
    falling = [[(1 + u) / (1 + s) for s in steps] for u in rng.uniform(size=seeds)]
    return {
        "steps": list(steps),
        "loss": [[0.5 + x for x in row] for row in falling],
        "cosine_svm": [[1 - x / 2 for x in row] for row in falling],
        "cosine_outside": [[1 - x / 4 for x in row] for row in falling],
        "distance_fin": falling,
        "norm": [[1 / x for x in row] for row in falling],
        "mass_retrieved": [[1 - x / 2 for x in row] for row in falling],
    }


def test_priority_figure_has_a_box_per_component_and_an_arrow_per_relation(mixed):
    view = view_of(mixed, "d")
    figure = priority_figure(view)
    assert set(gids(figure, "component-")) == {f"component-{c.id}" for c in view.components}
    top = next(c.id for c in view.components if len(c.tokens) == 2)
    one = {c.tokens[0]: c.id for c in view.components if len(c.tokens) == 1}
    assert set(gids(figure, "arrow-")) == {
        f"arrow-{top}-{one['c']}", f"arrow-{top}-{one['d']}", f"arrow-{one['e']}-{one['d']}"
    }  # fmt: skip
    assert "after “d”: who outranks whom" in words(figure)
    assert {"75%", "25%"} <= set(words(figure))


def test_higher_priority_stands_higher(mixed):
    view = view_of(mixed, "d")
    box = gids(priority_figure(view), "component-")
    level = {c.id: c.level for c in view.components}
    low = {c: box[f"component-{c}"].get_y() for c in level}
    high = {c: low[c] + box[f"component-{c}"].get_height() for c in level}
    assert all(low[a] > high[b] for a in level for b in level if level[a] < level[b])


def test_active_arrows_are_solid_and_slack_ones_dashed(mixed):
    view = view_of(mixed, "d")
    component = {n.id: n.component for n in view.nodes}
    arrows = gids(priority_figure(view), "arrow-")
    for link in view.links:
        name = f"arrow-{component[link.source]}-{component[link.target]}"
        if name in arrows:
            solid = arrows[name].get_linestyle() in ("-", "solid")
            assert solid == (abs(link.margin - 1) < 1e-6)
    slack = replace(chain_view(["a", "b"]), links=(Link(0, 1, weight=1.0, margin=2.0),))
    assert gids(priority_figure(slack), "arrow-")["arrow-0-1"].get_linestyle() not in ("-", "solid")


def test_implied_arrows_are_left_out_and_it_is_said():
    figure = priority_figure(chain_view(list("abcdef")))
    assert set(gids(figure, "arrow-")) == {f"arrow-{i}-{i + 1}" for i in range(5)}
    assert "an arrow that others imply is left out" in words(figure)


def test_boxes_never_overlap_and_stay_on_the_page():
    rng = np.random.default_rng(1)
    contexts = [[*rng.choice(30, 4, replace=False).tolist(), 30] for _ in range(40)]
    limit = solve_limit(samples_from_sequences(contexts, [max(x[:4]) for x in contexts]))
    figure = priority_figure(view_of(limit, 30))
    boxes = [b.get_bbox() for b in gids(figure, "component-").values()]
    assert len(boxes) > 20
    width, height = figure.get_size_inches()
    assert all(b.x0 >= 0 and b.x1 <= width and b.y0 >= 0 and b.y1 <= height for b in boxes)
    for i, a in enumerate(boxes):
        assert not any(a.overlaps(b) for b in boxes[:i])


def test_large_graphs_are_capped_and_say_so():
    figure = priority_figure(chain_view([f"w{i}" for i in range(312)]))
    assert len(gids(figure, "component-")) == COMPONENT_CAP
    assert "shown 40 of 312 components" in words(figure)
    assert "component-0" in gids(figure, "component-")


def test_wide_levels_leave_room_for_deeper_ones():
    view = chain_view([f"w{i}" for i in range(100)])
    two_levels = replace(
        view,
        nodes=tuple(replace(node, level=int(node.id >= 60)) for node in view.nodes),
        components=tuple(replace(c, level=int(c.id >= 60)) for c in view.components),
        links=tuple(Link(i, 60, weight=1.0, margin=1.0) for i in range(60)),
    )
    figure = priority_figure(two_levels)
    assert len(gids(figure, "component-")) == COMPONENT_CAP
    assert "component-60" in gids(figure, "component-")
    assert {"28 of 60", "12 of 40"} <= set(words(figure))


def test_large_components_show_their_likeliest_tokens():
    nodes = tuple(Node(i, i, 0, 0, 0.0, log_pi=-0.1 * i) for i in range(30))
    view = GraphView(29, nodes, (), (Component(0, 0, tuple(range(30))),))
    said = words(priority_figure(view))
    assert any(re.fullmatch(r"and 22 more, \d+% together", text) for text in said)


def test_a_last_token_never_seen_gives_a_figure_that_says_so():
    said = words(priority_figure(GraphView("x", (), (), ())))
    assert any("nothing is learned" in text for text in said)


def test_hostile_tokens_are_drawn_as_they_are(tmp_path):
    figure = priority_figure(chain_view(HOSTILE))
    svg, _ = save(figure, tmp_path, "hostile")
    root = ElementTree.parse(svg).getroot()
    shown = {"".join(e.itertext()) for e in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"<script>", "&amp;", "a\\nb", '""', '" "', "\\x01", "$x$", "中", '"3"', "3"} <= shown
    assert "w" * 17 + "…" in shown


def test_prediction_figure_tells_retrieved_from_lost(mixed):
    explanation = Automaton(mixed).explain(list("abcd"))
    figure = prediction_figure(explanation)
    bars = gids(figure, "bar-")
    assert len(bars) == len(gids(figure, "curve-")) == 4
    for i, fate in enumerate(explanation.fates):
        bar = bars[f"bar-{i}"]
        assert bool(bar.get_hatch()) == (fate.probability == 0)
        if fate.probability:
            assert bar.get_width() == pytest.approx(fate.probability)
    looks = {(to_hex(b.get_facecolor()), to_hex(b.get_edgecolor())) for b in bars.values()}
    assert len(looks) == 2
    assert {"75%", "25%"} <= set(words(figure))
    assert "after “a b c d”: “a” with 75%" in words(figure)
    assert sum(text.startswith("outranked by ") for text in words(figure)) == 2


def test_soft_to_hard_ends_in_the_limit(mixed):
    explanation = Automaton(mixed).explain(list("abcd"))
    figure = prediction_figure(explanation)
    for i, fate in enumerate(explanation.fates):
        curve = gids(figure, "curve-")[f"curve-{i}"].get_ydata()
        assert len(curve) == len(explanation.soft_to_hard) + 1
        assert curve[-1] == fate.probability
        assert curve[0] == explanation.soft_to_hard[0][1][fate.token]
    assert "limit" in [t.get_text() for t in figure.axes[1].get_xticklabels()]


def test_prediction_figure_takes_hostile_and_many_tokens(tmp_path):
    context = [x for x in HOSTILE if x != "\ud800"] + [f"w{i}" for i in range(20)]
    limit = solve_limit(samples_from_sequences([context], [context[0]]))
    explanation = Automaton(limit).explain(context)
    figure = prediction_figure(explanation)
    assert f"shown 16 of {len(context)} tokens" in words(figure)
    save(figure, tmp_path, "many")


def test_convergence_figure_has_a_panel_per_quantity():
    figure = convergence_figure(records(), 0.5)
    assert set(gids(figure, "panel-")) == {
        "panel-loss", "panel-cosine_svm", "panel-distance_fin", "panel-mass_retrieved", "panel-norm"
    }  # fmt: skip
    assert len(gids(figure, "theory-")) == 5
    assert "training approaches its limit (3 seeds)" in words(figure)
    loss = gids(figure, "panel-")["panel-loss"].get_lines()[0].get_ydata()
    expected = np.median(np.array(records()["loss"]) - 0.5, axis=0)
    np.testing.assert_allclose(loss, expected, rtol=1e-12)  # one subtraction


def test_convergence_figure_draws_the_margin_in_the_norm_of_the_optimiser_first():
    some = {**records(), "margin_frobenius": records()["cosine_svm"], "margin_3": [[-9, 0.2, 0.5, 0.9]] * 3,
            "margin_max": records()["cosine_svm"], "cosine_3": records()["cosine_svm"]}  # fmt: skip
    axes = gids(convergence_figure(some, 0.5, norm=3.0), "panel-")["panel-margin_3"]
    keys = [text.get_text() for text in axes.get_legend().get_texts()]
    assert keys == ["in the 3-norm", "in the Frobenius norm"]
    assert axes.get_lines()[0].get_ydata().tolist() == [-9, 0.2, 0.5, 0.9]
    assert axes.get_ylim()[0] == -0.25
    plain = gids(convergence_figure(some, 0.5), "panel-")["panel-margin_frobenius"]
    assert plain.get_legend().get_texts()[1].get_text() == "in the max norm"


def test_convergence_figure_needs_only_steps_and_loss(tmp_path):
    few = {name: records(1)[name] for name in ("steps", "loss")}
    figure = convergence_figure(few)
    assert set(gids(figure, "panel-")) == {"panel-loss"}
    assert not gids(figure, "theory-")
    save(figure, tmp_path, "few")
    save(convergence_figure({"steps": [5], "loss": [[1.0]]}, 0.5), tmp_path, "one")


def test_quantities_at_zero_do_not_break_log_axes(tmp_path):
    some = {**records(), "distance_fin": np.zeros((3, 4)).tolist()}
    some["loss"][0][-1] = 0.5 - 1e-17
    some["loss"][1][-1] = 0.4
    figure = convergence_figure(some, 0.5)
    assert "0 throughout" in words(figure)
    save(figure, tmp_path, "zero")


def test_no_direction_no_claim_that_the_norm_grows():
    some = {k: v for k, v in records().items() if not k.startswith("cosine")}
    assert "theory-norm" not in gids(convergence_figure(some, 0.5), "theory-")


def test_protocol_figure_shows_every_seed(tmp_path):
    rows = [{"seed": 7 + i, "cosine_svm": 0.98 + i / 1e3, "distance_fin": 0.004} for i in range(10)]
    published = {"cosine_svm": (0.976, 0.993), "distance_fin": 0.005}
    curves = {"steps": [1, 10, 100], "cosine_svm": [[0.1, 0.5, 0.98]] * 10}
    figure = protocol_figure(rows, curves, published)
    seeds = gids(figure, "seeds-")
    assert list(seeds["seeds-cosine_svm"].get_ydata()) == [row["cosine_svm"] for row in rows]
    assert set(gids(figure, "published-")) == {"published-cosine_svm", "published-distance_fin"}
    assert len(gids(figure, "seed-")) == 10
    save(figure, tmp_path, "protocol")
    assert len(protocol_figure(rows).axes) == 2
    save(protocol_figure([{"seed": 0, "cosine_svm": 1.0, "distance_fin": 0.0}]), tmp_path, "exact")


@pytest.mark.parametrize("rows", [(1, 1), (10, 6), (30, 2)])
def test_the_key_of_reliability_stands_below_its_axis(rows):
    numbers = dict.fromkeys((x.name for x in fields(ScoreRow)), 0.5)
    bins = (Bin(0.2, 0.3, 50.0), Bin(0.8, 0.7, 50.0))
    tables = [
        ScoreTable(100, 100.0, "system 0", 10, "rows",
                   [ScoreRow(**{**numbers, "name": f"system {i}", "reliability": bins}) for i in range(n)])
        for n in rows
    ]  # fmt: skip
    figure = scores_figure("scores", [("some", tables[0]), ("all", tables[1])])
    figure.draw_without_rendering()
    keys = [axes for half in figure.subfigs for axes in half.axes if axes.get_legend()]
    assert len(keys) == 2
    for axes in keys:
        key = axes.get_legend().get_window_extent()
        assert key.y1 < axes.xaxis.label.get_window_extent().y0


def test_saved_files_are_the_same_every_time(tmp_path, mixed):
    paths = [save(priority_figure(view_of(mixed, "d")), tmp_path / name, "p") for name in "ab"]
    assert [p.name for p in paths[0]] == ["p.svg", "p.png"]
    for a, b in zip(*paths, strict=True):
        assert a.read_bytes() == b.read_bytes()
    svg = paths[0][0].read_text(encoding="utf-8")
    assert "<dc:date>" not in svg
    assert "who outranks whom</text>" in svg  # text stays text


def test_ids_are_unique_in_every_figure_and_on_a_page_of_them(mixed):
    explanation = Automaton(mixed).explain(list("abcd"))
    rows = [{"seed": 0, "cosine_svm": 0.9, "distance_fin": 0.1}]
    figures = [
        priority_figure(view_of(mixed, "d")),
        prediction_figure(explanation),
        convergence_figure(records(), 0.5),
        protocol_figure(rows, {"steps": [1, 2], "cosine_svm": [[0.5, 0.9]]}),
    ]
    drawings = [to_svg(figure) for figure in figures]
    html = page("all", [{"svg": svg} for svg in drawings])
    for text in (*drawings, html):
        ids = re.findall(r'\bid="([^"]*)"', text)
        assert len(ids) == len(set(ids))
    assert not re.search(r"https?://", html)
    assert 'id="s1-component-0"' in html


def test_settings_are_left_as_they_were(mixed):
    before = dict(matplotlib.rcParams)
    to_svg(priority_figure(view_of(mixed, "d")))
    assert dict(matplotlib.rcParams) == before


def test_pyplot_is_never_needed():
    import subprocess

    code = (
        "import sys, attomaton.report.figures.canvas as c, attomaton.report.figures.training as f;"
        "assert 'matplotlib' not in sys.modules;"
        "c.to_svg(f.convergence_figure({'steps': [1, 2], 'loss': [[2.0, 1.0]]}));"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_missing_matplotlib_names_the_cure(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match=r"install attomaton\[plot\]"):
        priority_figure(chain_view(["a", "b"]))


def test_one_file_by_its_suffix(tmp_path):
    figure = protocol_figure([{"seed": 0, "cosine_svm": 0.9, "distance_fin": 0.1}])
    write(figure, tmp_path / "a.svg")
    write(figure, tmp_path / "a.png")
    assert (tmp_path / "a.svg").read_text(encoding="utf-8").lstrip().startswith("<?xml")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(UsageError, match=r"\.svg or \.png"):
        write(figure, tmp_path / "a.gif")
