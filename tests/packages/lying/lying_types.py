"""Types that records name in `tests/faults/test_trees.py`: registered ones, and others."""

import sys
from typing import Any, NamedTuple


class Pair(NamedTuple):
    """A namedtuple of two."""

    first: Any
    second: Any


class Plain:
    """Not registered."""


class Raises:
    """Takes no parts."""


class Exits:
    """Ends the program."""


class ListOfTwo(list[Any]):
    """A subclass of a builtin, registered."""


class EqualToNothing(type):
    """Makes types that cannot be compared."""

    def __eq__(cls, other: object) -> bool:
        raise RuntimeError

    def __hash__(cls) -> int:
        return 1


class Incomparable(metaclass=EqualToNothing):
    """Not registered, and nothing can be compared with it."""


class Sized(tuple[Any, ...]):
    """Has `_fields` that are no names."""

    _fields = 3


NOTHING = None
AN_ALIAS = dict


def raises(*_: Any) -> Any:
    raise KeyError


def exits(*_: Any) -> Any:
    sys.exit(3)


def two(_: Any, parts: Any) -> Any:
    first, second = parts
    return ListOfTwo([first, second])


if "jax" in sys.modules:
    import jax

    register = jax.tree_util.register_pytree_node
    register(Raises, lambda _: ((), None), raises)
    register(Exits, lambda _: ((), None), exits)
    register(ListOfTwo, lambda found: (tuple(found), None), two)
