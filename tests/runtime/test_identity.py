"""What a library says of itself, the line that it logs, and what AOTBUILD_EXPECT refuses."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from attacks import wheels
from support.cli import invoke
from support.packages import Built, build, portable, write
from support.processes import fresh, run_fresh
from support.signing import keys, public_file, sign_folder
from support.wheel_files import everywhere, put_wheel, unpack

import aotbuild
from aotbuild.errors import AotbuildError, UnexpectedPackage, UntrustedPackage
from aotbuild.verify.api import Options, verify

X = np.ones(4, "float32")
KEY, OTHER = keys(2)
DIGITS = "0" * 64
VARIABLE = "AOTBUILD_EXPECT"


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
    base, cpu, *_ = split(wheel, tmp_path / "parts", ["portable"]).wheels
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

    def test_signers_are_the_trusted_keys_that_signed(
        self, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sign_folder(site / "demo" / "_aot", KEY, OTHER)
        digest = aotbuild.load("demo").digest
        assert aotbuild.load("demo").signers == ()
        assert aotbuild.load("demo", trust=[KEY.public_pem]).signers == (KEY.key_id,)
        monkeypatch.setenv("AOTBUILD_TRUST", str(public_file(tmp_path / "other.pem", OTHER)))
        both = aotbuild.load("demo", trust=[KEY.public_pem])
        assert both.signers == tuple(sorted((KEY.key_id, OTHER.key_id)))
        assert both.digest == digest

    def test_info_is_plain_data(self, site: Path) -> None:
        library = aotbuild.load("demo")
        info = library.info()
        assert info == {
            "package": "demo",
            "distribution": {"name": "demo", "version": "1.0"},
            "digest": library.digest,
            "signers": [],
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

    def test_inspect_says_the_same(
        self, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sign_folder(site / "demo" / "_aot", KEY)
        info = aotbuild.load("demo").info()
        document = json.loads(invoke("inspect", "demo", "--json").stdout)
        names = ("package", "distribution", "digest", "signers", "place", "format")
        assert {name: document[name] for name in names} == {name: info[name] for name in names}
        assert document["signed_by"] == [KEY.key_id]
        lines = invoke("inspect", "demo").stdout.splitlines()
        assert "  version   demo 1.0" in lines
        assert f"  digest    {info['digest']}" in lines
        unchecked = "(not checked: see aotbuild verify --trust)"
        assert f"  signed    by {KEY.key_id} {unchecked}" in lines
        monkeypatch.setenv("AOTBUILD_TRUST", str(public_file(tmp_path / "key.pem", KEY)))
        assert json.loads(invoke("inspect", "demo", "--json").stdout)["signers"] == [KEY.key_id]
        assert f"  signed    by {KEY.key_id} (valid)" in invoke("inspect", "demo").stdout


class TestLog:
    def test_one_line_when_a_package_is_opened(
        self, site: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, "aotbuild")
        sign_folder(site / "demo" / "_aot", KEY)
        library = aotbuild.load("demo", trust=[KEY.public_pem])
        assert library.functions == ("double",)
        (record,) = (record for record in caplog.records if "opened" in record.message)
        jaxlib = library.info()["jaxlib"]
        assert record.message == (
            f"opened demo@{library.digest}, demo 1.0, signed by {KEY.key_id}, built by jax None "
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


def pinned(place: Any = "demo") -> str:
    library = aotbuild.load(place)
    return f"{library.info()['package']}@{library.digest}"


def refused(package: Any = "demo", **options: Any) -> UnexpectedPackage:
    with pytest.raises(UnexpectedPackage) as caught:
        aotbuild.load(package, **options)
    return caught.value


class TestExpected:
    def test_what_is_pinned_is_loaded(
        self, site: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        right = pinned()
        wrong = f"demo@sha256:{DIGITS}"
        for value in (right, f"{wrong}, {right}", f"{right},other@sha256:{DIGITS}"):
            monkeypatch.setenv(VARIABLE, value)
            for place in ("demo", site / "demo", wheel):
                np.testing.assert_array_equal(aotbuild.load(place).double(X), X * 2)

    def test_another_digest(self, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        found, wrong = pinned(), f"demo@sha256:{DIGITS}"
        monkeypatch.setenv(VARIABLE, wrong)
        error = refused()
        assert (error.expected, error.found) == (wrong, found)
        assert error.place == str(site / "demo" / "_aot")
        assert isinstance(error, AotbuildError)

    def test_a_package_that_is_not_listed(
        self, site: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        found = pinned()
        monkeypatch.setenv(VARIABLE, f"other@sha256:{DIGITS},more.parts@sha256:{DIGITS}")
        error = refused()
        assert error.expected == "one of the packages other, more.parts"
        assert error.found == found

    def test_a_package_in_the_place_of_another(
        self, site: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(VARIABLE, pinned())
        shutil.copytree(site / "demo", site / "disguised")
        error = refused("disguised")
        assert error.expected == "the index of package 'disguised'"
        assert error.found == "the one of 'demo'"

    @pytest.mark.parametrize(
        "value",
        [
            "",
            " ",
            "demo",
            f"demo={DIGITS}",
            f"demo@{DIGITS}",
            f"demo@sha256:{DIGITS[1:]}",
            f"demo@sha256:{DIGITS}0",
            f"demo@SHA256:{DIGITS}",
            f"demo@sha256:{'A' * 64}",
            f"de-mo@sha256:{DIGITS}",
            f"@sha256:{DIGITS}",
            "demo@sha256:" + "٣" * 64,
            "right,",
            "right;right",
            "right\nright",
        ],
    )
    def test_a_malformed_value_refuses_all(
        self, site: Path, monkeypatch: pytest.MonkeyPatch, value: str
    ) -> None:
        monkeypatch.setenv(VARIABLE, value.replace("right", pinned()))
        error = refused()
        assert error.place == "the environment variable AOTBUILD_EXPECT"
        assert "malformed" in str(error)

    def test_companions_are_packages_too(
        self, parts: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        base, cpu = pinned(), aotbuild.load(parts / "demo_aot_cpu").digest
        monkeypatch.setenv(VARIABLE, base)
        error = refused()
        assert error.found == f"demo_aot_cpu@{cpu}"
        monkeypatch.setenv(VARIABLE, f"{base},demo_aot_cpu@{cpu}")
        np.testing.assert_array_equal(aotbuild.load("demo").double(X), X * 2)

    def test_it_is_asked_before_the_keys(self, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(VARIABLE, f"demo@sha256:{DIGITS}")
        refused(trust=[KEY.public_pem])
        monkeypatch.delenv(VARIABLE)
        with pytest.raises(UntrustedPackage):
            aotbuild.load("demo", trust=[KEY.public_pem])

    @pytest.mark.parametrize("fallback", ["none", "portable", "jit"])
    def test_precompiled_obeys_it_under_any_fallback(
        self, site: Path, monkeypatch: pytest.MonkeyPatch, fallback: str
    ) -> None:
        monkeypatch.setenv(VARIABLE, f"demo@sha256:{DIGITS}")

        @aotbuild.precompiled("demo:double", fallback=fallback)
        @jax.jit
        def double(x: Any) -> Any:
            return x * 2

        with pytest.raises(UnexpectedPackage):
            double(X)

    @pytest.mark.parametrize("command", ["doctor", "verify"])
    def test_commands_end_with_9(
        self, site: Path, monkeypatch: pytest.MonkeyPatch, command: str
    ) -> None:
        monkeypatch.setenv(VARIABLE, f"demo@sha256:{DIGITS}")
        result = invoke(command, "demo")
        assert result.exit_code == 9
        assert "not a package that AOTBUILD_EXPECT pins" in result.output

    def test_verify_loads_nothing_of_another(
        self, site: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(VARIABLE, f"demo@sha256:{DIGITS}")
        for place in ("demo", str(wheel)):
            statuses = self.statuses(place)
            assert statuses["expected"] == "FAIL"
            assert statuses["load"] == statuses["golden"] == "NOT CHECKED"

    def test_verify_passes_what_is_pinned(
        self, site: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert "expected" not in self.statuses("demo")
        monkeypatch.setenv(VARIABLE, pinned())
        assert self.statuses("demo")["expected"] == "PASS"

    @staticmethod
    def statuses(place: str) -> dict[str, str]:
        report = verify(place, Options(load=False))
        return {outcome.check: outcome.status.value for outcome in report.outcomes}

    @pytest.mark.parametrize("command", ["sign", "split"])
    def test_who_makes_wheels_needs_no_pin(
        self,
        built: list[Built],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        command: str,
    ) -> None:
        wheel = put_wheel(tmp_path / "whole" / wheels.NAME, everywhere(built))
        key = tmp_path / "key.pem"
        key.write_bytes(KEY.private_pem(None))
        key.chmod(0o600)
        monkeypatch.setenv(VARIABLE, f"demo@sha256:{DIGITS}")
        options = {"sign": ["--key", key], "split": ["--out", tmp_path / "out"]}[command]
        assert invoke(command, wheel, *options).exit_code == 0

    @pytest.mark.process
    def test_nothing_of_the_package_is_used(self, site: Path) -> None:
        """Not even a record is read: an index whose objects are damaged is refused for its pin."""
        index = site / "demo" / "_aot" / "index"
        data = index.read_bytes()
        index.write_bytes(data[:-40] + bytes(40))
        done = run_fresh(
            "import aotbuild; aotbuild.load('demo', arrays='numpy').double",
            path=site,
            check=False,
            AOTBUILD_EXPECT=f"demo@sha256:{DIGITS}",
        )
        assert "UnexpectedPackage" in done.stderr
