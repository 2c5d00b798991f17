"""Which configuration paths a change writes: what authority has to be asked about, for each of them.

A path that is a name of a map or of rows stands for the name alone. Whoever deletes or renames it writes everything below it
as well, for which a right to the name is not enough.
"""

from __future__ import annotations

from zeroclaw_daemon.config.coercion import PropertyError
from zeroclaw_daemon.config.document.mentions import written_key
from zeroclaw_daemon.config.map_keys import map_at
from zeroclaw_daemon.config.shape import Value, step, takes_values


def key_path(map_path: str, key: str) -> str:
    """The path of a key. One with dots in it is quoted: it is no path of several names, and is covered like none."""
    try:
        whole = "." not in key or takes_values(map_at(map_path))
    except PropertyError:
        whole = True
    return f"{map_path}.{key if whole else written_key(key)}"


def key_reach(map_path: str, key: str) -> tuple[str, ...]:
    """The key of a map, or the row, and what is below it: what deleting or renaming it writes.

    ``agents.ada`` stands for the name and ``agents.ada.*`` for what is below. Below a single value there is nothing; what the
    schema does not know is left to whoever looks for it.
    """
    own = key_path(map_path, key)
    try:
        node = step(map_at(map_path), key)
    except PropertyError:
        return (own,)
    return (own,) if isinstance(node, Value) else (own, f"{own}.*")


def path_reach(path: str) -> tuple[str, ...]:
    """As :func:`key_reach`, for the path of a key."""
    map_path, _, key = path.rpartition(".")
    return key_reach(map_path, key) if map_path else (path,)
