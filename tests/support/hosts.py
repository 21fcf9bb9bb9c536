"""Hosts and records of all platforms as plain data, for tests of what selects between them."""

from __future__ import annotations

import dataclasses
from typing import Any

from aotbuild.format.aval import Aval
from aotbuild.format.record import Blob, Calling, Record, Requirements
from aotbuild.format.signature import Signature
from aotbuild.format.target import Target
from aotbuild.platforms.base import Host
from aotbuild.platforms.cpu.checks import LEVELS

V3 = LEVELS["x86-64-v3"].features
PLUGIN = ("jax-cuda13-pjrt", "1.2.3")
LIBTPU = ("libtpu", "0.0.42")


def host(platform: str, devices: int, kind: str, **facts: Any) -> Host:
    defaults: dict[str, Any] = {
        "process_count": 1,
        "architecture": "x86_64",
        "features": V3,
        "jaxlib": "1.2.3",
        "x64": False,
    }
    return Host(platform, devices, (kind,), **{**defaults, **with_facts(facts)})


def with_facts(given: dict[str, Any]) -> dict[str, Any]:
    """Return fields of a `Host`: those that are facts of a platform are one field."""
    names = ("capability", "topology", "cuda", "driver", "cudnn")
    facts = tuple((name, given[name]) for name in names if name in given)
    return {**{name: given[name] for name in given if name not in names}, "facts": facts}


def gpu(kind: str, capability: str, devices: int = 1, **facts: Any) -> Host:
    defaults = {"plugins": (PLUGIN,), "cuda": "13.1", "driver": "13.2", "cudnn": "9.12.0"}
    return host("cuda", devices, kind, capability=capability, **{**defaults, **facts})


def tpu(kind: str, topology: str, devices: int, **facts: Any) -> Host:
    return host("tpu", devices, kind, topology=topology, plugins=(LIBTPU,), **facts)


CPU = host("cpu", 1, "cpu", custom_calls=frozenset({"mine"}))
HOSTS = {
    "v2": dataclasses.replace(CPU, features=LEVELS["x86-64-v2+avx"].features),
    "v3": CPU,
    "v3+gfni": dataclasses.replace(CPU, features=V3 | {"gfni"}),
    "v4": dataclasses.replace(CPU, features=LEVELS["x86-64-v4"].features),
    "v4+gfni": dataclasses.replace(CPU, features=LEVELS["x86-64-v4"].features | {"gfni"}),
    "8 cpus": dataclasses.replace(CPU, device_count=8),
    "on 1 of 8 cpus": dataclasses.replace(CPU, named=True),
    "silent cpu": dataclasses.replace(CPU, features=frozenset()),
    "arm": dataclasses.replace(CPU, architecture="aarch64", features=frozenset({"asimd"})),
    "x64": dataclasses.replace(CPU, x64=True),
    "other jaxlib": dataclasses.replace(CPU, jaxlib="1.2.4"),
    "h200": gpu("NVIDIA H200", "9.0a"),
    "8 h200": gpu("NVIDIA H200", "9.0a", 8),
    "h100": gpu("NVIDIA H100 80GB HBM3", "9.0a"),
    "b200": gpu("NVIDIA B200", "10.0a"),
    "a10g": gpu("NVIDIA A10G", "8.6"),
    "old driver": gpu("NVIDIA H200", "9.0a", driver="12.8"),
    "old cuda": gpu("NVIDIA H200", "9.0a", cuda="12.9"),
    "old cuda and driver": gpu("NVIDIA H200", "9.0a", cuda="12.9", driver="12.9"),
    "old cudnn": gpu("NVIDIA H200", "9.0a", cudnn="9.8.0"),
    "no cudnn": gpu("NVIDIA H200", "9.0a", cudnn=None),
    "other plugin": gpu("NVIDIA H200", "9.0a", plugins=(("jax-cuda13-pjrt", "1.2.4"),)),
    "cuda 12": gpu("NVIDIA H200", "9.0a", plugins=(("jax-cuda12-pjrt", "1.2.3"),)),
    "no plugin": gpu("NVIDIA H200", "9.0a", plugins=()),
    "2 processes of 4 h200": gpu("NVIDIA H200", "9.0a", 4, process_count=2, devices_everywhere=8),
    "v5e:2x2": tpu("TPU v5 lite", "2x2x1", 4),
    "v5e:2x4": tpu("TPU v5 lite", "2x4x1", 8),
    "v5e:2x4@2": tpu("TPU v5 lite", "2x4x1", 4, process_count=2, devices_everywhere=8),
    "v6e:2x2": tpu("TPU v6 lite", "2x2x1", 4),
    "other libtpu": dataclasses.replace(
        tpu("TPU v5 lite", "2x2x1", 4), plugins=(("libtpu", "0.0.41"),)
    ),
}
NEEDS_CUDA = {
    "device_kinds": ("NVIDIA H200",),
    "capability": "9.0a",
    "plugin": PLUGIN,
    "cuda": "13.0",
    "cudnn": "9.10",
}
NEEDS_V5E = {"device_kinds": ("TPU v5 lite",), "plugin": LIBTPU}


def record(target: str = "cpu:x86-64-v3:1", **requires: Any) -> Record:
    parsed = Target.parse(target)
    is_native = not parsed.is_portable
    defaults = {
        "platforms": parsed.platforms,
        "devices": parsed.devices,
        "processes": parsed.processes,
        "isa": parsed.detail if parsed.platform == "cpu" else None,
        "jaxlib": "1.2.3" if is_native else None,
    }
    aval = Aval((2,), "float32")
    tree = ["tuple", ["tuple", "*"], ["dict", []]]
    return Record(
        "f",
        Signature(tree, (aval,)),
        parsed,
        Blob("pjrt", "0" * 64, 1),
        Requirements(**{**defaults, **requires}),
        Calling("f", (), (0,), (), (), (aval,), (), "*"),
    )


RECORDS = {
    "v2": record("cpu:x86-64-v2+avx:1"),
    "v3": record("cpu:x86-64-v3:1"),
    "v3+gfni": record("cpu:x86-64-v3:1", features=("gfni",)),
    "v4": record("cpu:x86-64-v4:1"),
    "4 cpus": record("cpu:x86-64-v3:4"),
    "arm": record("cpu:aarch64:1"),
    "h200": record("cuda:h200:1", **NEEDS_CUDA),
    "8 h200": record("cuda:h200:8", **NEEDS_CUDA),
    "2 processes of 4 h200": record("cuda:h200:8@2", **NEEDS_CUDA),
    "v5e": record("tpu:v5e:1x1:1", **NEEDS_V5E),
    "v5e:2x2": record("tpu:v5e:2x2:4", topology="2x2", **NEEDS_V5E),
    "v5e:2x4": record("tpu:v5e:2x4:8", topology="2x4", **NEEDS_V5E),
    "v5e:2x4@2": record("tpu:v5e:2x4:8@2", topology="2x4", **NEEDS_V5E),
    "portable": record("portable:cpu,cuda:1"),
}
ALL_V4 = "avx512bw, avx512cd, avx512dq, avx512f, avx512vl"
PORTABLE = "portable: compiled at first use, and only with fallback: portable"
