"""Count scored rows as they pass, and turn the counts into a summary.

Evaluation tallies the rows it writes; a re-check tallies the rows it reads. Both must agree.
"""

from collections import Counter
from itertools import groupby
from operator import attrgetter

from course.core.records import EvalMetrics, EvalRow, EvalSummary, RunFacts
from course.evaluation.intervals import (
    ClusterSums,
    detectable_unpaired,
    effective_draws,
    pass_rate_interval,
)

FIRST_MISSING = 10
FIRST_ERRORS = 3


class Tally:
    """Counts and sums over the rows as they pass.

    Args:
        full_reward: what a completion must earn to pass.
    """

    def __init__(self, full_reward: float) -> None:
        self.full = full_reward
        self.codes: Counter[str] = Counter()
        self.n_examples = self.n_completions = self.n_truncated = 0
        self.n_missing = self.n_unscored = self.n_pass = self.n_scored = 0
        self.kl_sum = 0.0
        self.n_kl = 0
        self.clusters = 0
        self.rate_sum = self.square_sum = self.mean_sum = 0.0
        self.first_missing: list[str] = []
        self.first_errors: list[str] = []

    def add(self, rows: list[EvalRow], examples: int) -> None:
        """Count the rows of so many whole examples."""
        self.n_examples += examples
        self.codes.update([row.outcome_code for row in rows])
        self.n_truncated += [row.finish_reason for row in rows].count("length")
        estimates = [row.kl_est for row in rows if row.kl_est is not None]
        self.kl_sum += sum(estimates)
        self.n_kl += len(estimates)
        rewards = [row.reward for row in rows]
        if len(rows) == examples and None not in rewards:  # one scored completion for each
            passed = sum(reward >= self.full for reward in rewards)  # type: ignore[operator]
            self.n_completions += examples
            self._count(examples, examples, passed, float(passed), float(passed), sum(rewards))  # type: ignore[arg-type]
            return
        for _, group in groupby(rows, key=attrgetter("id")):
            self._example(list(group))

    def _example(self, rows: list[EvalRow]) -> None:
        if rows[0].completion is None:
            self.n_missing += 1
            self.n_unscored += 1
            if len(self.first_missing) < FIRST_MISSING:
                self.first_missing.append(rows[0].id)
            return
        scored = [row.reward for row in rows if row.reward is not None]
        self.n_completions += len(rows)
        self.n_unscored += len(rows) - len(scored)
        for row in rows:
            if row.error and row.error not in self.first_errors[:FIRST_ERRORS]:
                self.first_errors.append(row.error)
                del self.first_errors[FIRST_ERRORS:]
        if scored:
            passed = sum(reward >= self.full for reward in scored)
            rate = passed / len(scored)
            self._count(1, len(scored), passed, rate, rate * rate, sum(scored) / len(scored))

    def _count(
        self, examples: int, scored: int, passed: int, rates: float, squares: float, means: float
    ) -> None:
        self.clusters += examples
        self.n_scored += scored
        self.n_pass += passed
        self.rate_sum += rates
        self.square_sum += squares
        self.mean_sum += means

    def summary(self, name: str, scorer: str) -> EvalSummary:
        """Turn the counts into a summary.

        Args:
            name: what the run is called.
            scorer: its name and version, as in ``final_answer v1``.
        """
        sums = ClusterSums(self.clusters, self.n_scored, self.rate_sum, self.square_sum)
        interval = pass_rate_interval(sums)
        draws = effective_draws(sums) if interval else 0.0
        return EvalSummary(
            schema_version=1,
            run=RunFacts(
                kind="eval",
                name=name,
                scorer=scorer,
                n_examples=self.n_examples,
                n_completions=self.n_completions,
                n_scored=self.n_scored,
                n_missing=self.n_missing,
                n_unscored=self.n_unscored,
                n_truncated=self.n_truncated,
                first_missing=self.first_missing,
                first_errors=self.first_errors,
            ),
            metrics=EvalMetrics(
                pass_rate=interval.rate if interval else None,
                pass_rate_low=interval.low if interval else None,
                pass_rate_high=interval.high if interval else None,
                mean_reward=self.mean_sum / self.clusters if self.clusters else None,
                n_pass=self.n_pass,
                n_fail=self.n_scored - self.n_pass,
                mean_kl_est=self.kl_sum / self.n_kl if self.n_kl else None,
                detectable_difference=detectable_unpaired(
                    interval.rate if interval else None, draws
                ),
            ),
            outcomes=dict(sorted(self.codes.items(), key=lambda item: (-item[1], item[0]))),
        )
