"""FastAPI: the page's application behind uvicorn, gunicorn and WSGI."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.recipes import Recipe, expected_scores, has_module, install

pytestmark = pytest.mark.recipes

ROWS = [[1, 2, 3, 4], [0, 0, 0, 0]]


@pytest.fixture(scope="module")
def recipe(ranker: Path, tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    return install("fastapi", tmp_path_factory.mktemp("fastapi"), ranker)


def check_scores(recipe: Recipe, ranker: Path, count: int) -> None:
    rows = np.random.default_rng(1).normal(size=(count, 4)).tolist()
    answer = recipe.post("/score", {"rows": rows})
    assert answer.status == 200, answer
    np.testing.assert_allclose(answer.json["scores"], expected_scores(ranker, rows), rtol=1e-5)


def test_nothing_there_can_compile(recipe: Recipe) -> None:
    assert recipe.python is not None
    assert not has_module(recipe.python, "jax")


def test_uvicorn(recipe: Recipe, ranker: Path) -> None:
    uvicorn, health, score = recipe.commands[1:4]
    with recipe.serving(uvicorn, "Uvicorn running on") as server:
        assert recipe.curl(health).text == recipe.shown_after(health).rstrip()
        answer, shown = recipe.curl(score), recipe.shown_after(score)
        np.testing.assert_allclose(answer.json["scores"], expected_scores(ranker, ROWS), rtol=1e-5)
        np.testing.assert_allclose(answer.json["scores"], json.loads(shown)["scores"], rtol=1e-5)
        for count in (1, 3, 32, 33, 100):
            check_scores(recipe, ranker, count)
        for wrong in ([[1, 2, 3]], [], [[1, 2, 3, "x"]]):
            assert recipe.post("/score", {"rows": wrong}).status == 422
        stats = recipe.get("/stats").json
        assert (stats["loaded"], stats["fallbacks"]) == (3, {"portable": 0, "jit": 0})
        assert "Traceback" not in server.stop()


def test_gunicorn_after_its_fork(recipe: Recipe, ranker: Path) -> None:
    serving = recipe.serving("gunicorn app:app", "Application startup complete", times=2)
    with serving as server:
        for count in (1, 3, 33):
            check_scores(recipe, ranker, count)
        assert recipe.get("/healthz").json == {"loaded": 3}
        assert "Traceback" not in server.stop()
