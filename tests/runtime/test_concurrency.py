"""One flight: what several threads ask for at the same time is made once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from aotbuild.runtime.concurrency import SingleFlight


def test_many_wait_for_one() -> None:
    flight: SingleFlight[int] = SingleFlight()
    made: list[int] = []

    def make() -> int:
        made.append(threading.get_ident())
        threading.Event().wait(0.05)
        return len(made)

    with ThreadPoolExecutor(16) as pool:
        assert {*pool.map(lambda _: flight.get("key", make), range(16))} == {1}


def test_a_failure_is_not_kept() -> None:
    flight: SingleFlight[int] = SingleFlight()
    with pytest.raises(ZeroDivisionError):
        flight.get("key", lambda: 1 // 0)
    assert "key" not in flight
    assert flight.get("key", lambda: 1) == 1


def test_what_a_reentrant_call_made_is_kept() -> None:
    flight: SingleFlight[int] = SingleFlight()
    assert flight.get("key", lambda: flight.get("key", lambda: 1) + 1) == 1


def test_what_is_forgotten_during_a_call_is_still_returned() -> None:
    flight: SingleFlight[int] = SingleFlight()

    class Key:
        hashed = 0

        def __hash__(self) -> int:
            self.hashed += 1
            if self.hashed == 2:  # as another thread may, between two lookups
                flight.clear()
            return 1

    key = Key()
    flight.get(key, lambda: 1)
    key.hashed = 0
    assert flight.get(key, lambda: 2) == 1
