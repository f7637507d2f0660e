"""What the simulated model of `llmstream demo` says: it thinks, calls two tools and uses their results."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from llmstream.request import Request
from llmstream.simulator import Call, Pace, Turn

__all__ = ["PACE", "PROMPT", "Story"]

PROMPT: Final = "I have a meeting in Oslo today. What time is it there, and what should I wear?"

PACE: Final = Pace(first_s=0.25, tokens_per_s=110)

_THOUGHT: Final = (
    "They ask two things about Oslo: the time and the weather. In winter its clocks are an hour "
    "before UTC. I know neither, but there are tools for both, and the calls do not depend on each other."
)

_ANSWER: Final = """\
It is **{time}** in Oslo. Outside it is **{temperature}** with {sky} and a wind of {wind}, so:

1. a warm coat and a scarf,
2. shoes that keep the snow out,
3. something lighter below, for the meeting room.

These facts are what your own tools gave:

```python
weather("Oslo")  # {temperature}, {sky}
clock(1)  # {time}
```
"""


class Story:
    """Two turns: the calls, then an answer made of what they gave."""

    def turn(self, request: Request, number: int) -> Turn:
        """The answer to a request."""
        results = [part for message in request.messages for part in message.tool_results]
        if not results:
            return Turn(
                reasoning=_THOUGHT,
                text="Let me look that up.",
                calls=(
                    Call("weather", {"city": "Oslo"}),
                    Call("clock", {"utc_offset_hours": 1}),
                ),
                pace=PACE,
            )
        facts: dict[str, Any] = msgspec.json.decode(results[0].content)
        return Turn(text=_ANSWER.format(time=results[-1].content[11:16], **facts), pace=PACE)
