"""MLflow: a model that is saved as code, and called in another process."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.recipes import Recipe, expected_scores, has_module, install

pytestmark = pytest.mark.recipes


@pytest.fixture(scope="module")
def recipe(ranker: Path, tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    found = install("mlflow", tmp_path_factory.mktemp("mlflow"), ranker)
    found.run(found.commands[1])
    return found


def test_a_fresh_process_calls_the_model(recipe: Recipe, ranker: Path) -> None:
    assert recipe.python is not None
    assert not has_module(recipe.python, "jax")
    scores = json.loads(recipe.run(recipe.commands[2]))
    rows = np.arange(400, dtype="float32").reshape(100, 4) / 400
    np.testing.assert_allclose(scores, expected_scores(ranker, rows), rtol=1e-5)


def test_the_model_is_code_and_names_the_wheel(recipe: Recipe) -> None:
    model = recipe.folder / "model"
    assert not list(model.rglob("*.pkl"))
    assert "ranker==1.0.0\n" in (model / "requirements.txt").read_text()
    code = "import aotbuild; print(aotbuild.load('ranker', arrays='numpy').digest)"
    digest = recipe.run(f'python -c "{code}"').strip()
    assert digest in (model / "MLmodel").read_text()


def test_a_frame_without_a_column_is_refused(recipe: Recipe) -> None:
    code = "import mlflow, pandas; m = mlflow.pyfunc.load_model('model'); "
    code += "m.predict(pandas.DataFrame([[1.0]], columns=['age']))"
    with pytest.raises(AssertionError, match="missing inputs"):
        recipe.run(f'python -c "{code}"')
