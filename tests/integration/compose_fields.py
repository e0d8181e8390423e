# SPDX-License-Identifier: Apache-2.0
"""The fields of compose files that deploy/compose.yaml has, as far as it uses them, by the words of kubernetes_fields.py:
https://docs.docker.com/reference/compose-file/. A field that is not here is an error; who uses a new one adds it."""

from kubernetes_fields import COUNT, Map, TEXT, compare_dict, either, flag, text

NAME = text(r"[a-z][a-z0-9_-]*$")
DURATION = text(r"([0-9]+(us|ms|s|m|h))+$")
VALUE = either(TEXT, COUNT)


def words(value):
    """A command: a list of words, or one text."""
    if isinstance(value, list):
        return next((problem for problem in map(TEXT, value) if problem), None)
    return TEXT(value)


SERVICE = {
    "image!": TEXT, "build": {"context!": TEXT, "dockerfile": TEXT}, "init": flag, "command": words, "entrypoint": words,
    "restart": text(words=("no", "always", "on-failure", "unless-stopped")), "stop_grace_period": DURATION,
    "networks": [NAME], "network_mode": text(r"none$|host$|service:[a-z][a-z0-9_-]*$"), "profiles": [NAME],
    "environment": Map(VALUE), "volumes": [text(r"[a-z][a-z0-9_-]*:/[^:]*(:ro)?$")],
    "ports": [text(r"127\.0\.0\.1:[0-9]+:[0-9]+$")],  # published on this machine alone
    "healthcheck": {"disable": flag, "test": words, "interval": DURATION, "timeout": DURATION, "retries": COUNT,
                    "start_period": DURATION},
    "depends_on": Map({"condition!": text(words=("service_started", "service_healthy", "service_completed_successfully"))}),
    "deploy": {"replicas": COUNT}}
FILE = {"version": text(r"3\.[0-9]$"), "services!": Map(SERVICE), "networks": Map(lambda value: None),
        "volumes": Map(lambda value: None)}


def problems_of(document):
    return list(compare_dict({key: value for key, value in document.items() if not key.startswith("x-")}, FILE, "compose.yaml"))
