"""The other systems of the benchmark: their pins and models."""

from __future__ import annotations

import pytest

from benchmarks.places import HERE
from benchmarks.registry import System, read_systems

PEERS = [system for system in read_systems() if system.peer]


class TestPeers:
    def test_there_are_the_four_of_the_documentation(self) -> None:
        environments = {system.environment for system in PEERS}
        assert environments == {"onnxruntime", "iree", "openvino", "torch"}

    @pytest.mark.parametrize("system", PEERS, ids=lambda system: system.name)
    def test_every_requirement_is_pinned(self, system: System) -> None:
        for name in {system.environment, system.build_environment} - {""}:
            lines = (HERE / "environments" / f"{name}.txt").read_text().splitlines()
            wanted = [line for line in lines if line and not line.startswith(("#", "--"))]
            assert wanted
            assert all("==" in line for line in wanted)

    @pytest.mark.parametrize("system", PEERS, ids=lambda system: system.name)
    def test_runs_the_models_that_are_not_of_jax_alone(self, system: System) -> None:
        assert system.models == ("transformer", "digits")
