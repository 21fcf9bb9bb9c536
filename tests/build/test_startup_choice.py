"""`startup:` as a manifest and a plan have it, and which set of options is kept: pure functions."""

from __future__ import annotations

import pytest
from support.manifests import function, refused_option

from aotbuild.platforms.building import description
from aotbuild.platforms.cpu.describe import FAST, PRODUCTS, STARTUP
from aotbuild.platforms.startup import MODES, STEADY, Choice, Figures, best, choice

JAXLIB = "0.10.2"


def figures(*rows: tuple[float, float, float] | None) -> list[Figures | None]:
    return [None if row is None else Figures(*row) for row in rows]


class TestManifest:
    @pytest.mark.parametrize("mode", MODES)
    def test_of_a_function(self, mode: str) -> None:
        assert function(f"startup: {mode}").startup == mode

    def test_of_all_functions(self) -> None:
        assert function("").startup == "steady"
        assert function("", "defaults: {startup: fast}\n").startup == "fast"
        assert function("startup: steady", "defaults: {startup: fast}\n").startup == "steady"

    def test_another_word(self) -> None:
        assert refused_option("startup: fats") == [
            "startup: expected steady, fast or tuned, found the text 'fats' (did you mean 'fast'?)"
        ]


class TestChoice:
    def test_steady_is_what_xla_does(self) -> None:
        assert choice("steady", STARTUP, JAXLIB) == Choice("steady", (STEADY,))
        assert STEADY.options == ()

    def test_fast_is_one_set(self) -> None:
        assert choice("fast", STARTUP, JAXLIB, "cannot be measured") == Choice("fast", (FAST,))

    def test_tuned_tries_all_of_them_and_steady_first(self) -> None:
        assert choice("tuned", STARTUP, JAXLIB).sets == (STEADY, PRODUCTS, FAST)

    def test_what_cannot_be_measured_is_steady_and_says_so(self) -> None:
        found = choice("tuned", STARTUP, JAXLIB, "this machine has no amx_tile")
        assert found.sets == (STEADY,)
        assert found.note == (
            "startup: tuned: this machine has no amx_tile, so nothing was measured: "
            "compiled as startup: steady"
        )

    @pytest.mark.parametrize("jaxlib", ["0.10.1", "0.13.0", "0.13", "1.0", "unknown"])
    def test_options_are_for_versions_that_have_them(self, jaxlib: str) -> None:
        found = choice("fast", STARTUP, jaxlib)
        assert found.sets == (STEADY,)
        assert found.note == (
            f"startup: fast is not known for jaxlib {jaxlib}: compiled as startup: steady"
        )

    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("platform", ["cuda", "tpu"])
    def test_other_platforms_stay_as_they_are(self, platform: str, mode: str) -> None:
        assert choice(mode, description(platform).startup, JAXLIB) == Choice("steady", (STEADY,))

    def test_what_decides_the_bytes_is_in_the_key(self) -> None:
        identities = [choice(mode, STARTUP, JAXLIB).identity() for mode in MODES]
        assert identities[0] != identities[1] != identities[2] != identities[0]
        assert identities[2] != choice("tuned", STARTUP, JAXLIB, "why").identity()


class TestBest:
    def test_the_soonest_answer(self) -> None:
        assert best(figures((80, 90, 18), (90, 60, 18), (25, 50, 19))) == 2

    def test_load_and_first_call_count_together(self) -> None:
        assert best(figures((10, 90, 18), (50, 40, 18))) == 1

    def test_a_slow_steady_state_is_no_price_for_it(self) -> None:
        assert best(figures((80, 90, 10), (1, 1, 11.1))) == 0
        assert best(figures((80, 90, 10), (1, 1, 10.9))) == 1

    def test_of_equals_the_first(self) -> None:
        assert best(figures((1, 2, 3), (2, 1, 3))) == 0

    def test_what_failed_is_out(self) -> None:
        assert best(figures((80, 90, 18), None, (100, 100, 18))) == 0
        assert best(figures(None, (1, 1, 1))) == 1
        assert best(figures(None, None)) is None
        assert best([]) is None
