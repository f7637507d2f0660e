"""A chat in the browser: conversations whose runs outlive the page, an API over HTTP, and the page itself.

    async with ls.open_logs("sqlite:runs.db") as logs:
        conversations = Conversations(agent, logs, ConversationStore("conversations.db"))
        ...

`conversations.py` sends, decides and stops; `store.py` defines the stored data. `app.py` serves it by
aiohttp, behind the checks of `admission.py`. The page, in `page/`, is the same for every server;
`examples/web_chat` serves it by FastAPI.
"""

from llmstream.web.admission import PAGE, PAGE_HEADERS, refusal
from llmstream.web.conversations import Conversations
from llmstream.web.store import Conversation, ConversationStore, Decision, Summary, Turn, View

__all__ = [
    "PAGE",
    "PAGE_HEADERS",
    "Conversation",
    "ConversationStore",
    "Conversations",
    "Decision",
    "Summary",
    "Turn",
    "View",
    "refusal",
]
