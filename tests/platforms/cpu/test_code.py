"""Code for CPU levels: what XLA is told, what machine code is found to use, and what is built."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest
from iced_x86 import Decoder, Register
from jaxlib.version import __version__ as jaxlib_version
from support.forks import forked
from support.processes import fresh
from support.projects import build, write_project

from aotbuild.build.pack import Package
from aotbuild.errors import TraceRefused
from aotbuild.platforms.cpu import host as cpuinfo
from aotbuild.platforms.cpu.checks import LEVELS, level_of
from aotbuild.platforms.cpu.compile import retarget
from aotbuild.platforms.cpu.describe import cross_compiles
from aotbuild.platforms.cpu.instructions import code_sections, features_beyond

V2, V3, V4 = (level_of(name) for name in ("x86-64-v2+avx", "x86-64-v3", "x86-64-v4"))
X86 = [level for level in LEVELS.values() if level.architecture == "x86_64"]
CROSS = cross_compiles(jaxlib_version)
HOST = cpuinfo.features()
IS_X86 = cpuinfo.architecture() == "x86_64"


def message(*fields: tuple[int, int | bytes]) -> bytes:
    """Return a protobuf message of short fields."""
    parts = (
        bytes([number << 3, value])
        if isinstance(value, int)
        else bytes([number << 3 | 2, len(value)]) + value
        for number, value in fields
    )
    return b"".join(parts)


def topology(*devices: bytes, triple: bytes = b"x86_64-linux") -> bytes:
    """Return a description as jaxlib gives it, with a field 7 that nobody knows."""
    machine = message((1, triple), (2, b"znver4"), (3, b"+gfni"))
    described = message(*((1, device) for device in devices), (5, machine), (7, 3))
    return message((1, 5), (2, b"cpu"), (9, message((1, b"type"), (2, described))))


class TestTopology:
    def test_it_becomes_another_cpu(self) -> None:
        machine = message((1, b"x86_64-linux"), (2, b"x86-64-v2"), (3, b"+avx"))
        described = message((1, b""), (1, message((3, 1))), (7, 3), (5, machine))
        expected = message((1, 5), (2, b"cpu"), (9, message((1, b"type"), (2, described))))
        assert retarget(topology(b"", b"", b""), V2, 2) == expected

    @pytest.mark.parametrize(
        "odd",
        [
            b"\xff",
            message((9, 5)),
            message((9, message((2, b"")))),
            topology(b"")[:-4],
            b"\x0d1234",
        ],
        ids=["cut off", "a number", "no machine", "short", "another wire type"],
    )
    def test_another_description_is_refused_in_words(self, odd: bytes) -> None:
        with pytest.raises(TraceRefused, match="in a way that aotbuild does not know"):
            retarget(odd, V3, 1)


def elf(code: bytes) -> bytes:
    """Return an ELF64 object with one executable section, and something before and after it."""
    header = bytearray(64)
    header[:7] = b"\x7fELF\x02\x01\x01"
    struct.pack_into("<Q", header, 0x28, 64 + len(code))
    struct.pack_into("<HHHHHH", header, 0x34, 64, 0, 0, 64, 1, 0)
    section = struct.pack("<IIQQQQ", 0, 1, 4, 0, 64, len(code)) + bytes(24)
    return b"before" + bytes(header) + code + section + b"after"


SHIFT = bytes.fromhex("c4e3f9cec000")  # vgf2p8affineqb xmm0, xmm0, xmm0, 0
ADD_ZMM = bytes.fromhex("62f17c4858c0")  # vaddps zmm0, zmm0, zmm0
TZCNT = bytes.fromhex("f30fbcc0")
ENDBR = bytes.fromhex("f30f1efa")
RDRAND = bytes.fromhex("0fc7f0")
ENCLU = bytes.fromhex("0f01d7")
INVALID = bytes.fromhex("06")  # no instruction in 64-bit mode


class TestInstructions:
    def test_the_code_is_found(self) -> None:
        assert list(code_sections(elf(ENDBR) + elf(TZCNT))) == [ENDBR, TZCNT]

    @pytest.mark.parametrize("rest", [b"", bytes(100), b"\xff" * 100], ids=["end", "0", "1"])
    def test_an_array_that_begins_like_an_object_hides_none(self, rest: bytes) -> None:
        array = b"\x7fELF\x02\x01\x01" + rest
        assert list(code_sections(array + elf(TZCNT) + array)) == [TZCNT]

    def test_what_is_beyond_the_level(self) -> None:
        data = elf(ENDBR + SHIFT) + elf(ADD_ZMM + RDRAND)
        assert features_beyond(V4, data, exact=True) == ("gfni", "rdrand")
        assert features_beyond(V3, data, exact=False) == ("avx512f", "gfni", "rdrand")

    def test_tzcnt_is_bsf_where_the_level_has_no_bmi(self) -> None:
        assert features_beyond(V2, elf(TZCNT), exact=True) == ()
        assert features_beyond(V2, elf(TZCNT), exact=False) == ("bmi1",)
        assert features_beyond(V3, elf(TZCNT), exact=False) == ()

    def test_a_feature_that_no_host_tells_of(self) -> None:
        with pytest.raises(TraceRefused, match=r"the code for x86-64-v3 uses enclu \(SGX1\)"):
            features_beyond(V3, elf(ENCLU), exact=False)

    def test_no_instruction(self) -> None:
        with pytest.raises(TraceRefused, match=r"at byte 4 of its code .* use a newer iced-x86"):
            features_beyond(V3, elf(TZCNT + INVALID), exact=False)

    def test_code_that_is_not_found(self) -> None:
        with pytest.raises(TraceRefused, match="no machine code that aotbuild can find"):
            features_beyond(V3, b"fusion kLoop", exact=True)
        assert features_beyond(V3, b"a matrix product and nothing else", exact=True) == ()


# What XLA makes of these on a machine that has them: GFNI, VPOPCNTDQ, BITALG, VBMI.
SOURCE = """
import jax, jax.numpy as jnp
def hazard(x, y, k):
    odd = k | 256
    return (x << 3, jax.lax.population_count(x), jnp.flip(x), jax.lax.population_count(k),
            jnp.tanh(y) @ y, jnp.sort(y, axis=0), jax.lax.clz(k),
            jax.lax.population_count((odd & -odd) - 1))
def spread(y):
    return jnp.tanh(y) @ y.T
"""
CALL = """
import json, jax, numpy as np, aotbuild
from proj.f import hazard, spread
rng = np.random.default_rng(0)
y = rng.normal(size=(64, 64)).astype(np.float32)
call = rng.integers(0, 256, (64, 64)).astype(np.uint8), y, np.arange(64, dtype=np.uint32)
lib = aotbuild.load("proj")
for found, expected in zip(lib.hazard(*call), jax.jit(hazard)(*call)):
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
np.testing.assert_allclose(lib.spread(y), jax.jit(spread)(y), rtol=1e-5, atol=1e-5)
print(json.dumps([str(v) for v in lib.explain("hazard", *call).verdicts]))
"""
BUILT = [level for level in X86[1:3] if level.features <= HOST or CROSS]
if CROSS:
    BUILT.append(X86[-1])


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    names = ", ".join(level.name for level in BUILT)
    text = (
        "version: 1\npackage: proj\n"
        f"targets: [cpu: {{isa: [{names}]}}]\n"
        "functions:\n"
        "  hazard: {call: 'proj.f:hazard', "
        "args: [x: 'u8[64,64]', y: 'f32[64,64]', k: 'u32[64]']}\n"
        "  spread: {call: 'proj.f:spread', args: [y: 'f32[64,64]'], "
        "mesh: {rows: 2}, in_shardings: {y: [rows]}}\n"
    )
    return build(write_project(tmp_path_factory.mktemp("levels") / "p", text, f=SOURCE))


def registers(data: bytes) -> Iterator[str]:
    """Yield the name of every register that instructions name, repeatedly."""
    names = {getattr(Register, name): name for name in dir(Register) if name.isupper()}
    for section in code_sections(data):
        for instruction in Decoder(64, section):
            operands = map(instruction.op_register, range(instruction.op_count))
            yield from (names[register] for register in (*operands, instruction.op_mask))


def is_of_avx512(register: str) -> bool:
    vector = register.startswith(("XMM", "YMM")) and int(register[3:]) > 15
    return vector or register.startswith(("ZMM", "K"))


@pytest.mark.skipif(not IS_X86 or not V3.features <= HOST, reason="needs an x86-64-v3 CPU")
@pytest.mark.process
class TestBuilt:
    @pytest.mark.process
    def test_no_register_is_wider_than_the_level(self, package: Package) -> None:
        for record in package.records:
            used = set(registers((package.folder / record.blob.path).read_bytes()))
            assert any(name.startswith("YMM") for name in used), record
            if record.requires.isa == "x86-64-v3":
                assert not any(map(is_of_avx512, used)), record

    def test_no_instruction_is_beyond_what_the_record_says(self, package: Package) -> None:
        assert {record.requires.isa for record in package.records} == {x.name for x in BUILT}
        for record in package.records:
            data = (package.folder / record.blob.path).read_bytes()
            level = level_of(str(record.requires.isa))
            assert features_beyond(level, data, exact=CROSS) == record.requires.features
            if CROSS:
                assert record.requires.features == (), record

    @pytest.mark.skipif(CROSS or "gfni" not in HOST, reason="below a cap, on a CPU with GFNI")
    def test_a_cap_leaves_features_which_are_recorded_and_told(self, package: Package) -> None:
        (record,) = [r for r in package.records if str(r.target) == "cpu:x86-64-v3:1"]
        assert record.requires.features == ("gfni",)
        assert any(
            note.startswith("hazard(): cpu:x86-64-v3:1 uses gfni beyond its level")
            for note in package.notes
        )

    @pytest.mark.process
    def test_the_best_level_runs_and_gives_the_numbers_of_jit(self, package: Package) -> None:
        verdicts = forked(CALL, path=package.folder.parent.parent, devices=2)
        best = max((x for x in BUILT if x.features <= HOST), key=lambda x: len(x.features))
        assert verdicts[0].split(" ", 1)[1].startswith(f"cpu:{best.name}:1: O")

    @pytest.mark.process
    def test_a_masked_cpu_takes_a_lower_level(self, package: Package) -> None:
        if cpuinfo.read_cpuid() is None or len(BUILT) < 2 or not BUILT[1].features <= HOST:
            pytest.skip("needs a CPU with AVX-512, and glibc 2.33 to hide it")
        hidden = ",".join(f"-AVX512{part}" for part in ("F", "BW", "CD", "DQ", "VL"))
        verdicts = fresh(
            CALL,
            path=package.folder.parent.parent,
            devices=2,
            GLIBC_TUNABLES=f"glibc.cpu.hwcaps={hidden}",
        )
        assert "cpu:x86-64-v3:1: O" in verdicts[0]
        assert "REFUSED: isa: x86-64-v4 needs avx512bw" in " ".join(verdicts[1:])
