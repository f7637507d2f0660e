"""The tables of a store, as SQLite writes them; `postgres.py` translates them."""

from __future__ import annotations

from typing import Final

__all__ = ["MIGRATIONS"]

MIGRATIONS: Final[tuple[tuple[str, bool], ...]] = (
    (
        """
create table trees (n integer primary key, key blob not null) strict;
create table conversations (
    n integer primary key, owner text not null, id text not null, tree integer not null references trees,
    head integer references messages, title text not null, tags text not null, created real not null,
    updated real not null, forked_from text not null, meta text not null, unique (owner, id)
) strict;
create index conversations_by_time on conversations (owner, updated);
create index conversations_by_tree on conversations (tree);
create table messages (
    n integer primary key, tree integer not null references trees, id blob not null,
    parent integer references messages, depth integer not null, conversation integer not null,
    role text not null, sender text not null, created real not null, files integer not null,
    body blob not null, unique (tree, id)
) strict;
create index messages_by_parent on messages (parent);
create index messages_by_conversation on messages (conversation);
create table turns (
    n integer primary key, conversation integer not null references conversations, after integer, head
    integer, run text not null, step integer not null, provider text not null, model text not null,
    state text not null, finish text not null, input_tokens integer, output_tokens integer,
    cached_tokens integer, cache_write_tokens integer, reasoning_tokens integer, cost real,
    started real not null, first_s real, total_s real, warnings text not null, error text not null,
    response text not null, log text not null, writer text not null
) strict;
create index turns_by_conversation on turns (conversation);
create index turns_by_time on turns (started);
create index turns_open on turns (writer) where state = 'open';
create table drafts (
    turn integer not null, seq integer not null, events blob not null, primary key (turn, seq)
) strict, without rowid;
create table files (hash blob primary key, size integer not null, bytes blob not null) strict;
create table message_files (
    message integer not null, place text not null, hash blob not null, primary key (message, place)
) strict, without rowid;
create index message_files_by_hash on message_files (hash);
create virtual table search using fts5(
    words, reasoning, tools, content='', tokenize="unicode61 remove_diacritics 2"
);
create table meta (name text primary key, value text not null) strict, without rowid;
""",
        False,
    ),
    ("alter table turns add column asked text not null default '{}'", False),
)
"""Statements from one version of the tables to the next, and whether they rewrite existing
rows: a file is copied before such a step. An entry is never changed once it is released."""
