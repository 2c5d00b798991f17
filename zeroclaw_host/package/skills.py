"""A skill bundle: the Markdown that a package of capability ``skill`` carries (PLG-004).

Each directory directly under ``skills/`` is one skill and holds a ``SKILL.md`` that begins with a front matter naming
and describing it. Files directly under ``skills/`` mean nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zeroclaw_host.errors import SkillsInvalid
from zeroclaw_host.package.manifest import SKILLS_DIRECTORY
from zeroclaw_host.package.reader import SkillTree
from zeroclaw_host.package.toml_source import printable

SKILL_FILE: Final = "SKILL.md"
_FENCE: Final = "---"
_BLOCK_MARKS: Final = frozenset({">", ">-", ">+", "|", "|-", "|+"})


@dataclass(frozen=True, slots=True)
class Skill:
    """One skill: its directory under ``skills/`` and what its front matter says."""

    directory: str
    name: str
    description: str


def parse_skills(tree: SkillTree) -> tuple[Skill, ...]:
    """The skills of a bundle, sorted by directory.

    :raises SkillsInvalid: there is none, or one has no readable ``SKILL.md`` with a name and a description.
    """
    directories = sorted(path for path in tree.directories if "/" not in path)
    if not directories:
        raise SkillsInvalid(f"{SKILLS_DIRECTORY}/ holds no skill")
    return tuple(_parse_skill(tree, directory) for directory in directories)


def _parse_skill(tree: SkillTree, directory: str) -> Skill:
    path = f"{SKILLS_DIRECTORY}/{printable(directory)}/{SKILL_FILE}"
    content = tree.files.get(f"{directory}/{SKILL_FILE}")
    if content is None:
        raise SkillsInvalid(f"{path} does not exist", details={"path": path})
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise SkillsInvalid(f"{path} is not UTF-8 text", details={"path": path}) from error
    fields = _front_matter(text.replace("\r\n", "\n"), path)
    for key in ("name", "description"):
        if not fields.get(key):
            raise SkillsInvalid(f"{path} has no {key} in its front matter", details={"path": path})
    return Skill(directory, fields["name"], fields["description"])


def _front_matter(text: str, path: str) -> dict[str, str]:
    """The ``key: value`` lines between the two fences; a value may also follow in indented lines (YAML's ``>`` and ``|``)."""
    first, *lines = text.split("\n")
    if first != _FENCE or _FENCE not in lines:
        message = f"{path} does not begin with a front matter between two lines of {_FENCE}"
        raise SkillsInvalid(message, details={"path": path})
    fields: dict[str, str] = {}
    block: str | None = None
    for line in lines[: lines.index(_FENCE)]:
        if not line or line[0].isspace():
            if block is not None:
                fields[block] = f"{fields[block]} {line.strip()}".strip()
            continue
        block = None
        key, colon, value = line.partition(":")
        value = value.strip()
        if not colon or key in fields:
            continue
        if value in _BLOCK_MARKS:
            block, value = key, ""
        fields[key] = _unquoted(value)
    return fields


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1].strip()
    return value
