"""One function of the manifest: its options, their defaults, and the words of the JSON schema.

An option is a field here and the code that obeys it: a worker reads `job.function`. After adding
one, write the schema again (`aotbuild schema`) and describe it in docs/reference/manifest.md.

What makes signatures is in `dims`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    model_serializer,
)

from aotbuild.format.padding import PaddedDim
from aotbuild.format.values import encode
from aotbuild.manifest import names
from aotbuild.manifest.dims import SIGNATURE_OPTIONS, Many, Name, SignatureSpec
from aotbuild.manifest.reading import form, from_yaml
from aotbuild.manifest.shardings import Sharding, likes, read_sharding
from aotbuild.manifest.specs import imported_names
from aotbuild.platforms.options import Devices, Model, listed

ShardingValue: TypeAlias = Annotated[Sharding, from_yaml(read_sharding, Sharding), form("sharding")]
Tolerance: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]
# With 1, zeros would pass.
Relative: TypeAlias = Annotated[Tolerance, Field(lt=1)]
ScalarValue: TypeAlias = Annotated[
    Any,
    AfterValidator(names.scalar),
    WithJsonSchema({"type": ["string", "number", "boolean", "null"]}),
]
OptionValue: TypeAlias = Annotated[
    Any,
    AfterValidator(names.option_value),
    WithJsonSchema({"type": ["string", "number", "boolean"]}),
]
PadValue: TypeAlias = Annotated[
    Any,
    AfterValidator(names.pad_value),
    PlainSerializer(encode),
    WithJsonSchema({"type": ["number", "boolean"]}),
]


class Export(Model):
    """What jax.export is told for the portable artifact."""

    dims: dict[Name, str] = Field(
        default={}, description="Dim of the function to a symbolic expression of jax.export"
    )
    constraints: Many[str] = Field(
        default=(), description="Constraints on the symbolic dims, such as 'b <= 64'"
    )
    disabled_checks: Many[Annotated[str, AfterValidator(names.disabled_check)]] = Field(
        default=(), description="Safety checks left out: platform, or custom_call:NAME"
    )


class Verify(Model):
    """What `aotbuild verify` calls an executable with, and how near its results must be."""

    golden: Literal["auto", "always", "never"] = Field(
        default="auto",
        description="Reference outputs, computed while building: within a minute, always, or never",
    )
    inputs: Annotated[str, AfterValidator(names.call_reference)] | None = Field(
        default=None, description="module:function that returns arguments by name; default: seeded"
    )
    rtol: Relative | None = Field(
        default=None, description="Relative tolerance; default: by dtype and platform"
    )
    atol: Tolerance | None = Field(
        default=None, description="Absolute tolerance; default: by dtype and platform"
    )


class Options(Model):
    """What a function can be told besides its call and arguments."""

    pad: dict[Name, PadValue] = Field(
        default={}, description="Dims whose calls are padded to the next size, and the value"
    )
    wrap: Literal["nnx.jit", "eqx.filter_jit"] | None = Field(
        default=None, description="What calls mean, other than jax.jit; decorators are recognized"
    )
    static_data: dict[str, Literal["ignore"]] = Field(
        default={},
        description="Static data inside arguments that calls need not have in common, by its place",
    )
    donate: Many[Name] = Field(default=(), description="Arguments whose buffers the call may reuse")
    feedback: Annotated[
        Many[Name], BeforeValidator(listed, json_schema_input_type=Name | Many[Name])
    ] = Field(
        default=(),
        description="Arguments that get the result of the call before, also where its avals differ",
    )
    keep_unused: bool = Field(default=False, description="Keep inputs that nothing reads")
    mesh: dict[Name, Devices] = Field(
        default={}, description="Axes of the device mesh and their sizes, in order"
    )
    explicit_axes: Many[Name] = Field(
        default=(), description="Axes of the mesh whose type is Explicit; the others' is Auto"
    )
    in_shardings: dict[Name, ShardingValue] = Field(
        default={}, description="Argument name to its sharding, or a tree prefix of shardings"
    )
    out_shardings: ShardingValue = Field(
        default=None, description="Sharding of the result, or a tree prefix of shardings"
    )
    compiler_options: dict[str, OptionValue] = Field(default={}, description="XLA compiler options")
    config: dict[Annotated[str, AfterValidator(names.config_name)], ScalarValue] = Field(
        default={}, description="jax configuration while tracing and compiling"
    )
    env: dict[
        Annotated[str, AfterValidator(names.env_name)],
        Annotated[str, AfterValidator(names.env_value)],
    ] = Field(default={}, description="Environment variables while tracing; values are text")
    imports: Many[Annotated[str, AfterValidator(names.package_name)]] = Field(
        default=(),
        description="Modules that are imported where it is called, such as one of custom calls",
    )
    constants: Literal["embed", "hoist"] = Field(
        default="embed", description="Arrays closed over: in each executable, or stored once"
    )
    export: Export = Field(
        default_factory=Export, description="Options of jax.export; needs a portable target"
    )
    verify: Verify = Field(
        default_factory=Verify, description="Golden outputs, which aotbuild verify compares with"
    )

    @model_serializer(mode="wrap")
    def _only_what_is_set(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write only what was set, so that `out_shardings_given` survives."""
        return {key: value for key, value in dump(self).items() if key in self.model_fields_set}


@dataclass(frozen=True)
class Parameters:
    """The names of arguments, of all signatures of a function.

    Attributes:
        args: The arrays by position, in order.
        kwargs: The arrays by name, sorted.
        statics: The static arguments, by name or position.
        optional: The arrays that some signature lacks.
    """

    args: tuple[str, ...]
    kwargs: tuple[str, ...]
    statics: tuple[str | int, ...]
    optional: tuple[str, ...]


class Function(SignatureSpec, Options):
    """One function to compile."""

    call: Annotated[str, AfterValidator(names.call_reference)] = Field(
        description="Where the function is: module:qualname"
    )
    signatures: Many[SignatureSpec] = Field(
        default=(),
        description="Whole signatures, each with args, kwargs, dims and static, instead of these",
    )

    @property
    def each_signature(self) -> tuple[SignatureSpec, ...]:
        """What is under ``signatures:``, else the one that args, kwargs, dims and static make."""
        return self.signatures or (self,)

    def with_signature(self, spec: SignatureSpec) -> Function:
        """Return the function with one of its signatures only."""
        fields = {name: getattr(spec, name) for name in SIGNATURE_OPTIONS}
        return self.model_copy(update={**fields, "signatures": ()})

    @property
    def dim_names(self) -> tuple[str, ...]:
        """The names of the dims of all signatures, in the order of the manifest."""
        rows = (each.dims for each in self.each_signature)
        every = ((dims,) if isinstance(dims, dict) else dims for dims in rows)
        return tuple(dict.fromkeys(name for dims in every for row in dims for name in row))

    @property
    def parameters(self) -> Parameters:
        """The names of the arguments of all signatures."""
        every = self.each_signature
        args = max((tuple(each.positional) for each in every), key=len)
        kwargs = tuple(sorted({name for each in every for name in each.kwargs}))
        arrays = [{*each.positional, *each.kwargs} for each in every]
        optional = (name for name in (*args, *kwargs) if any(name not in has for has in arrays))
        statics = dict.fromkeys(key for each in every for key in each.static)
        return Parameters(args, kwargs, tuple(statics), tuple(optional))

    @property
    def devices(self) -> int:
        """The number of devices that the mesh spans; 1 without a mesh."""
        return prod(self.mesh.values())

    @property
    def references(self) -> tuple[str, ...]:
        """What is imported to trace and to verify it: modules, then `module:qualname`s, once."""
        every = self.each_signature
        specs = (s for each in every for s in (*each.positional.values(), *each.kwargs.values()))
        trees = (name for spec in specs for name in imported_names(spec))
        shardings = (*self.in_shardings.values(), self.out_shardings)
        placed = (name for sharding in shardings for name in likes(sharding))
        inputs = (self.verify.inputs,) if self.verify.inputs else ()
        return tuple(dict.fromkeys((*self.imports, self.call, *trees, *placed, *inputs)))

    @property
    def out_shardings_given(self) -> bool:
        """Whether the manifest decides the shardings of the results, not XLA."""
        return "out_shardings" in self.model_fields_set

    @property
    def padded_dims(self) -> tuple[PaddedDim, ...]:
        """The dims under ``pad:``, in order."""
        return tuple(PaddedDim(name, value) for name, value in self.pad.items())
