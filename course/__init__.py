"""Locked Room: a course on reinforcement learning for language models.

One contract, ``score(example, completion) -> {"reward", "details"}``, and three loops over it:
evaluation, selection and learning. Importing this package imports nothing heavy.
"""

__version__ = "0.1.0"
