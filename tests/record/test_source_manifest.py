"""The text of a manifest: its names, its order, and that only `TODO` keeps it from being read."""

from __future__ import annotations

import pytest

from aotbuild.errors import ManifestError
from aotbuild.manifest import parse_manifest
from aotbuild.manifest.nodes import Problems, plain
from aotbuild.manifest.reader import read_yaml
from aotbuild.record.flow import flow
from aotbuild.record.source import ModuleSource
from aotbuild.record.source_find import find_functions
from aotbuild.record.source_functions import SourceFunction
from aotbuild.record.source_manifest import draft_entries, manifest_text

SOURCE = """
from functools import partial
import jax
from jax.sharding import PartitionSpec as P
from jaxtyping import Array, Float, Int

class Params: ...
def init() -> Params: ...

@partial(jax.jit, static_argnames=("mode", "n"), donate_argnums=0, in_shardings=(P("data"), None))
def step(
    state: Params,
    tokens: Int[Array, "batch seq"],
    other,  # [batch, d]
    *,
    scale: float,
    n: int,
    mode: str = "TODO",
    mask=None,
): ...

unknown = jax.jit(model.apply)
plain = jax.jit(lambda: 3, out_shardings=P())
"""


def draft(*calls: str, taken: tuple[str, ...] = ()) -> list[str]:
    functions = [SourceFunction(call, "m.py", 1, "jax.jit") for call in calls]
    return [entry.name for entry in draft_entries(functions, taken)]


def test_the_text() -> None:
    entries = draft_entries(find_functions(ModuleSource("p.m", "m.py", SOURCE)).functions)
    text = manifest_text("p", entries)
    assert (
        text
        == """\
# yaml-language-server: $schema=aotbuild.schema.json
# Replace each TODO; `aotbuild plan` says what to write there.
version: 1
package: p
functions:
  step:
    # left at their defaults: mask=None
    call: p.m:step
    args:
      - state: {like: "p.m:init"}  # init() returns a Params
      - tokens: i32[batch,seq]  # Int[Array, 'batch seq']
      - other: TODO[batch,d]  # [batch, d]
    kwargs:
      scale: ~f32[]  # float
    dims: {batch: TODO, seq: TODO, d: TODO}
    static: {n: TODO, mode: ["TODO"]}
    mesh: {data: TODO}
    in_shardings: {state: [data]}
    donate: [state]
  unknown:
    # the parameters of model.apply are not in this module
    call: p.m:unknown
    args: TODO
  plain:
    call: p.m:plain
    mesh: TODO
    out_shardings: []
"""
    )
    with pytest.raises(ManifestError) as caught:
        parse_manifest(text)
    assert all("TODO is left here" in problem.message for problem in caught.value.problems)
    assert [entry.todos for entry in entries] == [6, 1, 1]
    assert len(caught.value.problems) == 8


def test_a_manifest_without_todo_is_read() -> None:
    entries = draft_entries([SourceFunction("p.m:f", "m.py", 1, "jax.jit")])
    text = manifest_text("p", entries)
    assert "TODO" not in text
    assert parse_manifest(text).functions["f"].call == "p.m:f"


def test_names_that_yaml_reads_as_something_else() -> None:
    source = "import jax\n@jax.jit\ndef yes(\n    no,  # f32[2]\n    null,  # f32[3]\n): ...\n"
    functions = find_functions(ModuleSource("pkg.m", "pkg/m.py", source)).functions
    read = parse_manifest(manifest_text("pkg", draft_entries(functions))).functions
    assert [*read] == ["yes"]
    assert [*read["yes"].positional] == ["no", "null"]


class TestNames:
    def test_of_the_function(self) -> None:
        assert draft("m:step", "m:_step2", "m:Net.apply") == ["step", "step2", "apply"]

    def test_longer_where_one_is_taken(self) -> None:
        assert draft("a.m:f", "a.n:f", "b.n:f", "a.m:Net.f") == ["f", "n_f", "b_n_f", "net_f"]
        assert draft("m:f", "m:_f", "m:__f") == ["f", "m_f", "m_f_2"]
        assert draft("a.m:f", taken=("f",)) == ["m_f"]

    def test_of_what_is_called_like_a_function(self) -> None:
        assert draft("m:TrainState.__call__", "m:HTTPNet.__call__") == ["train_state", "http_net"]

    def test_not_of_the_library(self) -> None:
        assert draft("m:close", "m:lambda_", "m:Net.info") == ["m_close", "m_lambda", "net_info"]


VALUES = (
    *(None, True, 3, -1, 1.5, 1e30, 1e-7, float("inf"), "a", "TODO", "no", "null", "1", "", "a: b"),
    *("#", "é", "[x]", "~", "-", "x y", "=", "2024-01-31", "1e3", (1, (2, "on")), {"k": ["x"]}),
)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_is_read_as_it_was(value: object) -> None:
    problems = Problems("m")
    root = read_yaml(f"v: {flow(value)}", problems)
    assert root is not None
    assert problems.found == []

    def listed(each: object) -> object:
        return [listed(item) for item in each] if isinstance(each, tuple) else each

    assert plain(root) == {"v": listed(value)}
