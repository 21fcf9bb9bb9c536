"""The index: its exact bytes, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.records import HEADER, make_function, make_record, small

from aotbuild.errors import AotbuildError, InvalidIndex, UnsupportedFormat
from aotbuild.format.canonical import sha256_hex
from aotbuild.format.index import Index, write_index


def read_all(data: bytes) -> None:
    index = Index.open(data, "index")
    list(index.functions())
    index.records("f")


class TestWriting:
    def test_exact_bytes(self) -> None:
        data = write_index({"package": "p"}, [make_function()], [])
        body = (
            b'{"call":"p.m:f","donate":["x"],"dynamic":["x"],"keywords":["scale"],"name":"f",'
            b'"positional":["x","k"],"statics":[["causal",true],["k"]]}'
        )
        key = sha256_hex(b"f")[:16] + "0" * 32
        row = f"{key} {0:012x} {len(body):08x} {sha256_hex(body)}\n".encode()
        head = b'{"objects":%d,"package":"p","rows":1}\n' % (len(body) + 1)
        digest = sha256_hex(head + row).encode()
        assert data == b"aotbuild-index 1\n" + digest + b"\n" + head + row + body + b"\n"

    def test_order_does_not_matter(self) -> None:
        records = [make_record(batch=batch) for batch in range(1, 6)]
        functions = [make_function("f"), make_function("g")]
        forward = write_index(HEADER, functions, records)
        assert forward == write_index(HEADER, functions[::-1], records[::-1])


class TestReading:
    def test_what_was_written(self) -> None:
        index = Index.open(small(), "index")
        assert index.header["fallback"] == "none"
        assert list(index.functions()) == [make_function()]
        assert index.function("f") == make_function()
        assert index.function("g") is None
        by_key = index.records("f", make_record(batch=8).signature.key())
        assert by_key == [make_record(batch=8)]
        assert len(index.records("f")) == 2
        assert index.records("g") == []


class TestRefusing:
    @pytest.mark.parametrize("cut", [0, 5, 17, 60, 90, 200, 400, -1])
    def test_truncated(self, cut: int) -> None:
        with pytest.raises(InvalidIndex):
            Index.open(small()[:cut], "index")

    def test_trailing_bytes(self) -> None:
        with pytest.raises(InvalidIndex, match=r"bytes\n  found"):
            Index.open(small() + b"x", "index")

    def test_edited_header(self) -> None:
        data = small().replace(b'"fallback":"none"', b'"fallback":"jit!"')
        with pytest.raises(InvalidIndex, match="SHA-256"):
            Index.open(data, "index")

    def test_edited_object(self) -> None:
        data = small().replace(b'"isa":"x86-64-v3"', b'"isa":"x86-64-v2"')
        index = Index.open(data, "index")
        with pytest.raises(InvalidIndex, match="object"):
            index.records("f")

    def test_newer_format(self) -> None:
        data = small().replace(b"aotbuild-index 1", b"aotbuild-index 2", 1)
        with pytest.raises(UnsupportedFormat, match=r"found    format 2\nUpgrade aotbuild"):
            Index.open(data, "index")

    def test_not_an_index(self) -> None:
        with pytest.raises(InvalidIndex, match="first line"):
            Index.open(b"version https://git-lfs.github.com/spec/v1\n", "index")

    @settings(max_examples=300)
    @given(st.data())
    def test_any_damage_ends_in_a_documented_error(self, data: st.DataObject) -> None:
        raw = bytearray(small())
        place = data.draw(st.integers(0, len(raw) - 1))
        raw[place] ^= 1 << data.draw(st.integers(0, 7))
        with pytest.raises(AotbuildError):
            read_all(bytes(raw))

    @given(st.binary(max_size=300))
    def test_any_bytes_end_in_a_documented_error(self, raw: bytes) -> None:
        with pytest.raises(AotbuildError):
            Index.open(b"aotbuild-index 1\n" + raw, "index")
