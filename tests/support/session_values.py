"""Values that sessions are made of, to be drawn."""

from __future__ import annotations

from hypothesis import strategies as st

from zeroclaw_daemon.agent.events import MessageChunk, ToolCalled, ToolReturned
from zeroclaw_daemon.agent.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage

texts = st.text(st.characters(categories=("L", "N", "Z", "Cs", "Cc", "S")), max_size=6)
ids = st.sampled_from(("a", "b", "c"))
arguments = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
outputs = texts | st.just("é" * 10_000)
events = st.one_of(
    st.builds(MessageChunk, texts),
    st.builds(ToolCalled, ids, st.just("bash"), arguments),
    st.builds(ToolReturned, ids, st.just("bash"), outputs, st.booleans()),
)
messages: st.SearchStrategy[Message] = st.one_of(
    st.builds(UserMessage, texts),
    st.builds(
        AssistantMessage,
        texts,
        st.lists(st.builds(ToolCall, ids, st.just("bash"), texts), max_size=2).map(tuple),
    ),
    st.builds(ToolMessage, ids, st.just("bash"), outputs, st.booleans()),
)
contexts = st.lists(messages, max_size=4)
