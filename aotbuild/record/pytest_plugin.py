"""The plugin of pytest: `pytest --aotbuild-record FILE` records what the tests call.

pytest imports it in every run, so nothing else is imported until the option is used.
"""

from __future__ import annotations

from typing import Any


def pytest_addoption(parser: Any) -> None:
    """Add the option."""
    group = parser.getgroup("aotbuild")
    group.addoption(
        "--aotbuild-record",
        metavar="FILE",
        help="Record the calls of jitted functions into FILE, as `calls.jsonl`; it is appended to. "
        "`aotbuild record --from FILE` makes a manifest of it.",
    )


def pytest_configure(config: Any) -> None:
    """Watch this process as soon as it has jax; with xdist, each worker is configured so."""
    path = config.getoption("--aotbuild-record")
    if path and not (hasattr(config.option, "dist") and _leads_workers(config)):
        from aotbuild.record.start.aotbuild_after_jax import call_after_jax

        place = config.invocation_params.dir / path
        config.add_cleanup(call_after_jax(lambda: _start(config, place)))


def _start(config: Any, place: Any) -> None:
    from aotbuild.record.recorder import Recorder

    config.add_cleanup(Recorder(place).start().stop)


def _leads_workers(config: Any) -> bool:
    """Return whether this process only hands tests to others."""
    return config.option.dist != "no" and not hasattr(config, "workerinput")
