"""Bring each example together with its completions, without holding either file in memory.

Rows in the dataset's order are matched as they stream by (``in_order``). At the first row that is
out of order ``OutOfOrderError`` is raised, and the caller starts again with ``by_index``, which
keeps 13 bytes a completion (part of a hash, and where the row stands in the file) and reads rows
from the disk as their examples come. Hashes only narrow a search: ids themselves are compared.
"""

import os
from array import array
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, pairwise

import msgspec

from course.core.bad_rows import BLANK, row_problem
from course.core.errors import DataError
from course.core.jsonl import BOM, CHUNK, JsonlReader, open_file
from course.core.paths import display
from course.core.records import Completion, Problem

Pair = tuple[Problem, list[Completion]]
SMALL = 50_000  # rows: up to here a set of hashes is cheaper than importing numpy
END = Completion(id="", completion="")  # after the last row; no id is empty
LOOKUP = 4096  # examples looked up at a time in an index


class OutOfOrderError(Exception):
    """The completions do not follow the dataset's order; pair them by index."""


def in_order(examples: "Examples", completions: JsonlReader[Completion]) -> Iterator[Pair]:
    """Pair examples with completions that come in the same order.

    Yields: each example with its completions, sorted by sample index; none when it has none.

    Raises: OutOfOrderError; DataError for a second completion with the same id and sample index.
    """
    rows = iter(completions)
    row = next(rows, END)
    for example in examples:
        example_id, group = example.id, []
        while row.id == example_id:
            group.append(row)
            row = next(rows, END)
        if not group and row is not END:
            raise OutOfOrderError
        yield example, _sorted_samples(group, completions) if len(group) > 1 else group
    if row is not END:
        raise OutOfOrderError


def by_index(examples: "Examples", completions: JsonlReader[Completion]) -> Iterator[Pair]:
    """Pair examples with completions that come in any order.

    Yields: as ``in_order``.

    Raises: DataError for duplicates, and for completions whose id no example has.
    """
    index = _Index(completions)
    try:
        batch: list[Problem] = []
        for example in examples:
            batch.append(example)
            if len(batch) == LOOKUP:
                yield from index.look_up(batch)
                batch = []
        yield from index.look_up(batch)
        index.check_all_used(examples)
    finally:
        index.close()


class Examples:
    """A dataset as a stream of examples that sees to it that no id comes twice."""

    def __init__(self, reader: JsonlReader[Problem]) -> None:
        self.reader = reader

    def __iter__(self) -> Iterator[Problem]:
        return chain.from_iterable(self._batches())

    def _batches(self) -> Iterator[list[Problem]]:
        seen = array("q")
        for batch in self.reader.batches():
            seen.extend([hash(example.id) for example in batch])
            yield batch
        repeated = _repeated(seen)
        if repeated:
            self._refuse(repeated)

    def _refuse(self, repeated: set[int]) -> None:
        """Two equal hashes are a suspicion; two equal ids are an error."""
        ids: set[str] = set()
        for row in JsonlReader(self.reader.path, Problem):
            if hash(row.id) in repeated:
                if row.id in ids:
                    _refuse_twice(
                        self.reader, row.id, "Every id of a dataset stands for one example."
                    )
                ids.add(row.id)


class _Index:
    """Where the completions of each id stand in their file."""

    def __init__(self, reader: JsonlReader[Completion]) -> None:
        import numpy as np

        self._reader = reader
        self._decoder = msgspec.json.Decoder(Completion)
        hashes = array("I")
        starts = array("I" if reader.size < 2**32 else "Q")
        position = 0
        id_decoder = msgspec.json.Decoder(_IdOnly)
        for number, line in _lines(reader):
            if line.strip(BLANK):
                try:
                    row_id = id_decoder.decode(line).id
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    problem = row_problem(self._decoder, Completion, line) or "no valid row"
                    raise DataError(f"{display(reader.path)}:{number}: {problem}") from None
                hashes.append(hash(row_id) & 0xFFFFFFFF)
                starts.append(position)
            position += len(line) + 1
        starts.append(position)
        reader.count(len(hashes))
        if not len(hashes):
            raise DataError(f"{display(reader.path)} is empty.")
        self._starts = np.frombuffer(starts, dtype=f"u{starts.itemsize}")
        keys = np.frombuffer(hashes, dtype=np.uint32).astype(np.uint64)
        del hashes
        keys <<= np.uint64(32)
        keys |= np.arange(len(keys), dtype=np.uint32)
        keys.sort()
        self._keys = keys
        self._used = np.zeros(len(keys), dtype=bool)
        self._offset = len(BOM) if any("byte-order mark" in note for note in reader.notes) else 0
        self._file = os.open(reader.path, os.O_RDONLY)

    def close(self) -> None:
        """Close the file that rows are read from."""
        os.close(self._file)

    def look_up(self, batch: list[Problem]) -> Iterator[Pair]:
        """Yield each example of a batch with its completions."""
        import numpy as np

        hashes = np.array([hash(e.id) & 0xFFFFFFFF for e in batch], dtype=np.uint64)
        low = np.searchsorted(self._keys, hashes << np.uint64(32), side="left").tolist()
        high = np.searchsorted(
            self._keys, (hashes << np.uint64(32)) | np.uint64(0xFFFFFFFF), side="right"
        ).tolist()
        for example, first, last in zip(batch, low, high, strict=True):
            group = []
            for key in self._keys[first:last].tolist():
                row_number = key & 0xFFFFFFFF
                row = self._read(row_number)
                if row.id == example.id:
                    group.append(row)
                    self._used[row_number] = True
            yield example, _sorted_samples(group, self._reader) if len(group) > 1 else group

    def check_all_used(self, examples: Examples) -> None:
        """Refuse completions whose id no example has."""
        left = (~self._used).nonzero()[0]
        if not len(left):
            return
        found = [(self._line(int(number)), self._read(int(number)).id) for number in left[:5]]
        lines = ", ".join(f"line {number} ({row_id!r})" for number, row_id in found)
        more = f" and {len(left) - len(found)} more" if len(left) > len(found) else ""
        all_of_them = len(left) == len(self._used)
        guess = " These completions are for another dataset." if all_of_them else ""
        raise DataError(
            f"{display(self._reader.path)}:{found[0][0]}: {len(left)} of {len(self._used)} "
            f"completions have an id that {display(examples.reader.path)} does not have: "
            f"{lines}{more}.{guess}"
        )

    def _read(self, row_number: int) -> Completion:
        start, end = int(self._starts[row_number]), int(self._starts[row_number + 1])
        line = os.pread(self._file, end - start, self._offset + start)
        try:
            return self._decoder.decode(line.partition(b"\n")[0])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            problem = row_problem(self._decoder, Completion, line) or "no valid row"
            where = f"{display(self._reader.path)}:{self._line(row_number)}"
            raise DataError(f"{where}: {problem}") from None

    def _line(self, row_number: int) -> int:
        """The line of a row, counted in the file: for error messages."""
        newlines, left = 0, self._offset + int(self._starts[row_number])
        with open_file(self._reader.path) as file:
            while piece := file.read(min(left, CHUNK)):
                newlines += piece.count(b"\n")
                left -= len(piece)
        return newlines + 1


class _IdOnly(msgspec.Struct):
    """As much of a completion as an index needs."""

    id: str


class _Key(_IdOnly):
    """What must not come twice in completions."""

    sample_index: int | None = None


def _lines(reader: "JsonlReader[Completion] | JsonlReader[Problem]") -> Iterator[tuple[int, bytes]]:
    number = 0
    for block in reader.blocks():
        lines = block.split(b"\n")
        if not lines[-1]:
            del lines[-1]
        for line in lines:
            number += 1
            yield number, line


def _sorted_samples(group: list[Completion], reader: JsonlReader[Completion]) -> list[Completion]:
    group.sort(key=lambda row: row.sample_index or 0)
    for one, other in pairwise(group):
        if (one.sample_index or 0) == (other.sample_index or 0):
            _refuse_twice(
                reader,
                one.id,
                f"Both have sample_index {one.sample_index or 0}; several completions of one "
                "example need different ones.",
                sample_index=one.sample_index or 0,
            )
    return group


def _refuse_twice(
    reader: "JsonlReader[Completion] | JsonlReader[Problem]",
    row_id: str,
    why: str,
    *,
    sample_index: int | None = None,
) -> None:
    """Raise for rows that are the same example or sample, naming the first two lines."""
    decoder = msgspec.json.Decoder(_IdOnly if sample_index is None else _Key)
    lines: list[int] = []
    for number, line in _lines(JsonlReader(reader.path, Completion)):
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # not this one
            row = decoder.decode(line)
            same = sample_index is None or (getattr(row, "sample_index", None) or 0) == sample_index
            if row.id == row_id and same:
                lines.append(number)
        if len(lines) == 2:
            break
    raise DataError(
        f"{display(reader.path)}:{lines[1]}: the id {row_id!r} stands more than once, in lines "
        f"{lines[0]} and {lines[1]}. {why}"
    )


def _repeated(hashes: "array[int]") -> set[int]:
    """The hashes that occur more than once; the array may be sorted in place."""
    if len(hashes) <= SMALL:
        if len(set(hashes)) == len(hashes):
            return set()
        seen: set[int] = set()
        return {value for value in hashes if value in seen or seen.add(value)}  # type: ignore[func-returns-value]
    import numpy as np

    values = np.frombuffer(hashes, dtype=np.int64)
    values.sort()
    return set(values[1:][values[1:] == values[:-1]].tolist())
