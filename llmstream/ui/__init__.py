"""Streams for user interfaces that others have written.

`ui.vercel` is the AI SDK's `useChat`; `ui.ag_ui` is AG-UI, the protocol of CopilotKit and others. `ui.sse`
reads a run of an event log as Server-Sent Events.
"""
