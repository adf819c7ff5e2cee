"""What README and docs say, held against what the package does."""

import csv
import doctest
import importlib.util
import re
import shlex
import subprocess
import sys
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
import typer
from tests.unchecked import unchecked_types

import attomaton
from attomaton.cli import main as cli

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

# Pages whose own tests run their commands and hold the page against what comes out.
RUN_ELSEWHERE = {
    "event_logs.md": "corpus/test_sessions.py",
    "summary.md": "test_cli_summary.py",
}
# Commands that no test runs as they are written, and why; that they can be parsed is tested all the same.
MINUTES = "takes minutes; its claims are tested one by one"
SERVES = "serves until it is interrupted; tests/lab opens it in a browser"
NOT_RUN = {
    "attomaton lab": SERVES,
    "attomaton lab model": SERVES,
    "attomaton lab orders.jsonl": SERVES,
    "attomaton lab log.csv": SERVES,
    "attomaton lab --new-key": SERVES,
    "attomaton lab corpus.txt --context 16 --port 9000 --no-browser": SERVES,
    "attomaton verify": MINUTES,
    "attomaton verify --full": MINUTES,
    "attomaton verify --only T1,S3": "tests/test_verify.py runs the same on quicker claims",
    "attomaton verify --data orders.jsonl": "tests/test_verify.py runs the same on a smaller file",
    "attomaton reproduce --all": MINUTES,
    "attomaton dimensions piece.txt --context 16 --d 8,16,32,64,128 --draws 1 -o dimensions": MINUTES,
    **dict.fromkeys(
        (
            "attomaton predict model --file contexts.jsonl -o answers.parquet --engine processes",
            "attomaton explain model --file contexts.csv -o answers.csv",
        ),
        "tests/test_answers.py asks about files of its own",
    ),
    **dict.fromkeys(
        (
            "attomaton score predictor test.txt --baselines all -o scores.csv --figure scores.svg",
            "attomaton score predictor test.txt --baselines mixture,kneser-ney",
        ),
        "tests/predictor/test_cli.py runs the same on files of its own",
    ),
    "attomaton fit log.xes.gz --context 20 -o model": "tests/corpus/test_process_logs.py reads such logs",
    "attomaton score predictor held_out.txt --baselines all": "tests/predictor/test_cli.py fits baselines by name",
    "attomaton reproduce mechanics-fig9 --out fig9": "tests/claims/test_many_tokens.py runs it with fewer instances",
    "attomaton reproduce mechanics-fig10 --out fig10": "tests/claims/test_many_tokens.py runs it with fewer instances",
    **dict.fromkeys(
        (
            "attomaton probe my-model --text corpus.txt --context 64",
            "attomaton probe my-model --text rows.jsonl --html report.html --figure heads.svg",
            "attomaton probe my-model --text rows.jsonl -o probed",
            "attomaton probe attention.npz",
            "attomaton snap run/step-100 run/step-200 run/step-400 --text corpus.txt --figure snap.svg",
            "attomaton snap run/step-* --text train.txt --context 64 --pairs 500 --contexts 100 --figure snap.png",
            "attomaton probe run/step-4800 --text train.txt --context 64 --figure probe.png",
        ),
        "tests/probe asks models of its own",
    ),
    "attomaton fit train.txt --context 32 --engine ray --address 192.0.2.10:6379 -o model": (
        "tests/engine/test_two_nodes.py runs the same on a cluster of its own"
    ),
    "attomaton reproduce scan-snap-fig7 --quick": "needs WikiText-2 and minutes",
    "attomaton reproduce scan-snap-fig10 --quick": "needs WikiText-2 and minutes",
    "attomaton reproduce scan-snap-fig7 -o fig7": "needs WikiText-2 and a GPU",
}


def modules():
    root = Path(attomaton.__file__).parent
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        yield ".".join(["attomaton", *(p for p in parts if p != "__init__")])


@pytest.mark.parametrize("name", list(modules()))
def test_examples_in_docstrings_run(name):
    module = import_module(name)
    if has_examples(
        module
    ):  # to look through a module that has none takes longer than most examples
        assert doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE).failed == 0


def has_examples(module):
    return ">>> " in Path(module.__file__).read_text(encoding="utf-8")


def test_there_are_examples_to_run():
    some = filter(has_examples, map(import_module, modules()))
    found = [case for module in some for case in doctest.DocTestFinder().find(module)]
    assert sum(bool(case.examples) for case in found) > 20


def test_every_public_name_is_there_and_documented():
    for name in attomaton.__all__:
        thing = getattr(attomaton, name)
        assert name == "__version__" or thing.__doc__, name


def test_the_page_of_commands_is_up_to_date():
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert page == load("make_cli").text(), "run: python docs/make_cli.py"


def load(name):
    """A program of docs/."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def blocks(page):
    """The fenced blocks of a page: language and content."""
    text = page.read_text(encoding="utf-8")
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)


def commands(page):
    """The `attomaton` commands in a page's blocks, without comments and prompts."""
    lines = [line.split("#")[0].strip() for _, block in blocks(page) for line in block.splitlines()]
    found = [line.removeprefix("$ ") for line in lines]
    return [line for line in found if line.startswith("attomaton ")]


def test_readme_python_runs_and_says_the_truth():
    python = [block for language, block in blocks(ROOT / "README.md") if language == "python"]
    assert len(python) == 2
    space = {}
    for block in python:
        exec(block, space)
    assert space["model"].predict([["soup", "tea", "cake", "bell"]]).tolist() == ["tea"]
    assert f"{space['limit'].finite.loss_floor:.10f}".startswith("0.4641576188")
    assert (space["run"].records["loss"][:, -1] - space["limit"].finite.loss_floor > 0).all()


def test_readme_commands_run(monkeypatch, tmp_path, call):
    """Each of them, on small files of the names and shapes that README uses."""
    monkeypatch.chdir(tmp_path)
    example = Path(attomaton.__file__).parent / "corpus" / "example.jsonl"
    Path("orders.jsonl").write_bytes(example.read_bytes())
    Path("contexts.jsonl").write_text('{"tokens": ["soup", "cake", "bell"]}\n')
    Path("corpus.txt").write_text("the cat and the dog and the cat saw the dog\n" * 5)
    Path("held_out.txt").write_text("the dog and the cat saw the cat and the dog\n" * 5)
    events = [f"u{i},{p},{t}" for i in range(3) for t, p in enumerate("abacab")]
    Path("log.csv").write_text("\n".join(["user,product,time", *events]) + "\n")
    found = [c for c in commands(ROOT / "README.md") if c not in NOT_RUN]
    assert len(found) >= 8
    # The models of the three `fit` lines share a name; the first one is what the later lines ask.
    drawn = [c for c in found if c.startswith("attomaton data synth ")]
    fits = [c for c in found if c.startswith("attomaton fit ")]
    for command in drawn + fits[::-1] + [c for c in found if c not in drawn + fits]:
        code, _, err = call(*shlex.split(command)[1:])
        assert code == 0, (command, err)
    assert Path("bell.svg").exists()
    assert Path("run/metrics.parquet").exists()


def test_commands_of_the_other_pages_run(monkeypatch, tmp_path, call):
    """On small files; pages with a test of their own and what is in NOT_RUN are left to those."""
    monkeypatch.chdir(tmp_path)
    for name, words in (("train", "cat dog"), ("valid", "dog cat"), ("test", "cat cat")):
        one, two = words.split()
        Path(f"{name}.txt").write_text(f"the {one} and the {two} and the {one} saw a dog\n" * 8)
    assert (
        call("fit", "train.txt", "--context", "32", "-o", "model")[0] == 0
    )  # named by predictor.md
    run = []
    for page in PAGES[1:]:
        for command in commands(page) if page.name not in RUN_ELSEWHERE else ():
            if command not in NOT_RUN:
                with unchecked_types():
                    code, _, err = call(*shlex.split(command)[1:])
                assert code == 0, (page.name, command, err)
                run.append(command)
    assert len(run) >= 4
    assert Path("score.svg").exists()


@pytest.mark.parametrize("page", RUN_ELSEWHERE)
def test_pages_that_are_left_to_other_tests_are_run_there(page):
    """Those tests read the `console` blocks, so that every command must stand in one, behind a prompt."""
    test = (ROOT / "tests" / RUN_ELSEWHERE[page]).read_text(encoding="utf-8")
    assert page in test
    assert "```console" in test
    path = ROOT / "docs" / page
    prompts = [line for language, block in blocks(path) if language == "console"
               for line in block.splitlines() if line.startswith("$ ")]  # fmt: skip
    assert [line.removeprefix("$ ") for line in prompts] == commands(path)
    assert prompts


def test_commands_that_are_not_run_are_still_there_and_can_be_parsed():
    written = {command for page in PAGES for command in commands(page)}
    assert set(NOT_RUN) <= written, "NOT_RUN names a command that no page shows any more"
    for command in NOT_RUN:
        parser = typer.main.get_command(cli.app)
        with parser.make_context("attomaton", shlex.split(command)[1:]) as context:
            name, chosen, rest = parser.resolve_command(context, shlex.split(command)[1:])
            chosen.make_context(name, rest, parent=context)


def test_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_rows_of_a_table_have_the_cells_of_its_head(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    tables = re.findall(r"(?:^\|.*\n)+", text, flags=re.M)
    assert tables or "\n|" not in text
    for table in tables:
        cells = [len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()]
        assert len(set(cells)) == 1, table


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_formulas_are_written_in_letters(page):
    text = re.sub(r"^```.*?^```|`[^`]*`", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    assert not re.findall(r"\$[^$\n]+\$", text)


def test_the_notation_page_names_real_things():
    page = (ROOT / "docs" / "notation.md").read_text(encoding="utf-8")
    source = "\n".join(p.read_text(encoding="utf-8") for p in (ROOT / "src").rglob("*.py"))
    for name in re.findall(r"`([A-Za-z_]{3,})`", page):
        assert re.search(rf"\b{name}\b", source), name


class Page(HTMLParser):
    """What a page of the site links to, names, and would fetch."""

    def __init__(self, text):
        super().__init__()
        self.links, self.ids, self.fetched = [], set(), []
        self.feed(text)
        self.fetched += re.findall(r"@import|url\(\s*['\"]?(?!#)[^)]*", text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "id":
                self.ids.add(value)
            elif name == "href" and tag == "a":
                self.links.append(value)
            elif name in ("src", "href", "xlink:href", "srcset", "data", "action") and value:
                self.fetched += [] if value.startswith(("#", "data:image/")) else [value]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site as `make docs` builds it, every warning an error."""
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going"]
    done = subprocess.run(
        [*build, "-d", str(folder / ".doctrees"), str(ROOT / "docs"), str(folder)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {path: Page(path.read_text(encoding="utf-8")) for path in folder.glob("*.html")}


def test_the_site_has_every_page_and_each_leads_to_all(site):
    names = {path.name for path in site}
    wanted = {"index.html", *(f"{p.stem}.html" for p in PAGES[1:])}
    assert wanted <= names
    for path, page in site.items():
        here = {"#"} if path.name in wanted else set()  # a page points at itself by the top of it
        assert wanted <= set(page.links) | {path.name} | here, path.name


def test_links_of_the_site_lead_somewhere(site):
    for path, page in site.items():
        for link in page.links:
            parts = urlsplit(unquote(link))
            if parts.scheme:
                continue
            target = (path.parent / parts.path).resolve() if parts.path else path
            assert target.exists(), f"{path.name}: {link}"
            known = site[target].ids | {""} if target in site else {parts.fragment}
            assert parts.fragment in known, f"{path.name}: {link}"


def test_no_page_of_the_site_fetches_anything_from_elsewhere(site):
    for path, page in site.items():
        assert [x for x in page.fetched if "//" in x] == [], path.name


def test_the_site_can_be_searched(site):
    index = next(iter(site)).with_name("searchindex.js").read_text(encoding="utf-8")
    assert '"certificate' in index or "certif" in index
    assert (next(iter(site)).parent / "search.html").is_file()


def test_the_reference_names_every_public_name(site):
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    told = re.findall(r"^\.\. auto\w+:: (\w+)$", page, flags=re.MULTILINE)
    assert sorted(told) == sorted(set(attomaton.__all__) - {"__version__"})
    reference = next(p for path, p in site.items() if path.name == "api.html")
    assert all(f"attomaton.{name}" in reference.ids for name in told)


def test_the_table_of_optimisers_is_that_of_their_curves():
    """Shares, cosines and losses at the last step, as far as the page gives their digits."""
    with (ROOT / "docs/figures/optimisers.csv").open(encoding="utf-8") as file:
        last = {row["run"]: row for row in csv.DictReader(file)}
    page = (ROOT / "docs/full_vocabulary.md").read_text(encoding="utf-8")
    told = [[x.strip() for x in y.split("|")[1:-1]] for y in page.splitlines() if y.count("|") == 7]
    told = {row[0]: row[2:] for row in told if row[0] in last}
    assert told.keys() == last.keys()
    names = ("margin_max", "margin_frobenius", "cosine_svm", "loss_gap")
    for run, cells in told.items():
        for name, cell in zip(names, cells, strict=True):
            near = {"rel": 0.06, "abs": 0} if name == "loss_gap" else {"abs": 0.006}
            said = float(cell.replace("−", "-"))
            assert said == pytest.approx(float(last[run][name]), **near), (run, name)
