"""The JSON Schema of a job, for editors and for the cluster's resource definition."""

from __future__ import annotations

from pydantic import JsonValue
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import CoreSchema

from autocompress.api.v1alpha1 import CompressionJob


class _Untitled(GenerateJsonSchema):
    """Without a title for each field: it would only repeat the name, spelled worse."""

    def field_title_should_be_set(self, schema: CoreSchema) -> bool:
        """Never."""
        del schema
        return False


def json_schema() -> dict[str, JsonValue]:
    """JSON Schema 2020-12 of ``CompressionJob``; rules between fields are not in it."""
    schema: dict[str, JsonValue] = CompressionJob.model_json_schema(
        by_alias=True, schema_generator=_Untitled
    )
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
