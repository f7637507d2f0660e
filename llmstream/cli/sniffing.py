"""What the beginning of a body looks like, where it is not what the dialect says."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["looks_like"]

_SIGNS: Final[tuple[tuple[str, str, re.Pattern[bytes]], ...]] = tuple(
    (dialect, words, re.compile(sign, re.DOTALL))
    for dialect, words, sign in (
        ("", "an HTML page, not the API's answer", rb"\s*<(?i:!doctype|html|\?xml|head|body)"),
        ("", "compressed (gzip): decompress it first", rb"\x1f\x8b"),
        ("", "compressed (zstd): decompress it first", rb"\x28\xb5\x2f\xfd"),
        ("", "an HTTP answer with its head: keep only the body", rb"HTTP/[0-9.]+ [0-9]{3}"),
        ("", "a body still in HTTP chunks: join them first", rb"[0-9a-fA-F]{1,8}\r\n(data|event|\{)"),
        ("", "events of llmstream, already decoded", rb'\s*\{"type":"stream-start"'),
        ("anthropic", "a stream of Anthropic's", rb'.*"type":\s*"(message_start|content_block_)'),
        ("openai-responses", "a stream of OpenAI's Responses", rb'.*"type":\s*"response\.(c|o|i)'),
        ("openai-chat", "a stream of chat completions", rb'.*("choices":|"chat\.completion)'),
        ("gemini", "a stream of Gemini's", rb'.*"candidates":'),
        ("gemini-interactions", "a stream of Gemini's Interactions", rb'.*"interaction\.(c|s)'),
        ("cohere", "a stream of Cohere's", rb'.*"type":\s*"message-start"'),
        ("ollama", "lines of Ollama's", rb'\s*\{.*"done":\s*(true|false)'),
        ("", "one JSON value: an answer that was not streamed, or an error", rb"\s*[\[{]"),
    )
)
"""(dialect or "", what it is, its sign), the surest first."""

_AWS_HEADERS: Final = (b":message-type", b":event-type", b":exception-type")


def looks_like(head: bytes) -> tuple[str, str]:
    """The dialect whose body begins like this ("" if none does) and what it is, in words ("" if unknown).

    head: the first few KiB
    """
    if not head.strip():
        return "", "empty" if not head else "blank"
    if any(header in head[:2048] for header in _AWS_HEADERS):
        if b'"bytes":' in head[:4096]:
            return "anthropic --provider bedrock-invoke", "frames of Amazon Bedrock (InvokeModel)"
        return "bedrock-converse", "frames of Amazon Bedrock (Converse)"
    for dialect, words, sign in _SIGNS:
        if sign.match(head[:8192]):
            return dialect, words
    if b"\x00" in head[:1024]:
        return "", "binary data"
    return "", ""
