"""A server that streams completions as OpenAI's does, without a model; for tests."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from aiohttp import web


@dataclass
class Script:
    """How the server behaves, and what it saw.

    ``tokens``: how many it streams, ``None`` for as many as asked; ``bodies``: what it was sent.
    """

    tokens: int | None = None
    token_seconds: float = 0.002
    status: int = 200
    stream_error: bool = False
    usage: bool = True
    bodies: list[dict[str, object]] = field(default_factory=list)
    active: int = 0
    most_active: int = 0


@contextmanager
def completions_server(
    script: Script, log: list[str] | None = None, name: str = "m"
) -> Iterator[str]:
    """Serve on a free loopback port, whose URL is given; every call adds ``name`` to ``log``."""

    async def complete(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        script.bodies.append(body)
        if log is not None:
            log.append(name)
        if script.status != 200:
            return web.Response(status=script.status, text="no such model")
        script.active += 1
        script.most_active = max(script.active, script.most_active)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        count = body["max_tokens"] if script.tokens is None else script.tokens
        for _ in range(count):
            text = (
                '{"error": "out of blocks"}'
                if script.stream_error
                else '{"choices": [{"index": 0, "text": "x"}]}'
            )
            await response.write(f"data: {text}\n\n".encode())
            await asyncio.sleep(script.token_seconds)
        if script.usage:
            prompt = len(body["prompt"])
            usage = {"prompt_tokens": prompt, "completion_tokens": count}
            event = json.dumps({"choices": [], "usage": usage})
            await response.write(f"data: {event}\n\n".encode())
        await response.write(b"data: [DONE]\n\n")
        script.active -= 1
        return response

    loop = asyncio.new_event_loop()
    app = web.Application()
    app.router.add_post("/v1/completions", complete)
    runner = web.AppRunner(app)
    loop.run_until_complete(runner.setup())
    site = web.TCPSite(runner, "127.0.0.1", 0)
    loop.run_until_complete(site.start())
    port = runner.addresses[0][1]
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
