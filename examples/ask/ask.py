# SPDX-License-Identifier: Apache-2.0
"""Asks gradus-serve about the first images of an IDX file. Debian: python3-grpcio, python3-protobuf.

    protoc -Iproto --python_out=examples/ask inference/open_inference.proto
    python3 examples/ask/ask.py ADDRESS MODEL IMAGES [COUNT]"""

import gzip
import struct
import sys

import grpc
from inference import open_inference_pb2 as protocol

address, model, images = sys.argv[1:4]
count = int(sys.argv[4]) if len(sys.argv) > 4 else 5

with gzip.open(images) as f:
    _, _, rows, columns = struct.unpack(">4I", f.read(16))
    pixels = f.read(count * rows * columns)

request = protocol.ModelInferRequest(model_name=model)
request.inputs.add(name="features", datatype="FP32", shape=[count, rows, columns])
request.raw_input_contents.append(struct.pack(f"<{len(pixels)}f", *pixels))

with grpc.insecure_channel(address) as channel:
    infer = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer",
                                request_serializer=protocol.ModelInferRequest.SerializeToString,
                                response_deserializer=protocol.ModelInferResponse.FromString)
    answer = infer(request, timeout=10)

classes = answer.outputs[0].shape[1]
probabilities = struct.unpack(f"<{count * classes}f", answer.raw_output_contents[0])
for i in range(count):
    row = probabilities[i * classes:(i + 1) * classes]
    print(f"image {i}: {row.index(max(row))} with probability {max(row):.3f} (version {answer.model_version})")
