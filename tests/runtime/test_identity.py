"""What a library says of itself, and the line that it logs."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest
from attacks import wheels
from support.cli import invoke
from support.packages import Built, build, portable, write
from support.processes import fresh
from support.wheel_files import everywhere, put_wheel, unpack

import aotbuild

X = np.ones(4, "float32")


@pytest.fixture(scope="module")
def built() -> list[Built]:
    native = build("double", lambda x: x * 2, {"x": X})
    return [native, portable(native, lambda x: x * 2)]


@pytest.fixture
def wheel(built: list[Built], tmp_path: Path) -> Path:
    return put_wheel(tmp_path / wheels.NAME, built)


@pytest.fixture
def site(wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of sys.path with the package `demo`, installed."""
    place = tmp_path / "site"
    unpack(wheel, place)
    monkeypatch.syspath_prepend(str(place))
    return place


@pytest.fixture
def parts(built: list[Built], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of sys.path with the base `demo` and its companion for CPUs, installed."""
    from aotbuild.wheels.split import split

    wheel = put_wheel(tmp_path / "whole" / wheels.NAME, everywhere(built))
    base, cpu, *_ = split(wheel, tmp_path / "parts", ["portable"])
    place = tmp_path / "site"
    for part in (base, cpu):
        unpack(part, place)
    monkeypatch.syspath_prepend(str(place))
    return place


class TestFacts:
    def test_the_digest_is_that_of_the_index_wherever_it_is(self, site: Path, wheel: Path) -> None:
        alone = site.parent / "moved" / "_aot"
        shutil.copytree(site / "demo" / "_aot", alone)
        libraries = [aotbuild.load(place) for place in ("demo", site / "demo", wheel, alone)]
        line = (alone / "index").read_text().splitlines()[1]
        assert {library.digest for library in libraries} == {f"sha256:{line}"}
        assert [library.version for library in libraries] == ["1.0", "1.0", "1.0", None]
        assert libraries[0].on(jax.devices()[0]).digest == libraries[0].digest

    def test_another_build_has_another_digest(self, built: list[Built], tmp_path: Path) -> None:
        one, other = (
            aotbuild.load(write(tmp_path / name, built, fallback=name)) for name in ("none", "jit")
        )
        assert one.digest != other.digest

    def test_info_is_plain_data(self, site: Path) -> None:
        library = aotbuild.load("demo")
        info = library.info()
        assert info == {
            "package": "demo",
            "distribution": {"name": "demo", "version": "1.0"},
            "digest": library.digest,
            "place": str(site / "demo" / "_aot"),
            "format": 1,
            "aotbuild": None,
            "jax": None,
            "jaxlib": info["jaxlib"],
            "fallback": "none",
            "functions": 1,
            "executables": 2,
            "companions": [],
        }
        assert json.loads(json.dumps(info)) == info

    def test_companions_have_digests_of_their_own(self, parts: Path) -> None:
        library = aotbuild.load("demo")
        by_part = {each["part"]: each for each in library.info()["companions"]}
        assert by_part["cpu"]["version"] == "1.0"
        assert by_part["cpu"]["digest"] == aotbuild.load(parts / "demo_aot_cpu").digest
        assert by_part["cuda"]["digest"] is by_part["cuda"]["version"] is None
        assert library.digest == aotbuild.load(parts / "demo").digest

    def test_inspect_says_the_same(self, site: Path) -> None:
        info = aotbuild.load("demo").info()
        document = json.loads(invoke("inspect", "demo", "--json").stdout)
        names = ("package", "distribution", "digest", "place", "format")
        assert {name: document[name] for name in names} == {name: info[name] for name in names}
        lines = invoke("inspect", "demo").stdout.splitlines()
        assert "  version   demo 1.0" in lines
        assert f"  digest    {info['digest']}" in lines


class TestLog:
    def test_one_line_when_a_package_is_opened(
        self, site: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, "aotbuild")
        library = aotbuild.load("demo")
        assert library.functions == ("double",)
        (record,) = (record for record in caplog.records if "opened" in record.message)
        jaxlib = library.info()["jaxlib"]
        assert record.message == (
            f"opened demo@{library.digest}, demo 1.0, built by jax None "
            f"and jaxlib {jaxlib}, functions: 1, executables: 2, at {site / 'demo' / '_aot'}"
        )
        assert record.levelno == logging.INFO
        assert vars(record)["aotbuild_info"] == library.info()

    def test_companions_are_in_it(self, parts: Path, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO, "aotbuild")
        aotbuild.load("demo")
        assert "companions demo-aot-cpu 1.0, demo-aot-cuda not installed" in caplog.text

    def test_a_header_cannot_add_a_line(
        self, built: list[Built], tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, "aotbuild")
        aotbuild.load(write(tmp_path, built, jax="0\nERROR all is lost"))
        assert "\n" not in caplog.records[-1].message

    @pytest.mark.process
    def test_it_costs_nothing_where_nobody_listens(self, site: Path) -> None:
        code = (
            "import json, sys, logging, aotbuild\n"
            "aotbuild.load('demo', arrays='numpy')\n"
            "names = ('aotbuild.runtime.identity', 'importlib.metadata')\n"
            "print(json.dumps([name for name in names if name in sys.modules]))\n"
        )
        assert fresh(code, path=site) == []
