"""The JSON schema: generated equals committed, and it judges as the reader does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import schemas

from aotbuild.manifest import json_schema
from aotbuild.manifest.model import schema_text

ROOT = Path(__file__).parents[2]
COMPLETE = ROOT / "tests" / "packages" / "manifests" / "complete.yaml"


def test_committed_is_generated() -> None:
    committed = (ROOT / "configs" / "aotbuild.schema.json").read_text(encoding="utf-8")
    assert committed == schema_text(), "run `aotbuild schema --out configs/aotbuild.schema.json`"


def test_every_key_is_described() -> None:
    schema = json_schema()
    models = [schema, *(d for d in schema["definitions"].values() if "properties" in d)]
    missing = [
        key for model in models for key, value in model["properties"].items()
        if "description" not in value
    ]  # fmt: skip
    assert missing == []


class TestValidator:
    @pytest.fixture
    def validator(self) -> Any:
        return schemas.validator(json_schema())

    @pytest.fixture
    def complete(self) -> Any:
        return yaml.safe_load(COMPLETE.read_text(encoding="utf-8"))

    def test_accepts(self, validator: Any, complete: Any) -> None:
        assert [e.message for e in validator.iter_errors(complete)] == []
        complete["targets"] = ["cpu", "portable", {"cpu": {"isa": "host"}}]
        complete["functions"]["logits"]["dims"] = {"batch": "1..8", "seq": ["1..2", 64]}
        assert validator.is_valid(json.loads(json.dumps(complete)))

    @pytest.mark.parametrize(
        ("path", "value"),
        [
            (("runtme",), "jax"),
            (("runtime",), "numpy"),
            (("version",), 2),
            (("targets",), ["cuda"]),
            (("targets",), [{"cpu": {"isa": "native"}}]),
            (("targets",), [{"cpu": {}, "tpu": {"topology": "v4:2x2x1"}}]),
            (("toolchains",), [{"jax": 0.1}]),
            (("functions", "logits", "donat"), ["x"]),
            (("functions", "logits", "env"), {"A": 1}),
            (("functions", "logits", "args"), [{"x": 3}]),
            (("functions", "logits", "args"), [{"x": {"like": "m:f", "dim": []}}]),
            (("functions", "logits", "dims"), {"a": "x"}),
            (("functions", "logits", "dims"), [{"a": "1..8"}]),
            (("functions", "logits", "mesh"), {"a": 0}),
            (("functions", "logits", "out_shardings"), "data"),
            (("functions", "logits", "export"), {"symbolic": {}}),
        ],
    )
    def test_refuses(self, validator: Any, complete: Any, path: Any, value: Any) -> None:
        inner = complete
        for step in path[:-1]:
            inner = inner[step]
        inner[path[-1]] = value
        assert not validator.is_valid(complete)
