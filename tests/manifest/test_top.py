"""What stands outside the functions: version, package, targets, toolchains."""

from __future__ import annotations

import pytest
from support.manifests import manifest, refused, whole
from support.projects import PACKAGES

from aotbuild.errors import ManifestError
from aotbuild.manifest import load_manifest, parse_manifest
from aotbuild.manifest.model import ToolchainItem
from aotbuild.platforms.building import Request
from aotbuild.platforms.cpu.describe import CpuOptions
from aotbuild.platforms.cuda.describe import CudaOptions, GpuFiles
from aotbuild.platforms.cuda.presets import shipped_preset
from aotbuild.platforms.portable.describe import PortableOptions
from aotbuild.platforms.tpu.describe import TpuOptions


class TestTopLevel:
    def test_defaults(self) -> None:
        found = manifest()
        assert (found.version, found.package, found.runtime) == (1, "p", "jax")
        assert (found.fallback, found.targets, found.toolchains) == (
            "none",
            (Request("cpu", CpuOptions()),),
            (),
        )

    def test_complete(self) -> None:
        found = load_manifest(PACKAGES / "manifests" / "complete.yaml")
        assert [*found.functions] == ["logits", "step"]

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
            load_manifest(PACKAGES / "manifests" / "broken.yaml")
        assert len(caught.value.problems) == 17
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
            Request("cpu", CpuOptions()),
            Request("cpu", CpuOptions(isa=["x86-64-v3"], devices=2)),
            Request("cuda", CudaOptions(gpu=["h200"]), GpuFiles((shipped_preset("h200"),))),
            Request("tpu", TpuOptions(topology=["v5e:2x2"])),
            Request("portable", PortableOptions()),
        )

    def test_native(self) -> None:
        assert refused(whole("targets: [cpu: {isa: native}]\n")) == [
            (
                "targets.0.cpu.isa: 'native' leaks the machine that builds into the wheel; "
                "write 'host', or a level: x86-64-v2+avx, x86-64-v3, x86-64-v4, "
                "x86-64-v4+vnni, x86-64-v4+bf16, x86-64-v4+amx or aarch64"
            )
        ]

    @pytest.mark.parametrize(
        ("target", "message"),
        [
            ("cdua", "0: expected cpu, cuda, tpu or portable, found 'cdua' (did you mean 'cuda'?)"),
            ("gpu: {}", "0: unknown key 'gpu' (did you mean 'cuda'?)"),
            ("cuda: {gpu: H100}", ("0.cuda.gpu: unknown GPU 'H100' (did you mean 'h100-pcie' or "
             "'h100-sxm'?), or name a file of your own, such as ./my-gpu.yaml")),
            ("cpu: {isa: AVX512}", ("0.cpu.isa: expected host, x86-64-v2+avx, x86-64-v3, "
             "x86-64-v4, x86-64-v4+vnni, x86-64-v4+bf16, x86-64-v4+amx or aarch64, "
             "found 'AVX512' (did you mean 'x86-64-v4'?)")),
            ("cuda", "0: 'cuda' needs to know which one; write cuda: {gpu: h100-sxm}"),
            ("{}", "0: expected a map of one key: cpu, cuda, tpu or portable"),
            ("{cpu: {}, tpu: {topology: 'v4:2x2x1'}}", ("0: expected a map of one key: "
             "cpu, cuda, tpu or portable")),
            ("cpu: {devices: 0}", "0.cpu.devices: expected at least 1, found the number 0"),
            ("cuda: {devices: 1}", ("0.cuda: the key 'gpu' is missing "
             "(GPU models, such as h100-sxm, files of your own, such as ./my-gpu.yaml, or host: "
             "the GPU of the machine that builds)")),
            ("tpu: {topology: v5e}", ("0.tpu.topology: expected a topology such as 'v5e:2x2', "
             "of v4, v5e, v5p, v6e or tpu7x, found 'v5e'")),
            ("portable: {platforms: [gpu]}", ("0.portable.platforms.0: expected cpu, cuda, rocm "
             "or tpu, found the text 'gpu' (did you mean 'cuda'?)")),
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


class TestToolchains:
    def test_values(self) -> None:
        found = manifest('toolchains: [{jax: 0.10.2, python: "3.11"}, {jax: "0.11"}]\n').toolchains
        assert found == (ToolchainItem(jax="0.10.2", python="3.11"), ToolchainItem(jax="0.11"))

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
        assert found == ["toolchains.1: duplicate toolchain: jax 0.10.2 is already in toolchains.0"]
