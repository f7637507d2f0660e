"""Recorded answers of some twenty servers, against what an independent decoder makes of them.

The recordings live outside the repository; docs/corpus/openai-chat.md says why some differ.
"""

from __future__ import annotations

import json
import random

import pytest

from llmstream.cli.config import wire_of
from llmstream.dialects.openai_chat import Quirks, ReasoningQuirks, UsageQuirks
from llmstream.errors import BadRequest
from llmstream.events import encode
from llmstream.exchange import HttpRequest
from llmstream.server_side.wires.openai_chat import server_side

QUIRKS = {
    "xai": Quirks(
        reasoning=ReasoningQuirks(dedupe=True),
        usage=UsageQuirks(output_excludes_reasoning=True, input_may_exclude_cached=True),
    )
}
"""The one vendor whose wire does not say enough to be read without being told who it is."""

CUT = "a call whose input was cut by length is no call here"

EXCEPTIONS = {
    "openinference-openinference-instructor-streaming": "a forced call with reason stop is tool-calls",
    "pydantic-snowflake-thinking-streaming": "reasoning only in reasoning_details is read",
    "rig-deepseek-truncation-matrix-agent-streaming-empty-arguments-on-length-are-not-invoked": CUT,
    "rig-llamacpp-truncation-matrix-streaming-tool-call-cut-mid-arguments": CUT,
    "rig-openai-chat-terminal-metadata-matrix-streaming-gpt-4-1-mini-tiny-tool": CUT,
    "rig-openai-chat-terminal-metadata-matrix-streaming-gpt-4o-mini-tiny-tool": CUT,
}
"""Recordings that differ on purpose."""


@pytest.fixture(scope="module")
def cases(shared_dir):
    folder = shared_dir / "corpus" / "openai-chat"
    if not folder.is_dir():
        pytest.skip("the corpus is not here")
    return [path for path in sorted(folder.iterdir()) if (path / "meta.json").is_file()]


def dialect_of(folder):
    return json.loads((folder / "meta.json").read_text(encoding="utf-8"))["dialect"]


def test_recordings_match_the_oracle(wire, cases, compare_case):
    different = {}
    for folder in cases:
        name = dialect_of(folder)
        body = (folder / "response.bin").read_bytes()
        answer = wire.read(body, QUIRKS.get(name, Quirks()), provider=name)
        differences = compare_case([json.loads(encode(event)) for event in answer.events], folder)
        if differences:
            different[folder.name] = differences
    unnamed = {name: lines for name, lines in different.items() if name not in EXCEPTIONS}
    assert len(unnamed) <= 0.02 * len(cases), unnamed
    assert unnamed == {}
    assert len(different) <= 0.03 * len(cases)


def test_random_cuts_keep_the_grammar(wire, cases):
    random_ = random.Random(2)
    for folder in random_.sample(cases, min(60, len(cases))):
        body = (folder / "response.bin").read_bytes()
        name = dialect_of(folder)
        whole = wire.read(body, provider=name).events
        cuts = sorted(random_.sample(range(1, len(body)), min(6, len(body) - 1)))
        assert [type(event) for event in wire.read(body, cuts=cuts, provider=name).events] == [
            type(event) for event in whole
        ]
        wire.read(body[: random_.randrange(len(body))], provider=name)


REWRITTEN = {
    "cut-error-openinference-autogen-agentchat-instrumenting-assistant-agent-testassistantagent-agent-run-t2",
    "fantasy-testopenaicompatobjectgeneration-zai-glm-4-7-flash-complex-object-streaming",
    "fantasy-testopenaicompatobjectgeneration-zai-glm-4-7-flash-simple-object-streaming",
    "pydantic-huggingface-hf-model-thinking-part-iter",
}
"""Requests that are written otherwise: docs/corpus/openai-chat.md says why."""

ADDED = {
    "deepseek": ("thinking", "reasoning_effort"),
    "openrouter": ("usage",),
    "zai": ("tool_stream",),
}
"""What is sent to a vendor beyond what was recorded: its default said aloud, or more to be told."""

IGNORED = {"deepseek": ("parallel_tool_calls",)}
"""What a vendor does not know; it is left out."""


def rewritten(folder):
    """What a recorded request means, what it means once read and written again, and what was left out."""
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    wire = wire_of("openai-chat", meta["dialect"])
    body = (folder / "request.json").read_bytes()
    http = HttpRequest(meta["url"], body)
    try:
        request = server_side(wire.dialect, provider=wire.provider).decode_request(http)
    except BadRequest as error:
        return meaning(json.loads(body)), None, [error]
    encoded = wire.dialect.encode(request, provider=wire.provider)
    recorded, written = meaning(json.loads(body)), meaning(encoded.http.json())
    for name in ADDED.get(wire.provider, ()):
        if name not in recorded:
            written.pop(name, None)
    for name in IGNORED.get(wire.provider, ()):
        recorded.pop(name, None)
    return recorded, written, encoded.warnings


def meaning(body):
    """A request as the server understands it; docs/corpus/openai-chat.md lists what this levels out."""
    out = {name: value for name, value in body.items() if value is not None}
    out.setdefault("stream_options", {"include_usage": False})
    if "max_completion_tokens" in out:
        out["max_tokens"] = out.pop("max_completion_tokens")
    if out["model"].startswith("deepseek") and out.get("reasoning_effort") == "medium":
        out["reasoning_effort"] = "high"
    out["messages"] = [message_meaning(message) for message in body["messages"]]
    if "tools" in out:
        out["tools"] = [tool_meaning(tool) for tool in out["tools"]]
    return out


def message_meaning(message):
    out = {name: value for name, value in message.items() if value not in (None, "", [])}
    if out["role"] == "developer":
        out["role"] = "system"
    content = out.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if "cache_control" in out:
        content = [*content[:-1], {**content[-1], "cache_control": out.pop("cache_control")}]
    if content is not None and all(set(part) == {"type", "text"} for part in content):
        content = "\n".join(part["text"] for part in content)
    if content is not None:
        out["content"] = content
    if "tool_calls" in out:
        out["tool_calls"] = [{k: v for k, v in call.items() if k != "index"} for call in out["tool_calls"]]
    return out


def tool_meaning(tool):
    inner = {
        name: value for name, value in tool.get("function", {}).items() if value not in (None, "", False)
    }
    return {**tool, "function": inner}


def test_rewritten_request_means_the_same(cases):
    requests = [folder for folder in cases if (folder / "request.json").is_file()]
    different = {}
    for folder in requests:
        recorded, written, _ = rewritten(folder)
        if recorded != written:
            different[folder.name] = (recorded, written)
    assert {name: both for name, both in different.items() if name not in REWRITTEN} == {}
    assert len(different) <= 0.05 * len(requests)
