"""What errors print of the URL of an executor: logs are read by others."""

from __future__ import annotations

import pytest

from aotbuild.build.executors.chosen import open_machines
from aotbuild.errors import PlanError

pytestmark = pytest.mark.any_jax


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://host:1?token=hunter2", "http://host:1?token=…"),
        ("dask://host?token=hunter2&wait=3", "dask://host?token=…&wait=3"),
        ("dask://host:1?hunter2", "dask://host:1?…"),
        ("dask://localhost:1?wait=x", "dask://localhost:1?wait=x"),
        ("slurm://host?partition=gpu&export=KEY%3Dhunter2", "slurm://host?partition=gpu&export=…"),
    ],
)
def test_values_of_unknown_options_are_not_printed(url: str, shown: str) -> None:
    with pytest.raises(PlanError) as caught, open_machines(url):
        pass
    assert shown in str(caught.value)
    assert "hunter2" not in str(caught.value)
