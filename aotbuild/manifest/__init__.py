"""The manifest: YAML in, one frozen model out, and every problem at once."""

from aotbuild.manifest.dims import SignatureSpec
from aotbuild.manifest.function import Function, Parameters
from aotbuild.manifest.load import load_manifest, parse_manifest
from aotbuild.manifest.model import Manifest, json_schema
from aotbuild.manifest.shardings import MeshAxes, Sharding, ShardingLike, ShardingTree
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
    "MeshAxes",
    "NoneSpec",
    "Parameters",
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
