"""The manifest: YAML in, frozen values out, and every problem at once."""

from aotbuild.manifest.dims import bind_dims
from aotbuild.manifest.load import load_manifest, parse_manifest
from aotbuild.manifest.schema import json_schema
from aotbuild.manifest.types import (
    ArgSpec,
    DictSpec,
    ExportOptions,
    FunctionEntry,
    KeepOptions,
    LeafSpec,
    LikeSpec,
    ListSpec,
    Manifest,
    NoneSpec,
    PartitionSpec,
    Sharding,
    ShardingTree,
    StaticArg,
    ToolchainRequest,
    TupleSpec,
    VerifyOptions,
)
from aotbuild.manifest.wire import (
    sharding_from_json,
    sharding_to_json,
    spec_from_json,
    spec_to_json,
)

__all__ = [
    "ArgSpec",
    "DictSpec",
    "ExportOptions",
    "FunctionEntry",
    "KeepOptions",
    "LeafSpec",
    "LikeSpec",
    "ListSpec",
    "Manifest",
    "NoneSpec",
    "PartitionSpec",
    "Sharding",
    "ShardingTree",
    "StaticArg",
    "ToolchainRequest",
    "TupleSpec",
    "VerifyOptions",
    "bind_dims",
    "json_schema",
    "load_manifest",
    "parse_manifest",
    "sharding_from_json",
    "sharding_to_json",
    "spec_from_json",
    "spec_to_json",
]
