"""One request of a benchmark, and when each part of its answer came."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from llmstream import (
    File,
    Finish,
    LLMStreamError,
    Model,
    ReasoningDelta,
    StreamStart,
    TextDelta,
    ToolInputDelta,
)
from llmstream.cli.bench_load import Now
from llmstream.cli.remedies import complaint
from llmstream.errors import CallerError

__all__ = ["Sample", "measure"]


class Sample(msgspec.Struct, kw_only=True, rename="camel", omit_defaults=True):
    """What one request took. Times are seconds and count from when the request was due.

    due_s:          since the benchmark began
    late_s:         how much later than due it was sent
    first_event_s:  first event of the answer; None where nothing came
    first_token_s:  first content: text, reasoning, arguments of a tool, a file
    end_s:          the stream was over, well or not
    writing_s:      from the first content to the last
    gaps_s:         between neighbouring fragments of content; not kept in a report
    fragments:      of content
    error:          the code of what went wrong, or None
    message:        what went wrong; a report has it once for each code
    """

    number: int
    due_s: float = 0.0
    late_s: float = 0.0
    first_event_s: float | None = None
    first_token_s: float | None = None
    end_s: float = 0.0
    writing_s: float = 0.0
    gaps_s: list[float] = []
    fragments: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    error: str | None = None
    message: str | None = None

    @property
    def tokens(self) -> int:
        """Of the answer, as the vendor counted; its fragments where the vendor did not."""
        return self.fragments if self.output_tokens is None else self.output_tokens


async def measure(
    model: Model,
    prompt: str,
    sample: Sample,
    *,
    due: float,
    now: Now = time.perf_counter,
    **options: Any,
) -> Sample:
    """Asks once and fills in the sample, also while it goes on.

    due: on the clock of `now`
    raises: CallerError, where the request was wrong before it was sent; no other is different
    """
    sample.late_s = now() - due
    content = (TextDelta, ReasoningDelta, ToolInputDelta, File)
    last = 0.0
    try:
        async with model.stream(prompt, **options) as stream:
            async for event in stream:
                if isinstance(event, content):
                    at = now() - due
                    if sample.first_token_s is None:
                        sample.first_token_s = at
                        if sample.first_event_s is None:
                            sample.first_event_s = at
                    else:
                        sample.gaps_s.append(at - last)
                    last = at
                    sample.fragments += 1
                elif isinstance(event, Finish):
                    sample.input_tokens = event.usage.input_tokens
                    sample.output_tokens = event.usage.output_tokens
                elif sample.first_event_s is None and not isinstance(event, StreamStart):
                    sample.first_event_s = now() - due
    except CallerError:
        raise
    except LLMStreamError as error:
        sample.error, sample.message = error.code, complaint(error)
    sample.end_s = now() - due
    sample.writing_s = last - sample.first_token_s if sample.first_token_s is not None else 0.0
    return sample
