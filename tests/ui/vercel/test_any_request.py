"""Whatever a page sends is read, or refused with a sentence; what was read once is read the same again."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import llmstream as ls
from llmstream.chats import dump_messages, from_ui, load_messages, to_ui
from llmstream.ui import vercel
from tests.examples import examples

words = st.text(max_size=6)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
kinds = st.sampled_from(
    [
        *("text", "reasoning", "file", "source-url", "source-document", "step-start", "data-x", "smell"),
        *("tool-look", "tool-", "dynamic-tool"),
    ]
)
states = st.sampled_from(
    [
        *("input-streaming", "input-available", "approval-requested", "approval-responded"),
        *("output-available", "output-error", "output-denied", "melted"),
    ]
)
urls = st.sampled_from(
    ["data:image/png;base64,aGk=", "data:,hi", "https://example.org/a", "file:///etc/passwd"]
)
parts = st.fixed_dictionaries(
    {"type": kinds},
    optional={
        "text": words | anything,
        "state": states | anything,
        "toolCallId": st.sampled_from(["c1", "c2"]) | anything,
        "toolName": words | anything,
        "input": anything,
        "output": anything,
        "errorText": words | anything,
        "url": urls | anything,
        "mediaType": st.sampled_from(["image/png", "image", "audio/wav", "a/b", ""]) | anything,
        "approval": st.fixed_dictionaries({}, optional={"id": words | anything, "approved": anything}),
        "providerExecuted": st.booleans() | anything,
        "providerMetadata": anything,
        "callProviderMetadata": anything,
        "preliminary": anything,
        "title": anything,
    },
)
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant"]), "parts": st.lists(parts, max_size=4)},
    optional={"id": words, "metadata": anything, "extra": anything},
)
requests = st.fixed_dictionaries(
    {"id": st.just("c"), "messages": st.lists(messages, max_size=3)},
    optional={
        "trigger": st.sampled_from(["submit-message", "regenerate-message"]),
        "messageId": words,
        "approvals": anything | st.dictionaries(words, st.fixed_dictionaries({"approved": anything})),
        "extra": anything,
    },
)


@st.composite
def broken(draw: st.DrawFn) -> Any:
    """A request with one value in it that is something else."""
    request = draw(requests)
    place: Any = request
    while isinstance(place, dict | list) and place:
        key = draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        if draw(st.booleans()) or not isinstance(place[key], dict | list):
            place[key] = draw(anything)
            break
        place = place[key]
    return request


@given(given_request=requests | broken() | anything, history=st.sampled_from(["server", "client"]))
@settings(max_examples=examples(50))
def test_any_request_is_read_or_refused(given_request: Any, history: Any) -> None:
    body = json.dumps(given_request).encode()
    with suppress(ls.InvalidRequest):
        asked = vercel.read(body, history=history, approval_key=b"k")
        vercel.dump(asked.messages)
    with suppress(ls.InvalidRequest):
        vercel.continues(body)


@given(st.lists(messages, max_size=3))
@settings(max_examples=examples(50))
def test_what_was_read_is_stable(page: list[Any]) -> None:
    """Through the saved form of a chat, too."""
    try:
        written = to_ui(load_messages(dump_messages(from_ui(page))))
    except ls.InvalidRequest:
        return
    assert to_ui(from_ui(written)) == written
