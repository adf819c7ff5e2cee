"""The floor plan of docs/architecture.md, read off the source itself."""

import importlib.util
import re
import subprocess
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

import attomaton

ROOT = Path(attomaton.__file__).parent
DOCS = ROOT.parents[1] / "docs"


def drawing():
    spec = importlib.util.spec_from_file_location("plan", DOCS / "make_architecture.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


plan = drawing()
PAPERS = ("mechanics", "scan_snap", "joma")
# Rooms that know nothing of the rooms above them, whatever the drawing says.
KNOW_ONLY = {
    "base": set(),
    "disk": {"base"},
    "engine": {"base", "disk"},
    "report": {
        "base",
        "disk",
        "corpus",
        "mechanics",
        "scan_snap",
        "transformer",
        "predictor",
        "probe",
        "summaries",
        "claims",
        "folders",
    },
    "scan_snap": {"base", "disk"},
    "joma": {"base"},
    "corpus": {"base", "disk"},
    "mechanics": {"base", "corpus"},
    "transformer": {"base", "corpus"},
    "trained": {"base", "disk", "transformer"},
    "probe": {"base", "disk", "corpus", "mechanics", "trained"},
    "claims": {"base", "corpus", "joma", "mechanics", "scan_snap", "transformer"},
}


@cache
def arrows():
    """Those of the source; every module is parsed for them."""
    return plan.arrows()


def test_the_drawing_in_the_docs_is_that_of_the_imports():
    page = plan.PAGE.read_text(encoding="utf-8")
    assert plan.BEGIN in page
    assert page == plan.page(page, arrows()), (
        "an arrow is not in the drawing; to draw it: python docs/make_architecture.py"
    )
    assert plan.PICTURE.read_text(encoding="utf-8") == plan.picture(arrows())


@cache
def drawn():
    """The arrows in the drawing, as the page has them."""
    page = plan.PAGE.read_text(encoding="utf-8").partition(plan.BEGIN)[2].partition(plan.END)[0]
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| `")]
    return {name.strip("`"): set(seen.split(", ")) - {"–"} for name, seen in rows}


@pytest.mark.parametrize("name", plan.modules())
def test_a_module_follows_the_arrows_of_its_room(name):
    own = plan.room(name)
    seen = {plan.room(x) for x in plan.imports(plan.modules()[name])} - {own}
    assert seen <= drawn()[own], "an arrow that is not in the drawing"


@pytest.mark.parametrize("name", KNOW_ONLY)
def test_a_room_imports_only_from_the_rooms_it_may_see(name):
    assert arrows()[name] <= KNOW_ONLY[name]


def test_nobody_imports_what_shows_things_to_people_but_those_who_start_them():
    above = {"lab": {"cli"}, "cli": {"__main__"}, "__main__": set()}
    for name, may in above.items():
        assert {room for room, seen in arrows().items() if name in seen} <= may


def test_there_is_no_cycle_among_rooms():
    assert plan.layers(arrows())  # a cycle has none


def test_there_is_no_cycle_among_modules():
    seen = {name: plan.imports(path) - {name} for name, path in plan.modules().items()}
    plan.layers({name: {x for x in found if x in seen} for name, found in seen.items()})


@pytest.mark.parametrize("paper", PAPERS)
def test_theory_and_training_never_see_each_other(paper):
    for name, path in plan.modules().items():
        for here, there in (("theory", "experiment"), ("experiment", "theory")):
            if name.startswith(f"{paper}.{here}"):
                met = {x for x in plan.imports(path) if x.startswith(f"{paper}.{there}")}
                assert not met, f"{name} imports {met}"


@pytest.mark.parametrize("paper", PAPERS)
def test_what_both_sides_of_the_wall_may_see_sees_neither(paper):
    both = [
        name
        for name, path in plan.modules().items()
        if name.startswith(f"{paper}.") and name.count(".") == 1 and path.name != "__init__.py"
    ]
    assert len(both) >= 2
    for name in both:
        crossed = {
            x.split(".")[1] for x in plan.imports(plan.modules()[name]) if x.startswith(paper)
        }
        assert crossed.isdisjoint({"theory", "experiment"}) or name == "scan_snap.levels"


def test_the_root_is_small_and_no_prefix_stands_for_a_folder():
    assert len(list(ROOT.glob("*.py"))) <= 8
    for folder in {path.parent for path in ROOT.rglob("*.py")}:
        stems = sorted(
            {p.stem for p in folder.glob("*.py")}
            | {p.parent.name for p in folder.glob("*/__init__.py")}
        )
        for one, other in pairwise(stems):
            assert not other.startswith(f"{one}_"), (
                f"{folder.name}: {one}, {other} are a folder nobody made"
            )
        families = [s.split("_")[0] for s in stems if "_" in s]
        assert all(families.count(x) < 3 for x in families), (folder.name, families)


def test_every_room_is_described():
    text = plan.PAGE.read_text(encoding="utf-8").split(plan.BEGIN)[0]
    assert all(f"`{name}" in text for name in arrows())


def test_importing_changes_no_jax_setting():
    code = (
        "import sys, attomaton, attomaton.mechanics.experiment.train\n"
        "assert 'jax' not in sys.modules\n"
        "import jax\n"
        "s = attomaton.samples_from_sequences([[0, 1]] * 4, [0, 0, 0, 1])\n"
        "attomaton.train(s, steps=2)\n"
        "print(jax.numpy.ones(1).dtype, jax.config.jax_enable_x64)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["float32", "False"]


def test_rooms_hand_each_other_records_and_few_dictionaries_of_anything():
    loose = re.compile(r"\b(?:dict|Mapping)\[str, (?:Any|object)\]")
    found = {
        path.relative_to(ROOT): len(loose.findall(path.read_text(encoding="utf-8")))
        for path in ROOT.rglob("*.py")
    }
    assert sum(found.values()) <= 120, sorted(found.items(), key=lambda x: -x[1])[:10]
