"""Records: everything that is known of one executable, except its bytes; and its memory use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aotbuild.format.aval import Aval
from aotbuild.format.signature import Signature
from aotbuild.format.target import Target
from aotbuild.format.tree import Tree

# One PartitionSpec: for each dimension None, the name of a mesh axis, or several names.
PartitionSpec = tuple[str | tuple[str, ...] | None, ...]


@dataclass(frozen=True)
class Blob:
    """Content-addressed bytes in the package: `kind` is their format, `size` is in bytes."""

    kind: str
    sha256: str
    size: int

    @property
    def path(self) -> str:
        """The path below `_aot/`."""
        return f"blobs/{self.sha256}.{self.kind}"


@dataclass(frozen=True)
class CustomCall:
    """A native function that the executable calls by name, and who registers it.

    `provider` is `xla` (compiled into jaxlib or the plugin), `jax` (a module of jaxlib or of the
    plugin has it, and the loader registers it), `user` (registered by the user's package when it
    is imported) or `imports` (the same, and the loader imports it).
    """

    target: str
    provider: str


# Every process that fits a record has the custom calls of these.
_PROVIDED = ("imports", "jax", "xla")


@dataclass(frozen=True)
class Requirements:
    """What a host must have. This is data: `runtime.compatibility` decides on nothing else.

    `features` are CPU features that the code uses beyond its `isa` level, by their /proc/cpuinfo
    names. `device_kinds` are the kinds of device, as jax names them, that it was made for, and
    `capability` is the CUDA compute capability with its suffix, as `9.0a`. `plugin` is the PJRT
    plugin that made it, as a distribution and its exact version; `cuda` and `cudnn` are the lowest
    versions that can run it. `topology` is the slice whose wiring the code relies on, as `2x4`.
    `imports` are modules that the loader imports first.
    None and empty mean: no requirement.
    """

    platforms: tuple[str, ...]
    devices: int = 1
    processes: int = 1
    isa: str | None = None
    jaxlib: str | None = None
    x64: bool = False
    custom_calls: tuple[CustomCall, ...] = ()
    imports: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    device_kinds: tuple[str, ...] = ()
    capability: str | None = None
    topology: str | None = None
    plugin: tuple[str, str] | None = None
    cuda: str | None = None
    cudnn: str | None = None

    @property
    def unprovided(self) -> tuple[str, ...]:
        """The targets of custom calls that nothing registers but the program's own imports."""
        calls = self.custom_calls
        return tuple(call.target for call in calls if call.provider not in _PROVIDED)

    @property
    def lowest_versions(self) -> tuple[tuple[str, str], ...]:
        """The libraries that must be there, each with the lowest version."""
        found = (("cuda", self.cuda), ("cudnn", self.cudnn))
        return tuple((name, version) for name, version in found if version is not None)


@dataclass(frozen=True)
class Constant:
    """A closed-over array outside the executable: its aval and its safetensors blob."""

    aval: Aval
    blob: Blob


@dataclass(frozen=True)
class Template:
    """A tree that the manifest names under `like:`, whose static data a call is compared with.

    `like` is its `module:attr`, or that of a function that is called with `values`, which are
    encoded. `root` are the child indices that lead to its place in `(args, kwargs)`. See
    `format.references`.
    """

    like: str
    values: tuple[tuple[str, Any], ...]
    root: tuple[int, ...]


@dataclass(frozen=True)
class Calling:
    """How to call the executable, with flat inputs and outputs.

    `constants` come before the leaves of the signature. `kept` indexes constants then leaves;
    `donated` indexes leaves. `mesh` is empty for one device; else the axes and their sizes, and
    every leaf and output has a PartitionSpec over it (`in_specs`, `out_specs`); constants are whole
    on every device. `explicit_axes` are those of the mesh whose `AxisType` is Explicit, not Auto.
    `templates` are those of the references in the signature's tree.
    """

    name: str
    constants: tuple[Constant, ...]
    kept: tuple[int, ...]
    donated: tuple[int, ...]
    in_specs: tuple[PartitionSpec, ...]
    outputs: tuple[Aval, ...]
    out_specs: tuple[PartitionSpec, ...]
    out_tree: Tree
    mesh: tuple[tuple[str, int], ...] = ()
    explicit_axes: tuple[str, ...] = ()
    templates: tuple[Template, ...] = ()


@dataclass(frozen=True)
class Golden:
    """The inputs with which `verify` calls an executable, and the expected results.

    `inputs` holds leaves that the user's function returned, by index; the others are seeded
    (`format.golden`). `outputs` holds samples of the reference outputs. A tolerance of None is
    decided by dtype and platform.
    """

    inputs: tuple[tuple[int, Blob], ...]
    outputs: Blob
    rtol: float | None = None
    atol: float | None = None


@dataclass(frozen=True)
class Record:
    """One executable: its function and signature, its requirements, its call, and its blob.

    `provenance["label"]` is the signature as the manifest writes it, with its dims.
    """

    function: str
    signature: Signature
    target: Target
    blob: Blob
    requires: Requirements
    calling: Calling
    analysis: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)
    golden: Golden | None = None

    def needed_blobs(self) -> tuple[Blob, ...]:
        """Return the blobs that a call reads: the executable, then its constants."""
        return (self.blob, *(constant.blob for constant in self.calling.constants))

    def blobs(self) -> tuple[Blob, ...]:
        """Return every blob of this record."""
        golden = self.golden
        inputs = [blob for _, blob in golden.inputs] if golden else []
        outputs = [golden.outputs] if golden else []
        return (*self.needed_blobs(), *inputs, *outputs)

    def __str__(self) -> str:
        return f"{self.label} {self.target}"

    @property
    def label(self) -> str:
        """The signature as the manifest writes it, as `predict(batch=8)`."""
        statics = self.signature.describe_statics()
        plain = f"{self.function}[{statics}]" if statics else self.function
        return str(self.provenance.get("label") or plain)


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


def _size(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if 0 <= value < _LARGEST else None
