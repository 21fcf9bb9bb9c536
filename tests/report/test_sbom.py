"""The bill of materials: valid, reproducible, complete, and harmless whatever a wheel says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
import zipfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.cli import Result, invoke
from support.reports import HEADER, WEIGHTS, make_blob, make_function, make_record, write_package
from support.schemas import is_bill_of_materials

from aotbuild.format.canonical import sha256_hex
from aotbuild.format.record import Golden, Record
from aotbuild.report.sbom import SBOM_LIBRARY, sbom_json, timestamp_of
from aotbuild.runtime.distribution import Distribution
from aotbuild.runtime.source import DirectorySource

ROOT = Path(__file__).parents[2]
TARGETS = ("cpu:x86-64-v3:1", "portable:cpu:1")
STABLEHLO = "5" * 64
WHEEL = Distribution("The_Pack", "1.2+local")


def make_records() -> list[Record]:
    built = {
        "stablehlo": STABLEHLO,
        "xla_flags": "--xla_cpu_max_isa=AVX2 --xla_dump_to=/build/machine/dump",
        "compiler_options": {"xla_gpu_cuda_data_dir": "/build/machine/cuda", "depth": 3},
    }
    native = make_record(target=TARGETS[0], constants=True, provenance=built)
    return [native, make_record(target=TARGETS[1])]


@pytest.fixture(autouse=True)
def _no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_package(tmp_path / "pack", [make_function()], make_records())


def document_of(folder: Path, wheel: Distribution | None = WHEEL) -> dict[str, Any]:
    data = sbom_json(DirectorySource(folder), wheel)
    assert is_bill_of_materials(data.decode())
    return dict(json.loads(data))


def component(document: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = (c for c in document["components"] if c["name"] == name)
    return dict(found)


def properties(component: dict[str, Any]) -> dict[str, str]:
    return {item["name"]: item["value"] for item in component["properties"]}


def needs(document: dict[str, Any], ref: str) -> set[str]:
    (found,) = (edge for edge in document["dependencies"] if edge["ref"] == ref)
    return set(found.get("dependsOn", []))


def run(*args: object) -> Result:
    return invoke("sbom", *args)


class TestContents:
    def test_the_package(self, folder: Path) -> None:
        document = document_of(folder)
        package = document["metadata"]["component"]
        assert (package["name"], package["version"]) == ("The_Pack", "1.2+local")
        assert package["purl"] == "pkg:pypi/the-pack@1.2%2Blocal"
        assert properties(package) == {
            "aotbuild:fallback": "none",
            "aotbuild:index": sha256_hex((folder / "index").read_bytes()),
            "aotbuild:package": "pack",
        }

    def test_an_executable(self, folder: Path) -> None:
        record = make_records()[0]
        found = component(document_of(folder), "f(batch=1) cpu:x86-64-v3:1")
        assert found["type"] == "file"
        assert found["hashes"] == [{"alg": "SHA-256", "content": record.blob.sha256}]
        stated = properties(found)
        assert found["bom-ref"] == f"record:{stated.pop('aotbuild:record')}"
        assert stated == {
            "aotbuild:function": "f",
            "aotbuild:signature": record.signature.key(),
            "aotbuild:target": TARGETS[0],
            "aotbuild:kind": "pjrt",
            "aotbuild:size": str(record.blob.size),
            "aotbuild:path": f"pack/_aot/{record.blob.path}",
            "aotbuild:build:stablehlo": STABLEHLO,
            "aotbuild:build:xla_flags": "--xla_cpu_max_isa=AVX2 --xla_dump_to=<path>",
            "aotbuild:build:compiler_options.depth": "3",
            "aotbuild:build:compiler_options.xla_gpu_cuda_data_dir": "<path>",
            "aotbuild:build:config.jax_enable_x64": "false",
        }

    def test_the_record_is_found_in_the_index_by_its_digest(self, folder: Path) -> None:
        found = component(document_of(folder), "f(batch=1) portable:cpu:1")
        assert f" {properties(found)['aotbuild:record']}\n" in (folder / "index").read_text()

    def test_a_constant(self, folder: Path) -> None:
        found = component(document_of(folder), "constant u8[10,7]")
        blob = make_blob(WEIGHTS, "safetensors")
        assert (found["type"], found["bom-ref"]) == ("data", f"constant:{blob.sha256}")
        assert properties(found)["aotbuild:path"] == f"pack/_aot/{blob.path}"

    def test_the_rest_of_the_package(self, tmp_path: Path) -> None:
        check, stage = make_blob(b"outputs", "safetensors"), make_blob(b"module", "mlir")
        record = replace(make_record(), golden=Golden((), check), stages=(("stablehlo", stage),))
        for where, count in (("wheel", 2), ("beside", 1)):
            header = {**HEADER, "stages": where}
            folder = write_package(tmp_path / where, [make_function()], [record], header)
            document = document_of(folder)
            found = [c for c in document["components"] if c["type"] == "data"]
            assert len(found) == count
            assert {c["bom-ref"] for c in found} < needs(document, "package:pack")
            executable = component(document, str(record))
            assert properties(executable)["aotbuild:stage:stablehlo"] == stage.sha256

    def test_edges(self, folder: Path) -> None:
        document = document_of(folder)
        native, portable = (
            component(document, f"f(batch=1) {target}")["bom-ref"] for target in TARGETS
        )
        versions = {"aotbuild": "0.1.0", "jax": "0.10.2", "jaxlib": "0.10.2"}
        toolchain = {f"pkg:pypi/{name}@{version}" for name, version in versions.items()}
        constant = component(document, "constant u8[10,7]")["bom-ref"]
        assert needs(document, native) == {*toolchain, constant}
        assert needs(document, portable) == toolchain
        assert needs(document, "package:pack") == {native, portable, *toolchain}
        assert component(document, "jaxlib")["purl"] in toolchain

    def test_the_versions_of_a_record_win(self, tmp_path: Path) -> None:
        record = make_record(provenance={"jax": "0.11.0"})
        document = document_of(write_package(tmp_path, [make_function()], [record]))
        ref = component(document, str(record))["bom-ref"]
        assert "pkg:pypi/jax@0.11.0" in needs(document, ref)
        assert "pkg:pypi/jax@0.10.2" in needs(document, "package:pack")

    def test_nothing_names_the_building_machine(self, folder: Path) -> None:
        text = json.dumps(document_of(folder))
        assert str(folder.parent) not in text
        assert "/build/machine" not in text

    def test_a_package_without_executables(self, tmp_path: Path) -> None:
        document = document_of(write_package(tmp_path, [make_function()], []), None)
        assert {c["name"] for c in document["components"]} == {"aotbuild", "jax", "jaxlib"}
        assert "purl" not in document["metadata"]["component"]


class TestReproducible:
    @pytest.mark.process
    def test_equal_inputs_give_equal_bytes(self, folder: Path, tmp_path: Path) -> None:
        other = write_package(tmp_path / "other", [make_function()], make_records()[::-1])
        code = (
            "import sys; from pathlib import Path; from aotbuild.report.sbom import sbom_json\n"
            "from aotbuild.runtime.source import DirectorySource\n"
            "sys.stdout.buffer.write(sbom_json(DirectorySource(Path(sys.argv[1]))))"
        )
        expected = sbom_json(DirectorySource(folder))
        for seed, place in (("1", folder), ("2", other)):
            environment = {**os.environ, "PYTHONHASHSEED": seed}
            command = [sys.executable, "-c", code, str(place)]
            assert subprocess.check_output(command, env=environment, cwd=ROOT) == expected

    def test_another_wheel_has_another_serial_number(self, folder: Path) -> None:
        wheels = (None, WHEEL, Distribution(WHEEL.name, "1.3"))
        assert len({document_of(folder, wheel)["serialNumber"] for wheel in wheels}) == 3
        assert document_of(folder)["serialNumber"] == document_of(folder)["serialNumber"]

    def test_the_time_is_source_date_epoch_or_none(self, folder: Path) -> None:
        assert "timestamp" not in document_of(folder)["metadata"]
        time = timestamp_of({"SOURCE_DATE_EPOCH": "1700000000"})
        assert time == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
        document = json.loads(sbom_json(DirectorySource(folder), WHEEL, time))
        assert document["metadata"]["timestamp"] == "2023-11-14T22:13:20Z"
        assert timestamp_of({}) is None

    @pytest.mark.parametrize("text", ["", "noon", "1.5", "9" * 30])
    def test_no_time(self, text: str) -> None:
        with pytest.raises(ValueError, match="SOURCE_DATE_EPOCH: expected whole seconds since"):
            timestamp_of({"SOURCE_DATE_EPOCH": text})


class TestHostile:
    @pytest.mark.parametrize("evil", ["\x1b[31m\u202e\0", 'a"}],<\\\n', "é" * 100_000, " ", "../x"])
    def test_names(self, tmp_path: Path, evil: str) -> None:
        name = f"f{evil}"
        header = {**HEADER, "package": evil, "jax": evil, "fallback": evil}
        built = {evil: evil, "jaxlib": evil, "config": {evil: [evil]}}
        record = make_record(name, label=name, provenance=built, constants=True)
        folder = write_package(tmp_path, [make_function(name)], [record], header)
        document = document_of(folder, Distribution(evil, evil))
        text = json.dumps(document, ensure_ascii=False)
        assert not {"\x1b", "\u202e", "\0"} & set(text)
        assert all(len(c["name"]) < 1000 for c in document["components"])
        refs = [c["bom-ref"] for c in (document["metadata"]["component"], *document["components"])]
        assert len(set(refs)) == len(refs) == len(document["dependencies"])

    def test_values_of_other_types(self, tmp_path: Path) -> None:
        header = {**HEADER, "jax": ["x"], "jaxlib": None, "package": 3}
        built = {"jax": {"a": 1}, "aotbuild": 2, "xla_flags": ["-a", 1], "stablehlo": None}
        folder = write_package(tmp_path, [], [make_record(provenance=built)], header)
        assert document_of(folder)["metadata"]["component"]["name"] == "The_Pack"

    def test_a_wheel_that_says_it_is_jax(self, folder: Path) -> None:
        document = document_of(folder, Distribution("jax", "0.10.2"))
        assert document["metadata"]["component"]["purl"] == "pkg:pypi/jax@0.10.2"


class TestPlaces:
    """The name and the version of the wheel are found where there is a RECORD."""

    METADATA = "Metadata-Version: 2.4\nName: The_Pack\nVersion: 1.2+local\n"
    INFO = "the_pack-1.2+local.dist-info"

    @pytest.fixture
    def wheel(self, folder: Path, tmp_path: Path) -> Path:
        wheel = tmp_path / "the_pack-1.2+local-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.write(folder / "index", "pack/_aot/index")
            archive.writestr(f"{self.INFO}/METADATA", self.METADATA)
            archive.writestr(f"{self.INFO}/RECORD", "pack/_aot/index,sha256=x,1\n")
        return wheel

    def test_wheel_and_installed_package(self, wheel: Path, folder: Path, tmp_path: Path) -> None:
        expected = sbom_json(DirectorySource(folder), WHEEL).decode()
        assert run(wheel).stdout == expected
        site = tmp_path / "site"
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(site)
        assert run(site / "pack").stdout == expected

    def test_a_folder_alone(self, folder: Path) -> None:
        package = json.loads(run(folder).stdout)["metadata"]["component"]
        assert package["name"] == "pack"
        assert "version" not in package

    @pytest.mark.parametrize("metadata", [b"", b"Name: x\n", b"\xff\xfe\n", b"Name: \xff"])
    def test_metadata_that_says_nothing(
        self, folder: Path, tmp_path: Path, metadata: bytes
    ) -> None:
        wheel = tmp_path / "pack-1-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.write(folder / "index", "pack/_aot/index")
            archive.writestr("pack-1.dist-info/METADATA", metadata)
            archive.writestr("pack-1.dist-info/RECORD", "pack/_aot/index,,\n")
        assert json.loads(run(wheel).stdout)["metadata"]["component"]["name"] == "pack"


class TestCommand:
    def test_out(self, folder: Path, tmp_path: Path) -> None:
        out = tmp_path / "pack.cdx.json"
        result = run(folder, "--out", out)
        assert (result.exit_code, result.output) == (0, "")
        assert out.read_text() == run(folder).stdout
        assert run(folder, "--out", tmp_path / "gone" / "x.json").exit_code == 6

    def test_a_place_that_is_not_there(self, tmp_path: Path) -> None:
        assert run(tmp_path / "gone.whl").exit_code == 7

    def test_the_time_is_checked(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SOURCE_DATE_EPOCH", "noon")
        result = run(folder)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr == (
            "aotbuild sbom: error: SOURCE_DATE_EPOCH: "
            "expected whole seconds since 1970, found 'noon'\n"
        )

    def test_without_the_library(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "cyclonedx", None)
        result = run(folder)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr == (
            "aotbuild sbom: error: the SBOM needs a library\n"
            f"  expected {SBOM_LIBRARY}\n"
            "  found    it is not installed\n"
            "Install it: pip install 'aotbuild[sbom]'\n"
        )

    @pytest.mark.process
    def test_neither_jax_nor_the_package_is_imported(self, folder: Path) -> None:
        (folder.parent / "__init__.py").write_text("raise SystemExit('imported')\n")
        code = (
            "import atexit, sys; sys.path.insert(0, sys.argv.pop(1))\n"
            "atexit.register(lambda: print(*sys.modules, file=sys.stderr))\n"
            "from aotbuild.cli.__main__ import main; main()"
        )
        command = [sys.executable, "-c", code, str(folder.parent.parent), "sbom", "pack"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd="/")
        loaded = {name.partition(".")[0] for name in done.stderr.split()}
        assert "cyclonedx" in loaded
        assert not loaded & {"jax", "jaxlib", "numpy", "yaml", "pydantic", "pack"}


def test_the_extra_is_what_the_hook_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["optional-dependencies"]["sbom"] == [SBOM_LIBRARY]
