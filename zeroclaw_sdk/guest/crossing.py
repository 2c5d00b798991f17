"""Values on their way between an author's code and the code that componentize-py generates.

The generated code takes a value of the wrong type badly: it aborts the component without a word. So what an author's
function returns is checked first, by the annotations of the base class, and what does not fit is named.

Author's classes and generated ones have the same names and fields; an annotation says everything else.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final, Protocol, cast

from zeroclaw_sdk.guest.faults import AnswerInvalid, DefinitionInvalid
from zeroclaw_sdk.guest.imported import encodable
from zeroclaw_sdk.guest.variant import Variant
from zeroclaw_sdk.guest.wit import U64_MAX


class Crossing(Protocol):
    """The way of one type."""

    @property
    def noun(self) -> str:
        """What a message calls such a value."""
        ...

    def check(self, value: object, where: str) -> Any:
        """The value as the author's side of the boundary has it.

        :raises AnswerInvalid: it is something else; says where.
        """
        ...

    def outward(self, value: Any, wit: Any) -> object:
        """A checked value as the generated code wants it.

        :param wit: the generated module that holds the classes.
        """
        ...

    def inward(self, value: Any) -> object:
        """A value of the generated code as the author gets it."""
        ...


def _mismatch(crossing: Crossing, where: str) -> AnswerInvalid:
    return AnswerInvalid(f"{where}: expected {crossing.noun}")


@dataclass(frozen=True)
class Plain:
    """What is the same on both sides."""

    type: type
    noun: str

    def check(self, value: object, where: str) -> Any:
        if not isinstance(value, self.type):
            raise AnswerInvalid(f"{where}: expected {self.noun}, got {type(value).__name__}")
        return value

    def outward(self, value: Any, wit: Any) -> object:
        return value

    def inward(self, value: Any) -> object:
        return value


class Text(Plain):
    """A string; half characters become question marks."""

    def check(self, value: object, where: str) -> Any:
        return encodable(super().check(value, where))


class Bytes(Plain):
    """Bytes; anything that holds bytes will do."""

    def check(self, value: object, where: str) -> Any:
        if isinstance(value, bytearray | memoryview):
            value = bytes(cast("bytearray | memoryview[int]", value))
        return super().check(value, where)


class Whole(Plain):
    """An integer. All that the two interfaces have are ``u64``."""

    def check(self, value: object, where: str) -> Any:
        number: int = super().check(value, where)
        if isinstance(value, bool) or not 0 <= number <= U64_MAX:
            raise _mismatch(self, where)
        return number


class Number(Plain):
    """A floating-point number; an integer will do."""

    def check(self, value: object, where: str) -> Any:
        if isinstance(value, int) and not isinstance(value, bool):
            try:
                return float(value)
            except OverflowError:
                raise _mismatch(self, where) from None
        return super().check(value, where)


@dataclass(frozen=True)
class Maybe:
    """A value or None."""

    inner: Crossing

    @property
    def noun(self) -> str:
        return f"{self.inner.noun} or None"

    def check(self, value: object, where: str) -> Any:
        return None if value is None else self.inner.check(value, where)

    def outward(self, value: Any, wit: Any) -> object:
        return None if value is None else self.inner.outward(value, wit)

    def inward(self, value: Any) -> object:
        return None if value is None else self.inner.inward(value)


@dataclass(frozen=True)
class Many:
    """A list or tuple on the author's side, a list on the other."""

    element: Crossing
    noun: str = "a list"

    def check(self, value: object, where: str) -> Any:
        if not isinstance(value, list | tuple):
            raise AnswerInvalid(f"{where}: expected {self.noun}, got {type(value).__name__}")
        elements = cast("Sequence[object]", value)
        return tuple(self.element.check(each, f"{where}[{index}]") for index, each in enumerate(elements))

    def outward(self, value: Any, wit: Any) -> object:
        return [self.element.outward(each, wit) for each in value]

    def inward(self, value: Any) -> object:
        return tuple(self.element.inward(each) for each in value)


@dataclass(frozen=True)
class Fixed:
    """A tuple of so many elements."""

    elements: tuple[Crossing, ...]

    @property
    def noun(self) -> str:
        return f"a tuple of {len(self.elements)}"

    def check(self, value: object, where: str) -> Any:
        if not isinstance(value, tuple) or len(found := cast("tuple[object, ...]", value)) != len(
            self.elements
        ):
            raise _mismatch(self, where)
        return tuple(
            each.check(found[index], f"{where}[{index}]") for index, each in enumerate(self.elements)
        )

    def outward(self, value: Any, wit: Any) -> object:
        return tuple(each.outward(value[index], wit) for index, each in enumerate(self.elements))

    def inward(self, value: Any) -> object:
        return tuple(each.inward(value[index]) for index, each in enumerate(self.elements))


@dataclass(frozen=True)
class Record:
    """A dataclass that the generated code has under the same name."""

    cls: type
    members: Mapping[str, Crossing]

    @property
    def noun(self) -> str:
        return self.cls.__name__

    def check(self, value: object, where: str) -> Any:
        if not isinstance(value, self.cls):
            raise AnswerInvalid(f"{where}: expected {self.noun}, got {type(value).__name__}")
        checked = {
            name: each.check(getattr(value, name), f"{where}.{name}") for name, each in self.members.items()
        }
        return self.cls(**checked)

    def outward(self, value: Any, wit: Any) -> object:
        generated = getattr(wit, self.cls.__name__)
        return generated(
            **{name: each.outward(getattr(value, name), wit) for name, each in self.members.items()}
        )

    def inward(self, value: Any) -> object:
        return self.cls(**{name: each.inward(getattr(value, name)) for name, each in self.members.items()})


@dataclass(frozen=True)
class Case:
    """A :class:`Variant`; the generated code has a class for each case."""

    cls: type[Variant]

    @property
    def noun(self) -> str:
        return self.cls.__name__

    def check(self, value: object, where: str) -> Any:
        if not isinstance(value, self.cls):
            raise AnswerInvalid(f"{where}: expected {self.noun}, got {type(value).__name__}")
        return value if value.text is None else self.cls(value.case, encodable(value.text))

    def outward(self, value: Any, wit: Any) -> object:
        generated = case_class(wit, self.cls.__name__, value.case)
        return generated() if value.text is None else generated(value.text)

    def inward(self, value: Any) -> object:
        name = type(value).__name__
        for word, carries in self.cls.CASES.items():
            if name == case_name(self.cls.__name__, word):
                return self.cls(word, value.value if carries else None)
        raise AnswerInvalid(f"{name} is no case of {self.cls.__name__}")


def case_name(variant: str, word: str) -> str:
    """What componentize-py calls the class of a variant's case."""
    return f"{variant}_{''.join(part.capitalize() for part in word.split('-'))}"


def case_class(wit: Any, variant: str, word: str) -> Any:
    """The generated class of a variant's case."""
    return getattr(wit, case_name(variant, word))


def crossing_of(annotation: object, where: str) -> Crossing:
    """The way of an annotated type. ``Annotated[..., crossing]`` goes the way it names.

    :raises DefinitionInvalid: the type has no place in the contract.
    """
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return cast("Crossing", arguments[1])
    if origin in (typing.Union, types.UnionType) and len(arguments) == 2 and arguments[1] is type(None):
        return Maybe(crossing_of(arguments[0], where))
    if origin is Sequence or (origin is tuple and arguments[1:] == (Ellipsis,)):
        return Many(crossing_of(arguments[0], where))
    if origin is tuple:
        return Fixed(tuple(crossing_of(each, where) for each in arguments))
    if isinstance(annotation, type) and issubclass(annotation, Variant):
        return Case(annotation)
    if isinstance(annotation, type) and is_dataclass(annotation):
        hints = typing.get_type_hints(annotation, include_extras=True)
        names = [each.name for each in fields(annotation)]
        return Record(
            annotation, {name: crossing_of(hints[name], f"{annotation.__name__}.{name}") for name in names}
        )
    raise DefinitionInvalid(f"{where}: {annotation!r} has no place in the contract")


_PLAIN: Final[dict[object, Crossing]] = {
    None: Plain(type(None), "None"),
    type(None): Plain(type(None), "None"),
    str: Text(str, "a text"),
    bool: Plain(bool, "True or False"),
    int: Whole(int, "a whole number from 0 to 2^64-1"),
    float: Number(float, "a number"),
    bytes: Bytes(bytes, "bytes"),
}
