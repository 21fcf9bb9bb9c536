"""Weights in a wheel of their own: split off, made anew, and checked together with the code."""

from __future__ import annotations

import json
import shutil
from email.parser import Parser
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from attacks import wheels
from support.cli import invoke
from support.packages import Built, build
from support.signing import keys, sign_folder
from support.wheel_files import put_wheel, text, unpack

import aotbuild
from aotbuild.errors import CompanionMismatch, InvalidIndex, UntrustedPackage, WheelRefused
from aotbuild.runtime.source import open_index
from aotbuild.runtime.wheel_source import WheelSource
from aotbuild.verify.api import Options, verify
from aotbuild.wheels.merge import merge
from aotbuild.wheels.split import split
from aotbuild.wheels.weights import new_weights, split_weights

BACKENDS = pytest.mark.parametrize("arrays", ["jax", "numpy"])
X = np.ones((2, 4), np.float32)
W, B = np.arange(16, dtype=np.float32).reshape(4, 4), jnp.ones(4, jnp.bfloat16)
PREFIX = "demo.model.P"
WEIGHTS = "demo_aot_weights-1.0-py3-none-any.whl"


def affine(x: Any, **constants: Any) -> Any:
    return x @ constants[f"{PREFIX}.w"] + constants[f"{PREFIX}.b"]


@pytest.fixture(scope="module")
def built() -> list[Built]:
    constants = {f"{PREFIX}.w": W, f"{PREFIX}.b": B}
    return [
        build("f", affine, {"x": X}, constants=constants),
        build("plain", lambda x: x + 1, {"x": X}),
    ]


@pytest.fixture(scope="module")
def wheel(built: list[Built], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return put_wheel(tmp_path_factory.mktemp("whole") / wheels.NAME, built)


@pytest.fixture
def parts(wheel: Path, tmp_path: Path) -> tuple[Path, Path]:
    base, weights = split_weights(wheel, tmp_path / "parts").wheels
    return base, weights


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "site").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return tmp_path / "site"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """New weights: three times the old ones."""
    tree = {"w": W * 3, "b": B * 3}
    aotbuild.save_constants(tmp_path / "new.safetensors", tree, prefix=PREFIX)
    return tmp_path / "new.safetensors"


def install(site: Path, *paths: Path) -> None:
    for path in paths:
        unpack(path, site)


def requires(path: Path) -> list[str]:
    return Parser().parsestr(text(path, "/METADATA")).get_all("Requires-Dist") or []


class TestSplit:
    def test_two_honest_wheels(self, wheel: Path, parts: tuple[Path, Path]) -> None:
        base, weights = parts
        assert [base.name, weights.name] == [wheels.NAME, WEIGHTS]
        for path in parts:
            report = verify(str(path), Options(load=False))
            assert report.passed, report
        assert requires(base) == [*requires(wheel), "demo-aot-weights==1.0"]
        assert [line.partition("<")[0].partition(">")[0] for line in requires(weights)] == [
            "aotbuild"
        ]

    def test_the_versions_of_the_weights(self, wheel: Path, tmp_path: Path) -> None:
        base, _ = split_weights(wheel, tmp_path, ">=1.0,<2").wheels
        assert requires(base)[-1] == "demo-aot-weights<2,>=1.0"
        with pytest.raises(WheelRefused, match="--weights-versions"):
            split_weights(wheel, tmp_path / "other", "newest")

    @BACKENDS
    def test_installed_together(self, parts: tuple[Path, Path], site: Path, arrays: str) -> None:
        install(site, *parts)
        library = aotbuild.load("demo", arrays=arrays)
        np.testing.assert_allclose(library.f(X), X @ W + np.asarray(B, np.float32))
        [companion] = library.info()["companions"]
        assert (companion["part"], companion["version"]) == ("weights", "1.0")

    def test_merged_again(self, wheel: Path, parts: tuple[Path, Path], tmp_path: Path) -> None:
        [merged] = merge(parts, tmp_path / "merged").wheels
        assert requires(merged) == requires(wheel)
        whole = [open_index(WheelSource(path)).digest for path in (merged, wheel)]
        assert whole[0] == whole[1]

    @pytest.mark.process
    def test_verify_says_where_the_constants_are(self, parts: tuple[Path, Path]) -> None:
        outcomes = verify(str(parts[0]), Options()).outcomes
        reasons = {
            outcome.subject.split()[0]: outcome.reasons
            for outcome in outcomes
            if outcome.check == "load"
        }
        assert reasons["f"] == ("its constants are in another wheel, demo-aot-weights",)
        assert reasons["plain"] == ()

    def test_inspect_names_them(self, parts: tuple[Path, Path]) -> None:
        for path, used in zip(parts, (1, 0), strict=True):
            document = json.loads(invoke("inspect", str(path), "--json").output)
            found = {c["names"][0]: c["executables"] for c in document["constants"]}
            assert found == {f"{PREFIX}.b": used, f"{PREFIX}.w": used}
            shown = invoke("inspect", str(path)).output
            assert f"{PREFIX}.w" in shown
            assert "saved" not in shown

    def test_one_name_for_two_arrays(self, tmp_path: Path) -> None:
        """As those of functions whose `env:` chooses a checkpoint: one took the place of both."""
        both = [
            build(name, lambda x, w: x @ w, {"x": X}, constants={"w": factor * W})
            for name, factor in (("small", 1), ("large", 5))
        ]
        whole = put_wheel(tmp_path / wheels.NAME, both)
        with pytest.raises(WheelRefused, match="w has other numbers in large than in small"):
            split_weights(whole, tmp_path / "parts")
        assert not (tmp_path / "parts").exists()

    def test_what_cannot_be_split(
        self, built: list[Built], parts: tuple[Path, Path], tmp_path: Path
    ) -> None:
        with pytest.raises(WheelRefused, match=r"it was split before\n.*puts parts together"):
            split_weights(parts[0], tmp_path / "again")
        with pytest.raises(WheelRefused, match="it was split before"):
            split(parts[0], tmp_path / "again", ["portable"])
        plain = put_wheel(tmp_path / "plain" / wheels.NAME, built[1:])
        with pytest.raises(WheelRefused, match="none of its functions has hoisted constants"):
            split_weights(plain, tmp_path / "again")


class TestNewWeights:
    @BACKENDS
    def test_in_place_of_the_old(
        self, parts: tuple[Path, Path], site: Path, file: Path, tmp_path: Path, arrays: str
    ) -> None:
        [new] = new_weights(file, parts[1], "1.1", tmp_path / "new").wheels
        assert new.name == "demo_aot_weights-1.1-py3-none-any.whl"
        assert verify(str(new), Options(load=False)).passed
        install(site, parts[0], new)
        library = aotbuild.load("demo", arrays=arrays)
        np.testing.assert_allclose(library.f(X), 3 * (X @ W + np.asarray(B, np.float32)))
        assert library.info()["companions"][0]["version"] == "1.1"

    def test_made_of_made_ones(self, parts: tuple[Path, Path], file: Path, tmp_path: Path) -> None:
        [new] = new_weights(file, parts[1], "1.1", tmp_path / "new").wheels
        [newer] = new_weights(file, new, "1.2", tmp_path / "new").wheels
        assert newer.name == "demo_aot_weights-1.2-py3-none-any.whl"

    def test_the_command(self, parts: tuple[Path, Path], file: Path, tmp_path: Path) -> None:
        out = str(tmp_path / "new")
        command = ["weights", str(file), "--like", str(parts[1]), "--version", "1.1", "--out", out]
        done = invoke(*command, "--json")
        assert done.exit_code == 0, done.output
        assert json.loads(done.output)["wheels"][0]["path"].endswith(
            "demo_aot_weights-1.1-py3-none-any.whl"
        )
        assert invoke(*command, "--prefix", "wrong").exit_code == 7

    def test_refused(self, parts: tuple[Path, Path], file: Path, tmp_path: Path) -> None:
        with pytest.raises(WheelRefused, match="not a wheel of weights"):
            new_weights(file, parts[0], "1.1", tmp_path / "new")
        with pytest.raises(WheelRefused, match="--version"):
            new_weights(file, parts[1], "first", tmp_path / "new")
        file.write_bytes(b"no safetensors")
        with pytest.raises(WheelRefused, match="expected a safetensors file"):
            new_weights(file, parts[1], "1.1", tmp_path / "new")
        assert not (tmp_path / "new").exists()

    def test_merge_takes_no_other_weights(
        self, parts: tuple[Path, Path], file: Path, tmp_path: Path
    ) -> None:
        [new] = new_weights(file, parts[1], "1.1", tmp_path / "new").wheels
        with pytest.raises(WheelRefused, match="companion"):
            merge([parts[0], new], tmp_path / "merged")


class TestChecked:
    def test_not_installed(self, parts: tuple[Path, Path], site: Path) -> None:
        install(site, parts[0])
        with pytest.raises(CompanionMismatch, match="not installed: pip install demo-aot-weights"):
            aotbuild.load("demo")
        with pytest.raises(CompanionMismatch, match="demo-aot-weights is missing"):
            aotbuild.load("demo")

    def test_weights_of_another_model(
        self, parts: tuple[Path, Path], site: Path, tmp_path: Path
    ) -> None:
        other = build(
            "f", lambda x, **c: x @ c[f"{PREFIX}.w"], {"x": X}, constants={f"{PREFIX}.w": W}
        )
        foreign = put_wheel(tmp_path / "other" / wheels.NAME, [other])
        _, weights = split_weights(foreign, tmp_path / "others").wheels
        install(site, parts[0], weights)
        with pytest.raises(CompanionMismatch, match="expected the constants"):
            aotbuild.load("demo")

    def test_a_malformed_header(self, parts: tuple[Path, Path], site: Path) -> None:
        from aotbuild.format.index import write_index

        install(site, *parts)
        place = site / "demo_aot_weights" / "_aot" / "index"
        header = {"package": "demo", "part": "weights", "weights": [["name", 3]]}
        place.write_bytes(write_index(header, [], []))
        with pytest.raises(InvalidIndex, match="the weights of demo"):
            aotbuild.load("demo")
        outcomes = verify(str(place.parent), Options(load=False)).outcomes
        assert any("weights" in reason for o in outcomes for reason in o.reasons)

    def test_damage_is_found(self, parts: tuple[Path, Path], site: Path) -> None:
        install(site, *parts)
        blob = next((site / "demo_aot_weights" / "_aot" / "blobs").iterdir())
        blob.write_bytes(blob.read_bytes()[:-1] + b"\xff")
        with pytest.raises(aotbuild.errors.DamagedBlob):
            aotbuild.load("demo").f(X)

    def test_a_signature_is_demanded_of_both(self, parts: tuple[Path, Path], site: Path) -> None:
        [key] = keys(1)
        install(site, *parts)
        sign_folder(site / "demo" / "_aot", key)
        with pytest.raises(UntrustedPackage, match="demo_aot_weights"):
            aotbuild.load("demo", trust=[key.public_pem])
        sign_folder(site / "demo_aot_weights" / "_aot", key)
        library = aotbuild.load("demo", trust=[key.public_pem])
        np.testing.assert_allclose(library.f(X), X @ W + np.asarray(B, np.float32))


def test_a_base_by_its_path_has_no_weights(parts: tuple[Path, Path], site: Path) -> None:
    install(site, *parts)
    shutil.rmtree(site / "demo_aot_weights")
    library = aotbuild.load(site / "demo" / "_aot")
    np.testing.assert_allclose(library.plain(X), X + 1)
    with pytest.raises(aotbuild.errors.DamagedBlob):
        library.f(X)
