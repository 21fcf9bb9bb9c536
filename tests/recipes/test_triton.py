"""Triton: the server that the wheel nvidia-pytriton holds, with its Python backend."""

from __future__ import annotations

import json
import shutil
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from support.recipes import Answer, Recipe, expected_scores, has_module, install

from aotbuild.toolchains.uv import run_uv

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
LIBRARIES = Path(sysconfig.get_config_var("LIBDIR"))
has_libpython = (LIBRARIES / f"libpython{VERSION}.so.1.0").exists()
pytestmark = [
    pytest.mark.recipes,
    pytest.mark.skipif(not has_libpython, reason="the Python backend loads libpython"),
]
ROW = [1, 2, 3, 4]
# What a container has in its place: the server finds its backend, the Python, and no other ports.
START = """\
#!/bin/sh
export LD_LIBRARY_PATH={libraries}
exec {server}/bin/tritonserver "$@" --backend-directory {server}/backends \
--allow-grpc 0 --allow-metrics 0
"""


@pytest.fixture(scope="module")
def recipe(ranker: Path, tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    folder = tmp_path_factory.mktemp("triton")
    found = install("triton", folder, ranker)
    assert found.python is not None
    # The server alone: what it requires, numpy 1 among it, is for another way to use it.
    place = ("--python", found.python, "--no-deps")
    run_uv(("pip", "install", "--quiet", *place, "nvidia-pytriton==0.7.0"), folder)
    (server,) = found.python.parents[1].glob("lib/python*/site-packages/pytriton/tritonserver")
    stub = server / "python_backend_stubs" / VERSION / "triton_python_backend_stub"
    shutil.copy(stub, server / "backends" / "python")
    program = found.python.with_name("tritonserver")
    program.write_text(START.format(server=server, libraries=LIBRARIES))
    program.chmod(0o755)
    return found


def infer(recipe: Recipe, rows: list[list[float]]) -> Answer:
    data = [number for row in rows for number in row]
    shape = [len(rows), len(rows[0])]
    tensor = {"name": "x", "shape": shape, "datatype": "FP32", "data": data}
    return recipe.post("/v2/models/ranker/infer", {"inputs": [tensor]})


def scores(answer: Answer) -> list[float]:
    (output,) = answer.json["outputs"]
    assert output["shape"] == [len(output["data"]), 1]
    return list(output["data"])


def test_triton(recipe: Recipe, ranker: Path) -> None:
    assert recipe.python is not None
    assert not has_module(recipe.python, "jax")
    _, make, show, serve, send = recipe.commands
    recipe.run(make)
    assert recipe.run(show) == recipe.shown_after(show)
    with recipe.serving(serve, "Started HTTPService") as server:
        shown = json.loads(recipe.shown_after(send))["outputs"][0]["data"]
        np.testing.assert_allclose(scores(recipe.curl(send)), shown, rtol=1e-5)
        batches = np.split(np.random.default_rng(1).normal(size=(60, 4)), range(1, 60, 3))
        with ThreadPoolExecutor(20) as pool:
            answers = list(pool.map(lambda rows: infer(recipe, rows.tolist()), batches))
        for rows, answer in zip(batches, answers, strict=True):
            np.testing.assert_allclose(scores(answer), expected_scores(ranker, rows), rtol=1e-5)
        assert "unexpected shape for input 'x'" in infer(recipe, [[1, 2, 3]]).text
        (stats,) = recipe.get("/v2/models/ranker/stats").json["model_stats"]
        assert stats["inference_count"] == 62
        printed = server.stop()
    noise = printed.count("PyCapsule_GetPointer called with incorrect name")
    assert printed.count("Traceback") == noise, printed


def test_the_server_reads_the_sizes_of_the_wheel(recipe: Recipe) -> None:
    with recipe.serving(recipe.commands[3], "Started HTTPService"):
        config = recipe.get("/v2/models/ranker/config").json
    assert config["max_batch_size"] == 32
    assert config["dynamic_batching"]["preferred_batch_size"] == [8, 32]


def test_as_numpy_is_still_wrong(recipe: Recipe, ranker: Path) -> None:
    """What the page warns of; when this fails, a newer server may need no warning."""
    model = recipe.folder / "models" / "ranker" / "1" / "model.py"
    text = model.read_text()
    model.write_text(text.replace("np.from_dlpack(tensor)", "tensor.as_numpy()"))
    with recipe.serving(recipe.commands[3], "Started HTTPService"):
        found = scores(infer(recipe, [ROW]))
    model.write_text(text)
    np.testing.assert_allclose(found, expected_scores(ranker, [[1, 1, 1, 1]]), rtol=1e-5)
