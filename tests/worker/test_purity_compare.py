"""Two traces of one function: what is the same program, and what is a difference."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.experimental import pallas as pl
from jax.extend.core import Primitive

from aotbuild.worker.purity.compare import Difference, first_difference

X = np.arange(4.0, dtype=np.float32)
A, B = (np.full(4, value, np.float32) for value in (2, 3))

# Returns the function to trace: for the first trace (False), and for the second one.
Make = Callable[[bool], Callable[..., Any]]


def compare(make: Make) -> Difference | None:
    """Compare the programs of the two traces."""
    return first_difference(*(jax.make_jaxpr(make(again))(X) for again in (False, True)))


def both(again: bool, *parts: Callable[[], Any]) -> tuple[Any, ...]:
    """Call two functions, the second time in reverse; return their results in their order."""
    results = [part() for part in (parts[::-1] if again else parts)]
    return tuple(results[::-1] if again else results)


def added(again: bool, x: Any) -> Any:
    """Compute x * A + x / B; A is captured first, or B is."""
    return sum(both(again, lambda: x * A, lambda: x / B))


def passed(again: bool, x: Any) -> Any:
    """Pass constants to a jitted function, in one order or the other."""
    if again:
        return jax.jit(lambda b, y, a: y * a / b)(B, x, A)
    return jax.jit(lambda a, b, y: y * a / b)(A, B, x)


def closed_over(again: bool, x: Any) -> Any:
    """Pass a constant, or close over it."""
    return jax.jit(lambda y: y * A)(x) if again else jax.jit(lambda y, a: y * a)(x, A)


def scanned(again: bool, x: Any) -> Any:
    return lax.scan(lambda c, y: (added(again, c), y), x, X)


def looped(again: bool, x: Any) -> Any:
    return lax.while_loop(lambda y: added(again, y).sum() < 9, lambda y: added(again, y), x)


def branched(again: bool, x: Any) -> Any:
    return lax.cond(x[0] > 0, lambda y: added(again, y), lambda y: y * B, x)


def solved(again: bool, x: Any) -> Any:
    return jax.scipy.sparse.linalg.cg(lambda y: added(again, y), x)[0]


def root(again: bool, x: Any) -> Any:
    def solve(f: Any, y: Any) -> Any:
        return y - f(y)

    return lax.custom_root(lambda y: added(again, y) - x, x, solve, lambda g, y: y / g(X))


def with_rule(again: bool, x: Any) -> Any:
    rule = jax.custom_jvp(functools.partial(added, again))
    rule.defjvp(lambda primals, tangents: (rule(*primals), tangents[0]))
    return rule(x)


def twice(again: bool, x: Any) -> Any:
    y = jnp.sin(x)
    return y * (jnp.sin(x) if again else y)


def named(again: bool, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function with another name each time, as a counter or a hash gives it."""

    def call(*args: Any) -> Any:
        return function(*args)

    call.__name__ = call.__qualname__ = f"f{again}"
    return call


def named_derivatives(again: bool, x: Any) -> Any:
    forward = jax.custom_jvp(named(again, jnp.sin))
    forward.defjvp(named(again, lambda primals, tangents: (primals[0], tangents[0])))
    reverse = jax.custom_vjp(named(again, jnp.sin))
    reverse.defvjp(named(again, lambda y: (y, y)), named(again, lambda _, g: (g,)))
    return jax.checkpoint(reverse, policy=named(again, lambda *_: False))(forward(x))


def named_kernel(again: bool, x: Any) -> Any:
    def double(source: Any, out: Any) -> None:
        out[...] = source[...] * 2

    kernel = named(again, double)
    return pl.pallas_call(kernel, out_shape=x, interpret=True, name=f"k{again}")(x)


SAME: dict[str, Make] = {
    "independent equations": lambda again: functools.partial(added, again),
    "results": lambda again: lambda x: both(again, lambda: x * A, lambda: x / B),
    "equal constants": lambda again: lambda x: x * A + (A.copy() if again else A),
    "jit": lambda again: jax.jit(functools.partial(added, again)),
    "passed": lambda again: functools.partial(passed, again),
    "closed over": lambda again: functools.partial(closed_over, again),
    "scan": lambda again: functools.partial(scanned, again),
    "while": lambda again: functools.partial(looped, again),
    "cond": lambda again: functools.partial(branched, again),
    "checkpoint": lambda again: jax.checkpoint(functools.partial(added, again)),
    "solver": lambda again: functools.partial(solved, again),
    "root": lambda again: functools.partial(root, again),
    "custom_jvp": lambda again: functools.partial(with_rule, again),
    "gradient": lambda again: jax.grad(lambda x: solved(again, scanned(again, x)[0]).sum()),
    "vmap": lambda again: jax.vmap(lambda y: added(again, y * X) @ A),
    "computed twice": lambda again: lambda x: twice(again, x),
    "name": lambda again: jax.jit(named(again, jnp.sin)),
    "name of a value": lambda again: lambda x: checkpoint_name(x, f"x{again}"),
    "names of rules": lambda again: functools.partial(named_derivatives, again),
    "name of a kernel": lambda again: functools.partial(named_kernel, again),
    "name of an operator": lambda again: (
        lambda x: lax.reduce(x, 0.0, named(again, lambda a, b: a * b + a), (0,))
    ),
    "never needed": lambda again: lambda x: (jnp.sin(x) if again else x + 7, x * 2)[1],
}


@pytest.mark.parametrize("name", SAME)
def test_the_same_program(name: str) -> None:
    assert compare(SAME[name]) is None


def test_a_primitive_may_have_an_open_jaxpr() -> None:
    """Lineax has the constants of such a jaxpr among the inputs of its own equation."""
    primitive = Primitive("solve")
    primitive.def_abstract_eval(lambda x, *_, jaxpr: x)

    def solve(again: bool, x: Any) -> Any:
        closed = jax.make_jaxpr(lambda y: y * flip(again, A, B)[0] + A)(X)
        return primitive.bind(x, *closed.consts, jaxpr=getattr(closed, "jaxpr", closed))

    assert compare(lambda _: functools.partial(solve, False)) is None
    assert compare(lambda again: functools.partial(solve, again)) is not None


def flip(again: bool, a: Any, b: Any) -> tuple[Any, Any]:
    return (b, a) if again else (a, b)


def swapped_carry(again: bool, x: Any) -> Any:
    # Both begin with the same value, and only one of them changes.
    return lax.fori_loop(0, 3, lambda _, c: flip(again, c[0] + 1, c[1]), (x, x))


def kernel(again: bool, x: Any) -> Any:
    def run(a: Any, first: Any, second: Any) -> None:
        for out in flip(again, first, second):
            out[...] = a[...] if out is first else a[...] * 2 + first[...]

    return pl.pallas_call(run, out_shape=(X, X), interpret=True)(x)


def drawn(again: bool, _: Any) -> Any:
    a, b = (lax.rng_uniform(jnp.float32(0), jnp.float32(1), (4,)) for _ in range(2))
    first, second = flip(again, a, b)
    return first - 2 * second


def written(again: bool, x: Any) -> Any:
    ref = jax.new_ref(jnp.asarray(x))
    for value in flip(again, x * 2, x * 3):
        ref[...] = value
    return ref[...]


def first_callback(x: Any) -> Any:
    return x


def second_callback(x: Any) -> Any:
    return x


# The function, and words of the difference.
DIFFERENT: dict[str, tuple[Make, str]] = {
    "constants": (lambda again: lambda x: x * flip(again, A, B)[0], "a constant, [2. 2. 2. 2.]"),
    "of inner ones": (
        lambda again: lambda x: jax.jit(lambda y, a: jnp.sin(y * a))(x, flip(again, A, B)[0]),
        "a constant, [2. 2. 2. 2.] then [3. 3. 3. 3.]",
    ),
    "constants of a loop": (
        lambda again: lambda x: lax.scan(lambda c, _: (c * flip(again, A, B)[0] + B, c), x, X),
        "a constant, [2. 2. 2. 2.] then [3. 3. 3. 3.]",
    ),
    "operands": (lambda again: lambda x: jnp.subtract(*flip(again, x * A, x)), "another input"),
    "zeros": (lambda again: lambda x: x * (-0.0 if again else 0.0), "0.0 then -0.0"),
    "dtype": (lambda again: lambda x: x.astype("int32" if again else "int8"), "new_dtype"),
    "carry": (lambda again: functools.partial(swapped_carry, again), "results"),
    "branches": (
        lambda again: lambda x: lax.cond(x[0] > 0, *flip(again, jnp.sin, jnp.cos), x),
        "other equations",
    ),
    "results": (lambda again: lambda x: flip(again, x * 2, x), "result 0 is another input"),
    "direction": (
        lambda again: lambda x: lax.scan(lambda c, y: (c * y, c), x[0], x, reverse=again),
        "reverse, False then True",
    ),
    "composite": (
        lambda again: lambda x: lax.composite(jnp.sin, f"name.{again}")(x),
        "name, name.False then name.True",
    ),
    "writes": (lambda again: functools.partial(written, again), "another input"),
    "kernel": (lambda again: functools.partial(kernel, again), ""),
    "random bits": (lambda again: functools.partial(drawn, again), "another input"),
    "solver": (lambda again: lambda x: solved(False, x * (2 if again else 1)), ""),
    "vector of a solver": (
        lambda again: (
            lambda x: lax.custom_linear_solve(
                lambda y: y * A, flip(again, x, x * 2)[0], lambda _, b: b / A
            )
        ),
        "another input",
    ),
    "callbacks": (
        lambda again: (
            lambda x: jax.pure_callback(np.cos if again else first_callback, x, x, vmap_method=None)
        ),
        "callback, ",
    ),
    "debug callbacks": (
        lambda again: lambda x: jax.debug.callback(second_callback if again else first_callback, x),
        "first_callback then ",
    ),
    "prints": (
        lambda again: lambda x: jax.debug.print("new {}" if again else "old {}", x),
        "",
    ),
    "less": (lambda again: lambda x: x if again else jnp.sin(x), "only the first trace has"),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_another_program(name: str) -> None:
    make, words = DIFFERENT[name]
    found = compare(make)
    assert found is not None
    assert words in found.what


def test_deep_programs_take_linear_time() -> None:
    def chain(x: Any) -> Any:
        for _ in range(3000):
            x = jnp.sin(x) + x
        return x

    assert compare(lambda _: chain) is None


def test_a_difference_in_an_inner_function_has_its_line() -> None:
    found = compare(lambda again: lambda x: swapped_carry(False, passed(False, x))[0] * (1 + again))
    assert found is not None
    assert "test_purity_compare.py" in found.line
    assert "= mul b 1.0" in found.first
    assert "= mul b 2.0" in found.second
