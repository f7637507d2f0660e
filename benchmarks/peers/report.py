"""How a peer's figures are told: a line for people or for programs."""

from __future__ import annotations

import json
from typing import NamedTuple


class Peer(NamedTuple):
    """Who was measured: a name, the package and its version, the wire."""

    name: str
    package: str
    dialect: str


def report(peer: Peer, writes: str, found: dict[str, float], as_json: bool, **more: float) -> None:
    """One line. found: microseconds of CPU an event of "floor", "message" (llmstream) and "peer"."""
    ratio = found["peer"] / found["message"]
    if as_json:
        facts = {"peer": peer.name, "package": peer.package, "dialect": peer.dialect, "writes": writes}
        print(json.dumps({**facts, "us_per_event": found, "peer_over_llmstream": ratio, **more}), flush=True)
        return
    shown = "  ".join(f"{key} {value:7.2f}" for key, value in found.items())
    print(f"{peer.package:<34} {peer.dialect:<17} {writes:<7} {shown}  {ratio:6.1f}x llmstream", flush=True)
