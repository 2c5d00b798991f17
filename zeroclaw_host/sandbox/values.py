"""Guest values as Python sees them.

One uniform mapping, the same on every path into and out of a guest:

=================  ==================================================================
WIT                Python
=================  ==================================================================
``bool``           ``bool``
integers           ``int``
``f32`` ``f64``    ``float``
``char``           ``str`` of one character
``string``         ``str``
``list<u8>``       ``bytes``
``list<T>``        ``list``
``tuple<...>``     ``tuple``
``record``         ``dict`` keyed by the WIT field names, dashes included
``variant``        ``(case name, payload or None)``
``enum``           ``str``
``option<T>``      ``None`` or the value; an inner option is wrapped in :class:`Some`
``result<T, E>``   :class:`Ok` or :class:`Err`
``flags``          ``frozenset[str]``
own, borrow        the Python object behind the handle
=================  ==================================================================
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ok:
    """The ``ok`` case of a result."""

    value: object = None


@dataclass(frozen=True, slots=True)
class Err:
    """The ``err`` case of a result."""

    value: object = None


@dataclass(frozen=True, slots=True)
class Some:
    """The ``some`` case of an option whose payload is itself an option."""

    value: object = None


OK = Ok()
"""The ``ok`` case without payload."""


class ValueMismatch(TypeError):
    """A value does not have the type it must have. On this side of the boundary that is a fault of the host."""
