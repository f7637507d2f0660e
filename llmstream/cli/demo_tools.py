"""Tools without network access, for `llmstream demo` and `llmstream chat --tools demo`.

A module of its own, so that `chat` loads them without the simulator.
"""

from __future__ import annotations

import datetime
from typing import Final, Literal

from llmstream.tools import tool

__all__ = ["DEMO_TOOLS", "clock", "weather"]

# City to degrees Celsius, sky and wind in m/s on an invented day.
_CLIMATE: Final = {
    "oslo": (-2, "light snow", 7),
    "lisbon": (16, "clear sky", 3),
    "nairobi": (22, "scattered clouds", 4),
    "tokyo": (13, "drizzle", 5),
    "paris": (9, "overcast", 4),
    "lima": (19, "mist", 2),
}


@tool
def weather(city: str, unit: Literal["celsius", "fahrenheit"] = "celsius") -> dict[str, str]:
    """Returns the weather in a city from a small table of invented values.

    Args:
        city: One of Oslo, Lisbon, Nairobi, Tokyo, Paris, Lima.
        unit: Unit of the temperature.
    """
    found = _CLIMATE.get(city.strip().lower())
    if found is None:
        known = ", ".join(name.title() for name in _CLIMATE)
        raise ValueError(f"unknown city {city!r}; the table has {known}")
    degrees, sky, wind = found
    shown = f"{degrees} °C" if unit == "celsius" else f"{degrees * 9 / 5 + 32:.0f} °F"
    return {"city": city.strip().title(), "temperature": shown, "sky": sky, "wind": f"{wind} m/s"}


@tool
def clock(utc_offset_hours: float = 0) -> str:
    """Returns the current date and time at an offset from UTC.

    Args:
        utc_offset_hours: Such as 1 for Oslo in winter, -5 for Lima, 5.75 for Kathmandu.
    """
    if not -24 < utc_offset_hours < 24:
        raise ValueError(f"an offset from UTC is between -24 and 24 hours, not {utc_offset_hours:g}")
    zone = datetime.timezone(datetime.timedelta(hours=utc_offset_hours))
    return datetime.datetime.now(zone).isoformat(timespec="seconds")


DEMO_TOOLS: Final = (weather, clock)
