"""``spec.target.workload``: what the deployment serves, and what its memory must hold."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from autocompress.api.v1alpha1.fields import Count, Spec, Tokens, refuse
from autocompress.api.v1alpha1.uris import PlaceUri
from autocompress.domain.deployment import Workload


class RequestSet(Spec):
    """A file of requests whose lengths replace the fixed ones."""

    uri: PlaceUri


class WorkloadSpec(Spec):
    """Requests of fixed lengths at a fixed concurrency."""

    prompt_tokens: Tokens
    output_tokens: Tokens
    concurrency: Count = 1
    request_set: RequestSet | None = None
    context_tokens: Tokens | None = None
    max_sequences: Count | None = None

    @model_validator(mode="after")
    def _fits_memory(self) -> Self:
        faults = {}
        least = self.prompt_tokens + self.output_tokens
        if self.context_tokens is not None and self.context_tokens < least:
            faults["contextTokens"] = (
                f"got {self.context_tokens}; give at least promptTokens + outputTokens = {least}"
            )
        if self.max_sequences is not None and self.max_sequences < self.concurrency:
            faults["maxSequences"] = (
                f"got {self.max_sequences}; give at least concurrency = {self.concurrency}"
            )
        refuse(faults)
        return self

    def to_domain(self) -> Workload:
        """As the stages see it, defaults filled in."""
        return Workload(
            prompt_tokens=self.prompt_tokens,
            output_tokens=self.output_tokens,
            concurrency=self.concurrency,
            context_tokens=self.context_tokens or self.prompt_tokens + self.output_tokens,
            max_sequences=self.max_sequences or self.concurrency,
            request_set_uri=self.request_set.uri if self.request_set else None,
        )
