"""The operator's rights are what it does, and nothing else."""

import pytest
from access import rights, table
from rendering import NAMESPACE, VALUES, only

# What the operator does in a namespace that it serves.
NAMESPACED = table("""
autocompress.dev compressionjobs get list watch patch delete  # finalizer; own time to live
autocompress.dev compressionjobs/status get patch             # server-side apply
autocompress.dev compressionjobs/finalizers update            # owner references on OpenShift
batch            jobs get list watch create patch delete
-                pods list watch
-                services get create delete                   # recovery over several nodes
-                events list watch create patch               # refusals of Jobs; its own
""")
KUEUE = table("kueue.x-k8s.io workloads get list watch")
JOBSET = table("jobset.x-k8s.io jobsets get list watch create patch delete")
TRAINER = table("trainer.kubeflow.org trainjobs get list watch create patch delete")
CLUSTER = table("""
apiextensions.k8s.io  customresourcedefinitions  list watch
-                     namespaces                 list watch
""")
NODES = table("- nodes list watch")


def cluster_role(objects):
    return only(objects, "ClusterRole", f"{NAMESPACE}-autocompress")


def test_over_the_whole_cluster(helm):
    objects = helm.objects()
    assert rights(cluster_role(objects)) == NAMESPACED | CLUSTER | NODES
    assert not [o for o in objects if o["kind"] == "Role" and "helm.sh/hook" not in hooks(o)]


def hooks(found):
    return found["metadata"].get("annotations", {})


@pytest.mark.parametrize(
    ("setting", "more"),
    [("kueue", KUEUE), ("jobset", JOBSET), ("trainer", TRAINER)],
)
def test_what_is_switched_on_adds_its_rights_only(helm, setting, more):
    role = cluster_role(helm.objects("--set", f"{setting}.enabled=true"))
    assert rights(role) == NAMESPACED | CLUSTER | NODES | more


def test_without_nodes(helm):
    role = cluster_role(helm.objects("--set", "nodes.enabled=false"))
    assert rights(role) == NAMESPACED | CLUSTER


def test_in_named_namespaces_nothing_in_the_cluster(helm):
    objects = helm.objects("--values", VALUES / "namespaces.yaml")
    roles = [o for o in objects if o["kind"] == "Role" and "helm.sh/hook" not in hooks(o)]
    assert {role["metadata"]["namespace"] for role in roles} == {"team-a", "team-b"}
    for role in roles:
        assert rights(role) == NAMESPACED
    names = {o["metadata"]["name"] for o in objects if o["kind"] == "ClusterRole"}
    assert names == {"autocompress-view", "autocompress-edit"}
    assert not [o for o in objects if o["kind"] == "ClusterRoleBinding"]


def test_in_named_namespaces_nodes_are_all_of_the_cluster_that_is_read(helm):
    objects = helm.objects("--values", VALUES / "namespaces.yaml", "--set", "nodes.enabled=true")
    assert rights(cluster_role(objects)) == NODES


@pytest.mark.parametrize("values", ["everything.yaml", "namespaces.yaml"])
def test_bindings_bind_the_operators_account_to_its_roles(helm, values):
    objects = helm.objects("--values", VALUES / values)
    account = only(objects, "Deployment")["spec"]["template"]["spec"]["serviceAccountName"]
    assert only(objects, "ServiceAccount", account)["metadata"]["namespace"] == NAMESPACE
    bindings = [o for o in objects if o["kind"].endswith("Binding") and not hooks(o)]
    assert bindings
    for binding in bindings:
        assert binding["subjects"] == [
            {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}
        ]
        role = only(
            [o for o in objects if in_reach(o, binding)],
            binding["roleRef"]["kind"],
            binding["roleRef"]["name"],
        )
        assert role["rules"]


def in_reach(found, binding):
    namespaces = (None, binding["metadata"].get("namespace"))
    return found["metadata"].get("namespace") in namespaces


@pytest.mark.parametrize("values", ["default.yaml", "everything.yaml", "namespaces.yaml"])
def test_never_secrets_logs_or_pods_of_its_own(helm, values):
    for found in helm.objects("--values", VALUES / values):
        if found["kind"] in ("Role", "ClusterRole"):
            for right in rights(found):
                assert right.resource not in {"secrets", "pods/log", "pods/exec", "configmaps"}
                assert (right.resource, right.verb) != ("pods", "create")
                assert right.verb not in {"escalate", "bind", "impersonate"}


def test_users_roles_are_aggregated(helm):
    objects = helm.objects()
    view = only(objects, "ClusterRole", "autocompress-view")
    edit = only(objects, "ClusterRole", "autocompress-edit")
    prefix = "rbac.authorization.k8s.io/aggregate-to-"
    for role, to in ((view, {"view", "edit", "admin"}), (edit, {"edit", "admin"})):
        labels = role["metadata"]["labels"]
        assert {key.removeprefix(prefix) for key in labels if key.startswith(prefix)} == to
    assert rights(view) == table("""
autocompress.dev compressionjobs get list watch
autocompress.dev compressionjobs/status get list watch
""")
    assert rights(edit) == table(
        "autocompress.dev compressionjobs create update patch delete deletecollection"
    )
