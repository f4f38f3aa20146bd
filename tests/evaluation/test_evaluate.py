"""Claims about Loop A: what is counted, what is left out, and what is written."""

import json

import pytest

from course.core.errors import DataError
from course.core.records import SamplingSettings
from course.evaluation.origin import read_sampling

EXAMPLES = [
    {"id": i, "prompt": f"{i}?", "expected_answer": n} for n, i in enumerate("abcd", start=1)
]
ON_POLICY = SamplingSettings(temperature=1.0, top_p=1.0)


def answer(row_id: str, text: str, **more: object) -> dict[str, object]:
    return {"id": row_id, "completion": text, **more}


FAIR = [answer("a", "Final: 1"), answer("b", "Final: 9"), answer("c", "no"), answer("d", "")]

FUSSY = """
VERSION = "3"
CODES = {"fine": "It is fine."}
def score(example, completion):
    if completion == "raise":
        raise ValueError("I will not")
    if completion == "nan":
        return {"reward": float("nan"), "details": {}}
    if completion == "nothing":
        return None
    return {"reward": float(completion), "details": {"code": "fine"}}
"""


@pytest.fixture
def fussy(tmp_path):
    """A scorer that reads the reward from the completion, and fails in three ways."""
    path = tmp_path / "fussy.py"
    path.write_text(FUSSY)
    return f"{path}:score"


def test_one_row_for_each_completion_in_the_datasets_order(evaluated):
    """Ids, texts, rewards and codes, as they stand in results.jsonl."""
    _, rows = evaluated(EXAMPLES, FAIR[::-1])
    assert [(r["id"], r["completion"], r["reward"], r["outcome_code"]) for r in rows] == [
        ("a", "Final: 1", 1.0, "ok"),
        ("b", "Final: 9", 0.0, "wrong_answer"),
        ("c", "no", 0.0, "missing_final"),
        ("d", "", 0.0, "empty"),
    ]
    assert rows[1]["prompt"] == "b?" and rows[1]["expected_answer"] == 2
    assert rows[1]["details"]["parsed"] == "9"


def test_the_fields_of_a_row_are_those_of_the_design(evaluated):
    """In this order, nulls included, so that a reader may rely on every key."""
    _, rows = evaluated(EXAMPLES, FAIR)
    fields = (
        "id sample_index prompt expected_answer completion reward outcome_code details error "
        "sum_logprob sum_ref_logprob kl_est num_tokens finish_reason"
    )
    assert " ".join(rows[0]) == fields


def test_a_summary_counts(evaluated):
    """One of four passes: Wilson gives [0.046, 0.699]."""
    found, _ = evaluated(EXAMPLES, FAIR)
    run, metrics = found.summary.run, found.summary.metrics
    assert (run.kind, run.name) == ("eval", "completions on dataset")
    assert run.scorer == "final_answer v1"
    assert (run.n_examples, run.n_completions, run.n_scored) == (4, 4, 4)
    assert (run.n_missing, run.n_unscored, run.n_truncated, run.first_missing) == (0, 0, 0, [])
    assert (metrics.pass_rate, metrics.mean_reward) == (0.25, 0.25)
    assert (metrics.n_pass, metrics.n_fail, metrics.mean_kl_est) == (1, 3, None)
    assert metrics.pass_rate_low == pytest.approx(0.0456, abs=1e-4)
    assert metrics.pass_rate_high == pytest.approx(0.6994, abs=1e-4)


def test_outcomes_are_commonest_first_then_by_name(evaluated):
    """A fixed order, so the same results give the same bytes."""
    rows = [answer("a", "x"), answer("b", "Final: 0"), answer("c", "y"), answer("d", "")]
    found, _ = evaluated(EXAMPLES, rows)
    assert list(found.summary.outcomes.items()) == [
        ("missing_final", 2),
        ("empty", 1),
        ("wrong_answer", 1),
    ]


def test_a_missing_completion_is_unscored_and_listed(evaluated):
    """Two of four are missing: the rate is over the two that were measured."""
    found, rows = evaluated(EXAMPLES, [FAIR[0], FAIR[2]])
    run, metrics = found.summary.run, found.summary.metrics
    assert (run.n_examples, run.n_completions, run.n_scored) == (4, 2, 2)
    assert (run.n_missing, run.n_unscored, run.first_missing) == (2, 2, ["b", "d"])
    assert metrics.pass_rate == 0.5 and metrics.n_fail == 1
    assert rows[1]["completion"] is rows[1]["reward"] is rows[1]["details"] is None
    assert rows[1]["outcome_code"] == "missing_completion" and rows[1]["error"]


def test_only_the_first_ten_missing_are_listed(evaluated):
    """One screen; all of them stand in the results."""
    many = [{"id": f"e{k:02}", "prompt": "", "expected_answer": k} for k in range(30)]
    found, _ = evaluated(many, [answer("e00", "Final: 0")])
    assert found.summary.run.n_missing == 29
    assert found.summary.run.first_missing == [f"e{k:02}" for k in range(1, 11)]


def test_a_rate_over_nothing_is_null(evaluated, fussy):
    """Every measurement failed: there is no rate, and no zero."""
    found, _ = evaluated(EXAMPLES[:2], [answer("a", "raise"), answer("b", "nan")], scorer=fussy)
    metrics = found.summary.metrics
    assert metrics.pass_rate is metrics.pass_rate_low is metrics.pass_rate_high is None
    assert metrics.mean_reward is None and metrics.detectable_difference.value is None
    assert (metrics.n_pass, metrics.n_fail, found.summary.run.n_unscored) == (0, 0, 2)


def test_a_failing_scorer_leaves_unscored_rows_with_the_reason(evaluated, fussy):
    """Three ways to break the contract, and the run goes on to the fourth row."""
    texts = ["raise", "nan", "nothing", "1.0"]
    rows = [answer(i, text) for i, text in zip("abcd", texts, strict=True)]
    found, results = evaluated(EXAMPLES, rows, scorer=fussy)
    assert [r["reward"] for r in results] == [None, None, None, 1.0]
    assert [r["outcome_code"] for r in results] == ["scorer_error"] * 3 + ["fine"]
    assert results[0]["error"] == "ValueError: I will not (fussy.py:6)"
    assert "outside the declared range" in results[1]["error"]
    assert "returned NoneType" in results[2]["error"]
    run = found.summary.run
    assert (run.n_unscored, run.n_missing, run.n_scored) == (3, 0, 1)
    assert (found.summary.metrics.pass_rate, run.scorer) == (1.0, "fussy.py:score v3")


def test_partial_rewards_count_in_the_mean_and_do_not_pass(evaluated, fussy):
    """Rewards 0, 0.5, 0.75, 1: mean 0.5625, and one of four passes."""
    texts = ["0", "0.5", "0.75", "1"]
    rows = [answer(i, text) for i, text in zip("abcd", texts, strict=True)]
    found, _ = evaluated(EXAMPLES, rows, scorer=fussy)
    metrics = found.summary.metrics
    assert (metrics.mean_reward, metrics.pass_rate, metrics.n_pass) == (0.5625, 0.25, 1)


def test_several_samples_are_averaged_by_example_first(evaluated):
    """a passes 1 of 1, b passes 1 of 4: pass@1 is (1 + 1/4) / 2, not 2 of 5."""
    rows = [answer("a", "Final: 1")]
    rows += [answer("b", f"Final: {k}", sample_index=k) for k in range(4)]
    found, results = evaluated(EXAMPLES[:2], rows)
    run, metrics = found.summary.run, found.summary.metrics
    assert metrics.pass_rate == metrics.mean_reward == 0.625
    assert (run.n_completions, metrics.n_pass, metrics.n_fail) == (5, 2, 3)
    assert [r["sample_index"] for r in results] == [0, 0, 1, 2, 3]


def test_samples_that_agree_widen_the_interval(evaluated):
    """40 examples, 4 equal samples each, against one sample of 160 examples."""
    examples = [{"id": f"e{k:03}", "prompt": "", "expected_answer": 1} for k in range(160)]
    text = ["Final: 1", "Final: 2"]
    one, _ = evaluated(examples, [answer(e["id"], text[k % 2]) for k, e in enumerate(examples)])
    copies = [
        answer(e["id"], text[k % 2], sample_index=s)
        for k, e in enumerate(examples[:40])
        for s in range(4)
    ]
    four, _ = evaluated(examples[:40], copies)
    width = [
        f.summary.metrics.pass_rate_high - f.summary.metrics.pass_rate_low for f in (one, four)
    ]
    assert width[1] > 1.8 * width[0]


def test_a_partial_reward_of_several_samples_does_not_pass(evaluated, fussy):
    """0.5 and 1.0 for one example: pass rate 1/2, mean reward 3/4."""
    rows = [answer("a", "0.5", sample_index=0), answer("a", "1", sample_index=1)]
    metrics = evaluated(EXAMPLES[:1], rows, scorer=fussy)[0].summary.metrics
    assert (metrics.pass_rate, metrics.mean_reward, metrics.n_pass) == (0.5, 0.75, 1)


def test_rows_written_before_the_disorder_was_noticed_are_not_written_twice(evaluated):
    """The last two of 1,000 are swapped: the file begins anew, with each row once."""
    examples = [{"id": f"e{k}", "prompt": "", "expected_answer": k} for k in range(1000)]
    rows = [answer(f"e{k}", f"Final: {k}") for k in range(1000)]
    rows[-2:] = rows[:-3:-1]
    found, results = evaluated(examples, rows)
    assert [r["id"] for r in results] == [e["id"] for e in examples]
    assert found.summary.metrics.n_pass == found.summary.run.n_examples == 1000


def test_an_unscored_sample_is_left_out_of_its_example(evaluated, fussy):
    """a: one failed, one passed; b: nothing scored. The rate is a's, over what was measured."""
    rows = [answer("a", "raise", sample_index=0), answer("a", "1", sample_index=1)]
    rows += [answer("b", "nan")]
    found, _ = evaluated(EXAMPLES[:2], rows, scorer=fussy)
    run, metrics = found.summary.run, found.summary.metrics
    assert (metrics.pass_rate, metrics.mean_reward) == (1.0, 1.0)
    assert (run.n_completions, run.n_scored, run.n_unscored, run.n_missing) == (3, 1, 2, 0)


def test_a_truncated_completion_is_scored_as_it_is_and_counted(evaluated):
    """A right answer that fits before the cut is right."""
    rows = [
        answer("a", "Final: 1", finish_reason="length"),
        answer("b", "I think", finish_reason="length"),
        answer("c", "Final: 3", finish_reason="stop"),
    ]
    found, results = evaluated(EXAMPLES[:3], rows)
    assert found.summary.run.n_truncated == 2
    assert [r["reward"] for r in results] == [1.0, 0.0, 1.0]
    assert [r["finish_reason"] for r in results] == ["length", "length", "stop"]


LOGPROBS = {"sum_logprob": -2.0, "sum_ref_logprob": -3.5}


def test_kl_est_is_the_difference_of_the_logprobs(evaluated):
    """-2.0 - (-3.5) = 1.5 and -2.0 - (-1.0) = -1.0, mean 0.25; a row without both has none."""
    rows = [
        answer("a", "x", **LOGPROBS),
        answer("b", "x", sum_logprob=-2.0, sum_ref_logprob=-1.0),
        answer("c", "x", sum_logprob=-2.0),
        answer("d", "x"),
    ]
    found, results = evaluated(EXAMPLES, rows, sampling=ON_POLICY)
    assert [r["kl_est"] for r in results] == [1.5, -1.0, None, None]
    assert found.summary.metrics.mean_kl_est == 0.25


@pytest.mark.parametrize(
    "sampling",
    [
        None,
        SamplingSettings(temperature=0.7, top_p=1.0),
        SamplingSettings(temperature=1.0, top_p=0.9),
        SamplingSettings(temperature=1.0, top_p=1.0, greedy=True),
        SamplingSettings(temperature=1.0),
        SamplingSettings(top_p=1.0),
    ],
)
def test_kl_est_is_null_off_policy(evaluated, sampling):
    """Samples of another distribution do not estimate this policy's KL."""
    found, results = evaluated(EXAMPLES[:1], [answer("a", "x", **LOGPROBS)], sampling=sampling)
    assert results[0]["kl_est"] is None and found.summary.metrics.mean_kl_est is None
    assert results[0]["sum_logprob"] == -2.0


def test_max_scores_the_first_examples_only(evaluated):
    """A quick look: two rows, and the prompts' hash is still that of the whole dataset."""
    found, rows = evaluated(EXAMPLES, FAIR, limit=2)
    whole, _ = evaluated(EXAMPLES, FAIR)
    assert [r["id"] for r in rows] == ["a", "b"]
    assert (found.summary.run.n_examples, found.summary.metrics.pass_rate) == (2, 0.5)
    assert found.prompts_sha256 == whole.prompts_sha256
    assert found.dataset == whole.dataset and found.dataset.rows == 4


def test_max_beyond_the_dataset_scores_all_of_it(evaluated):
    """No padding, no error."""
    assert evaluated(EXAMPLES, FAIR, limit=99)[0].summary.run.n_examples == 4


def test_max_still_refuses_completions_of_another_dataset(evaluated):
    """A quick look does not look away."""
    with pytest.raises(DataError, match="another dataset"):
        evaluated(EXAMPLES, [answer("x", "y")], limit=1)


def test_batches_do_not_change_the_counts(evaluated, monkeypatch):
    """The tally of groups cut by the write buffer is that of the whole."""
    rows = [answer(i, f"Final: {k}", sample_index=k) for i in "abcd" for k in range(3)]
    whole, results = evaluated(EXAMPLES, rows)
    monkeypatch.setattr("course.evaluation.evaluate.BATCH", 1)
    again, same = evaluated(EXAMPLES, rows)
    assert (whole.summary, results) == (again.summary, same)


def test_the_prompts_hash_is_over_ids_and_prompts(evaluated):
    """Answers are not prompts; one character of a prompt is."""
    base = evaluated(EXAMPLES, FAIR)[0].prompts_sha256
    answers = [{**e, "expected_answer": 0} for e in EXAMPLES]
    prompts = [{**EXAMPLES[0], "prompt": "A?"}, *EXAMPLES[1:]]
    assert evaluated(answers, FAIR)[0].prompts_sha256 == base
    assert evaluated(prompts, FAIR)[0].prompts_sha256 != base


def test_a_scorer_gets_the_example_with_its_metadata(evaluated, tmp_path):
    """The contract: id, prompt, expected_answer, metadata, and the text."""
    path = tmp_path / "nosy.py"
    path.write_text(
        "def score(example, completion):\n"
        "    return {'reward': 1.0, 'details': {'code': 'seen', **example, 'text': completion}}\n"
    )
    example = {**EXAMPLES[0], "metadata": {"op": "+"}}
    _, rows = evaluated([example], [answer("a", "hi")], scorer=f"{path}:score")
    assert rows[0]["details"] == {**example, "code": "seen", "text": "hi"}


def test_a_byte_order_mark_and_crlf_are_mentioned(evaluated):
    """They are read, and the person hears of it."""
    rows = [json.dumps(r).encode() + b"\r" for r in FAIR]
    found, results = evaluated(EXAMPLES, [b"\xef\xbb\xbf" + rows[0], *rows[1:]])
    assert found.summary.metrics.n_pass == 1 and len(results) == 4
    assert [("byte-order" in n, "CRLF" in n) for n in found.notes] == [(True, False), (False, True)]


def test_a_sampling_block_is_read(tmp_path):
    """Each field is optional."""
    path = tmp_path / "sampling.json"
    path.write_text('{"temperature": 0.7, "n": 4}')
    assert read_sampling(path) == SamplingSettings(temperature=0.7, n=4)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "no keys"),
        ('{"temprature": 1}', "unknown keys temprature"),
        ('{"temperature": "hot"}', "not a sampling block"),
        ('{"n": -1}', "not a sampling block"),
        ("[1]", "not a sampling block"),
        ("{", "not a sampling block"),
    ],
)
def test_what_is_no_sampling_block_is_refused(tmp_path, text, said):
    """A typo must not pass for "unknown"."""
    path = tmp_path / "sampling.json"
    path.write_text(text)
    with pytest.raises(DataError, match=said):
        read_sampling(path)
