"""Two older views of a stream, as chunks, for programs that are built on them.

`completion.py`: completion chunks and the stream that collects them.
`kernel.py`: OpenAI-like streaming chunks with tool calls, events as such chunks, and a model to test with.
New programs use the events.
"""

from llmstream.chunks.completion import (
    CollectingStream,
    CompletionChunk,
    CompletionResponse,
    CompletionStream,
    FinishReason,
    ToolCallDelta,
    chunks,
)
from llmstream.chunks.kernel import Choice, Delta, MockModel, StreamingChunk, ToolCall, streaming_chunks

__all__ = [
    "Choice",
    "CollectingStream",
    "CompletionChunk",
    "CompletionResponse",
    "CompletionStream",
    "Delta",
    "FinishReason",
    "MockModel",
    "StreamingChunk",
    "ToolCall",
    "ToolCallDelta",
    "chunks",
    "streaming_chunks",
]
