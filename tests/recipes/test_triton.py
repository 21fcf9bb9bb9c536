"""Triton: the model class over a fake of the server's module, and a configuration that parses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.recipes import Recipe, expected_scores, has_module, install

pytestmark = pytest.mark.recipes

# What the server gives to a model of Python: the names that its documentation lists.
FAKE = """
class Tensor:
    def __init__(self, name, array):
        self._name, self._array = name, array

    def name(self):
        return self._name

    def as_numpy(self):
        return self._array


class InferenceRequest:
    def __init__(self, tensors):
        self._tensors = tensors

    def inputs(self):
        return self._tensors


class InferenceResponse:
    def __init__(self, output_tensors, error=None):
        self._tensors = output_tensors

    def output_tensors(self):
        return self._tensors


def get_input_tensor_by_name(request, name):
    return next((each for each in request.inputs() if each.name() == name), None)
"""
# What the server does: one call of `execute` for several requests.
DRIVER = """
import json, sys
import numpy as np
sys.path.insert(0, "models/ranker/1")
import triton_python_backend_utils as pb_utils
from model import TritonPythonModel

batches = json.load(sys.stdin)
model = TritonPythonModel()
model.initialize({"model_name": "ranker", "model_version": "1"})
requests = [
    pb_utils.InferenceRequest([pb_utils.Tensor("x", np.array(rows, "float32"))]) for rows in batches
]
responses = model.execute(requests)
print(json.dumps([r.output_tensors()[0].as_numpy().tolist() for r in responses]))
print(json.dumps([r.output_tensors()[0].name() for r in responses]))
model.finalize()
"""
# NVIDIA's own definition of the configuration.
PARSE = """
import json, sys
from google.protobuf import json_format, text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

config = text_format.Parse(sys.stdin.read(), ModelConfig())
print(json.dumps(json_format.MessageToDict(config)))
"""


@pytest.fixture(scope="module")
def recipe(ranker: Path, tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    folder = tmp_path_factory.mktemp("triton")
    found = install("triton", folder, ranker, "tritonclient[grpc]==2.73.0")
    (found.folder / "triton_python_backend_utils.py").write_text(FAKE)
    return found


def test_the_model_scores_all_requests_at_once(recipe: Recipe, ranker: Path) -> None:
    assert recipe.python is not None
    assert not has_module(recipe.python, "jax")
    random = np.random.default_rng(1)
    batches = [random.normal(size=(count, 4)).tolist() for count in (1, 3, 7)]
    (recipe.folder / "driver.py").write_text(DRIVER)
    printed = recipe.run("python driver.py", stdin=json.dumps(batches))
    scores, names = map(json.loads, printed.splitlines())
    assert names == ["score"] * 3
    for rows, found in zip(batches, scores, strict=True):
        np.testing.assert_allclose(found, expected_scores(ranker, rows), rtol=1e-5)


def test_the_configuration_is_that_of_the_page_and_parses(recipe: Recipe) -> None:
    make, show = recipe.commands[1:]
    recipe.run(make)
    text = recipe.run(show)
    assert text == recipe.shown_after(show)
    (recipe.folder / "parse.py").write_text(PARSE)
    config = json.loads(recipe.run("python parse.py", stdin=text))
    assert config["maxBatchSize"] == 32
    assert config["input"] == [{"name": "x", "dataType": "TYPE_FP32", "dims": ["4"]}]
    (output,) = config["output"]
    assert output == {"name": "score", "dataType": "TYPE_FP32", "dims": ["1"], "reshape": {}}
    assert config["dynamicBatching"]["preferredBatchSize"] == [8, 32]


def test_wrong_configurations_are_refused(recipe: Recipe) -> None:
    (recipe.folder / "parse.py").write_text(PARSE)
    with pytest.raises(AssertionError, match="has no field named"):
        recipe.run("python parse.py", stdin="max_batch: 32")
