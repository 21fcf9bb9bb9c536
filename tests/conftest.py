"""What holds for all tests: no build takes anything from the user's store."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(scope="session", autouse=True)
def _no_store() -> None:
    os.environ["AOTBUILD_STORE"] = "off"
