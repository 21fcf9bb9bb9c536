"""What classes are defined with: attributes made per instance, and frozen dataclasses, fast.

Frozen dataclasses follow the rules of `dataclasses`, without generated source. That
generates and compiles six methods for each class, which takes 0.4 ms, and 3 ms for
its own import. A process that calls one executable defines about thirty classes; that was half of
the time to import aotbuild. Here the methods are closures over the field names.
`dataclasses.replace`, `fields` and `asdict` work on the instances, and type checkers see the
decorator of the standard library.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

_MISSING: Any = object()

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
else:
    from collections.abc import Mapping
    from operator import attrgetter

    def dataclass(*, frozen: bool) -> Callable[[type], type]:
        """Return a decorator that makes a class a frozen dataclass; `frozen` must be True."""
        if not frozen:
            msg = "only frozen dataclasses are made here"
            raise TypeError(msg)
        return _define

    def field(*, default_factory: Callable[[], Any]) -> Any:
        """Return a field whose default is made by `default_factory` for each instance."""
        return _Factory(default_factory)

    class _Factory:
        def __init__(self, make: Callable[[], Any]) -> None:
            self.make = make

    class _Fields:
        """The attribute by which `dataclasses` recognizes its classes, made at its first use."""

        def __get__(self, _: object, owner: type) -> Mapping[str, Any]:
            import dataclasses

            names, defaults, factories = owner._frozen_fields
            options = {
                **{name: {"default": value} for name, value in defaults.items()},
                **{name: {"default_factory": make} for name, make in factories.items()},
            }
            rows = [(name, Any, dataclasses.field(**options.get(name, {}))) for name in names]
            owner.__dataclass_fields__ = dataclasses.make_dataclass("_", rows).__dataclass_fields__
            return owner.__dataclass_fields__

    def _define(cls: type) -> type:
        names, defaults, factories = map(dict, getattr(cls, "_frozen_fields", ((), (), ())))
        for name in cls.__annotations__:
            names[name] = None
            value = cls.__dict__.get(name, _MISSING)
            if isinstance(value, _Factory):
                factories[name] = value.make
                delattr(cls, name)
            elif value is not _MISSING:
                defaults[name] = value
        cls._frozen_fields = (names, defaults, factories)
        cls.__match_args__ = tuple(names)
        cls.__init__ = _init(cls.__qualname__, cls.__match_args__, defaults, factories)
        cls.__setattr__, cls.__delattr__ = _set, _delete
        cls.__dataclass_fields__ = _Fields()
        for method in _methods(cls.__match_args__):
            # Keep methods that the class defines; a class with its own __eq__ has __hash__ None.
            if cls.__dict__.get(method.__name__) is None:
                setattr(cls, method.__name__, method)
        return cls

    def _init(
        title: str,
        names: tuple[str, ...],
        defaults: Mapping[str, Any],
        factories: Mapping[str, Callable[[], Any]],
    ) -> Callable[..., None]:
        wanted, count = frozenset(names), len(names)

        def __init__(self, /, *args: Any, **given: Any) -> None:  # noqa: N807
            if len(args) == count and not given:
                self.__dict__.update(zip(names, args, strict=True))
                return
            values = {**defaults, **dict(zip(names, args, strict=False)), **given}
            for name in factories.keys() - values.keys():
                values[name] = factories[name]()
            if values.keys() != wanted or len(args) > count or given.keys() & names[: len(args)]:
                found = ", ".join([*map(repr, args), *(f"{name}=…" for name in given)])
                msg = f"{title}({', '.join(names)}) was called as {title}({found})"
                raise TypeError(msg)
            self.__dict__.update(values)

        return __init__

    def _methods(names: tuple[str, ...]) -> tuple[Callable[..., Any], ...]:
        # attrgetter returns a tuple only for two names or more, and needs at least one.
        values = attrgetter(*names) if len(names) > 1 else lambda self: [*_values(self, names)]

        def __eq__(self, other: object) -> Any:  # noqa: N807
            if other.__class__ is not self.__class__:
                return NotImplemented
            return values(self) == values(other)

        def __hash__(self) -> int:  # noqa: N807
            return hash(tuple(values(self)))

        def __repr__(self) -> str:  # noqa: N807
            shown = zip(names, map(repr, values(self)), strict=True)
            return f"{self.__class__.__qualname__}({', '.join(map('='.join, shown))})"

        return __eq__, __hash__, __repr__

    def _values(self: object, names: tuple[str, ...]) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in names)

    def _set(_self: object, name: str, _value: object) -> None:
        msg = f"cannot assign to field {name!r}"
        raise _error()(msg)

    def _delete(_self: object, name: str) -> None:
        msg = f"cannot delete field {name!r}"
        raise _error()(msg)

    def _error() -> type[Exception]:
        from dataclasses import FrozenInstanceError

        return FrozenInstanceError


def per_instance(make: Callable[[Any], Any], of_class: Any = _MISSING) -> Any:
    """Return an attribute that each instance makes when it is read.

    The class itself has `of_class`, or no such attribute. So `__doc__` can be of an instance.
    """
    return _PerInstance(make, of_class)


class _PerInstance:
    def __init__(self, make: Callable[[Any], Any], of_class: Any) -> None:
        self._make = make
        self._of_class = of_class

    def __get__(self, instance: object, owner: type) -> Any:
        if instance is not None:
            return self._make(instance)
        if self._of_class is _MISSING:
            raise AttributeError
        return self._of_class
