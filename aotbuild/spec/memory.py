"""The device memory that a call needs, from the sizes that XLA states. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aotbuild.frozen import dataclass

# The key in a record's analysis for the memory that programs may use on the target's device.
DEVICE_BYTES = "device_bytes"
_LARGEST = 1e30


@dataclass(frozen=True)
class MemoryUse:
    """Bytes on one device, all of them estimates of XLA.

    `shared` is the part of the outputs that reuses donated arguments, `code` the program if it is
    in the device's memory (on TPUs), `peak` the most in use at once, 0 if XLA does not say.
    """

    arguments: float
    outputs: float
    temporaries: float
    shared: float = 0
    code: float = 0
    peak: float = 0

    @property
    def needed(self) -> float:
        """The least that a call needs.

        XLA's peak omits temporaries on CPUs and the gaps between them; the sum of its sizes omits
        arrays that are embedded in the executable. This is the larger of the two.
        """
        return self._stated + self.embedded + self.code

    @property
    def embedded(self) -> float:
        """The peak beyond the stated buffers: arrays that are part of the executable."""
        return max(0, self.peak - self._stated)

    @property
    def _stated(self) -> float:
        return max(0, self.arguments + self.outputs + self.temporaries - self.shared)


def memory_use(analysis: Mapping[str, Any]) -> MemoryUse | None:
    """Return the memory use in a record's analysis, which is untrusted; None if XLA stated none."""
    names = ("argument_bytes", "output_bytes", "temp_bytes")
    arguments, outputs, temporaries = (_size(analysis.get(name)) for name in names)
    if arguments is None or outputs is None or temporaries is None:
        return None
    names = ("alias_bytes", "generated_code_bytes", "peak_bytes")
    shared, code, peak = (_size(analysis.get(name)) or 0 for name in names)
    return MemoryUse(arguments, outputs, temporaries, shared, code, peak)


def device_memory(analysis: Mapping[str, Any]) -> float | None:
    """Return the bytes that programs may use on the device of an analysis, if known."""
    return _size(analysis.get(DEVICE_BYTES))


def gib_text(size: float) -> str:
    """Return a size in binary units, as in device data sheets: `15.75 GiB` or `3 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            break
        size /= 1024
    return f"{size:,.2f}".rstrip("0").rstrip(".") + f" {unit}"


def _size(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if 0 <= value < _LARGEST else None
