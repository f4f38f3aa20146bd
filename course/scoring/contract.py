"""Load a scorer and hold it to the contract: what breaks it is unscored, never a zero.

A plugged scorer is foreign code. Whatever goes wrong in it (an exception, a wrong type, a missing
key, NaN, a reward outside its declared range, details that are not JSON) becomes a ``Score`` with
no reward and the reason, and the run goes on.
"""

import copy
import math
import re
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec import Struct

from course.core.errors import PluginError
from course.core.plugins import Plugin, load_plugin, text_of
from course.core.records import INT64_MAX, INT64_MIN
from course.scoring import BUILTIN_SCORERS

SCORER_ERROR = "scorer_error"
MISSING_COMPLETION = "missing_completion"
UNCODED = "uncoded"
UNSCORED_CODES = {
    MISSING_COMPLETION: "The example has no completion, so there was nothing to score.",
    SCORER_ERROR: "The scorer failed on this completion: no measurement, so no reward.",
    UNCODED: "The scorer gave a reward but no details['code'] to say why.",
}
"""Outcome codes that are ours and not the scorer's, explained in one line."""


class Score(Struct, frozen=True, gc=False):
    """A checked score. ``reward`` is None when unscored, and then ``error`` says why."""

    reward: float | None
    code: str
    details: dict[str, Any] | None
    error: str | None


class Scorer(NamedTuple):
    """A loaded scorer and what it declares about itself."""

    plugin: Plugin
    name: str
    version: str
    low: float
    high: float
    """The declared range of rewards; a completion passes when it earns ``high``."""
    codes: dict[str, str]
    """Outcome codes with a one-line explanation each; empty if the scorer declares none."""


def load_scorer(plug: str) -> Scorer:
    """Load a built-in scorer, or one from ``file.py:name`` or ``package.module:name``.

    The full spelling of a built-in, ``course.scoring.final_answer:score``, is that built-in too.
    A module may declare ``NAME``, ``VERSION``, ``REWARD_RANGE`` (default 0.0 to 1.0) and ``CODES``.

    Raises: PluginError when there is no such scorer or its declarations make no sense; MachineError
        when it needs a library that an extra would bring.
    """
    plugin = load_plugin(
        plug, builtins=BUILTIN_SCORERS, default="score", parameters=2, what="scorer"
    )
    module = plugin.module
    low, high = _reward_range(plug, getattr(module, "REWARD_RANGE", (0.0, 1.0)))
    codes = getattr(module, "CODES", {})
    return Scorer(
        plugin,
        str(getattr(module, "NAME", plugin.name)) if plugin.builtin else plugin.name,
        _stable(str(getattr(module, "VERSION", "unversioned"))),
        low,
        high,
        {str(k): str(v) for k, v in codes.items()} if isinstance(codes, dict) else {},
    )


def checked(scorer: Scorer, *, ask_twice: bool = False) -> Callable[[dict[str, Any], str], Score]:
    """Wrap a scorer so that every call returns a Score and nothing but Ctrl-C is ever raised.

    A foreign scorer gets a copy of the example on every call: samples of one example share its
    metadata, and what one call changes must not reach the next.

    Args:
        scorer: what ``load_scorer`` returned.
        ask_twice: call it twice on each completion; two different scores are unscored.
    """
    function, low, high = scorer.plugin.function, scorer.low, scorer.high

    def ours(example: dict[str, Any], completion: str) -> Score:
        """A built-in scorer keeps the contract, which its tests prove; it only refuses examples."""
        try:
            result = function(example, completion)
        except ValueError as error:
            return _unscored(*_describe(error, scorer))
        details = result["details"]
        return Score(result["reward"], details["code"], details, None)

    def once(example: dict[str, Any], completion: str) -> Score:
        try:
            return _checked_score(function(_copy(example), completion), low, high)
        except KeyboardInterrupt:
            raise
        except _ContractError as error:
            return _unscored(str(error))
        except BaseException as error:  # noqa: BLE001  the border to foreign code: it records
            return _unscored(*_describe(error, scorer))

    def twice(example: dict[str, Any], completion: str) -> Score:
        first = once(example, completion)
        again = once(example, completion)
        if first == again:
            return first
        return _unscored(
            f"nondeterministic: asked twice, it said {_brief(first)} and then {_brief(again)}"
        )

    if ask_twice:
        return twice
    return ours if scorer.plugin.builtin else once


class _ContractError(Exception):
    """How a returned value breaks the contract, in words."""


def _reward_range(plug: str, limits: object) -> tuple[float, float]:
    try:
        if not isinstance(limits, tuple | list) or any(isinstance(x, bool | str) for x in limits):
            raise TypeError
        low, high = (float(limit) for limit in limits)
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise PluginError(
            f"{plug!r}: REWARD_RANGE is {repr(limits)[:60]}; expected two finite numbers, low "
            "before high, such as (0.0, 1.0)."
        ) from None
    return low, high


def _checked_score(result: Any, low: float, high: float) -> Score:
    """Turn what a scorer returned into a Score.

    Raises: _ContractError, and whatever foreign objects raise when they are looked at.
    """
    if not isinstance(result, dict):
        got = type(result).__name__
        raise _ContractError(f"the scorer returned {got}, not a dict with reward and details")
    if "reward" not in result or "details" not in result:
        missing = [key for key in ("reward", "details") if key not in result]
        raise _ContractError(f"the scorer's result has no {' and no '.join(map(repr, missing))}")
    reward, details = result["reward"], result["details"]
    if not isinstance(reward, float):
        got = f"{type(reward).__name__} {reward!r:.40}"
        raise _ContractError(f"reward is {got}, not a float such as 1.0")
    if not low <= reward <= high:  # false for NaN too
        raise _ContractError(f"reward {reward} is outside the declared range {low} to {high}")
    if not isinstance(details, dict):
        raise _ContractError(f"details is {type(details).__name__}, not a dict")
    details = _json_copy(details, "details", depth=0)
    code = details.get("code", UNCODED)
    if not isinstance(code, str):
        raise _ContractError(f"details['code'] is {type(code).__name__}, not a str")
    if code in (SCORER_ERROR, MISSING_COMPLETION):
        raise _ContractError(f"details['code'] is {code!r}, a name kept for rows that are unscored")
    return Score(float(reward) + 0.0, code or UNCODED, details, None)  # -0.0 + 0.0 is 0.0


def _json_copy(value: Any, where: str, *, depth: int) -> Any:
    """Copy a value as plain JSON data: the scorer may go on to change its own.

    Subclasses (numpy.float64, StrEnum, Counter) become what they are in JSON.

    Raises: _ContractError for what JSON does not have.
    """
    if depth > 20:
        raise _ContractError(f"{where.split('[')[0]} is nested more than 20 deep")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        if not value.isascii() and re.search("[\ud800-\udfff]", value):
            raise _ContractError(f"{where} holds half of a surrogate pair, which JSON cannot carry")
        return str.__str__(value)
    if isinstance(value, int):
        if not INT64_MIN <= value <= INT64_MAX:
            raise _ContractError(f"{where} is beyond 64 bits: use a str")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _ContractError(f"{where} is {value}, which JSON does not have")
        return float(value)
    if isinstance(value, dict):
        plain = {}
        for key, inner in value.items():
            if not isinstance(key, str):
                raise _ContractError(f"{where} has a key that is not a str: {key!r:.40}")
            name = _json_copy(key, f"a key of {where}", depth=depth + 1)
            plain[name] = _json_copy(inner, f"{where}[{name!r:.40}]", depth=depth + 1)
        return plain
    if isinstance(value, list | tuple):
        items = enumerate(value)
        return [_json_copy(inner, f"{where}[{i}]", depth=depth + 1) for i, inner in items]
    kind = type(value).__name__
    raise _ContractError(
        f"{where} is {kind}, which is not JSON (dict, list, str, number, bool, None)"
    )


def _describe(error: BaseException, scorer: Scorer) -> tuple[str, str]:
    """An exception's type and message, and the last line of the scorer's file it came through."""
    file = getattr(scorer.plugin.module, "__file__", None)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
    name = file.rpartition("/")[2] if file else ""
    where = f" ({name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {text_of(error)}", where


def _unscored(reason: str, where: str = "") -> Score:
    return Score(None, SCORER_ERROR, None, _stable(reason) + where)


def _stable(text: str) -> str:
    """Keep an error the same on every run: no addresses, no endless text, no lone surrogates."""
    text = re.sub(r"\b0x[0-9a-fA-F]{6,}\b", "0x...", text[:2000])
    return text[:500].encode("utf-8", "replace").decode()


def _brief(score: Score) -> str:
    return f"{score.code} ({score.reward})" if score.error is None else score.error


def _copy(example: dict[str, Any]) -> dict[str, Any]:
    """Copy what a scorer could change: the example, and its metadata to the bottom."""
    metadata = example.get("metadata")
    return {**example, "metadata": copy.deepcopy(metadata)} if metadata else {**example}
