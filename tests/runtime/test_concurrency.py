"""One flight: what several threads ask for at the same time is made once."""

from __future__ import annotations

from aotbuild.runtime.concurrency import SingleFlight


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
