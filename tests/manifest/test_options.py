"""The options of a function: what each becomes, and how it is refused."""

from __future__ import annotations

import pytest
from support.manifests import function, manifest, refused, refused_option, whole

from aotbuild.manifest import MeshAxes, ShardingLike, ShardingTree
from aotbuild.manifest.function import Export


class TestDonateAndKeepUnused:
    def test_values(self) -> None:
        found = function("donate: [y], keep_unused: true")
        assert (found.donate, found.keep_unused) == (("y",), True)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ("donate: [yy]", "donate.0: 'yy' is neither in args nor in kwargs (did you mean 'y'?)"),
            ("donate: [x, x]", "donate.1: 'x' is listed twice"),
            ("donate: x", "donate: expected a list, found the text 'x'"),
            ("keep_unused: 1", "keep_unused: expected true or false, found the number 1"),
        ],
    )
    def test_refused(self, options: str, message: str) -> None:
        assert refused_option(options) == [message]


class TestFeedback:
    @pytest.mark.parametrize(("text", "names"), [("y", ("y",)), ("[y, x]", ("y", "x")), ("[]", ())])
    def test_values(self, text: str, names: tuple[str, ...]) -> None:
        assert function(f"feedback: {text}").feedback == names

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ("feedback: yy", ("feedback: 'yy' is neither in args nor in kwargs "
             "(did you mean 'y'?)")),
            ("feedback: 0", 'feedback: expected text, found the number 0; quote it: "0"'),
            ("feedback: {x: 1}", "feedback: expected text, found a map"),
        ],
    )  # fmt: skip
    def test_refused(self, options: str, message: str) -> None:
        assert refused_option(options) == [message]


class TestShardings:
    def test_values(self) -> None:
        found = function(
            "mesh: {data: 2, model: 4}, "
            "in_shardings: {x: [data, null, [model]], y: {w: {0: [], 'b': null}, c: {like: m:a}}}, "
            "out_shardings: [[data, model]]"
        )
        assert found.mesh == {"data": 2, "model": 4}
        assert found.in_shardings == {
            "x": MeshAxes(("data", None, ("model",))),
            "y": ShardingTree(
                (("w", ShardingTree(((0, MeshAxes(())), ("b", None)))), ("c", ShardingLike("m:a")))
            ),
        }
        assert found.out_shardings == MeshAxes((("data", "model"),))

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ("in_shardings: {x: [d]}", ("in_shardings: a sharding needs a mesh; "
             "add mesh: {axis: size}")),
            ("out_shardings: null", ("out_shardings: a sharding needs a mesh; "
             "add mesh: {axis: size}")),
            ("mesh: {data: 2}, in_shardings: {z: [data]}", ("in_shardings: 'z' is neither in args "
             "nor in kwargs; known: x, y")),
            ("mesh: {data: 2}, in_shardings: {x: [dta]}", ("in_shardings.x.0: unknown mesh axis "
             "'dta' (did you mean 'data'?)")),
            ("mesh: {d: 2}, out_shardings: [d, [d]]", ("out_shardings: the axis 'd' is used more "
             "than once")),
            ("mesh: {d: 2}, out_shardings: d", ("out_shardings: expected null, a list of mesh "
             "axes, a map of shardings, or like: module:attr, found the text 'd'")),
            ("mesh: {d: 2}, out_shardings: {like: specs}", ("out_shardings.like: expected "
             "module:qualname, found 'specs'")),
            ("mesh: {d: 2}, in_shardings: {x: {like: m:specs, w: [d]}}", ("in_shardings.x.like: "
             "like: stands alone, without other keys beside it")),
            ("mesh: {d: 2}, out_shardings: {}", ("out_shardings: an empty map shards nothing; "
             "write null for replicated")),
            ("mesh: {d: 0}", "mesh.d: expected at least 1, found the number 0"),
        ],
    )  # fmt: skip
    def test_refused(self, options: str, message: str) -> None:
        assert refused_option(options) == [message]

    def test_mesh_against_devices(self) -> None:
        targets = "targets: [cpu: {devices: 4}, cpu: {devices: 1}]\n"
        assert refused_option("mesh: {d: 2}", targets) == [
            "mesh: a mesh of 2 devices, but the targets have 4, 1; add a target with devices: 2"
        ]
        assert function("mesh: {d: 2, e: 2}", targets).mesh == {"d": 2, "e": 2}
        tpu = "targets: [cpu: {devices: 4}, tpu: {topology: ['v4:2x2x1', 'tpu7x:1x1x1']}]\n"
        assert function("mesh: {d: 2}", tpu)
        assert refused_option("mesh: {d: 3}", tpu) == [
            "mesh: a mesh of 3 devices, but the targets have 4, 2; add a target with devices: 3"
        ]
        assert refused_option("mesh: {d: 3}", "targets: [tpu: {topology: 'v5e:2x2'}]\n") == [
            (
                "mesh: a mesh of 3 devices, but the targets have 4; "
                "add a topology of so many, or change the mesh"
            )
        ]


def test_out_shardings_given() -> None:
    assert function("mesh: {d: 2}, out_shardings: null").out_shardings_given
    assert not function("mesh: {d: 2}").out_shardings_given


class TestMaps:
    def test_values(self) -> None:
        found = function(
            "compiler_options: {xla_a: true, xla_b: 1.5, xla_c: x}, "
            "config: {jax_enable_x64: true, jax_b: null}, env: {A: '1'}"
        )
        assert found.compiler_options == {"xla_a": True, "xla_b": 1.5, "xla_c": "x"}
        assert found.config == {"jax_enable_x64": True, "jax_b": None}
        assert found.env == {"A": "1"}

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ("env: {A: 1}", "env.A: expected text, found the number 1; quote it: \"1\""),
            ("env: {JAX_X: a}", "env: JAX_X is set by aotbuild; give jax's options under config:"),
            (
                "env: {XLA_FLAGS: a}",
                "env: XLA_FLAGS is set by aotbuild; give XLA's options under compiler_options:",
            ),
            (
                "env: {LIBTPU_INIT_ARGS: a}",
                (
                    "env: LIBTPU_INIT_ARGS is set by aotbuild; give XLA's options under "
                    "compiler_options:"
                ),
            ),
            (
                "env: {CUDA_ROOT: a}",
                "env: CUDA_ROOT is set by aotbuild, for compilers that see no device; leave it out",
            ),
            ("env: {A=B: a}", "env: expected the name of an environment variable, found 'A=B'"),
            ("config: {enable_x64: true}", ("config: a config name begins with 'jax_', found "
             "'enable_x64' (did you mean 'jax_enable_x64'?)")),
            ("verify: {rtol: 1}", "verify.rtol: expected less than 1, found the number 1"),
            ("verify: {atol: -1}", "verify.atol: expected at least 0, found the number -1"),
            ("config: {jax_a: [1]}", ("config.jax_a: expected one scalar value, "
             "not a list or map")),
            ("config: {jax_a: .inf}", "config.jax_a: expected a finite number"),
            ("compiler_options: {a: null}", ("compiler_options.a: expected one scalar value, "
             "found nothing (null)")),
            ("constants: hoisted", ("constants: expected embed or hoist, found the text 'hoisted' "
             "(did you mean 'hoist'?)")),
        ],
    )  # fmt: skip
    def test_refused(self, options: str, message: str) -> None:
        assert refused_option(options) == [message]


class TestExport:
    ARGS = "call: m:f, args: [x: 'f32[a, b]'], dims: {a: 1, b: 2}"
    PORTABLE = "targets: [cpu, portable]\n"

    def test_values(self) -> None:
        export = (
            "export: {dims: {a: n, b: 2*floordiv(n, 2) + 1}, constraints: [n <= 64, 'n >= 2'], "
            "disabled_checks: [platform, 'custom_call:foo']}"
        ).replace("2*floordiv(n, 2) + 1", "'2*floordiv(n, 2) + 1'")
        found = manifest(self.PORTABLE, f"{self.ARGS}, {export}").functions["f"].export
        assert found == Export(
            dims={"a": "n", "b": "2*floordiv(n, 2) + 1"},
            constraints=("n <= 64", "n >= 2"),
            disabled_checks=("platform", "custom_call:foo"),
        )

    def test_without_portable(self) -> None:
        message = "only the portable artifact uses this; add the target portable, or remove it"
        assert refused_option("export: {dims: {}}") == [f"export: {message}"]

    @pytest.mark.parametrize(
        ("export", "message"),
        [
            ("dims: {c: n}", "dims: unknown dim 'c'; known: a, b"),
            ("dims: {a: null}", "dims.a: expected text, found nothing (null)"),
            ("dims: {a: 3}", "dims.a: expected text, found the number 3; quote it: \"3\""),
            ("disabled_checks: [platfrom]", ("disabled_checks.0: expected platform or "
             "custom_call:NAME, found 'platfrom' (did you mean 'platform'?)")),
            ("symbolic: {}", (" unknown key 'symbolic'; known: dims, constraints, "
             "disabled_checks")),
        ],
    )  # fmt: skip
    def test_refused(self, export: str, message: str) -> None:
        found = refused(whole(self.PORTABLE, f"{self.ARGS}, export: {{{export}}}"))
        separator = ":" if message.startswith(" ") else "."
        assert found == [f"functions.f.export{separator}{message}"]
