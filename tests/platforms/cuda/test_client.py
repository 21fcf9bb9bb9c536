"""Clients of the real CUDA plugin, up to the point where it finds no GPU, with jax and without."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.processes import ROOT
from support.toolchains import build_with, cross_environment

from aotbuild.toolchains.toolchain import Environment

pytestmark = pytest.mark.wheel

SPIED = """
import json, sys
from types import SimpleNamespace
from jaxlib import _jax
asked, make = [], _jax.get_c_api_client
def spy(name, options, *rest):
    asked.append([name, dict(options)])
    return make(name, options, *rest)
_jax.get_c_api_client = spy
from aotbuild.platforms.cuda import client
client.OF_GPUS = ("/",)
def said(call):
    try:
        return repr(call())
    except Exception as err:
        return f"{type(err).__name__}: {err}"
"""
WITHOUT_JAX = """
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "jax":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Hidden())
import numpy as np
from jaxlib import xla_client
from aotbuild.runtime.numpy import backend, private
make_client = lambda: backend.client_of("cuda")
found = {"default": backend.default_platform(), "no_driver": said(make_client)}
client.open_driver = lambda: SimpleNamespace(cuda=(13, 0))
found["no_gpu"] = [said(make_client), said(make_client)]
# A client of the CPU reads what an executable says of its version, as a client of a GPU does.
cpu = private.make_host_client(1).devices()[0]
found["deserialize"] = said(lambda: private.deserialize(open(sys.argv[1], "rb").read(), cpu))
found["routes"] = [*xla_client._custom_callback_handler]
del sys.meta_path[0]
assert "jax" not in sys.modules
import jax
from jax._src import xla_bridge
found["later"] = str(jax.devices())
found["jax's own"] = "cuda" in xla_bridge._backend_factories
print(json.dumps({**found, "asked": asked}))
"""
WITH_JAX = """
import jax
from jax._src import hardware_utils
hardware_utils.has_visible_nvidia_gpu = lambda: True
from aotbuild.runtime.jax import placement
found = {"no_gpu": said(placement.default_devices)}
found["setting"] = jax.config.jax_pjrt_client_create_options
print(json.dumps({**found, "asked": asked}))
"""


@pytest.fixture(scope="module")
def environment() -> Environment:
    return cross_environment("cuda")


def run(environment: Environment, code: str, *arguments: str, **variables: str) -> Any:
    inherited = {n: v for n, v in os.environ.items() if not n.startswith(("JAX_", "XLA_"))}
    done = subprocess.run(
        [str(environment.toolchains[0].interpreter), "-c", SPIED + code, *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        # jax asks for libraries that only a GPU needs.
        env={**inherited, "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1", **variables},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_without_jax(tmp_path: Path, environment: Environment) -> None:
    function = "double: {call: 'proj.model:double', args: [x: 'f32[4]']}"
    model = "def double(x):\n    return x * 2\n"
    package = build_with(environment, tmp_path, "[cuda: {gpu: h100-sxm}]", function, model=model)
    found = run(environment, WITHOUT_JAX, str(package.folder / package.records[0].blob.path))
    assert found["default"] == "cuda"
    assert found["no_driver"].startswith("NoGpu: no GPU can be used here\n")
    assert "libcuda.so.1" in found["no_driver"]
    no_gpu = "AotbuildError: CUDA cannot be used\n  found    JaxRuntimeError: FAILED_PRECONDITION: "
    assert found["no_gpu"] == [f"{no_gpu}No visible GPU devices."] * 2
    # Not "NOT_FOUND: Supported GPU plugins not found".
    assert "plugin" not in found["deserialize"]
    assert "parse" in found["deserialize"]
    assert found["routes"] == ["CUDA"]
    (name, options), _ = found["asked"]
    assert (name, options["preallocate"], options["platform_name"]) == ("gpu", False, "cuda")
    assert found["later"] == "[CpuDevice(id=0)]"
    assert found["jax's own"]


def test_with_jax(environment: Environment) -> None:
    found = run(environment, WITH_JAX)
    assert "No visible GPU devices" in found["no_gpu"]
    assert found["setting"] is None
    ((name, options),) = found["asked"]
    assert (name, options["preallocate"]) == ("cuda", False)
