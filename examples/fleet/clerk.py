"""The agent of every worker: tools, a model under the limits of the fleet, and the bank that it pays with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import psycopg
from vendor import PER_MINUTE

import llmstream as ls
from llmstream.middleware import cache, wrap
from llmstream.tools import ToolContext, tool


class Bank:
    """A table in PostgreSQL that takes whatever it is sent: paying twice is the caller's mistake."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def prepare(self) -> None:
        """Makes the table."""
        await self._run("create table if not exists payments (key text, ordered text, euros int)")

    async def pay(self, key: str, order: str, euros: int) -> None:
        """Pays; `key` names the tool call."""
        await self._run("insert into payments values (%s, %s, %s)", key, order, euros)

    async def payments(self, order: str = "%") -> list[tuple[str, str]]:
        """Key and order of each."""
        return await self._run("select key, ordered from payments where ordered like %s", order)

    async def _run(self, statement: str, *values: object) -> list[tuple[str, str]]:
        async with await psycopg.AsyncConnection.connect(self._address, autocommit=True) as connection:
            cursor = await connection.execute(statement.encode(), values or None)
            return [] if cursor.description is None else await cursor.fetchall()


@tool(idempotent=True)  # packing again does no harm
async def pack(items: int) -> AsyncIterator[str]:
    """Pack the items."""
    for item in range(items):
        await asyncio.sleep(0.3)
        yield f"item {item + 1} of {items}"
    yield f"{items} items are packed"


def tools(model: ls.Model, bank: Bank) -> list[ls.Tool]:
    """The tools of one worker."""

    @tool(idempotent=True)
    async def freight(city: str) -> str:
        """Ask for the freight to a city."""
        async with model.stream(f"What is the freight to {city}?") as stream:
            saved = False
            async for event in stream:
                if isinstance(event, ls.ResponseMetadata) and event.provider_metadata:
                    saved = saved or "llmstream" in event.provider_metadata
        return stream.text + (", from the cache" if saved else "")

    @tool  # not idempotent: after a crash in the middle of it, it does not run again
    async def pay(order: str, euros: int, context: ToolContext) -> str:
        """Pay for an order."""
        await asyncio.sleep(0.4)
        await bank.pay(context.key, order, euros)
        await asyncio.sleep(0.4)
        return f"paid {euros} euros"

    @tool(idempotent=True)
    async def find_payment(order: str) -> str:
        """Ask the bank whether an order is paid."""
        return "paid" if await bank.payments(order) else "not paid"

    return [freight, pack, pay, find_payment]


@asynccontextmanager
async def clerk(vendor: str, redis: str, bank: Bank) -> AsyncGenerator[ls.Agent]:
    """The agent of one worker.

    vendor: address of the vendor
    redis:  address of the server with the limits and the cached answers that all workers share
    """
    async with ls.RateLimiter(
        requests_per_minute=PER_MINUTE, max_concurrent=16, shared=redis, name="vendor", lease_s=4.0
    ) as limiter:
        model = ls.Model("sim-anthropic:clerk", base_url=vendor, limiter=limiter)
        # The freight to a city is asked once for all workers; what an order needs is not cached.
        cached = wrap(model, cache(redis, ttl_s=3600))
        yield ls.Agent(model, name="clerk", tools=tools(cached, bank), max_steps=20)
