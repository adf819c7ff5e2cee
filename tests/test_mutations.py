"""Wrong formulas on purpose: each planted fault turns at least one claim red; without it the same claims are green.

A fault is a piece of source text replaced in one module, in a process of its own. Where a certificate would already
refuse the answer, it is blinded too, so that the measurement has to find the fault alone.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

# Imports what all of those processes need of others and nothing of ours, then forks one for each program it is given:
# a line in, a line out. JAX has not started its threads by then.
FORKS = """
import json, os, sys, tempfile, traceback
import clarabel, jax, jax.numpy, networkx, numpy, pytest, scipy.optimize, scipy.sparse.csgraph, scipy.stats

assert not any(name.partition(".")[0] == "attomaton" for name in sys.modules)
for line in sys.stdin:
    program, argument = json.loads(line)
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = os.fork()
        if child == 0:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            code, sys.argv = 1, ["-c", argument]
            try:
                exec(program, {"__name__": "__main__"})
                code = 0
            except SystemExit as stop:
                code = int(stop.code or 0)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said = [file.seek(0) or file.read() for file in (out, err)]
    print(json.dumps([code, *said]), flush=True)
"""
RUNNER = """
import importlib.abc, importlib.util, json, sys
from importlib.machinery import PathFinder

edits, checks = json.loads(sys.argv[1])


class Mutant(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):
    def find_spec(self, name, path=None, target=None):
        if name not in edits:
            return None
        spec = PathFinder.find_spec(name, path)
        return importlib.util.spec_from_file_location(name, spec.origin, loader=self)

    def get_filename(self, name):
        return PathFinder.find_spec(name, importlib.import_module(name.rpartition(".")[0]).__path__).origin

    def get_data(self, path):
        with open(path, "rb") as file:
            return file.read()

    def source_to_code(self, data, path, *, _optimize=-1):
        text = data.decode()
        module = "attomaton." + path.rpartition("attomaton/")[2].removesuffix(".py").replace("/", ".")
        for old, new in edits[module]:
            assert text.count(old) == 1, (module, old, text.count(old))
            text = text.replace(old, new)
        return compile(text, path, "exec")

    def path_stats(self, path):
        raise OSError  # never a cached file: neither read nor written


sys.meta_path.insert(0, Mutant())
from attomaton.errors import AttomatonError

red = {}
for claim, (module, arguments) in checks.items():
    try:
        evidence = importlib.import_module(f"attomaton.claims.{module}").check(**arguments)
        red[claim] = [] if evidence.stands else [evidence.verdict, evidence.control]
    except AttomatonError as error:
        red[claim] = [type(error).__name__]
print(json.dumps(red))
"""

CHECKS = {
    "luce": ("luce_identity", {"problems": 1}),
    "T1": ("gradient_descent", {"problems": 2, "steps": 20_000}),
    "T2": ("regularisation", {"problems": 2}),
    "T3": ("special_cases", {"problems": 2}),
    "no-critical-point": ("critical_points", {"problems": 2, "drawn": 4}),
    "active-subspace": ("active_subspace", {"problems": 2}),
    "step-bound": ("step_bound", {"problems": 2}),
    "general-losses": ("general_losses", {"problems": 1}),
    "any-embeddings": ("any_embeddings", {"problems": 2}),
    "factorised": ("factorised", {"problems": 3}),
    "decoder": ("linear_decoder", {}),
    "longest-chain": ("longest_chain", {"problems": 1, "graphs": 20}),
    "collapse": ("collapse", {"trajectories": 200}),
    "interval-coverage": ("interval_coverage", {"draws": 400, "sizes": 1, "rows": 1}),
    "disconnected": ("disconnected", {}),
    "S1": ("decoder_gain", {}),
    "S2": ("fates", {"small": True}),
    "joma": ("joma", {"seeds": 3}),
}
BLIND = {"attomaton.mechanics.theory.svm": [["CERTIFIED = 1e-8", "CERTIFIED = 1e8"]]}
MUTATIONS = {
    "edges reversed": (
        BLIND | {"attomaton.mechanics.theory.graph": [
            ["    start, end = label_pair", "    end, start = label_pair"],
        ]},
        ["T1", "T2"],
    ),
    "edges reversed, certificate on": (
        {"attomaton.mechanics.theory.graph": [["    start, end = label_pair", "    end, start = label_pair"]]},
        ["T2"],
    ),
    "no multiplicities in the layer that is trained": (
        {"attomaton.mechanics.experiment.model": [
            ["log_count[owner, slot] = np.log(samples.count)", "log_count[owner, slot] = 0.0"],
        ]},
        ["luce", "T3"],
    ),
    "no multiplicities in the Luce choices": (
        {"attomaton.mechanics.theory.finite": [
            ["        np.log(cyclic.count),", "        np.zeros(len(cyclic.count)),"]]},
        ["T3"],
    ),
    "M − 1 for its square in γ": (
        {"attomaton.scan_snap.theory.decoder": [["np.asarray((m - 1) ** 2 * u / m", "np.asarray((m - 1) * u / m"]]},
        ["S1"],
    ),
    "sign of the common token's rate": (
        {"attomaton.scan_snap.theory.attention": [["return -rate * ((1 - f_l**2)", "return rate * ((1 - f_l**2)"]]},
        ["S2"],
    ),
    "ties of components dropped in the Graph-SVM": (
        {"attomaton.mechanics.theory.svm": [
            *BLIND["attomaton.mechanics.theory.svm"],
            ["ties = np.setdiff1d(np.arange(P), root)", "ties = np.zeros(0, np.int64)"],
        ]},
        ["T2"],
    ),
    "linear ties dropped in the Graph-SVM": (
        BLIND | {"attomaton.mechanics.theory.dependent": [
            ["solve_whitened(above - (above @ ties.basis) @ ties.basis.T)", "solve_whitened(above)"],
        ]},
        ["any-embeddings"],
    ),
    "a gradient by samples for the transpose of W": (
        {"attomaton.mechanics.experiment.model": [[
            'jnp.einsum("is,isd->id", residual, bags.X).T @ bags.q',
            'bags.q.T @ jnp.einsum("is,isd->id", residual, bags.X)',
        ]]},
        ["no-critical-point", "active-subspace", "step-bound"],
    ),
    "a quarter of the smoothness": (
        {"attomaton.claims.cases": [["(E[k] @ E[k]) / 4", "(E[k] @ E[k]) / 16"]]},
        ["step-bound"],
    ),
    "four times the smoothness": (
        {"attomaton.claims.cases": [["(E[k] @ E[k]) / 4", "(E[k] @ E[k])"]]},
        ["step-bound"],
    ),
    "S_fin for S_active": (
        {"attomaton.mechanics.theory.finite": [[
            "regrouped(graph, np.unique(graph.pair_last, return_inverse=True)[1])", "graph",
        ]]},
        ["active-subspace"],
    ),
    "whole margins for a loss whose slope vanishes": (
        {"attomaton.claims.general_losses": [["1 / order if quick else 1.0", "1.0"]]},
        ["general-losses"],
    ),
    "draws that forget the counts": (
        {"attomaton.mechanics.theory.trajectories": [[
            "mass = self.count * (self.weight[self.last]", "mass = 1.0 * (self.weight[self.last]",
        ]]},
        ["collapse"],
    ),
    "the odds themselves as the exponent": (
        {"attomaton.mechanics.theory.collapse": [["(r == 0), r - 1, np.nan)", "(r == 0), -r, np.nan)"]]},
        ["collapse"],
    ),
    "queries that do not learn": (
        {"attomaton.mechanics.experiment.factors": [["gradient.T @ K]", "0 * gradient.T @ K]"]]},
        ["factorised"],
    ),
    "keys and queries changed over": (
        {"attomaton.mechanics.experiment.factors": [["return K @ Q.T", "return Q @ K.T"]]},
        ["factorised"],
    ),
    "every token of a support counted once": (
        {"attomaton.mechanics.theory.decoder": [[
            "label.astype(np.int32), counts[context, label],", "label.astype(np.int32), np.ones(n),",
        ]]},
        ["decoder"],
    ),
    "a decoder trained on contexts that have each other's vectors": (
        {"attomaton.mechanics.experiment.model": [["_filled(queries[lasts],", "_filled(queries[lasts[::-1]],"]]},
        ["decoder"],
    ),
    "some chain for the longest": (
        {"attomaton.mechanics.theory.norms": [
            ["CERTIFIED = 1e-6", "CERTIFIED = 1e6"],
            ["way = [int(graph.height.argmax())]", "way = [int((graph.height > 0).argmax())]"],
        ]},
        ["longest-chain"],
    ),
    "scores of a sequence that forget the weights of its labels": (
        {"attomaton.mechanics.theory.information": [
            ["own[choices.winner_at] -= choices.weight", "own[choices.winner_at] -= 1.0"],
        ]},
        ["interval-coverage"],
    ),
    "a last token that never comes next joins groups": (
        {"attomaton.mechanics.theory.evidence": [[
            "came = np.flatnonzero(label_weight(graph, samples) > 0)",
            "came = np.flatnonzero(label_weight(graph, samples) >= 0)",
        ]]},
        ["disconnected"],
    ),
    "the whole of Σ v² for half of it in the invariant": (
        {"attomaton.joma.theory.invariant": [["growth = squares / (2 * run", "growth = squares / (1 * run"]]},
        ["joma"],
    ),
    "attention of v instead of v² in the solution": (
        {"attomaton.joma.theory.growth": [["value = np.exp(-np.square(_way", "value = np.exp(-np.abs(_way"]]},
        ["joma"],
    ),
    "nothing kept of the start": (
        {"attomaton.claims.special_cases": [[
            "return W - FiniteSubspace(limit.graph, limit.embeddings).part(W)", "return np.zeros_like(W)",
        ]]},
        ["T3"],
    ),
}  # fmt: skip


# Formulas that no claim rests on: what sees a fault in them is a test.
TESTED = {
    "answers left in the order of their last tokens": (
        {"attomaton.mechanics.theory.many": [["    row = row[place]\n", "    row = row[known]\n"]]},
        "mechanics/test_many.py::test_many_contexts_are_answered_as_each_of_them_alone[0]",
    ),
    "only what both corpora say leads back": (
        {"attomaton.mechanics.theory.mixture": [[
            "self.both.component[start] == self.both.component[end]",
            "one.component[one.edge_from] == one.component[one.edge_to]",
        ]]},
        "mechanics/test_mixture.py::test_by_hand",
    ),
    "an edge is there without a sequence behind it": (
        {"attomaton.mechanics.theory.resampling": [["self.behind @ drawn > 0", "self.behind @ drawn >= 0"]]},
        "mechanics/test_resampling.py::test_an_order_is_lost_as_often_as_its_sequences_are_not_drawn",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def run():
    """Run a program with one argument in a fresh process: exit code, stdout, stderr."""
    words = [sys.executable, "-W", "ignore:os.fork:RuntimeWarning", "-c", FORKS]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:

        def forked(program, argument):
            print(json.dumps([program, argument]), file=server.stdin, flush=True)
            return json.loads(server.stdout.readline())

        yield forked
        server.stdin.close()


@pytest.fixture(scope="module")
def red(run):
    """Which of the claims do not stand, and how they ended: `red(edits, claims)`."""

    def found(edits, claims):
        asked = json.dumps([edits, {name: CHECKS[name] for name in claims}])
        code, out, err = run(RUNNER, asked)
        assert code == 0, err
        return {k: v for k, v in json.loads(out.splitlines()[-1]).items() if v}

    return found


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_planted_fault_turns_its_claims_red(red, name):
    edits, claims = MUTATIONS[name]
    assert sorted(red(edits, claims)) == sorted(claims)


def test_without_a_fault_the_same_claims_are_green(red):
    assert red({}, CHECKS) == {}


@pytest.mark.parametrize("name", TESTED)
def test_a_planted_fault_is_seen_by_a_test(run, name):
    edits, test = TESTED[name]
    head = RUNNER.partition("from attomaton")[0]
    # Without our options: what checks types at run time would load the modules before the faults are in.
    asked = [str(Path(__file__).parent / test), "-q", "-o", "addopts="]
    runner = f"{head}\nimport pytest\nsys.exit(pytest.main({asked!r}))"
    code, out, err = run(runner, json.dumps([edits, {}]))
    assert code == pytest.ExitCode.TESTS_FAILED, out + err
    assert "1 failed" in out
