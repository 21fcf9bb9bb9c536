"""Dims: what varies together is one, and no call is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aotbuild.record.dims import Dims, Shapes, find_dims

SIZES = st.integers(0, 3)


def calls_of(*calls: str) -> list[Shapes]:
    """Return calls of arguments that are one array each, as `2,64 2,64`."""
    return [
        tuple(((tuple(map(int, shape.split(","))) if shape != "-" else ()),) for shape in c.split())
        for c in calls
    ]


def names_of(dims: Dims) -> dict[tuple[int, int], str]:
    return {(argument, axis): name for (argument, _, axis), name in dims.names.items()}


def test_equal_sizes_that_differ_in_one_call_are_two_dims() -> None:
    dims = find_dims(calls_of("4 4", "8 8", "8 4"), ["x", "y"])
    assert names_of(dims) == {(0, 0): "x_0", (1, 0): "y_0"}


def test_the_first_axis_of_a_matrix_is_a_batch_and_that_of_a_vector_is_not() -> None:
    assert find_dims(calls_of("4,4", "5,4"), ["x"]).order == ("batch",)
    assert find_dims(calls_of("4", "5"), ["x"]).order == ("x_0",)
    assert find_dims(calls_of("4,2 2", "5,3 3"), ["x", "y"], taken=["batch"]).order == (
        "x_0",
        "x_1",
    )


@given(st.lists(st.tuples(st.tuples(SIZES, SIZES), st.tuples(SIZES)), min_size=1, max_size=6))
def test_the_rows_give_back_each_call(shapes: list[tuple[tuple[int, ...], ...]]) -> None:
    calls: list[Shapes] = [tuple((shape,) for shape in call) for call in shapes]
    dims = find_dims(calls, ["x", "y"])
    assert len(set(dims.order)) == len(dims.order)
    for call, row in zip(calls, dims.rows, strict=True):
        sizes = dict(zip(dims.order, row, strict=True))
        for argument, leaves in enumerate(call):
            for axis, size in enumerate(leaves[0]):
                name = dims.names.get((argument, 0, axis))
                assert size == (sizes[name] if name else calls[0][argument][0][axis])
