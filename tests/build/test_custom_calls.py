"""Custom calls in fresh processes, with both backends: jaxlib's own, and the user's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.processes import fresh, run_fresh
from support.projects import build, write_project

from aotbuild.build.pack import Package
from aotbuild.errors import AotbuildError
from aotbuild.verify import children
from aotbuild.verify.api import verify
from aotbuild.verify.outcome import Status

pytestmark = pytest.mark.process

CODE = """
import jax, jax.numpy as jnp
from jax.experimental import sparse
from jaxlib.cpu import _sparse
(handler,) = _sparse.registrations().values()
jax.ffi.register_ffi_target("proj_csr", handler, platform="cpu")

def bcsr(data, indices, indptr, x):
    return sparse.BCSR((data, indices, indptr), shape=(3, 3)) @ x
given = bcsr
def inputs():
    return {"indices": jnp.array([2, 0, 1]), "indptr": jnp.arange(4)}
def eigh(x): return jnp.linalg.eigh(x)
def tridiagonal(x): return jax.lax.linalg.tridiagonal_solve(x[0], x[1], x[2], x)
def own(data, indices, indptr, x, target="proj_csr"):
    out = jax.ShapeDtypeStruct((3, 2), x.dtype)
    return jax.ffi.ffi_call(target, out)(data, indptr, indices, x)
def imported(data, indices, indptr, x): return own(data, indices, indptr, x, "proj_kernel")
"""
SPARSE = "args: [data: 'f32[3]', indices: 'i32[3]', indptr: 'i32[4]', x: 'f32[3,2]']"
SQUARE = "args: [x: 'f32[3,3]']"
FUNCTIONS = {
    "bcsr": SPARSE,
    "given": f"{SPARSE}, verify: {{inputs: 'proj.code:inputs'}}",
    "own": SPARSE,
    "imported": f"{SPARSE}, imports: [proj.kernels]",
    "eigh": SQUARE,
    "tridiagonal": SQUARE,
}

CALL = """
import json, sys
import numpy as np
import aotbuild
library = aotbuild.load("proj/_aot", arrays=sys.argv[1])
def call(name):
    f, i = np.float32, np.int32
    if name in ("eigh", "tridiagonal"):
        result = getattr(library, name)(np.diag(np.arange(1, 4, dtype=f)) + np.ones((3, 3), f))
        return np.asarray(result[0] if name == "eigh" else result).tolist()
    given = np.array([1, 2, 3], f), np.array([2, 0, 1], i), np.arange(4, dtype=i)
    return np.asarray(getattr(library, name)(*given, np.arange(6, dtype=f).reshape(3, 2))).tolist()
"""
PRODUCT = [[4, 5], [0, 2], [6, 9]]
# How a user's package registers its target: with jax, and without it.
JAX_FFI = "import jax.ffi; jax.ffi.register_ffi_target('proj_csr', handler, platform='cpu')\n"
JAXLIB = (
    "from jaxlib import xla_client\n"
    "xla_client.register_custom_call_target('proj_csr', handler, 'cpu', 1)\n"
)
KERNELS = JAXLIB.replace("proj_csr", "proj_kernel")
HANDLER = "from jaxlib.cpu import _sparse; (handler,) = _sparse.registrations().values()\n"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    listing = "".join(
        f"  {n}: {{call: 'proj.code:{n}', {args}}}\n" for n, args in FUNCTIONS.items()
    )
    manifest = f"version: 1\npackage: proj\nfunctions:\n{listing}"
    root = tmp_path_factory.mktemp("calls")
    return build(write_project(root, manifest, code=CODE, kernels=HANDLER + KERNELS))


def root_of(package: Package) -> Path:
    return package.folder.parent.parent


def test_providers(package: Package) -> None:
    found = {
        record.function: {(call.target, call.provider) for call in record.requires.custom_calls}
        for record in package.records
    }
    assert found["bcsr"] == {("cpu_csr_sparse_dense_ffi", "jax")}
    assert found["own"] == {("proj_csr", "user")}
    assert found["imported"] == {("proj_kernel", "imports")}
    assert found["eigh"] >= {("lapack_ssyevd_ffi", "jax")}
    assert found["tridiagonal"] == {("lapack_sgtsv_ffi", "jax")}
    (note,) = [each for each in package.notes if "under imports:" in each]
    assert "own calls proj_csr, which its imports registered" in note


def test_golden_outputs_need_valid_indices(package: Package) -> None:
    """jaxlib's kernel for sparse matrices reads where its indices point (0.10.2, 0.12.0.1)."""
    golden = {record.function for record in package.records if record.golden}
    assert golden == {"given", "eigh", "tridiagonal"}
    assert len([note for note in package.notes if "takes integers, and reads" in note]) == 3


def test_padding_of_a_kernel_is_tried_with_valid_indices_only(tmp_path: Path) -> None:
    spec = SPARSE.replace("3,2", "3,n")
    entry = f"{{call: 'proj.code:bcsr', {spec}, dims: {{n: [4]}}, pad: {{n: 0}}}}"
    manifest = f"version: 1\npackage: proj\nfunctions:\n  bcsr: {entry}\n"
    with pytest.raises(AotbuildError, match="pad: padding n=1 to 4: a kernel outside of XLA takes"):
        build(write_project(tmp_path / "padded", manifest, code=CODE))


@pytest.mark.parametrize("arrays", ["jax", "numpy"])
def test_those_of_jaxlib_need_nothing(package: Package, arrays: str) -> None:
    code = CALL + "print(json.dumps([call(n) for n in ('bcsr', 'eigh', 'tridiagonal')]))"
    product, values, solution = fresh(code, arrays, path=root_of(package))
    x = np.diag([1, 2, 3]) + np.ones((3, 3))
    bands = np.diag(x[1]) + np.diag(x[0, 1:], -1) + np.diag(x[2, :-1], 1)
    assert product == PRODUCT
    np.testing.assert_allclose(values, np.linalg.eigvalsh(x), rtol=1e-5)
    np.testing.assert_allclose(solution, np.linalg.solve(bands, x), atol=1e-5)


@pytest.mark.parametrize(
    ("arrays", "registers", "begins"),
    [("jax", JAX_FFI, False), ("numpy", JAX_FFI, True), ("numpy", JAXLIB, False)],
)
def test_one_of_the_user(package: Package, arrays: str, registers: str, begins: bool) -> None:
    code = ("" if begins else "call('bcsr')\n") + HANDLER + registers
    found = fresh(f"{CALL}{code}print(json.dumps(call('own')))", arrays, path=root_of(package))
    assert found == PRODUCT


@pytest.mark.parametrize("arrays", ["jax", "numpy"])
def test_one_that_the_loader_imports(package: Package, arrays: str, tmp_path: Path) -> None:
    """`imports:` names its module; a process that cannot import it says which."""
    code = CALL + "print(json.dumps([call('imported'), 'jax' in sys.modules]))"
    assert fresh(code, arrays, path=root_of(package)) == [PRODUCT, arrays == "jax"]
    elsewhere = CALL.replace("proj/_aot", str(package.folder)) + "call('imported')"
    done = run_fresh(elsewhere, arrays, path=tmp_path, check=False)
    assert "NoExecutable: imported: what its executable imports is missing here" in done.stderr
    assert "imports: proj.kernels cannot be imported: ModuleNotFoundError: No" in done.stderr
    (tmp_path / "proj").mkdir()
    (tmp_path / "proj/kernels.py").touch()
    done = run_fresh(elsewhere, arrays, path=tmp_path, check=False)
    assert "importing proj.kernels does not register proj_kernel\n" in done.stderr


def test_a_build_without_it_names_it(tmp_path: Path) -> None:
    function = "own: {call: 'proj.code:own', args: [x: 'f32[3]'], imports: [proj.kernel]}"
    manifest = f"version: 1\npackage: proj\nfunctions: {{{function}}}\n"
    with pytest.raises(AotbuildError, match=r"functions.own.imports: proj.kernel: no module named"):
        build(write_project(tmp_path, manifest, code="def own(x): return x"))


@pytest.mark.parametrize("arrays", ["jax", "numpy"])
def test_one_that_is_not_registered(package: Package, arrays: str) -> None:
    done = run_fresh(f"{CALL}call('own')", arrays, path=root_of(package), check=False)
    assert done.returncode == 1
    assert "custom calls not registered: proj_csr; import the package" in done.stderr


# As on a platform with a plugin, whose targets nobody can list.
UNLISTED = (
    "from aotbuild.runtime.jax import private; private.custom_call_targets = lambda platform: None"
)


def test_xla_says_what_is_missing_where_nothing_lists_it(package: Package) -> None:
    code = f"{CALL}{UNLISTED}\ncall('own')"
    done = run_fresh(code, "jax", path=root_of(package), check=False)
    assert done.returncode == 1
    assert "NoExecutable: own: its executable has custom calls that are not" in done.stderr
    assert "No FFI handler registered for proj_csr" in done.stderr
    assert "Import the package that registers these custom calls first." in done.stderr


def test_what_xla_refuses_is_no_failure_of_the_package(
    package: Package, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children, "_BOOTSTRAP", f"{UNLISTED}; {children._BOOTSTRAP}")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    report = verify(str(package.folder))
    own = [o for o in report.outcomes if o.subject.startswith("own(")]
    assert not [o for o in report.outcomes if o.status == Status.FAIL]
    assert [outcome.status for outcome in own] == [Status.NOT_CHECKED] * 2
    assert "No FFI handler registered for proj_csr" in own[0].reasons[0]
