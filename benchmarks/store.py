"""What a store of conversations takes as it grows, and a turn beside the database of simonw/llm.

Conversations have ten messages of sixty words each, drawn as words of a language are: a few in nearly
every message, most of them rare.
"""

from __future__ import annotations

import contextlib
import importlib.util
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

from llmstream.chats import Message
from llmstream.store import Store, conversations, open_store
from llmstream.store.importing import Imported, Node, add

__all__ = ["filled", "growth_ms", "store_ms", "turn_ms"]

MESSAGES: Final = 10
WORDS: Final = 60
_TOGETHER: Final = 200
_VOCABULARY: Final = [f"w{n}" for n in range(20_000)]
_SUMS: Final = list(accumulate(1 / (n + 1) for n in range(20_000)))
_SEARCHED: Final = {"rare": "w19000", "usual": "w300", "common": "w0"}


def growth_ms(
    counts: Iterable[int], rounds: int, postgres: str | None
) -> dict[tuple[str, str], dict[int, float]]:
    """Milliseconds of what people do, by it and the store, at each number of conversations.

    postgres: the address of an empty database, to be measured too
    """
    found: dict[tuple[str, str], dict[int, float]] = {}
    for count in counts:
        for name, address in {"sqlite": None, "postgres": postgres}.items():
            if name == "sqlite" or address is not None:
                with filled(count, address) as store:
                    for work, ms in store_ms(store, rounds).items():
                        found.setdefault((work, name), {})[count] = ms
    return found


@contextlib.contextmanager
def filled(count: int, address: str | None = None) -> Iterator[Store]:
    """A store of so many conversations, which is deleted at the end: in a file, or in an empty database."""
    with contextlib.ExitStack() as end:
        if address is None:
            address = f"sqlite:{end.enter_context(tempfile.TemporaryDirectory())}/chats.db"
        else:
            end.callback(_drop, address)
        store = end.enter_context(open_store(address))
        words = random.Random(1)  # the same words each time
        for start in range(0, count, _TOGETHER):
            with store.database.writing():
                for number in range(start, min(start + _TOGETHER, count)):
                    add(store, _conversation(words, number))
        store.optimize()
        yield store


def _drop(address: str) -> None:
    import psycopg

    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("drop schema llmstream_store cascade")


def _conversation(words: random.Random, number: int) -> Imported:
    nodes = []
    for at in range(MESSAGES):
        text = _text(words)
        message = Message.assistant(text) if at % 2 else Message.user(text)
        nodes.append(Node(at - 1, message, number * 60.0 + at, "sim:demo" if at % 2 else ""))
    return Imported(f"chat-{number}", "", nodes, MESSAGES - 1)


def _text(words: random.Random) -> str:
    return " ".join(words.choices(_VOCABULARY, cum_weights=_SUMS, k=WORDS))


def store_ms(store: Store, rounds: int) -> dict[str, float]:
    """Milliseconds of what people do, medians; and of the slowest search."""
    numbers = random.Random(2)  # the same each time
    names = store.names()
    chat = store.chat("appended")
    found = {
        "last 20": _median(lambda: store.conversations(limit=20), rounds),
        "load": _median(lambda: store.chat(numbers.choice(names)).messages(), rounds),
        "append": _median(lambda: chat.append(Message.user(_text(numbers))), rounds),
        "fork": _median(lambda: _fork(store), rounds),
    }
    for kind, word in _SEARCHED.items():
        found[f"search, {kind}"] = _median(lambda word=word: store.search(word), rounds)  # type: ignore[misc]
    found["search, common, all"] = _median(lambda: store.search("w0", all=True), max(1, rounds // 10))
    return found


def _fork(store: Store) -> None:
    with store.database.writing() as db:
        row = conversations.find(db, "", "chat-0")
        conversations.make(db, "", f"fork-{time.perf_counter_ns()}", 0.0, fork_of=row)


def _median(work: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1000


def turn_ms(turns: int) -> dict[str, float]:
    """Milliseconds to keep a turn: prompt, answer, tokens. Ours, and llm's where it is installed."""
    words = random.Random(3)  # as above
    texts = [(_text(words), _text(words)) for _ in range(turns)]
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        if importlib.util.find_spec("llm") is not None:
            found["simonw/llm"] = _llm_ms(Path(folder), texts)
        with open_store(f"sqlite:{folder}/chats.db") as store:
            chat = store.chat("one")
            begin = time.perf_counter()
            for prompt, answer in texts:
                chat.append(Message.user(prompt))
                turn = chat.turn("sim:demo")
                turn.feed(_events(answer))
                turn.add([Message.assistant(answer)])
            found["sqlite"] = (time.perf_counter() - begin) / turns * 1000
    return found


def _events(answer: str) -> list[Any]:
    import llmstream as ls

    return [
        ls.StreamStart(),
        ls.TextStart("t"),
        ls.TextDelta(answer, "t"),
        ls.TextEnd("t"),
        ls.Finish("stop", ls.Usage(60, 60)),
    ]


def _llm_ms(folder: Path, texts: list[tuple[str, str]]) -> float:
    """What `log_to_db` takes, which writes a response once it is complete."""
    import llm  # type: ignore[import-not-found, unused-ignore]
    import sqlite_utils  # type: ignore[import-not-found, unused-ignore]
    from llm.migrations import migrate  # type: ignore[import-not-found, unused-ignore]

    answers = dict(texts)

    class Echo(llm.Model):  # type: ignore[misc, unused-ignore]  # its classes have no types
        model_id = "echo"

        def execute(self, prompt: Any, stream: Any, response: Any, conversation: Any) -> Iterator[str]:
            yield answers[prompt.prompt]
            response.set_usage(input=60, output=60)

    database = sqlite_utils.Database(str(folder / "llm.db"))
    database.enable_wal()
    migrate(database)
    conversation, spent = Echo().conversation(), 0.0
    for prompt, _ in texts:
        response = conversation.prompt(prompt, stream=False)
        response.text()
        begin = time.perf_counter()
        response.log_to_db(database)
        spent += time.perf_counter() - begin
    return spent / len(texts) * 1000
