# SPDX-License-Identifier: Apache-2.0
"""The manifests of deploy/kubernetes without a cluster: they are rendered, and what is in them agrees with the
programs, the image and each other. script/test-kubernetes applies them to a real one."""

import glob
import os
import re
import shutil
import subprocess
import unittest

import kustomized
import yaml

SOURCE = os.environ["GRADUS_SOURCE_DIR"]
BIN = os.environ["GRADUS_BIN_DIR"]
ROOT = os.path.join(SOURCE, "deploy", "kubernetes")
KINDS_WITH_PODS = ("StatefulSet", "Deployment", "Job")
# A service ends within 2 × grace-ms and this (SERVICE_STOP_MS).
STOP_S = 10
DRAIN_S = 10  # a server: --drain-timeout-ms


class Loader(yaml.SafeLoader):
    """Refuses a key that is there twice, which YAML takes in silence."""


def mapping(loader, node):
    keys = [key.value for key, _ in node.value]
    for key in keys:
        if keys.count(key) > 1:
            raise yaml.constructor.ConstructorError(None, None, f"{key} is there twice", node.start_mark)
    return loader.construct_mapping(node, deep=True)


Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)


def read(*path):
    with open(os.path.join(*path)) as f:
        return f.read()


def load(text):
    return [document for document in yaml.load_all(text, Loader) if document]


def directories():
    return sorted(os.path.dirname(path) for path in glob.glob(ROOT + "/**/kustomization.yaml", recursive=True))


def renderer():
    """What renders a kustomization of today; kubectl had a kustomize of 2019 up to 1.20."""
    for command, version in ((["kubectl", "kustomize"], ["kubectl", "version", "--client"]),
                             (["kustomize", "build"], ["kustomize", "version"])):
        if shutil.which(command[0]):
            done = subprocess.run(version, capture_output=True, text=True, timeout=120)
            if re.search(r"(Kustomize Version: |^)v[5-9]\.", done.stdout, re.M):
                return command
    return None


RENDERER = renderer()


def render(directory):
    """By kubectl or kustomize, where there is one of today."""
    if RENDERER is None:
        return kustomized.render(directory)
    done = subprocess.run([*RENDERER, directory], capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise AssertionError(f"{directory}: {done.stderr}")
    return load(done.stdout)


HELP = {}


def help_of(program, command=None):
    words = [program] + ([command] if command else [])
    if tuple(words) not in HELP:
        HELP[tuple(words)] = subprocess.run([os.path.join(BIN, words[0]), *words[1:], "--help"], capture_output=True,
                                            text=True, timeout=120, check=True).stdout
    return HELP[tuple(words)]


def knows_flag(text, flag):
    name = re.escape(flag.removeprefix("--"))
    return re.search(rf"^ +(-\w, )?--(\[no-\])?{name}( |=|$)", text, re.M)


def pod_of(document):
    return document["spec"]["template"]["spec"]


def seconds(text):
    number, unit = re.fullmatch(r"([0-9]+)(ms|s|m)", text).groups()
    return int(number) * {"ms": 0.001, "s": 1, "m": 60}[unit]


def port_of(address):
    return int(address.rpartition(":")[2])


def size(text):
    number, unit = re.fullmatch(r"([0-9]+)(Mi|Gi)", text).groups()
    return int(number) * {"Mi": 1, "Gi": 1024}[unit]


def selects(selector, labels):
    wanted = selector.get("matchLabels", {})
    return (all(labels.get(key) == value for key, value in wanted.items()) and
            all(labels.get(e["key"]) in e["values"] for e in selector.get("matchExpressions", [])))


class Files(unittest.TestCase):
    def test_every_file_parses_and_is_used(self):
        for directory in directories():
            kustomization = load(read(directory, "kustomization.yaml"))[0]
            named = {os.path.normpath(os.path.join(directory, name)) for name in kustomization.get("resources", [])}
            for generator in kustomization.get("configMapGenerator", []):
                named |= {os.path.join(directory, name) for name in generator["files"]}
            for path in glob.glob(directory + "/*"):
                if os.path.isfile(path):
                    self.assertTrue(load(read(path)), path)
                    self.assertTrue(path in named or path.endswith("/kustomization.yaml"), f"{path} is in no overlay")
            self.assertEqual([path for path in named if not os.path.exists(path)], [])

    def test_metrics_of_the_rules_exist(self):
        sources = "".join(read(path) for path in glob.glob(SOURCE + "/services/**/*.c", recursive=True) +
                          glob.glob(SOURCE + "/common/**/*.c", recursive=True))
        rules = read(ROOT, "overlays", "monitoring", "rules.yaml")
        names = set(re.findall(r"gradus_([a-z_]+)", rules))
        self.assertTrue(names)
        self.assertEqual([name for name in names if f'"{name}"' not in sources], [])


class Rendered(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.overlays = {os.path.relpath(d, ROOT): render(d) for d in directories()
                        if load(read(d, "kustomization.yaml"))[0]["kind"] == "Kustomization"}

    def clusters(self):
        """(overlay, its objects) where there is a cluster in it."""
        return [(name, objects) for name, objects in self.overlays.items()
                if any(o["kind"] == "StatefulSet" for o in objects)]

    def workloads(self):
        """(where, object, its objects with those of the cluster that it runs beside)."""
        for name, objects in self.overlays.items():
            beside = objects if name.startswith(("base", "overlays")) else objects + self.overlays["overlays/dev"]
            for o in objects:
                if o["kind"] in KINDS_WITH_PODS:
                    yield f"{name}: {o['kind']} {o['metadata']['name']}", o, beside

    def containers(self):
        for where, o, beside in self.workloads():
            for container in pod_of(o)["containers"]:
                yield where, o, container, beside

    def by_name(self, objects, kind):
        return {o["metadata"]["name"]: o for o in objects if o["kind"] == kind}

    def settings(self, container, objects):
        """The environment of a container as far as it is written down."""
        values = {}
        for source in container.get("envFrom", []):
            values.update(self.by_name(objects, "ConfigMap")[source["configMapRef"]["name"]]["data"])
        values.update({e["name"]: e.get("value") for e in container.get("env", [])})
        return values

    def test_all_that_is_needed_is_there(self):
        for name in ("base", "overlays/dev", "overlays/production"):
            kinds = {(o["kind"], o["metadata"]["name"]) for o in self.overlays[name]}
            for kind, of in (("StatefulSet", "gradus-master"), ("StatefulSet", "gradus-ps"),
                             ("Deployment", "gradus-worker"), ("Service", "gradus-master"), ("Service", "gradus-ps"),
                             ("ServiceAccount", "gradus"), ("PodDisruptionBudget", "gradus-ps")):
                self.assertIn((kind, of), kinds, name)

    def test_programs_and_flags_exist(self):
        for where, _, container, _ in self.containers():
            words = container["command"] + container.get("args", [])
            command = words[1] if words[0] == "gradus" else None
            text = help_of(words[0], command)
            for word in words[1:]:
                if word.startswith("--"):
                    self.assertTrue(knows_flag(text, word.split("=")[0]), f"{where}: {words[0]} has no {word}")

    def test_settings_exist(self):
        all_help = "".join(help_of(f"gradus-{kind}") for kind in ("master", "ps", "worker", "serve"))
        for where, _, container, objects in self.containers():
            for name in self.settings(container, objects):
                if name.startswith("GRADUS_"):
                    self.assertRegex(all_help, rf"\b{name}\b", where)

    def test_services_take_the_settings(self):
        """The programs read what the pods are given."""
        for where, o, container, objects in self.containers():
            if o["kind"] == "Job":
                continue
            settings = {k: v for k, v in self.settings(container, objects).items() if v is not None}
            words = [w.replace("$(POD_NAME)", "pod-0") for w in container["command"]]
            done = subprocess.run([os.path.join(BIN, words[0]), *words[1:], "--print-config"], capture_output=True,
                                  text=True, timeout=120, env={"PATH": "/usr/bin", **settings})
            self.assertEqual((done.returncode, done.stderr), (0, ""), where)

    def test_ports_agree(self):
        paths = set(re.findall(r'^    \{"(/[a-z]+)"', read(SOURCE, "common/service/service_health.c"), re.M))
        for where, o, container, objects in self.containers():
            if o["kind"] == "Job":
                continue
            settings = self.settings(container, objects)
            ports = {port["name"]: port["containerPort"] for port in container["ports"]}
            self.assertEqual(ports, {"grpc": port_of(settings["GRADUS_LISTEN"]),
                                     "http": port_of(settings["GRADUS_HTTP_LISTEN"])}, where)
            # A master that stands by is well, but not ready to be worked with.
            stands_by = container["name"] == "master" and "GRADUS_STORE" in settings
            for kind, path in (("startup", "/startupz"), ("liveness", "/livez"),
                               ("readiness", "/startupz" if stands_by else "/readyz")):
                get = container[kind + "Probe"]["httpGet"]
                self.assertEqual((get["path"], get["port"]), (path, "http"), where)
                scheme = "HTTPS" if settings.get("GRADUS_TLS_CERT") else "HTTP"
                self.assertEqual(get.get("scheme", "HTTP"), scheme, where)
                self.assertIn(path, paths)

    def test_services_find_their_pods(self):
        for name, objects in self.clusters():
            pods = [o["spec"]["template"] for o in objects if o["kind"] in KINDS_WITH_PODS]
            for service in self.by_name(objects, "Service").values():
                found = [p for p in pods if selects({"matchLabels": service["spec"]["selector"]}, p["metadata"]["labels"])]
                self.assertEqual(len(found), 1, f"{name}: {service['metadata']['name']}")
                names = {p["name"]: p["containerPort"] for p in found[0]["spec"]["containers"][0]["ports"]}
                for port in service["spec"]["ports"]:
                    self.assertEqual(names[port["targetPort"]], port["port"])
                # A node that is not ready yet has to be found: it is opened shards on before anybody else asks.
                if service["metadata"]["name"] != "gradus-serve":  # clients choose among those that are ready
                    self.assertTrue(service["spec"]["publishNotReadyAddresses"])
            for o in objects:
                if o["kind"] in KINDS_WITH_PODS:
                    self.assertTrue(selects(o["spec"]["selector"], o["spec"]["template"]["metadata"]["labels"]))
                if o["kind"] in ("PodDisruptionBudget", "NetworkPolicy"):
                    key = "selector" if o["kind"] == "PodDisruptionBudget" else "podSelector"
                    self.assertTrue([p for p in pods if selects(o["spec"][key], p["metadata"]["labels"])],
                                    f"{name}: {o['metadata']['name']} is of no pod")
                if o["kind"] == "NetworkPolicy":
                    for rule in o["spec"].get("ingress", []):
                        for port in rule["ports"]:
                            self.assertIn(port["port"], (7000, 8080))

    def test_names_lead_to_services(self):
        for where, o, container, objects in self.containers():
            services = self.by_name(objects, "Service")
            settings = self.settings(container, objects)
            if "GRADUS_MASTER" in settings:
                for address in settings["GRADUS_MASTER"].split(","):
                    host, _, port = address.partition(":")
                    pod, _, service = host.rpartition(".")
                    self.assertIn(int(port), [p["port"] for p in services[service]["spec"]["ports"]], where)
                    if pod:  # of a headless Service
                        name, _, number = pod.rpartition("-")
                        spec = self.by_name(objects, "StatefulSet")[name]["spec"]
                        self.assertEqual(spec["serviceName"], service, where)
                        self.assertLess(int(number), spec["replicas"], where)
                        self.assertEqual(services[service]["spec"]["clusterIP"], "None", where)
            for word in container["command"]:
                if word.startswith("--advertise="):
                    self.assertIn(re.sub(r":\d+$", "", word.partition("=")[2]).split(".")[-1], services, where)
            if o["kind"] == "StatefulSet":
                self.assertIn(o["spec"]["serviceName"], services, where)

    def test_volumes_agree(self):
        for where, o, container, objects in self.containers():
            pod = pod_of(o)
            volumes = {v["name"] for v in pod.get("volumes", [])}
            volumes |= {c["metadata"]["name"] for c in o["spec"].get("volumeClaimTemplates", [])}
            mounts = {m["name"]: m["mountPath"] for m in container["volumeMounts"]}
            self.assertEqual(set(mounts), volumes, where)
            for v in pod.get("volumes", []):
                if "persistentVolumeClaim" in v:
                    self.assertIn(v["persistentVolumeClaim"]["claimName"],
                                  self.by_name(objects, "PersistentVolumeClaim"), where)
                if "configMap" in v:
                    self.assertIn(v["configMap"]["name"], self.by_name(objects, "ConfigMap"), where)
            # The root is read only: what is written goes to a volume, and the files that are read come from one.
            for word in container["command"]:
                path = word.partition("=")[2] or word
                if path.startswith("/"):
                    self.assertTrue([m for m in mounts.values() if path == m or path.startswith(m + "/")],
                                    f"{where}: {word} is in no volume")

    def test_dev_is_plain_and_production_has_tls(self):
        """Each says which, in settings that all services have; a program that is told neither does not listen."""
        for name, o, container, objects in self.containers():
            settings = self.settings(container, objects)
            tls = {key: settings.get(f"GRADUS_TLS_{key}") for key in ("CERT", "KEY", "CA", "NAME")}
            if name.startswith(("overlays/production", "jobs/digits-tls")):
                self.assertNotIn("GRADUS_INSECURE", settings, name)
                mounts = {m["name"]: m["mountPath"] for m in container["volumeMounts"]}
                self.assertEqual({os.path.dirname(tls[key]) for key in ("CERT", "KEY", "CA")}, {mounts["tls"]}, name)
                self.assertEqual(tls["NAME"], "node.gradus", name)
                secret = next(v["secret"] for v in pod_of(o)["volumes"] if v["name"] == "tls")
                self.assertEqual(secret["secretName"], "gradus-client" if o["kind"] == "Job" else "gradus-node", name)
                self.assertEqual(pod_of(o)["securityContext"]["fsGroup"], 10001, name)  # who may read the key
            elif o["kind"] != "Job" and name.startswith("overlays/dev"):
                self.assertEqual((settings["GRADUS_INSECURE"], tls["CERT"]), ("true", None), name)

    def test_metrics_are_asked_for_as_they_are_served(self):
        for name, scheme in (("monitoring", "http"), ("monitoring-tls", "https")):
            monitor = self.by_name(self.overlays["overlays/" + name], "PodMonitor")["gradus"]
            endpoint = monitor["spec"]["podMetricsEndpoints"][0]
            self.assertEqual(endpoint.get("scheme", "http"), scheme)
            if scheme == "https":
                tls = endpoint["tlsConfig"]
                self.assertEqual({tls["ca"]["secret"]["name"], tls["cert"]["secret"]["name"], tls["keySecret"]["name"]},
                                 {"gradus-client"})
                self.assertEqual(tls["serverName"], "node.gradus")
        monitor = self.by_name(self.overlays["overlays/monitoring-tokens"], "PodMonitor")["gradus"]
        endpoint = monitor["spec"]["podMetricsEndpoints"][0]
        self.assertEqual(endpoint["scheme"], "https")
        self.assertNotIn("cert", endpoint["tlsConfig"])
        self.assertEqual(endpoint["authorization"],
                         {"type": "Bearer", "credentials": {"name": "gradus-monitoring", "key": "token"}})

    def test_tokens_come_from_a_secret(self):
        """Every service takes them, and asks nobody for a certificate who has one; elsewhere there are none."""
        seen = 0
        for name, o, container, objects in self.containers():
            settings = self.settings(container, objects)
            if not name.startswith("overlays/production-tokens"):
                self.assertNotIn("GRADUS_TOKENS", settings, name)
                continue
            seen += 1
            mounts = {m["name"]: m["mountPath"] for m in container["volumeMounts"]}
            secret = next(v["secret"] for v in pod_of(o)["volumes"] if v["name"] == "tokens")
            self.assertEqual(secret["secretName"], "gradus-tokens", name)
            self.assertEqual((settings["GRADUS_TOKENS"], settings["GRADUS_TLS_CLIENT"]),
                             (mounts["tokens"] + "/tokens", "optional"), name)
        self.assertEqual(seen, 3)

    def test_one_place_of_checkpoints(self):
        """A volume that master and servers mount at the same path, or an object store, with credentials and a way to it."""
        for name, objects in self.clusters():
            places = set()
            for kind in ("gradus-master", "gradus-ps"):
                o = self.by_name(objects, "StatefulSet")[kind]
                container = pod_of(o)["containers"][0]
                settings = self.settings(container, objects)
                path = settings["GRADUS_CHECKPOINT_DIR"]
                mounts = {m["mountPath"]: m["name"] for m in container["volumeMounts"]}
                volumes = {v["name"]: v for v in pod_of(o)["volumes"]}
                if path.startswith("s3://"):
                    self.assertTrue(name.endswith("-store"), name)
                    credentials = os.path.dirname(settings["AWS_SHARED_CREDENTIALS_FILE"])
                    places.add((path, volumes[mounts[credentials]]["secret"]["secretName"]))
                    self.assertIn("gradus-to-store", self.by_name(objects, "NetworkPolicy"))
                    self.assertNotIn("gradus-checkpoints", self.by_name(objects, "PersistentVolumeClaim"))
                else:
                    places.add((path, volumes[mounts[path]]["persistentVolumeClaim"]["claimName"]))
            self.assertEqual(len(places), 1, name)

    def test_nobody_has_a_right_too_many(self):
        uid = int(re.search(r"useradd .*--uid (\d+)", read(SOURCE, "docker", "Dockerfile")).group(1))
        for where, o, container, _ in self.containers():
            pod = pod_of(o)
            self.assertIs(pod["automountServiceAccountToken"], False, where)
            self.assertIs(pod["enableServiceLinks"], False, where)
            context = pod["securityContext"]
            self.assertEqual((context["runAsNonRoot"], context["runAsUser"], context["runAsGroup"],
                              context["seccompProfile"]), (True, uid, uid, {"type": "RuntimeDefault"}), where)
            self.assertEqual(container["securityContext"], {"allowPrivilegeEscalation": False,
                             "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}, where)
            resources = container["resources"]
            self.assertLessEqual(size(resources["requests"]["memory"]), size(resources["limits"]["memory"]), where)

    def test_pods_are_given_the_time_to_end(self):
        for where, o, container, objects in self.containers():
            if o["kind"] != "Job":
                grace = seconds(self.settings(container, objects)["GRADUS_GRACE_MS"])
                self.assertGreater(pod_of(o)["terminationGracePeriodSeconds"], 2 * grace + STOP_S + DRAIN_S, where)

    def test_servers_are_replaced_one_after_another(self):
        """A rolling update takes the next server when the one before is ready, whatever minReadySeconds says (Parallel)."""
        for name, objects in self.clusters():
            servers = self.by_name(objects, "StatefulSet")["gradus-ps"]
            self.assertEqual(servers["spec"]["podManagementPolicy"], "Parallel", name)
            self.assertNotIn("minReadySeconds", servers["spec"], name)
            probe = pod_of(servers)["containers"][0]["readinessProbe"]
            self.assertGreaterEqual((probe["successThreshold"] - 1) * probe["periodSeconds"], 9, name)

    def test_several_masters(self):
        """Each has an address of its own, which all others know, and no volume; what they know is in one etcd."""
        seen = 0
        for name, objects in self.clusters():
            master = self.by_name(objects, "StatefulSet")["gradus-master"]
            container = pod_of(master)["containers"][0]
            settings = self.settings(container, objects)
            if "GRADUS_STORE" not in settings:
                self.assertEqual(master["spec"]["replicas"], 1, name)
                self.assertNotIn("podManagementPolicy", master["spec"], name)
                continue
            seen += 1
            service = master["spec"]["serviceName"]
            self.assertEqual(master["spec"]["podManagementPolicy"], "Parallel", name)
            self.assertNotIn("volumeClaimTemplates", master["spec"], name)
            self.assertIn(f"--advertise=$(POD_NAME).{service}:7000", container["command"], name)
            self.assertIn("POD_NAME", [e["name"] for e in container["env"]], name)
            self.assertEqual(settings["GRADUS_MASTER"].split(","), [f"gradus-master-{i}.{service}:7000"
                                                                    for i in range(master["spec"]["replicas"])], name)
            secret = next(v["secret"]["secretName"] for v in pod_of(master)["volumes"] if v["name"] == "etcd")
            self.assertEqual(secret, "gradus-etcd", name)
            mounts = {m["name"]: m["mountPath"] for m in container["volumeMounts"]}
            for key in ("TLS_CA", "TLS_CERT", "TLS_KEY", "CREDENTIALS"):
                self.assertEqual(os.path.dirname(settings["GRADUS_STORE_" + key]), mounts["etcd"], name)
            members = re.match(r"etcd://(.*)/gradus$", settings["GRADUS_STORE"]).group(1).split(",")
            policy = self.by_name(objects, "NetworkPolicy")["gradus-to-etcd"]["spec"]
            self.assertTrue(selects(policy["podSelector"], master["spec"]["template"]["metadata"]["labels"]), name)
            self.assertEqual({port_of(member) for member in members}, {policy["egress"][0]["ports"][0]["port"]}, name)
        self.assertEqual(seen, 1)

    def test_answers_come_from_the_checkpoints_of_the_servers(self):
        objects = self.overlays["overlays/dev-serve"]
        serve = pod_of(self.by_name(objects, "Deployment")["gradus-serve"])
        servers = pod_of(self.by_name(objects, "StatefulSet")["gradus-ps"])
        places = [next(v["persistentVolumeClaim"]["claimName"] for v in pod["volumes"] if v["name"] == "checkpoints")
                  for pod in (serve, servers)]
        self.assertEqual(places[0], places[1])
        mounts = {m["mountPath"] for m in serve["containers"][0]["volumeMounts"] if m.get("readOnly")}
        settings = self.settings(serve["containers"][0], objects)
        self.assertLessEqual({settings["GRADUS_CHECKPOINT_DIR"], settings["GRADUS_DATA_ROOT"]}, mounts)

    def test_one_image(self):
        compose = re.search(r"^  image: (\S+)", read(SOURCE, "deploy", "compose.yaml"), re.M).group(1)
        for where, _, container, _ in self.containers():
            self.assertEqual(container["image"].partition(":")[0], compose, where)

    def test_the_autoscaler_has_the_number_of_workers(self):
        objects = self.overlays["overlays/production"]
        scaler = self.by_name(objects, "HorizontalPodAutoscaler")["gradus-worker"]
        target = scaler["spec"]["scaleTargetRef"]
        workers = self.by_name(objects, target["kind"])[target["name"]]
        self.assertNotIn("replicas", workers["spec"])

    def test_the_job_is_one(self):
        job = load(read(ROOT, "jobs", "digits", "job.yaml"))[0]
        example = load(read(SOURCE, "examples", "digits.yaml"))[0]
        self.assertEqual((job["model"], job["update"]), (example["model"], example["update"]))
        submit = self.by_name(self.overlays["jobs/digits"], "Job")["digits"]
        self.assertEqual(submit["spec"]["template"]["spec"]["restartPolicy"], "Never")
        # Exit codes of gradus that are the end of the job; 4 (no master) and a killed pod are not.
        codes = submit["spec"]["podFailurePolicy"]["rules"][0]["onExitCodes"]
        self.assertEqual((codes["operator"], codes["values"]), ("In", [1, 2, 3, 5]))
        data = self.by_name(self.overlays["jobs/digits-data"], "Job")["digits-data"]
        self.assertIn("--out=" + job["data"]["dir"], pod_of(data)["containers"][0]["command"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
