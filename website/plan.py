"""Which public name is described on which page of the reference."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["GLOSSARY", "INTERNAL", "MADE_BY_US", "PAGES", "Page"]

INTERNAL = {
    "Model.opened_by",
    "Model.call",
    "Model.reattached_call",
    "Model.known_secrets",
    "inspector.Inspection.write",
    "inspector.Inspection.open",
}
"""Methods that other packages of ours call; they are not part of the reference."""

MADE_BY_US = {
    "EventStream",
    "AgentRun",
    "inspector.Inspection",
    "middleware.Ask",
    "middleware.Reply",
    "testing.Cassette",
}
"""Classes whose objects a user receives: their constructors are not shown."""

GLOSSARY = {
    "prompt": "a str, a `Message`, a list of messages or a `Chat`",
    "output": "the type of the answer, or an `Output`",
    "deps": "the application's object, for tools that take a `ToolContext`",
    "metadata": "fields of single vendors, keyed by provider",
    "provider_metadata": "fields of single vendors, keyed by provider",
    "run_id": "id of the run",
    "call_id": "id of the call of a model",
    "tool_call_id": "id of the tool call",
    "request_id": "the vendor's id of the HTTP request",
    "provider_executed": "whether the vendor ran the tool",
    "media_type": 'such as "image/png"',
    "filename": "name of the file",
    "duration_s": "how long it took",
    "observe": "an observer in addition to the agent's or model's",
    "max_steps": "maximum number of steps",
}
"""Parameters that mean the same everywhere, for docstrings that leave them out."""


class Page(NamedTuple):
    """A page of the reference.

    names:   in the order of the page, as they are written after `ls.`, separated by spaces; "agent.*" stands
             for the rest of that module's `__all__`
    options: names of TypedDicts whose fields are shown as a table of options
    """

    file: str
    title: str
    intro: str
    names: str
    options: tuple[str, ...] = ()


PAGES = (
    Page(
        "models.md",
        "Models and streams",
        "Requests to a model and their responses. The guide is [Streaming](../guides/streaming.md).",
        """
            stream warm_up Model EventStream ResponseInfo ModelCheck TokenCount Capabilities ResumeToken
            Request Provider streams.Prompt streams.ApiKey streams.options.Transport
        """,
    ),
    Page(
        "options.md",
        "Options",
        "The keyword arguments of `stream`, `Model.stream`, `Model.ask`, `Model.events` and `Agent`, and the "
        "types they take. A `Model` takes them too, as defaults for its calls, except `headers`, `retry`, "
        "`deadlines` and `observe`, which it has itself. The guide is "
        "[Streaming](../guides/streaming.md#options).",
        """
            Settings ReasoningOptions Output NamedTool Deadlines Retry RateLimiter StreamLimits DownloadLimits
        """,
        options=("streams.options.Options",),
    ),
    Page(
        "agents.md",
        "Agents",
        "The tool loop. The guide is [Agents](../guides/agents.md).",
        """
            Agent AgentRun StepPlan Hooks Approve Deny Suspension Journal agent.* agent.context.*
            agent.hooks.Instructions agent.hooks.PrepareStep agent.hooks.BeforeModel agent.hooks.AfterModel
            agent.hooks.BeforeTool agent.hooks.AfterTool agent.hooks.Decision agent.hooks.Repair
            agent.state.Price agent.state.StopCondition
        """,
    ),
    Page(
        "tools.md",
        "Tools",
        "Functions that the model may call. The guide is [Tools](../guides/tools.md).",
        """
            tool Tool ToolSpec ProviderTool ToolContext ToolOutput ToolCallStatus tools.ToolOutcome
            tools.tool_from_function tools.AnyTool tools.Approver
        """,
    ),
    Page(
        "map.md",
        "Many prompts",
        "One prompt for each of many rows. The guide is [Many prompts: map](../guides/map.md).",
        "map MapRun MapResult MapProgress submit Batch BatchProgress",
    ),
    Page(
        "chats.md",
        "Conversations",
        "Messages and what they consist of. The guide is [Conversations](../guides/conversations.md).",
        "Chat Message Role Image Audio Document chats.*",
    ),
    Page(
        "events.md",
        "Events",
        "What a stream yields. [Events](../events.md) has the guarantees of each, and transcripts.",
        "Event FinishReason Usage ErrorInfo events.*",
    ),
    Page(
        "errors.md",
        "Errors",
        "Every exception. The guide is [Errors and retries](../guides/errors-and-retries.md).",
        "LLMStreamError errors.*",
    ),
    Page(
        "observability.md",
        "Observability and cost",
        "The guides are [Observability](../guides/observability.md), [Inspector](../guides/inspect.md) and "
        "[Cost](../guides/cost.md).",
        """
            inspect inspector.Inspection
            Observation AttemptStarted AttemptFailed FirstContent CallFinished streams.observations.Observe
            agent.observing.ObserveRun telemetry.* prices.price
        """,
    ),
    Page(
        "store.md",
        "Store",
        "Conversations that are stored in a file. The guide is [Conversation store](../guides/store.md).",
        "store.*",
    ),
    Page(
        "event-log.md",
        "Event log",
        "Runs that are stored in a log, followed and stopped from any process. The guide is "
        "[Event log](../guides/event-log.md).",
        "open_logs log.*",
    ),
    Page(
        "durable.md",
        "Durable runs",
        "Agents that survive their process. The guide is [Durable runs](../guides/durable.md).",
        "durable.*",
    ),
    Page(
        "middleware.md",
        "Middleware",
        "Wrappers around a model. The guide is [Middleware](../guides/middleware.md).",
        "middleware.*",
    ),
    Page(
        "testing.md",
        "Testing",
        "Scripted models, servers and checks. The guide is [Testing](../guides/testing.md).",
        "testing.*",
    ),
    Page(
        "mcp.md",
        "MCP",
        "Tools of MCP servers. The guide is [MCP servers](../guides/mcp.md).",
        "mcp.mcp_tools mcp.*",
    ),
    Page(
        "serve.md",
        "Serving",
        "Streams and runs as HTTP responses. The guide is [Web servers and browsers](../guides/serving.md).",
        """
            serve.Body serve.starlette.respond serve.aiohttp.respond serve.asgi.respond
            serve.django.respond serve.wsgi.respond serve.*
        """,
    ),
    Page(
        "gateway.md",
        "Gateway",
        "Models for clients of every vendor's API. The guide is [Gateway](../guides/gateway.md).",
        "gateway.*",
    ),
    Page(
        "ui.md",
        "User interfaces",
        "Requests and responses in protocols of user interfaces. The recipe for `useChat` is "
        "[A chat page](../recipes/use-chat.md), the guide to AG-UI is [AG-UI](../guides/ag-ui.md), "
        "that to runs of an event log [Event log](../guides/event-log.md#serving-it).",
        """
            ui.vercel.Chats ui.vercel.Writer ui.vercel.read ui.vercel.dump ui.vercel.*
            ui.ag_ui.read ui.ag_ui.RunInput ui.ag_ui.Writer ui.ag_ui.*
            ui.sse.body ui.durable_streams.body
        """,
    ),
    Page(
        "web.md",
        "Web chat",
        "Conversations in the browser. The guide is [Web chat](../guides/web-chat.md).",
        "web.Conversations web.ConversationStore web.* web.app.make_app web.app.Settings",
    ),
    Page(
        "low-level.md",
        "Low-level API",
        "The layers below a stream. The guide is [Low-level API](../guides/low-level-api.md).",
        "Accumulator grammar.* partial_json.* framing.* chunks.*",
    ),
)
