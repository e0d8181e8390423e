# SPDX-License-Identifier: Apache-2.0
"""The fields of the kinds of Kubernetes objects that deploy/kubernetes has, as far as it uses them, and what does not
agree with them: https://kubernetes.io/docs/reference/kubernetes-api/ and, of the Prometheus operator,
https://prometheus-operator.dev/docs/api-reference/api/. A field that is not in this table is an error, be it a slip or
new here: who uses a new one looks it up there and adds it."""

import re

QUANTITY = re.compile(r"([0-9]+(\.[0-9]+)?|\.[0-9]+)(m|k|Ki|[MGTPE]i?)?$")
NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$")
LABEL = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$")


def text(pattern=None, words=None):
    """A text that has this form, or is one of these words."""
    def wrong(value):
        if not isinstance(value, str):
            return f"is {value!r}, not a text"
        if pattern and not re.match(pattern, value):
            return f"{value!r} has not the form that it must have"
        return f"{value!r} is none of {', '.join(words)}" if words and value not in words else None
    return wrong


def number(low=0, high=2 ** 31 - 1):
    def wrong(value):
        if not isinstance(value, int) or isinstance(value, bool):
            return f"is {value!r}, not a whole number"
        return None if low <= value <= high else f"{value} is not from {low} to {high}"
    return wrong


def flag(value):
    return None if isinstance(value, bool) else f"is {value!r}, neither true nor false"


def quantity(value):
    """Of memory or processors: 512Mi, 200m, 2."""
    fits = (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, str) and QUANTITY.match(value))
    return None if fits else f"{value!r} is no quantity"


def either(*types):
    """Of the first type, or of another one."""
    def wrong(value):
        problems = [t(value) for t in types]
        return None if None in problems else problems[0]
    return wrong


class Map:
    """Any keys, with values of one type."""

    def __init__(self, value, key=None):
        self.value, self.key = value, key


TEXT, COUNT = text(), number()
PORT, PORT_NAME = number(1, 65535), text(r"[a-z0-9-]{1,15}$")
PERCENT = either(COUNT, text(r"[0-9]{1,3}%$"))
LABELS = Map(text(LABEL_VALUE), LABEL)
# Of a dict, "x!" must be there. A list of one type is a list of such things.
META = {"name!": text(NAME), "namespace": text(NAME), "labels": LABELS, "annotations": Map(TEXT, LABEL)}
SELECTOR = {"matchLabels": LABELS,
            "matchExpressions": [{"key!": text(LABEL), "operator!": text(words=("In", "NotIn", "Exists", "DoesNotExist")),
                                  "values": [text(LABEL_VALUE)]}]}
KEY_OF = {"name!": TEXT, "key!": TEXT, "optional": flag}
PROBE = {"httpGet!": {"path!": text("/"), "port!": either(PORT, PORT_NAME), "scheme": text(words=("HTTP", "HTTPS"))},
         "periodSeconds": number(1), "timeoutSeconds": number(1), "failureThreshold": number(1),
         "successThreshold": number(1), "initialDelaySeconds": COUNT}
AMOUNTS = {"cpu": quantity, "memory": quantity, "storage": quantity, "ephemeral-storage": quantity}
CONTAINER = {
    "name!": text(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"), "image!": TEXT,
    "imagePullPolicy": text(words=("Always", "IfNotPresent", "Never")), "command": [TEXT], "args": [TEXT],
    "env": [{"name!": text(r"[-._a-zA-Z][-._a-zA-Z0-9]*$"), "value": TEXT,
             "valueFrom": {"fieldRef": {"fieldPath!": TEXT}, "secretKeyRef": KEY_OF, "configMapKeyRef": KEY_OF}}],
    "envFrom": [{"configMapRef": {"name!": TEXT, "optional": flag}, "secretRef": {"name!": TEXT, "optional": flag}}],
    "ports": [{"name": PORT_NAME, "containerPort!": PORT, "protocol": text(words=("TCP", "UDP"))}],
    "startupProbe": PROBE, "livenessProbe": PROBE, "readinessProbe": PROBE,
    "resources": {"requests": AMOUNTS, "limits": AMOUNTS},
    "securityContext": {"allowPrivilegeEscalation": flag, "readOnlyRootFilesystem": flag, "privileged": flag,
                        "runAsNonRoot": flag, "capabilities": {"drop": [TEXT], "add": [TEXT]}},
    "volumeMounts": [{"name!": TEXT, "mountPath!": text("/"), "readOnly": flag, "subPath": TEXT}]}
FILES = {"defaultMode": number(0, 0o777), "optional": flag, "items": [{"key!": TEXT, "path!": TEXT, "mode": number(0, 0o777)}]}
POD = {
    "serviceAccountName": TEXT, "automountServiceAccountToken": flag, "enableServiceLinks": flag,
    "terminationGracePeriodSeconds": COUNT, "restartPolicy": text(words=("Always", "OnFailure", "Never")),
    "securityContext": {"runAsNonRoot": flag, "runAsUser": COUNT, "runAsGroup": COUNT, "fsGroup": COUNT,
                        "fsGroupChangePolicy": text(words=("OnRootMismatch", "Always")),
                        "seccompProfile": {"type!": text(words=("RuntimeDefault", "Localhost", "Unconfined"))}},
    "topologySpreadConstraints": [{"maxSkew!": number(1), "topologyKey!": text(LABEL), "labelSelector": SELECTOR,
                                   "whenUnsatisfiable!": text(words=("DoNotSchedule", "ScheduleAnyway"))}],
    "containers!": [CONTAINER], "initContainers": [CONTAINER],
    "volumes": [{"name!": text(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"),
                 "persistentVolumeClaim": {"claimName!": TEXT, "readOnly": flag}, "configMap": {"name!": TEXT, **FILES},
                 "secret": {"secretName!": TEXT, **FILES},
                 "emptyDir": {"sizeLimit": quantity, "medium": text(words=("", "Memory"))}}]}
TEMPLATE = {"metadata!": {key: kind for key, kind in META.items() if key != "name!"}, "spec!": POD}
CLAIM = {"accessModes!": [text(words=("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"))],
         "resources!": {"requests!": {"storage!": quantity}}, "storageClassName": TEXT}
NETWORK_PORTS = [{"protocol": text(words=("TCP", "UDP", "SCTP")), "port": either(PORT, PORT_NAME), "endPort": PORT}]
NETWORK_PEERS = [{"podSelector": SELECTOR, "namespaceSelector": SELECTOR, "ipBlock": {"cidr!": TEXT, "except": [TEXT]}}]
SCALING = {"stabilizationWindowSeconds": number(0, 3600), "selectPolicy": text(words=("Max", "Min", "Disabled")),
           "policies": [{"type!": text(words=("Pods", "Percent")), "value!": number(1), "periodSeconds!": number(1, 1800)}]}
DURATION = text(r"([0-9]+(ms|[smhdwy]))+$")
SECRET_OR_MAP = {"secret": KEY_OF, "configMap": KEY_OF}

# By kind: the one apiVersion, and what an object has beside apiVersion, kind and metadata.
KINDS = {
    "Namespace": ("v1", {}),
    "ServiceAccount": ("v1", {"automountServiceAccountToken": flag}),
    "ConfigMap": ("v1", {"data": Map(TEXT, re.compile(r"[-._a-zA-Z0-9]+$"))}),
    "PersistentVolumeClaim": ("v1", {"spec!": CLAIM}),
    "Service": ("v1", {"spec!": {
        "selector!": LABELS, "clusterIP": text(words=("None",)), "publishNotReadyAddresses": flag,
        "type": text(words=("ClusterIP", "NodePort", "LoadBalancer")),
        "ipFamilyPolicy": text(words=("SingleStack", "PreferDualStack", "RequireDualStack")),
        "ipFamilies": [text(words=("IPv4", "IPv6"))],
        "ports!": [{"name": PORT_NAME, "port!": PORT, "targetPort": either(PORT, PORT_NAME), "appProtocol": TEXT,
                    "protocol": text(words=("TCP", "UDP"))}]}}),
    "StatefulSet": ("apps/v1", {"spec!": {
        "replicas": COUNT, "serviceName!": TEXT, "selector!": SELECTOR, "template!": TEMPLATE, "minReadySeconds": COUNT,
        "podManagementPolicy": text(words=("OrderedReady", "Parallel")), "revisionHistoryLimit": COUNT,
        "updateStrategy": {"type": text(words=("RollingUpdate", "OnDelete")), "rollingUpdate": {"partition": COUNT}},
        "volumeClaimTemplates": [{"apiVersion": TEXT, "kind": TEXT, "metadata!": META, "spec!": CLAIM}]}}),
    "Deployment": ("apps/v1", {"spec!": {
        "replicas": COUNT, "selector!": SELECTOR, "template!": TEMPLATE, "minReadySeconds": COUNT,
        "strategy": {"type": text(words=("RollingUpdate", "Recreate")),
                     "rollingUpdate": {"maxSurge": PERCENT, "maxUnavailable": PERCENT}}}}),
    "Job": ("batch/v1", {"spec!": {
        "backoffLimit": COUNT, "ttlSecondsAfterFinished": COUNT, "completions": COUNT, "parallelism": COUNT,
        "activeDeadlineSeconds": COUNT, "template!": TEMPLATE,
        "podFailurePolicy": {"rules!": [{
            "action!": text(words=("FailJob", "FailIndex", "Ignore", "Count")),
            "onExitCodes": {"containerName": TEXT, "operator!": text(words=("In", "NotIn")), "values!": [number(0, 255)]},
            "onPodConditions": [{"type!": TEXT, "status!": text(words=("True", "False", "Unknown"))}]}]}}}),
    "PodDisruptionBudget": ("policy/v1", {"spec!": {
        "selector!": SELECTOR, "minAvailable": PERCENT, "maxUnavailable": PERCENT,
        "unhealthyPodEvictionPolicy": text(words=("IfHealthyBudget", "AlwaysAllow"))}}),
    "NetworkPolicy": ("networking.k8s.io/v1", {"spec!": {
        "podSelector!": SELECTOR, "policyTypes": [text(words=("Ingress", "Egress"))],
        "ingress": [{"from": NETWORK_PEERS, "ports": NETWORK_PORTS}], "egress": [{"to": NETWORK_PEERS, "ports": NETWORK_PORTS}]}}),
    "HorizontalPodAutoscaler": ("autoscaling/v2", {"spec!": {
        "scaleTargetRef!": {"apiVersion": TEXT, "kind!": TEXT, "name!": TEXT}, "minReplicas": number(1), "maxReplicas!": number(1),
        "metrics": [{"type!": text(words=("Resource",)), "resource!": {"name!": text(words=("cpu", "memory")), "target!": {
            "type!": text(words=("Utilization", "AverageValue")), "averageUtilization": number(1), "averageValue": quantity}}}],
        "behavior": {"scaleUp": SCALING, "scaleDown": SCALING}}}),
    "PodMonitor": ("monitoring.coreos.com/v1", {"spec!": {
        "selector!": SELECTOR, "podTargetLabels": [text(LABEL)],
        "podMetricsEndpoints!": [{
            "port": PORT_NAME, "path": text("/"), "interval": DURATION, "scheme": text(words=("http", "https")),
            "tlsConfig": {"serverName": TEXT, "ca": SECRET_OR_MAP, "cert": SECRET_OR_MAP, "keySecret": KEY_OF},
            "authorization": {"type": TEXT, "credentials": KEY_OF}}]}}),
    "PrometheusRule": ("monitoring.coreos.com/v1", {"spec!": {"groups!": [{"name!": TEXT, "interval": DURATION, "rules!": [{
        "alert": TEXT, "record": TEXT, "expr!": TEXT, "for": DURATION, "labels": LABELS, "annotations": Map(TEXT, LABEL)}]}]}}),
}
# Exactly one of them.
ONE_OF = {"volumes": ("persistentVolumeClaim", "configMap", "secret", "emptyDir"), "envFrom": ("configMapRef", "secretRef")}


def compare_dict(value, fields, where):
    known = {key.rstrip("!"): kind for key, kind in fields.items()}
    for key in value:
        if key not in known:
            yield f"{where}.{key}: there is no such field"
        else:
            yield from compare(value[key], known[key], f"{where}.{key}")
    for key in fields:
        if key.endswith("!") and key[:-1] not in value:
            yield f"{where}: {key[:-1]} is missing"


def compare(value, kind, where):
    """What is wrong with a value, by its type in the table."""
    if isinstance(kind, Map):
        if not isinstance(value, dict):
            yield f"{where} is no map"
            return
        for key, inner in value.items():
            if not isinstance(key, str) or (kind.key and not re.match(kind.key, key)):
                yield f"{where}: {key!r} is no key"
            yield from compare(inner, kind.value, f"{where}.{key}")
    elif isinstance(kind, dict):
        if isinstance(value, dict):
            yield from compare_dict(value, kind, where)
        else:
            yield f"{where} has no fields: {value!r}"
    elif isinstance(kind, list):
        if not isinstance(value, list):
            yield f"{where} is no list"
            return
        names = ONE_OF.get(where.rpartition(".")[2])
        for i, inner in enumerate(value):
            yield from compare(inner, kind[0], f"{where}[{i}]")
            if names and isinstance(inner, dict) and sum(name in inner for name in names) != 1:
                yield f"{where}[{i}] has not one of {', '.join(names)}"
    else:
        problem = kind(value)
        if problem:
            yield f"{where}: {problem}"


def problems_of(document):
    """Of a whole object."""
    kind, metadata = document.get("kind"), document.get("metadata")
    if not isinstance(kind, str) or kind not in KINDS:
        return [f"{kind} is no kind of the table"]
    version, fields = KINDS[kind]
    where = f"{kind} {metadata.get('name') if isinstance(metadata, dict) else metadata}"
    found = [] if document.get("apiVersion") == version else [f"{where}: its apiVersion is not {version}"]
    rest = {key: value for key, value in document.items() if key not in ("apiVersion", "kind")}
    return found + list(compare_dict(rest, {"metadata!": META, **fields}, where))
