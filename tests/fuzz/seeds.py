#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the first inputs of the fuzz targets, tests/fuzz/corpus/TARGET/NAME, anew.

They are in the repository; this is for whoever changes a format or adds one: what is packed, has a
length or a checksum is not written by hand. The same bytes every time. Needs protoc, and
the zstd program for the seeds that are packed with it.
"""

import base64
import gzip
import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CORPUS = os.path.join(HERE, "corpus")


# Of a CA and a node; made once with openssl, valid for a hundred years, used nowhere.
CA_PEM = b"""-----BEGIN CERTIFICATE-----
MIIBPTCB8KADAgECAhQunVpkhFIOhVH8KFiFEUdp1rrOjTAFBgMrZXAwDTELMAkG
A1UEAwwCQ0EwIBcNMjYxMTIzMjExMDQxWhgPMjEyNjEwMzAyMTEwNDFaMA0xCzAJ
BgNVBAMMAkNBMCowBQYDK2VwAyEAfoGS17dH8SkFEslUkEOJ67/e4ctzal4E9PJx
Y6O0iJKjYDBeMB0GA1UdDgQWBBS9wrOPBo6MNG3FW0Us8nBJLj0oFzAfBgNVHSME
GDAWgBS9wrOPBo6MNG3FW0Us8nBJLj0oFzAPBgNVHRMBAf8EBTADAQH/MAsGA1Ud
DwQEAwICBDAFBgMrZXADQQBrIDLUleAqaLWmPcOe5axI8Zjs7AetILasSdIOrV4+
tz7xylAMR/fYFe3Z5glMZZasS3jUiu0FQ51PpIvnkN0O
-----END CERTIFICATE-----
"""
NODE_PEM = b"""-----BEGIN CERTIFICATE-----
MIIBWzCCAQ2gAwIBAgIUIhxOxvMfSqwiuPwI3yNtBGo1pecwBQYDK2VwMA0xCzAJ
BgNVBAMMAkNBMCAXDTI2MTEyMzIxMTA0MVoYDzIxMjYxMDMwMjExMDQxWjAiMQow
CAYDVQQDDAFuMRQwEgYDVQQLDAtncmFkdXMtbm9kZTAqMAUGAytlcAMhAMdHicIC
klDU+HBTxERjgidJ/qYccPDOxORsQaALJ4FLo2gwZjAkBgNVHREEHTAbhhBncmFk
dXM6cm9sZS9ub2RlggFuhwR/AAABMB0GA1UdDgQWBBROaqncfEexwOe6wcgmJhdH
6O6N2zAfBgNVHSMEGDAWgBS9wrOPBo6MNG3FW0Us8nBJLj0oFzAFBgMrZXADQQDq
yErWb/L/upy4jXRRKY0ziCIYBsK0gSIoTQ06u2Ei37TvVYbvQmwVlCQn52RPMBjJ
fZXJ8LBjjwZLiYV3ozsK
-----END CERTIFICATE-----
"""
NODE_KEY_PEM = b"""-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIFQ5hBoUm3JJMEwy8uhuQProe3PGRHYS+bCWbMiKzmvc
-----END PRIVATE KEY-----
"""


def write(target, name, data):
    directory = os.path.join(CORPUS, target)
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, name), "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())


def idx(kind, dims, values):
    return bytes([0, 0, kind, len(dims)]) + b"".join(struct.pack(">I", d) for d in dims) + values


def idx_seed(options, flags, features, labels):
    return bytes([options, flags]) + struct.pack(">H", len(labels)) + labels + features


def data_files():
    labels = idx(8, [3], bytes([0, 1, 0]))
    write("idx", "bytes", idx_seed(0, 1, idx(8, [3, 2, 2], bytes(range(12))), labels))
    write("idx", "floats", idx_seed(0, 3, idx(13, [3, 2], struct.pack(">6f", 1, 2, 3, 4, 5, 6)), labels))
    write("idx", "shorts", idx_seed(128, 1, idx(11, [3, 1], struct.pack(">3h", -1, 0, 7)), labels))
    write("idx", "doubles", idx_seed(4, 3, idx(14, [3, 1], struct.pack(">3d", 1, 2, 3)), labels))
    write("idx", "one-file", idx_seed(1, 0, idx(9, [2], b"\x01\x02"), b""))
    svm = b"+1 1:0.5 3:1e-3 7:2\r\n# none\n-1 qid:3 2:-.5 7:1 #x\n1 4:1\n-1\n"
    write("libsvm", "plain", bytes([0, 1]) + svm)
    write("libsvm", "features", bytes([0, 3, 8]) + svm)
    write("libsvm", "bad", bytes([8, 3, 1]) + svm + b"1 2:x\n")
    write("libsvm", "parts", bytes([4, 5]) + svm * 3)
    write("libsvm", "unlabelled", bytes([0, 9]) + b"1:0.5 3:2\n2:-1\n")
    write("libsvm", "auto", bytes([1, 1]) + svm)
    csv = b'a,b,"c""d"\r\n1,,x\n3,"4",y\n5,6,"x"\n7,8,y\n'
    write("csv", "plain", bytes([0, 0, 0, 3, 0, 0]) + csv)
    write("csv", "unlabelled", bytes([0, 16, 1, 0, 0, 0]) + csv)
    write("csv", "names", bytes([0, 3, 1, 1, 1, 0]) + b"a\n2\n" + csv)
    write("csv", "semicolons", bytes([0, 8, 2, 0, 0, 1]) + b"1;2\n2;3,5\n\"3\";4\n")
    write("csv", "blanks", bytes([12, 2, 0, 0, 2, 0, 3]) + b"0\n1  2\t3\n2  3 4\n1 5 5\n2 6 1\n")
    write("csv", "bad", bytes([25, 3, 3, 4, 1, 1, 0, 0]) + b"0\n1\n" + csv + b"1,2\n,,,\n")
    columns = (b"  - column: a\n    as: number\n    log: true\n    boundaries: [1, 2.5]\n    missing: own\n"
               b"  - column: b\n    as: category\n    buckets: 5\n  - column: c\n    as: list\n    separator: '|'\n"
               b"    vocabulary: [x, y]\n  - column: y\n    as: label\n")
    rows = b"a,b,c,y\n1,u,x|y,0\n,v,z,1\n3,u,,0\n-2,w,y,1\n"
    write("columns", "kinds", b"\0" + columns + b"\0\0" + rows)
    write("columns", "range", b"\0  - column: 0..1\n    standardise: true\n  - column: -1\n    as: label\n\0\0"
          b"1,2,0\n3,4,1\n5,7,0\n")
    write("columns", "file", b"\0  - column: b\n    as: category\n    vocabulary_file: /proc/self/fd/4\n    unknown: own\n"
          b"  - column: y\n    as: label\n\0u\nv\n\0" + rows)
    ffm = b"  - column: 0\n    as: sparse\n    width: 4\n  - column: 2..3\n    as: sparse\n    width: 4\n"
    write("columns", "libffm", b"\1" + ffm + b"\0\0" + b"1 0:1:0.5 2:7:-2\n0 2:2:1e1 1:5:1\n# x\n1\n")
    clicks = (b"  - column: label\n    as: label\n  - column: I1..I2\n    missing: zero\n  - column: C25..C26\n    as: sparse\n"
              b"    width: 16\n    missing: zero\n")
    line = b"%s\t5\t\t" + b"\t".join([b"0"] * 11 + [b"68fd1e64"] * 25) + b"\t%s\n"
    write("columns", "criteo", b"\2" + clicks + b"\0\0" + line % (b"1", b"80e26c9b") + line % (b"0", b""))


    example = (message(1, b"y") + message(2, message(2, message(1, struct.pack("<f", 1)))),
               message(1, b"k") + message(2, message(3, message(1, varint(7) + varint(2**64 - 1)))),
               message(1, b"w") + message(2, message(1, message(1, b"word"))))
    record = message(1, b"".join(message(1, e) for e in example))
    length = struct.pack("<Q", len(record))
    named = (b"  - column: y\n    as: label\n  - column: k\n    as: sparse\n    width: 4\n  - column: w\n    as: sparse\n"
             b"    width: 4\n")
    write("columns", "tfrecord", b"\4" + named + b"\0\0" + (length + masked(length) + record + masked(record)) * 3)


def varint(number):
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])


def message(number, data):
    """A field of a protobuf message that holds bytes."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def masked(data):
    """CRC-32C as TFRecord files have it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def packed():
    csv = b"1,2,x\n3,4,y\n" * 4
    one = gzip.compress(csv, mtime=0)
    write("packed", "gzip", b"\x10" + one)
    write("packed", "members", b"\xff" + one + gzip.compress(b"more", 0, mtime=0) + b"tail")
    write("packed", "plain", b"\x20" + csv)
    if shutil.which("zstd"):
        for level, name in ((3, "zstd"), (19, "zstd-19")):
            frame = subprocess.run(["zstd", f"-{level}", "--check", "-c"], input=csv, capture_output=True, check=True).stdout
            write("packed", name, b"\x10" + frame)
            write("packed", name + "-frames", b"\xff" + frame + struct.pack("<II", 0x184D2A50, 3) + b"abc" + frame)


def seek():
    places = bytes([0, 0, 20, 0, 11, 60, 0, 30, 200, 1, 44, 9]) + bytes(12)
    frames = bytes([12, 0]) + b"1,2,x\n3,4,y\n" + bytes([6, 5]) + b"5,6,z\n" + bytes([3, 24]) + b"7,8" + bytes([0, 2])
    write("seek", "true", bytes([0, 255]) + places + bytes([3, 0, 0]) + frames)
    write("seek", "sums", bytes([2, 0]) + places + struct.pack("<Q", 2**63) + b"\1" + bytes([3, 16, 0]) + frames)
    for kind, value in ((1, b"\x10\0\0\0"), (2, b"\0\0\0\1"), (3, b"\4"), (4, b"\4"), (5, b""), (6, b""), (7, b"\0\5")):
        write("seek", f"lie-{kind}", bytes([0, 9]) + places + bytes([3, 0, 1]) + frames + bytes([kind, 0, 1]) + value)
    write("seek", "none", bytes([0, 1]) + places + bytes([1, 0, 1]) + frames[:22] + bytes([2, 1, 0]) + bytes(4))
    write("seek", "foot", bytes([0, 1]) + places + bytes([3, 0xE0, 0]) + frames + struct.pack("<II", 41, 5) + b"\4")
    write("seek", "plain", bytes([1, 1]) + places + b"1,2\n" * 9)
    if shutil.which("zstd"):
        frame = subprocess.run(["zstd", "-3", "-c"], input=b"1,2,x\n" * 9, capture_output=True, check=True).stdout
        table = struct.pack("<IIII", 0x184D2A5E, 25, len(frame), 54) + struct.pack("<IIIBI", len(frame), 54, 2, 0, 0x8F92EAB1)
        write("seek", "file", bytes([1, 40]) + places + frame * 2 + table)


def index():
    """Flags: the scene; 8 the file itself, 16 its checksum is repaired, 32 its stamps, 64 other data."""
    def entry(i):
        return 2 * i + 1

    def number(i):  # records, groups, of a group, numbers, bad ones, their text; of a file: first, records, group, end
        return 2 * i
    for scene in range(6):
        write("index", f"scene-{scene}", bytes([scene]))
        write("index", f"damage-{scene}", bytes([scene]) + bytes([7, 0, 9, 65]))
        write("index", f"entry-{scene}", bytes([16 | scene]) + bytes([1, entry(1), 3]))
        write("index", f"records-{scene}", bytes([16 | scene]) + bytes([0, number(0)]) + struct.pack("<Q", 1 << 40))
        write("index", f"other-data-{scene}", bytes([64 + 32 + 16 | scene, 1, 0, 7]) + b"\n" + bytes([0, 99]) + b",")
    write("index", "group", bytes([16, 0, number(2)]) + struct.pack("<Q", 2**63))
    write("index", "numbers", bytes([16 | 2, 1, number(3), 5]))
    write("index", "numbers-of-test", bytes([16 | 5, 1, number(13), 5]))
    write("index", "end", bytes([16, 2, number(9), 1]))
    write("index", "cut", bytes([16, 5, number(2), 255]))
    write("index", "more", bytes([16 | 4, 6, number(12), 20]) + bytes(20))
    write("index", "uneven", bytes([16 | 1, 3, entry(1), 63]))
    write("index", "bytes", bytes([8 | 16, 1]) + struct.pack("<QQQ", 0, 1, 2) + b"0\n")
    write("index", "foreign", bytes([8]) + b"GRADUSIX" + struct.pack("<QQQQ", 1, 0, 0, 0))


def safetensors_header(tensors, meta):
    header = dict(__metadata__=meta) if meta else {}
    at = 0
    for name, kind, shape, n in tensors:
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + n]}
        at += n
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack(">H", len(text)) + b"\0", text, bytes(range(256))[:at]


def checkpoints():
    ledger = {"epoch": 1, "records": 10, "batch_records": 2, "split_batches": 2, "done": [[2, 1], [0, 2]]}
    meta = {"format": "gradus-shard", "format_version": "1", "generation": "1", "job": "j-1",
            "ledger": json.dumps(ledger, separators=(",", ":")), "rule": "momentum", "shard": "0", "shards": "1",
            "step": "3", "version": "3"}
    shard = [("d.bias[0:2]", "F32", [2], 8), ("d.bias[0:2]#m", "F32", [2], 8), ("d.kernel[0:2]", "F32", [2, 2], 16)]
    write("safetensors", "shard", b"".join(safetensors_header(shard, meta)))
    meta = dict(meta, checksums="0123456789abcdef" * 3, seal="0" * 16)
    write("safetensors", "sealed", b"".join(safetensors_header(shard, meta)))
    tables = [{"name": "ads", "dim": 2, "admission": "counted", "rows": 3, "counts": 1},
              {"name": "b", "dim": 1, "admission": "bloom", "rows": 0, "counts": 1}]
    parts = [("ads/c00000.counts", "U32", [1], 4), ("ads/c00000.keys", "U64", [1], 8), ("ads/c00000.sum", "U64", [1], 8),
             *((f"ads/r0000{i}{name}", kind, [n, *more], size * n) for i, n in ((0, 2), (1, 1)) for name, kind, more, size in (
                 ("#m", "F32", [2], 8), (".keys", "U64", [], 8), (".seen", "U64", [], 8), (".sightings", "U32", [], 4),
                 (".values", "F32", [2], 8))),
             *((f"ads/r0000{i}.sum", "U64", [1], 8) for i in range(2)),
             ("b/c00000.counters", "U8", [1, 64], 64), ("b/c00000.keys", "U64", [1], 8), ("b/c00000.sum", "U64", [1], 8)]
    of_tables = dict(meta, format_version="2", tables=json.dumps({"tables": tables}))
    del of_tables["checksums"], of_tables["seal"]
    write("safetensors", "tables", b"".join(safetensors_header(parts, of_tables)))
    meta = {"gradus." + k: v for k, v in (("format_version", "2"), ("job", "j-1"), ("step", "3"), ("epoch", "1"), ("version", "3"),
                                          ("values", "parameters"), ("text", "name: j"))}
    for name, rows in (("model", 1), ("model-of-none", 0), ("model-unsorted", 2)):
        parts = [("w.keys", "U64", [rows], 8 * rows), ("w.values", "F32", [rows, 1], 4 * rows), ("wide.bias", "F32", [1], 4)]
        write("safetensors", name, b"".join(safetensors_header(parts, meta)))
    kinds = [(k, k, [1], n) for k, n in (("F64", 8), ("I64", 8), ("BF16", 2), ("U16", 2), ("BOOL", 1), ("I8", 1))]
    write("safetensors", "kinds", b"".join(safetensors_header(kinds, {})))
    write("safetensors", "empty", b"".join(safetensors_header([("z", "F32", [0, 3], 0)], {"a": "b"})))
    text = json.dumps(ledger, separators=(",", ":"))
    write("ledger", "some", text)
    write("ledger", "none", '{"epoch":0,"records":1,"batch_records":1,"split_batches":1,"done":[]}')
    write("ledger", "tensor", "dense_1.kernel[0:392]#m")
    write("ledger", "file", "shard-0-of-2-g7.safetensors")
    manifest = {
        "format": "gradus-checkpoint", "format_version": 1, "job": "j-1", "owner": "0123456789abcdef" * 2,
        "text": "name: j\n", "mode": "sync", "rule": "momentum", "slots": ["m"], "slot_kinds": ["parameter"],
        "generation": 1, "step": 3, "epoch": 1, "records": 10, "created_ms": 1, "ledger": ledger,
        "train_sums": "3ff0000000000000" * 2, "train_epoch": 1,
        "variables": [{"name": "d.bias", "shape": [2]}, {"name": "d.kernel", "shape": [2, 2]}],
        "shards": [{"file": "shard-0-of-1.safetensors", "version": 3, "bytes": 512, "checksum": "0x0123456789abcdef"}]}
    owner = b"gradus-owner 1\nowner " + b"0123456789abcdef" * 2 + b"\njob j-1\nsubmitted 1700000000000\n"
    text = json.dumps(manifest).encode()[:-1] + b",\n"
    write("manifest", "sync", text + b"\0" + owner)
    tables = b'"format_version": 2, "tables": [{"name": "ads", "dim": 2, "admission": "counted", "rows": [3], "counts": [1]}]'
    write("manifest", "tables", text.replace(b'"format_version": 1', tables) + b"\0" + owner)
    text = text.replace(b'"slots": ["m"]', b'"slots": []').replace(b'"slot_kinds": ["parameter"], ', b"")
    write("manifest", "two-shards", text.replace(b"0-of-1.", b"0-of-2-g7.").replace(
        b'cdef"}]', b'cdef"}, {"file": "shard-1-of-2.safetensors", "version": 3, "bytes": 0, "checksum": "0x%016x"}]' % 7))


JOB = """name: digits
data:
  train:
    file: train.csv
  label: 0
model:
  layers:
  - type: dense
    units: 4
    activation: relu
  - type: dense
    units: 2
  loss: softmax_cross_entropy
update:
  rule: momentum
  learning_rate: 0.1
  momentum: 0.9
training:
  mode: async
  batch_size: 8
  epochs: 2
  evaluate_every: 10 steps
cluster:
  workers: 1..4
  ps: 2
"""


def texts():
    write("job", "async", JOB)
    write("job", "sets", JOB.encode() + b"\0training.mode=bounded\ntraining.staleness=3\nmodel.layers.0.units=8\nupdate.rule=adam")
    write("job", "tensorboard", JOB.encode() + b"\0training.tensorboard=/srv/boards/../b c")
    examples = os.path.join(ROOT, "examples")
    for name in ("bike-sharing", "california-housing", "criteo-dcn", "criteo-logistic", "digits"):  # no two kinds alike
        with open(os.path.join(examples, name + ".yaml"), "rb") as f:
            write("job", name, f.read())
    write("config", "all", b"on: false\ncount: 7\nstore:\n  share: 0.25\n  name: 'a b'\n  list: [x, 'y,z']\nkind: async\n"
          b"bytes: 2MiB\ntime_ms: 250ms\nevery: 5 steps\nrange: 2..8\nsizes: [3, 4]\n\0\0")
    write("config", "line", b"count: 1\n\0--count=4\n--store-name\nx\n--no-on\nfile\n\0GRADUS_STORE_SHARE=0.75\nGRADUS_COUNTS=2\n")
    write("config", "help", b"\0--help\n\0")
    digest = "sha256:" + "%064x" % 5
    fuzz = "sha256:" + hashlib.sha256(b"gradus_fuzz").hexdigest()  # the token that the target looks for
    write("tokens", "lines", f"# who\nann submitter {digest} expires=2027-11-23T00:00:00Z\n\nps-1 node,viewer {fuzz} node=ps-1\n")
    write("credentials", "file", b"\x00[default]\naws_access_key_id = A\naws_secret_access_key=B\n; x\n[other]\naws_session_token=c\n")
    write("credentials", "variables", b"\x01http://[::1]:9000/\neu-west-1\ntrue\n3\n7")
    write("credentials", "identity", b"\x03<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Audience>x</Audience><Credentials><AccessKeyId>A</AccessKeyId><SecretAccessKey>s</SecretAccessKey>"
          b"<SessionToken>t</SessionToken><Expiration>2026-11-23T17:00:00.123Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>")
    write("credentials", "place", b"\x02s3://bucket/a/b c")
    write("identity", "texts", b"\x00ann\nCN=ann,OU=gradus-submitter+OU=x\\,y\ngradus:role/viewer\ngradus:node/ps-1\n")
    write("glob", "list", b"\x01/data\n[a.csv, 'part-*.csv', in/[[]x], in/up/a.csv]")
    write("glob", "pattern", b"\x00[/data, s3://b/c]\n*/a.c?v")


def tokens():
    claims = {"sub": "ann", "gradus_role": ["gradus-submitter", "x"], "exp": 1800000300, "nbf": 1, "iat": 2,
              "iss": "https://id", "aud": ["gradus"], "realm_access": {"roles": ["viewer"]}, "gradus_node": "ps-1"}
    header = {"alg": "ES256", "kid": "k1", "typ": "JWT"}
    both = json.dumps(header).encode() + b"\0" + json.dumps(claims).encode()
    write("jwt", "claims", b"\x00" + both)
    write("jwt", "rules", b"\x07" + both)
    packed = b".".join(base64.urlsafe_b64encode(json.dumps(x).encode()).rstrip(b"=") for x in (header, claims))
    write("jwt", "token", b"\x08" + packed + b".c2ln")
    keys = [{"kty": "OKP", "crv": "Ed25519", "kid": "a", "use": "sig", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},
            {"kty": "EC", "crv": "P-256", "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
             "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0", "alg": "ES256"},
            {"kty": "oct", "k": "AAAA"}]
    write("jwks", "set", json.dumps({"keys": keys}))
    write("jwks", "pem", b"-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n"
          b"-----END PUBLIC KEY-----\n")


def certificates():
    write("certificates", "node", b"\0" + NODE_PEM + CA_PEM + b"\0" + CA_PEM + b"\0" + NODE_KEY_PEM)
    write("certificates", "client", b"\1" + NODE_PEM + b"\0" + CA_PEM + NODE_PEM + b"\0")
    write("certificates", "mixed", b"\0" + CA_PEM + b"\0" + NODE_PEM + b"\0" + NODE_KEY_PEM)


def store():
    page = (b"<?xml version='1.0'?><ListBucketResult xmlns='http://s3.amazonaws.com/doc/2006-03-01/'>"
            b"<Contents><Key>a/b1/part-12.csv</Key></Contents><CommonPrefixes><Prefix>a/b2/</Prefix></CommonPrefixes>"
            b"<IsTruncated>%s</IsTruncated><NextContinuationToken>t</NextContinuationToken></ListBucketResult>")
    for what in (0, 1, 2, 5, 6, 7):
        write("s3", f"pages-{what}", bytes([what, 0]) + page % b"true" + b"\0\0" + page % b"false")
    write("s3", "uploads", b"\x04\x00<ListMultipartUploadsResult><Upload><Key>a/x</Key><UploadId>7</UploadId></Upload>"
          b"<NextKeyMarker>a</NextKeyMarker><NextUploadIdMarker>7</NextUploadIdMarker></ListMultipartUploadsResult>")
    error = b"<Error><Code>%s</Code><Message>no &lt;x&gt;</Message><Region>eu</Region></Error>"
    for i, code in ((3, b"PermanentRedirect"), (5, b"SignatureDoesNotMatch"), (6, b"NoSuchBucket"), (9, b"PreconditionFailed")):
        write("s3", code.decode(), bytes([0, i]) + error % code)
    write("s3", "claim", b"\x08\x09" + error % b"PreconditionFailed" + b"\0\0")


JOB_TEXT = ("name: j\\ndata: {train: {file: a.csv}}\\nmodel: {layers: [{dense: {units: 3}}], loss: softmax_cross_entropy}\\n"
            "update: {rule: sgd}\\ntraining: {mode: %s, batch_size: 10, epochs: 2}\\ncluster: {workers: 1..2}\\n")


def encode(message, text):
    file = {"Job": "jobs"}
    for name in ("jobs", "cluster", "ps", "worker", "types", "trace", "store"):
        with open(os.path.join(ROOT, "proto/gradus/v1", name + ".proto"), encoding="utf-8") as f:
            if f"\nmessage {message} " in f.read():
                file = name
                break
    return subprocess.run(["protoc", "-I", os.path.join(ROOT, "proto"), f"--encode=gradus.v1.{message}",
                           f"gradus/v1/{file}.proto"], input=text.encode(), capture_output=True, check=True).stdout


def row(head, methods, calls):
    """As message.h says; a call is (method, message, text), or the name of the type of an answer."""
    data = bytes(head)
    for method, message, text in calls:
        packed = encode(message, text)
        data += bytes([methods.index(method)]) + struct.pack("<H", len(packed)) + packed
    return data


# In the order of the tables: ps_methods; jobs_methods, cluster_methods and the answers of fuzz_master.c;
# worker_shell_methods.
PS = ["OpenShard", "SetMembership", "CloseShard", "Pull", "Exchange", "Pin", "Unpin", "Checkpoint",
      "Stats", "Trace", "Fill", "Read", "Record"]
MASTER = ["Get", "List", "Cancel", "Checkpoint", "Pause", "Resume", "Remove", "Nodes", "Logs", "DropNode", "Submit", "Set", "Trace", "Tables", "Follow", "DrainNode", "Watch", "Join", "Heartbeat", "Leave",
          "LeaseSplit", "ReportSplit", "ReportProgress", "ReportFailure", "DataInfo", "ShardState",
          "CheckpointShardResponse", "EvaluateResponse", "AssignResponse", "TraceResponse", "StatsResponse"]


TABLES = ('tables { name: "a" dim: 2 rows: 3 bytes: 4 bytes_max: 5 admitted: 3 updated: 7 read: 9 hottest { key: 5 sightings: 2 } } '
          'tables { name: "b" dim: 1 }')


def ps_calls():
    ref = 'shard { job: "j-1" generation: 1 opening: 7 }'
    values = 'values: "%s"' % ("\\000\\000\\200\\077" * 9)
    push = 'push { replica_end: 1 examples: 10 batch_end: 1 %s }'
    for mode, name in ((0, "sync"), (1, "async"), (2, "bounded")):
        pull = "pull { kind: LATEST progress: true clock: 1 }" if mode else "pull { kind: VERSION version: 1 }"
        write("ps", "unary-" + name, row([mode, mode, 7], PS, [
            ("Pull", "PullRequest", f'{ref} worker: "w0" {pull.replace("version: 1", "")}'),
            ("Stats", "StatsRequest", ""), ("Trace", "TraceRequest", 'action: RECORD job: "j-1" id: 1 timeout_ms: 9'),
            ("Trace", "TraceRequest", 'action: TAKE job: "j-1" id: 1')]))
        write("ps", "exchange-" + name, row([mode, 4 + mode, 0], PS, [
            ("Exchange", "ExchangeRequest", f'exchange: 1 {ref} worker: "w0" training {{ {push % ""} {pull} session: 1 }} total: 9 '
             + 'values: "%s"' % ("\\000" * 16)),
            ("Exchange", "ExchangeRequest", 'exchange: 1 offset: 4 values: "%s"' % ("\\000" * 20)),
            ("Exchange", "ExchangeRequest", f'exchange: 2 {ref} worker: "w1" training {{ idle: true }}'),
            ("Exchange", "ExchangeRequest", f'exchange: 3 {ref} worker: "w1" spare {{ step: 1 }}'),
            ("Exchange", "ExchangeRequest", f'exchange: 4 {ref} worker: "w1" sums {{ step: 1 }}'),
            ("Exchange", "ExchangeRequest", f'exchange: 5 {ref} worker: "w1" totals {{ step: 1 data: "12345678" }}')]))
    # Key 5 of the first table seen once, none of the second; then all of it read.
    escaped = "".join("\\%03o" % b for b in struct.pack("<QIIQIff", 1, 2, 0, 5, 1, 1, 1) + struct.pack("<QII", 0, 1, 0))
    keys = "".join("\\%03o" % b for b in struct.pack("<QQ", 5, 9))
    write("ps", "tables", row([0, 8, 0], PS, [
        ("Exchange", "ExchangeRequest", f'exchange: 1 {ref} worker: "w0" training {{ {push % ""} }} total: 9 tables_bytes: 52 {values}'),
        ("Exchange", "ExchangeRequest", f'exchange: 1 of_tables: true values: "{escaped}"'),
        ("Exchange", "ExchangeRequest", f'exchange: 2 {ref} worker: "w1" training {{ {push % "replica_first: 1"} }} total: 9 {values}'),
        ("Exchange", "ExchangeRequest", f'exchange: 3 {ref} worker: "w0" rows {{ version: 1 counts: [1, 1] }} total: 2 values: "{keys}"'),
        ("Pin", "PinRequest", f'{ref} pin_id: "pin-1"'),
        ("Exchange", "ExchangeRequest", f'exchange: 4 {ref} worker: "w0" rows {{ pin_id: "pin-1" counts: [2, 0] }} total: 2 values: "{keys}"'),
        ("Unpin", "PinRequest", f'{ref} pin_id: "pin-1"')]))
    write("ps", "record", row([0, 32, 0], PS, [
        ("Record", "RecordRequest", ref),
        ("Record", "RecordRequest", f'number: 1 generation: 1 update {{ examples: 10 pushes: 2 }} total: 9 {values}'),
        ("Record", "RecordRequest", 'number: 2 generation: 1 version: 1 pin { pin_id: "a" slots: true }'),
        ("Record", "RecordRequest", 'number: 3 generation: 1 version: 1 membership { workers: "w1" } generation_next: 2'),
        ("Record", "RecordRequest", 'number: 4 generation: 2 version: 1 unpin { pin_id: "a" }'),
        ("SetMembership", "SetMembershipRequest", 'shard { job: "j-1" generation: 3 opening: 7 } workers: "w0" promote: true'),
        ("Exchange", "ExchangeRequest", f'exchange: 1 {ref.replace("generation: 1", "generation: 3")} worker: "w0" training {{ pull {{ }} }}'),
        ("Record", "RecordRequest", 'number: 5 generation: 2 version: 1 update { }')]))
    write("ps", "read", row([0, 8, 0], PS, [
        ("Read", "ReadRequest", f'{ref} pin_id: "a" pin_ms: 60000 pin {{ }}'),
        ("Read", "ReadRequest", f'{ref} pin_id: "b" pin_ms: 60000 pin {{ exact: true version: 1 }}'),
        ("Exchange", "ExchangeRequest", f'exchange: 1 {ref} worker: "w0" training {{ {push % ""} }} total: 9 tables_bytes: 52 {values}'),
        ("Exchange", "ExchangeRequest", f'exchange: 1 of_tables: true values: "{escaped}"'),
        ("Exchange", "ExchangeRequest", f'exchange: 2 {ref} worker: "w1" training {{ {push % "replica_first: 1"} }} total: 9 {values}'),
        ("Read", "ReadRequest", f'{ref} pin_id: "a" pin_ms: 1000 values {{ first: 2 count: 3 }}'),
        ("Read", "ReadRequest", f'{ref} pin_id: "b" pin_ms: 1000 rows {{ }}'),
        ("Read", "ReadRequest", f'{ref} pin_id: "b" pin_ms: 1000 rows {{ table: 1 from: 9 }}'),
        ("Read", "ReadRequest", f'{ref} pin_id: "a" end: true')]))
    write("ps", "fill", row([0, 16, 5], PS, [
        ("Fill", "FillRequest", f'{ref} worker: "w0"'),
        ("Pull", "PullRequest", f'{ref} worker: "w0" pull {{ kind: LATEST }}'),
        ("Fill", "FillRequest", f'{ref} worker: "w0" ' + 'values: "%s"' % ("\\000" * 16)),
        ("Fill", "FillRequest", f'{ref} worker: "w1" first: 2 ' + 'values: "%s"' % ("\\000" * 28)),
        ("Fill", "FillRequest", f'{ref} worker: "w0" first: 4 ' + 'values: "%s"' % ("\\000\\000\\300\\177")),
        ("Exchange", "ExchangeRequest", f'exchange: 1 {ref} worker: "w0" training {{ {push % ""} }} total: 9 {values}')]))
    ledger = "ledger { records: 50 batch_records: 10 split_batches: 2 done: [1, 0, 0] }"
    same = "consistency { replicas: 2 aggregate: 2 push_every: 1 pull_every: 1 }"
    write("ps", "life", row([0, 1, 3], PS, [
        ("Pin", "PinRequest", f'{ref} pin_id: "pin-1" slots: true'),
        ("Exchange", "ExchangeRequest", f'exchange: 1 {ref} worker: "w0" pinned {{ pin_id: "pin-1" }}'),
        ("Checkpoint", "CheckpointShardRequest", f'{ref} pin_id: "pin-1" directory: "j-1/step-000000500"'),
        ("Unpin", "PinRequest", f'{ref} pin_id: "pin-1"'),
        ("SetMembership", "SetMembershipRequest",
         f'{ref.replace("generation: 1", "generation: 2")} workers: ["w1", "w2"] {same} {ledger} version: 1'),
        ("CloseShard", "CloseShardRequest", ref.replace("generation: 1", "generation: 3"))]))
    text = JOB_TEXT % "sync"
    plan = ('plan { variables { name: "dense_1.kernel" dims: [2, 3] init_kind: 1 fan_in: 2 fan_out: 3 } variables { name: "dense_1.bias" '
            'dims: 3 } partitions { row_count: 2 } partitions { variable: 1 shard: 1 row_count: 3 } shard_count: 2 }')
    write("ps", "open", row([0, 0, 5], PS, [
        ("OpenShard", "OpenShardRequest", f'shard {{ job: "j-2" shard: 1 generation: 1 opening: 9 secret: "0123456789abcdef" }} '
         f'text: "{text}" {plan} {ledger} workers: "w0" {same} restore: "j-1/step-1"'),
        ("Stats", "StatsRequest", 'job: "j-2" hottest: "a"')]))


def master_calls():
    join = 'incarnation: %d address: "127.0.0.1:70%02d" http_address: "127.0.0.1:1" version: "0.1.0" host: "h" pid: 7 role: %s'
    nodes = [("Join", "JoinRequest", join % (1, 1, "PS")), ("Join", "JoinRequest", join % (2, 2, "WORKER"))]
    state = ("ShardState", "ShardState", "generation: 1 elements: 9")
    node = 'node { id: "worker-1" incarnation: 2 } job: "j-1" generation: 1'
    for mode in ("sync", "async", "bounded"):
        submit = ("Submit", "SubmitRequest", f'file: "j.yaml" text: "{JOB_TEXT % mode}" request_id: "r1"')
        write("master", mode, row([0, 0], MASTER, nodes + [submit, state] + [
            ("LeaseSplit", "LeaseSplitRequest", node),
            ("ReportSplit", "ReportSplitRequest", node + " batch_end: 5"),
            ("ReportProgress", "ReportProgressRequest", node + " sequence: 1 position: 1 idle: true staleness: 1 "
             "epochs { batches: 1 examples: 10 sums { values: [1, 2] } } times { steps: 1 load_us: 2 }"),
            ("Heartbeat", "HeartbeatRequest", 'node { id: "worker-1" incarnation: 2 } jobs { job: "j-1" generation: 1 } '
             'works { job: "j-1" what: "step" done: 1 total: 2 unit: "bytes" age_ms: 3 } lines { number: 1 time_ms: 5 level: "WARN" job: "j-1" event: "printed" text: "password=12345678" lost: 1 }'),
            ("Logs", "LogsRequest", 'job: "j-1"')]))
    submit = ("Submit", "SubmitRequest", f'text: "{JOB_TEXT % "sync"}" sets: "training.epochs=1"')
    write("master", "clients", row([0, 0], MASTER, nodes + [
        submit, ("Watch", "GetJobRequest", 'job: "j-1"'), ("Get", "GetJobRequest", 'job: "j-1"'), ("List", "ListJobsRequest", ""),
        ("Nodes", "NodesRequest", ""), ("Logs", "LogsRequest", 'job: "j-1" node: "worker-1" after: 1'), ("DrainNode", "DrainNodeRequest", 'node: "ps-1" undo: false'), ("DropNode", "DropNodeRequest", 'node: "ps-1"'), ("Remove", "RemoveJobRequest", 'job: "j-1" checkpoints: true'), ("Set", "SetJobRequest", 'job: "j-1" sets: "training.mode=async"'),
        ("Checkpoint", "GetJobRequest", 'job: "j-1"'), ("Trace", "TraceJobRequest", 'job: "j-1" steps: 2 timeout_ms: 9'),
        ("TraceResponse", "TraceResponse", 'clock_ns: 9 boot: "b" spans { kind: SPAN_STEP ns: 3 } workers: "w" steps: 2'),
        ("Tables", "TablesRequest", 'job: "j-1" table: "a"'), ("Follow", "FollowRequest", 'job: "j-1"'),
        ("StatsResponse", "StatsResponse", f'shards {{ job: "j-1" version: 3 {TABLES} }}'),
        ("Cancel", "CancelRequest", 'job: "j-1" now: true')]))
    write("master", "answers", row([9, 0], MASTER, nodes + [
        submit, ("DataInfo", "DataInfo", "train_records: 20 test_records: 5 feature_dims: [2] classes: 2 label_is_class: true "
                 "label_scale: 1 bad_records: 1"),
        ("ReportFailure", "ReportFailureRequest", node + ' code: 3 message: "no"'),
        ("EvaluateResponse", "EvaluateResponse", "sums { values: [1, 2, 3] }"), ("AssignResponse", "AssignResponse", "position: 2"),
        ("CheckpointShardResponse", "CheckpointShardResponse", 'file: "shard-0-of-1.safetensors" bytes: 9 checksum: 1 version: 1'),
        ("Leave", "LeaveRequest", 'node { id: "ps-1" incarnation: 1 }')]))


def worker_calls():
    methods = ["InspectData", "StartJob", "Assign", "Evaluate", "StopJob", "Trace", "ExchangeResponse"]
    who = 'job: "j-1" secret: "0123456789abcdef"'
    plan = ('plan { variables { name: "w" dims: [4] } partitions { row_count: 2 } partitions { shard: 1 row_first: 2 row_count: 2 } '
            'shard_count: 2 }')
    places = 'shards { node: "ps-1" address: "127.0.0.1:1" opening: 7 } shards { shard: 1 address: "127.0.0.1:2" opening: 8 }'
    start = [("InspectData", "InspectDataRequest", f'{who} text: "{JOB_TEXT % "sync"}" incarnation: 1'),
             ("StartJob", "StartJobRequest", f'{who} text: "{JOB_TEXT % "sync"}" {plan} generation: 1 incarnation: 1 start: 3 data {{ '
              'train_records: 50 feature_dims: 2 label_is_class: true classes: 3 label_scale: 1 }')]
    answer = 'exchange: %d version: 1 generation: 1 total: 2 trained { push: APPLIED clock: 1 }'
    for mode, lease in (("SYNC", ""), ("ASYNC", "leases { batch_end: 2 fresh: true }"), ("BOUNDED", "leases { batch_end: 2 }")):
        calls = start + [
            ("Assign", "AssignRequest", f'{who} generation: 1 incarnation: 1 start: 3 number: 1 replica_end: 1 step_limit: 4 {lease} {places} '
             f'consistency {{ mode: {mode} replicas: 1 aggregate: 1 push_every: 1 pull_every: 1 }} '
             'ledger { records: 50 batch_records: 10 split_batches: 2 done: [0, 0, 0] }')]
        calls += [("ExchangeResponse", "ExchangeResponse", answer % i) for i in range(1, 5)]
        calls += [("Evaluate", "EvaluateRequest", f'{who} pin_id: "pin-1" count: 5 generation: 1 start: 3 {places}'),
                  ("ExchangeResponse", "ExchangeResponse", "exchange: 9 code: 10 message: \"no\""),
                  ("StopJob", "StopJobRequest", f'{who} start: 3 reason: "over"')]
        write("worker", mode.lower(), row([0, 0], methods, calls))
    write("worker", "others", row([9, 0], methods, start + [
        ("Trace", "TraceRequest", 'job: "j-1" action: RECORD id: 1 steps: 2'), ("Trace", "TraceRequest", ""),
        ("ExchangeResponse", "ExchangeResponse", 'spare { given: true replica: 1 } decision { step: 1 replicas: "1" }'),
        ("ExchangeResponse", "ExchangeResponse", 'sums { step: 1 known: true data: "12345678" }')]))


def answers():
    types = ["Job", "ListJobsResponse", "NodesResponse", "TraceJobResponse", "Row", "TablesResponse"]
    times = "times { steps: 2 load_us: 1 compute_us: 2 wire_us: 3 apply_us: 4 wait_us: 5 }"
    ledger = "ledger { records: 50 batch_records: 10 split_batches: 2 done: [1, 0, 0] }"
    job = (f'id: "j-1" name: "j" state: RUNNING reason: "r" submitted_ms: 1 started_ms: 2 step: 3 steps_total: 9 epoch: 1.5 epochs_total: 2 '
           'train { name: "loss" value: 0.5 } test { name: "accuracy" value: 0.9 } evaluations { step: 3 epoch: 1 train { name: "loss" '
           'value: 1 } test { name: "auc" value: 0.5 } time_ms: 7 } examples_per_second: 10 seconds: 2 eta_seconds: 5 checkpoint: "/c/j-1" '
           f'workers: "worker-1" ps: "ps-1" generation: 2 text: "{JOB_TEXT % "async"}" mode: ASYNC examples: 30 staleness: [5, 1, 0, 2] '
           f'consistency {{ mode: ASYNC replicas: 1 aggregate: 1 push_every: 2 pull_every: 1 overlap: true }} shards {{ ps: "ps-1" version: 3 {ledger} }} '
           f'{times} worker_times {{ worker: "worker-1" {times} }} activity: "Pin on ps-2" bad_records: 1')
    node = ('nodes { id: "ps-1" role: PS address: "a:1" http_address: "a:2" alive: true jobs: "j-1" joined_ms: 1 heartbeat_age_ms: 2 '
            'version: "0.1.0" host: "h" pid: 7 }')
    spans = "".join(f"spans {{ kind: {kind} begin_ns: {100 * kind} ns: 90 exchange: 1 worker: 1 step: 1 bytes: 9 }} " for kind in range(1, 15))
    trace = (f'job: "j-1" clock_ns: 9 wall_ms: 8 nodes {{ node: "worker-1" role: WORKER host: "h" pid: 1 offset_ns: -5 trace {{ clock_ns: 1 '
             f'boot: "b" {spans} steps: 2 lost: 1 }} }} nodes {{ node: "ps-1" role: PS trace {{ {spans} workers: "worker-1" }} }} '
             'nodes { node: "ps-2" problem: "gone" }')
    write("answers", "job", row([80], types, [("Job", "Job", job)]))
    write("answers", "row", row([0], types, [("Row", "Job", job + ' secret: "0123456789abcdef"')]))
    write("answers", "ended", row([30], types, [("Job", "Job", job.replace("RUNNING", "FAILED").replace("ASYNC", "SYNC"))]))
    write("answers", "lists", row([60], types, [("ListJobsResponse", "ListJobsResponse", f"jobs {{ {job} }} jobs {{ id: \"j-2\" }}"),
                                                ("NodesResponse", "NodesResponse", node)]))
    write("answers", "tables", row([0], types, [("TablesResponse", "TablesResponse", f'job: "j-1" shards {{ ps: "ps-1" {TABLES} }} '
                                                'shards { ps: "ps-2" problem: "gone" }'),
                                               ("TablesResponse", "TablesResponse", f'table: "a" shards {{ ps: "ps-1" {TABLES} }}')]))
    write("answers", "trace", row([0], types, [("TraceJobResponse", "TraceJobResponse", trace)]))


def table_gradients():
    def one(dim, keys, sightings):
        return (struct.pack("<III", len(keys), dim, 0) + struct.pack(f"<{len(keys)}Q", *keys) +
                struct.pack(f"<{len(keys)}I", *sightings) + struct.pack(f"<{dim * len(keys)}f", *range(dim * len(keys))))

    def two(dim, a, b):
        return bytes([dim - 1]) + struct.pack(">H", len(a)) + a + b
    write("table_gradient", "both", two(2, one(2, [1, 5, 9], [1, 2, 1]), one(2, [0, 5, 2**64 - 1], [1, 1, 2**32 - 1])))
    write("table_gradient", "empty", two(16, one(16, [], []), one(16, [7], [1])))
    write("table_gradient", "bad", two(1, one(1, [5, 5], [1, 0]), one(2, [3], [1])))


def libgradus():
    """What workers send: common/program/program_message.h."""
    def one(kind, memory=0, body=b""):
        return bytes([kind, memory, len(body)]) + body

    def start(dims, data, classes, fields=0, weights=0):
        return one(4, 8 * fields, struct.pack("<4Q5I", *dims, 0, 0, len(dims), data, classes, fields, weights))

    def array(number, bytes_, content=b""):
        return one(5, bytes_ // 16, struct.pack("<IxxxxQ", number, bytes_) + content)

    def work(kind, count, records=0, list_keys=0, of=6):
        return one(kind, 0, struct.pack("<4I12Q3I", 0, 1, 2, 0, records, 512, 1024, 1536, count, 1, 2, 3, 128, 2304, 3072, list_keys,
                                        3, 4, of))

    def job_of(tables):
        return one(2, 10, struct.pack("<3Q2I", 16, tables, 7, 8, 16))
    job = job_of(0)
    begin = job + start([2, 3], 1, 1) + array(0, 128) + array(1, 128) + array(2, 2048)
    write("libgradus", "batches", begin + work(6, 8) + work(7, 16) + work(6, 0) + one(10))
    write("libgradus", "wrong", job + start([2, 3], 1, 1) + array(0, 64) + array(1, 128) + work(6, 0, 9999) + work(7, 1))
    rows = array(3, 1024, struct.pack("<6Q", 2, 3, 64, 128, 192, 0)) + array(4, 512)
    lists = struct.pack("<6Q", 0, 1, 2, 2, 3, 4)
    begin = job_of(1) + start([2, 3], 1, 1, 2, 1) + array(0, 128) + array(1, 128) + array(2, 4080, bytes(128) + lists) + rows
    write("libgradus", "tables", begin + work(11, 2, list_keys=4) + work(6, 2, list_keys=4) + work(11, 2, list_keys=4, of=7) +
          work(7, 2, list_keys=4) + work(6, 0) + one(10))
    write("libgradus", "other_tables", job_of(2) + job_of(1) + start([1, 1], 0, 0) + rows + work(11, 0) + work(6, 1))
    write("libgradus", "jobs", job + job + one(10) + one(10) + job + start([1, 1], 0, 0))


def http():
    write("http", "metrics", b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
    write("http", "pages", b"GET /livez HTTP/1.0\r\n\r\nHEAD /nothing?a=%20b HTTP/1.1\r\nConnection: close\r\n\r\n")
    write("http", "post", b"POST /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n")
    write("http", "parts", b"GET /heal\0thz HTTP/1.1\r\nX: \0y\r\n z\r\nCookie: a=b\r\n\r\n")
    write("http", "tls", bytes.fromhex("16030100a5010000a10303") + bytes(range(64)))


def infer_json():
    features = '{"name": "features", "datatype": "FP32", "shape": [1, 2], "data": [[1.5, null]]}'
    texts = '{"name": "c", "datatype": "BYTES", "shape": [2], "data": ["red", "caf\\u00e9"]}'
    keys = '{"name": "0", "datatype": "%s", "shape": [1, 2], "data": [%s]}'
    write("infer_json", "all", ('\0{"id": "7", "inputs": [%s], "outputs": [{"name": "class"}]}' % ", ".join(
        (features, texts, keys % ("UINT64", "1, 18446744073709551615"), keys % ("INT64", "-1, 2")))).encode())
    write("infer_json", "binary", b'\x08{"inputs": [{"name": "features", "datatype": "FP32", "shape": [1, 2], "parameters": '
          b'{"binary_data_size": 8}}], "parameters": {"binary_data_output": true}}' + b"\0\0\x80\x3f" * 2)


def infer():
    def one(slot, name, text):
        packed = subprocess.run(["protoc", "-I", os.path.join(ROOT, "proto"), "--encode=inference.ModelInferRequest",
                                 "inference/open_inference.proto"], input=text.encode(), capture_output=True, check=True).stdout
        write("infer", name, bytes([slot]) + packed)
    features = 'inputs { name: "features" datatype: "FP32" shape: 2 shape: 2 %s } '
    texts = 'inputs { name: "c" datatype: "BYTES" shape: 2 shape: 1 %s } '
    typed = ("contents { fp32_contents: 1 fp32_contents: nan fp32_contents: 3 fp32_contents: 4 }",
             'contents { bytes_contents: "red" bytes_contents: "NA" }')
    one(0, "typed", features % typed[0] + texts % typed[1])
    one(0, "raw", features % "" + texts % "" + 'raw_input_contents: "' + "\\000\\000\\200\\077" * 4 +
        '" raw_input_contents: "\\003\\000\\000\\000red\\000\\000\\000\\000"')
    write("infer", "lines", b'\x02{"a": 1.5, "c": "red", "b": null, "l": "x", "who": 7}\n\n{"features": [[1], 2], "c": "blue", '
          b'"who": "x"}\n')
    write("infer", "lines_of_keys", b'\x03{"0": [1, [2, 0.5]], "2": [18446744073709551615]}\n{"1": []}\n{"1": [-1]}\n')
    keys = 'inputs { name: "%d" datatype: "%s" shape: 1 shape: 2 %s } '
    one(1, "keys", "".join(keys % (f, "INT64", "contents { int64_contents: -1 int64_contents: 7 }") for f in range(3)))
    one(1, "raw_keys", "".join(keys % (f, "UINT64", "") for f in range(3)) + ('raw_input_contents: "' + "\\005" * 16 + '" ') * 3)


def onnx():
    sys.path.insert(0, os.path.join(ROOT, "tests", "integration"))
    import onnx_bytes as o
    flat = bytes([0, 2, 27, 27])
    write("onnx", "mlp", flat + o.mlp((784, 3, 2), dropout=0.5, softmax=True))
    write("onnx", "linked", bytes([2, 2, 27, 27]) + o.mlp((784, 2), softmax=True))
    write("onnx", "external", bytes([12, 1, 3]) + o.model(
        [o.node("MatMul", ["x", "w"], ["y"])], [o.external("w", (4, 2), "a/w.bin", 64, 32)],
        [o.value("x", ["N", 4])], [o.value("y", ["N", 2])]))
    write("onnx", "norms", bytes([0, 3, 1, 3, 3]) + o.model(
        [o.node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], strides=[2, 2]),
         o.node("BatchNormalization", ["c", "g", "b", "m", "v"], ["n"]), o.node("Relu", ["n"], ["r"]),
         o.node("GlobalAveragePool", ["r"], ["a"]), o.node("Flatten", ["a"], ["y"])],
        [o.tensor("w", (2, 2, 3, 3), [0.5] * 36)] + [o.tensor(n, (2,), [1.0, 1.0]) for n in "gbmv"],
        [o.value("x", ["N", 2, 4, 4])], [o.value("y", ["N", 2])]))
    write("onnx", "shapes", bytes([0, 2, 1, 3]) + o.model(
        [o.node("Mul", ["x", "w"], ["z"]), o.node("Shape", ["z"], ["s"]), o.node("Gather", ["s", "i"], ["n"]),
         o.node("Unsqueeze", ["n", "i0"], ["u"]), o.node("Concat", ["u", "t"], ["f"], axis=0),
         o.node("Reshape", ["z", "f"], ["r"]), o.node("Slice", ["r", "i0", "t1", "t1"], ["q"]),
         o.node("Transpose", ["q"], ["p"], perm=[0, 2, 1]), o.node("Split", ["p"], ["p1", "p2"], axis=1),
         o.node("Pow", ["p1", "two"], ["e"]), o.node("Softmax", ["e"], ["o"], axis=1),
         o.node("ReduceMean", ["o"], ["y"], axes=[1], keepdims=0)],
        [o.tensor("w", (4,), [0.5] * 4), o.tensor("i", (), [0], 7), o.tensor("i0", (1,), [0], 7), o.tensor("two", (), [2.0]),
         o.tensor("t", (2,), [4, 2], 7), o.tensor("t1", (1,), [1], 7)],
        [o.value("x", ["N", 2, 4])], [o.value("y", ["N", 2])]))
    write("onnx", "pad", bytes([0, 2, 3, 4]) + o.model(
        [o.node("Mul", ["x", "w"], ["z"]), o.node("Pad", ["z", "p", "v"], ["q"]), o.node("Pad", ["q", "p2", "", "a"], ["r"], mode="reflect"),
         o.node("AveragePool", ["r"], ["s"], kernel_shape=[2]), o.node("Flatten", ["s"], ["y"])],
        [o.tensor("w", (4,), [0.5] * 4), o.tensor("p", (6,), [0, 0, 1, 0, 0, -1], 7), o.tensor("v", (), [2.0]),
         o.tensor("p2", (2,), [2, 1], 7), o.tensor("a", (1,), [-1], 7)],
        [o.value("x", ["N", 3, 4])], [o.value("y", ["N", 18])]))
    write("onnx", "cycle", flat + o.model(
        [o.node("Add", ["x", "c"], ["b"]), o.node("LSTM", ["b"], ["c"])], [], [o.value("x")], [o.value("c")]))


def encodings():
    plain = {"version": 1, "format": "csv", "labels": {"kind": "class", "count": 2, "names": ["x", "y"]}, "fills": [2.0, None],
             "records": {"where": "t.csv", "shape": [2], "bytes": False, "named": False, "columns": ["0", "2"], "categories": ["1"],
                         "fields": [], "weighted": False, "labels": "texts"},
             "categories": [["blue", {"hex": "73e9"}]], "vocabulary_files": [],
             "scaling": {"count": 2, "uniform": False, "shift": [1.5, 0.0], "factor": [2.0, 1.0]}}
    write("encoding", "plain", b"\0" + json.dumps(plain).encode())
    declared = {**plain, "labels": {"kind": "real", "scale": 2.0, "offset": 1.0}, "fills": [], "categories": [],
                "columns": {"numbers": [{"column": 0, "log": True, "mean": 1.0, "deviation": 0.5}], "buckets": [],
                            "categories": [{"column": "1", "known": ["red"], "missing": False, "unknown": False}], "sparse": []},
                "scaling": {"count": 1, "uniform": True, "shift": [0.0], "factor": [1.0]}}
    declared["records"] = {**plain["records"], "shape": [1], "columns": ["0"], "declared": [0, 1], "labels": "numbers"}
    write("encoding", "declared", b"\1" + json.dumps(declared).encode())
    lists = {**declared, "format": "libffm", "scaling": {"count": 0, "uniform": True, "shift": [0.0], "factor": [1.0]}}
    del lists["columns"]
    lists["records"] = {**plain["records"], "shape": [0], "columns": [], "categories": [], "labels": "numbers",
                        "fields": [{"name": str(i), "width": 0, "fold": "none"} for i in range(3)], "weighted": True}
    write("encoding", "lists", b"\2" + json.dumps(lists).encode())
    lists["records"] = {k: v for k, v in lists["records"].items() if k != "categories"}
    write("encoding", "no-categories", b"\2" + json.dumps(lists).encode())


def stored_rows():
    for name, key, cells in (
            ("job", "job/a-1", 'integer: 1} cells {text: "a-1"} cells {text: "a"} cells {integer: 1} cells {} cells {integer: 3} '
             'cells {integer: 0} cells {blob: "x"} cells {integer: -5} cells {}'),
            ("older", "job/a-1", 'integer: 1} cells {text: "a-1"} cells {text: "a"} cells {integer: 1} cells {text: "r"} '
             'cells {integer: 6} cells {integer: 0} cells {blob: ""}'),
            ("text", "text/owner:a-1", 'text: "owner:a-1"} cells {text: "ann"}'),
            ("point", "point/a-1/000000000000002a", 'text: "a-1"} cells {integer: 42} cells {integer: 7} cells {blob: "p"}')):
        write("stored_row", name, key.encode() + b"\n" + encode("StoredRow", "cells {" + cells))


def main():
    shutil.rmtree(CORPUS, ignore_errors=True)
    for make in (data_files, packed, seek, index, encodings, checkpoints, texts, tokens, certificates, store, ps_calls, master_calls, worker_calls,
                 answers, table_gradients, libgradus, http, infer, infer_json, onnx, stored_rows):
        make()
    return 0


if __name__ == "__main__":
    sys.exit(main())
