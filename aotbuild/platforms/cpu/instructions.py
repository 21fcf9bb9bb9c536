"""Which CPU features the machine code of an executable uses: every instruction is decoded."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from typing import Any

from aotbuild.errors import TraceRefused
from aotbuild.platforms.cpu.checks import IsaLevel

_ELF64 = b"\x7fELF\x02\x01\x01"
_PROGBITS, _NOBITS, _EXECUTABLE = 1, 8, 4
# The sizes of an object's header and of that of a section.
_HEADER, _SECTION_HEADER = 64, 64

# What every x86-64 CPU has, by iced's names.
# fmt: off
_BASELINE = frozenset((
    "INTEL8086", "INTEL186", "INTEL286", "INTEL386", "INTEL486", "X64", "FPU", "FPU287",
    "FPU387", "CMOV", "MMX", "SSE", "SSE2", "FXSR", "CX8", "CPUID", "TSC", "SYSCALL",
    "MULTIBYTENOP", "PAUSE", "CLFSH",
))
# fmt: on
# No older CPU minds them: there they are hints that do nothing.
_HINTS = frozenset(("CET_IBT", "CET_SS", "PREFETCHITI"))
# iced's name: that of /proc/cpuinfo.
_FEATURES = {
    "SSE3": "pni",
    "SSSE3": "ssse3",
    "SSE4_1": "sse4_1",
    "SSE4_2": "sse4_2",
    "SSE4A": "sse4a",
    "POPCNT": "popcnt",
    "CMPXCHG16B": "cx16",
    "LZCNT": "abm",
    "BMI1": "bmi1",
    "BMI2": "bmi2",
    "ADX": "adx",
    "TBM": "tbm",
    "MOVBE": "movbe",
    "F16C": "f16c",
    "FMA": "fma",
    "FMA4": "fma4",
    "XOP": "xop",
    "AES": "aes",
    "PCLMULQDQ": "pclmulqdq",
    "SHA": "sha_ni",
    "SHA512": "sha512",
    "GFNI": "gfni",
    "VAES": "vaes",
    "VPCLMULQDQ": "vpclmulqdq",
    "PREFETCHW": "3dnowprefetch",
    "RDRAND": "rdrand",
    "RDSEED": "rdseed",
    "RDPID": "rdpid",
    "MOVDIRI": "movdiri",
    "MOVDIR64B": "movdir64b",
    "AVX": "avx",
    "AVX2": "avx2",
    "AVX_VNNI": "avx_vnni",
    "AVX_IFMA": "avx_ifma",
    "AVX512F": "avx512f",
    "AVX512BW": "avx512bw",
    "AVX512CD": "avx512cd",
    "AVX512DQ": "avx512dq",
    "AVX512VL": "avx512vl",
    "AVX512_IFMA": "avx512ifma",
    "AVX512_VBMI": "avx512vbmi",
    "AVX512_VBMI2": "avx512_vbmi2",
    "AVX512_BITALG": "avx512_bitalg",
    "AVX512_VPOPCNTDQ": "avx512_vpopcntdq",
    "AVX512_VNNI": "avx512_vnni",
    "AVX512_BF16": "avx512_bf16",
    "AVX512_FP16": "avx512_fp16",
    "AVX512_VP2INTERSECT": "avx512_vp2intersect",
    "AMX_TILE": "amx_tile",
    "AMX_INT8": "amx_int8",
    "AMX_BF16": "amx_bf16",
    "AMX_FP16": "amx_fp16",
}


def features_beyond(level: IsaLevel, data: bytes, *, exact: bool) -> tuple[str, ...]:
    """Return the features that an executable's code uses and its level does not have, sorted.

    With `exact`, it was compiled for that level and not for this CPU below a cap. TraceRefused
    where the code cannot be judged.
    """
    sections = list(code_sections(data))
    # The HLO is in the bytes as well; its loop fusions are what becomes machine code.
    if not sections and b"kLoop" in data:
        msg = (
            f"the executable has no machine code that aotbuild can find, so nobody knows which "
            f"CPUs can run it as {level.name}; use a jax that this aotbuild was tested with"
        )
        raise TraceRefused(msg)
    # Without BMI1, LLVM writes `rep bsf` where it does what TZCNT does; the bytes are the same.
    ignored = {"TZCNT"} if exact and "bmi1" not in level.features else set()
    return tuple(sorted(_names(_used(sections, ignored), level) - level.features))


def code_sections(data: bytes) -> Iterator[bytes]:
    """Yield the code in every ELF object inside an executable (ELF64, little endian).

    An array of the user's may begin like an object; it hides no object that follows.
    """
    start = 0
    while (start := data.find(_ELF64, start)) >= 0:
        end, sections = _object(memoryview(data)[start:])
        yield from sections
        start += end or len(_ELF64)


def _object(data: memoryview) -> tuple[int, list[bytes]]:
    """Return the size of the ELF object that data begin with, and its code; 0 if it is none."""
    code = []
    try:
        (headers,) = struct.unpack_from("<Q", data, 0x28)
        own_size, _, _, size, count, _ = struct.unpack_from("<HHHHHH", data, 0x34)
        if (own_size, size) != (_HEADER, _SECTION_HEADER):
            return 0, []
        end = headers + size * count
        for number in range(count):
            header = headers + size * number
            (kind,) = struct.unpack_from("<I", data, header + 4)
            flags, _, offset, length = struct.unpack_from("<QQQQ", data, header + 8)
            if kind != _NOBITS:
                end = max(end, offset + length)
            if kind == _PROGBITS and flags & _EXECUTABLE:
                code.append(bytes(data[offset : offset + length]))
    except (struct.error, OverflowError):
        return 0, []
    return (end, code) if end <= len(data) else (0, [])


def _used(sections: Iterable[bytes], ignored: set[str]) -> dict[str, str]:
    """Return iced's names of the features that code uses, each with an instruction that does."""
    iced, features, mnemonics = _iced()
    found: dict[str, str] = {}
    for section in sections:
        for instruction in iced.Decoder(64, section):
            mnemonic = mnemonics[instruction.mnemonic]
            if instruction.is_invalid:
                msg = (
                    f"at byte {instruction.ip} of its code the executable has no instruction that "
                    "iced-x86 knows, so nobody knows which CPUs can run it; use a newer iced-x86"
                )
                raise TraceRefused(msg)
            if mnemonic not in ignored:
                found |= {features[n]: mnemonic for n in instruction.cpuid_features()}
    return found


def _names(used: dict[str, str], level: IsaLevel) -> set[str]:
    """Return names of /proc/cpuinfo for iced's; TraceRefused for one that has none."""
    needed = used.keys() - _BASELINE - _HINTS
    unknown = sorted(needed - _FEATURES.keys())
    if unknown:
        which = ", ".join(f"{used[name].lower()} ({name})" for name in unknown)
        msg = (
            f"the code for {level.name} uses {which}, of which aotbuild does not know how a host "
            "tells that it has it; report it, and leave this target out until then"
        )
        raise TraceRefused(msg)
    return {_FEATURES[name] for name in needed}


def prepare() -> None:
    """Import what reads instructions; the user's code may change what can be imported later."""
    with suppress(TraceRefused):  # said again where it is needed
        _iced()


@cache
def _iced() -> tuple[Any, dict[int, str], dict[int, str]]:
    """Return the decoder's module, and the names of its features and mnemonics by number."""
    try:
        import iced_x86
    except ImportError as err:
        msg = "iced-x86 is not installed; it reads the instructions: install aotbuild[build]"
        raise TraceRefused(msg) from err
    return iced_x86, _constants(iced_x86.CpuidFeature), _constants(iced_x86.Mnemonic)


def _constants(namespace: Any) -> dict[int, str]:
    return {getattr(namespace, name): name for name in dir(namespace) if name.isupper()}
