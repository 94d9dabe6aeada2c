"""Tries at the API server, storing nothing, that it takes a good job and refuses a bad one."""

from __future__ import annotations

import json
import os
import ssl
import sys
import urllib.error
import urllib.request
from pathlib import Path

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
JOBS = Path("/etc/autocompress-test")


def create(job: dict[str, object], namespace: str) -> tuple[int, str]:
    """What the API server answers to the creation of a job: its status code and message."""
    server = f"{os.environ['KUBERNETES_SERVICE_HOST']}:{os.environ['KUBERNETES_SERVICE_PORT']}"
    request = urllib.request.Request(
        f"https://{server}/apis/{job['apiVersion']}/namespaces/{namespace}/compressionjobs"
        "?dryRun=All&fieldValidation=Strict",
        data=json.dumps(job).encode(),
        headers={
            "Authorization": f"Bearer {(ACCOUNT / 'token').read_text()}",
            "Content-Type": "application/json",
        },
    )
    authority = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    try:
        with urllib.request.urlopen(request, context=authority, timeout=30) as answer:
            return answer.status, "accepted"
    except urllib.error.HTTPError as fault:
        return fault.code, json.load(fault)["message"]


def main() -> int:
    """Tries both jobs; 1 where an answer is not the right one."""
    namespace = (ACCOUNT / "namespace").read_text()
    right = True
    for name, wanted, word in (("good", 201, "accepted"), ("bad", 422, "spec.budget")):
        code, message = create(json.loads((JOBS / f"{name}.json").read_text()), namespace)
        right = right and code == wanted and word in message
        sys.stdout.write(f"{name} job: {wanted} with {word!r} wanted, got {code}: {message}\n")
    return 0 if right else 1


sys.exit(main())
