"""Rights of roles, as a set that can be compared."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from rendering import Object


@dataclass(frozen=True, order=True)
class Right:
    """One verb on one kind of resource."""

    group: str
    resource: str
    verb: str


def rights(role: Object) -> set[Right]:
    """Everything that a Role or ClusterRole allows; wildcards and single names are refused."""
    found = set()
    for rule in role["rules"]:
        assert set(rule) == {"apiGroups", "resources", "verbs"}, rule
        for group, resource, verb in product(rule["apiGroups"], rule["resources"], rule["verbs"]):
            assert "*" not in (group, resource, verb), rule
            found.add(Right(group, resource, verb))
    return found


def table(text: str) -> set[Right]:
    """Rights from lines of group, resource and verbs; `-` is the core group."""
    found = set()
    for line in text.strip().splitlines():
        group, resource, *verbs = line.partition("#")[0].split()
        found |= {Right("" if group == "-" else group, resource, verb) for verb in verbs}
    return found
