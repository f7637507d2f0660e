"""Streams for user interfaces that others have written: `ui.vercel` is the AI SDK's `useChat`."""
