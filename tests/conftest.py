"""What holds for all tests: nothing of the user's store; `--check`; what they share."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from support.installs import build_wheel, make_venv, pip, tree_of
from support.processes import ROOT
from support.projects import build, copy_project, imported_modules
from support.shared import made_once, run_folder

# The same examples every time, however slow the machine is; fuzz.py has others.
settings.register_profile(
    "aotbuild",
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("aotbuild")


# --- make check -----------------------------------------------------------------------------------

# `make check` runs what has none of these marks.
SLOW = ("damage", "fuzz", "gpu", "process", "recipes", "wheel", "zoo")
# Files with these marks begin first, in this order, so that none ends long after all others.
LONG = ("recipes", "wheel", "process", "zoo")
# Folders whose tests say nothing more with a second version of jax; single tests elsewhere have the
# mark. The run with the newest jax (.ci/run) leaves out what is marked.
ANY_JAX = (
    "build",
    "cli",
    "docs",
    "faults",
    "fuzz",
    "hook",
    "manifest",
    "recipes",
    "report",
    "store",
    "toolchains",
    "verify",
    "wheels",
)
TESTS = Path(__file__).parent
# By these the interpreter says that a process is started, or the network is used.
FORBIDDEN = {"os.fork", "os.posix_spawn", "os.system", "socket.connect", "subprocess.Popen"}
_forbidden_here: list[str] = []
_is_test_at_work = False


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "run the tests without slow marks, and fail those that start a process after all"
    parser.addoption("--check", action="store_true", help=text)
    text = "run all programs of the zoo in the environment of a version, .venv-zoo-VERSION"
    choices = ("oldest", "newest")
    parser.addoption("--zoo", action="append", default=[], choices=choices, help=text)
    text = "kill builds at each of their writes, not only at the first of each kind (an hour)"
    parser.addoption("--every-write", action="store_true", help=text)


def pytest_configure(config: pytest.Config) -> None:
    # A shell that puts pytest into the background has it ignore SIGINT, and nohup SIGHUP; so does
    # all that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    _import_as_users_do(config)
    if config.getoption("--check"):
        sys.addaudithook(_forbid)


def _import_as_users_do(config: pytest.Config) -> None:
    """Have pytest not rewrite the modules of aotbuild, which it does for those of plugins.

    It parses them where they are imported, in threads too. Before Python 3.11.8 that may fail:
    https://github.com/python/cpython/issues/106905.
    """
    marked: set[str] = getattr(config.pluginmanager.rewrite_hook, "_must_rewrite", set())
    marked.discard("aotbuild")


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    ranks: dict[Path, int] = {}
    for item in items:
        if any(TESTS / folder in item.path.parents for folder in ANY_JAX):
            item.add_marker("any_jax")
        marks = [rank for rank, mark in enumerate(LONG) if item.get_closest_marker(mark)]
        ranks[item.path] = min(*marks, len(LONG), ranks.get(item.path, len(LONG)))
    items.sort(key=lambda item: ranks[item.path])
    if config.getoption("--check"):
        kept = [item for item in items if not any(map(item.get_closest_marker, SLOW))]
        config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
        items[:] = kept


def _forbid(event: str, arguments: tuple[object, ...]) -> None:
    if _is_test_at_work and event in FORBIDDEN:
        _forbidden_here.append(event)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    global _is_test_at_work
    _is_test_at_work = True
    try:
        return (yield)
    finally:
        _is_test_at_work = False


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    result = yield
    if _forbidden_here:
        found = ", ".join(sorted(set(_forbidden_here)))
        _forbidden_here.clear()
        pytest.fail(f"{found}: mark this test, or those that use its fixtures, as `process`")
    return result


# --- settings and folders -------------------------------------------------------------------------


@pytest.fixture(scope="session", autouse=True)
def _no_store() -> None:
    os.environ["AOTBUILD_STORE"] = "off"


@pytest.fixture(scope="session", autouse=True)
def _bytecode_of_what_is_imported() -> None:
    """Compiling all modules takes most of the time that pip needs for an environment with jax."""
    os.environ["PIP_COMPILE"] = "0"
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.fixture(scope="session", autouse=True)
def _no_annotations() -> None:
    os.environ.pop("GITHUB_ACTIONS", None)


@pytest.fixture(scope="session", autouse=True)
def _one_compiler() -> None:
    """A second compiler of a small build costs more than it saves; pytest-xdist fills the CPUs."""
    os.environ["AOTBUILD_JOBS"] = "1"


@pytest.fixture(scope="module", autouse=True)
def _no_project_of_another_file() -> Iterator[None]:
    yield
    for name in imported_modules():
        del sys.modules[name]


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the whole run, which all xdist workers share."""
    return run_folder(tmp_path_factory)


@pytest.fixture(scope="session")
def every_write(pytestconfig: pytest.Config) -> bool:
    return bool(pytestconfig.getoption("--every-write"))


@pytest.fixture(scope="session", autouse=True)
def _toolchains(run: Path) -> None:
    os.environ["AOTBUILD_TOOLCHAINS"] = str(run / "toolchains")


@pytest.fixture(scope="session")
def links(run: Path) -> Path:
    """A folder with aotbuild's own wheel."""
    return made_once(run / "links", lambda folder: build_wheel(ROOT, folder))


@pytest.fixture(scope="session")
def example_wheel(run: Path, links: Path) -> Path:
    """The wheel of the example project, built as a user does: by pip, in isolation."""

    def make(folder: Path) -> None:
        project = copy_project("../../example_project", folder)
        before = tree_of(project)
        pip(sys.executable, "wheel", "--no-deps", "-w", folder, project, links=links)
        assert tree_of(project) == before, "the build changed the project"

    (wheel,) = made_once(run / "example", make).glob("*.whl")
    return wheel


@pytest.fixture(scope="session")
def example_python(run: Path, links: Path, example_wheel: Path) -> Path:
    """The Python of an environment that pip installed the example's wheel into, and no more."""

    def make(folder: Path) -> None:
        pip(make_venv(folder), "install", "--quiet", example_wheel, links=links)

    return made_once(run / "example-env", make) / "bin" / "python"


@pytest.fixture(scope="session")
def zoo(run: Path) -> Path:
    """The project of all kinds of functions, built into its package."""

    def make(folder: Path) -> None:
        build(copy_project("zoo", folder))

    return made_once(run / "zoo", make) / "zoo"
