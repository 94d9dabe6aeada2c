"""kopf, set for production: nothing is written to objects, nothing waits for ever."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import kopf

from autocompress.api.v1alpha1 import GROUP
from autocompress_operator.resources import Resource
from autocompress_operator.settings import Settings

_EXIT_SECONDS = 20.0


def kopf_settings(settings: Settings, watched: Iterable[Resource]) -> kopf.OperatorSettings:
    """Kopf's settings, each different from its default for a reason."""
    found = kopf.OperatorSettings()
    # None is ever written, since there are no handlers with state; the names are ours anyway. Not
    # our own finalizer: kopf takes its own off every object whose handlers do not need it.
    found.persistence.finalizer = f"{GROUP}/unused"
    found.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=GROUP, v1=False)
    found.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(
        prefix=GROUP,
        key="last-handled",
        v1=False,
        ignored_fields=["metadata.labels", "metadata.annotations"],
    )
    # Events are posted for transitions only, by ourselves.
    found.posting.enabled = False
    found.posting.loggers = False
    found.posting.level = logging.WARNING
    # A watch that the server forgot is noticed by its missing bookmarks.
    found.watching.server_timeout = 300
    found.watching.client_timeout = 310
    found.watching.inactivity_timeout = 70
    found.watching.connect_timeout = 20
    found.watching.chunk_size = 500
    for resource in watched:
        place = (resource.group, resource.version, resource.kind.value)
        if resource.label_selector:
            found.watching.label_selectors[place] = resource.label_selector
        if resource.field_selector:
            found.watching.field_selectors[place] = resource.field_selector
    found.networking.request_timeout = 60
    found.networking.connect_timeout = 10
    found.networking.enforce_retry_after = True
    found.execution.max_workers = 2
    found.execution.default_backoff = 15
    found.process.ultimate_exiting_timeout = _EXIT_SECONDS
    found.peering.standalone = True
    # In chosen namespaces the operator has no right to look at others, nor at definitions.
    found.scanning.disabled = bool(settings.watch_namespaces)
    return found
