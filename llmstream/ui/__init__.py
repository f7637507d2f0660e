"""Streams for third-party user interfaces.

`ui.vercel` is the AI SDK's `useChat`; `ui.ag_ui` is AG-UI, the protocol of CopilotKit and others. `ui.sse`
and `ui.durable_streams` read runs of an event log.
"""
