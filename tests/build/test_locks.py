"""Locks of toolchains, read from texts as uv and people write them."""

from __future__ import annotations

import platform

from aotbuild.toolchains.lock import read_lock, unmet


def package(name: str, tags: str) -> str:
    """Return the table of a package of one wheel."""
    wheel = f"https://an.index/{name}-1.2.3-{tags}.whl"
    wheels = f"[{{ url = '{wheel}', hashes = {{ sha256 = '{'0' * 64}' }} }}]"
    return f"[[packages]]\nname = '{name}'\nversion = '1.2.3'\nwheels = {wheels}\n"


JAXLIB = package("jaxlib", f"cp311-cp311-manylinux_2_27_{platform.machine()}")
JAX = package("jax", "py3-none-any")
FOLDER = "[[packages]]\nname = 'mine'\ndirectory = { path = '/home/me/mine' }\n"


def test_a_project_in_a_folder_has_no_version() -> None:
    lock = read_lock(JAXLIB + JAX + FOLDER, "a lock", "3.11")
    assert dict(lock.versions) == {"jax": "1.2.3", "jaxlib": "1.2.3", "mine": ""}
    wanted = ["jax==1.2.3", "mine @ file:///home/me/mine", "mine>=2", "other"]
    assert list(unmet(lock, wanted, "3.11")) == ["expected other, found nothing of that name"]
