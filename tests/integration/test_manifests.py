# SPDX-License-Identifier: Apache-2.0
"""deploy/kubernetes, deploy/compose.yaml and compose-masters.yaml without a cluster, by their fields: there are none but those of the APIs, with
values that these take, and what they refer to is there. test_kubernetes.py compares them with our programs."""

import copy
import glob
import os
import re
import subprocess
import unittest

import compose_fields
import kubernetes_fields
import kustomized
import yaml
from test_kubernetes import BIN, KINDS_WITH_PODS, RENDERER, ROOT, SOURCE, directories, load, pod_of, read, render, selects

# What people make, by hand or with the commands of docs/deployment.md: the files in it.
SECRETS = {"gradus-node": {"tls.crt", "tls.key", "ca.crt"}, "gradus-client": {"tls.crt", "tls.key", "ca.crt"},
           "gradus-tokens": {"tokens"}, "gradus-store": {"credentials"}, "gradus-data-store": {"credentials"},
           "gradus-etcd": {"ca.crt", "tls.crt", "tls.key", "credentials"}, "gradus-monitoring": {"token"}}
# Fields with keys that are free, or almost.
MAPS = {"labels", "annotations", "data", "matchLabels", "selector", "requests", "limits"}


def rendered():
    return {os.path.relpath(d, ROOT): kustomized.render(d) for d in directories()
            if load(read(d, "kustomization.yaml"))[0]["kind"] == "Kustomization"}


def walk(value, path=()):
    """(path, value) of all that is in it, keys and numbers of lists."""
    yield path, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from walk(inner, (*path, key))


def at(value, path):
    for key in path:
        value = value[key]
    return value


class Manifests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.overlays = rendered()

    def objects(self, *kinds):
        for name, objects in self.overlays.items():
            for o in objects:
                if not kinds or o["kind"] in kinds:
                    yield f"{name}: {o['kind']} {o['metadata']['name']}", o, objects

    def test_every_field_is_one_of_the_api(self):
        for where, o, _ in self.objects():
            self.assertEqual(kubernetes_fields.problems_of(o), [], where)

    def test_what_is_wrong_is_found(self):
        """Each field of the cluster, once under another name and once with a value of another type."""
        tried = 0
        for _, o, _ in self.objects():
            for path, value in walk(o):
                if not path or isinstance(path[-1], int) or set(path[-2:]) & MAPS:
                    continue
                for change in ("key", "type"):
                    bad = copy.deepcopy(o)
                    parent = at(bad, path[:-1])
                    old = parent.pop(path[-1])
                    if change == "key":
                        parent[path[-1] + "x"] = old
                    else:
                        parent[path[-1]] = [[]] if not isinstance(old, list) else "x"
                    self.assertTrue(kubernetes_fields.problems_of(bad), f"{o['kind']} {path} {change}")
                    tried += 1
        self.assertGreater(tried, 1000)

    def test_an_object_is_there_once(self):
        for name, objects in self.overlays.items():
            names = [(o["kind"], o["metadata"]["name"]) for o in objects]
            self.assertEqual(len(names), len(set(names)), name)
            spaces = {o["metadata"].get("namespace") for o in objects if o["kind"] != "Namespace"}
            self.assertEqual(len(spaces), 1, name)

    def test_what_is_named_is_there(self):
        for where, o, objects in self.objects(*KINDS_WITH_PODS):
            beside = objects if "jobs/" not in where else objects + self.overlays["overlays/dev"]
            there = {(other["kind"], other["metadata"]["name"]) for other in beside}
            pod = pod_of(o)
            self.assertIn(("ServiceAccount", pod["serviceAccountName"]), there, where)
            for _, value in walk(pod):
                if isinstance(value, dict):
                    for key, kind in (("configMapRef", "ConfigMap"), ("configMap", "ConfigMap"), ("configMapKeyRef", "ConfigMap")):
                        if key in value:
                            self.assertIn((kind, value[key]["name"]), there, where)
                    if "secretName" in value:
                        self.assertIn(value["secretName"], SECRETS, where)
            names = [v["name"] for v in pod.get("volumes", [])]
            self.assertEqual(len(names), len(set(names)), where)

    def test_files_are_those_of_their_secrets(self):
        """A setting that names a file in a Secret names one that is in it."""
        for where, o, objects in self.objects(*KINDS_WITH_PODS):
            pod, container = pod_of(o), pod_of(o)["containers"][0]
            mounts = {m["mountPath"]: m["name"] for m in container.get("volumeMounts", [])}
            secrets = {v["name"]: v["secret"]["secretName"] for v in pod.get("volumes", []) if "secret" in v}
            values = [e.get("value") or "" for e in container.get("env", [])]
            for source in container.get("envFrom", []):
                values += next(c for c in objects if (c["kind"], c["metadata"]["name"]) ==
                               ("ConfigMap", source["configMapRef"]["name"]))["data"].values()
            for directory, file in (os.path.split(value) for value in values if value.startswith("/")):
                if mounts.get(directory) in secrets:
                    self.assertIn(file, SECRETS[secrets[mounts[directory]]], where)

    def test_secrets_are_those_of_the_page(self):
        page = read(SOURCE, "docs", "deployment.md")
        for name, files in SECRETS.items():
            self.assertIn(name, page)
            line = re.search(rf"create secret generic {name} (.*)", page)
            for file in files if line else ():
                self.assertRegex(line.group(1), rf"--from-file=({re.escape(file)}\b|{re.escape(file)}=)", name)
        for where, o, _ in self.objects("PodMonitor"):
            for _, value in walk(o):
                if isinstance(value, dict) and set(value) == {"name", "key"}:
                    self.assertIn(value["key"], SECRETS[value["name"]], where)

    def test_ports_are_those_of_containers(self):
        """Of probes, of Services, of what Prometheus scrapes, and of the network policies within the cluster."""
        for where, o, _ in self.objects("StatefulSet", "Deployment"):
            container = pod_of(o)["containers"][0]
            ports = {port["name"] for port in container["ports"]}
            for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
                self.assertIn(container[kind]["httpGet"]["port"], ports, where)
        pods = [pod_of(o) for _, o, _ in self.objects("StatefulSet", "Deployment")]
        named = {port["name"] for pod in pods for port in pod["containers"][0]["ports"]}
        for where, o, _ in self.objects("PodMonitor"):
            for endpoint in o["spec"]["podMetricsEndpoints"]:
                self.assertIn(endpoint["port"], named, where)
        for where, o, objects in self.objects("Service"):
            found = [c for c in objects if c["kind"] in ("StatefulSet", "Deployment") and selects(
                {"matchLabels": o["spec"]["selector"]}, c["spec"]["template"]["metadata"]["labels"])]
            self.assertEqual(len(found), 1, where)
            ports = {port["name"] for port in pod_of(found[0])["containers"][0]["ports"]}
            for port in o["spec"]["ports"]:
                self.assertIn(port["targetPort"], ports, where)

    def test_selectors_are_of_the_labels(self):
        for where, o, objects in self.objects("StatefulSet", "Deployment"):
            labels = o["spec"]["template"]["metadata"]["labels"]
            self.assertTrue(selects(o["spec"]["selector"], labels), where)
            for constraint in pod_of(o).get("topologySpreadConstraints", []):
                self.assertTrue(selects(constraint["labelSelector"], labels), where)
        for where, o, objects in self.objects("PodDisruptionBudget", "NetworkPolicy"):
            selector = o["spec"]["selector" if o["kind"] == "PodDisruptionBudget" else "podSelector"]
            self.assertTrue([p for p in objects if p["kind"] in KINDS_WITH_PODS and
                             selects(selector, p["spec"]["template"]["metadata"]["labels"])], where)

    def test_containers_have_their_share(self):
        """Memory and processors that are asked for, a limit of memory, and none of processors."""
        for where, o, _ in self.objects(*KINDS_WITH_PODS):
            for container in pod_of(o)["containers"]:
                resources = container["resources"]
                self.assertEqual(set(resources["requests"]), {"cpu", "memory"}, where)
                self.assertEqual(set(resources["limits"]), {"memory"}, where)

    def test_pods_keep_to_the_restricted_standard(self):
        """https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted"""
        for where, o, _ in self.objects(*KINDS_WITH_PODS):
            pod = pod_of(o)
            self.assertTrue(pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] > 0, where)
            self.assertEqual(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault", where)
            for container in pod["containers"]:
                context = container["securityContext"]
                self.assertIs(context["allowPrivilegeEscalation"], False, where)
                self.assertEqual(context["capabilities"], {"drop": ["ALL"]}, where)
        for _, o, _ in self.objects("Namespace"):
            self.assertEqual(o["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], "restricted")

    def test_rules_of_failure_are_of_containers(self):
        for where, o, _ in self.objects("Job"):
            names = {c["name"] for c in pod_of(o)["containers"]}
            for rule in o["spec"].get("podFailurePolicy", {}).get("rules", []):
                if "onExitCodes" in rule:
                    self.assertIn(rule["onExitCodes"]["containerName"], names, where)

    def test_components_fit_every_cluster(self):
        """Each component on top of each overlay to which it is new gives objects of the API, once each."""
        for path in glob.glob(ROOT + "/components/*"):
            for base in ("overlays/dev", "overlays/production"):
                name = os.path.basename(path)
                if (name, base) in (("tls", "overlays/production"), ("tokens", "overlays/dev")):
                    continue  # it is there already; tokens are beside certificates
                for o in kustomized.render(path, copy.deepcopy(self.overlays[base])):
                    self.assertEqual(kubernetes_fields.problems_of(o), [], f"{name} on {base}")

    def test_a_renderer_of_kubernetes_says_the_same(self):
        if RENDERER is None:
            self.skipTest("there is no kubectl of 1.27 or later, and no kustomize 5")
        for name, objects in self.overlays.items():
            def by_name(some):
                return {(o["kind"], o["metadata"]["name"]): o for o in some}
            self.assertEqual(by_name(objects), by_name(render(os.path.join(ROOT, name))), name)


def merged(into, file):
    """As docker-compose -f A -f B: maps grow together, volumes and ports are added, everything else is replaced."""
    for key, value in file.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            merged(into[key], value)
        elif key in ("volumes", "ports") and key in into:
            into[key] = into[key] + value
        elif not key.startswith("x-"):
            into[key] = copy.deepcopy(value)
    return into


class Compose(unittest.TestCase):
    def setUp(self):
        self.file = yaml.safe_load(read(SOURCE, "deploy", "compose.yaml"))
        self.services = self.file["services"]

    def flags(self, service):
        return dict(word.removeprefix("--").split("=", 1) for word in self.services[service]["command"] if "=" in word)

    def test_every_field_is_one_of_compose(self):
        self.assertEqual(compose_fields.problems_of(self.file), [])
        for path, value in walk(self.services):
            if path and not isinstance(path[-1], int) and "environment" not in path and len(path) > 1:
                bad = copy.deepcopy(self.file)
                parent = at(bad["services"], path[:-1])
                parent[path[-1]] = [[]] if not isinstance(value, list) else 7
                self.assertTrue(compose_fields.problems_of(bad), path)

    def test_what_is_named_is_there(self):
        for name, service in self.services.items():
            self.assertLessEqual(set(service.get("depends_on", {})), set(self.services), name)
            self.assertLessEqual(set(service.get("networks", [])), set(self.file["networks"]), name)
            for volume in service.get("volumes", []):
                self.assertIn(volume.partition(":")[0], self.file["volumes"], name)
            other = service.get("network_mode", "none").partition(":")[2]
            self.assertTrue(not other or other in self.services, name)
            self.assertFalse("networks" in service and "network_mode" in service, name)
        used = {v.partition(":")[0] for s in self.services.values() for v in s.get("volumes", [])}
        self.assertEqual(used, set(self.file["volumes"]))

    def test_who_waits_for_the_end_of_a_service_waits_for_one_that_ends(self):
        for name, service in self.services.items():
            for other, how in service.get("depends_on", {}).items():
                ends = "restart" not in self.services[other]
                self.assertEqual(how["condition"] == "service_completed_successfully", ends, name)

    def test_programs_take_their_flags(self):
        for name, service in self.services.items():
            words = [word for word in service["command"] if "$" not in word]
            if words[0].startswith("gradus-"):
                done = subprocess.run([os.path.join(BIN, words[0]), *words[1:], "--print-config"], capture_output=True, text=True,
                                      timeout=120, env={"PATH": "/usr/bin", **service["environment"]})
                self.assertEqual((done.returncode, done.stderr), (0, ""), name)


class ComposeMasters(Compose):
    """Both files as one."""

    def setUp(self):
        super().setUp()
        file = yaml.safe_load(read(SOURCE, "deploy", "compose-masters.yaml"))
        self.assertEqual([key for key in file if key.startswith("x-")], [])
        merged(self.file, file)

    def test_nodes_know_all_masters(self):
        masters = [name for name, service in self.services.items() if service["command"][0] == "gradus-master"]
        self.assertEqual(len(masters), 2)
        for name in masters:
            self.assertEqual(self.flags(name)["advertise"], name + ":7000")
            # One that stands by is well: /healthz says no of it.
            self.assertEqual(self.services[name]["healthcheck"]["test"][-1], "127.0.0.1:8080/startupz")
            self.assertIn("master", self.services["ps"]["depends_on"])
        for name in ("ps", "worker"):
            self.assertEqual(self.flags(name)["master"].split(","), [master + ":7000" for master in masters])

    def test_masters_share_what_they_know(self):
        masters = [self.services[name] for name in ("master", "master-2")]
        self.assertEqual(masters[0]["environment"], masters[1]["environment"])
        for key in ("init", "restart", "stop_grace_period", "networks", "depends_on"):
            self.assertEqual(masters[0][key], masters[1][key])
        stores = {self.flags(name)["store"] for name in ("master", "master-2")}
        self.assertEqual(len(stores), 1)
        etcd = self.services["etcd"]
        address = re.match(r"etcd://([^/,]+)/", stores.pop()).group(1)
        self.assertEqual(self.flags("etcd")["advertise-client-urls"], "http://" + address)
        self.assertEqual(set(etcd["networks"]) & {"cluster"}, set())  # without TLS: only the masters see it
        self.assertEqual([name for name, s in self.services.items() if set(etcd["networks"]) & set(s.get("networks", []))],
                         ["master", "etcd", "master-2"])
        for master in masters:
            self.assertIn("checkpoints:/var/lib/gradus/state/checkpoints", master["volumes"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
