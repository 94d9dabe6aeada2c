"""Progress of stages, asked of their pods."""

import asyncio

import aiohttp
import pytest
from aiohttp import web
from operator_samples import pod_object, running

from autocompress.api.v1alpha1.status import Progress
from autocompress_operator.cache import Cache
from autocompress_operator.progress import ProgressReader, read_progress
from autocompress_operator.resources import Kind
from autocompress_operator.store import Store

ANSWER = b'{"stage": "profile", "task": "t", "percent": 40, "estimatedRemainingSeconds": 1800}'


@pytest.mark.parametrize(
    ("text", "progress"),
    [
        (ANSWER, Progress(percent=40, estimated_remaining_seconds=1800)),
        (b'{"percent": 0}', Progress(percent=0)),
        (b'{"percent": 101}', None),
        (b'{"percent": "many"}', None),
        (b"[1]", None),
        (b"<html>", None),
        (b"", None),
    ],
)
def test_only_progress_is_read_as_progress(text, progress):
    assert read_progress(text) == progress


async def _served(answers, use):
    async def answer(_):
        return web.Response(body=answers.pop(0))

    app = web.Application()
    app.router.add_get("/progress", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        async with aiohttp.ClientSession() as session:
            return await use(session, runner.addresses[0][1])
    finally:
        await runner.cleanup()


def test_a_percentage_that_moves_asks_for_a_visit():
    cache, changed = Cache(), []
    store = Store(cache)
    store.put(Kind.PODS, pod_object("profile", phase="Running", state=running(), podIP="127.0.0.1"))
    store.put(Kind.PODS, pod_object("preflight", phase="Running", state=running()))
    store.put(Kind.PODS, pod_object("search", phase="Pending"))

    async def use(session, port):
        reader = ProgressReader(cache, changed.append, port=port)
        for _ in range(4):
            await reader.ask(session)

    later = ANSWER.replace(b"1800", b"1700")
    asyncio.run(_served([ANSWER, later, b"oops", ANSWER.replace(b"40", b"41")], use))
    assert [str(key) for key in changed] == ["team-a/small"] * 2
    assert cache.progress == {
        "uid-profile-pod": Progress(percent=41, estimated_remaining_seconds=1800)
    }


def test_a_stage_that_does_not_answer_is_no_failure():
    cache = Cache()
    Store(cache).put(
        Kind.PODS, pod_object("profile", phase="Running", state=running(), podIP="127.0.0.1")
    )

    async def use(session, port):
        await ProgressReader(cache, lambda key: None, port=port).ask(session)

    async def go():
        port = await _served([], lambda session, port: asyncio.sleep(0, port))
        async with aiohttp.ClientSession() as session:
            await use(session, port)

    asyncio.run(go())
    assert cache.progress == {}
