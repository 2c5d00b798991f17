"""A host for plugins nobody has to trust: WebAssembly components behind a typed contract."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("zeroclaw-host")
except PackageNotFoundError:  # running from a checkout that was never installed
    __version__ = "0"
