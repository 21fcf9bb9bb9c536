"""Ray Serve: a real cluster of this machine. One test, because a cluster takes half a minute."""

from __future__ import annotations

import json
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from support.recipes import Recipe, Server, expected_scores, has_module, install

pytestmark = pytest.mark.recipes

# Ray gives its node 30 seconds to start, whatever else the machine does; no setting changes it.
TOO_SLOW = "The current node timed out during startup"
ATTEMPTS = 3


def start(recipe: Recipe, command: str, stack: ExitStack, env: dict[str, str]) -> Server:
    for _ in range(ATTEMPTS - 1):
        try:
            return stack.enter_context(recipe.serving(command, "is ready at", **env))
        except AssertionError as err:
            if TOO_SLOW not in str(err):
                raise
    return stack.enter_context(recipe.serving(command, "is ready at", **env))


def test_ray_serve(ranker: Path, tmp_path: Path) -> None:
    recipe = install("ray-serve", tmp_path, ranker)
    assert recipe.python is not None
    assert not has_module(recipe.python, "jax")
    _, serve, score = recipe.commands
    # Ray's sockets have short paths, and its settings are about this machine.
    folder = tempfile.mkdtemp(prefix="ray-")
    env = {"RAY_TMPDIR": folder, "RAY_USAGE_STATS_ENABLED": "0"}
    try:
        with ExitStack() as stack:
            server = start(recipe, serve, stack, env)
            shown = json.loads(recipe.shown_after(score))["score"]
            np.testing.assert_allclose(recipe.curl(score).json["score"], shown, rtol=1e-5)
            rows = np.random.default_rng(1).normal(size=(40, 4)).tolist()
            with ThreadPoolExecutor(40) as pool:
                answers = list(pool.map(lambda row: recipe.post("/", row), rows))
            found = [answer.json["score"] for answer in answers]
            np.testing.assert_allclose(found, expected_scores(ranker, rows), rtol=1e-5)
            for wrong in ([1, 2, 3], [1, 2, 3, "x"], {"row": 1}, None):
                assert recipe.post("/", wrong).status == 422
            assert "Traceback" not in server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
