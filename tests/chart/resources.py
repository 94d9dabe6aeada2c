"""Where the API server keeps objects, asked of the API server itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from clusters import Api
from rendering import Object


@dataclass
class Resources:
    """Paths of objects, and requests on them."""

    api: Api
    _served: dict[str, dict[str, Any]] = field(default_factory=dict)

    def collection(self, found: Object) -> str:
        """The path of all objects of its kind, in its namespace where it has one."""
        version = found["apiVersion"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if version not in self._served:
            self._served[version] = {
                resource["kind"]: resource
                for resource in self.api.get(root)["resources"]
                if "/" not in resource["name"]
            }
        resource = self._served[version][found["kind"]]
        if not resource["namespaced"]:
            return f"{root}/{resource['name']}"
        return f"{root}/namespaces/{found['metadata']['namespace']}/{resource['name']}"

    def path(self, found: Object) -> str:
        """The path of an object."""
        return f"{self.collection(found)}/{found['metadata']['name']}"

    def apply(self, found: Object, **query: str) -> Object:
        """Server-side apply; unknown and doubled fields are errors."""
        answer: Object = self.api.apply(self.path(found), found, fieldValidation="Strict", **query)
        return answer

    def get(self, found: Object) -> Object:
        """The object as it is now."""
        answer: Object = self.api.get(self.path(found))
        return answer
