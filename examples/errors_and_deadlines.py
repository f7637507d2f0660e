"""Errors: typed exceptions, partial messages, retries and deadlines.

A stream that fails delivers what has arrived, yields `error` and `finish`, and then raises. The
exception has the cause, whether a retry may help, and the partial message. The simulator's script
refuses a request, breaks off, stalls and rejects the key, one after the other.
"""

from __future__ import annotations

import asyncio

from _arguments import SCRIPTS, model

import llmstream as ls

QUESTIONS = (
    "Refused once, then answered?",
    "Cut in the middle?",
    "Silent in the middle?",
    "With a wrong key?",
)


async def ask(spec: str, prompt: str) -> str:
    """Returns the response, or the error, as one line."""
    retry = ls.Retry(max_retries=1, max_wait_s=5)  # only while nothing of the answer has come
    deadlines = ls.Deadlines(first_event_s=20, idle_s=0.5, total_s=60)
    try:
        message = await ls.stream(spec, prompt, retry=retry, deadlines=deadlines).collect()
    except (ls.IncompleteStream, ls.ConnectionLost) as error:
        return f"broke off ({error.code}) after {error.partial.text!r}"
    except ls.DeadlineExceeded as error:
        return f"too slow ({error.reason}) after {error.partial.text!r}"
    except ls.ProviderError as error:
        return f"{error.provider} refused with {error.status} {error.code}, retryable: {error.retryable}"
    return message.text


async def main(spec: str) -> None:
    for prompt in QUESTIONS:
        print(f"{prompt:<30}{await ask(spec, prompt)}")

    async with ls.stream("sim:no-such-script", "Hello", errors="events") as stream:
        async for event in stream:  # nothing raises: the caller reads the events
            print(type(event).__name__, end=" ")
    print(f"and the error is kept: {stream.error}")


if __name__ == "__main__":
    asyncio.run(main(model(__doc__, f"sim:{SCRIPTS / 'faults.json'}")))
