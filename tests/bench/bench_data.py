# SPDX-License-Identifier: Apache-2.0
"""How fast data files are read: bench_data, and beside it scikit-learn's reader of the same LIBSVM files, where that is
installed. MB of the file for each second of one thread's processor time, medians of 5. The reference of TFRecord would be
TensorFlow, which is no package of Debian; nothing is beside it here.

    script/bench data [MEGABYTES]"""

import os
import statistics
import subprocess
import sys
import tempfile
import time


def scikit_learn(path):
    try:
        from sklearn.datasets import load_svmlight_file
    except ImportError:
        return None
    rates = []
    for _ in range(5):
        begin = time.process_time()
        load_svmlight_file(path)
        rates.append(os.path.getsize(path) / 1e6 / (time.process_time() - begin))
    return statistics.median(rates)


def main():
    with tempfile.TemporaryDirectory() as directory:
        out = subprocess.run([os.path.join(sys.argv[1], "bench_data"), directory, *sys.argv[2:]], check=True,
                             stdout=subprocess.PIPE, text=True).stdout
        print(f"{'file':13} {'MB':>8} {'read':>8} {'ready':>8} {'sklearn':>8} {'ratio':>6}")
        for line in out.splitlines():
            name, _, read, _ = line.split()
            other = scikit_learn(os.path.join(directory, name)) if name.startswith("libsvm") else None
            print(line + (f" {other:8.1f} {float(read) / other:6.1f}" if other else ""))


if __name__ == "__main__":
    main()
