"""Records: everything that is known of one executable, except its bytes."""

from __future__ import annotations

from typing import Any

from aotbuild.frozen import dataclass, field
from aotbuild.spec.aval import Aval
from aotbuild.spec.signature import Signature
from aotbuild.spec.target import Target
from aotbuild.spec.tree import Tree

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

    `provider` is `xla` (compiled into jaxlib), `lapack` (jaxlib, once initialized), `jax` (its own
    FFI library) or `user` (registered by the user's package when it is imported).
    """

    target: str
    provider: str


@dataclass(frozen=True)
class Requirements:
    """What a host must have. This is data: `runtime.select` decides on nothing else.

    `features` are CPU features that the code uses beyond its `isa` level, by their /proc/cpuinfo
    names. `device_kinds` are the kinds of device, as jax names them, that it was made for, and
    `capability` is the CUDA compute capability with its suffix, as `9.0a`. `plugin` is the PJRT
    plugin that made it, as a distribution and its exact version; `cuda` and `cudnn` are the lowest
    versions that can run it. `topology` is the slice whose wiring the code relies on, as `2x4`.
    None and empty mean: no requirement.
    """

    platforms: tuple[str, ...]
    devices: int = 1
    processes: int = 1
    isa: str | None = None
    jaxlib: str | None = None
    x64: bool = False
    custom_calls: tuple[CustomCall, ...] = ()
    features: tuple[str, ...] = ()
    device_kinds: tuple[str, ...] = ()
    capability: str | None = None
    topology: str | None = None
    plugin: tuple[str, str] | None = None
    cuda: str | None = None
    cudnn: str | None = None

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
class Calling:
    """How to call the executable, with flat inputs and outputs.

    `constants` come before the leaves of the signature. `kept` indexes constants then leaves;
    `donated` indexes leaves. `mesh` is empty for one device; else the axes and their sizes, and
    every leaf and output has a PartitionSpec over it (`in_specs`, `out_specs`); constants are whole
    on every device.
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


@dataclass(frozen=True)
class Golden:
    """The inputs with which `verify` calls an executable, and the expected results.

    `inputs` holds leaves that the user's function returned, by index; the others are seeded
    (`spec.golden`). `outputs` holds samples of the reference outputs. A tolerance of None is
    decided by dtype and platform.
    """

    inputs: tuple[tuple[int, Blob], ...]
    outputs: Blob
    rtol: float | None = None
    atol: float | None = None


@dataclass(frozen=True)
class Record:
    """One executable: its function and signature, its requirements, its call, and its blob.

    `provenance["label"]` is the signature as the manifest writes it, with its dims. `stages` are
    the kept stages of the compilation, by name (`jaxpr`, `stablehlo`, `hlo`, `cost`, `memory`); the
    index's header says where the bytes are: in the package, or beside it.
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
    stages: tuple[tuple[str, Blob], ...] = ()

    def needed_blobs(self) -> tuple[Blob, ...]:
        """Return the blobs that a call reads: the executable, then its constants."""
        return (self.blob, *(constant.blob for constant in self.calling.constants))

    def blobs(self) -> tuple[Blob, ...]:
        """Return every blob of this record in the package, except kept stages."""
        golden = self.golden
        inputs = [blob for _, blob in golden.inputs] if golden else []
        outputs = [golden.outputs] if golden else []
        return (*self.needed_blobs(), *inputs, *outputs)

    def __str__(self) -> str:
        statics = self.signature.describe_statics()
        plain = f"{self.function}[{statics}]" if statics else self.function
        return f"{self.provenance.get('label', plain)} {self.target}"
