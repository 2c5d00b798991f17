"""What ``config/*`` takes and answers (RPC-067, RPC-245, D-50). This family is spelled in snake_case."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from pydantic import ConfigDict, Field, StringConstraints

from zeroclaw_daemon.rpc.models import SnakeParams, SnakeResult
from zeroclaw_daemon.strict_json import JsonValue

MAX_ENTRIES: Final = 256
"""Properties that one batch may set (RPC-069)."""

Path = Annotated[str, StringConstraints(min_length=1, max_length=1024)]
"""A dotted path; which ones there are is the schema's business."""
Comment = Annotated[str, StringConstraints(max_length=512, pattern=r"^[^\x00-\x1f\x7f]*$")]
"""One line of a person's words; what TOML does not allow in a comment is not allowed here."""


class GetParams(SnakeParams):
    """Which property; left out, all of them."""

    prop: Annotated[Path | None, Field(description="A dotted path.")] = None


class ValueResult(SnakeResult):
    """One property: its value as a person reads it, a secret masked, ``<unset>`` where there is none."""

    prop: str
    value: str


class WholeResult(SnakeResult):
    """Of a property ``prop`` and ``value``, which is as a person reads it, ``<unset>`` where there is none; without ``prop``, the
    whole configuration in force as one object, secrets masked.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    with_nulls: ClassVar[bool] = True
    """A property without a value is told as well."""


class SetParams(SnakeParams):
    """A property and what to write. ``comment`` is put behind the value in the file."""

    prop: Annotated[Path, Field(description="A dotted path.")]
    value: JsonValue = Field(..., description="A text is read as the property's kind says; null unsets.")
    comment: Annotated[
        Comment | None, Field(description="One line that is put behind the value in the file.")
    ] = None


class SetResult(SnakeResult):
    """It is written and in force."""

    prop: str
    set: bool = True


class Entry(SnakeParams):
    """One entry of a batch. It has no further members: a batch only sets (RPC-085)."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    prop: Path
    value: JsonValue = Field(...)


class SetManyParams(SnakeParams):
    """Entries in the order in which they are staged."""

    sets: Annotated[list[Entry], Field(min_length=1, max_length=MAX_ENTRIES)]


class SetManyResult(SnakeResult):
    """The properties in the order of the request, repeated ones too (RPC-072)."""

    props: list[str]
    set: bool = True


class ListParams(SnakeParams):
    """Where to look; left out, everywhere."""

    prefix: Annotated[
        str, StringConstraints(max_length=1024), Field(description="What is at or below it.")
    ] = ""


class ListedProperty(SnakeResult):
    """One property. A secret never has a ``value``; neither has one that is not set."""

    path: str
    category: str
    section: str
    kind: str
    type_hint: str
    value: JsonValue = None
    populated: bool
    is_secret: bool
    is_env_overridden: bool
    enum_variants: list[str] | None = None
    description: str


class ListResult(SnakeResult):
    """Every property at or below the prefix, in the schema's order."""

    entries: list[ListedProperty]


class DeleteParams(SnakeParams):
    """Which property to take out of the file."""

    prop: Path


class DeleteResult(SnakeResult):
    """Whether the file had it."""

    prop: str
    deleted: bool


class ValidateResult(SnakeResult):
    """Whether the file on disk can be used. ``problems`` has file, line and column of each fault, where known; ``notices`` say
    which connections of plugins are refused because of what is in it all the same (PLG-359)."""

    valid: bool
    error: str | None = None
    problems: list[str] | None = None
    notices: list[str] | None = None


class ReloadResult(SnakeResult):
    """The activation plan was made again; members beyond this one come from whoever made it."""

    model_config = ConfigDict(frozen=True, extra="allow")

    reloading: bool = True


class MapParams(SnakeParams):
    """A table whose keys an operator chooses."""

    path: Annotated[Path, Field(description="The dotted path of the map, such as `agents`.")]


class MapKeysResult(SnakeResult):
    """Its keys, in the file's order."""

    path: str
    keys: list[str]


class MapKeyParams(MapParams):
    """One key of it."""

    key: Path


class MapKeyCreateResult(SnakeResult):
    """The key is there, with nothing below it; one that was there already is an error."""

    path: str
    key: str
    created: bool = True


class MapKeyDeleteResult(SnakeResult):
    """The key is gone with everything below it; one that was not there is an error."""

    path: str
    key: str
    deleted: bool = True


class MapKeyRenameParams(MapParams):
    """A key and what it is to be called."""

    old: Annotated[Path, Field(alias="from")]
    new: Annotated[Path, Field(alias="to")]


class MapKeyRenameResult(SnakeResult):
    """The key has another name and everything below it."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    path: str
    old: Annotated[str, Field(alias="from")]
    new: Annotated[str, Field(alias="to")]
    renamed: bool = True
