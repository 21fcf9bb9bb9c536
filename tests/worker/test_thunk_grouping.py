"""Groups of what an executable for CPUs runs: fewer to compare, and nothing kept apart by them."""

from __future__ import annotations

import random
from typing import Any

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
import pytest
from jax import lax

from aotbuild.format.protobuf import (
    Malformed,
    bytes_field,
    bytes_of,
    messages_of,
    number_field,
    varint,
)
from aotbuild.format.target import Target
from aotbuild.worker import private as jax_private
from aotbuild.worker.thunk_rewrite.grouping import group_thunks, grouped
from aotbuild.worker.thunk_rewrite.memory_use import Slice, Uses, name_of
from aotbuild.worker.thunk_rewrite.program import cheap_instructions
from aotbuild.worker.thunk_rewrite.rewrite import LOADED, rewrite

# XLA then calls no library that builds pipelines.
FAST = {"xla_cpu_experimental_ynn_fusion_type": ""}

JAXLIB = jaxlib.__version__
Part = tuple[int, int, int]
CALL, WHILE, KERNEL, CUSTOM = 3, 10, 11, 16
INFO = bytes_field(1, b"name") + bytes_field(2, b"module") + number_field(3, 7)


def part(place: Part) -> bytes:
    allocation, offset, size = place
    return number_field(1, offset) + number_field(2, size) + number_field(3, allocation)


def thunk(name: bytes, number: int, body: bytes) -> bytes:
    return bytes_field(1, name) + bytes_field(2, INFO) + bytes_field(number, body)


def kernel(uses: Uses, more: bytes = b"") -> bytes:
    slices = [(5, place) for place in uses.reads] + [(6, place) for place in uses.writes]
    body = b"".join(bytes_field(number, bytes_field(1, part(place))) for number, place in slices)
    return thunk(b"kernel", KERNEL, bytes_field(1, b"code") + body + more)


def sequence(thunks: list[bytes]) -> bytes:
    return b"".join(bytes_field(1, each) for each in thunks)


def program(uses: list[Uses]) -> bytes:
    return sequence([kernel(each) for each in uses])


def use(reads: list[Part], writes: list[Part]) -> Uses:
    parts = [tuple(Slice(*place) for place in places) for places in (reads, writes)]
    return Uses(*parts)


def chain(length: int, size: int = 1024, allocation: int = 0) -> list[Uses]:
    """Each reads what the one before wrote."""
    return [
        use([(allocation, at * size, size)], [(allocation, (at + 1) * size, size)])
        for at in range(length)
    ]


def layers(seed: int) -> list[Uses]:
    """Some wide, some narrow; each reads what some of the layer before wrote, all or a part."""
    draw = random.Random(seed)
    found: list[Uses] = []
    before: list[Part] = [(0, 0, 1024)]
    for number in range(40):
        width = draw.choice([1, 1, 1, 1, 2, 5])
        sizes = [draw.choice([1024, 1024, 64]) for _ in range(width)]
        now = [(number % 3 + 1, at * 1024, size) for at, size in enumerate(sizes)]
        found += [use(draw.sample(before, draw.randint(1, len(before))), [place]) for place in now]
        before = now
    return found


def loop(condition: bytes, body: bytes) -> bytes:
    """A program that is one loop."""
    last = bytes_field(4, part((9, 0, 1)))
    inside = bytes_field(1, condition) + bytes_field(2, body) + last
    return sequence([thunk(b"while", WHILE, inside)])


def groups(data: bytes) -> list[list[bytes]]:
    """Return the thunks of each group of a sequence; those in none are alone."""
    return [
        messages_of(bytes_of(bytes_of(each, CALL), 1), 1) if bytes_of(each, CALL) else [each]
        for each in messages_of(data, 1)
    ]


def clash(one: Uses, other: Uses) -> bool:
    def meet(some: tuple[Slice, ...], others: tuple[Slice, ...]) -> bool:
        return any(
            a.allocation == b.allocation
            and a.offset < b.offset + b.size
            and b.offset < a.offset + a.size
            for a in some
            for b in others
        )

    return meet(one.writes, other.writes + other.reads) or meet(one.reads, other.writes)


def awaited(uses: list[Uses]) -> list[set[int]]:
    """Return whom each waits for, as XLA finds it: it compares all with all."""
    found: list[set[int]] = []
    for number, each in enumerate(uses):
        direct = [other for other in range(number) if clash(uses[other], each)]
        found.append(set(direct).union(*(found[other] for other in direct)))
    return found


def awaited_in_groups(uses: list[Uses], sizes: list[int]) -> list[set[int]]:
    """Return whom each waits for if groups of these sizes wait for each other."""
    starts = [sum(sizes[:number]) for number in range(len(sizes))]
    spans = [range(start, start + size) for start, size in zip(starts, sizes, strict=True)]
    unions = [
        use([p for i in span for p in uses[i].reads], [p for i in span for p in uses[i].writes])
        for span in spans
    ]
    found: list[set[int]] = []
    for span, others in zip(spans, awaited(unions), strict=True):
        outside = {number for other in others for number in spans[other]}
        inside = awaited([uses[number] for number in span])
        found += [outside | {span.start + number for number in each} for each in inside]
    return found


class TestGroups:
    def test_a_chain_is_split_and_kept_in_its_order(self) -> None:
        whole = program(chain(100))
        found = groups(grouped(whole))
        assert [len(group) for group in found] == [16, 16, 16, 16, 16, 20]
        assert sequence([each for group in found for each in group]) == whole

    @pytest.mark.parametrize("seed", range(10))
    def test_what_could_run_at_the_same_time_still_can(self, seed: int) -> None:
        uses = layers(seed)
        found = groups(grouped(program(uses), {b"name"}))
        sizes = [len(group) for group in found]
        assert len(sizes) > 1
        assert min(sizes) > 8
        assert [each for group in found for each in group] == messages_of(program(uses), 1)
        counts = {number for number, each in enumerate(uses) if each.writes[0].size > 512}
        now, then = awaited_in_groups(uses, sizes), awaited(uses)
        assert all(now[number] & counts == then[number] & counts for number in counts)

    def test_a_cheap_one_beside_a_chain_does_not_matter(self) -> None:
        beside = program([use([(5, 0, 4)], [(5, 64, 4)]), *chain(99)])
        assert len(groups(grouped(beside, {b"name"}))) == 6
        assert grouped(beside, {b"other"}) == beside
        longer = program([use([(5, 0, 1024)], [(5, 1024, 1024)]), *chain(99)])
        assert grouped(longer, {b"name"}) == longer

    def test_a_call_of_other_code_is_never_cheap(self) -> None:
        slices = bytes_field(1, bytes_field(2, part((5, 0, 4))))
        call = thunk(b"custom-call", CUSTOM, bytes_field(2, b"slow") + bytes_field(4, slices))
        behind = sequence([*(kernel(each) for each in chain(99)), call])
        assert grouped(behind, {b"name"}) == behind

    def test_no_group_has_little_memory_only(self) -> None:
        """XLA would run one after another what may run at the same time in the whole program."""
        small = program(chain(100, size=64))
        assert grouped(small, {b"name"}) == small
        uses = [*chain(40, size=64), *chain(70, allocation=1), *chain(40, 64, allocation=1)]
        sizes = [len(group) for group in groups(grouped(program(uses), {b"name"}))]
        assert sizes == [41, 16, 16, 16, 16, 45]

    def test_bodies_of_loops_have_groups(self) -> None:
        condition, body = program(chain(2)), program(chain(100, 65_537))
        changed = grouped(body)
        assert len(groups(changed)) > 1
        assert grouped(loop(condition, body)) == loop(condition, changed)

    def test_those_of_small_loops_have_none(self) -> None:
        """XLA runs them one after another, and would not what is in a group."""
        small = loop(program(chain(2)), program(chain(100, 65_536)))
        assert grouped(small) == small

    @pytest.mark.parametrize(
        "odd",
        [
            thunk(b"new", 99, b""),
            thunk(b"kernel", KERNEL, b"") + bytes_field(CALL, b""),
            bytes_field(1, b"kernel"),
            kernel(use([], []), more=number_field(9, 1)),
            kernel(use([(0, 0, 0)], [])),
            thunk(b"kernel", KERNEL, b"\xff"),
            thunk(b"custom-call", CUSTOM, number_field(9, 1)),
        ],
        ids=["kind", "two kinds", "no kind", "field", "no size", "no message", "custom"],
    )
    def test_something_unknown_is_refused(self, odd: bytes) -> None:
        with pytest.raises(Malformed):
            grouped(program(chain(100)) + bytes_field(1, odd))

    def test_thunks_that_share_other_things_are_refused(self) -> None:
        with pytest.raises(Malformed):
            grouped(program(chain(100)) + bytes_field(2, number_field(1, 3)))


class TestExecutables:
    head = b"\x03abc"

    def executable(self, thunks: bytes) -> bytes:
        result = bytes_field(2, b"buffers") + bytes_field(6, thunks) + number_field(5, 2)
        return self.head + bytes_field(1, result) + bytes_field(2, b"options")

    def test_only_the_list_of_thunks_changes(self) -> None:
        thunks = program(chain(100))
        now = group_thunks(self.executable(thunks), JAXLIB)
        assert now == self.executable(grouped(thunks)) != self.executable(thunks)

    def test_what_nobody_knows_is_left_alone(self) -> None:
        strange = self.executable(program(chain(100)) + bytes_field(2, b""))
        empty = self.executable(b"")
        for data in (strange, empty, strange[:50], b"", b"\x00", b"\xff" * 20):
            assert group_thunks(data, JAXLIB) == data


def layer(x: Any, w: Any) -> Any:
    return jax.nn.softmax(jnp.tanh(x @ w) * 2 + x, -1)


def deep(x: Any, w: Any) -> Any:
    """Narrow and wide in turns, and a loop around."""

    def body(_: Any, x: Any) -> Any:
        for _ in range(24):
            x = layer(x, w)
        return x

    for _ in range(4):
        x = sum(layer(x * number, w) for number in range(3))
        x = layer(layer(x, w), w)
    return lax.fori_loop(0, 2, body, x), jnp.sort(x)


@pytest.mark.parametrize(
    ("function", "is_cheap"),
    [
        (lambda x: x + 1, True),
        (lambda x: jnp.sin(jnp.arange(8) * x).sum(), True),
        (lambda x: jnp.sin(jnp.arange(10_000) * x).sum(), False),
        (lambda x: lax.fori_loop(0, 10_000, lambda _, x: jnp.sin(x), x), False),
    ],
    ids=["counter", "sum", "long sum", "loop"],
)
def test_what_is_long_is_not_told_by_its_memory(function: Any, is_cheap: bool) -> None:
    """All of these read and write a number."""
    compiled = jax.jit(function).lower(np.float32(1)).compile()
    data = jax_private.serialize_executable(compiled)
    size, at = varint(data, 0)
    result = bytes_of(data[at + size :], 1)
    cheap = cheap_instructions(bytes_of(bytes_of(result, 1), 1))
    names = {name_of(each) for each in messages_of(bytes_of(result, 6), 1)}
    assert (names <= cheap) == is_cheap


@pytest.mark.parametrize("options", [None, FAST], ids=["steady", "fast"])
def test_results_are_the_same_to_the_bit(options: dict[str, Any] | None) -> None:
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(shape).astype(np.float32) for shape in ((160, 128), (128, 128))]
    compiled = jax.jit(deep, donate_argnums=0).lower(*given).compile(compiler_options=options)
    data = jax_private.serialize_executable(compiled)
    smaller, facts = rewrite(
        data, Target.parse("cpu:x86-64-v3:1"), jax_private.compiled_module(compiled)
    )
    assert facts == LOADED
    size, at = varint(smaller, 0)
    thunks = bytes_of(bytes_of(smaller[at + size :], 1), 6)
    assert len(groups(thunks)) <= sum(map(len, groups(thunks))) / 9
    assert thunks.count(b"aotbuild$group") > len(groups(thunks))

    device = jax.devices("cpu")[0]
    results = []
    for each in (data, smaller):
        executable = jax_private.load_executable(each, device)
        arrays = [jax.device_put(array, device) for array in given]
        outputs = jax_private.run_executable(executable, arrays)
        results.append([output.tobytes() for output in outputs])
        assert [array.is_deleted() for array in arrays] == [True, False]
    assert results[0] == results[1]
