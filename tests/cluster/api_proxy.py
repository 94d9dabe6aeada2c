"""Between the operator and an API server: counts, refuses and loses answers as it is told."""

import asyncio
import json
import ssl
import threading
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import yaml
from aiohttp import web
from kubernetes import config

_PASSED_HEADERS = ("Accept", "Content-Type", "User-Agent")


@dataclass
class Traffic:
    """What went through: requests by method, watches apart, and bytes of bodies both ways."""

    requests: Counter = field(default_factory=Counter)
    watches: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0


class ApiProxy:
    """An address that answers as the API server does, unless told otherwise.

    ``refuse(method, path)`` gives a code to answer with in place of the server, or None;
    ``passed(method, path, code)`` is called after the server has answered and before the client is
    told, and returns a code to tell in its place, or None.
    """

    def __init__(self, cluster, folder):
        self.refuse = lambda method, path: None
        self.passed = lambda method, path, code: None
        self.traffic = Traffic()
        access = config.new_client_from_config(str(cluster.kubeconfig)).configuration
        self._server = access.host
        self._ssl = _context(access)
        token = access.auth_settings().get("BearerToken")
        self._headers = {"Authorization": token["value"]} if token else {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        port = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(30)
        self.kubeconfig = Path(folder) / "proxy.kubeconfig"
        self.kubeconfig.write_text(yaml.safe_dump(_kubeconfig(port)), encoding="utf-8")

    def close(self):
        """Stop; connections end."""
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def _start(self):
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=self._ssl),
            timeout=aiohttp.ClientTimeout(total=None),
        )
        app = web.Application(client_max_size=64 << 20)
        app.router.add_route("*", "/{path:.*}", self._forward)
        self._runner = web.AppRunner(app, shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        return site._server.sockets[0].getsockname()[1]

    async def _stop(self):
        await self._runner.cleanup()
        await self._session.close()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _forward(self, request):
        body = await request.read()
        self._count(request, body)
        code = self.refuse(request.method, request.path)
        if code is not None:
            return _refusal(code)
        given = {k: request.headers[k] for k in _PASSED_HEADERS if k in request.headers}
        headers = {**given, **self._headers}
        try:
            async with self._session.request(
                request.method, self._server + request.path_qs, data=body or None, headers=headers
            ) as answer:
                code = await asyncio.to_thread(
                    self.passed, request.method, request.path, answer.status
                )
                if code is not None:
                    await answer.read()
                    return _refusal(code)
                return await self._stream(request, answer)
        except aiohttp.ClientConnectionError:
            if request.transport is not None:
                request.transport.abort()  # the server is away: so is this one
            return web.Response(status=502)

    def _count(self, request, body):
        if "watch" in request.query:
            self.traffic.watches += 1
        else:
            self.traffic.requests[request.method] += 1
        self.traffic.sent_bytes += len(body)

    async def _stream(self, request, answer):
        response = web.StreamResponse(status=answer.status)
        for name in ("Content-Type", "Retry-After"):
            if name in answer.headers:
                response.headers[name] = answer.headers[name]
        await response.prepare(request)
        async for chunk in answer.content.iter_any():
            self.traffic.received_bytes += len(chunk)
            await response.write(chunk)
        await response.write_eof()
        return response


def _refusal(code):
    reasons = {409: "Conflict", 429: "TooManyRequests", 500: "InternalError"}
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": reasons[code],
        "message": f"refused with {code} by a test",
        "code": code,
    }
    headers = {"Retry-After": "1"} if code == 429 else {}
    return web.Response(
        status=code, text=json.dumps(status), content_type="application/json", headers=headers
    )


def _kubeconfig(port):
    cluster = {"name": "proxy", "cluster": {"server": f"http://127.0.0.1:{port}"}}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [cluster],
        "users": [{"name": "proxy", "user": {"token": "none"}}],
        "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
        "current-context": "proxy",
    }


def _context(access):
    """TLS as the kubeconfig says: its authority, and its user's certificate where it has one."""
    context = ssl.create_default_context(cafile=access.ssl_ca_cert)
    if access.cert_file:
        context.load_cert_chain(access.cert_file, access.key_file)
    return context
