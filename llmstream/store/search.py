"""Searches a store: words in texts, reasoning and tools, ranked among the newest messages that have them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

import msgspec

from llmstream.chats.message import Role
from llmstream.errors import InvalidRequest
from llmstream.store.conversations import NO_LIMIT, answered_by
from llmstream.store.database import Connection
from llmstream.store.rows import read_message, texts_of

__all__ = ["Hit", "search"]

# How many of the newest messages with the words are ranked: for a word in every message, ranking all would
# take a hundred times as long.
_NEWEST: Final = 2_000

# Characters of an excerpt before the first word; after its beginning there are twice as many.
_AROUND: Final = 60
_WORD: Final = re.compile(r'"([^"]*)"|(\S+)')

# By the number of the words among those of the message, as BM25 does; the constants are its usual ones.
_SATURATION: Final = 1.2
# Of a message of usual length.
_BYTES: Final = 500

_JOINED: Final = "{join} messages m on m.n = search.rowid {join} conversations c on c.n = m.conversation"

# FTS5's rank counts every message that has a word before it ranks the first: among a million messages that
# takes a second for a common one.
_BEST: Final = """
select search.rowid from search {joined} where {match} {filters}
order by {rank}, search.rowid desc limit :limit
"""

_RECENT: Final = """
select recent.n, b.role, b.body from (
    select search.rowid as n from search {joined} where {match} {filters}
    order by search.rowid desc limit :newest
) recent {join} messages b on b.n = recent.n
"""

_SHOWN: Final = """
select m.n, c.id, c.title, m.role, m.depth, m.created, m.files, m.body
from messages m join conversations c on c.n = m.conversation where m.n = ?
"""


class Hit(msgspec.Struct, frozen=True):
    """A message with the words.

    conversation: its name; `index`: the message's place in its branch
    created:      seconds since 1970
    excerpt:      the text around the first word; `found` has the positions of words in it, as (start, end)
    """

    conversation: str
    title: str
    role: str
    index: int
    created: float
    excerpt: str
    found: list[tuple[int, int]]
    message: int


# Two looks into the index; "<>" would read all of it.
_OTHERS: Final = (
    "select exists (select 1 from conversations where owner < ?) "
    "or exists (select 1 from conversations where owner > ?)"
)


def search(
    db: Connection,
    owner: str,
    text: str,
    *,
    model: str | None = None,
    role: str | None = None,
    since: float | None = None,
    limit: int = 20,
    rank_all: bool = False,
) -> list[Hit]:
    """The best hits.

    raises: InvalidRequest if there is no word to look for
    """
    words = _words(text)
    if not words:
        raise InvalidRequest(f"there is no word to search for in {text[:40]!r}")
    filters = ""
    # Only if there are conditions: the join takes ten times as long as a search without it.
    if _has_others(db, owner):
        filters += " and c.owner = :owner"
    if role is not None:
        filters += " and m.role = :role"
    if since is not None:
        filters += " and m.created >= :since"
    if model is not None:
        filters += answered_by(db, "m.conversation")
    dialect = db.dialect
    pieces = {
        "filters": filters,
        "joined": _JOINED.format(join=dialect.join) if filters else "",
        "match": dialect.match,
        "rank": dialect.rank,
        "join": dialect.join,
    }
    given: dict[str, object] = {
        "query": dialect.query(words),
        "owner": owner,
        "role": role,
        "since": since,
        "model": None if model is None else dialect.pattern(model),
        "limit": limit if limit >= 0 else NO_LIMIT,
    }
    if rank_all:
        statement = _BEST.format(**pieces)
        best = [n for (n,) in db.execute(statement, given)]
    else:
        statement = _RECENT.format(**pieces)
        rows = db.execute(statement, {**given, "newest": _NEWEST})
        best = _ranked(rows, words)[: limit if limit >= 0 else None]
    return [_hit(db, db.execute(_SHOWN, (n,)).fetchone(), words) for n in best]


def _ranked(rows: Iterable[tuple[int, str, bytes]], words: list[str]) -> list[int]:
    """Messages by how often they have the words for their length, newer ones first among equals.

    Results of tools count half: they have many words that neither a person nor a model wrote.
    """
    wanted = [_folded(word.removesuffix("*")).encode() for word in words]
    scored = []
    for n, role, body in rows:
        # The saved form is searched as bytes, keys of JSON included: to decode each message would cost more
        # than the ranking is worth.
        text = body.lower() if body.isascii() else _folded(body.decode()).encode()
        # BM25 with b = 0.75.
        length = _SATURATION * (0.25 + 0.75 * len(body) / _BYTES)
        # At least 1: the index has found the word, though escapes of JSON may hide it here.
        counts = [max(1, text.count(word)) for word in wanted]
        score = sum(count / (count + length) for count in counts)
        scored.append((score * (0.5 if role == Role.TOOL else 1.0), n))
    return [n for _, n in sorted(scored, reverse=True)]


def _has_others(db: Connection, owner: str) -> bool:
    return bool(db.execute(_OTHERS, (owner, owner)).fetchone()[0])


def _words(text: str) -> list[str]:
    """Words, and phrases in quotes, without those that have no letter or digit."""
    found = [phrase or word for phrase, word in _WORD.findall(text)]
    return [word for word in found if any(character.isalnum() for character in word)]


def _hit(db: Connection, row: tuple[object, ...], words: list[str]) -> Hit:
    n, name, title, role, depth, created, files, body = row
    message = read_message(db, n, files, body)  # type: ignore[arg-type]  # columns of SQLite
    excerpt, found = _excerpt([text for text in texts_of(message) if text], words)
    return Hit(name, title, role, depth, created, excerpt, found, n)  # type: ignore[arg-type]  # as above


def _excerpt(texts: list[str], words: list[str]) -> tuple[str, list[tuple[int, int]]]:
    """The text around the first word found, on one line."""
    wanted = [_folded(word.removesuffix("*")) for word in words]
    best = ""
    start = -1
    for text in texts:
        line = " ".join(text.split())
        folded = _folded(line)
        places = [place for word in wanted if (place := folded.find(word)) >= 0]
        if places:
            best, start = line, min(places)
            break
        best = best or line
    begin = max(0, start - _AROUND)
    end = min(len(best), max(start, 0) + 2 * _AROUND)
    shown = ("…" if begin else "") + best[begin:end] + ("…" if end < len(best) else "")
    folded = _folded(shown)
    found = []
    for word in wanted:
        place = folded.find(word)
        while place >= 0:
            found.append((place, place + len(word)))
            place = folded.find(word, place + len(word))
    return shown, sorted(found)


def _folded(text: str) -> str:
    """The text without case and accents, character by character, so that positions stay the same."""
    if text.isascii():
        return text.lower()
    return "".join([_plain(character) for character in text])


def _plain(character: str) -> str:
    base = unicodedata.normalize("NFD", character)[0].lower()
    return base if len(base) == 1 else character
