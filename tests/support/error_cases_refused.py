"""Produces the errors of packages that have nothing for a host. See test_error_texts.py."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from aotbuild.format.target import Target
from aotbuild.platforms.base import Host
from aotbuild.platforms.cpu.isa import LEVELS
from aotbuild.runtime.library import Library
from aotbuild.runtime.locate import locate
from support.error_cases import Place, X, collector, library, raised, scored
from support.hosts import with_facts
from support.packages import write

CASES, case = collector()


def refused_on(place: Place, host: Host, *requires: dict[str, Any]) -> str:
    """Return the refusal of a package on a host: a record for each `target` and what it needs."""
    made = scored()
    records = []
    for changes in requires:
        target = Target.parse(changes.pop("target"))
        needs = {"platforms": target.platforms, "isa": None, "jaxlib": "0.10.2", **changes}
        if target.platform == "cpu":
            needs["isa"] = target.detail
        required = replace(made.record.requires, **needs)
        records.append(replace(made.record, target=target, requires=required))
    folder = write(place.root, [replace(made, record=record) for record in records], package="proj")
    opened = Library(locate(folder), host=lambda _: host)
    return raised(lambda: opened.score(X, "relu"))


def host_of(platform: str, kind: str, **facts: Any) -> Host:
    features = LEVELS["x86-64-v3"].features
    known = Host(platform, 1, (kind,), 1, "x86_64", features, "0.10.2", x64=False)
    return replace(known, **with_facts(facts))


H200 = {
    "target": "cuda:h200:1",
    "device_kinds": ("NVIDIA H200",),
    "capability": "9.0a",
    "plugin": ("jax-cuda13-pjrt", "0.10.2"),
    "cuda": "13.0",
}
V5E = {"target": "tpu:v5e:2x2:1", "device_kinds": ("TPU v5 lite",), "topology": "2x2"}


@case
def call_level_above(place: Place) -> str:
    return refused_on(place, host_of("cpu", "cpu"), {"target": "cpu:x86-64-v4:1"})


@case
def call_other_jaxlibs(place: Place) -> str:
    targets = ("cpu:x86-64-v3:1", "cpu:x86-64-v2+avx:1")
    shipped = [{"target": t, "jaxlib": v} for t in targets for v in ("0.9.1", "0.9.2")]
    return refused_on(place, host_of("cpu", "cpu"), *shipped)


@case
def call_other_platforms(place: Place) -> str:
    h100 = {**H200, "target": "cuda:h100-sxm:1"}
    v4 = {"target": "cpu:x86-64-v4:1"}
    return refused_on(place, host_of("cpu", "cpu"), v4, dict(H200), h100, dict(V5E))


@case
def call_other_gpu(place: Place) -> str:
    plugins = (("jax-cuda12-pjrt", "0.10.2"),)
    facts = {"capability": "8.6", "plugins": plugins, "cuda": "12.9", "driver": "12.8"}
    return refused_on(place, host_of("cuda", "NVIDIA A10G", **facts), dict(H200))


@case
def call_other_slice(place: Place) -> str:
    facts = {"device_count": 8, "topology": "2x4x1"}
    return refused_on(place, host_of("tpu", "TPU v5 lite", **facts), dict(V5E))


@case
def call_too_few_devices(place: Place) -> str:
    opened = library(place, scored().replace(devices=4))
    return raised(lambda: opened.score(X, "relu"))
