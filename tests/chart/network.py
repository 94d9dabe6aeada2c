"""Which traffic NetworkPolicies let through, by the rules of networking.k8s.io/v1.

A small evaluator: pods are told by labels, the rest of the world by address. An address block is
never a pod, as with those implementations that take it most strictly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any

from rendering import Object

NAMESPACE_NAME = "kubernetes.io/metadata.name"


@dataclass(frozen=True, kw_only=True)
class Pod:
    """A pod: where it is, its labels, its named ports."""

    namespace: str
    labels: Mapping[str, str]
    ports: Mapping[str, int] = field(default_factory=dict)
    namespace_labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def all_namespace_labels(self) -> Mapping[str, str]:
        """The namespace's labels, with the one that the API server puts on each."""
        return {**self.namespace_labels, NAMESPACE_NAME: self.namespace}


@dataclass(frozen=True)
class Address:
    """Somebody outside the cluster."""

    ip: str


@dataclass(frozen=True)
class Port:
    """Where a connection goes."""

    number: int
    protocol: str = "TCP"


def allowed(
    policies: Sequence[Object], source: Pod | Address, target: Pod | Address, port: Port
) -> bool:
    """Whether the source may open a connection: its own policies and the target's let it."""
    leaves = not isinstance(source, Pod) or _passes(policies, "Egress", source, target, port)
    enters = not isinstance(target, Pod) or _passes(policies, "Ingress", target, source, port)
    return leaves and enters


def _passes(
    policies: Sequence[Object], direction: str, pod: Pod, other: Pod | Address, port: Port
) -> bool:
    selecting = [p for p in policies if _selects(p, pod) and direction in _types(p)]
    if not selecting:
        return True
    listens = pod if direction == "Ingress" else other
    key, peers = ("ingress", "from") if direction == "Ingress" else ("egress", "to")
    return any(
        _is_peer(rule.get(peers), other, policy["metadata"]["namespace"])
        and _is_port(rule.get("ports"), port, listens)
        for policy in selecting
        for rule in policy["spec"].get(key) or []
    )


def _types(policy: Object) -> Sequence[str]:
    types: Sequence[str] = policy["spec"]["policyTypes"]
    return types


def _selects(policy: Object, pod: Pod) -> bool:
    same = policy["metadata"]["namespace"] == pod.namespace
    return same and _matches(policy["spec"]["podSelector"], pod.labels)


def _is_peer(peers: Sequence[Any] | None, other: Pod | Address, namespace: str) -> bool:
    if not peers:
        return True
    return any(_is_one(peer, other, namespace) for peer in peers)


def _is_one(peer: Mapping[str, Any], other: Pod | Address, namespace: str) -> bool:
    if "ipBlock" in peer:
        return isinstance(other, Address) and _in_block(peer["ipBlock"], other.ip)
    if not isinstance(other, Pod):
        return False
    if "namespaceSelector" in peer:
        inside = _matches(peer["namespaceSelector"], other.all_namespace_labels)
    else:
        inside = other.namespace == namespace
    return inside and _matches(peer.get("podSelector", {}), other.labels)


def _in_block(block: Mapping[str, Any], ip: str) -> bool:
    address = ip_address(ip)
    inside = address in ip_network(block["cidr"])
    return inside and not any(address in ip_network(out) for out in block.get("except", []))


def _is_port(ports: Sequence[Any] | None, port: Port, listens: Pod | Address) -> bool:
    if not ports:
        return True
    return any(
        entry.get("protocol", "TCP") == port.protocol and _covers(entry, port.number, listens)
        for entry in ports
    )


def _covers(entry: Mapping[str, Any], number: int, listens: Pod | Address) -> bool:
    wanted = entry.get("port")
    if wanted is None:
        return True
    if isinstance(wanted, str):
        return isinstance(listens, Pod) and listens.ports.get(wanted) == number
    return bool(wanted <= number <= entry.get("endPort", wanted))


def _matches(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    return all(_holds(term, labels) for term in selector.get("matchExpressions") or [])


def _holds(term: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, operator = term["key"], term["operator"]
    if operator == "In":
        return labels.get(key) in term["values"]
    if operator == "NotIn":
        return labels.get(key) not in term["values"]
    if operator == "Exists":
        return key in labels
    assert operator == "DoesNotExist", operator
    return key not in labels
