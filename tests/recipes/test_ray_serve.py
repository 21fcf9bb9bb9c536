"""Ray Serve: a real cluster of this machine. One test, because a cluster takes half a minute."""

from __future__ import annotations

import json
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from support.recipes import expected_scores, has_module, install

pytestmark = pytest.mark.recipes


def test_ray_serve(ranker: Path, tmp_path: Path) -> None:
    recipe = install("ray-serve", tmp_path, ranker)
    assert recipe.python is not None
    assert not has_module(recipe.python, "jax")
    _, serve, score = recipe.commands
    # Ray's sockets have short paths, and its settings are about this machine.
    folder = tempfile.mkdtemp(prefix="ray-")
    env = {"RAY_TMPDIR": folder, "RAY_USAGE_STATS_ENABLED": "0"}
    try:
        with recipe.serving(serve, "is ready at", **env) as server:
            shown = json.loads(recipe.shown_after(score))["score"]
            np.testing.assert_allclose(recipe.curl(score).json["score"], shown, rtol=1e-5)
            rows = np.random.default_rng(1).normal(size=(40, 4)).tolist()
            with ThreadPoolExecutor(40) as pool:
                answers = list(pool.map(lambda row: recipe.post("/", row), rows))
            found = [answer.json["score"] for answer in answers]
            np.testing.assert_allclose(found, expected_scores(ranker, rows), rtol=1e-5)
            assert recipe.post("/", [1, 2, 3]).status == 422
            assert "Traceback" not in server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
