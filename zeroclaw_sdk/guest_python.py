"""The Python inside a component, as componentize-py 0.25 brings it: CPython 3.14 for WASI.

Measured, not derived: a test builds a component that looks at itself and compares.
"""

from __future__ import annotations

import sys
from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


VERSION: Final = (3, 14)

STDLIB_MODULES: Final = sys.stdlib_module_names | _words(
    """
    _android_support _apple_support _ast_unparse _colorize _hmac _interpchannels _interpqueues
    _interpreters _ios_support _opcode_metadata _py_warnings _pydatetime _pylong _pyrepl
    _remote_debugging _sha2 _suggestions _sysconfig _types _wmi _zstd annotationlib compression
    """
)
"""Top-level names of the standard library: those of this machine's Python, and those that only the newer one has."""

MISSING_MODULES: Final = _words(
    """
    _bz2 _ctypes _curses _curses_panel _dbm _gdbm _hashlib _interpchannels _interpqueues
    _interpreters _lzma _multiprocessing _overlapped _posixshmem _posixsubprocess _remote_debugging
    _scproxy _ssl _tkinter _uuid _winapi _wmi _zstd bz2 ctypes curses fcntl grp lzma mmap msvcrt nt
    pty pwd readline resource ssl syslog termios tkinter tty turtle winreg winsound
    """
)
"""Modules of the standard library that cannot be imported inside a component."""

PRESENT_MODULES: Final = _words(
    """
    __future__ _abc _ast _codecs _collections _collections_abc _contextvars
    _frozen_importlib _frozen_importlib_external _functools _imp _io _json _opcode _opcode_metadata
    _operator _sitebuiltins _sre _stat _thread _tokenize _types _typing _warnings
    _weakref _weakrefset abc annotationlib ast builtins codecs collections collections.abc
    componentize_py_runtime componentize_py_types contextlib contextvars copy copyreg dataclasses
    dis encodings encodings.aliases encodings.utf_8 enum errno fnmatch functools genericpath glob
    importlib importlib._bootstrap importlib._bootstrap_external importlib.machinery inspect io
    itertools json json.decoder json.encoder json.scanner keyword linecache marshal ntpath opcode
    operator os os.path pathlib pathlib._os posix posixpath re re._casefix re._compiler
    re._constants re._parser reprlib site stat sys textwrap time token tokenize types
    typing weakref wit_world wit_world.exports wit_world.imports wit_world.imports.logging zeroclaw_sdk
    zeroclaw_sdk.guest zeroclaw_sdk.guest.annotations zeroclaw_sdk.guest.channel
    zeroclaw_sdk.guest.config zeroclaw_sdk.guest.crossing zeroclaw_sdk.guest.docs
    zeroclaw_sdk.guest.entries zeroclaw_sdk.guest.exports zeroclaw_sdk.guest.faults
    zeroclaw_sdk.guest.functions zeroclaw_sdk.guest.host zeroclaw_sdk.guest.imported
    zeroclaw_sdk.guest.inbound zeroclaw_sdk.guest.log zeroclaw_sdk.guest.memory
    zeroclaw_sdk.guest.messages zeroclaw_sdk.guest.network zeroclaw_sdk.guest.secrets
    zeroclaw_sdk.guest.shapes zeroclaw_sdk.guest.state zeroclaw_sdk.guest.tool
    zeroclaw_sdk.guest.variant zeroclaw_sdk.guest.wit zeroclaw_sdk.guest.wit_http
    zeroclaw_sdk.guest.wit_streams zipimport
    """
)
"""Modules that every Python plugin has loaded by the time it is built: what the interpreter and this SDK import."""
