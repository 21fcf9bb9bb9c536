"""Slices by their topology: which there are, in how many processes, and which one was meant."""

from __future__ import annotations

import re

import pytest
from support.manifests import refused, whole

from aotbuild.errors import ManifestError
from aotbuild.manifest import parse_manifest
from aotbuild.platforms.tpu.describe import parse_slice, slice_pattern

EXPECTED = "expected a topology such as 'v5e:2x2', of v4, v5e, v5p, v6e or tpu7x, found "


@pytest.mark.parametrize(
    ("name", "devices", "processes", "bounds"),
    [
        ("v5e:1x1", 1, 1, (1, 1, 1)),
        ("v5e:2x2", 4, 1, (2, 2, 1)),
        ("v5e:2x4", 8, 1, (2, 4, 1)),
        ("v6e:4x2", 8, 1, (4, 2, 1)),
        ("v5e:4x4", 16, 4, (2, 2, 1)),
        ("v6e:16x16", 256, 64, (2, 2, 1)),
        ("v4:2x2x1", 4, 1, (2, 2, 1)),
        ("v5p:2x2x2", 8, 2, (2, 2, 1)),
        ("v5p:2x2x3", 12, 3, (2, 2, 1)),
        ("tpu7x:1x1x1", 2, 1, (1, 1, 1)),
        ("tpu7x:4x4x4", 128, 16, (2, 2, 1)),
    ],
)
def test_known(name: str, devices: int, processes: int, bounds: tuple[int, int, int]) -> None:
    found = parse_slice(name)
    assert (found.devices, found.processes) == (devices, processes)
    assert found.bounds(processes) == bounds
    assert f"{found.generation.name}:{found.text}" == name
    assert re.search(slice_pattern(), name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        *((n, f"{EXPECTED}{n!r}") for n in ("v5e", "v7x:2x2x1", "v5litepod-4", "v4-8", "v9:2x2")),
        *((n, f"{EXPECTED}{n!r}") for n in ("v5e:0x2", "v5e:2X2", "v5e:2x2\n", "")),
        ("v5e:2x2x1", "v5e slices have 2 sizes, found 'v5e:2x2x1'"),
        ("v5p:2x2", "v5p slices have 3 sizes, found 'v5p:2x2'"),
        ("v5e:3x3", ("'v5e:3x3': machines have 2x2 chips, or one; expected even sizes along x and "
         "y")),
        ("v6e:32x32", "'v6e:32x32' has 1024 chips; v6e has at most 256"),
    ],
)  # fmt: skip
def test_refused(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        parse_slice(name)


class TestManifest:
    def test_place(self) -> None:
        text = whole("targets:\n- cpu\n- tpu: {topology: [v5e:2x2, v5litepod-4]}\n")
        with pytest.raises(ManifestError) as caught:
            parse_manifest(text)
        (problem,) = caught.value.problems
        assert (problem.line, problem.column) == (7, 29)
        assert problem.path == "targets.1.tpu.topology.1"

    def test_processes(self) -> None:
        text = "targets: [tpu: {topology: ['v5e:2x4', 'v5e:2x2'], processes: 3}]\n"
        assert refused(whole(text)) == [
            (
                "targets.0.tpu.processes: 'v5e:2x4' can be in 1, 2 or 8 processes, "
                "one for each machine, found 3"
            ),
            (
                "targets.0.tpu.processes: 'v5e:2x2' can be in 1 or 4 processes, "
                "one for each machine, found 3"
            ),
        ]
