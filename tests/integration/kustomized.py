# SPDX-License-Identifier: Apache-2.0
"""Renders the kustomizations of deploy/kubernetes without kustomize: what they use of it, and an error for all else.
https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/ describes the fields."""

import copy
import os
import re

import yaml

FIELDS = {"apiVersion", "kind", "namespace", "resources", "components", "labels", "images", "patches", "configMapGenerator",
          "generatorOptions"}
WITHOUT_NAMESPACE = ("Namespace",)
# By what the items of a list are told apart when a patch names some.
MERGE_KEYS = {"containers": "name", "env": "name", "volumes": "name", "volumeMounts": "mountPath", "ports": "containerPort"}


class Wrong(Exception):
    """A kustomization that cannot be rendered."""


def read_yaml(path):
    with open(path) as f:
        return [d for d in yaml.safe_load_all(f) if d]


def templates_of(o):
    """What is labelled as a pod is, below an object."""
    spec = o.get("spec", {})
    return [spec["template"]["metadata"]] if "template" in spec else []


def add_labels(objects, entry):
    pairs = entry["pairs"]
    for o in objects:
        o["metadata"].setdefault("labels", {}).update(pairs)
        if entry.get("includeTemplates") or entry.get("includeSelectors"):
            for metadata in templates_of(o):
                metadata.setdefault("labels", {}).update(pairs)
        if entry.get("includeSelectors"):
            add_to_selectors(o, pairs)


def add_to_selectors(o, pairs):
    spec = o.get("spec", {})
    if o["kind"] == "Service":
        spec["selector"].update(pairs)
    elif o["kind"] in ("Deployment", "StatefulSet", "PodDisruptionBudget"):
        spec["selector"].setdefault("matchLabels", {}).update(pairs)
    elif o["kind"] == "NetworkPolicy":
        spec["podSelector"].setdefault("matchLabels", {}).update(pairs)
    pod = spec.get("template", {}).get("spec", {})
    for constraint in pod.get("topologySpreadConstraints", []) if o["kind"] in ("Deployment", "StatefulSet") else []:
        constraint["labelSelector"].setdefault("matchLabels", {}).update(pairs)
    for claim in spec.get("volumeClaimTemplates", []):
        claim["metadata"].setdefault("labels", {}).update(pairs)


# ---- patches ----


def merge(into, patch, name=None):
    """A strategic merge: maps grow together, items of lists are found by their keys."""
    if isinstance(patch, dict) and isinstance(into, dict):
        for key, value in patch.items():
            into[key] = merge(into[key], value, key) if key in into else value
        return into
    if isinstance(patch, list) and isinstance(into, list) and name in MERGE_KEYS:
        by = MERGE_KEYS[name]
        for item in patch:
            old = next((o for o in into if o.get(by) == item[by]), None)
            if item.get("$patch") == "delete":
                into.remove(old)
            elif old is None:
                into.append(item)
            else:
                merge(old, item)
        return into
    return patch


def change(o, operation):
    """One operation of a JSON patch (RFC 6902)."""
    *way, last = [p.replace("~1", "/").replace("~0", "~") for p in operation["path"].split("/")[1:]]
    at = o
    for step in way:
        at = at[int(step)] if isinstance(at, list) else at[step]
    op = operation["op"]
    if isinstance(at, list):
        index = len(at) if last == "-" else int(last)
        if op == "add":
            at.insert(index, copy.deepcopy(operation["value"]))
        elif op == "replace":
            at[index] = copy.deepcopy(operation["value"])
        else:
            del at[index]
    elif op == "remove" or (op == "replace" and last not in at):
        del at[last]  # what is not there is an error
    elif op in ("add", "replace"):
        at[last] = copy.deepcopy(operation["value"])
    else:
        raise Wrong(f"operation {op}")


def is_meant(o, target):
    return (re.fullmatch(target.get("kind", ".*"), o["kind"]) and
            re.fullmatch(target.get("name", ".*"), o["metadata"]["name"]))


def patched(objects, entry):
    patch = yaml.safe_load(entry["patch"])
    target = entry.get("target")
    if target is None:
        target = {"kind": patch["kind"], "name": patch["metadata"]["name"]}
    meant = [o for o in objects if is_meant(o, target)]
    if not meant and "target" not in entry:
        raise Wrong(f"there is no {target['kind']} {target['name']} to patch")
    if isinstance(patch, list):
        for o in meant:
            for operation in patch:
                change(o, operation)
    elif patch.get("$patch") == "delete":
        return [o for o in objects if not any(o is m for m in meant)]
    else:
        for o in meant:
            merge(o, copy.deepcopy(patch))
    return objects


# ---- the rest ----


def set_images(objects, images):
    for o in objects:
        for metadata in templates_of(o):
            del metadata
            for container in o["spec"]["template"]["spec"]["containers"]:
                for image in images:
                    if container["image"].partition(":")[0] == image["name"]:
                        container["image"] = f"{image.get('newName', image['name'])}:{image.get('newTag', 'latest')}"


def generate(directory, entry):
    data = {}
    for name in entry["files"]:
        with open(os.path.join(directory, name)) as f:
            data[os.path.basename(name)] = f.read()
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": entry["name"]}, "data": data}


def render(directory, objects=None):
    """The objects of a kustomization; with @objects those that a component makes of them."""
    file = read_yaml(os.path.join(directory, "kustomization.yaml"))[0]
    unknown = set(file) - FIELDS
    if unknown:
        raise Wrong(f"{directory}: {', '.join(sorted(unknown))}")
    if file.get("configMapGenerator") and not file.get("generatorOptions", {}).get("disableNameSuffixHash"):
        raise Wrong(f"{directory}: names with a hash")
    objects = list(objects or [])
    for name in file.get("resources", []):
        path = os.path.join(directory, name)
        objects += render(path) if os.path.isdir(path) else read_yaml(path)
    for name in file.get("components", []):
        objects = render(os.path.join(directory, name), objects)
    objects += [generate(directory, entry) for entry in file.get("configMapGenerator", [])]
    for entry in file.get("patches", []):
        objects = patched(objects, entry)
    for o in objects:
        if "namespace" in file and o["kind"] not in WITHOUT_NAMESPACE:
            o["metadata"]["namespace"] = file["namespace"]
    for entry in file.get("labels", []):
        add_labels(objects, entry)
    set_images(objects, file.get("images", []))
    return objects
