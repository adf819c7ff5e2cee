import io
import json
import re
import shutil
import subprocess
from xml.etree import ElementTree

import networkx as nx
import pytest

from attomaton.corpus.windows import samples_from_sequences
from attomaton.disk.formats import plain
from attomaton.disk.records import as_record
from attomaton.mechanics.theory.limit import solve_limit
from attomaton.mechanics.theory.view import Component, GraphView, Link, Node, graph_view
from attomaton.report.graphs import EXPORTS, readable, to_dot, to_graphml, to_json

HOSTILE = [
    'quote"', "<script>", "&amp;", "]]>", "-->", "a\nb", "tab\there", "\rback", " ", "  edge ", "\\",
    "back\\n", "\\N", "$x^2$", "{|}", "Ωж中", "🙂", "e\u0301", "می\u200cروم", "\u202eabc", "3", 3, -7, 10**20,
]  # fmt: skip
UNWRITABLE = {"\x01": "\\x01", "a\x00b": "a\\x00b", "\ufffe": "\\ufffe", "\ud800": "\\ud800"}


def view_of(tokens):
    """Two tied tokens on top, the others in a chain below, all after the last one."""
    count = len(tokens)
    component = [0, 0, *range(1, count - 1)]
    level = component
    nodes = [
        Node(id=i, token=x, component=c, level=v, svm_score=1.5 - c, log_pi=0.25 * i)
        for i, (x, c, v) in enumerate(zip(tokens, component, level, strict=True))
    ]
    links = [Link(source=1, target=0, weight=2.0, margin=0.0)]
    links += [
        Link(source=i, target=i + 1, weight=1.0 + i, margin=float(i > 0)) for i in range(count - 1)
    ]
    members = {c: tuple(n.token for n in nodes if n.component == c) for c in set(component)}
    components = tuple(Component(c, c, t) for c, t in members.items())
    return GraphView(tokens[-1], tuple(nodes), tuple(links), components)


@pytest.fixture
def chain():
    """The hand-solved chain 0 over 1 over 2."""
    return graph_view(solve_limit(samples_from_sequences([[0, 1, 2], [1, 2]], [0, 1])), 2)


def same_type(a, b):
    return a == b and type(a) is type(b)


def test_json_comes_back_as_the_same_graph():
    view = view_of([*HOSTILE, *UNWRITABLE, ""])
    text = to_json(view)
    text.encode()
    assert {k: v for k, v in json.loads(text).items() if k != "graph"} == plain(view)
    assert as_record(GraphView, json.loads(text), "it") == view
    graph = nx.node_link_graph(json.loads(text), edges="links")
    assert graph.is_directed()
    assert same_type(graph.graph["last"], "")
    assert all(same_type(graph.nodes[n.id]["token"], n.token) for n in view.nodes)
    assert {(a, b): d for a, b, d in graph.edges(data=True)} == {
        (x.source, x.target): {"weight": x.weight, "margin": x.margin} for x in view.links
    }


def test_graphml_comes_back_with_every_attribute():
    view = view_of(HOSTILE)
    graph = nx.read_graphml(io.BytesIO(to_graphml(view).encode()), node_type=int)
    assert graph.is_directed()
    assert same_type(graph.graph["last"], view.last)
    for node in view.nodes:
        expected = {k: v for k, v in plain(node).items() if k != "id"}
        assert graph.nodes[node.id] == expected
        assert same_type(graph.nodes[node.id]["token"], node.token)
    assert len(graph.edges) == len(view.links)
    for link in view.links:
        found = graph.edges[link.source, link.target]
        assert found == {"weight": link.weight, "margin": link.margin}


def test_graphml_spells_out_what_xml_cannot_hold():
    view = view_of([*UNWRITABLE, "plain"])
    graph = nx.read_graphml(io.BytesIO(to_graphml(view).encode()), node_type=int)
    assert [graph.nodes[i]["token"] for i in range(4)] == list(UNWRITABLE.values())


def test_graphml_holds_the_empty_token():
    graph = nx.read_graphml(io.BytesIO(to_graphml(view_of(["a", "", "b"])).encode()), node_type=int)
    assert graph.nodes[1]["token"] == ""


def test_numbers_and_words_that_look_alike_stay_apart():
    view = view_of(["3", 3, "x"])
    graph = nx.read_graphml(io.BytesIO(to_graphml(view).encode()), node_type=int)
    assert [graph.nodes[i]["token"] for i in range(3)] == ["3", 3, "x"]
    assert 'n0 [label="\\"3\\""' in to_dot(view)
    assert 'n1 [label="3"' in to_dot(view)


def strip_strings(dot):
    """DOT without its quoted strings: what is left must be ours alone."""
    return re.sub(r'"(?:[^"\\]|\\.)*"', '""', dot)


def test_dot_is_balanced_and_quoted():
    view = view_of([*HOSTILE, *UNWRITABLE, ""])
    dot = to_dot(view)
    dot.encode()
    bare = strip_strings(dot)
    assert bare.count('"') % 2 == 0
    assert (
        bare.count("{") == bare.count("}") == bare.count("subgraph") + bare.count("rank=same") + 1
    )
    assert re.fullmatch(r'[\w\s{}\[\]=;,.>"-]*', bare)
    assert bare.count("subgraph cluster_") == len(view.components)
    assert len(re.findall(r"n\d+ -> n\d+", bare)) == len(view.links)


def test_dot_puts_every_level_on_one_rank(chain):
    ranks = re.findall(r"\{ rank=same; level_(\d+); ([^}]*); \}", to_dot(chain))
    by_level = {int(level): set(members.split("; ")) for level, members in ranks}
    assert by_level == {node.level: {f"n{node.id}"} for node in chain.nodes}


def test_dot_tells_active_from_slack(chain):
    dot = to_dot(chain)
    assert len(re.findall(r"-> n\d+ \[style=solid", dot)) == 2
    assert len(re.findall(r"-> n\d+ \[style=dashed", dot)) == 1


@pytest.mark.skipif(shutil.which("dot") is None, reason="until graphviz is installed")
def test_graphviz_reads_hostile_dot_and_keeps_the_labels():
    view = view_of([*HOSTILE, *UNWRITABLE, ""])
    done = subprocess.run(
        ["dot", "-Tsvg"], input=to_dot(view).encode(), capture_output=True, check=True, timeout=60
    )
    assert done.stderr == b""
    svg = "{http://www.w3.org/2000/svg}"
    shown = {}
    for group in ElementTree.fromstring(done.stdout).iter(f"{svg}g"):
        if group.get("class") == "node":
            label = group.find(f"{svg}text").text.replace("\xa0", " ")
            shown[group.find(f"{svg}title").text] = label
    names = readable(node.token for node in view.nodes)
    for node in view.nodes:
        assert shown[f"n{node.id}"] == names[node.token]


def test_readable_names_are_distinct_and_visible():
    tokens = [*HOSTILE, *UNWRITABLE, ""]
    names = readable(tokens)
    assert len(set(names.values())) == len(tokens)
    assert all(c.isprintable() or c == "\u200c" for name in names.values() for c in name)
    assert readable(["3"]) == {"3": "3"}


@pytest.mark.parametrize("name", EXPORTS)
def test_an_empty_graph_exports(name):
    assert EXPORTS[name](GraphView("x", (), (), ())).strip()
