"""Presets of GPUs: what is shipped, what is refused, and what a manifest says about them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.manifests import whole
from support.processes import ROOT

from aotbuild.errors import ManifestError
from aotbuild.manifest import load_manifest
from aotbuild.manifest.targets import read_model
from aotbuild.platforms.cuda.presets import FACTS, preset_files, read_preset, shipped_preset

GOOD = (ROOT / "configs" / "targets" / "h200.yaml").read_text(encoding="utf-8")


def problems(tmp_path: Path, text: str, name: str = "mine.yaml") -> list[str]:
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ManifestError) as caught:
        read_preset(file, read_model)
    return [str(problem).removeprefix(f"{file}:") for problem in caught.value.problems]


class TestShipped:
    @pytest.mark.parametrize("name", preset_files())
    def test_is_whole_and_names_its_source(self, name: str) -> None:
        preset = shipped_preset(name)
        assert preset.name == name
        assert [fact for fact, _ in preset.facts] == list(FACTS)
        text = preset_files()[name].read_text(encoding="utf-8")
        assert re.match(r"# NVIDIA .*\.\n# Sources?: ", text)


class TestRefused:
    def test_missing_and_unknown(self, tmp_path: Path) -> None:
        text = GOOD.replace("core_count", "core_cuont")
        assert problems(tmp_path, text) == [
            f"{_line(text, 'device_kind')}:1: the key 'core_count' is missing (Multiprocessors)",
            f"{_line(text, 'core_cuont')}:1: unknown key 'core_cuont' (did you mean 'core_count'?)",
        ]

    @pytest.mark.parametrize("fact", FACTS)
    def test_zero_would_kill_the_compiler(self, fact: str, tmp_path: Path) -> None:
        text = re.sub(rf"^{fact}: \S+", f"{fact}: 0", GOOD, flags=re.MULTILINE)
        (found,) = problems(tmp_path, text)
        assert re.search(rf": {fact}: expected (at least 1|more than 0), found the number 0", found)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("9.0", 'expected text, found the number 9.0; quote it: "9.0"'),
            ('"9.0"', "have the suffix a, and no others; write '9.0a', found '9.0'"),
            ('"8.9a"', "have the suffix a, and no others; write '8.9', found '8.9a'"),
            ('"9.0f"', "expected a compute capability such as '9.0a' or '8.6', found '9.0f'"),
        ],
    )
    def test_capability(self, text: str, message: str, tmp_path: Path) -> None:
        (found,) = problems(tmp_path, GOOD.replace('"9.0a"', text))
        assert found.endswith(message)


class TestManifest:
    def test_preset_of_the_user(self, tmp_path: Path) -> None:
        (tmp_path / "gpus").mkdir()
        (tmp_path / "gpus" / "mine.yaml").write_text(GOOD, encoding="utf-8")
        targets = "targets: [cuda: {gpu: [./gpus/mine.yaml, h100-sxm], devices: 4, processes: 2}]\n"
        (tmp_path / "aot.yaml").write_text(whole(targets), encoding="utf-8")
        (target,) = load_manifest(tmp_path / "aot.yaml").targets
        presets = target.files.presets
        assert [gpu.name for gpu in presets] == ["mine", "h100-sxm"]
        assert presets[0].device_kind == "NVIDIA H200"
        assert (target.options.devices, target.options.processes) == (4, 2)

    def test_problems_of_both_files(self, tmp_path: Path) -> None:
        (tmp_path / "mine.yaml").write_text(GOOD.replace('"9.0a"', "9.0"), encoding="utf-8")
        targets = "targets: [cuda: {gpu: [./mine.yaml, ./none.yaml], devices: 3, processes: 2}]\n"
        (tmp_path / "aot.yaml").write_text(whole(targets), encoding="utf-8")
        with pytest.raises(ManifestError) as caught:
            load_manifest(tmp_path / "aot.yaml")
        found = [str(problem).removeprefix(f"{tmp_path}/") for problem in caught.value.problems]
        assert found == [
            (
                "aot.yaml:5:37: targets.0.cuda.gpu.1: no such file: './none.yaml', looked for "
                "beside the manifest"
            ),
            "aot.yaml:5:74: targets.0.cuda.processes: 2 processes cannot share 3 devices",
            (
                f"mine.yaml:{_line(GOOD, 'capability')}:13: capability: expected text, found the "
                'number 9.0; quote it: "9.0"'
            ),
        ]


def _line(text: str, key: str) -> int:
    return 1 + next(i for i, line in enumerate(text.splitlines()) if line.startswith(f"{key}:"))
