"""The index on disk: written canonically, opened without reading the records.

::

    aotbuild-index 1
    <SHA-256 of everything after this line up to the objects>
    {"aotbuild":…,"fallback":…,"objects":<bytes>,"package":…,"rows":<n>,…}
    <key> <offset> <length> <SHA-256>        n rows of the same width, sorted by key
    {…}                                      the objects, one JSON a line

Opening a file reads the header and the rows and keeps them: lookups use what was checked then.

A key is 16 digits for the function and 32 for the signature (zeros for the function itself), so
the rows of a function are neighbours and a lookup is a bisection. Rows carry the digest of their
object: the head vouches for the rows, the rows for the objects, and an object is parsed only when
it is requested. See docs/reference/format.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Protocol, TypeVar

from aotbuild.errors import InvalidIndex, UnsupportedFormat
from aotbuild.format.canonical import canonical_json, read_canonical, sha256_hex
from aotbuild.format.record import Record
from aotbuild.format.record_json import record_from_json, record_to_json
from aotbuild.format.signature import KEY_DIGITS, Function
from aotbuild.format.values import cut

T = TypeVar("T", Function, Record)

MAGIC = b"aotbuild-index "
FORMAT = 1
INDEX_NAME = "index"
# Bytes of an index; that of 100,000 executables has 150 MB.
MOST_INDEX = 512 << 20
# The folder in a package that holds the index and the blobs.
FOLDER_NAME = "_aot"
# The key of the header of a package that was split, which names the companions of a base.
COMPANIONS = "companions"
# The key of the header of an editable install: what `jax.jit` is told, by function.
EDITABLE = "editable"
# The key of the header of what was built in its source folder: the digest of each module.
SOURCES = "sources"
_GROUP_DIGITS = 16
_ROW = _GROUP_DIGITS + KEY_DIGITS + 1 + 12 + 1 + 8 + 1 + 64 + 1
_HEX = b"0123456789abcdef"
_FUNCTION_KEY = "0" * KEY_DIGITS
# Bytes that may be read to find the end of the header: most have less than the first number.
_HEADERS = (1 << 12, 1 << 16, 1 << 20)
# Characters of the found text in an error, at most.
_LONGEST = 200


class Bytes(Protocol):
    """The bytes of an index: in memory, or a file whose parts are read on demand."""

    def __len__(self) -> int: ...
    def __getitem__(self, part: slice, /) -> bytes | memoryview: ...


def write_index(
    header: Mapping[str, Any], functions: Iterable[Function], records: Iterable[Record]
) -> bytes:
    """Return the bytes of an index; equal contents give equal bytes in any order."""
    objects = [(_key_of(f), canonical_json(f.to_json())) for f in functions]
    objects += [(_key_of(r), canonical_json(record_to_json(r))) for r in records]
    rows, body, offset = [], [], 0
    for key, data in sorted(objects):
        rows.append(f"{key} {offset:012x} {len(data):08x} {sha256_hex(data)}\n".encode())
        body.append(data + b"\n")
        offset += len(data) + 1
    whole = {**header, "objects": offset, "rows": len(rows)}
    return _with_head(whole, b"".join(rows), b"".join(body))


def _with_head(header: Mapping[str, Any], rows: bytes, body: bytes) -> bytes:
    vouched = canonical_json(header) + b"\n" + rows
    start = MAGIC + str(FORMAT).encode() + b"\n" + sha256_hex(vouched).encode() + b"\n"
    return start + vouched + body


@dataclass(frozen=True)
class Index:
    """An opened index: header and rows are checked; no object is parsed yet.

    `place` names the file in errors; `start` is its first two lines.
    Every method may raise `InvalidIndex`.
    """

    place: str
    start: bytes
    header: dict[str, Any]
    _data: Bytes
    _table: bytes | memoryview
    _rows: int
    _objects: int

    @classmethod
    def open(cls, data: Bytes, place: str) -> Index:
        """Open the bytes of an index; raises InvalidIndex or UnsupportedFormat."""
        digest_at = _check_magic(data, place)
        head_at = digest_at + 65
        expected = _digest_line(data, digest_at, place)
        head = _head_line(data, head_at, place)
        head_end = head_at + len(head)
        try:
            header = read_canonical(head)
            rows_at, rows = head_end + 1, _count(header, "rows")
            objects_at = rows_at + rows * _ROW
            size = objects_at + _count(header, "objects")
        except ValueError as err:
            raise InvalidIndex(place, "a header in JSON", cut(str(err), _LONGEST)) from err
        if len(data) != size:
            raise InvalidIndex(place, f"{size} bytes", f"{len(data)} bytes")
        # Checked and kept: the file may change later.
        table = data[rows_at:objects_at]
        vouched = sha256(head + b"\n")
        vouched.update(table)
        if vouched.hexdigest() != expected:
            found = f"SHA-256 {vouched.hexdigest()}"
            raise InvalidIndex(place, f"SHA-256 {expected}", found)
        start = bytes(data[:digest_at]) + expected.encode() + b"\n"
        return cls(place, start, header, data, table, rows_at, objects_at)

    @property
    def digest(self) -> str:
        """The identity of the package, as `sha256:…`: the second line, which covers the rest."""
        _, line, _ = self.start.decode("ascii").split("\n")
        return f"sha256:{line}"

    def with_header(self, **entries: Any) -> bytes:
        """Return the bytes of this index with more entries in its header."""
        body = self._bytes(self._objects, len(self._data))
        return _with_head({**self.header, **entries}, bytes(self._table), body)

    @property
    def row_count(self) -> int:
        """The number of functions and records together."""
        return self._own_rows

    @property
    def _own_rows(self) -> int:
        """The number of rows in this file; `row_count` of a joined index is larger."""
        return (self._objects - self._rows) // _ROW

    @property
    def function_count(self) -> int:
        """The number of functions; parses nothing."""
        return sum(self._key(row).endswith(_FUNCTION_KEY) for row in range(self._own_rows))

    def functions(self) -> Iterator[Function]:
        """Yield every function; parses one object each."""
        previous = ""
        for row in range(self._own_rows):
            key = self._key(row)
            is_function = key.endswith(_FUNCTION_KEY)
            # A lookup bisects, so it would miss rows out of order.
            if key < previous or (is_function and key == previous):
                raise InvalidIndex(self.place, f"rows in order, after {previous}", key)
            if is_function:
                yield self._function(row)
            previous = key

    def function(self, name: str) -> Function | None:
        """Return the function of that name, or None."""
        key = _group(name) + _FUNCTION_KEY
        row = self._bisect(key)
        if row < self._own_rows and self._key(row) == key:
            return self._function(row)
        return None

    def records(self, function: str, key: str | None = None) -> list[Record]:
        """Return the records of a function, or of one of its signatures only."""
        rows = self._matching(_group(function) + (key or ""))
        return [self._record(row) for row in rows if not self._key(row).endswith(_FUNCTION_KEY)]

    def first_records(self, function: str) -> Iterator[Record]:
        """Yield one record of each signature of a function; parses one object each."""
        previous = ""
        for row in self._matching(_group(function)):
            key = self._key(row)
            if key != previous and not key.endswith(_FUNCTION_KEY):
                yield self._record(row)
            previous = key

    def _bytes(self, start: int, end: int) -> bytes:
        return bytes(self._data[start:end])

    def _function(self, row: int) -> Function:
        return self._parse(row, Function.from_json)

    def _record(self, row: int) -> Record:
        return self._parse(row, record_from_json)

    def _parse(self, row: int, read: Callable[[Any], T]) -> T:
        key, start, end, expected = self._place(row)
        line = self._bytes(start, end + 1)
        data = line[:-1]
        found = sha256_hex(data)
        if found != expected or not line.endswith(b"\n"):
            place = f"{self.place}, object {key}"
            raise InvalidIndex(place, f"SHA-256 {expected}", f"SHA-256 {found}")
        try:
            value = read(read_canonical(data))
            actual = _key_of(value)
        except (ValueError, OverflowError, RecursionError) as err:
            raise InvalidIndex(self.place, f"object {key}", cut(str(err), _LONGEST)) from err
        if actual != key:
            raise InvalidIndex(self.place, f"the object of key {key}", f"that of key {actual}")
        return value

    def _place(self, row: int) -> tuple[str, int, int, str]:
        """Return the key of a row, the start and end of its object, and the object's digest."""
        fields = bytes(self._table[row * _ROW : (row + 1) * _ROW])
        if not _are_rows(fields):
            raise InvalidIndex(self.place, f"row {row}", cut(repr(fields), _LONGEST))
        key, offset, length, expected = fields.decode("ascii").split()
        start = self._objects + int(offset, 16)
        return key, start, start + int(length, 16), expected

    def _key(self, row: int) -> str:
        start = row * _ROW
        key = bytes(self._table[start : start + _GROUP_DIGITS + KEY_DIGITS])
        return key.decode("ascii", "replace")

    def _matching(self, prefix: str) -> Iterator[int]:
        """Yield the rows whose keys have this prefix; they are neighbors."""
        wanted, size = prefix.encode(), len(prefix)
        start = self._bisect(prefix) * _ROW
        while self._table[start : start + size] == wanted:
            yield start // _ROW
            start += _ROW

    def _bisect(self, key: str) -> int:
        low, high = 0, self._own_rows
        while low < high:
            middle = (low + high) // 2
            if self._key(middle) < key:
                low = middle + 1
            else:
                high = middle
        return low


def _key_of(value: Function | Record) -> str:
    if isinstance(value, Function):
        return _group(value.name) + _FUNCTION_KEY
    return _group(value.function) + value.signature.key()


def _group(function: str) -> str:
    # A name that no index can have, such as one with a lone surrogate, is looked up like any other.
    return sha256_hex(function.encode("utf-8", "surrogatepass"))[:_GROUP_DIGITS]


def _are_rows(data: bytes) -> bool:
    """Return whether each row is four numbers of the right width and a newline."""
    count = len(data) // _ROW
    ends = [data[column::_ROW] for column in (48, 61, 70, 135)]
    separators = [b" " * count] * 3 + [b"\n" * count]
    return ends == separators and data.translate(None, _HEX) == b"   \n" * count


def _check_magic(data: Bytes, place: str) -> int:
    """Return the offset of the digest; the first line must name a supported format."""
    line, _, _ = bytes(data[:32]).partition(b"\n")
    number = line[len(MAGIC) :]
    if not line.startswith(MAGIC) or not number.isdigit():
        expected = f"a first line {MAGIC.decode()}{FORMAT}"
        raise InvalidIndex(place, expected, repr(line.decode("ascii", "replace")))
    if int(number) != FORMAT:
        raise UnsupportedFormat(place, FORMAT, int(number))
    return len(line) + 1


def _digest_line(data: Bytes, start: int, place: str) -> str:
    line = bytes(data[start : start + 65]).decode("ascii", "replace")
    if len(line) != 65 or not line.endswith("\n"):
        raise InvalidIndex(place, "a line with 64 hexadecimal digits", repr(line))
    return line[:-1]


def _count(header: Any, name: str) -> int:
    """Return a number of the header; ValueError unless a file can have it."""
    found = header.get(name) if isinstance(header, dict) else None
    if type(found) is not int or not 0 <= found < 1 << 60:
        msg = f"no whole number under {name!r}"
        raise ValueError(msg)
    return found


def _head_line(data: Bytes, start: int, place: str) -> bytes:
    """Return the header without its newline; the first read usually contains all of it."""
    for size in _HEADERS:
        line, newline, _ = bytes(data[start : start + size]).partition(b"\n")
        if newline:
            return line
    raise InvalidIndex(place, "a header line", "the end of the file")
