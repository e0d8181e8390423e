# SPDX-License-Identifier: Apache-2.0
"""Message classes from a FileDescriptorSet, for tests that talk gRPC from Python."""

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory


class Protos:
    """Protos("a.ds", "b.ds")["package.Message"] is the class of that message."""

    def __init__(self, *paths):
        self.pool = descriptor_pool.DescriptorPool()
        self.files = {}
        for path in paths:
            files = descriptor_pb2.FileDescriptorSet()
            with open(path, "rb") as f:
                files.ParseFromString(f.read())
            for proto in files.file:
                if proto.name not in self.files:
                    self.files[proto.name] = proto
                    self.pool.Add(proto)
        self.factory = message_factory.MessageFactory(self.pool)

    def __getitem__(self, name):
        return self.factory.GetPrototype(self.pool.FindMessageTypeByName(name))
