"""What is known of the keys for hardware that is not here: docs/how-to/jax-cache.md says it."""

from __future__ import annotations

import json
import subprocess

import pytest
from support.processes import ROOT, clean_environment
from support.toolchains import cross_environment

from aotbuild.platforms.cuda.hardware import TARGET_CONFIG, hardware_of, target_config_text
from aotbuild.platforms.cuda.presets import shipped_preset

pytestmark = [pytest.mark.wheel, pytest.mark.any_jax]

# Compile-only clients, and the key of one function for the first device of each.
KEYS = """
import json, sys
import jax
from jax.experimental import topologies
from aotbuild.worker import private as jax_private

found = {}
for name, described in json.loads(sys.argv[1]).items():
    devices = topologies.get_topology_desc(**described).devices
    sharding = jax.sharding.SingleDeviceSharding(devices[0])
    argument = jax.ShapeDtypeStruct((128, 128), "float32", sharding=sharding)
    found[name] = {
        "version": devices[0].client.platform_version,
        "topology": jax_private.topology_fingerprint(devices),
        "key": jax_private.cache_key(jax.jit(lambda x: x @ x).lower(argument)),
    }
print(json.dumps(found))
"""


def keys(platform: str, described: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    (toolchain,) = cross_environment(platform).toolchains
    asked = {name: {"platform": platform, **each} for name, each in described.items()}
    done = subprocess.run(
        [toolchain.interpreter, "-c", KEYS, json.dumps(asked)],
        capture_output=True,
        text=True,
        env=clean_environment(PYTHONPATH=str(ROOT), TPU_SKIP_MDS_QUERY="1"),
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def distinct(found: dict[str, dict[str, str]], part: str) -> int:
    return len({each[part] for each in found.values()})


def test_a_slice_has_one_key_in_all_processes() -> None:
    slices = {name: {"topology_name": name} for name in ("v5e:2x2", "v5e:2x4", "v6e:2x4")}
    found = keys("tpu", slices)
    assert found == keys("tpu", slices)
    assert distinct(found, "topology") == distinct(found, "key") == 3
    # The build of libtpu, which is a part of the key.
    assert "TFRT TPU v5 lite\nBuilt on" in found["v5e:2x2"]["version"]


def test_a_gpu_has_another_key_for_each_driver() -> None:
    gpu = hardware_of(shipped_preset("h100-sxm"))
    config = dict(gpu.description)[TARGET_CONFIG]
    found = keys(
        "cuda",
        {
            cuda: {
                "topology": "1x1x1",
                "target_config": target_config_text(config, {"cuda": cuda, "cudnn": "9.12.0"}),
            }
            for cuda in ("13.0.0", "13.1.0")
        },
    )
    assert distinct(found, "topology") == distinct(found, "key") == 2
    # That of a GPU that is there names its version of CUDA.
    assert {each["version"].removeprefix("PJRT C API\n") for each in found.values()} == {gpu.kind}
