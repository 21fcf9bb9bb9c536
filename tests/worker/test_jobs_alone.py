"""No function gets what another one's modules, trees, inputs or traces have changed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.cli import run
from support.projects import write_project

import aotbuild

pytestmark = [pytest.mark.process, pytest.mark.any_jax]

# Modules of which the first of each pair changes something, and the second reads it: what its
# function makes of 2.0 where nothing has been changed.
MODULES = {
    "patches": "import jax\n_old = jax.nn.relu\ndef patched(x): return _old(x) * 10\n"
    "jax.nn.relu = patched\ndef f(x): return jax.nn.relu(x)\n",
    "relu": "import jax\ndef f(x): return jax.nn.relu(x)\n",
    # With what is the library's own.
    "exact": "import functools, jax\n"
    "jax.nn.silu = functools.partial(jax.nn.leaky_relu, negative_slope=1.0)\n"
    "def f(x): return jax.nn.silu(x)\n",
    "silu": "import jax\ndef f(x): return jax.nn.silu(x)\n",
    "common": "GAIN = 2.0\nclass Layer:\n    def call(self, x): return x * GAIN\n",
    "sets": "import proj.common\nproj.common.GAIN = 3.0\ndef f(x): return x\n",
    "extends": "import proj.common\nproj.common.Layer.call = lambda self, x: x * 5\n"
    "def f(x): return x\n",
    "layer": "import proj.common\ndef f(x): return proj.common.Layer().call(x)\n",
    "meshed": "import jax\njax.set_mesh(jax.make_mesh((1,), ('i',)))\ndef f(x): return x\n",
    "unmeshed": "import jax\n"
    "def f(x): return x if jax.sharding.get_abstract_mesh().empty else x * 3\n",
    "strict": "import numpy as np\nnp.seterr(all='raise')\ndef f(x): return x\n",
    "divides": "import numpy as np\ndef f(x): return x + (np.float32(1) / np.float32(0) > 0)\n",
    "lazy": "import importlib\ndef __getattr__(name):\n"
    "    if name[0] == '_': raise AttributeError(name)\n"
    "    return importlib.import_module('proj.late_' + name).f\n",
    "modes": "RATE = 1.0\n",
    "late_train": "import proj.modes\nproj.modes.RATE = 0.5\n"
    "def f(x): return x * proj.modes.RATE\n",
    "late_infer": "import proj.modes\ndef f(x): return x * proj.modes.RATE\n",
    # Trees and inputs.
    "trees": "import jax, jax.numpy as jnp, numpy as np\nDROPPED = LOW = 0.0\n"
    "def tree():\n    global DROPPED\n    DROPPED = 0.5\n    return jnp.zeros(1)\n"
    "def inputs():\n    global LOW\n    LOW = 0.5\n    return {'x': np.ones(1, np.float32)}\n"
    "def same(x): return x\n"
    "def f(x): return x * (1 - DROPPED - LOW)\n",
    # What a trace sets, in its own module.
    "alias": "class Mode:\n    def __init__(self, gain): self.gain = gain\n"
    "EVAL, TRAIN = Mode(1.0), Mode(10.0)\ncurrent = EVAL\n"
    "def train(x):\n    global current\n    current = TRAIN\n    return x * current.gain\n"
    "def f(x): return x * current.gain\n",
    "made": "import jax\nmake = jax.nn.initializers.constant(1.0)\n"
    "def other(x):\n    global make\n    make = jax.nn.initializers.constant(3.0)\n    return x\n"
    "def f(x): return x * make(None, (1,), 'float32')\n",
    "number": "import numpy as np\nG = np.float64(2)\n"
    "def moon(x):\n    global G\n    G = np.float64(3)\n    return x * np.float32(G)\n"
    "def f(x): return x * np.float32(G)\n",
    "parsed": "import configparser\nC = configparser.ConfigParser()\nC['a'] = {'g': '1'}\n"
    "def other(x):\n    C['a']['g'] = '5'\n    return x\n"
    "def f(x): return x * C.getfloat('a', 'g')\n",
    "folder": "import os\nHERE = os.getcwd()\n"
    "def other(x):\n    os.chdir('/')\n    return x\n"
    "def f(x): return x * (1 if os.getcwd() == HERE else 7)\n",
    # And for one value of a static argument.
    "static": "GAIN = 1.0\ndef f(x, train):\n    global GAIN\n"
    "    if train: GAIN = 9.0\n    return x * GAIN\n",
}
CALLS = {
    **{f"{name}:f": {} for name in MODULES if name not in ("common", "lazy", "modes")},
    "static:f": {"static": "{train: [true, false]}"},
    "alias:train": {},
    "made:other": {},
    "number:moon": {},
    "parsed:other": {},
    "folder:other": {},
    "lazy:train": {},
    "lazy:infer": {},
    "trees:same": {"args": '[x: {like: "proj.trees:tree"}]', "verify": "{golden: never}"},
    "trees:tree": {"call": '"proj.trees:same"', "verify": '{inputs: "proj.trees:inputs"}'},
}
RIGHT = {
    "relu_f": 2.0,
    "silu_f": 2.0 / (1 + np.exp(-2.0)),
    "layer_f": 4.0,
    "unmeshed_f": 2.0,
    "divides_f": 3.0,
    "lazy_infer": 2.0,
    "late_infer_f": 2.0,
    "trees_f": 2.0,
    "alias_f": 2.0,
    "made_f": 2.0,
    "number_f": 4.0,
    "parsed_f": 2.0,
    "folder_f": 2.0,
}


def manifest(names: list[str]) -> str:
    lines = []
    for name in names:
        parts = {"call": f'"proj.{name}"', "args": '[x: "f32[1]"]', **CALLS[name]}
        told = ", ".join(f"{key}: {value}" for key, value in parts.items())
        lines.append(f"  {name.replace(':', '_')}: {{{told}}}\n")
    return f"version: 1\npackage: proj\ntargets: [cpu]\nfunctions:\n{''.join(lines)}"


@pytest.mark.parametrize("order", [1, -1], ids=["there", "back"])
def test_each_function_is_what_it_would_be_alone(
    tmp_path: Path, order: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AOTBUILD_JOBS", "1")
    names = [*CALLS][::order]
    root = write_project(tmp_path / "here", manifest(names), **MODULES)
    monkeypatch.chdir(root)
    run("build", "--out", tmp_path / "_aot")
    library, x = aotbuild.load(tmp_path / "_aot"), np.full(1, 2, np.float32)
    found = {name: float(getattr(library, name)(x)[0]) for name in RIGHT}
    assert [float(library.static_f(x, train=each)[0]) for each in (True, False)] == [18, 2]
    assert found == pytest.approx(RIGHT, rel=1e-6)
