# SPDX-License-Identifier: Apache-2.0
"""How fast data files are read: bench_data, and beside it those readers that others would use, as far as they are installed:
scikit-learn for LIBSVM (target: 3 times as fast), pandas for tables of text, TensorFlow for TFRecord. That is no package of
Debian; without it a loop of Python's over protobuf's messages stands there, which checks no checksums. MB of the file for each
second of processor time of one thread, medians of 5. What is not installed is named at the end.

    script/bench data [MEGABYTES]"""

import os
import statistics
import subprocess
import sys
import tempfile
import time

for name in ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
    os.environ.setdefault(name, "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
RUNS = 5


def scikit_learn():
    from sklearn.datasets import load_svmlight_file
    return load_svmlight_file


def pandas_clicks():
    """Counts as floats, categories as the 32-bit numbers that they are in hexadecimal."""
    import pandas

    def read(path):
        table = pandas.read_csv(path, sep="\t", header=None, engine="c",
                                dtype={**{i: "float32" for i in range(14)}, **{i: "str" for i in range(14, 40)}})
        for i in range(14, 40):
            table[i] = table[i].map(lambda text: int(text, 16), na_action="ignore")
        return table
    return read


def pandas_numbers():
    import pandas
    return lambda path: pandas.read_csv(path, header=None, dtype="float32", engine="c")


def tensorflow():
    import tensorflow as tf
    features = {"y0": tf.io.FixedLenFeature([1], tf.int64)}
    features.update({f"I{i}": tf.io.FixedLenFeature([1], tf.float32) for i in range(1, 14)})
    features.update({f"C{i}": tf.io.VarLenFeature(tf.int64) for i in range(1, 27)})

    def read(path):
        for batch in tf.data.TFRecordDataset(path).batch(1024):
            tf.io.parse_example(batch, features)
    return read


def protobuf():
    """tf.train.Example, declared here: a map from names to lists of bytes, floats or int64."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    file = descriptor_pb2.FileDescriptorProto(name="bench_example.proto", package="bench", syntax="proto3")

    def message(name, *fields):
        m = file.message_type.add(name=name)
        for number, (field, label, kind, of) in enumerate(fields, 1):
            f = m.field.add(name=field, number=number, label=label, type=kind)
            if of:
                f.type_name = ".bench." + of
        return m
    kinds = descriptor_pb2.FieldDescriptorProto
    one, many = kinds.LABEL_OPTIONAL, kinds.LABEL_REPEATED
    message("BytesList", ("value", many, kinds.TYPE_BYTES, None))
    message("FloatList", ("value", many, kinds.TYPE_FLOAT, None))
    message("Int64List", ("value", many, kinds.TYPE_INT64, None))
    message("Feature", *((f"{k.lower()}_list", one, kinds.TYPE_MESSAGE, k + "List") for k in ("Bytes", "Float", "Int64")))
    features = message("Features", ("feature", many, kinds.TYPE_MESSAGE, "Features.FeatureEntry"))
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=one, type=kinds.TYPE_STRING)
    entry.field.add(name="value", number=2, label=one, type=kinds.TYPE_MESSAGE, type_name=".bench.Feature")
    message("Example", ("features", one, kinds.TYPE_MESSAGE, "Features"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    descriptor = pool.FindMessageTypeByName("bench.Example")
    get_class = getattr(message_factory, "GetMessageClass", None) or message_factory.MessageFactory(pool).GetPrototype
    example = get_class(descriptor)
    numbers, keys = [f"I{i}" for i in range(1, 14)], [f"C{i}" for i in range(1, 27)]

    def read(path):
        with open(path, "rb") as f:
            data = f.read()
        at = 0
        while at < len(data):
            size = int.from_bytes(data[at:at + 8], "little")
            found = example.FromString(data[at + 12:at + 12 + size]).features.feature
            for name in numbers:
                found[name].float_list.value[0]
            for name in keys:
                found[name].int64_list.value[0]
            at += size + 16
    return read


READERS = {
    "libsvm": (("scikit-learn", scikit_learn),),
    "libsvm-ones": (("scikit-learn", scikit_learn),),
    "csv-numbers": (("pandas", pandas_numbers),),
    "clicks-tsv": (("pandas", pandas_clicks),),
    "clicks-criteo": (("pandas", pandas_clicks),),
    "tfrecord": (("tensorflow", tensorflow), ("protobuf", protobuf)),
}


def measure(read, path):
    rates = []
    for _ in range(RUNS):
        begin = time.process_time()
        read(path)
        rates.append(os.path.getsize(path) / 1e6 / (time.process_time() - begin))
    return statistics.median(rates)


def first_there(readers, absent):
    for package, make in readers:
        try:
            return package, make()
        except ImportError:
            absent.add(package)
    return None, None


def main():
    absent = set()
    with tempfile.TemporaryDirectory() as directory:
        out = subprocess.run([os.path.join(sys.argv[1], "bench_data"), directory, *sys.argv[2:]], check=True,
                             stdout=subprocess.PIPE, text=True).stdout
        print(f"{'file':13} {'MB':>8} {'read':>8} {'ready':>8} {'other':>8} {'ratio':>6}  reader")
        for line in out.splitlines():
            name, _, read, _ = line.split()
            package, reader = first_there(READERS.get(name, ()), absent)
            if reader is None:
                print(line, flush=True)
                continue
            other = measure(reader, os.path.join(directory, name))
            print(f"{line} {other:8.1f} {float(read) / other:6.1f}  {package}", flush=True)
    if absent:
        print("not installed, so not beside it: " + ", ".join(sorted(absent)))


if __name__ == "__main__":
    main()
