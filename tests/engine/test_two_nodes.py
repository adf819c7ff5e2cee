"""Fits on a Ray cluster of two nodes that was there before: as in one process, also when a node dies in the middle."""

from types import SimpleNamespace

import pytest

from attomaton.disk.formats import read_json
from faults import folders
from faults.cases import DIVIDED, FIT, OUT, prepare, said, start
from faults.kills import LONG, wait_until_held
from faults.nodes import two_nodes

pytest.importorskip("ray", reason="Ray is not installed; attomaton[ray]")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A cluster, and a folder both of its nodes see."""
    place = tmp_path_factory.mktemp("nodes").resolve()
    prepare(place)
    with two_nodes() as cluster:
        cluster.start_second()
        yield SimpleNamespace(place=place, cluster=cluster)


def fit(site, case, name, *where):
    return start([*case.words, *where, "-o", OUT], site.place / name, **site.cluster.environment)


def on_nodes(site, case, name):
    return fit(site, case, name, "--engine", "ray", "--address", site.cluster.address)


def ended_well(site, process, name):
    try:
        assert process.wait(LONG) == 0, said(site.place / name).read_text()
    finally:
        process.kill()
    return name


def same_as_local(site, case, name):
    """A fit is that of one process, byte for byte but for the command in its record, with every piece done once."""
    local = f"{case.name}-local"
    if not (site.place / local).exists():
        ended_well(site, fit(site, case, local, "--engine", "local"), local)
    a, b = (site.place / x / OUT for x in (local, name))
    models = [read_json(x / "model.json") for x in (a, b)]
    assert "local" in models[0].pop("command")
    assert site.cluster.address in models[1].pop("command")
    assert models[0] == models[1]
    assert folders.differences(a, b) == ["model.json: differs"]
    assert folders.pieces(a) == folders.pieces(b)
    assert set(folders.pieces(b).values()) == {1}
    assert folders.leftovers(b.parent, OUT) == []


def killed(site, case):
    """A fit during which the second node is killed: it is in the middle of a piece, and one is done."""
    cluster, name = site.cluster, f"{case.name}-killed"
    cluster.start_second()
    cluster.close_gate()
    process = on_nodes(site, case, name)
    try:
        wait_until_held(cluster, process)
        assert cluster.held()
        work = site.place / name / f".{OUT}.partial"
        while not any(piece.startswith("part") for piece in folders.pieces(work)):
            assert process.poll() is None
        cluster.kill_second()
    finally:
        cluster.open_gate()
    return ended_well(site, process, name)


def test_two_nodes_fit_what_one_process_fits(site):
    name = ended_well(site, on_nodes(site, DIVIDED, "both"), "both")
    same_as_local(site, DIVIDED, name)


@pytest.mark.parametrize("case", [FIT, DIVIDED], ids=lambda case: case.name)
def test_a_fit_that_loses_a_node_is_the_undisturbed_fit(site, case):
    same_as_local(site, case, killed(site, case))


@pytest.mark.parametrize(
    ("given", "said_so"),
    [
        ({"RAY_AUTH_TOKEN": "ab" * 32}, "answers, but no Ray cluster there lets this command in"),
        (
            {"RAY_AUTH_TOKEN": "", "RAY_AUTH_TOKEN_PATH": "/no/such/token"},
            "cannot be joined without a token",
        ),
    ],
    ids=["another", "none"],
)
def test_a_command_without_the_token_is_told_so_and_not_that_there_is_no_cluster(
    site, request, given, said_so
):
    folder = site.place / f"tokenless-{request.node.callspec.id}"
    where = ("--engine", "ray", "--address", site.cluster.address)
    process = start([*FIT.words, *where, "-o", OUT], folder, RAY_AUTH_MODE="token", **given)
    assert process.wait(LONG) == 2
    told = " ".join(said(folder).read_text().split())
    assert said_so in told
    assert "no Ray cluster at" not in told
