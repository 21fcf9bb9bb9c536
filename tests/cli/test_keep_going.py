"""`aotbuild build --keep-going`: what failed is left out, and everybody is told so."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.cli import Result, invoke, run
from support.projects import make_importable, write_project

import aotbuild
from aotbuild.errors import NoExecutable, SignatureMismatch, UnknownFunction
from aotbuild.runtime.source import DirectorySource, open_index

pytestmark = [pytest.mark.process, pytest.mark.any_jax]

MANIFEST = """\
version: 1
package: proj
targets: [cpu]
functions:
  scale:
    call: proj.code:scale
    args: [{x: "f32[batch]"}]
    dims: {batch: [2, 3]}
  prints:
    call: proj.code:prints
    args: [{x: "f32[2]"}]
  twice:
    call: proj.code:twice
    args: [{x: "f32[2]"}]
    verify: {golden: always, inputs: "proj.code:inputs"}
  padded:
    call: proj.code:padded
    args: [{x: "f32[batch]"}]
    dims: {batch: [2, 4]}
    pad: {batch: 0.0}
  absent:
    call: proj.nowhere:absent
    args: [{x: "f32[2]"}]
"""
CODE = """\
import jax
import jax.numpy as jnp


def scale(x):
    if x.shape[0] == 3:
        raise ValueError(f"{__file__} takes no three")
    return jnp.sin(x)


def prints(x):
    jax.debug.callback(lambda x: None, x)
    return x


def twice(x):
    return x * 2


def inputs():
    raise ValueError("no inputs")


def padded(x):
    return x - x.mean() if x.shape[0] == 2 else x * 2
"""
FOLDER = Path("build", "aot", "proj", "_aot")
PART = "was left out of this wheel when it was built"


@pytest.fixture(scope="module", name="project")
def _project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_project(tmp_path_factory.mktemp("keep") / "here", MANIFEST, code=CODE)


@pytest.fixture(scope="module", name="built")
def _built(project: Path) -> Result:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project)
        return invoke("build", "--keep-going", "--json")


@pytest.fixture(name="folder")
def _folder(project: Path, built: Result) -> Path:
    del built
    return project / FOLDER


def test_the_exit_code_and_what_is_said(built: Result) -> None:
    assert built.exit_code == 10, built.stderr
    document = json.loads(built.stdout)
    assert document["error"] is None
    states = {unit["label"].partition(" for ")[0]: unit["state"] for unit in document["units"]}
    assert states == {
        "scale(batch=2)": "done",
        "scale(batch=3)": "failed",
        "prints()": "failed",
        "twice()": "failed",
        "padded(batch=2)": "failed",
        "padded(batch=4)": "done",
        "absent()": "failed",
    }
    stages = {f["unit"].partition(" for ")[0]: f["stage"] for f in document["failures"]}
    assert stages == {
        "scale(batch=3)": "trace",
        "prints()": "trace",
        "twice()": "golden",
        "padded(batch=2)": "pad",
        "absent()": "trace",
    }
    assert "5 of 7 build units failed and were left out:\n" in built.stderr
    assert "no inputs" in built.stderr
    failed = next(unit for unit in document["units"] if unit["label"].startswith("prints()"))
    assert (failed["sha256"], failed["size"]) == (None, None)


def test_the_index_names_them_without_paths(folder: Path, project: Path) -> None:
    header = open_index(DirectorySource(folder)).header
    units = {unit["signature"]: unit for unit in header["left_out"]["units"]}
    assert sorted(units) == [
        "absent()",
        "padded(batch=2)",
        "prints()",
        "scale(batch=3)",
        "twice()",
    ]
    assert "ValueError: …/proj/code.py takes no three" in units["scale(batch=3)"]["reason"]
    assert str(project).encode() not in (folder / "index").read_bytes()
    assert "key" in units["prints()"]
    assert "key" not in units["absent()"]


def test_the_package_is_whole_otherwise(folder: Path) -> None:
    result = invoke("verify", str(folder))
    assert result.exit_code == 0, result.output


def test_inspect_lists_them(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    text = run("inspect", folder, "--html", page).stdout
    assert "  left out  5 units\n" in text
    assert "\nleft out\nSIGNATURE " in text
    assert "no inputs" in text
    assert "<h2>Left out</h2>" in page.read_text()
    assert "takes no three" in page.read_text()
    document = json.loads(run("inspect", folder, "--json").stdout)
    assert document["totals"]["left_out"] == 5
    assert document["left_out"][0]["function"] == "absent"
    assert set(document["left_out"][0]) == {
        *("function", "signature", "target", "jaxlib", "stage", "reason")
    }
    one = json.loads(run("inspect", folder, "--json", "--function", "twice").stdout)
    assert [unit["signature"] for unit in one["left_out"]] == ["twice()"]


def test_calls_say_why(folder: Path) -> None:
    library = aotbuild.load(folder)
    x = np.ones(2, np.float32)
    np.testing.assert_allclose(library.scale(x), np.sin(x), rtol=1e-6)
    with pytest.raises(SignatureMismatch) as own:
        library.scale(np.ones(3, np.float32))
    assert own.value.summary == "this signature is in the manifest, but failed"
    assert own.value.trace[0].startswith("scale(batch=3) for cpu:")
    assert f" {PART}: trace: proj.code:scale raised while it was traced" in own.value.trace[0]
    with pytest.raises(SignatureMismatch, match=r"\n  scale\(batch=3\) for .* was left out"):
        library.scale(np.ones(9, np.float32))
    with pytest.raises(NoExecutable, match=PART):
        library.prints(x)
    with pytest.raises(UnknownFunction, match=PART):
        _ = library.absent


def test_a_call_is_padded_to_the_sizes_that_are_there(folder: Path) -> None:
    library = aotbuild.load(folder)
    np.testing.assert_array_equal(library.padded(np.zeros(1, np.float32)).shape, (1,))


def test_the_fallback_runs_what_is_not_there(
    folder: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_importable(project, monkeypatch)
    monkeypatch.setenv("AOTBUILD_FALLBACK", "jit")
    x = np.ones(2, np.float32)
    np.testing.assert_array_equal(aotbuild.load(folder).prints(x), x)
    source = aotbuild.precompiled(f"{folder}:absent")(lambda x: x + 1)
    np.testing.assert_array_equal(source(x), x + 1)


def test_nothing_is_left_out_unless_asked(project: Path, tmp_path: Path) -> None:
    out = tmp_path / "_aot"
    result = invoke("build", project / "aot.yaml", "--out", out)
    # A name that is not there is told before anything is compiled.
    assert result.exit_code == 4
    assert "proj.nowhere:absent" in result.stderr
    manifest = MANIFEST[: MANIFEST.index("  absent:")]
    others = write_project(tmp_path / "here", manifest, code=CODE)
    assert invoke("build", others / "aot.yaml", "--out", out).exit_code == 5
    assert not out.exists()


def test_an_error_if_everything_failed(tmp_path: Path) -> None:
    manifest = MANIFEST[: MANIFEST.index("  scale:")] + MANIFEST[MANIFEST.index("  absent:") :]
    root = write_project(tmp_path / "here", manifest, code=CODE)
    out = tmp_path / "_aot"
    result = invoke("build", str(root / "aot.yaml"), "--keep-going", "--out", str(out))
    assert result.exit_code == 5
    assert "1 of 1 build units failed, nothing was packaged:" in result.stderr
    assert not out.exists()
