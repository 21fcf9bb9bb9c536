"""The window of portable forms: dates that are never later than what jax promises."""

from __future__ import annotations

from datetime import date, timedelta
from importlib import metadata

import pytest
from support.reports import make_record

from aotbuild.format.portable import _RELEASED, Window, released_after, window_of
from aotbuild.format.record import Record

PORTABLE = "portable:cpu:1"
UNTIL = date(2026, 12, 14)
WINDOW = Window("0.10.2", UNTIL)


def record_by(jax: object, target: str = PORTABLE) -> Record:
    return make_record(target=target, provenance={"jax": jax})


def test_the_jax_that_runs_is_in_the_table() -> None:
    """Else its portable forms would seem older than they are: add its release to the table."""
    assert metadata.version("jax") in dict(_RELEASED)


def test_releases_are_in_order() -> None:
    versions, dates = zip(*_RELEASED, strict=True)
    assert list(dates) == sorted(dates)
    assert [released_after(version) for version in versions] == list(dates)


@pytest.mark.parametrize(
    ("jax", "released"),
    [
        ("0.10.2", date(2026, 6, 17)),
        ("0.10.3", date(2026, 6, 17)),
        ("0.12.0.dev20261001", date(2026, 9, 17)),
        ("0.12.0rc1", date(2026, 9, 17)),
        ("0.12.0+cuda", date(2026, 10, 16)),
        ("0.12.0.1", date(2026, 10, 20)),
        ("99.0", _RELEASED[-1][1]),
        ("0.10.1", None),
        ("0.4.38", None),
        ("", None),
        ("x", None),
        ("1" * 100, _RELEASED[-1][1]),
    ],
)
def test_a_date_on_or_before_the_release(jax: str, released: date | None) -> None:
    assert released_after(jax) == released


def test_half_a_year_has_180_days() -> None:
    assert window_of([record_by("0.10.2")]) == WINDOW
    assert str(WINDOW) == "exported by jax 0.10.2, read by each jax released until 2026-12-14"
    assert WINDOW.to_json() == {"jax": "0.10.2", "until": "2026-12-14"}


def test_the_first_to_expire_counts() -> None:
    records = [record_by(jax) for jax in ("0.12.0", "0.10.2", "0.11.0")]
    assert window_of(records) == WINDOW


@pytest.mark.parametrize(
    "records",
    [
        [],
        [record_by("0.10.2", "cpu:x86-64-v3:1")],
        [record_by(None)],
        [record_by(["0.10.2"])],
        [record_by("0.1")],
    ],
)
def test_what_is_not_known(records: list[Record]) -> None:
    assert window_of(records) is None


@pytest.mark.parametrize(
    ("days", "warning"),
    [
        (-31, ""),
        (-30, ""),
        (-29, "that is 29 days from now: build again before you move to a newer jax"),
        (0, "that is 0 days from now: build again before you move to a newer jax"),
        (1, "that has passed: a jax released since then may refuse it. Build again"),
    ],
)
def test_warnings(days: int, warning: str) -> None:
    assert WINDOW.warning(UNTIL + timedelta(days)) == warning


def test_a_jax_that_is_too_new() -> None:
    early = Window("0.10.2", date(2026, 9, 1))
    assert not early.is_left_by("0.11.1")
    assert early.is_left_by("0.11.2")
    assert early.is_left_by("99.0")
    assert not early.is_left_by("0.4.38")
