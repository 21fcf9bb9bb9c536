"""The manifest: YAML in, one frozen model out, and every problem at once."""

from aotbuild.manifest.function import Function, Parameters, SignatureSpec
from aotbuild.manifest.load import load_manifest, parse_manifest
from aotbuild.manifest.model import Manifest
from aotbuild.manifest.schema import json_schema
from aotbuild.manifest.shardings import PartitionSpec, Sharding, ShardingLike, ShardingTree
from aotbuild.manifest.specs import (
    ArgSpec,
    DictSpec,
    LeafSpec,
    LikeSpec,
    ListSpec,
    NoneSpec,
    TupleSpec,
    bind_values,
)

__all__ = [
    "ArgSpec",
    "DictSpec",
    "Function",
    "LeafSpec",
    "LikeSpec",
    "ListSpec",
    "Manifest",
    "NoneSpec",
    "Parameters",
    "PartitionSpec",
    "Sharding",
    "ShardingLike",
    "ShardingTree",
    "SignatureSpec",
    "TupleSpec",
    "bind_values",
    "json_schema",
    "load_manifest",
    "parse_manifest",
]
