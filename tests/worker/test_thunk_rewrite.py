"""Executables without what nothing runs: the same results to the bit, in fewer bytes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
import pytest
from jax import lax

from aotbuild.format.protobuf import fields, replaced
from aotbuild.format.target import Target
from aotbuild.worker import private as jax_private
from aotbuild.worker.thunk_rewrite.canonical import _FEATURES, _MACHINE, canonical
from aotbuild.worker.thunk_rewrite.program import RESULT, shrink_program, split
from aotbuild.worker.thunk_rewrite.rewrite import LOADED, rewrite

# XLA then calls no library that builds pipelines.
FAST = {"xla_cpu_experimental_ynn_fusion_type": ""}

Function = Callable[..., Any]
JAXLIB = jaxlib.__version__
CPU = Target.parse("cpu:x86-64-v3:1")


def random(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def loaded(data: bytes) -> Any:
    return jax_private.load_executable(data, jax.devices("cpu")[0])


def module(data: bytes) -> Any:
    return loaded(data).hlo_modules()[0]


def layers(x: Any, w: Any) -> Any:
    for _ in range(3):
        x = jax.nn.softmax(jnp.tanh(x @ w) * 2 + x, -1)
    return x, x.sum()


def nested(x: Any) -> Any:
    def inner(d: Any, _: Any) -> Any:
        return lax.cond(d.sum() > 0, lambda d: d @ d / 9, lambda d: jnp.sin(d), d), d[0]

    return lax.scan(lambda c, _: lax.scan(inner, c, None, length=3), x, None, length=2)


# One for each way in which an instruction owns a buffer or has a computation of its own.
PROGRAMS: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "layers": (layers, (random(8, 64), random(64, 64))),
    "loops": (nested, (random(8, 8),)),
    "while": (
        lambda x: lax.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, s[1] * 1.1), (0, x)),
        (random(100),),
    ),
    "sort": (lambda x: (jnp.sort(x), jnp.argsort(x, -1), lax.top_k(x, 3)), (random(20, 30),)),
    "lapack": (lambda x: jnp.linalg.eigh(x + x.T), (random(12, 12),)),
    "random": (lambda k: jax.random.permutation(k, 20), (np.array([1, 2], np.uint32),)),
    "scatter": (lambda x, i: (x.at[i].add(1), x.at[i].set(2)), (random(50), np.arange(5))),
    "constants": (lambda x: (jnp.ones(5), x @ random(64, 64), jnp.arange(4)), (random(4, 64),)),
    "given back": (lambda x, y: (x, y + 1, x), (random(4), random(5))),
    "reduced": (lambda x: (x.sum(), x.max(0), jnp.argmax(x, 1), jnp.cumsum(x)), (random(30, 40),)),
    # XLA gives the constant of such a reducer a buffer, though no thunk reads it.
    "reducer": (lambda x: lax.reduce(x, 0.0, lambda a, b: a * 0.9 + b, (1,)), (random(30, 40),)),
    "convolution": (
        lambda x, k: lax.conv_general_dilated(x, k, (1, 1), "SAME").mean((2, 3)),
        (random(2, 3, 16, 16), random(8, 3, 3, 3)),
    ),
    "gradient": (
        lambda x, w: jax.grad(lambda w: layers(x, w)[1])(w),
        (random(8, 64), random(64, 64)),
    ),
}


def compiled(
    name: str, options: dict[str, Any] | None = None, **jit: Any
) -> tuple[bytes, list[Any]]:
    """Return the bytes of a program, as a worker gets them, and its arguments."""
    function, args = PROGRAMS[name]
    given = [np.asarray(jax.device_put(arg)) for arg in args]

    def flat(*leaves: Any) -> Any:
        return jax.tree.leaves(function(*leaves))

    lowered = jax.jit(flat, keep_unused=True, **jit).lower(*given)
    return jax_private.serialize_executable(lowered.compile(compiler_options=options)), given


def run(data: bytes, args: list[Any]) -> list[bytes]:
    device = jax.devices("cpu")[0]
    jax_private.prepare_custom_calls(data)
    executable = jax_private.load_executable(data, device)
    arrays = [jax.device_put(arg, device) for arg in args]
    return [output.tobytes() for output in jax_private.run_executable(executable, arrays)]


@pytest.mark.parametrize("options", [None, FAST], ids=["steady", "fast"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_results_to_the_bit(name: str, options: dict[str, Any] | None) -> None:
    data, args = compiled(name, options)
    smaller = shrink_program(data, JAXLIB)
    assert smaller is not None
    assert len(smaller) < len(data)
    assert run(smaller, args) == run(data, args)


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_program_has_one_sequence_of_bytes(name: str) -> None:
    found = []
    for _ in range(2):
        jax.clear_caches()
        # Each time, the number of its module is another one.
        found.append(compiled(name))
    (data, args), (again, _) = found
    assert again != data
    ordered = canonical(data, JAXLIB)
    assert canonical(ordered, JAXLIB) == ordered
    # XLA passes buffers to the one kernel of a small loop in any order, which is in its code.
    assert (canonical(again, JAXLIB) == ordered) or b"computation_kernel_emitter" in data
    assert run(ordered, args) == run(data, args)


def test_xla_says_nothing_of_features_that_no_code_uses(capfd: pytest.CaptureFixture[str]) -> None:
    """XLA logs an error for each feature of the machine that compiled, which this one lacks."""
    data, args = compiled("layers")
    head, body = split(data)
    foreign = head + replaced(body, [RESULT, _MACHINE, _FEATURES], b"+sse2,+xop,+kl")
    run(foreign, args)
    assert "+xop is not  supported" in capfd.readouterr().err
    silent = canonical(foreign, JAXLIB)
    assert silent == canonical(data, JAXLIB)
    assert run(silent, args) == run(data, args)
    assert capfd.readouterr().err == ""


def test_bytes_of_an_unknown_form_stay() -> None:
    data, _ = compiled("layers")
    assert canonical(data, "0.13.0") == data
    assert canonical(data[:-1], JAXLIB) == data[:-1]
    assert canonical(b"", JAXLIB) == b""


@pytest.mark.parametrize("size", [8, 400])
def test_it_is_started_in_a_thread_of_its_own_as_before(size: int) -> None:
    """XLA decides that by the operations that it counts in the program: 1,000 are many."""

    def elementwise(x: Any) -> Any:
        return jnp.sin(x) + x * x * x + x / 2

    lowered = jax.jit(elementwise).lower(random(size))
    data = jax_private.serialize_executable(lowered.compile())
    smaller, _ = rewrite(data, CPU, module(data))
    assert len(smaller) < len(data)
    counts = [loaded(each).cost_analysis().get("flops", 0) for each in (data, smaller)]
    assert [count >= 1000 for count in counts] == [size == 400] * 2


def test_the_program_is_what_went() -> None:
    data, _ = compiled("layers", FAST)
    smaller = shrink_program(data, JAXLIB)
    assert smaller is not None
    assert data.count(b"\x7fELF") == smaller.count(b"\x7fELF") > 0
    loaded = jax_private.load_executable(smaller, jax.devices("cpu")[0])
    text = loaded.hlo_modules()[0].to_string()
    assert "fusion(" not in text
    assert 'custom_call_target="aotbuild$compiled"' in text


@pytest.mark.parametrize("jaxlib_version", ["0.10.1", "0.13", "99", "unknown"])
def test_other_versions_of_jaxlib_are_left_alone(jaxlib_version: str) -> None:
    assert shrink_program(compiled("layers")[0], jaxlib_version) is None


def test_cut_bytes_are_left_alone() -> None:
    """Between two fields, the cut leaves a whole message, and nothing could tell."""
    data, _ = compiled("given back")
    head, body = split(data)
    ends = set(
        itertools.accumulate((len(field.whole) for field in fields(body)), initial=len(head))
    )
    for size in {*range(0, len(data), 97), *ends, *(end - 1 for end in ends)} - {len(data)}:
        if size not in ends:
            assert shrink_program(data[:size], JAXLIB) is None
        else:
            shrink_program(data[:size], JAXLIB)  # raises nothing


@pytest.mark.parametrize("target", ["cpu:x86-64-v3:4", "cuda:h200:1", "tpu:v5e:2x2:4"])
def test_other_targets_are_left_alone(target: str) -> None:
    data, _ = compiled("given back")
    assert rewrite(data, Target.parse(target), module(data)) == (data, {})
    assert rewrite(data, CPU, module(data)) == (shrink_program(data, JAXLIB), LOADED)


def test_what_xla_does_not_load_is_kept_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    data, _ = compiled("given back")
    program = module(data)

    def refuse(_: bytes, __: Any) -> None:
        msg = "no such program"
        raise RuntimeError(msg)

    monkeypatch.setattr(jax_private, "load_executable", refuse)
    assert rewrite(data, CPU, program) == (
        data,
        {
            "note": "shrink: XLA does not load the rewritten executable (no such program); the "
            "executable is kept as XLA made it. Please report this"
        },
    )
