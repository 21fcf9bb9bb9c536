"""What an error shows of the verdicts: one line for what was refused for the same reasons."""

from __future__ import annotations

import dataclasses

from support.hosts import ALL_V4, CPU, NEEDS_CUDA, PORTABLE, RECORDS, record

from aotbuild.format.record import Record
from aotbuild.platforms.base import Host
from aotbuild.runtime.select import refusal_trace, select


class TestTrace:
    """What an error shows of the verdicts."""

    def trace(self, where: Host, *records: Record) -> list[str]:
        return refusal_trace(select(records, where), where)

    def test_a_single_record_is_its_verdict(self) -> None:
        (verdict,) = select([RECORDS["v4"]], CPU)
        assert self.trace(CPU, RECORDS["v4"]) == [str(verdict)]
        (verdict,) = select([RECORDS["h200"]], CPU)
        assert self.trace(CPU, RECORDS["h200"]) == [str(verdict)]

    def test_other_platforms_share_a_line(self) -> None:
        h100 = record("cuda:h100-sxm:1", **NEEDS_CUDA)
        old = record("cuda:h200:1", jaxlib="1.2.2", **NEEDS_CUDA)
        names = ("v4", "h200", "v5e:2x2", "8 h200", "portable")
        found = self.trace(CPU, h100, old, *(RECORDS[name] for name in names))
        assert found == [
            (
                f"f cpu:x86-64-v4:1: REFUSED: isa: x86-64-v4 needs {ALL_V4}, "
                "which this CPU (x86_64) lacks"
            ),
            f"f portable:cpu,cuda:1: REFUSED: {PORTABLE}",
            (
                "cuda: 4 executables for h100-sxm, h200, h200:8: REFUSED: "
                "platform: expected cuda, found cpu"
            ),
            "f tpu:v5e:2x2:4: REFUSED: platform: expected tpu, found cpu",
        ]

    def test_the_jaxlibs_that_are_shipped_are_said_once(self) -> None:
        records = [
            record(f"cpu:{level}:1", jaxlib=jaxlib)
            for jaxlib in ("0.12.0.1", "0.10.2", "0.9.1")
            for level in ("x86-64-v3", "x86-64-v4")
        ]
        third = dataclasses.replace(CPU, jaxlib="0.11.0")
        assert self.trace(third, *records) == [
            (
                "every executable for cpu: REFUSED: jaxlib: expected 0.9.1 or 0.10.2 or 0.12.0.1, "
                "found 0.11.0"
            ),
            (
                f"cpu: 3 executables for x86-64-v4: REFUSED: isa: x86-64-v4 needs {ALL_V4}, which "
                "this CPU (x86_64) lacks"
            ),
        ]

    def test_a_jaxlib_that_is_shipped_is_no_reason_for_the_others(self) -> None:
        records = [
            record("cpu:x86-64-v4:1"),
            record("cpu:x86-64-v3:1", jaxlib="9"),
            record("cpu:x86-64-v2+avx:1", jaxlib="9"),
        ]
        assert self.trace(CPU, *records) == [
            (
                f"f cpu:x86-64-v4:1: REFUSED: isa: x86-64-v4 needs {ALL_V4}, which this CPU "
                "(x86_64) lacks"
            ),
            (
                "cpu: 2 executables for x86-64-v3, x86-64-v2+avx: REFUSED: jaxlib: expected 9, "
                "found 1.2.3"
            ),
        ]

    def test_of_another_platform_no_jaxlib_is_told(self) -> None:
        records = [record("cuda:h200:1", jaxlib=jaxlib, **NEEDS_CUDA) for jaxlib in ("1", "2")]
        assert self.trace(CPU, *records) == [
            "cuda: 2 executables for h200: REFUSED: platform: expected cuda, found cpu"
        ]
