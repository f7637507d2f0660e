"""Stores of conversations: trees of messages in SQLite or PostgreSQL, with search, cost and real deletion.

    from llmstream.store import open_store

    store = open_store("sqlite:~/.local/share/llmstream/chats.db")
    chat = store.chat("trip")
    async with ls.stream(model, "And by train?", chat=chat) as stream: ...

`store.py` is the interface and `chat.py` the chat that is stored as it grows; `database.py` is the port to
`sqlite.py` and `postgres.py`, `conversations.py` and `rows.py` define their content. `turns.py` stores an
answer while it arrives.
"""

from llmstream.store.chat import StoredChat
from llmstream.store.conversations import Branch, ConversationInfo
from llmstream.store.database import StoreError
from llmstream.store.search import Hit
from llmstream.store.store import CostRow, Store, TreeNode, TurnInfo, open_store

__all__ = [
    "Branch",
    "ConversationInfo",
    "CostRow",
    "Hit",
    "Store",
    "StoreError",
    "StoredChat",
    "TreeNode",
    "TurnInfo",
    "open_store",
]
