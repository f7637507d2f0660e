"""Matches every event of the union.

The field to match on comes first in every event, so patterns can be positional. A type checker
proves with `assert_never` that no event is missing. The simulator's script ends in an error of the
vendor, to show how a stream fails: blocks close, `error`, `finish`.
"""

from __future__ import annotations

import asyncio
from typing import assert_never

from _arguments import SCRIPTS, model

import llmstream as ls
from llmstream import events as ev


def describe(event: ls.Event) -> str:
    """One line about any event."""
    match event:
        case ls.StreamStart(warnings):
            return f"begins with {len(warnings)} warnings"
        case ls.ResponseMetadata(model_id):
            return f"model {model_id}"
        case ls.TextStart(block) | ls.ReasoningStart(block):
            return f"block {block} opens"
        case ls.TextDelta(text):
            return f"says {text!r}"
        case ls.ReasoningDelta(text):
            return f"thinks {text!r}"
        case ls.TextEnd(block, incomplete) | ls.ReasoningEnd(block, incomplete):
            return f"block {block} {'breaks off' if incomplete else 'closes'}"
        case ls.ToolInputStart(name):
            return f"begins to call {name}"
        case ls.ToolInputDelta(text):
            return f"writes {text!r}"
        case ls.ToolInputEnd(_, incomplete):
            return "input breaks off" if incomplete else "input is whole"
        case ls.ToolCall(name, arguments):
            return f"calls {name}({arguments})"
        case ls.ToolResult(result, _, name):
            return f"{name} gave {result!r}"
        case ls.ToolApprovalRequest(call_id):
            return f"call {call_id} waits for approval"
        case ls.Source(kind, _, url, title):
            return f"{kind} source: {title or url}"
        case ls.File(media_type) | ls.ReasoningFile(media_type):
            return f"a file of type {media_type}"
        case ls.Custom(kind):
            return f"something only one vendor knows: {kind}"
        case ls.ErrorEvent(error):
            return f"failed: {error.code}: {error.message}"
        case ls.Finish(reason, usage):
            return f"finished ({reason}) after {usage.output_tokens} tokens"
        case ls.Raw(value):
            return f"on the wire: {value}"
        case ls.StepStart(step):
            return f"step {step} begins"
        case ls.StepFinish(step, reason):
            return f"step {step} ends ({reason})"
        case ev.RetryNotice(reason, step):
            return f"step {step} is asked again: {reason}"
    assert_never(event)


async def main(spec: str) -> None:
    async with ls.stream(spec, "How is the weather in Oslo?", errors="events") as stream:
        async for event in stream:
            print(f"{type(event).__name__:<17}{describe(event)}")


if __name__ == "__main__":
    asyncio.run(main(model(__doc__, f"sim:{SCRIPTS / 'fails_at_the_end.json'}")))
