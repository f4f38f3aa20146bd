"""Claims about randomness: each sample has its own numbers, and nothing else moves them."""

import hashlib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from course.policy.noise import uniforms

IDS = ["a", "b", "math-train-00001"]


def test_a_number_is_the_top_53_bits_of_a_named_stream():
    """Anyone can recompute it: SHAKE-256 of seed/index/id, 8 little-endian bytes a token."""
    stream = hashlib.shake_256(b"7/2/b").digest(24)
    expected = [(int.from_bytes(stream[i : i + 8], "little") >> 11) / 2**53 for i in (0, 8, 16)]
    assert uniforms(7, IDS, 4, 3)[1 * 4 + 2].tolist() == expected


def test_more_tokens_do_not_change_the_first():
    """A longer limit continues a completion; it does not write another."""
    assert np.array_equal(uniforms(1, IDS, 3, 50)[:, :5], uniforms(1, IDS, 3, 5))


def test_more_samples_do_not_change_the_first():
    """The first 4 of 16 are the 4."""
    many = uniforms(1, IDS, 16, 6).reshape(3, 16, 6)
    assert np.array_equal(many[:, :4], uniforms(1, IDS, 4, 6).reshape(3, 4, 6))


@given(st.permutations(IDS), st.integers(1, 3))
def test_the_company_does_not_matter(ids, count):
    """Any order, and each alone."""
    together = uniforms(5, ids, 2, 4)
    alone = [uniforms(5, [name], 2, 4) for name in ids[:count]]
    assert np.array_equal(together[: 2 * count], np.concatenate(alone))


def test_no_two_samples_share_numbers():
    """Ids that look like a part of another sample's name are told apart."""
    ids = ["1", "1/1", "1/1/1", "/1", "", "é", "11"]
    rows = np.concatenate([uniforms(seed, ids, 12, 1) for seed in (0, 1, 11, -1)])
    assert len(np.unique(rows)) == 4 * len(ids) * 12


def test_they_are_uniform_and_below_one():
    """10,000 numbers pass a Kolmogorov-Smirnov test (the seed is fixed, so is the outcome)."""
    numbers = uniforms(0, [str(k) for k in range(100)], 10, 10)
    assert numbers.shape == (1000, 10) and numbers.dtype == np.float64
    assert numbers.min() >= 0 and numbers.max() < 1
    assert kstest(numbers.ravel(), "uniform").pvalue > 1e-4


def test_nothing_asked_nothing_given():
    """No prompts, or no tokens."""
    assert uniforms(0, [], 4, 3).shape == (0, 3) and uniforms(0, IDS, 4, 0).shape == (12, 0)
