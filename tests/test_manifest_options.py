"""Every option of the manifest: what it becomes, and how it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from aotbuild.build.manifest import (
    CpuTarget,
    CudaTarget,
    ExportOptions,
    FunctionEntry,
    Manifest,
    PartitionSpec,
    PortableTarget,
    ShardingTree,
    StaticArg,
    ToolchainRequest,
    TpuTarget,
    load_manifest,
    parse_manifest,
)
from aotbuild.errors import ManifestError

FIXTURES = Path(__file__).parent / "packages" / "manifests"
ENTRY = "call: m:f, args: [x: 'f32[4]', {y: 'f32[4]'}]"


def whole(extra: str = "", entry: str = ENTRY) -> str:
    """Return a manifest of one function on line 4, and more top-level keys after it."""
    return f"version: 1\npackage: p\nfunctions:\n  f: {{{entry}}}\n{extra}"


def manifest(extra: str = "", entry: str = ENTRY) -> Manifest:
    return parse_manifest(whole(extra, entry))


def function(options: str, extra: str = "") -> FunctionEntry:
    """Return the function with more options."""
    return manifest(extra, f"{ENTRY}, {options}").functions[0]


def refused(text: str) -> list[str]:
    """Return the problems without their positions."""
    with pytest.raises(ManifestError) as caught:
        parse_manifest(text)
    return [f"{p.path}: {p.message}" if p.path else p.message for p in caught.value.problems]


def refused_option(options: str, extra: str = "") -> list[str]:
    found = refused(whole(extra, f"{ENTRY}, {options}"))
    return [line.removeprefix("functions.f.") for line in found]


class TestTopLevel:
    def test_defaults(self) -> None:
        found = manifest()
        assert (found.version, found.package, found.runtime) == (1, "p", "jax")
        assert (found.fallback, found.targets, found.toolchains) == ("none", (CpuTarget(),), ())

    def test_complete(self) -> None:
        found = load_manifest(FIXTURES / "complete.yaml")
        assert [f.name for f in found.functions] == ["logits", "step"]
        assert (found.functions[0].line, found.functions[0].column) == (13, 3)

    def test_unknown_key(self) -> None:
        assert refused(whole("runtme: jax\n")) == ["unknown key 'runtme' (did you mean 'runtime'?)"]

    def test_missing_keys(self) -> None:
        assert refused("runtime: jax\n") == [
            "the key 'version' is missing (Version of this format: 1)",
            "the key 'package' is missing (The import package that receives _aot/)",
            (
                "the key 'functions' is missing "
                "(Name to function; the name is an attribute of the Library)"
            ),
        ]

    def test_all_problems_at_once(self) -> None:
        with pytest.raises(ManifestError) as caught:
            load_manifest(FIXTURES / "broken.yaml")
        assert len(caught.value.problems) == 19
        places = [(p.line, p.column) for p in caught.value.problems]
        assert places == sorted(places)


class TestVersion:
    def test_other(self) -> None:
        text = whole("nonsense: 1\n").replace("version: 1", "version: 2")
        assert refused(text) == [
            (
                "version: version 2 is not known, this is version 1; "
                "upgrade aotbuild, or write version: 1"
            )
        ]

    @pytest.mark.parametrize("text", ["'1'", "true", "1.0", "null", "[1]"])
    def test_kind(self, text: str) -> None:
        found = refused(whole().replace("version: 1", f"version: {text}"))
        assert found[0].startswith("version: expected a whole number, found ")


class TestPackage:
    def test_dotted(self) -> None:
        assert parse_manifest(whole().replace("package: p", "package: a.b")).package == "a.b"

    def test_dash(self) -> None:
        assert refused(whole().replace("package: p", "package: a-b")) == [
            "package: expected the name of an import package, found 'a-b' (did you mean 'a_b'?)"
        ]

    @pytest.mark.parametrize("name", ["a..b", "class", "a.import", "../x", "3a"])
    def test_refused(self, name: str) -> None:
        assert refused(whole().replace("package: p", f'package: "{name}"'))


class TestRuntimeAndFallback:
    def test_values(self) -> None:
        found = manifest("runtime: jaxlib\nfallback: portable\n")
        assert (found.runtime, found.fallback) == ("jaxlib", "portable")

    def test_near(self) -> None:
        assert refused(whole("runtime: jaxlb\nfallback: 3\n")) == [
            "runtime: expected jax or jaxlib, found the text 'jaxlb' (did you mean 'jaxlib'?)",
            "fallback: expected none, portable or jit, found the number 3",
        ]


class TestTargets:
    def test_forms(self) -> None:
        text = (
            "targets: [cpu, cpu: {isa: x86-64-v3, devices: 2}, cuda: {gpu: [h200]}, "
            'tpu: {topology: "v5e:2x2"}, portable]\n'
        )
        assert manifest(text).targets == (
            CpuTarget(),
            CpuTarget(("x86-64-v3",), 2),
            CudaTarget(("h200",), None),
            TpuTarget(("v5e:2x2",)),
            PortableTarget(),
        )

    def test_native(self) -> None:
        assert refused(whole("targets: [cpu: {isa: native}]\n")) == [
            (
                "targets.0.cpu.isa: 'native' leaks the machine that builds into the wheel; "
                "write 'host', or a level: x86-64-v2+avx, x86-64-v3, x86-64-v4 or aarch64"
            )
        ]

    @pytest.mark.parametrize(
        ("target", "message"),
        [
            ("cdua", "0: expected cpu, cuda, tpu or portable, found 'cdua' (did you mean 'cuda'?)"),
            ("cuda", "0: 'cuda' needs to know which one; write cuda: {gpu: h100-sxm}"),
            ("3", "0: expected a map, found the number 3"),
            ("{}", "0: expected a map of one key: cpu, cuda, tpu or portable"),
            ("{cpu: {}, tpu: {topology: 'v4:2'}}", ("0: expected a map of one key: "
             "cpu, cuda, tpu or portable")),
            ("cpu: {isa: x86-64-v9}", ("0.cpu.isa: expected host, x86-64-v2+avx, x86-64-v3, "
             "x86-64-v4 or aarch64, found 'x86-64-v9' (did you mean 'x86-64-v4'?)")),
            ("cpu: {devices: 0}", "0.cpu.devices: expected at least 1, found the number 0"),
            ("cuda: {devices: 1}", ("0.cuda: the key 'gpu' is missing "
             "(GPU models, such as h100-sxm)")),
            ("cuda: {gpus: h}", "0.cuda: unknown key 'gpus' (did you mean 'gpu'?)"),
            ("tpu: {topology: v5e}", ("0.tpu.topology: expected a topology such as 'v5e:2x2', "
             "found 'v5e'")),
            ("portable: {platforms: [gpu]}", ("0.portable.platforms.0: expected cpu, cuda, rocm "
             "or tpu, found the text 'gpu' (did you mean 'tpu'?)")),
            ("cpu: {isa: []}", ("0: this target names nothing to build for; "
             "expected at least one entry")),
        ],
    )  # fmt: skip
    def test_refused(self, target: str, message: str) -> None:
        assert f"targets.{message}" in refused(whole(f"targets: [{target}]\n"))

    def test_duplicate(self) -> None:
        assert refused(whole("targets: [cpu, cpu: {isa: [x86-64-v3, host]}]\n")) == [
            "targets.1: duplicate target 'cpu host', already in targets.0"
        ]
        assert refused(whole("targets: [cuda: {gpu: [h200, h200], devices: 2}]\n")) == [
            "targets.0: duplicate target 'cuda h200, devices 2', already in this one"
        ]

    def test_empty(self) -> None:
        found = ["targets: expected at least one entry, found an empty list"]
        assert refused(whole("targets: []\n")) == found


class TestToolchains:
    def test_values(self) -> None:
        found = manifest('toolchains: [{jax: 0.10.2, python: "3.11"}, {jax: "0.11"}]\n').toolchains
        assert found == (ToolchainRequest("0.10.2", "3.11"), ToolchainRequest("0.11", None))

    def test_numbers(self) -> None:
        assert refused(whole("toolchains: [{jax: 0.10, python: 3.11}]\n")) == [
            'toolchains.0.jax: expected text, found the number 0.10; quote it: "0.10"',
            'toolchains.0.python: expected text, found the number 3.11; quote it: "3.11"',
        ]

    @pytest.mark.parametrize("version", ["==0.10.2", ">=0.10", "latest", "0.10.*"])
    def test_not_exact(self, version: str) -> None:
        assert refused(whole(f'toolchains: [jax: "{version}"]\n')) == [
            f"toolchains.0.jax: expected one exact version such as '0.10.2', found '{version}'"
        ]

    def test_python(self) -> None:
        assert refused(whole('toolchains: [{jax: 0.10.2, python: "3.11.1"}]\n')) == [
            "toolchains.0.python: expected a version such as '3.11', found '3.11.1'"
        ]

    def test_duplicate(self) -> None:
        found = refused(whole("toolchains: [jax: 0.10.2, jax: 0.10.2]\n"))
        assert found == ["toolchains.1: duplicate toolchain, already in toolchains.0"]


class TestDefaults:
    def test_replaced_and_merged(self) -> None:
        defaults = "defaults: {donate: [x], keep_unused: true, env: {A: a, B: b}}\n"
        found = function("donate: [], env: {B: c}", defaults)
        assert (found.donate, found.keep_unused) == ((), True)
        assert found.env == (("A", "a"), ("B", "c"))

    def test_out_shardings_given(self) -> None:
        found = function("mesh: {d: 2}", "defaults: {out_shardings: null}\n")
        assert found.out_shardings_given
        assert not function("mesh: {d: 2}").out_shardings_given

    def test_problem_is_placed_in_defaults(self) -> None:
        with pytest.raises(ManifestError) as caught:
            manifest("defaults: {donate: [z]}\n")
        assert [str(p) for p in caught.value.problems] == [
            (
                "aot.yaml:5:21: functions.f.donate: 'z' is neither in args nor in kwargs; "
                "known: x, y (from defaults)"
            )
        ]

    @pytest.mark.parametrize("key", ["call", "args", "kwargs"])
    def test_of_one_function(self, key: str) -> None:
        found = refused(whole(f"defaults: {{{key}: x}}\n"))
        assert found == [f"defaults: '{key}' belongs to each function, not to defaults"]


class TestFunctionNames:
    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("class", "'class' is not a Python identifier in ASCII"),
            ("a-b", "'a-b' is not a Python identifier in ASCII"),
            ("_f", "'_f' begins with an underscore; choose a public name"),
            ("preload", "'preload' is a name of the Library itself; choose another one"),
            ('"on"', "'on' is a name of the Library itself; choose another one"),
        ],
    )
    def test_refused(self, name: str, message: str) -> None:
        found = refused(whole().replace("  f:", f"  {name}:"))
        assert [line.partition(": ")[2] for line in found] == [message]

    def test_number(self) -> None:
        found = refused(whole().replace("  f:", "  1:"))
        assert found[0].startswith("functions: expected a name, found '1'")

    def test_none(self) -> None:
        assert refused("version: 1\npackage: p\nfunctions: {}\n") == [
            "functions: expected at least one entry, found an empty map"
        ]

    def test_not_a_map(self) -> None:
        assert refused("version: 1\npackage: p\nfunctions: {f: m:f}\n") == [
            "functions.f: expected a map, found the text 'm:f'"
        ]


class TestCall:
    def test_method(self) -> None:
        assert manifest(entry="call: 'a.b:C.f'").functions[0].call == "a.b:C.f"

    def test_dot(self) -> None:
        assert refused(whole(entry="call: a.b.f")) == [
            "functions.f.call: expected module:qualname, found 'a.b.f' (did you mean 'a.b:f'?)"
        ]

    @pytest.mark.parametrize("call", ["f", "m:", ":f", "m:f()", "m:<locals>.f", "m:class", "m:f:g"])
    def test_refused(self, call: str) -> None:
        assert refused(whole(entry=f'call: "{call}"'))[0].startswith(
            "functions.f.call: expected module:qualname, found "
        )

    def test_missing_and_unknown(self) -> None:
        assert refused(whole(entry="cal: m:f")) == [
            "functions.f: the key 'call' is missing (Where the function is: module:qualname)",
            "functions.f: unknown key 'cal' (did you mean 'call'?)",
        ]


class TestDims:
    ARGS = "call: m:f, args: [x: 'f32[a, b]']"

    def test_product(self) -> None:
        found = manifest(entry=f"{self.ARGS}, dims: {{b: [1, 2], a: 3}}").functions[0]
        assert found.rows == ((("b", 1), ("a", 3)), (("b", 2), ("a", 3)))

    def test_rows(self) -> None:
        found = manifest(entry=f"{self.ARGS}, dims: [{{a: 1, b: 2}}, {{b: 4, a: 3}}]").functions[0]
        assert found.rows == ((("a", 1), ("b", 2)), (("a", 3), ("b", 4)))

    def test_none(self) -> None:
        assert manifest().functions[0].rows == ((),)

    @pytest.mark.parametrize(
        ("dims", "message"),
        [
            ("{a: 1, c: 2}", "args.x: unknown dim 'b'; known: a, c"),
            ("{a: [], b: 1}", "dims.a: expected at least one size, found an empty list"),
            ("{a: [2, 2], b: 1}", "dims.a: the size 2 is listed twice"),
            ("{a: -1, b: 1}", "dims.a: expected at least 0, found the number -1"),
            ("{a: x, b: 1}", "dims.a: expected a whole number, found the text 'x'"),
            ("{a: true, b: 1}", "dims.a: expected a whole number, found the boolean true"),
            ("[{a: 1, b: 2}, {a: 1}]", ("dims.1: all rows have the same dims; expected a, b, "
             "found a")),
            ("[{a: 1, b: 2}, {b: 2, a: 1}]", "dims.1: this row is listed twice"),
            ("[{a: 1, b: 2}, {}]", "dims.1: an empty row; give each dim a size"),
            ("3", "dims: expected a map, found the number 3"),
            ("{a: 1, b: 1, 'c d': 1}", "dims: 'c d' is not a Python identifier in ASCII"),
        ],
    )  # fmt: skip
    def test_refused(self, dims: str, message: str) -> None:
        found = refused(whole(entry=f"{self.ARGS}, dims: {dims}"))
        assert f"functions.f.{message}" in found

    def test_near_name(self) -> None:
        text = whole(
            entry="call: m:f, args: [x: 'f32[bacth]', {y: 'f32[batch]'}], dims: {batch: 2}"
        )
        assert refused(text) == ["functions.f.args.x: unknown dim 'bacth' (did you mean 'batch'?)"]

    def test_unused(self) -> None:
        with pytest.raises(ManifestError) as caught:
            function("dims: {a: 1}")
        assert caught.value.problems[0].message == (
            "the dim 'a' is used in no spec of args or kwargs; remove it"
        )

    def test_too_many_signatures(self) -> None:
        many = list(range(1, 400))
        found = refused(whole(entry=f"{self.ARGS}, dims: {{a: {many}, b: {many}}}"))
        assert found == [
            (
                "functions.f.dims: 159201 signatures; at most 100000 are built for a function; "
                "list the rows that are called"
            )
        ]


class TestStatic:
    def test_values(self) -> None:
        found = function("static: {flag: [true, 1, 1.0, null], 2: relu, t: [[1, [a]]]}").statics
        assert found == (
            StaticArg("flag", None, (True, 1, 1.0, None)),
            StaticArg(None, 2, ("relu",)),
            StaticArg("t", None, ((1, ("a",)),)),
        )

    @pytest.mark.parametrize(
        ("static", "message"),
        [
            ("{x: 1}", ("static: 'x' is an argument with a spec already; static or traced, "
             "not both")),
            ("{3: 1}", "static: position 3 is out of range; 3 positional arguments make it 0 to 2"),
            ("{-1: 1}", ("static: position -1 is out of range; 3 positional arguments make it "
             "0 to 2")),
            ("{s: []}", "static.s: expected at least one value, found an empty list"),
            ("{s: {}}", "static.s: expected a list of values, found an empty map"),
            ("{s: [1, 1]}", "static.s.1: the value '1' is listed twice"),
            ("{s: .nan}", "static.s: NaN equals no value, so no call could match it"),
            ("{s: [{a: 1}]}", ("static.s.0: a static value is hashable: null, a boolean, number, "
             "text, or a list of such; found a map")),
            ("{a-b: 1}", "static: 'a-b' is not a Python identifier in ASCII"),
        ],
    )  # fmt: skip
    def test_refused(self, static: str, message: str) -> None:
        assert refused_option(f"static: {static}") == [message]

    def test_positions_fill_gaps(self) -> None:
        assert [s.position for s in function("static: {0: 1, 3: 2}").statics] == [0, 3]


class TestArguments:
    @pytest.mark.parametrize(
        ("entry", "message"),
        [
            ("args: [{x: 'f32[]', y: 'f32[]'}]", ("args.0: expected a map of one key, name: spec, "
             "found 2 keys")),
            ("args: ['f32[]']", "args.0: expected a map, found the text 'f32[]'"),
            ("args: {x: 'f32[]'}", "args: expected a list, found a map"),
            ("args: [x: 'f32[]', x: 'f32[]']", "args: the argument 'x' is listed twice"),
            ("args: [x: 'f32[]'], kwargs: {x: 'f32[]'}", ("kwargs: 'x' is listed under args "
             "already")),
            ("kwargs: {a b: 'f32[]'}", "kwargs: 'a b' is not a Python identifier in ASCII"),
        ],
    )  # fmt: skip
    def test_refused(self, entry: str, message: str) -> None:
        assert refused(whole(entry=f"call: m:f, {entry}")) == [f"functions.f.{message}"]


class TestDonateAndKeepUnused:
    def test_values(self) -> None:
        found = function("donate: [y], keep_unused: true")
        assert (found.donate, found.keep_unused) == (("y",), True)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ("donate: [yy]", "donate: 'yy' is neither in args nor in kwargs (did you mean 'y'?)"),
            ("donate: [x, x]", "donate: 'x' is listed twice"),
            ("donate: x", "donate: expected a list, found the text 'x'"),
            ("donate: [0]", 'donate.0: expected text, found the number 0; quote it: "0"'),
            ("keep_unused: 1", "keep_unused: expected true or false, found the number 1"),
        ],
    )
    def test_refused(self, options: str, message: str) -> None:
        assert refused_option(options) == [message]


class TestShardings:
    def test_values(self) -> None:
        found = function(
            "mesh: {data: 2, model: 4}, "
            "in_shardings: {x: [data, null, [model]], y: {w: {0: [], 'b': null}}}, "
            "out_shardings: [[data, model]]"
        )
        assert found.mesh == (("data", 2), ("model", 4))
        assert found.in_shardings == (
            ("x", PartitionSpec(("data", None, ("model",)))),
            (
                "y",
                ShardingTree((("w", ShardingTree(((0, PartitionSpec(())), ("b", None)))),)),
            ),
        )
        assert found.out_shardings == PartitionSpec((("data", "model"),))

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
             "axes, or a map of shardings, found the text 'd'")),
            ("mesh: {d: 2}, out_shardings: [1]", ("out_shardings.0: expected the name of a mesh "
             "axis, found the number 1")),
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
        assert function("mesh: {d: 2, e: 2}", targets).mesh == (("d", 2), ("e", 2))
        assert function("mesh: {d: 2}", "targets: [cpu: {devices: 4}, tpu: {topology: 'v4:2'}]\n")


class TestMaps:
    def test_values(self) -> None:
        found = function(
            "compiler_options: {xla_a: true, xla_b: 1.5, xla_c: x}, "
            "config: {jax_enable_x64: true, jax_b: null}, env: {A: '1'}"
        )
        assert found.compiler_options == (("xla_a", True), ("xla_b", 1.5), ("xla_c", "x"))
        assert found.config == (("jax_enable_x64", True), ("jax_b", None))
        assert found.env == (("A", "1"),)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ("env: {A: 1}", "env.A: expected text, found the number 1; quote it: \"1\""),
            ("env: {A: true}", "env.A: expected text, found the boolean true; quote it: \"true\""),
            ("env: {A: null}", "env.A: expected text, found nothing (null)"),
            ("env: {JAX_X: a}", "env: JAX_X is set by aotbuild; give jax's options under config:"),
            (
                "env: {XLA_FLAGS: a}",
                "env: XLA_FLAGS is set by aotbuild; give XLA's options under compiler_options:",
            ),
            ("env: {A=B: a}", "env: expected the name of an environment variable, found 'A=B'"),
            ("config: {enable_x64: true}", ("config: a config name begins with 'jax_', found "
             "'enable_x64' (did you mean 'jax_enable_x64'?)")),
            ("config: {jax_a: [1]}", ("config.jax_a: expected one scalar value, "
             "not a list or map")),
            ("config: {jax_a: .inf}", "config.jax_a: expected a finite number"),
            ("compiler_options: {a: null}", ("compiler_options.a: expected one scalar value, "
             "found nothing (null)")),
            ("compiler_options: [a]", "compiler_options: expected a map, found a list"),
            ("constants: hoisted", ("constants: expected embed or hoist, found the text 'hoisted' "
             "(did you mean 'hoist'?)")),
        ],
    )  # fmt: skip
    def test_refused(self, options: str, message: str) -> None:
        assert refused_option(options) == [message]

    def test_constants(self) -> None:
        assert function("constants: hoist").constants == "hoist"


class TestExport:
    ARGS = "call: m:f, args: [x: 'f32[a, b]'], dims: {a: 1, b: 2}"
    PORTABLE = "targets: [cpu, portable]\n"

    def test_values(self) -> None:
        export = (
            "export: {dims: {a: n, b: 2*floordiv(n, 2) + 1}, constraints: [n <= 64, 'n >= 2'], "
            "vjp_order: 2, disabled_checks: [platform, 'custom_call:foo']}"
        ).replace("2*floordiv(n, 2) + 1", "'2*floordiv(n, 2) + 1'")
        found = manifest(self.PORTABLE, f"{self.ARGS}, {export}").functions[0].export
        assert found == ExportOptions(
            (("a", "n"), ("b", "2*floordiv(n, 2) + 1")),
            ("n <= 64", "n >= 2"),
            2,
            ("platform", "custom_call:foo"),
        )

    def test_default(self) -> None:
        assert manifest().functions[0].export == ExportOptions()

    def test_without_portable(self) -> None:
        message = "only the portable artifact uses this; add the target portable, or remove it"
        assert refused_option("export: {vjp_order: 1}") == [f"export: {message}"]
        found = refused(whole("defaults: {export: {vjp_order: 1}}\n"))
        assert found == [f"defaults.export: {message}"]

    @pytest.mark.parametrize(
        ("export", "message"),
        [
            ("dims: {c: n}", "dims: unknown dim 'c'; known: a, b"),
            ("dims: {a: n n}", "dims.a: expected an expression such as 'b' or '2*s', found 'n n'"),
            ("dims: {a: null}", "dims.a: expected text, found nothing (null)"),
            ("dims: {a: 3}", "dims.a: expected text, found the number 3; quote it: \"3\""),
            ("dims: {a: n}, constraints: [m <= 3]", ("constraints: unknown symbol 'm'; "
             "give it to a dim under export.dims")),
            ("dims: {a: n}, constraints: [n < 3]", ("constraints: expected a constraint such as "
             "'b <= 64', found 'n < 3'")),
            ("vjp_order: 3", "vjp_order: expected at most 2, found the number 3"),
            ("disabled_checks: [platfrom]", ("disabled_checks.0: expected platform or "
             "custom_call:NAME, found 'platfrom' (did you mean 'platform'?)")),
            ("symbolic: {}", (" unknown key 'symbolic'; known: dims, constraints, vjp_order, "
             "disabled_checks")),
        ],
    )  # fmt: skip
    def test_refused(self, export: str, message: str) -> None:
        found = refused(whole(self.PORTABLE, f"{self.ARGS}, export: {{{export}}}"))
        separator = ":" if message.startswith(" ") else "."
        assert found == [f"functions.f.export{separator}{message}"]

    @pytest.mark.parametrize(
        "text", ["()", "n +", "n(2)", "(n", "n)", "1.5", "n; m", "", "n*" * 200]
    )
    def test_expression(self, text: str) -> None:
        found = refused(whole(self.PORTABLE, f"{self.ARGS}, export: {{dims: {{a: '{text}'}}}}"))
        assert "expected an expression" in found[0]
