"""A record must say of inputs and results what its compiled program has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from support.packages import build

from aotbuild.errors import TraceRefused
from aotbuild.format.aval import Aval
from aotbuild.format.record import Record
from aotbuild.worker.analysis import check_shapes
from aotbuild.worker.private import program_shapes

pytestmark = pytest.mark.any_jax

OTHER = Aval((3,), "float32")


def several(key: Any, x: Any, unused: Any) -> Any:
    return jax.random.split(key), x.astype(jnp.bfloat16), (x > 0).sum(axis=0), jnp.ones(())


ARGS = {"key": jax.random.key(0), "x": jnp.ones((3, 4)), "unused": jnp.ones(7)}


@pytest.fixture(scope="module")
def made() -> tuple[Record, tuple[Any, ...]]:
    shapes = program_shapes(jax.jit(several).lower(*ARGS.values()).compile())
    return build("several", several, ARGS).record, shapes


def test_what_was_compiled(made: tuple[Record, tuple[Any, ...]]) -> None:
    record, shapes = made
    assert shapes[0] == [("uint32", [2]), ("float32", [3, 4])]
    assert [dtype for dtype, _ in shapes[1]] == ["uint32", "bfloat16", "int32", "float32"]
    check_shapes(record, *shapes)


def _calling(**fields: Any) -> Callable[[Record], Record]:
    return lambda record: replace(record, calling=replace(record.calling, **fields))


def _output(number: int, **fields: Any) -> Callable[[Record], Record]:
    def change(record: Record) -> Record:
        outputs = list(record.calling.outputs)
        outputs[number] = replace(outputs[number], **fields)
        return _calling(outputs=tuple(outputs))(record)

    return change


def _leaf(record: Record) -> Record:
    leaves = (record.signature.leaves[0], OTHER, *record.signature.leaves[2:])
    return replace(record, signature=replace(record.signature, leaves=leaves))


@pytest.mark.parametrize(
    ("change", "expected", "found"),
    [
        (_output(1, shape=(3, 5)), "bfloat16[3, 5]", "bfloat16[3, 4]"),
        (_output(1, dtype="float32"), "float32[3, 4]", "bfloat16[3, 4]"),
        (_output(0, dtype="key<rbg>"), "uint32[2, 4]", "uint32[2, 2]"),
        (lambda r: _calling(outputs=r.calling.outputs[:-1])(r), "nothing", "float32[]"),
        (lambda r: _calling(outputs=(*r.calling.outputs, OTHER))(r), "float32[3]", "nothing"),
        (_calling(kept=(0, 1, 2)), "float32[7]", "nothing"),
        (_calling(kept=(1,)), "float32[3, 4]", "uint32[2]"),
        (_leaf, "float32[3]", "float32[3, 4]"),
    ],
)
def test_another_record(
    made: tuple[Record, tuple[Any, ...]],
    change: Callable[[Record], Record],
    expected: str,
    found: str,
) -> None:
    record, shapes = made
    with pytest.raises(TraceRefused) as caught:
        check_shapes(change(record), *shapes)
    assert f"\n  expected {expected}\n  found    {found}\n" in str(caught.value)


def test_the_part_of_one_device(made: tuple[Record, tuple[Any, ...]]) -> None:
    record = build("g", lambda x: x * 2, {"x": jnp.ones((8, 4))}).record
    specs = ((None, ("data", "model")),)
    record = _calling(mesh=(("data", 2), ("model", 2)), in_specs=specs, out_specs=specs)(record)
    check_shapes(record, [("float32", [8, 1])], [("float32", [8, 1])])
    with pytest.raises(TraceRefused, match="expected float32"):
        check_shapes(record, [("float32", [8, 4])], [("float32", [8, 1])])
