"""The JSON Schema of a job, for editors and for the cluster's resource definition."""

from __future__ import annotations

from pydantic import JsonValue

from autocompress.api.v1alpha1 import CompressionJob


def json_schema() -> dict[str, JsonValue]:
    """JSON Schema 2020-12 of ``CompressionJob``; rules between fields are not in it."""
    schema: dict[str, JsonValue] = CompressionJob.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
