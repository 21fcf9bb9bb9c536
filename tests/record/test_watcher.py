"""Calls of jitted functions are recorded as they are made, and nothing of the program changes."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import watched_functions as functions
from support.forks import forked

from aotbuild.errors import AotbuildError
from aotbuild.record import private, watcher
from aotbuild.record.call_log import CallLog, ObservedCall, ObservedFunction, read_call_log
from aotbuild.record.recorder import Recorder
from aotbuild.record.specs import avals_in

HERE = "support.watched_functions"
X = np.ones(4, np.float32)


@pytest.fixture(autouse=True)
def _nothing_is_compiled() -> Iterator[None]:
    jax.clear_caches()
    yield
    assert not private._watching


Record = Callable[[Callable[[], Any]], CallLog]


def one(found: CallLog, name: str) -> tuple[ObservedFunction, list[ObservedCall]]:
    """Return the function of a name, and its calls."""
    known = [
        each for each in found.functions.values() if each.call.endswith((f":{name}", f".{name}"))
    ]
    assert len(known) == 1, [each.call for each in found.functions.values()]
    return known[0], [*found.of(known[0].key).values()]


def counts(found: CallLog, name: str) -> list[int]:
    """Return how often each signature was called."""
    return [found.tally([call.key]).calls for call in one(found, name)[1]]


def avals(call: ObservedCall) -> list[str]:
    return [aval for argument in call.arguments for aval in avals_in(argument.spec)]


class TestWhatIsRecorded:
    def test_a_call(self, recorded: Record) -> None:
        found = recorded(lambda: [functions.plain(X) for _ in range(3)])
        function, (call,) = one(found, "plain")
        assert (function.call, function.positional, function.problem) == (
            f"{HERE}:plain",
            ("x",),
            "",
        )
        assert Path(function.file).name == "watched_functions.py"
        source = Path(function.file).read_text().splitlines()
        assert "def plain" in "".join(source[function.line - 1 : function.line + 1])
        assert (avals(call), call.platform, call.problem) == (["f32[4]"], "cpu", "")
        tally = found.tally([call.key])
        assert tally.calls == 3
        assert tally.seconds > 0

    def test_keys_that_are_no_text_are_named(self, recorded: Record) -> None:
        """Those of `nnx.to_pure_dict` for a list of modules are numbers."""
        found = recorded(lambda: jax.jit(functions.first_leaf)({"blocks": {0: X}}))
        (argument,) = one(found, "first_leaf")[1][0].arguments
        assert argument.spec == {"blocks": "TODO ['blocks']: a dict whose keys are no text"}

    def test_static_donated_and_left_out_arguments(self, recorded: Record) -> None:
        def work() -> None:
            functions.with_options(jnp.ones(2), 5)
            functions.with_options(jnp.ones(2), k=True)
            functions.with_options(jnp.ones(2), k=1)
            functions.with_options(x=jnp.ones(2), y=None)

        function, calls = one(recorded(work), "with_options")
        assert (function.static, function.donate, function.keywords) == (("k",), ("x",), ("y",))
        assert function.options == {"keep_unused": True}
        assert [dict(call.statics) for call in calls] == [{"k": 5}, {"k": True}, {"k": 1}, {}]
        assert [[a.name for a in call.arguments] for call in calls] == [["x"]] * 3 + [["x", "y"]]

    def test_a_nested_jit_is_a_part_of_the_outer_one(self, recorded: Record) -> None:
        found = recorded(lambda: functions.nested(X))
        assert [each.call for each in found.functions.values()] == [f"{HERE}:nested"]

    def test_eager_transformations_and_operations_are_not_recorded(self, recorded: Record) -> None:
        def work() -> None:
            jax.grad(lambda x: functions.plain(x).sum())(X)
            jax.vmap(functions.plain)(X)
            jax.jit(lambda x: jax.vmap(functions.plain)(x))(X)  # a part of the lambda
            jax.vmap(lambda y: functions.plain(X) + y)(X)  # a call of its own
            jnp.mean(X)

        found = recorded(work)
        assert counts(found, "plain") == [1]
        assert len(found.functions) == 2

    def test_rules_effects_and_callbacks(self, recorded: Record) -> None:
        work = functions.ruled, functions.gradient, functions.with_effects
        found = recorded(lambda: [function(X) for function in work])
        for name in ("with_rule", "gradient", "with_effects"):
            function, (call,) = one(found, name)
            assert (function.problem, call.problem, avals(call)) == ("", "", ["f32[4]"])

    def test_weak_types_numbers_and_keys(self, recorded: Record) -> None:
        def work() -> None:
            functions.mixed(1, 2.5, jax.random.key(0))
            functions.mixed(True, jnp.ones((), jnp.bfloat16), jax.random.PRNGKey(0))

        found = recorded(work)
        assert [avals(call) for call in one(found, "mixed")[1]] == [
            ["~i32[]", "~f32[]", "key<fry>[]"],
            ["bool[]", "bf16[]", "u32[2]"],
        ]

    def test_settings_that_decide_a_trace(self, recorded: Record) -> None:
        def work() -> None:
            functions.plain(X)
            with jax.default_matmul_precision("highest"):
                functions.plain(X)
                functions.plain(X)
            with jax.enable_x64(True):
                functions.plain(np.ones(4))

        found = recorded(work)
        calls = one(found, "plain")[1]
        assert [call.config for call in calls] == [
            {},
            {"jax_default_matmul_precision": "highest"},
            {"jax_enable_x64": True},
        ]
        assert avals(calls[2]) == ["f64[4]"]
        assert counts(found, "plain") == [1, 2, 1]

    def test_signatures_in_turn(self, recorded: Record) -> None:
        """Also where the C++ dispatch has one entry, and then another one."""
        arrays = [np.ones(n, np.float32) for n in (4, 5, 6)]
        one_jit, other = jax.jit(functions.first_leaf), jax.jit(functions.first_leaf)

        def work() -> None:
            for each in (0, 0, 0, 1, 0, 1):
                functions.plain(arrays[each])
            functions.plain.clear_cache()
            for _ in range(3):
                functions.plain(arrays[2])
            for tree in ({"a": X}, {"a": X}, {"b": X}, [X], {"a": X}):
                one_jit(tree)
                other(tree)

        found = recorded(work)
        assert [avals(call) for call in one(found, "plain")[1]] == [
            ["f32[4]"],
            ["f32[5]"],
            ["f32[6]"],
        ]
        assert counts(found, "plain") == [4, 2, 3]
        assert counts(found, "first_leaf") == [6, 2, 2]

    def test_thousands_of_signatures(
        self, recorded: Record, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(watcher, "MOST_CALLS", 20)
        static = jax.jit(functions.scaled, static_argnums=0)
        found = recorded(lambda: [static(n, X) for n in range(30) for _ in range(2)])
        _, calls = one(found, "scaled")
        assert len(calls) == 21
        assert "was called with more than" in calls[-1].problem
        assert counts(found, "scaled") == [2] * 20 + [20]


class TestNames:
    @pytest.mark.parametrize(
        ("function", "name"),
        [
            (functions.step, "step"),
            (functions.named_lambda, "named_lambda"),
            (functions.twice, "twice"),
            (functions.ruled, "with_rule"),
        ],
    )
    def test_a_global_that_is_the_jit(
        self, recorded: Record, function: Callable[[Any], Any], name: str
    ) -> None:
        found, (call,) = one(recorded(lambda: function(X)), name)
        assert (found.call, found.problem, call.problem) == (f"{HERE}:{name}", "", "")

    @pytest.mark.parametrize(
        ("function", "name", "problem"),
        [
            (jax.jit(lambda x: x - 1), "<lambda>", "it is a lambda: define it with def"),
            (functions.made(3.0), "made.<locals>.closure", "it is defined inside a function"),
            (jax.jit(functions.Model().step), "Model.step", "no name leads to it: assign its jit"),
            (functions.variadic, "variadic", "it takes *values: give its parameters names"),
        ],
    )
    def test_what_no_manifest_can_name(
        self, recorded: Record, function: Callable[[Any], Any], name: str, problem: str
    ) -> None:
        found = next(iter(recorded(lambda: function(X)).functions.values()))
        assert found.call.endswith(name)
        assert found.problem.startswith(problem)
        assert found.line > 0

    def test_a_method_with_a_static_self(self, recorded: Record) -> None:
        found, (call,) = one(recorded(lambda: functions.MODEL.method(X)), "Model.method")
        assert found.problem == ""
        assert dict(call.statics) == {"self": {"object": [f"{HERE}:Model", []]}}


class TestTheProgramIsAsItWas:
    def test_results_and_the_cpp_cache(self, recorded: Record) -> None:
        runs: list[Any] = []
        traced: list[int] = []
        function = jax.jit(lambda x, y: (traced.append(1), x * y)[1])

        def work() -> None:
            jax.clear_caches()
            results = [function(x, y) for x in (X, 2, 1j) for y in (X, 3.0) for _ in range(2)]
            runs.append([(r.aval, r.committed, np.asarray(r).tolist()) for r in results])
            runs.append((function._cache_size(), len(traced)))
            traced.clear()

        work()
        recorded(work)
        assert runs[:2] == runs[2:]

    def test_a_warm_call_stays_warm(self, recorded: Record) -> None:
        misses: list[Any] = []
        function = jax.jit(lambda x: x)
        function(X)
        before = private.pjit._run_python_pjit

        def work() -> None:
            during = private.pjit._run_python_pjit
            private.pjit._run_python_pjit = lambda *given: (misses.append(1), during(*given))[1]
            for _ in range(5):
                function(X)
            private.pjit._run_python_pjit = during

        found = recorded(work)
        assert misses == []
        assert private.pjit._run_python_pjit is before
        assert found.tally(found.calls).calls == 5

    def test_exceptions(self, recorded: Record) -> None:
        def work() -> None:
            with pytest.raises(ZeroDivisionError):
                functions.raising(X)
            with pytest.raises(TypeError, match="Error interpreting argument"):
                functions.plain(object())
            with pytest.raises(ValueError, match="Non-hashable static arguments"):
                functions.with_options(X, [])

        assert recorded(work).calls == {}

    def test_a_function_that_the_program_drops(self, recorded: Record) -> None:
        alive: list[Any] = []

        def call() -> None:
            weight = jnp.ones(1000)
            function = jax.jit(lambda x: x * weight[0])
            alive.extend(map(weakref.ref, (function, weight)))
            for _ in range(3):
                function(X)

        def work() -> None:
            call()
            jax.clear_caches()
            gc.collect()
            assert [each() for each in alive] == [None, None]

        found = recorded(work)
        assert counts(found, "<lambda>") == [3]


class TestNan:
    def test_for_the_process(self, recorded: Record) -> None:
        nan = np.full(4, np.nan, np.float32)
        functions.plain(nan)

        def work() -> None:
            jax.config.update("jax_debug_nans", True)
            with pytest.raises(FloatingPointError):
                functions.plain(nan)
            jax.config.update("jax_debug_nans", False)
            functions.plain(nan)
            jax.config.update("jax_debug_nans", True)

        try:
            assert counts(recorded(work), "plain")[0] >= 1
            with pytest.raises(FloatingPointError):  # after the recording, too
                functions.plain(nan)
        finally:
            jax.config.update("jax_debug_nans", False)
        functions.plain(nan)


class TestRecorders:
    def test_two_at_once(self, tmp_path: Path) -> None:
        with Recorder(tmp_path / "one.jsonl"):
            with pytest.raises(AotbuildError, match="this process is recorded already"):
                Recorder(tmp_path / "other.jsonl").start()
            functions.plain(X)
        assert not (tmp_path / "other.jsonl").exists()


@pytest.mark.process
def test_several_devices_are_left_out(tmp_path: Path) -> None:
    """Sharded arguments, the shardings of a jit, and a mesh of the context."""
    assert forked(SHARDED, devices=2, path=tmp_path) == 2
    found = read_call_log(tmp_path / "calls.jsonl")
    problems = sorted(call.problem[:26] for call in found.calls.values())
    assert problems == ["", *["it runs on several devices"] * 3]


SHARDED = """
import jax, numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from support import watched_functions as functions
from aotbuild.record import Recorder

X = np.ones((4, 2), np.float32)
mesh = jax.make_mesh((2,), ("data",))
split = NamedSharding(mesh, PartitionSpec("data"))
with Recorder("calls.jsonl"):
    for _ in range(2):
        functions.plain(X)
        functions.plain(jax.device_put(X, split))
        jax.jit(functions.first_leaf, in_shardings=split)(X)
        with jax.set_mesh(mesh):
            functions.nested(X)
print(jax.device_count())
"""
