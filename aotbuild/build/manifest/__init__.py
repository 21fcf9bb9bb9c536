"""The manifest: YAML in, frozen values out, and every problem at once."""

from aotbuild.build.manifest.dims import bind_dims
from aotbuild.build.manifest.load import load_manifest, parse_manifest
from aotbuild.build.manifest.schema import json_schema
from aotbuild.build.manifest.types import (
    ArgSpec,
    CpuTarget,
    CudaTarget,
    DictSpec,
    ExportOptions,
    FunctionEntry,
    LeafSpec,
    LikeSpec,
    ListSpec,
    Manifest,
    NoneSpec,
    PartitionSpec,
    PortableTarget,
    Sharding,
    ShardingTree,
    StaticArg,
    Target,
    ToolchainRequest,
    TpuTarget,
    TupleSpec,
)
from aotbuild.build.manifest.wire import (
    sharding_from_json,
    sharding_to_json,
    spec_from_json,
    spec_to_json,
)

__all__ = [
    "ArgSpec",
    "CpuTarget",
    "CudaTarget",
    "DictSpec",
    "ExportOptions",
    "FunctionEntry",
    "LeafSpec",
    "LikeSpec",
    "ListSpec",
    "Manifest",
    "NoneSpec",
    "PartitionSpec",
    "PortableTarget",
    "Sharding",
    "ShardingTree",
    "StaticArg",
    "Target",
    "ToolchainRequest",
    "TpuTarget",
    "TupleSpec",
    "bind_dims",
    "json_schema",
    "load_manifest",
    "parse_manifest",
    "sharding_from_json",
    "sharding_to_json",
    "spec_from_json",
    "spec_to_json",
]
