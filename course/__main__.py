"""``python -m course``: which commands there are."""

from course.core import console

COMMANDS = {
    "sample": "ask a policy for completions, or look at one token by token",
    "eval": "score the completions of a dataset and write a sealed run folder",
    "inspect_run": "look at a run: outcomes by count, examples of each",
    "compare": "the Locked Room's checklist, the paired numbers, PROMOTE or REJECT",
    "pretrain": "build the base policy anew, or measure a policy for its card",
    "validate": "check data files, golden sets and run folders",
}


def main() -> int:
    """Print the commands."""
    console.answer("The commands of the course; each explains itself with --help:\n")
    for name, purpose in COMMANDS.items():
        console.answer(f"  python -m course.{name:<12} {purpose}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
