"""Every dialect's decoder costs as much for the last block, call, source or key as for the first."""

from __future__ import annotations

import random

import pytest
from stepcount.floods import FLOODS, Flood
from stepcount.steps import Counting, assert_linear

from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.framing.sse import SSEDecoder
from llmstream.grammar import check
from llmstream.providers.registry import find_provider

N = 100
PROVIDERS = list(dict.fromkeys(flood.provider for flood in FLOODS))


def decoding(flood: Flood):
    provider = find_provider(flood.provider)

    def of(n):
        pieces = flood.pieces(n)

        def work():
            decoder = provider.dialect.decoder(provider=provider.name)
            sentence = GuardedDecoder(decoder, provider=provider.name, marked=True)
            events = sentence.start()
            for piece in pieces:
                events.extend(sentence.feed(piece))
            events.extend(sentence.close())
            return events

        return work

    return of


def mixed(provider: str, seed: int) -> Flood:
    chosen = random.Random(seed).sample([flood for flood in FLOODS if flood.provider == provider], 3)
    names = " and ".join(flood.name for flood in chosen)

    def turn(i):
        return [piece for flood in chosen for piece in flood.turn(i)]

    return Flood(provider, names, chosen[0].head, turn)


@pytest.mark.parametrize("flood", FLOODS, ids=lambda flood: flood.id)
def test_a_flood_costs_as_much_at_its_end(flood):
    assert_linear(decoding(flood), N)


@pytest.mark.parametrize("flood", FLOODS, ids=lambda flood: flood.id)
def test_a_flood_is_a_sentence(flood):
    assert check(decoding(flood)(N)()) == []


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("provider", PROVIDERS)
def test_floods_through_each_other(provider, seed):
    flood = mixed(provider, seed)
    assert check(decoding(flood)(N)()) == []
    assert_linear(decoding(flood), N)


@pytest.mark.parametrize("name", ["calls that stay open", "calls of one id", "text and reasoning"])
def test_a_check_of_the_events_is_linear_too(name):
    flood = next(flood for flood in FLOODS if flood.name == name)
    assert_linear(lambda n: (lambda events: lambda: check(events))(decoding(flood)(n)()), 2 * N)


@pytest.mark.parametrize("line", [b": x\n", b"\n"], ids=["comments", "blank lines"])
def test_lines_without_event_are_cheap(line):
    """They compress well: a few KB of gzip are millions of them, and no call may be made for each."""
    counting = Counting()
    with counting:
        SSEDecoder().feed_data(line * 1000)
    assert counting.lines <= 4 * 1000 + 100
