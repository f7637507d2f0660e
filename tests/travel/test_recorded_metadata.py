"""What a vendor wants back verbatim survives a saved and reloaded chat: request snapshots of every family.

A recorded answer is read, folded and saved; the chat is loaded again and the next request written, which
has to be the one in `snapshots/`. Beside each recording stands what its vendor signed, and has to be in
the request as it was. `python -m tests.travel.test_recorded_metadata` writes the snapshots anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from llmstream.chats import Chat, Message, ToolResult
from llmstream.framing.aws_event_stream import encode_message
from llmstream.providers.registry import all_providers, find_provider
from llmstream.request import Request, ToolSpec
from tests.signed_answers import heard

HERE = Path(__file__).parent
DIALECTS = HERE.parent / "dialects"
SNAPSHOTS = HERE / "snapshots"

CLAUDE, GEMINI = "claude-sonnet-4-5", "gemini-3-pro-preview"
CASES: dict[str, tuple[str, str, Path, tuple[str, ...]]] = {}
"""Name to provider, model, recording, and what of the vendor's own has to come back."""


def case(provider: str, model: str, recording: str, *marks: str) -> None:
    folder = DIALECTS if "/" in recording else HERE / "recordings"
    path = folder / recording.replace("/", "/recordings/")
    CASES[f"{provider}-{path.name.split('.')[0]}"] = (provider, model, path, marks)


def answer_of(provider: str, path: Path) -> Message:
    """The recorded answer as a message."""
    dialect = find_provider(provider).dialect
    body = path.read_bytes()
    if path.name.endswith(".wire.jsonl"):
        body = b"".join(_frame(json.loads(line)) for line in path.read_text("utf-8").splitlines())
    return heard(dialect, body, provider=provider, size=11)


def _frame(event: dict[str, Any]) -> bytes:
    ((name, members),) = event.items()
    headers = {":event-type": name, ":content-type": "application/json", ":message-type": "event"}
    return encode_message(headers, json.dumps(members).encode())


def next_request(provider: str, model: str, path: Path, *, reloaded: bool) -> dict[str, Any]:
    """The body that goes on from the answer."""
    answer = answer_of(provider, path)
    calls = [call for call in answer.tool_calls if not call.provider_executed]
    chat = Chat(Message.user("Begin."), answer)
    if calls:
        chat.append(Message.tool([ToolResult(call.id, "done", name=call.name) for call in calls]))
    chat.append(Message.user("Go on."))
    if reloaded:
        chat = Chat.from_json(chat.to_json())
    names = dict.fromkeys(call.name for call in calls)
    tools = tuple(ToolSpec(name, "", {"type": "object", "properties": {}}) for name in names)
    request = Request(model=model, messages=tuple(chat.messages()), tools=tools)
    body: dict[str, Any] = find_provider(provider).dialect.encode(request, provider=provider).http.json()
    return body


SONNET = "anthropic.claude-sonnet-4-5-20250929-v1:0"
case(
    "anthropic",
    CLAUDE,
    "anthropic/thinking_and_tools.sse",
    "c2lnbmF0dXJlLW1hZGUtdXA=",
    "b3BhcXVlLW1hZGUtdXA=",
)
case("anthropic", CLAUDE, "anthropic/vendor_tools.sse", "file_011madeup", "mcp_tool_result", "compaction")
case("anthropic", CLAUDE, "anthropic/web_search.sse", "bWFkZS11cA==", "bWFkZS11cC0y", "aW5kZXg=")
case("vertex-anthropic", "claude-sonnet-4-5@20250929", "anthropic/thinking_and_tools.sse", "c2lnbmF0dXJl")
case("bedrock", SONNET, "bedrock_converse/thinking_and_tools.wire.jsonl", "c2lnbmVk", "aGlkZGVu")
case("bedrock", SONNET, "bedrock_converse/grounded.wire.jsonl", "sourceContent", "nova_grounding_result")
case("cohere", "command-a-reasoning-08-2025", "cohere/plan_and_calls.sse", "I will ask for both.")
case("cohere", "command-a-reasoning-08-2025", "cohere/thinking_and_citations.sse", "doc:0", "doc:1")
case("google", GEMINI, "gemini/thoughts_then_signed_call.sse", "c2lnbmVkLW9uY2U=")
case("google", GEMINI, "gemini/gemini_3_signature_last.sse", "ZW1wdHktbGFzdA==")
case("google", GEMINI, "gemini/signature_in_the_middle.sse", "bWlkZGxl")
case("google", GEMINI, "gemini/server_tools.sse", "Y2FsbA==", "cmVz")
case("google", GEMINI, "gemini/image.sse", "aW1hZ2U=", "iVBORw0KGgoAAAA=")
case("google", GEMINI, "gemini/code_with_a_stop_in_the_middle.sse", "executableCode", "OUTCOME_OK")
case("vertex", GEMINI, "gemini/thoughts_then_signed_call.sse", "c2lnbmVkLW9uY2U=")
case("google-interactions", GEMINI, "gemini_interactions/thoughts.sse", "c2ln")
case("google-interactions", GEMINI, "gemini_interactions/calls.sse", "c2ln")
case("google-interactions", GEMINI, "gemini_interactions/search.sse", "cmVz")
case("mistral", "magistral-medium-latest", "mistral_signature.sse", "c2lnbmVkLWJ5LW1pc3RyYWw=", "D681PevKs")
case("mistral", "magistral-medium-latest", "mistral/thinking.sse", "Two and two.")
case("ollama", "qwen3", "ollama/thinking_and_tools.ndjson", "Two cities, two calls.")
case("openai-responses", "gpt-5", "openai_responses/reasoning_and_tools.sse", "enc-late", "rs_02a", "fc_02a")
case("openai-responses", "gpt-5", "openai_responses/vendor_tools.sse", "mcp_03", "ws_03", "ci_03", "mcpl_03")
case("lmstudio-responses", "gpt-oss-20b", "openai_responses/open_model.sse", "Count to three.")
case("deepseek", "deepseek-v4-pro", "openai_chat/deepseek_tools.sse", "I should look.")
case("openrouter", "anthropic/claude-sonnet-4.5", "openai_chat/openrouter_reasoning.sse", "c2lnbmVk")
case("gemini-openai", GEMINI, "gemini_openai_signature.sse", "c2lnbmVkLWJ5LWdlbWluaQ==")
case("minimax", "MiniMax-M2", "minimax_tags.sse", "<think>\\nThey want the weather.\\n</think>")
case("groq", "openai/gpt-oss-120b", "groq_reasoning.sse", "They want the weather.")


@pytest.mark.parametrize("name", CASES)
def test_reloaded_chat_matches_the_snapshot(name: str) -> None:
    provider, model, path, marks = CASES[name]
    written = next_request(provider, model, path, reloaded=True)
    snapshot = (SNAPSHOTS / f"{name}.json").read_text("utf-8")
    assert written == json.loads(snapshot)
    assert [mark for mark in marks if mark not in snapshot] == []


@pytest.mark.parametrize("name", CASES)
def test_returned_metadata_is_the_vendors(name: str) -> None:
    _, _, path, marks = CASES[name]
    assert marks
    recorded = path.read_text("utf-8")
    for mark in marks:
        pieces = mark.replace("\\n", " ").split()
        assert all(piece.strip("<>/") in recorded for piece in pieces), mark


def test_every_family_has_its_recordings() -> None:
    families = {find_provider(provider).dialect.name for provider, _, _, _ in CASES.values()}
    assert families == {provider.dialect.name for provider in all_providers()}
    assert {path.stem for path in SNAPSHOTS.glob("*.json")} == CASES.keys()


if __name__ == "__main__":
    for name, (provider, model, path, _) in CASES.items():
        written = json.dumps(
            next_request(provider, model, path, reloaded=False), indent=1, ensure_ascii=False
        )
        (SNAPSHOTS / f"{name}.json").write_text(written + "\n", encoding="utf-8")
