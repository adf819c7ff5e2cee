"""Exports of one last token's priority graph: node-link JSON, GraphML and DOT.

Nodes are named by number, never by token, so no token can break a file.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from xml.sax.saxutils import escape

from attomaton.corpus.vocabulary import Label
from attomaton.disk.formats import plain
from attomaton.errors import visible
from attomaton.mechanics.theory.view import GraphView, Link, Node
from attomaton.report.words import signed

Real = float | int  # numbers that have been through JSON may have lost their decimal point

# Interior-point solvers meet a weakly active constraint to about 3e-6 only; a margin that close to
# 1 is drawn as 1.
ACTIVE = 1e-5

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_INTEGER = re.compile(r"[+-]?\d+")


def is_active(margin: Real) -> bool:
    """Whether a margin is the smallest allowed, 1: the edges that hold the Graph-SVM up."""
    return abs(margin - 1) <= ACTIVE


def readable(tokens: Iterable[Label]) -> dict[Label, str]:
    r"""How each token is shown to a person: no invisible characters, no two tokens alike.

    Quotes are added only where they tell something: around blank edges, and around words that look
    like numbers where there are numbers too.

    >>> readable(["soup", "a\nb", " ", "3"])
    {'soup': 'soup', 'a\nb': 'a\\nb', ' ': '" "', '3': '3'}
    >>> readable(["3", 3])
    {'3': '"3"', 3: '3'}
    """
    tokens = list(tokens)
    numbers = any(isinstance(x, int) for x in tokens)

    def shown(x: Label) -> str:
        if isinstance(x, int):
            return str(x)
        text = visible(x, most=None)
        bare = x and x == x.strip() and not (numbers and _INTEGER.fullmatch(x))
        return text if bare else f'"{text}"'

    return {x: shown(x) for x in tokens}


def to_json(view: GraphView) -> str:
    """Node-link JSON: `networkx.node_link_graph(json.loads(text), edges="links")` reads it."""
    data = {**plain(view), "graph": {"last": view.last}}
    text = json.dumps(data, ensure_ascii=False, indent=1, allow_nan=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair has no UTF-8 form; JSON can still spell it
        text = json.dumps(data, indent=1, allow_nan=False)
    return text + "\n"


def to_graphml(view: GraphView) -> str:
    r"""GraphML with typed attributes on nodes, edges and the graph (`last`).

    A number and a word stay apart by their key's type. Characters that XML cannot hold are spelled
    out, U+0001 as `\x01`; node-link JSON keeps them as they are.
    """
    keys: dict[tuple[str, str, str], str] = {}

    def data(scope: str, values: Mapping[str, Label | float | None], indent: str) -> Iterator[str]:
        """`<data>` elements of one node, edge or graph, nothing of None; `keys` learns each (scope, name, type)."""
        for name, value in values.items():
            if value is None:
                continue
            kind = {int: "long", float: "double"}.get(type(value), "string")
            key = keys.setdefault((scope, name, kind), f"d{len(keys)}")
            text = _NOT_XML.sub(lambda c: visible(c[0]), str(value))
            # XML readers turn a bare carriage return into a newline; a reference survives.
            yield f'{indent}<data key="{key}">{escape(text, {chr(13): "&#13;"})}</data>'

    body = ['  <graph edgedefault="directed">', *data("graph", {"last": view.last}, "    ")]
    for node in view.nodes:
        body.append(f'    <node id="{node.id}">')
        body += data("node", {k: v for k, v in vars(node).items() if k != "id"}, "      ")
        body.append("    </node>")
    for link in view.links:
        body.append(f'    <edge source="{link.source}" target="{link.target}">')
        said = {"weight": link.weight, "margin": link.margin, "contrary": link.contrary}
        body += data("edge", said, "      ")
        body.append("    </edge>")
    declared = [
        f'  <key id="{key}" for="{scope}" attr.name="{name}" attr.type="{kind}"/>'
        for (scope, name, kind), key in keys.items()
    ]
    head = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">',
    ]
    return "\n".join([*head, *declared, *body, "  </graph>", "</graphml>", ""])


def to_dot(view: GraphView) -> str:
    """Graphviz DOT: components as clusters, levels as ranks, active margins solid, slack dashed."""
    names = readable(node.token for node in view.nodes)
    last = readable([view.last])[view.last]
    title = _quoted(f"after {last}: who outranks whom")
    lines = [
        "digraph priority {",
        f"  graph [newrank=true, ranksep=0.8, labelloc=t, label={title}];",
        "  node [shape=box, style=rounded];",
    ]
    members = view.members
    for component in view.components:
        inside = members.get(component.id, [])
        score = f"score {signed(inside[0].svm_score)}" if inside else ""
        lines.append(f"  subgraph cluster_{component.id} {{")
        lines.append(f"    label={_quoted(score)}; fontsize=10; color=gray;")
        lines += [_dot_node(node, names[node.token]) for node in inside]
        lines.append("  }")
    # One invisible spine of level marks, and every node on the rank of its level's mark.
    ranks: dict[int, list[str]] = {}
    for node in view.nodes:
        ranks.setdefault(node.level, []).append(f"n{node.id}")
    levels = sorted(ranks)
    lines += [f'  level_{v} [shape=plaintext, label="level {v}", fontsize=10];' for v in levels]
    lines += [f"  level_{a} -> level_{b} [style=invis];" for a, b in pairwise(levels)]
    lines += [f"  {{ rank=same; level_{v}; {'; '.join(ranks[v])}; }}" for v in levels]
    lines += map(_dot_edge, view.links)
    return "\n".join([*lines, "}", ""])


def _quoted(text: str) -> str:
    """A DOT label: graphviz reads backslash codes and HTML entities even inside quotes."""
    for old, new in (("\\", "\\\\"), ('"', '\\"'), ("&", "&amp;")):
        text = text.replace(old, new)
    return f'"{text}"'


def _dot_node(node: Node, name: str) -> str:
    error = "" if node.se is None else f', se="{node.se!r}"'  # of log π, where it is known
    return (
        f"    n{node.id} [label={_quoted(name)}, level={node.level}, "
        f'svm_score="{node.svm_score!r}", log_pi="{node.log_pi!r}"{error}];'
    )


def _dot_edge(link: Link) -> str:
    margin = link.margin
    style = "dotted, color=gray" if margin < 0.5 else "solid" if is_active(margin) else "dashed"
    # Graphviz takes `weight` as a wish about edge lengths, so the samples' weight has its own name.
    return (
        f"  n{link.source} -> n{link.target} "
        f'[style={style}, sample_weight="{link.weight!r}", margin="{margin!r}"];'
    )


EXPORTS: dict[str, Callable[[GraphView], str]] = {
    "json": to_json,
    "graphml": to_graphml,
    "dot": to_dot,
}
