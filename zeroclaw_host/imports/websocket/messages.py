"""Messages as the interface has them, put together from frames."""

from __future__ import annotations

from typing import Final

from websockets.frames import Frame, Opcode

Message = tuple[str, str | bytes]
"""``("text", str)`` or ``("binary", bytes)``, as the interface's variant."""

_KINDS: Final = {Opcode.TEXT: "text", Opcode.BINARY: "binary"}


class Assembly:
    """The message that is under way. The library has checked the order of frames and their sizes."""

    def __init__(self) -> None:
        self._kind: str | None = None
        self._data = bytearray()

    def add(self, frame: Frame) -> Message | None:
        """Take a frame in; the message that it completes, if it does.

        :raises UnicodeDecodeError: a text that is none.
        """
        kind = _KINDS.get(frame.opcode, self._kind)
        if frame.opcode not in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT) or kind is None:
            return None  # pings and pongs are answered by the library, and nobody is told
        self._data += frame.data
        if not frame.fin:
            self._kind = kind
            return None
        data, self._data, self._kind = bytes(self._data), bytearray(), None
        return (kind, data.decode()) if kind == "text" else (kind, data)
