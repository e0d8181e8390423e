# SPDX-License-Identifier: Apache-2.0
"""Our client calls a server of Python's grpcio: test_rpc_python_server.py CLIENT ECHO.ds GRADUS.ds"""

import os
import subprocess
import sys
import threading
from concurrent import futures

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
from rpc_python import Protos  # noqa: E402

CLIENT, *SETS = sys.argv[1:]
PROTOS = Protos(*SETS)
Item = PROTOS["gradus.test.Item"]
TIMEOUT = 60


def unary(request, context):
    if request.text == "fail-detail":
        status = PROTOS["google.rpc.Status"](code=10, message="généré")
        pair = PROTOS["gradus.test.Pair"](key="generation", value=4)
        status.details.add(
            type_url="type.googleapis.com/gradus.test.Pair", value=pair.SerializeToString()
        )
        context.set_trailing_metadata(
            [("grpc-status-details-bin", status.SerializeToString())]
        )
        context.abort(grpc.StatusCode.ABORTED, "généré")
    if request.text == "hang":
        # Not the time that remains: on a busy machine the answer would come before the client's clock.
        over = threading.Event()
        if context.add_callback(over.set):
            over.wait(TIMEOUT)
        return Item()
    asked = dict(context.invocation_metadata()).get("x-ask")
    if asked:
        request.text += " " + asked
    return request


def count(request, context):
    for i in range(request.number):
        yield Item(number=i)


def total(requests, context):
    return Item(number=sum(r.number for r in requests))


def chat(requests, context):
    yield from requests


def handler(kind, function):
    make = getattr(grpc, kind + "_rpc_method_handler")
    return make(function, request_deserializer=Item.FromString,
                response_serializer=Item.SerializeToString)


def main():
    server = grpc.server(futures.ThreadPoolExecutor(4))
    methods = {
        "Unary": handler("unary_unary", unary),
        "Count": handler("unary_stream", count),
        "Sum": handler("stream_unary", total),
        "Chat": handler("stream_stream", chat),
    }
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler("gradus.test.Echo", methods)]
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        return subprocess.run([CLIENT, f"127.0.0.1:{port}"], timeout=TIMEOUT).returncode
    finally:
        server.stop(None)


sys.exit(main())
