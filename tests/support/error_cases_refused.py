"""Produces the errors of packages that have nothing for a host. See test_error_texts.py."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

from aotbuild.format.target import Target
from aotbuild.platforms.base import Host
from aotbuild.platforms.cpu.checks import LEVELS
from aotbuild.runtime.api import locate
from aotbuild.runtime.library import Library
from support.error_cases import Place, X, collector, raised, scored
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


@case
def call_other_gpu(place: Place) -> str:
    plugins = (("jax-cuda12-pjrt", "0.10.2"),)
    facts = {"capability": "8.6", "plugins": plugins, "cuda": "12.9", "driver": "12.8"}
    place.patch.setitem(sys.modules, "proj", place)  # a source that jit can call
    return refused_on(place, host_of("cuda", "NVIDIA A10G", **facts), dict(H200))
