"""What is below `_aot`: an index that no lookup reads whole, and the shapes of executables."""

from __future__ import annotations

import pytest

from aotbuild.verify.child_loading import Shape, differences, hlo_shape, stated_shapes


def test_shapes_of_hlo() -> None:
    text = (
        "HloModule jit_f, is_scheduled=true, input_output_alias={ {0}: (1, {}, may-alias) }, "
        "entry_computation_layout={(f32[4,8]{1,0}, /*index=5*/bf16[8,2]{0,1:T(8,128)}, pred[])"
        "->(u32[2]{0}, s4[3]{0:E(4)})}, num_partitions=2\n"
    )
    inputs = [Shape("f32[4,8]"), Shape("bf16[8,2]", row_major=False), Shape("pred[]")]
    assert stated_shapes(text) == (inputs, [Shape("u32[2]"), Shape("s4[3]")])
    assert stated_shapes("HloModule f, entry_computation_layout={()->f32[]}") == (
        [],
        [Shape("f32[]")],
    )
    assert stated_shapes("HloModule f") is None


@pytest.mark.parametrize(
    ("dtype", "short"),
    [
        *(("bool", "pred"), ("int32", "s32"), ("uint8", "u8"), ("bfloat16", "bf16")),
        *(("complex64", "c64"), ("float8_e4m3fn", "f8e4m3fn"), ("float4_e2m1fn", "f4e2m1fn")),
    ],
)
def test_dtypes_of_hlo(dtype: str, short: str) -> None:
    assert hlo_shape((2, 3), dtype) == f"{short}[2,3]"


def test_differences_of_shapes() -> None:
    found = [Shape("f32[2]"), Shape("f32[2,2]", row_major=False)]
    expected = ["f32[2]", "f32[2,2]"]
    assert differences("input", expected, found, row_major=False) == []
    assert differences("input", expected, found, row_major=True) == [
        "input 1: expected the row-major layout, found another"
    ]
