"""What is read by `async for` or `async with` says so where somebody writes it the other way."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NoReturn

__all__ = ["AsyncOnly", "is_stream", "require_asyncio"]


class AsyncOnly:
    """Refuses `await`, `for` and `with`, with an error that names what to write instead.

    A type checker does not see these methods, so that it goes on refusing such code itself.
    """

    if not TYPE_CHECKING:

        def __await__(self) -> NoReturn:
            raise TypeError(
                f"{_kind(self)} is not awaited itself: read it with `async for`, or write "
                "`message = await stream.collect()` for the whole answer."
            )

        def __iter__(self) -> NoReturn:
            raise TypeError(
                f"{_kind(self)} is read with `async for`, in an `async def`; "
                "`asyncio.run(main())` runs that from other code."
            )

        def __enter__(self) -> NoReturn:
            raise TypeError(f"{_kind(self)} is entered with `async with`, in an `async def`.")

        def __exit__(self, *_: object) -> None:
            """Never called; without it Python would speak of the protocol in place of the remedy."""


def is_stream(value: object) -> bool:
    """Whether it is one of those, which only look as if they could be iterated."""
    return isinstance(value, AsyncOnly)


def require_asyncio() -> asyncio.Task[Any] | None:
    """The running task.

    raises: RuntimeError where no event loop of asyncio runs
    """
    try:
        return asyncio.current_task()
    except RuntimeError:
        raise RuntimeError(
            "llmstream runs on asyncio only, and no event loop of asyncio is running here. Start the "
            'program with asyncio.run(main()); with anyio choose backend="asyncio". trio is not supported.'
        ) from None


def _kind(value: object) -> str:
    return f"an {type(value).__name__}"
