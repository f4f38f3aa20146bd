"""The border to foreign code: what breaks the contract is unscored, with a reason, never a zero."""

import json
import textwrap
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from course.core.errors import PluginError
from course.scoring import BUILTIN_SCORERS
from course.scoring.contract import (
    SCORER_ERROR,
    UNCODED,
    UNSCORED_CODES,
    Score,
    Scorer,
    checked,
    load_scorer,
)

EXAMPLE = {"id": "a", "prompt": "p", "expected_answer": 8, "metadata": {"k": [1]}}
Load = Callable[..., Scorer]


@pytest.fixture
def load(tmp_path) -> Load:
    """Load a scorer from the body of its ``score`` function."""

    def load(body: str, head: str = "") -> Scorer:
        path = tmp_path / "mine.py"
        function = "def score(example, completion):\n" + textwrap.indent(
            textwrap.dedent(body), "  "
        )
        path.write_text(f"{textwrap.dedent(head)}\n{function}\n")
        return load_scorer(f"{path}:score")

    return load


@pytest.fixture
def ask(load) -> Callable[..., Score]:
    """Score one completion with the body of a ``score`` function."""

    def ask(body: str, head: str = "", *, twice: bool = False) -> Score:
        return checked(load(body, head), ask_twice=twice)(dict(EXAMPLE), "Final: 8")

    return ask


def returning(value: str) -> str:
    return f'return {{"reward": 1.0, "details": {value}}}'


def unscored(score: Score) -> str:
    assert (score.reward, score.code, score.details) == (None, SCORER_ERROR, None)
    assert score.error is not None
    msgspec.json.encode(score)  # whatever went wrong, the row can be written
    return score.error


def test_a_good_score_passes_through(ask):
    """Reward, code, details, no error."""
    score = ask('return {"reward": 0.5, "details": {"code": "half", "n": [1, None, True]}}')
    assert score == Score(0.5, "half", {"code": "half", "n": [1, None, True]}, None)


@pytest.mark.parametrize("name", sorted(BUILTIN_SCORERS))
@pytest.mark.parametrize("twice", [False, True])
def test_a_built_in_scorer_passes_through(name, twice):
    """And an invalid example is unscored, not wrong."""
    score = checked(load_scorer(name), ask_twice=twice)
    good = score(EXAMPLE, "Final: 8")
    assert (good.reward, good.code, good.error) == (1.0, "ok", None)
    error = unscored(score({"expected_answer": 8.5}, "Final: 8"))
    assert error.startswith("ValueError: expected_answer is '8.5', which is neither an integer")


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("x = 1\nreturn 1 / 0", "ZeroDivisionError: division by zero (mine.py:4)"),
        ("import sys; sys.exit(0)", "SystemExit: 0 (mine.py:3)"),
        ("raise GeneratorExit", "GeneratorExit:  (mine.py:3)"),
        ("raise BaseException('odd')", "BaseException: odd (mine.py:3)"),
        ("import json\njson.loads('{')", "JSONDecodeError: Expecting property name"),
        ("return score(example, completion)", "RecursionError: maximum recursion depth exceeded"),
        ("raise MemoryError", "MemoryError:  (mine.py:3)"),
        ("assert False", "AssertionError:  (mine.py:3)"),
    ],
)
def test_an_exception_is_unscored_with_its_line(ask, body, error):
    """The last line of the student's own file, not one deep in a library."""
    got = unscored(ask(body))
    assert got.startswith(error) and "(mine.py:" in got


def test_an_exception_whose_text_fails_is_recorded(ask):
    """Even that."""
    head = "class Odd(Exception):\n    def __str__(self): raise RuntimeError"
    assert unscored(ask("raise Odd", head)).startswith("Odd: (its message cannot be shown)")


def test_ctrl_c_is_not_swallowed(ask):
    """It is the person's, not the scorer's."""
    with pytest.raises(KeyboardInterrupt):
        ask("raise KeyboardInterrupt")


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("None", "the scorer returned NoneType, not a dict with reward and details"),
        ("1.0", "the scorer returned float, not a dict"),
        ("(1.0, {})", "the scorer returned tuple, not a dict"),
        ("{}", "the scorer's result has no 'reward' and no 'details'"),
        ('{"reward": 1.0}', "the scorer's result has no 'details'"),
        ('{"details": {}}', "the scorer's result has no 'reward'"),
        ('{"reward": 1, "details": {}}', "reward is int 1, not a float such as 1.0"),
        ('{"reward": True, "details": {}}', "reward is bool True, not a float"),
        ('{"reward": "1.0", "details": {}}', "reward is str '1.0', not a float"),
        ('{"reward": None, "details": {}}', "reward is NoneType None, not a float"),
        ('{"reward": float("nan"), "details": {}}', "reward nan is outside the declared range"),
        ('{"reward": float("inf"), "details": {}}', "reward inf is outside the declared range"),
        ('{"reward": -0.1, "details": {}}', "reward -0.1 is outside the declared range 0.0 to 1.0"),
        ('{"reward": 1.5, "details": {}}', "reward 1.5 is outside the declared range 0.0 to 1.0"),
        ('{"reward": 1.0, "details": None}', "details is NoneType, not a dict"),
        ('{"reward": 1.0, "details": []}', "details is list, not a dict"),
    ],
)
def test_a_wrong_result_is_unscored_and_says_why(ask, value, error):
    """Nothing is guessed: not 1 for 1.0, not {} for None."""
    assert unscored(ask(f"return {value}")).startswith(error)


@pytest.mark.parametrize(
    ("details", "error"),
    [
        ('{"x": {1, 2}}', "details['x'] is set, which is not JSON"),
        ('{"x": object()}', "details['x'] is object, which is not JSON"),
        ('{"x": b"8"}', "details['x'] is bytes, which is not JSON"),
        ('{"x": [0, {"y": 1j}]}', "details['x'][1]['y'] is complex, which is not JSON"),
        ('{"x": float("nan")}', "details['x'] is nan, which JSON does not have"),
        ('{"x": [float("-inf")]}', "details['x'][0] is -inf, which JSON does not have"),
        ('{"x": 2**63}', "details['x'] is beyond 64 bits: use a str"),
        ('{"x": {1: 2}}', "details['x'] has a key that is not a str: 1"),
        ('{"x": "\\ud800"}', "details['x'] holds half of a surrogate pair"),
        ('{"\\ud800": 1}', "a key of details holds half of a surrogate pair"),
        ('{"code": 7}', "details['code'] is int, not a str"),
        ('{"code": None}', "details['code'] is NoneType, not a str"),
    ],
)
def test_details_that_are_not_json_are_unscored(ask, details, error):
    """The row could not be written, and the message says where in it."""
    assert unscored(ask(returning(details))).startswith(error)


def test_deep_and_cyclic_details_end(ask):
    """A list that holds itself has no end in JSON."""
    assert "nested more than 20 deep" in unscored(
        ask("x = []; x.append(x)\n" + returning('{"x": x}'))
    )
    deep = "x = 1\nfor _ in range(100_000): x = [x]\n"
    assert "nested more than 20 deep" in unscored(ask(deep + returning('{"x": x}')))
    fine = "x = 1\nfor _ in range(15): x = [x]\n"
    assert ask(fine + returning('{"x": x}')).reward == 1.0


def test_half_a_surrogate_pair_in_the_middle_is_found(ask):
    """Whole pairs are characters and pass."""
    assert ask(returning('{"x": "😀é"}')).reward == 1.0
    assert "surrogate" in unscored(ask(returning('{"x": "é\\udfff!"}')))


@pytest.mark.parametrize("details", ["{}", '{"code": ""}', '{"note": "x"}'])
def test_a_reward_without_a_code_is_a_score_that_says_uncoded(ask, details):
    """The measurement stands; only its reason has no name."""
    score = ask(returning(details))
    assert (score.reward, score.code, score.error) == (1.0, UNCODED, None)


def test_numpy_floats_are_floats_and_other_numpy_numbers_are_not(ask):
    """float64 is a float and is kept as a plain one; float32 and int64 say what they are."""
    numpy = "import numpy as np"
    score = ask('return {"reward": np.float64(0.5), "details": {"x": np.float64(2)}}', numpy)
    assert type(score.reward) is float and type(score.details["x"]) is float
    assert msgspec.json.encode(score)
    error = unscored(ask('return {"reward": np.float32(1), "details": {}}', numpy))
    assert error.startswith("reward is float32")
    assert "is int64, which is not JSON" in unscored(ask(returning('{"x": np.int64(1)}'), numpy))


def test_subclasses_of_json_types_become_plain(ask):
    """A StrEnum for codes and a Counter for counts are good style."""
    head = """
        from collections import Counter
        from enum import IntEnum, StrEnum
        class Code(StrEnum):
            OK = "ok"
        class Level(IntEnum):
            ONE = 1
        """
    details = '{"code": Code.OK, "n": Counter("aab"), "level": Level.ONE, "pair": (1, 2)}'
    score = ask(returning(details), head)
    assert score.details == {"code": "ok", "n": {"a": 2, "b": 1}, "level": 1, "pair": [1, 2]}
    assert json.loads(msgspec.json.encode(score.details)) == score.details
    assert type(score.code) is str and type(score.details["level"]) is int


def test_minus_zero_is_zero(ask):
    """Two bytes for one reward would be two results."""
    assert str(ask('return {"reward": -0.0, "details": {}}').reward) == "0.0"


@pytest.mark.parametrize("value", ["Bad()", '{"reward": Odd(), "details": {}}'])
def test_results_that_fight_back_are_unscored(ask, value):
    """A dict or an object whose own methods raise."""
    head = """
        class Bad(dict):
            def __contains__(self, key): raise LookupError("no")
        class Odd:
            def __repr__(self): raise LookupError("no")
        """
    assert unscored(ask(f"return {value}", head)).startswith("LookupError: no")


# ---- the error text is the same on every run --------------------------------------------------


def test_an_address_is_not_part_of_an_error(ask):
    """Same inputs, same bytes: the row must not change from run to run."""
    errors = {unscored(ask("raise ValueError(f'{object()} and {score}')")) for _ in range(3)}
    (error,) = errors
    assert "<object object at 0x...>" in error and "at 0x...>" in error[40:]


def test_a_long_error_is_cut_and_keeps_its_line(ask):
    """Ten megabytes of message are no message."""
    error = unscored(ask("raise ValueError('x' * 10_000_000)"))
    assert len(error) < 550 and error.endswith("(mine.py:3)")


def test_a_hostile_error_text_can_be_written(ask):
    """Half a surrogate pair and NUL in a message."""
    error = unscored(ask("raise ValueError('\\ud800 \\x00')"))
    assert error == "ValueError: ? \x00 (mine.py:3)"


# ---- what one call leaves behind --------------------------------------------------------------


def test_one_details_dict_used_again_and_again_is_copied(load):
    """Rows are written later, in batches; the scorer may change its own dict by then."""
    score = checked(load("D['n'] += 1; D['list'].append(1)\nreturn {'reward': 1.0, 'details': D}",
                         "D = {'n': 0, 'list': []}"))  # fmt: skip
    first, second = score(EXAMPLE, ""), score(EXAMPLE, "")
    assert first.details == {"n": 1, "list": [1]}
    assert second.details == {"n": 2, "list": [1, 1]}


def test_asking_twice_catches_a_scorer_that_changes_its_mind(ask):
    """A coin, a counter, and a details dict that is quietly changed."""
    head = "N = [0]\nD = {'n': 0}"
    coin = "N[0] += 1\nreturn {'reward': float(N[0] % 2), 'details': {'code': str(N[0])}}"
    assert ask(coin, head).reward == 1.0
    assert unscored(ask(coin, head, twice=True)) == (
        "nondeterministic: asked twice, it said 1 (1.0) and then 2 (0.0)"
    )
    same_dict = "D['n'] += 1\nreturn {'reward': 1.0, 'details': D}"
    assert "nondeterministic" in unscored(ask(same_dict, head, twice=True))


def test_asking_twice_catches_an_error_that_comes_and_goes(ask):
    """The second call fails."""
    body = "N.append(1)\nassert len(N) < 2, 'again'\nreturn {'reward': 1.0, 'details': {}}"
    error = unscored(ask(body, "N = []", twice=True))
    assert error.startswith("nondeterministic: asked twice, it said uncoded (1.0) and then Assert")


def test_asking_twice_does_not_blame_a_scorer_that_edits_its_example(ask):
    """Both calls see the example as it was."""
    body = """
        example["metadata"]["k"].append(1)
        return {"reward": 1.0, "details": {"n": len(example["metadata"]["k"])}}
        """
    score = ask(body, twice=True)
    assert score.error is None and score.details == {"n": 2}


@pytest.mark.parametrize("twice", [False, True])
def test_what_one_call_changes_does_not_reach_the_next(load, twice):
    """Samples of one example share its metadata: the second must not see the first's mark."""
    body = """
        n = len(example["metadata"]["k"])
        example["metadata"]["k"].append(n)
        example["metadata"]["seen"] = example["prompt"] = "yes"
        return {"reward": 1.0, "details": {"n": n, "prompt": example["prompt"]}}
        """
    example = {**EXAMPLE, "metadata": {"k": [1]}}
    score = checked(load(body), ask_twice=twice)
    first, second = score(example, "Final: 7"), score(example, "Final: 8")
    assert first == second and first.details == {"n": 1, "prompt": "yes"}
    assert example == {**EXAMPLE, "metadata": {"k": [1]}}


@pytest.mark.parametrize("metadata", [{}, None])
def test_an_example_without_metadata_is_passed_on_as_it_is(load, metadata):
    """No metadata is made up, and the scorer's own keys stay in its copy."""
    body = 'example["x"] = 1\nreturn {"reward": 1.0, "details": {"n": len(example)}}'
    example = {**EXAMPLE, "metadata": metadata}
    score = checked(load(body))
    assert score(example, "").details == {"n": 5}
    assert example == {**EXAMPLE, "metadata": metadata}
    assert score({}, "").details == {"n": 1}


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=4)
    | st.binary(max_size=2)
    | st.complex_numbers(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(), max_size=3) | st.integers(), inner, max_size=3)
        | st.tuples(inner, inner)
    ),
    max_leaves=8,
)


@given(st.one_of(values, st.fixed_dictionaries({"reward": values, "details": values})))
def test_whatever_a_scorer_returns_can_be_written(value):
    """A score with a reward in range, or unscored with a reason; both are rows of JSON."""
    score = checked(_returns(value))(dict(EXAMPLE), "")
    msgspec.json.encode(score)
    assert (score.reward is None) == (score.error is not None)
    assert score.reward is None or 0.0 <= score.reward <= 1.0


def _returns(value: object) -> Scorer:
    plain = load_scorer("final_answer")
    plugin = plain.plugin._replace(function=lambda example, completion: value, builtin=False)
    return plain._replace(plugin=plugin)


# ---- what a scorer declares -------------------------------------------------------------------


def test_a_declared_range_is_the_range(load):
    """-1 to 2: the limits are inside, and a completion passes at the top."""
    head = "REWARD_RANGE = (-1, 2)\nR = [-1.0, 2.0, 2.1]"
    scorer = load('return {"reward": R.pop(0), "details": {}}', head)
    assert (scorer.low, scorer.high) == (-1.0, 2.0)
    score = checked(scorer)
    assert [score(EXAMPLE, "").reward for _ in range(3)] == [-1.0, 2.0, None]


NONSENSE = ["None", "1.0", "()", "(0.0,)", "(0.0, 1.0, 2.0)", "(1.0, 0.0)", "(1.0, 1.0)", "'01'"]
NONSENSE += [
    "(0.0, float('inf'))",
    "(float('nan'), 1.0)",
    "('0', '1')",
    "(0.0, None)",
    "{0.0, 1.0}",
]
NONSENSE += ["(0, 10**400)", "(False, True)", "{0: 1, 1: 2}"]


@pytest.mark.parametrize("limits", NONSENSE)
def test_a_range_that_makes_no_sense_is_refused(load, limits):
    """Before the first row, in words."""
    with pytest.raises(PluginError, match=r"REWARD_RANGE is .*; expected two finite numbers"):
        load("return {}", f"REWARD_RANGE = {limits}")


def test_a_scorer_declares_its_version_and_codes(load):
    """A student's scorer goes by its file, so that no file can pose as a built-in."""
    scorer = load("return {}", "NAME = 'final_answer'\nVERSION = 3\nCODES = {'ok': 'Right.'}")
    assert (scorer.name, scorer.version) == ("mine.py:score", "3")
    assert scorer.codes == {"ok": "Right."}
    plain = load("return {}", "CODES = ['ok']")
    assert (plain.version, plain.codes, plain.low, plain.high) == ("unversioned", {}, 0.0, 1.0)


@pytest.mark.parametrize("name", sorted(BUILTIN_SCORERS))
def test_the_full_spelling_of_a_built_in_is_the_built_in(name):
    """Two runs of one scorer can be compared, whichever way it was typed."""
    short, long = load_scorer(name), load_scorer(BUILTIN_SCORERS[name])
    assert long == short._replace(plugin=short.plugin._replace(plug=BUILTIN_SCORERS[name]))


@pytest.mark.parametrize("name", sorted(BUILTIN_SCORERS))
def test_a_built_in_scorer_declares_everything(name):
    """Name, version 1, rewards 0 to 1, closed codes with ok among them."""
    scorer = load_scorer(name)
    assert (scorer.name, scorer.version, scorer.low, scorer.high) == (name, "1", 0.0, 1.0)
    assert "ok" in scorer.codes and not set(scorer.codes) & set(UNSCORED_CODES)


@pytest.mark.parametrize("code", ["scorer_error", "missing_completion"])
def test_a_code_that_means_unscored_cannot_be_given_with_a_reward(ask, code):
    """Else a scored row would be counted among those that could not be measured."""
    assert "a name kept for rows that are unscored" in unscored(
        ask(returning(f'{{"code": "{code}"}}'))
    )
