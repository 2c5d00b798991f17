"""What makes a skill bundle."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zeroclaw_host.errors import SkillsInvalid
from zeroclaw_host.package.reader import SkillTree
from zeroclaw_host.package.skills import Skill, parse_skills


def bundle(**skills: str) -> SkillTree:
    return SkillTree({f"{name}/SKILL.md": text.encode() for name, text in skills.items()}, frozenset(skills))


@pytest.mark.req("PLG-004")
def test_a_skill_is_named_and_described_in_its_front_matter() -> None:
    tree = bundle(
        b="---\nname: Bee\ndescription: 'makes honey'\nlicense: MIT\n---\n# Bee\n",
        a='---\r\nname: "A"\r\ndescription: x: y\r\n---',
    )
    assert parse_skills(tree) == (Skill("a", "A", "x: y"), Skill("b", "Bee", "makes honey"))


@pytest.mark.req("PLG-004")
def test_a_description_may_follow_in_indented_lines() -> None:
    [skill] = parse_skills(bundle(a="---\nname: A\ndescription: >-\n  one\n\n  two\nmeta:\n  name: B\n---\n"))
    assert skill == Skill("a", "A", "one two")


@pytest.mark.req("PLG-004")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "name: A\ndescription: B\n",
        "\n---\nname: A\ndescription: B\n---\n",
        "--- \nname: A\ndescription: B\n---\n",
        "---\nname: A\ndescription: B\n",
        "---\nname: A\ndescription: B\n----\n",
        "---\nname: A\n---\ndescription: B\n",
        "---\ndescription: B\n---\n",
        "---\nname:\ndescription: B\n---\n",
        "---\nname: ''\ndescription: B\n---\n",
        "---\nname: A\ndescription: |\n---\n",
        "---\nname: A\nmeta:\n  description: B\n---\n",
    ],
)
def test_a_skill_without_a_name_or_a_description_is_refused(text: str) -> None:
    with pytest.raises(SkillsInvalid, match=r"skills/a/SKILL\.md"):
        parse_skills(bundle(good="---\nname: A\ndescription: B\n---\n", a=text))


@pytest.mark.req("PLG-004")
def test_every_directory_of_a_bundle_is_a_skill_and_there_is_one_at_least() -> None:
    for tree in (SkillTree(), SkillTree({"README.md": b"x"}, frozenset())):
        with pytest.raises(SkillsInvalid, match="holds no skill"):
            parse_skills(tree)
    with pytest.raises(SkillsInvalid, match=r"skills/empty/SKILL\.md does not exist"):
        parse_skills(SkillTree({}, frozenset({"empty"})))
    with pytest.raises(SkillsInvalid, match="does not exist"):
        parse_skills(SkillTree({"a/b/SKILL.md": b""}, frozenset({"a", "a/b"})))


def test_a_skill_is_text() -> None:
    with pytest.raises(SkillsInvalid, match="not UTF-8"):
        parse_skills(SkillTree({"a/SKILL.md": b"---\nname: \xff\n---"}, frozenset({"a"})))


@given(st.text("-\n\r namedescription:'\">| "))
def test_no_text_raises_anything_but_a_skill_error(text: str) -> None:
    try:
        [skill] = parse_skills(bundle(a=f"---\n{text}"))
    except SkillsInvalid:
        return
    assert skill.name
    assert skill.description
