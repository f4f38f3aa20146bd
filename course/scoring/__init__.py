"""The contract ``score(example, completion) -> {"reward", "details"}`` and the reference scorers.

    final_answer    the default: exactly one `Final: <integer>`, at the end
    single_line     stricter: nothing else at all
    anywhere        leaky on purpose: the right integer appears somewhere

A scorer is deterministic, total (any str, in linear time), explainable and versioned. It verifies
an answer; it never solves the problem.
"""

BUILTIN_SCORERS = {
    name: f"course.scoring.{name}:score" for name in ("final_answer", "single_line", "anywhere")
}
DEFAULT_SCORER = "final_answer"
