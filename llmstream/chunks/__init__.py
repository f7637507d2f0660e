"""Two older views of a stream, as chunks, for programs that are built on them.

`completion.py` and `collecting.py`: completion chunks and the stream that collects them.
`kernel.py`, `kernel_stream.py`, `mock.py`: OpenAI-like streaming chunks with tool calls, events as
such chunks, and a model to test with.
New programs use the events.
"""

from llmstream.chunks.collecting import CollectingStream, CompletionResponse
from llmstream.chunks.completion import (
    CompletionChunk,
    CompletionStream,
    FinishReason,
    ToolCallDelta,
    chunks,
)
from llmstream.chunks.kernel import Choice, Delta, StreamingChunk, ToolCall, streaming_chunks
from llmstream.chunks.mock import MockModel

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
