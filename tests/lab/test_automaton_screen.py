"""The automaton screen: the numbers of predict and explain, from soft to hard, drawn and asked why."""

import json
import math
import shlex
from urllib.parse import parse_qs, urlencode, urlparse

import pytest
from tests.chromium import eventually

from attomaton import (
    Automaton,
    open_model,
    read_samples,
    samples_from_sequences,
    save_model,
    solve_limit,
)
from attomaton.corpus.vocabulary import Vocabulary
from attomaton.errors import AttomatonError
from attomaton.lab.automaton import charts as automaton_charts
from attomaton.lab.automaton import why as automaton_why
from attomaton.lab.automaton.attention import share
from attomaton.lab.automaton.norm import Norm
from attomaton.lab.kit.contexts import (
    MOST,
    commands,
    companions,
    continued,
    first_context,
    read_context,
    write_context,
)
from attomaton.lab.kit.table import shown
from attomaton.lab.opened import Opened
from attomaton.numerics import named_rng

# After q: a over b over c, but no sample has a and c together, so c is blocked by a path of two edges. z is only seen
# apart from a, and ties hold in circles after r. What is drawn from a, b and r can go on: all were last tokens. The
# long row makes a vocabulary too large to offer as chips.
ROWS = [
    (["a", "b", "q"], "a"), (["b", "c", "q"], "b"), (["b", "c", "q"], "b"), (["z", "q"], "z"),
    (["a", "b", "r"], "a"), (["a", "b", "r"], "b"), (["a", "b", "b", "r"], "b"), (["a", "r"], "r"),
    (["<b>x</b>", "$blue", "two words", 7, "-v"], "$blue"), (["$blue", "7 up", "-v"], "-v"),
    (["a", "b"], "b"), (["b", "a"], "b"),
    ([f"w{i}" for i in range(300)], "w3"),
]  # fmt: skip
LIST = "[...document.querySelectorAll({})].map(e => e.innerText.trim())"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "rows.jsonl"
    path.write_text("".join(json.dumps({"tokens": t, "next": n}) + "\n" for t, n in ROWS))
    return path


@pytest.fixture(scope="module")
def lab(start_lab, data):
    return start_lab(data)


@pytest.fixture(scope="module")
def folder(data):
    path = data.parent / "model"
    save_model(solve_limit(read_samples(data)), path, {})
    return path


@pytest.fixture(scope="module")
def model(folder):
    return Opened(folder)


@pytest.fixture(autouse=True)
def _no_fault_in_the_server(request):
    yield
    if "tab" in request.fixturenames:
        assert "Traceback" not in request.getfixturevalue("lab").log.read_text()


def look(tab, context, **settings):
    """Open the page on a context and wait until its charts are drawn."""
    tab.see("/automaton?" + urlencode({"context": context, **settings}))
    tab.wait(
        "document.querySelectorAll('.token').length > 0 && document.querySelectorAll('canvas').length === 2"
        " && window.did_handshake === true"
    )
    return tab


def rows(tab, card):
    return tab.value(
        f"[...document.querySelectorAll('[aria-label={json.dumps(card)}] tbody tr')].map(r =>"
        " [...r.children].map(c => c.innerText.trim()))"
    )


def texts(tab, selector):
    return tab.value(LIST.format(json.dumps(selector)))


def drawn(tab, card="Next token"):
    """What a chart draws at this moment, straight from it."""
    return tab.wait(
        f"(() => {{ const e = document.querySelector('[aria-label={json.dumps(card)}] canvas');"
        " return e && getElement(+e.closest('[id^=c]').id.slice(1)).chart.getOption(); })()"
    )


def bars(tab):
    o = drawn(tab)
    names = [name.removeprefix("\u2060") for name in o["yAxis"][0]["data"]]
    return dict(zip(names, [d["value"] for d in o["series"][0]["data"]], strict=True))


def setting(tab, name):
    return parse_qs(urlparse(tab.value("location.href")).query).get(name, [None])[0]


def by_word(p):
    return {str(k): v for k, v in p.items()}


# Text with attention on it


def text_words(tab):
    """The words of the context as they stand on the page: word, number, what is drawn of it."""
    return tab.wait(
        "(() => { const t = [...document.querySelectorAll('.text-word[role=option]')].map(e => ["
        "e.querySelector('s, span').innerText, e.querySelector('small')?.innerText ?? '', !!e.querySelector('s'),"
        " e.className]); return t.length ? t : null; })()"
    )


def test_the_context_is_text_with_shares_struck_words_and_a_mark_on_the_unknown(tab, folder):
    look(tab, "b a zz b r")
    p = Automaton(open_model(folder)).predict_proba(["b", "a", "zz", "b", "r"])
    found = text_words(tab)
    assert [x[0] for x in found] == ["b", "a", "zz", "b", "r"]
    assert found[0][1] == found[3][1] == share(p["b"] / 2)  # at each of its two places
    assert found[1][1] == share(p["a"])
    assert not any(x[2] for x in found)
    assert "is-unknown" in found[2][3]
    assert "is-last" in found[4][3]
    shades = tab.value(
        "[...document.querySelectorAll('.text-word[role=option]')].map(e => +e.style.getPropertyValue('--shade'))"
    )
    assert shades == pytest.approx([p["b"] / 2, p["a"], 0, p["b"] / 2, p["r"]], abs=1e-4)
    tab.click(".text-word:nth-of-type(2)")
    tab.wait("document.querySelector('[aria-label=Why]').innerText.includes('Why ‘a’?')")
    look(tab, "a c w9 q")
    found = text_words(tab)
    assert [(x[0], x[1], x[2]) for x in found] == [
        ("a", "1", False), ("c", "", True), ("w9", "", False), ("q", "", True)
    ]  # fmt: skip
    assert "is-faint" in found[2][3]
    assert not tab.errors


def test_windows_of_the_data_are_chosen_by_last_token_and_by_their_answers(tab, folder):
    rights = {"right": [], "wrong": []}
    automaton = Automaton(open_model(folder))
    for i, (context, came) in enumerate(ROWS):
        p = automaton.predict_proba(context)
        rights["right" if p[came] >= max(p.values()) - 1e-9 else "wrong"].append(i)
    assert rights["wrong"]
    tab.see("/automaton?answers=wrong&window=0")
    text_words(tab)
    at = "+new URLSearchParams(location.search).get('window')"
    for want in [*rights["wrong"], rights["wrong"][0]]:  # around the data and back
        tab.click_text("Next window", "button")
        tab.wait(
            f"{at} === {want} && document.querySelector('.verdict').innerText.includes('Wrong')"
        )
    context, came = ROWS[rights["wrong"][0]]
    found = text_words(tab)
    assert [x[0] for x in found] == [*context, came]
    assert "is-next" in found[-1][3]
    assert {x[0] for x in found if "is-label" in x[3]} == {came}
    tab.see("/automaton?ending=q&window=12")
    text_words(tab)
    tab.click_text("Previous window", "button")
    tab.wait(
        f"{at} === 3 && document.querySelector('.verdict').innerText.includes('that came next')"
    )
    eventually("z q", setting, tab, "context")


def test_arrow_keys_go_from_word_to_word(tab):
    look(tab, "a b c q")
    tab.value("document.querySelector('.text[role=listbox]').focus()")
    tab.press("Home")
    tab.press("Enter")
    tab.wait("document.querySelector('[aria-label=Why]').innerText.includes('Why ‘a’?')")


def test_the_first_context_is_the_one_in_which_most_changes_from_soft_to_hard():
    # x is alone, d and e are tied alike from the start; only the third puts something behind, with unlike shares.
    rows = [(["x", "q"], "x"), (["d", "e", "f", "g", "h", "q"], "d"), (["a", "b", "b", "c", "q"], "a"),
            (["a", "b", "b", "c", "q"], "b"), (["a", "b", "b", "c", "q"], "b"),
            *((["d", "e", "f", "g", "h", "q"], x) for x in "efghq")]  # fmt: skip
    limit = solve_limit(samples_from_sequences(*zip(*rows, strict=True)))
    words, source = first_context(limit, "q")
    assert sorted(words) == ["a", "b", "b", "c", "q"]
    assert words[-1] == "q"
    assert source == 2


# Input that is wrong


@pytest.mark.parametrize(
    "text", ['["a", "q"', '["a" "q"]', '{"tokens": ["a", "q"]}', "[" * 100_000]
)
def test_broken_json_is_no_list_of_tokens(text):
    with pytest.raises(AttomatonError, match="JSON"):
        read_context(text, Vocabulary(["a", "q"]))


def test_brackets_that_are_tokens_are_tokens():
    vocabulary = Vocabulary(["[", "a", "]", "{"])
    assert read_context("[ a", vocabulary) == ["[", "a"]
    assert read_context("{ a ]", vocabulary) == ["{", "a", "]"]


def test_no_old_answer_stands_under_a_new_error(tab):
    look(tab, "a b c q")
    tab.type("input[aria-label^=Context]", '["a", ')
    tab.press("Enter")
    assert "JSON" in tab.wait("document.querySelector('.problem')?.innerText")
    assert not tab.value("[...document.querySelectorAll('.text-word[role=option], .token, canvas')]"
                         ".filter(e => e.offsetParent).length")  # fmt: skip
    tab.type("input[aria-label^=Context]", "a b c q")
    tab.press("Enter")
    tab.wait(
        "!document.querySelector('.problem') && !!document.querySelector('.token')?.offsetParent"
    )


def test_a_seed_chosen_under_an_error_counts_for_what_is_typed_next(tab):
    look(tab, "a b b r")
    tab.type("input[aria-label^=Context]", '["a", ')
    tab.press("Enter")
    tab.wait("!!document.querySelector('.problem')")
    tab.type("input[aria-label=seed]", "3")
    tab.type("input[aria-label^=Context]", "a b r")
    tab.press("Enter")
    eventually(("a b r", "3"), lambda: (setting(tab, "context"), setting(tab, "seed")))


# What the model does not know


def chip(tab, word):
    """What stands on a token of the context, line by line."""
    found = [x for x in texts(tab, ".tokens .token") if word in x.splitlines()]
    assert len(found) == 1, found
    return found[0].splitlines()


def test_an_unknown_token_is_marked_has_no_probability_and_what_was_meant_is_a_click_away(tab):
    look(tab, "a w12x b q")
    said = chip(tab, "w12x")
    assert "not in the vocabulary" in said
    assert "help" in said  # a sign, not colour alone
    near = said[-2]
    assert near.startswith("did you mean ‘w12")
    assert "retrieved" in chip(tab, "a")
    told = {row[0]: row[1:] for row in rows(tab, "Every token of the context")}
    assert told["w12x"] == ["1", "–", "–", "–", "not in the vocabulary"]
    eventually({"a", "b", "q"}, lambda: set(bars(tab)))
    assert "w12x" not in json.dumps(drawn(tab, "From soft to hard")["legend"])
    tab.says("no score and no probability", ".why-words")
    tab.says("was left out", "main")
    tab.click(".token.unknown .meant")
    tab.wait(
        "document.querySelectorAll('.token').length === 4 && !document.querySelector('.token.unknown')"
    )
    word = near.removeprefix("did you mean ‘").removesuffix("’?")
    tab.wait(f"new URLSearchParams(location.search).get('context') === 'a {word} b q'")


def test_a_context_with_an_unknown_token_gets_the_numbers_of_the_one_without(tab):
    look(tab, "a b c q")
    known = bars(tab), [r for r in rows(tab, "Every token of the context")]
    look(tab, "a b nobody c q")
    eventually(known[0], bars, tab)
    eventually(
        known[1], lambda: [r for r in rows(tab, "Every token of the context") if r[0] != "nobody"]
    )


@pytest.mark.parametrize("context", ["a b nobody", "nobody", "a z"])
def test_a_context_that_ends_in_what_never_was_a_last_token_has_no_prediction(tab, context):
    look(tab, context)
    assert not [x for x in texts(tab, ".token .reason") if "retrieved" in x]
    eventually({}, bars, tab)
    tab.says("there is no prediction", "main")
    tab.says("nothing to draw", "[aria-label='Next token']")
    assert all(row[2:5] == ["–"] * 3 for row in rows(tab, "Every token of the context"))
    tab.click_text("Draw the next token", ".q-btn")
    assert "nothing can be drawn after" in tab.wait("document.querySelector('.problem')?.innerText")


def test_what_hides_in_a_token_is_spelled_out(tab):
    look(tab, json.dumps(["a\u202eb\x07", "q"]))
    assert "a\\u202eb\\x07" in chip(tab, "a\\u202eb\\x07")
    shown_ = tab.value("[...document.querySelectorAll('main *')].map(e => e.textContent).join('')")
    assert "\u202e" not in shown_
    assert "\x07" not in shown_


def test_the_largest_norm_is_a_norm():
    for radius in (1e15, 1e300, 1.7e308):
        assert automaton_charts.notch_of(radius, 1e-3) == automaton_charts.NOTCHES


# The page shows what the command line says


def test_the_table_is_that_of_explain_and_the_bars_those_of_predict(tab, folder, call):
    context = ["a", "b", "c", "z", "b", "q"]
    look(tab, " ".join(context))
    told = json.loads(call("explain", folder, *context, "--json")[1])
    want = [
        [
            f["token"],
            str(f["count"]),
            *(shown(f[k]) for k in ("probability", "svm_score", "finite_score")),
        ]
        for f in told["fates"]
    ]
    got = rows(tab, "Every token of the context")
    assert [row[:2] for row in got] == [row[:2] for row in want]
    for row, wanted in zip(got, want, strict=True):
        assert [float(x) for x in row[2:5]] == wanted[2:]
    assert {row[0]: row[5] for row in got}["c"] == "outranked: a → b → c"
    predicted = json.loads(call("predict", folder, *context, "--json")[1])["probabilities"]
    eventually({x["token"]: x["p"] for x in predicted}, bars, tab)
    tab.says(told["note"], "main")
    assert not tab.errors


def test_retrieved_tokens_stand_out_and_the_others_say_why(tab):
    look(tab, "a c w9 q")
    eventually(["check_circle\na"], texts, tab, ".token.retrieved .word")
    eventually(
        [
            "outranked",
            "never seen here",
            "last token, outranked",
        ],
        texts,
        tab,
        ".token.lost .reason",
    )
    weights = tab.value(
        "['.token.retrieved .word', '.token.lost .word'].map(s =>"
        " getComputedStyle(document.querySelector(s)).fontWeight)"
    )
    assert int(weights[0]) > int(weights[1])


def test_soft_weights_are_counts_times_soft_scores(tab, folder):
    look(tab, "a b b r")
    p = Automaton(open_model(folder)).predict_proba(["a", "b", "b", "r"])
    soft = rows(tab, "2 · Soft composition")
    sure = Automaton(open_model(folder)).intervals(["a", "b", "b", "r"])
    assert {r[0]: r[-1] for r in soft} == {x: f"{i.low:.3f}–{i.high:.3f}" for x, i in sure.items()}
    shares = {row[0]: [float(x) for x in row[1:-1]] for row in soft}
    assert set(shares) == {x for x in p if p[x] > 0}
    total = sum(row[2] for row in shares.values())
    for word, (_, _, weight, part) in shares.items():
        assert part == pytest.approx(p[word], rel=1e-5)
        assert weight / total == pytest.approx(p[word], rel=1e-5)


# From soft to hard


def test_the_slider_goes_from_the_soft_part_to_the_limit(tab, folder):
    context = ["a", "b", "b", "c", "q"]
    automaton = Automaton(open_model(folder))
    norm = automaton.limit.svm.norm
    look(tab, " ".join(context))
    eventually(automaton.predict_proba(context), bars, tab)
    tab.click_text("‖W‖ = 0", "button")
    tab.wait("document.querySelector('.radius').innerText.startsWith('‖W‖ = 0 ')")
    soft = bars(tab)
    assert soft == automaton.predict_proba(context, 0.0)
    assert soft["b"] == pytest.approx(0.4)  # two of five: only counts are left here
    eventually("0", setting, tab, "radius")
    tab.value("document.querySelector('.q-slider [tabindex]').focus()")
    for _ in range(10):
        for kind in ("keyDown", "keyUp"):
            tab.send(
                "Input.dispatchKeyEvent", type=kind, key="ArrowRight", windowsVirtualKeyCode=39
            )
    one = float(f"{norm:.4g}")
    tab.wait(f"location.search.includes('radius={one:g}')")
    eventually(automaton.predict_proba(context, one), bars, tab)
    tab.click_text("‖W‖ = ∞", "button")
    tab.wait("!location.search.includes('radius')")
    eventually(automaton.predict_proba(context), bars, tab)


def test_bars_and_marker_move_while_the_slider_is_held(tab, folder):
    context = ["a", "b", "q"]
    automaton = Automaton(open_model(folder))

    def pull():
        """Take hold of the slider on a page of its own: one that still moves slips away from under the mouse."""
        tab.mouse("released", 0, 0, button="left", clickCount=1)
        look(tab, " ".join(context), radius=0)
        at = tab.box(".q-slider")
        left = at["x"] - at["width"] / 2
        tab.mouse("moved", left + 2, at["y"])
        tab.mouse("pressed", left + 2, at["y"], button="left", clickCount=1)
        for part in (0.28, 0.3):
            tab.mouse("moved", left + at["width"] * part, at["y"], button="left", buttons=1)

    tab.until("!document.querySelector('.radius').innerText.startsWith('‖W‖ = 0 ')", pull)

    def agree():
        """Words, bars and marker, once the last pull has arrived."""
        radius = float(tab.text(".radius").split(" = ")[1])
        series = drawn(tab, "From soft to hard")["series"]
        marker = next(s for s in series if s.get("id") == "at")["data"][0][0]
        return (
            2.1 < radius / automaton.limit.svm.norm < 3
            and bars(tab) == automaton.predict_proba(context, radius)
            and marker == pytest.approx(radius / automaton.limit.svm.norm)
        )

    eventually(True, agree)
    assert setting(tab, "radius") == "0"  # the address waits until it is let go
    at = tab.box(".q-slider")
    tab.mouse("released", at["x"] - 0.2 * at["width"], at["y"], button="left", clickCount=1)
    eventually(True, lambda: setting(tab, "radius") == tab.text(".radius").split(" = ")[1])


def test_the_curves_are_predict_proba_at_every_radius(folder):
    automaton, context = Automaton(open_model(folder)), ["a", "b", "b", "c", "q"]
    drawn = automaton_charts.curves(automaton, context, automaton.explain(context), 1.0)
    header, table = drawn.header, drawn.rows
    assert math.isinf(table[-1][0])
    assert table[-2][0] == pytest.approx(8 * automaton.limit.svm.norm, rel=5e-4)  # four digits
    for radius, *p in table:
        assert dict(zip(header[1:], p, strict=True)) == automaton.predict_proba(context, radius)
    lines = {s.name: s.data for s in drawn.series if s.kind == "line" and s.name}
    assert lines["b"][0] == [0.0, pytest.approx(0.4)]


def test_many_tokens_draw_few_curves_and_say_so(folder):
    automaton, context = Automaton(open_model(folder)), [f"w{i}" for i in range(240, 300)]
    explained = automaton.explain(context)
    drawn = automaton_charts.curves(automaton, context, explained, 0.0)
    assert len(drawn.legend.names) == automaton_charts.CURVES
    assert drawn.note.startswith("50 ")
    drawn = automaton_charts.bars(explained, automaton.predict_proba(context))
    assert (len(drawn.series[0].data), len(drawn.rows)) == (automaton_charts.BARS, 60)
    assert drawn.note.startswith(f"{60 - automaton_charts.BARS} ")


# Drawing


def test_draws_one_by_one_and_together_are_those_of_the_command_line(tab, folder, call):
    look(tab, "a b b r", seed=3)
    want = json.loads(
        call("predict", folder, "a", "b", "b", "r", "--sample", 7, "--seed", 3, "--json")[1]
    )
    tokens = want["continuation"]
    for n in (1, 2):
        tab.click_text("Draw the next token", "button")
        tab.wait(f"document.querySelectorAll('.token').length === {4 + n}")
        eventually(tokens[:n], lambda: setting(tab, "context").split()[4:])
    tab.click_text("Continue by", "button")
    tab.wait("document.querySelectorAll('.token').length === 11")
    eventually(tokens, lambda: setting(tab, "context").split()[4:])
    tab.says(f"Drawn with seed 3: {' '.join(tokens)}", "main")
    again = tab.value("location.pathname + location.search")
    tab.see(again)
    tab.wait("document.querySelectorAll('.token').length === 11")
    tab.says(f"Drawn with seed 3: {' '.join(tokens)}", "main")
    tab.click_text("Undo the last change of the context", "button")
    tab.wait("document.querySelectorAll('.token').length === 4")
    assert "Drawn with" not in tab.text("main")


@pytest.mark.parametrize("seed", range(4))
def test_a_continuation_opens_each_last_token_and_draws_what_the_whole_model_draws(
    model, folder, seed
):
    whole = Automaton(open_model(folder))
    for context in (["a", "b", "r"], ["z", "b", "q"], ["never", "seen"]):
        want = whole.sample(context, named_rng("sample", seed), 12)
        assert continued(model, context, seed, 12) == want


def test_a_continuation_of_nothing_or_of_no_length_is_refused_as_by_predict(model, folder, call):
    with pytest.raises(AttomatonError, match="the context is empty"):
        continued(model, [], 0, 1)
    with pytest.raises(AttomatonError, match="at least 1 is needed"):
        continued(model, ["a"], 0, -1)
    assert call("predict", folder, "a", "--sample", "-1")[0] == 2


# Why not this token?


def test_a_blocked_token_shows_the_path_down_to_it_with_its_samples(tab, folder, call):
    look(tab, "a c q")
    tab.click(".token:nth-child(2) button")
    tab.wait("document.querySelector('.token:nth-child(2)').classList.contains('asked')")
    eventually(["a", "b", "c"], texts, tab, ".way .stop")
    told = json.loads(call("explain", folder, "a", "c", "q", "--json")[1])
    path = next(f for f in told["fates"] if f["token"] == "c")["path"]
    assert (
        texts(tab, ".way .arrow div") == [f"×{edge['weight']:g}" for edge in path] == ["×1", "×2"]
    )
    # Each edge with the rows that made it, as they stand in the file, winner and loser marked in place.
    eventually([
        "a b q →a", "b c q →b", "b c q →b",
    ], lambda: [" ".join(x.split()) for x in texts(tab, ".evidence .text")])  # fmt: skip
    eventually(["line 1", "line 2", "line 3"], texts, tab, ".evidence .note")
    eventually(["b", "c", "c"], texts, tab, ".evidence s")
    eventually(["a", "b", "b"], texts, tab, ".evidence .is-label")
    tab.wait("location.search.includes('why=c')")
    link = urlparse(tab.value("document.querySelector('.graph-link').href"))
    assert link.path.endswith("/graph")
    assert {k: v[0] for k, v in parse_qs(link.query).items() if k != "on"} == {
        "last": "q",
        "chosen": "c",
    }


def test_lower_scores_and_strangers_are_told_in_words(tab, folder):
    explained = Automaton(open_model(folder)).explain(["a", "z", "w1", "q"])
    fates = {f.token: f for f in explained.fates}
    assert (fates["z"].reason, fates["w1"].reason) == (
        "lower score",
        "never seen with the last token",
    )
    look(tab, "a z w1 q", why="z")
    tab.says("Why not ‘z’?", "[aria-label=Why]")
    for f in (fates["z"], max(explained.fates, key=lambda f: f.svm_score)):
        tab.says(automaton_why.score(f.svm_score), ".why-words")
    tab.click(".token:nth-child(3) button")
    tab.wait(
        "document.querySelector('.card-title') && document.body.innerText.includes('Why not ‘w1’?')"
    )
    assert tab.text(".why-words").startswith(
        "No sample that ends in ‘q’ holds ‘w1’, so its hard score is 0;"
    )


def test_a_row_of_the_table_asks_too(tab):
    look(tab, "a b c q")
    tab.says("Why not ‘b’?", "[aria-label=Why]")  # the first that was left behind
    tab.click("[aria-label='Every token of the context'] tbody tr:first-child")
    tab.wait("document.querySelector('[aria-label=Why]').innerText.includes('Why ‘a’?')")


# The context: typed, clicked, brought back


def test_typing_clicking_and_removing_change_the_context(tab):
    look(tab, "a q")
    tab.type("input[aria-label^=Context]", "b c q")
    tab.press("Enter")
    tab.wait("location.search.includes('context=b+c+q')")
    eventually(["check_circle\nb"], texts, tab, ".token.retrieved .word")
    tab.click_text("a", "button.chip")
    tab.wait("location.search.includes('context=b+c+a+q')")
    eventually(["check_circle\na"], texts, tab, ".token.retrieved .word")
    tab.click(".token:nth-child(1) button[aria-label='Remove this token']")
    tab.wait("location.search.includes('context=c+a+q')")
    tab.type("input[aria-label='search a token']", "w12")
    tab.click_text("w129", "button.chip")
    tab.wait("location.search.includes('context=c+a+q+w129')")
    tab.says("never a last token", "main")
    for left in ("c+a+q", "b+c+a+q", "b+c+q", "a+q"):
        tab.click_text("Undo the last change of the context", "button")
        tab.wait(
            f"location.search.endsWith('context={left}') || location.search.includes('context={left}&')"
        )


def test_what_is_typed_counts_even_when_the_next_thing_is_a_click(tab, folder, call):
    look(tab, "a q")
    tab.type("input[aria-label^=Context]", "b c b r")
    tab.click_text("Draw the next token", "button")
    tab.wait("document.querySelectorAll('.token').length === 5")
    want = json.loads(call("predict", folder, "b", "c", "b", "r", "--sample", 1, "--json")[1])
    eventually(["b", "c", "b", "r", *want["continuation"]], lambda: setting(tab, "context").split())


def test_a_large_vocabulary_is_searched_not_listed(tab):
    look(tab, "w1 w299")
    assert len(texts(tab, "button.chip")) <= 16 + 8
    tab.type("input[aria-label='search a token']", "w")
    tab.wait("document.querySelectorAll('.found button').length === 16")


def test_labels_of_any_kind_are_text_and_can_be_typed_as_json(tab):
    look(tab, '["<b>x</b>", "two words", 7, "$blue", "-v"]')
    eventually(
        [
            "<b>x</b>",
            "two words",
            "7",
            "$blue",
            "-v",
        ],
        texts,
        tab,
        ".token .word div:last-child",
    )
    assert tab.value("document.querySelector('main b')") is None
    eventually({"<b>x</b>", "two words", "7", "$blue", "-v"}, lambda: set(bars(tab)))
    eventually(7, lambda: json.loads(setting(tab, "context"))[2])


def test_the_address_brings_the_view_back(tab, folder):
    look(tab, "a b c q", radius=1.5, why="c")
    eventually("a b c q", tab.value, "document.querySelector('input[aria-label^=Context]').value")
    assert tab.text(".radius").startswith("‖W‖ = 1.5 ")
    eventually(Automaton(open_model(folder)).predict_proba(["a", "b", "c", "q"], 1.5), bars, tab)
    eventually("c", lambda: texts(tab, ".way .stop")[-1])


def test_without_a_context_one_is_offered_for_the_last_token(tab):
    tab.see("/automaton?last=r")
    tab.wait("document.querySelectorAll('.token').length === 3")
    eventually(["a", "b", "r"], texts, tab, ".token .word div:last-child")


def test_a_context_that_cannot_be_is_told_beside_the_field(tab):
    look(tab, "a q")
    for typed, told in (
        (" ", "the context is empty; a prediction needs at least one token."),
        ("[1.5]", "token 1.5 is neither a string nor an integer."),
        ("[null]", "token None is neither a string nor an integer."),
        ("x " * (MOST + 1), f"{MOST + 1} tokens are too many for this page: at most {MOST}."),
    ):
        tab.type("input[aria-label^=Context]", typed)
        tab.press("Enter")
        tab.wait(
            f"document.querySelector('[aria-label=Context] .problem')?.innerText.includes({json.dumps(told)})"
        )
        eventually(["a", "q"], texts, tab, ".token .word div:last-child")  # what was shown stays
    tab.type("input[aria-label^=Context]", "b q")
    tab.press("Enter")
    tab.wait(
        "!document.querySelector('.problem') && document.querySelector('.token').innerText.includes('b')"
    )


@pytest.mark.parametrize("radius", [-1.0, math.nan, -math.inf])
def test_a_radius_that_makes_no_sense_is_the_limit(radius):
    assert math.isinf(Norm(1.0, radius, lambda: None).radius)


def test_a_count_of_drawn_tokens_that_is_not_true_is_not_believed(tab):
    look(tab, "a b b r c c c", drawn=3, radius="nan", why="nobody", seed=-4)
    assert "Drawn with" not in tab.text("main")
    eventually("‖W‖ = ∞, the limit of training", tab.text, ".radius")


# Reading and writing contexts; the commands


@pytest.mark.parametrize(
    "words",
    [
        ["a", "b"],
        [7, "7 up"],
        ["7"],
        [7],
        ["[1.5]"],
        ["[", "]"],
        ["a b", " "],
        [""],
        ["-v", "'"],
        ["é\n"],
        ["0x7"],
    ],
)
def test_a_written_context_reads_as_itself(words):
    vocabulary = Vocabulary(["a", "b", 7, "7 up"])
    if words == ["7"]:  # where only the number is known, the word must be said in JSON
        assert write_context(words, vocabulary) == '["7"]'
    assert read_context(write_context(words, vocabulary), vocabulary) == words


def test_a_name_of_a_colour_is_no_colour(tab):
    look(tab, "$blue a q")
    charts = "[...document.querySelectorAll('canvas')].map(c => getElement(+c.closest('[id^=c]').id.slice(1)).chart"
    bars, curves = tab.value(f"{charts}.getOption())")
    assert "$blue" in bars["yAxis"][0]["data"]
    drawn = [line for line in curves["series"] if line.get("name") == "$blue"]
    parts = [part for line in drawn for part in (line, *line.values()) if isinstance(part, dict)]
    colours = [part["color"] for part in parts if "color" in part]
    assert colours
    assert all(colour.startswith(("#", "rgb")) for colour in colours)


def test_companions_are_the_tokens_seen_with_a_last_token_winners_first(model):
    assert companions(model.limit("q"), "q") == ["b", "a", "z", "q", "c"]
    assert companions(model.limit("q"), "nobody") == []
    assert first_context(model.limit("nobody"), "nobody") == (["nobody"], None)


@pytest.mark.parametrize(
    ("words", "radius", "drawn"),
    [(["a", "b", "c", "q"], math.inf, 0), (["a", "b", "r"], 2.5, 0), (["two words", 7, "-v"], 1.0, 0),
     (["a", "b", "b", "r", "b", "b"], math.inf, 2)],
)  # fmt: skip
def test_the_commands_run_as_they_stand_and_give_the_numbers(
    folder, model, call, capsys, words, radius, drawn
):
    cli, python = commands(folder, model.vocabulary, words, radius, drawn, seed=5)
    automaton = Automaton(open_model(folder))
    said = [call(*_as_json(shlex.split(line)[1:])) for line in cli.split("\n")]
    assert [code for code, _, _ in said] == [0] * len(said)
    records = [json.loads(out) for _, out, _ in said]
    fates = {f["token"]: f["probability"] for f in records[0]["fates"]}
    assert fates == automaton.predict_proba(words)
    if radius < math.inf:
        assert {x["token"]: x["p"] for x in records[1]["probabilities"]} == automaton.predict_proba(
            words, radius
        )
    if drawn:
        assert len(records[-1]["continuation"]) == drawn
        assert records[-1]["continuation"] == continued(model, words[:-drawn], 5, drawn)
    exec(python, {})
    printed = capsys.readouterr().out
    assert repr(automaton.explain(words)) in printed
    if drawn:
        assert repr(records[-1]["continuation"]) in printed


def _as_json(words):
    """Options end at --, so --json goes before it."""
    at = words.index("--") if "--" in words else len(words)
    return [*words[:at], "--json", *words[at:]]


def test_a_number_that_is_a_word_too_has_no_command(folder):
    cli, python = commands(folder, Vocabulary(["3", 3]), [3], math.inf, 0, 0)
    assert cli == ""
    assert "[3]" in python


@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_a_narrow_window(tab, dark):
    tab.see(
        "/automaton?" + urlencode({"context": "a b c z w7 q", "why": "c", "radius": 2}),
        width=400,
        dark=dark,
    )
    tab.wait("document.querySelectorAll('canvas').length === 2")
    assert tab.value("document.documentElement.scrollWidth") <= 400
    unnamed = tab.value(
        "[...document.querySelectorAll('main button, main input')].filter(e => !e.innerText.trim() &&"
        " !e.getAttribute('aria-label') && !e.labels?.length).length"
    )
    assert unnamed == 0
    assert not tab.errors
