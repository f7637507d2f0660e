"""Places by digest: beside a dict, over many sizes and removals."""

from __future__ import annotations

import random

from llmstream.mapping.lines import key_of
from llmstream.mapping.places import Places


def test_places_are_those_of_a_dict():
    """Digests collide on purpose: few first bytes, few low bits."""
    rng, places, expected = random.Random(3), Places(), dict[int, int]()
    for step in range(20_000):
        digest = rng.choice((0, 1, 255)) << 56 | rng.randrange(100) << 20 | rng.randrange(4)
        assert places.get(digest) == expected.get(digest)
        if rng.random() < 0.6 and digest not in expected:
            places.add(digest, step)
            expected[digest] = step
        elif rng.random() < 0.6:
            assert places.take(digest) == expected.pop(digest, None)
    assert len(places) == len(expected) > 100
    assert sorted(places) == sorted(expected.values())


def test_a_thousand_places_in_one_table():
    places = Places()
    digests = [key_of(number.to_bytes(8, "big")) & (1 << 56) - 1 for number in range(1_000)]
    for place, digest in enumerate(digests):
        places.add(digest, place)
    assert [places.get(digest) for digest in digests] == list(range(1_000))
    assert [places.take(digest) for digest in digests] == list(range(1_000))
    assert len(places) == 0


def test_removed_places_are_used_again():
    """Adding and taking for ever does not enlarge a table."""
    places = Places()
    for number in range(5_000):
        digest = key_of(number.to_bytes(8, "big")) & (1 << 56) - 1
        places.add(digest, number)
        assert places.take(digest) == number
    assert len(places) == 0
    assert len(places._tables[0].places) == 16
