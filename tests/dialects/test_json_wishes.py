from __future__ import annotations

import pytest

from llmstream.chats.content import Image
from llmstream.chats.message import Message
from llmstream.dialects.requests import ANSWER_IN_JSON, described_schema, format_instruction, mentions_json
from llmstream.request import ResponseFormat


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        ([Message.user("As JSON, please.")], True),
        ([Message.system("Answer in json."), Message.user("Hi")], True),
        ([Message.user("Hi", Image(url="https://a.example/json.png"))], False),
        ([], False),
    ],
)
def test_the_word_is_looked_for_in_texts(messages: list[Message], says: bool) -> None:
    assert mentions_json(messages) is says


def test_the_instruction_has_the_word() -> None:
    assert mentions_json([Message.system(ANSWER_IN_JSON)])


def test_a_description_stands_in_the_schema() -> None:
    schema = {"type": "object"}
    assert described_schema(ResponseFormat(schema)) is schema
    assert described_schema(ResponseFormat(schema, description="A"))["description"] == "A"
    own = ResponseFormat({"type": "object", "description": "B"}, description="A")
    assert described_schema(own) == {"type": "object", "description": "A B"}
    assert '"description":"A"' in format_instruction(ResponseFormat(schema, description="A"))
    assert format_instruction(ResponseFormat()) == ANSWER_IN_JSON
