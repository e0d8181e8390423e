/* SPDX-License-Identifier: Apache-2.0 */
/* How fast batches come from records in memory and from records that stay in their file.
 *
 * Usage: bench_stream DIR [MEGABYTES] [MEMORY]
 *
 * Writes a LIBSVM file of MEGABYTES (500) into DIR, unless it is there, 30 real values in each
 * line, read as one sparse field. Each way in a process of its own: data.loading: memory; stream
 * with data.memory: MEMORY (64) MiB, the first time, which makes the index, and again; and so once
 * more of the file as `gradus convert` packs it. A line for
 * each: NAME, seconds until the data are open, records per second of batches of 64 in the order of
 * the file and MB of it per second, records per second in the order of an epoch, MB that the
 * process had at most. Times are of the clock, medians of 5 where they are short.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/convert.h"
#include "data/dataset.h"
#include "data/order.h"
#include "os/chrono.h"
#include "os/file.h"

#define BATCH 64
#define REPEATS 5
#define RECORDS 40000 /* of each measurement */
#define PIECE_BYTES (4U << 20)

static void fail(const struct err *err)
{
    (void)fprintf(stderr, "bench_stream: %s\n", err->msg);
    exit(1);
}

static void add_line(struct buf *out, uint64_t i)
{
    buf_add_str(out, rng_below(1, i, 2) == 0 ? "-1" : "+1");
    for (uint64_t k = 0, index = 1; k < 30; k++) {
        index += 1 + rng_below(2, i * 30 + k, 32);
        buf_printf(out, " %d:%.6f", (int)index, rng_uniform(3, i * 30 + k));
    }
    buf_add_char(out, '\n');
}

static void make_file(const char *path, uint64_t bytes)
{
    struct file_writer w;
    struct err err = {0};
    struct buf piece = {0};
    if (file_exists(path)) {
        return;
    }
    int rc = file_writer_open(&w, path, &err);
    for (uint64_t i = 0; rc == 0 && w.offset < bytes; i++) {
        add_line(&piece, i);
        if (piece.len >= PIECE_BYTES || w.offset + piece.len >= bytes) {
            rc = file_writer_add(&w, piece.data, piece.len, &err);
            buf_reset(&piece);
        }
    }
    rc = rc != 0 ? rc : file_writer_commit(&w, &err);
    buf_release(&piece);
    if (rc != 0) {
        fail(&err);
    }
}

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* Records per second, of RECORDS from @first on, in the order of the file or of an epoch. */
static double rate(const struct dataset *d, struct batch *b, uint64_t first, bool shuffled)
{
    const uint64_t all = dataset_info(d)->records;
    struct order order;
    struct err err = {0};
    order_init(&order, all, 1, first);
    const uint64_t begin = chrono_now_ns();
    for (uint64_t i = 0; i < RECORDS; i += BATCH) {
        uint64_t records[BATCH];
        for (uint64_t k = 0; k < BATCH; k++) {
            const uint64_t at = (first + i + k) % all;
            records[k] = shuffled ? order_record(&order, at) : at;
        }
        if (dataset_read(d, records, BATCH, b, &err) != 0) {
            fail(&err);
        }
    }
    return RECORDS / ((double)(chrono_now_ns() - begin) * 1e-9);
}

static double median_rate(const struct dataset *d, struct batch *b, bool shuffled)
{
    double rates[REPEATS];
    for (uint64_t i = 0; i < REPEATS; i++) {
        rates[i] = rate(d, b, i * RECORDS, shuffled);
    }
    qsort(rates, REPEATS, sizeof *rates, by_value);
    return rates[REPEATS / 2];
}

static void measure(const char *name, const struct data_spec *spec, double mb)
{
    struct dataset *train = NULL, *test = NULL;
    struct batch b;
    struct err err = {0};
    const uint64_t begin = chrono_now_ns();
    if (dataset_open(spec, DATA_LABEL_CLASS, &train, &test, &err) != 0 ||
        batch_init(&b, train, BATCH, &err) != 0) {
        fail(&err);
    }
    const double opened = (double)(chrono_now_ns() - begin) * 1e-9;
    const double in_order = median_rate(train, &b, false), shuffled = median_rate(train, &b, true);
    const double each = mb / (double)dataset_info(train)->records;
    struct rusage used;
    (void)getrusage(RUSAGE_SELF, &used);
    (void)printf("%-14s %8.1f %10.0f %8.1f %10.0f %8.1f\n", name, opened, in_order, in_order * each,
                 shuffled, (double)used.ru_maxrss / 1024);
    (void)fflush(stdout);
    batch_release(&b);
    dataset_free(train);
}

/* The most that a process has had is its own. */
static void measure_apart(const char *name, const struct data_spec *spec, double mb)
{
    pid_t child = fork();
    if (child == 0) {
        measure(name, spec, mb);
        exit(0);
    }
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        exit(1);
    }
}

/* As `gradus convert` does, which gives its rate on stderr. */
static void pack(const char *path, const char *output)
{
    const struct convert_request q = {
        .inputs = &path, .count = 1, .output = output, .block_bytes = 256U << 10, .level = 3};
    struct convert_result result;
    struct err err = {0};
    const uint64_t begin = chrono_now_ns();
    if (convert_files(&q, &result, &err) != 0) {
        fail(&err);
    }
    (void)fprintf(stderr, "packed: %.1f MB into %.1f MB, %.1f MB/s\n", (double)result.content / 1e6,
                  (double)result.packed / 1e6,
                  (double)result.content / 1e6 / ((double)(chrono_now_ns() - begin) * 1e-9));
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        (void)fputs("usage: bench_stream DIR [MEGABYTES] [MEMORY]\n", stderr);
        return 2;
    }
    const uint64_t bytes = (argc > 2 ? strtoul(argv[2], NULL, 10) : 500) * 1000000;
    struct data_column keys = {
        .column = (char[]){"words"}, .as = COLUMN_SPARSE, .hash = COLUMN_HASH_NONE, .width = 1000};
    char *path = file_join(argv[1], "stream.libsvm");
    struct data_spec spec = {0};
    field_defaults(data_fields, data_field_count, &spec);
    make_file(path, bytes);
    spec.train.file = mem_strdup(path);
    spec.format = DATA_FORMAT_LIBSVM;
    spec.columns = &keys;
    spec.column_count = 1;
    spec.memory = (int64_t)(argc > 3 ? strtoul(argv[3], NULL, 10) : 64) << 20;
    spec.loading = DATA_LOADING_MEMORY;
    (void)printf("%-14s %8s %10s %8s %10s %8s\n", "loading", "open, s", "in order/s", "MB/s",
                 "shuffled/s", "peak MB");
    (void)fflush(stdout);
    measure_apart("memory", &spec, (double)bytes / 1e6);
    spec.loading = DATA_LOADING_STREAM;
    measure_apart("stream, new", &spec, (double)bytes / 1e6);
    measure_apart("stream", &spec, (double)bytes / 1e6);
    char *packed = mem_printf("%s.zst", path);
    pack(path, packed);
    free(spec.train.file);
    spec.train.file = packed;
    measure_apart("packed, new", &spec, (double)bytes / 1e6);
    measure_apart("packed", &spec, (double)bytes / 1e6);
    spec.column_count = 0; /* the columns are not the table's */
    spec.columns = NULL;
    field_release(data_fields, data_field_count, &spec);
    free(path);
    return 0;
}
