"""The other systems of the benchmark: their pins, and how strace, perf and ELF files are read."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from benchmarks.libraries import costs_in
from benchmarks.places import HERE
from benchmarks.processes import parse_counts
from benchmarks.registry import System, read_systems
from benchmarks.samples import group_of, parse_samples

PEERS = [system for system in read_systems() if system.peer]


class TestPeers:
    def test_there_are_the_four_of_the_documentation(self) -> None:
        environments = {system.environment for system in PEERS}
        assert environments == {"onnxruntime", "iree", "openvino", "torch"}

    @pytest.mark.parametrize("system", PEERS, ids=lambda system: system.name)
    def test_every_requirement_is_pinned(self, system: System) -> None:
        for name in {system.environment, system.build_environment} - {""}:
            lines = (HERE / "environments" / f"{name}.txt").read_text().splitlines()
            wanted = [line for line in lines if line and not line.startswith(("#", "--"))]
            assert wanted
            assert all("==" in line for line in wanted)

    @pytest.mark.parametrize("system", PEERS, ids=lambda system: system.name)
    def test_runs_the_models_that_are_not_of_jax_alone(self, system: System) -> None:
        assert system.models == ("transformer", "digits")


def elf(tags: dict[int, int]) -> bytes:
    """Return the least 64-bit ELF file with a dynamic section."""
    dynamic = b"".join(struct.pack("<QQ", *tag) for tag in tags.items())
    header = b"\x7fELF" + bytes(28) + struct.pack("<Q", 64) + bytes(14) + struct.pack("<HH", 56, 1)
    program = struct.pack("<IIQQQQQQ", 2, 0, 120, 0, 0, len(dynamic), 0, 0)
    return header.ljust(64, b"\0") + program + dynamic


class TestLibraries:
    def test_reads_relocations_and_constructors(self, tmp_path: Path) -> None:
        library = tmp_path / "lib.so"
        library.write_bytes(elf({8: 24 * 7, 27: 8 * 3, 0: 0}))
        assert costs_in(library) == {"relocations": 7, "constructors": 3}


STRACE = """\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 78.04    0.049195           7      7035           mprotect
  6.10    0.002145           1      1145        35 newfstatat
------ ----------- ----------- --------- --------- ----------------
100.00    2.414677         216     11157       353 total
"""


def test_counts_of_strace() -> None:
    assert parse_counts(STRACE) == {"mprotect": 7035, "newfstatat": 1145, "total": 11157}


class TestSamples:
    def test_lines_of_perf(self) -> None:
        printed = "  12.500000:     7f00 slinky::simplify(x) (/a/site-packages/jaxlib/l.so)\n"
        ((when, code),) = parse_samples(printed)
        assert when == 12.5
        assert group_of(code) == "YNN, planning"

    @pytest.mark.parametrize(
        ("code", "group"),
        [
            ("7f exc_page_fault ([kernel.kallsyms])", "kernel"),
            ("7f _int_malloc (/lib/libc.so.6)", "malloc"),
            ("7f xla::HloInstruction::id (/x/site-packages/jaxlib/libjax_common.so)", "HLO"),
            ("7f MlasGemm (/x/site-packages/onnxruntime/capi/o.so)", "the system's library"),
            ("7f _PyEval_EvalFrameDefault (/usr/lib/libpython3.11.so.1.0)", "Python and numpy"),
            ("7f [unknown] ([unknown])", "other"),
        ],
    )
    def test_groups(self, code: str, group: str) -> None:
        assert group_of(code) == group
