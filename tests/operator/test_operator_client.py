"""Requests over a real connection to a server of the test's own."""

import asyncio

import aiohttp
import pytest
from aiohttp import web

from autocompress_operator.client import ApiClient, ApiError, Connection, Content
from autocompress_operator.credentials import FreshToken
from autocompress_operator.watching import WatchActivity


class Server:
    """Answers in turn with what the test gives."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.requests = []
        self.waits = []
        self.logins = 0
        self.counted = []

    async def __aenter__(self):
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        port = self._runner.addresses[0][1]
        self.connection = Connection(
            server=f"http://127.0.0.1:{port}", session=aiohttp.ClientSession()
        )
        return self

    async def __aexit__(self, *_):
        await self.connection.session.close()
        await self._runner.cleanup()

    async def _answer(self, request):
        self.requests.append(
            (request.method, request.path_qs, await request.text(), request.headers)
        )
        return self.answers.pop(0)

    @property
    def client(self):
        async def login():
            self.logins += 1

        async def sleep(seconds):
            self.waits.append(seconds)

        return ApiClient(
            self.connection,
            login=login,
            answered=lambda method, code: self.counted.append((method, code)),
            sleep=sleep,
        )


def run(answers, use):
    async def go():
        async with Server(*answers) as server:
            return server, await use(server.client)

    return asyncio.run(go())


def test_a_request_is_json_and_counted():
    server, answer = run(
        [web.json_response({"a": 1})],
        lambda client: client.request(
            "PATCH", "/x", body={"b": 2}, content=Content.MERGE, query={"force": "true"}
        ),
    )
    assert answer == {"a": 1}
    method, path, text, headers = server.requests[0]
    assert (method, path, text) == ("PATCH", "/x?force=true", '{"b": 2}')
    assert headers["Content-Type"] == "application/merge-patch+json"
    assert server.counted == [("PATCH", 200)]


def test_an_error_tells_code_message_and_causes():
    body = {"message": "no", "details": {"causes": [{"reason": "NamespaceTerminating"}]}}
    with pytest.raises(ApiError) as caught:
        run([web.json_response(body, status=403)], lambda client: client.get("/x"))
    error = caught.value
    assert (error.code, error.message, error.causes) == (403, "no", ("NamespaceTerminating",))


def test_an_answer_without_json_is_an_error_with_its_text():
    with pytest.raises(ApiError, match="502: bad gateway"):
        run([web.Response(status=502, text="bad gateway")], lambda client: client.get("/x"))


def test_an_overloaded_server_is_waited_for_as_it_asks():
    busy = [web.Response(status=429, headers={"Retry-After": "7"}) for _ in range(2)]
    server, answer = run([*busy, web.json_response({})], lambda client: client.get("/x"))
    assert server.waits == [7, 7]
    assert answer == {}


def test_a_server_that_stays_overloaded_is_an_error_in_the_end():
    busy = [web.Response(status=429) for _ in range(5)]
    with pytest.raises(ApiError) as caught:
        run(busy, lambda client: client.get("/x"))
    assert caught.value.code == 429


def test_an_old_token_is_replaced_once():
    server, answer = run(
        [web.Response(status=401), web.json_response({"ok": True})],
        lambda client: client.get("/x"),
    )
    assert (server.logins, answer) == (1, {"ok": True})
    with pytest.raises(ApiError) as caught:
        run([web.Response(status=401) for _ in range(2)], lambda client: client.get("/x"))
    assert caught.value.code == 401


def test_the_token_is_read_again_now_and_then(tmp_path):
    file = tmp_path / "token"
    file.write_text("one\n")
    now = 0.0
    token = FreshToken(file, lambda: now)

    async def go():
        nonlocal now
        async with Server(*[web.json_response({}) for _ in range(3)]) as server:
            async with aiohttp.ClientSession(middlewares=(token,)) as session:
                for at, text in ((0.0, "one"), (30.0, "two"), (61.0, "two")):
                    now = at
                    file.write_text(text)
                    async with session.get(server.connection.server + "/x"):
                        pass
            return [headers["Authorization"] for *_, headers in server.requests]

    assert asyncio.run(go()) == ["Bearer one", "Bearer one", "Bearer two"]


def test_a_watch_that_receives_nothing_grows_old():
    now = 100.0
    activity = WatchActivity(lambda: now)

    async def go():
        nonlocal now
        sent = asyncio.Event()

        async def stream(request):
            response = web.StreamResponse()
            await response.prepare(request)
            await sent.wait()
            await response.write(b'{"type": "BOOKMARK"}\n')
            await asyncio.sleep(30)
            return response

        app = web.Application()
        app.router.add_get("/api/v1/pods", stream)
        runner = web.AppRunner(app, shutdown_timeout=0)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/api/v1/pods"
        async with (
            aiohttp.ClientSession(middlewares=(activity.watch,)) as session,
            session.get(url, params={"watch": "true"}) as response,
        ):
            now = 160.0
            activity.look()
            assert activity.oldest_seconds() == 60
            sent.set()
            await response.content.readline()
            activity.look()
            assert activity.oldest_seconds() == 0
            assert activity.last_seen() == {"pods": 160.0}
        await runner.cleanup()

    asyncio.run(go())
