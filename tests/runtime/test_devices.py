"""Devices: orders that executables take, and what is asked of a host's, with stand-ins for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from aotbuild.format.record import Requirements
from aotbuild.platforms.cuda import host as cuda_host
from aotbuild.platforms.cuda.host import capability_of
from aotbuild.platforms.tpu.host import bounds
from aotbuild.runtime.devices import (
    DeviceSet,
    devices_for,
    devices_like,
    find_problem,
    in_executable_order,
)
from aotbuild.runtime.jax.backend import probe


@dataclass(frozen=True)
class Client:
    platform_version: str = "PJRT C API\ncuda 13000"
    everywhere: tuple[Any, ...] = ()

    def devices(self) -> tuple[Any, ...]:
        return self.everywhere

    def process_index(self) -> int:
        return 1


@dataclass(frozen=True)
class Device:
    """What the runtime looks at of a jax device."""

    id: int
    process_index: int = 0
    platform: str = "gpu"
    device_kind: str = "NVIDIA H200"
    coords: tuple[int, ...] | None = None
    core_on_chip: int = 0
    slice_index: int = 0
    compute_capability: str | None = None
    client: Client = Client()

    def __str__(self) -> str:
        return f"{self.platform}:{self.id}"


def tpus(*coords: tuple[int, ...], processes: tuple[int, ...] = ()) -> list[Device]:
    indices = processes or (0,) * len(coords)
    return [
        Device(i, process, "tpu", "TPU v5 lite", place)
        for i, (place, process) in enumerate(zip(coords, indices, strict=True))
    ]


def needs(devices: int, processes: int = 1, platform: str = "cuda") -> Requirements:
    return Requirements((platform,), devices=devices, processes=processes)


# libtpu's own order of v5e:4x4 (0.0.42.1): four processes, each a square of chips.
V5E_4X4 = tpus(
    *[
        (x + dx, y + dy, 0)
        for y in (0, 2)
        for x in (0, 2)
        for dy in (0, 1)
        for dx in (0, 1)
    ],
    processes=tuple(process for process in range(4) for _ in range(4)),
)  # fmt: skip
# libtpu's own order of tpu7x:2x2x1: two devices on each chip.
TPU7X = [
    Device(2 * (2 * y + x) + core, 0, "tpu", "TPU7x", (x, y, 0), core)
    for y in (0, 1)
    for x in (0, 1)
    for core in (0, 1)
]

TWO_SLICES = [
    dataclasses.replace(d, id=100 * s + d.id, process_index=4 * s + d.process_index, slice_index=s)
    for s in (0, 1)
    for d in V5E_4X4
]


class TestOrder:
    @pytest.mark.parametrize(
        "devices", [V5E_4X4, TPU7X, TWO_SLICES], ids=["v5e:4x4", "tpu7x", "two slices"]
    )
    def test_the_order_of_libtpu(self, devices: list[Device]) -> None:
        shuffled = sorted(devices, key=lambda d: (d.id * 7) % len(devices))
        assert shuffled != devices
        assert in_executable_order(shuffled) == tuple(devices)

    def test_processes_that_are_numbered_otherwise(self) -> None:
        renumbered = [
            Device(d.id, 3 - d.process_index, "tpu", d.device_kind, d.coords) for d in V5E_4X4
        ]
        assert in_executable_order(reversed(renumbered)) == tuple(renumbered)
        assert find_problem(needs(16, 4, "tpu"), renumbered) is None

    def test_the_size_of_a_slice(self) -> None:
        assert bounds(V5E_4X4) == "4x4x1"
        assert bounds(V5E_4X4[4:8]) == "2x2x1"
        assert bounds(TPU7X) == "2x2x1"
        assert bounds(TWO_SLICES) == "4x4x1"

    @pytest.mark.parametrize(
        ("requires", "devices"),
        [
            (needs(1), [Device(5)]),
            (needs(3), [Device(3), Device(1), Device(2)]),
            (needs(4, 2), [Device(i, i // 2) for i in range(4)]),
            (needs(4, 2), [Device(2, 1), Device(3, 1), Device(1, 0), Device(0, 0)]),
            (needs(16, 4, "tpu"), V5E_4X4),
            (needs(8, 1, "tpu"), TPU7X),
        ],
    )
    def test_what_fits(self, requires: Requirements, devices: list[Device]) -> None:
        assert find_problem(requires, devices) is None

    @pytest.mark.parametrize(
        ("requires", "devices", "words"),
        [
            (needs(4), [Device(0)], "expected 4 devices, found 1"),
            (needs(2), [Device(0), Device(0)], "expected 2 devices, found 2, of which 1 twice"),
            (
                needs(2),
                [Device(0), Device(1, device_kind="NVIDIA A10G")],
                "expected devices of one kind, found NVIDIA A10G, NVIDIA H200",
            ),
            (
                needs(2),
                [Device(0), Device(1, 1)],
                "expected devices of one process, found processes 0, 1",
            ),
            (
                needs(4, 2),
                [Device(i, i % 2) for i in range(4)],
                (
                    "expected 2 devices of each of 2 processes, one process after the other, "
                    "found processes 0, 1, 0, 1"
                ),
            ),
            (
                needs(4, 1, "tpu"),
                [TPU7X[i] for i in (0, 2, 1, 3)],
                (
                    "expected the order of the slice: tpu:0, tpu:1, tpu:2, tpu:3, "
                    "found tpu:0, tpu:2, tpu:1, tpu:3"
                ),
            ),
            (needs(1, 3), [Device(0)], "found processes 0"),
        ],
    )
    def test_what_does_not(self, requires: Requirements, devices: list[Device], words: str) -> None:
        assert words in str(find_problem(requires, devices))

    def test_each_process_gives_its_first_devices(self) -> None:
        everywhere = tuple(Device(i, i // 4) for i in range(8))
        found = DeviceSet("cuda", everywhere[0], everywhere[:4], everywhere)
        ids = [d.id for d in devices_for(needs(4, 2), found)]
        assert ids == [0, 1, 4, 5]
        assert [d.id for d in devices_for(needs(2), found)] == [0, 1]


def test_a_call_may_use_the_devices_of_one_kind() -> None:
    """As on a machine with two kinds of GPU: each call is judged by its own."""
    kinds = ("NVIDIA H200", "NVIDIA A10G")
    plain = [Device(i, i // 4, device_kind=kinds[i % 2]) for i in range(8)]
    client = Client(everywhere=tuple(plain))
    found = devices_like(dataclasses.replace(plain[5], client=client))
    assert (found.platform, found.first.id) == ("cuda", 5)
    assert [d.id for d in found.devices] == [1, 3, 5, 7]
    assert [d.id for d in found.local] == [5, 7]
    assert [d.id for d in devices_for(needs(1), found)] == [5]


@pytest.mark.parametrize(
    ("given", "expected"),
    [("9.0", "9.0a"), ("10.3", "10.3a"), ("12.0", "12.0a"), ("8.9", "8.9"), ("x", "x")],
)
def test_capability_as_xla_compares_it(given: str, expected: str) -> None:
    assert capability_of(Device(0, compute_capability=given)) == expected


class TestProbe:
    """Facts of hosts that are not there."""

    def test_a_gpu(self, monkeypatch: pytest.MonkeyPatch) -> None:
        versions = (("cuda", "13.5"), ("driver", "13.2"), ("cudnn", "9.12.0"))
        monkeypatch.setattr(cuda_host, "versions", lambda: versions)
        gpus = tuple(Device(i, compute_capability="9.0") for i in range(8))
        host = probe(DeviceSet("cuda", gpus[0], gpus, gpus))
        assert (host.platform, host.device_count, host.device_kinds) == (
            "cuda",
            8,
            ("NVIDIA H200",),
        )
        assert host.facts == (("capability", "9.0a"), *versions)
        assert not host.named

    @pytest.mark.parametrize(
        ("numbers", "expected"),
        [
            ((13050, 13020, 91200), ("13.5", "13.2", "9.12.0")),
            ((12080, 0, None), ("12.8", None, None)),
            (None, (None, None, None)),
        ],
    )
    def test_versions_of_cuda(self, numbers: Any, expected: Any) -> None:
        """As jax's plugin tells them; what it cannot find raises RuntimeError."""

        def tell(number: int | None) -> Callable[[], int]:
            def version() -> int:
                if number is None:
                    msg = "cuDNN not found."
                    raise RuntimeError(msg)
                return number

            return version

        names = ("cuda_runtime_get_version", "cuda_driver_get_version", "cudnn_get_version")
        module = numbers and SimpleNamespace(**dict(zip(names, map(tell, numbers), strict=True)))
        names = ("cuda", "driver", "cudnn")
        assert cuda_host.versions_of(module) == tuple(zip(names, expected, strict=True))
