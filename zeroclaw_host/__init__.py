"""A host for plugins nobody has to trust: WebAssembly components behind a typed contract."""


def __getattr__(name: str) -> str:
    """``__version__``, looked up when somebody asks: that takes longer than all of this package's own imports."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("zeroclaw-host")
    except PackageNotFoundError:  # running from a checkout that was never installed
        return "0"
