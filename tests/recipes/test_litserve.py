"""LitServe: a server and its worker, with jax's arrays, and nothing that is traced or compiled."""

from __future__ import annotations

import json
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np
import pytest
from support.recipes import Recipe, expected_scores, install

pytestmark = pytest.mark.recipes

# What jax says when JAX_LOG_COMPILES is set.
COMPILED = re.compile("Compiling|Finished tracing|Finished XLA compilation")


@pytest.fixture(scope="module")
def recipe(ranker: Path, tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    return install("litserve", tmp_path_factory.mktemp("litserve"), ranker)


def test_jax_belongs_to_the_jaxlib_of_the_wheel(recipe: Recipe) -> None:
    shown = recipe.run("python -c 'import jax; print(jax.__version__)'")
    assert shown == f"{jax.__version__}\n"


def test_compilations_would_be_seen(recipe: Recipe) -> None:
    code = "import jax, logging; jax.jit(lambda x: x + 1)(1.0)"
    shown = recipe.run(f"sh -c \"python -c '{code}' 2>&1\"", JAX_LOG_COMPILES="1")
    assert COMPILED.search(shown)


def test_litserve(recipe: Recipe, ranker: Path) -> None:
    _, serve, health, score = recipe.commands
    with recipe.serving(serve, "Application startup complete", JAX_LOG_COMPILES="1") as server:
        assert recipe.curl(health).text == recipe.shown_after(health).rstrip()
        shown = json.loads(recipe.shown_after(score))["score"]
        np.testing.assert_allclose(recipe.curl(score).json["score"], shown, rtol=1e-5)
        rows = np.random.default_rng(1).normal(size=(40, 4)).tolist()
        with ThreadPoolExecutor(40) as pool:
            answers = list(pool.map(lambda row: recipe.post("/predict", {"row": row}), rows))
        found = [answer.json["score"] for answer in answers]
        np.testing.assert_allclose(found, expected_scores(ranker, rows), rtol=1e-5)
        for wrong in ({"row": [1, 2, 3]}, {"row": [1, 2, 3, "x"]}, {}, [1]):
            assert recipe.post("/predict", wrong).status == 422
        printed = server.stop(signal.SIGINT)  # SIGTERM leaves the workers running
    assert not COMPILED.search(printed), printed
    assert "Traceback" not in printed
