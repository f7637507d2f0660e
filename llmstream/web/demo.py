"""The simulated model of the demonstration, and its tools: no key, no network, all that the page shows."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any, Final

import msgspec

from llmstream.chats.content import ToolResult
from llmstream.chats.message import Role
from llmstream.request import Request
from llmstream.simulator.script import Call, Cut, Pace, Turn
from llmstream.tools import tool

__all__ = ["BROKEN_OFF", "DEMO_TOOLS", "MARKDOWN", "SUGGESTIONS", "DemoScript"]

SUGGESTIONS: Final = (
    "What should I wear in Oslo and in Lima today?",
    "Book a table for two in Paris tonight",
    "Show me some Markdown",
    "Break off in the middle of an answer",
)
"""Prompts for an empty conversation: tools that run at once, an approval, a long answer, a failure."""

# City to degrees Celsius, sky and clothes on an invented day.
_CLIMATE: Final = {
    "Oslo": (-2, "light snow", "a warm coat, a scarf and waterproof shoes"),
    "Lima": (19, "mist", "a light jacket"),
    "Paris": (9, "overcast", "a coat and an umbrella"),
    "Tokyo": (13, "drizzle", "a raincoat"),
    "Nairobi": (22, "scattered clouds", "light clothes and a hat"),
}

# How long a step of a tool takes, so that its progress can be watched.
_STATION_S: Final = 0.35


@tool
async def weather(city: str) -> AsyncIterator[dict[str, Any]]:
    """Returns the weather in a city on an invented day.

    Args:
        city: One of Oslo, Lima, Paris, Tokyo, Nairobi.
    """
    degrees, sky, _ = _CLIMATE[city]
    for done, status in enumerate(("asking the station", "reading the sky", "reading the thermometer")):
        yield {"status": status, "done": done, "of": 3}
        await asyncio.sleep(_STATION_S)
    yield {"city": city, "temperature": f"{degrees} °C", "sky": sky}


@tool(needs_approval=True)
async def book_table(restaurant: str, people: int, time: str) -> AsyncIterator[dict[str, Any]]:
    """Books a table in an invented restaurant.

    Args:
        restaurant: Name of the restaurant.
        people: Number of guests.
        time: Such as 19:30.
    """
    yield {"status": "calling the restaurant", "done": 0, "of": 1}
    await asyncio.sleep(_STATION_S)
    yield {"booked": True, "restaurant": restaurant, "people": people, "time": time}


DEMO_TOOLS: Final = (weather, book_table)

# A quick model's, so that a page is seen at work.
_PACE: Final = Pace(first_s=0.25, tokens_per_s=90)

MARKDOWN: Final = """\
# What this page renders

Text **in bold**, *in italics*, ~~struck out~~, `inline code` and [a link](https://commonmark.org/help/).

1. A list with numbers,
2. and a second item:
   - one inside of it,
   - and another.

> A quotation, which may go on
> over several lines.

| event | what it carries | how often |
| :--- | :--- | ---: |
| `text-delta` | a fragment of text | 180 |
| `tool-call` | name and arguments | 2 |
| `finish` | reason and tokens | 1 |

```python
async with ls.stream("sim:demo", "Hello") as stream:
    async for text in stream.text_deltas():
        print(text, end="", flush=True)
```

HTML from a model stays text: <img src=x onerror=alert(1)> is shown, never run.
"""

BROKEN_OFF: Final = (
    "This answer is going to break off, because the simulator was asked to cut the connection in the middle. "
    "Everything that has arrived stays on the page, marked as incomplete, and the reason is named below it. "
    "Nothing pretends that the answer is complete. Retry asks again, and then the rest comes as well: the "
    "simulator cuts an answer only once."
)


class DemoScript:
    """Answers the suggestions, and quotes any other prompt."""

    def __init__(self) -> None:
        self._cut = False

    def turn(self, request: Request, number: int) -> Turn:
        """Returns the turn for a request."""
        prompt, results = _prompt_and_results(request)
        low = prompt.lower()
        if results:
            return self._after_tools(results)
        if re.search(r"weather|wear|forecast|temperature", low):
            return _ask_weather(prompt)
        if re.search(r"\bbook\b|table|reserv", low):
            return _ask_booking(prompt)
        if "markdown" in low:
            return Turn(reasoning="A bit of everything, then.", text=MARKDOWN, pace=_PACE)
        if re.search(r"break off|fail|\bcut\b", low):
            # Every other time: on a retry, the answer is complete.
            self._cut = not self._cut
            return Turn(text=BROKEN_OFF, pace=_PACE, fault=Cut(after_events=40) if self._cut else None)
        return Turn(reasoning=_THOUGHT, text=_echo(prompt), pace=_PACE)

    def _after_tools(self, results: list[ToolResult]) -> Turn:
        values = [_value(result) for result in results]
        if booked := [value for value in values if value.get("booked")]:
            tables = "; ".join(
                f"**{one['restaurant']}**, {one['time']}, for {one['people']}" for one in booked
            )
            return Turn(text=f"Done: {tables}. Enjoy your meal!", pace=_PACE)
        found = [value for value in values if value.get("city") in _CLIMATE]
        if not found:
            said = " ".join(result.content for result in results)
            return Turn(text=f"I did not do that, then. What I was told: *{said}*", pace=_PACE)
        rows = "\n".join(
            f"| {one['city']} | {one['temperature']} | {one['sky']} | {_CLIMATE[one['city']][2]} |"
            for one in found
        )
        return Turn(
            reasoning="The reports are here; a table compares them best.",
            text=f"| city | outside | sky | wear |\n| --- | ---: | --- | --- |\n{rows}\n\nHave a good trip!",
            pace=_PACE,
        )


_THOUGHT: Final = (
    "Nobody has trained me, so I know nothing about this. I will say so, and name what this page shows."
)


def _ask_weather(prompt: str) -> Turn:
    cities = [city for city in _CLIMATE if city.lower() in prompt.lower()] or ["Oslo", "Lima"]
    return Turn(
        reasoning=f"I need the weather in {' and in '.join(cities)}. The calls do not depend on each other.",
        text="Let me ask the weather stations.",
        calls=tuple([Call("weather", {"city": city}) for city in cities]),
        pace=_PACE,
    )


def _ask_booking(prompt: str) -> Turn:
    words = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
    cities = [city for city in _CLIMATE if city.lower() in prompt.lower()]
    names = [f"Café {city}" if city != "Paris" else "Chez Simulateur" for city in cities or ["Paris"]]
    people = next((n for word, n in words.items() if re.search(rf"\b{word}\b", prompt.lower())), 2)
    return Turn(
        reasoning="A booking has consequences, so a person has to approve it.",
        text="I found a free table. May I book it?"
        if len(names) == 1
        else "There are tables. May I book them?",
        calls=tuple(
            [Call("book_table", {"restaurant": name, "people": people, "time": "19:30"}) for name in names]
        ),
        pace=_PACE,
    )


def _echo(prompt: str) -> str:
    quoted = "\n".join(f"> {line}" for line in prompt.strip().splitlines()[:12])
    return (
        f"You wrote:\n\n{quoted}\n\nI am a **simulator**: no model has read this, but every byte came over "
        "real HTTP. Try one of these:\n\n" + "\n".join(f"- {suggestion}" for suggestion in SUGGESTIONS)
    )


def _prompt_and_results(request: Request) -> tuple[str, list[ToolResult]]:
    """The last prompt, and the results after it."""
    results: list[ToolResult] = []
    for message in reversed(request.messages):
        found = message.tool_results
        if message.role == Role.USER and not found:
            return message.text, results
        results = [*found, *results]
    return "", results


def _value(result: ToolResult) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(result.content)
    except msgspec.DecodeError:
        return {}
    return value if isinstance(value, dict) else {}
