/* SPDX-License-Identifier: Apache-2.0 */
/* How fast data files are read, in MB of the file for each second of one thread's processor time.
 *
 * Usage: bench_data DIR [MEGABYTES]
 *
 * Writes files of about MEGABYTES (16) into DIR, unless they are there: LIBSVM with real values
 * (30 of 1,000 features each) and with ones (as word lists), once more with one sparse field,
 * libFFM of 39 fields, CSV of 30 numbers, and a table of clicks as Criteo's: label, 13 counts, 26
 * categories, separated by tabs, read as CSV and by the reader of Criteo's files, and TFRecord of
 * the same fields. Two figures of each: "read" is the text made into records, "ready" the whole of
 * dataset_open(): features spread, hashed and scaled, and the fingerprint. One line for each, the
 * median of 5: NAME MB READ READY.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/buf.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/dataset.h"
#include "data/format.h"
#include "os/file.h"

#define REPEATS 5
#define RECORDS_READY 20000 /* of dataset_open(), whose features are dense */

static double spent_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fail(const struct err *err)
{
    (void)fprintf(stderr, "bench_data: %s\n", err->msg);
    exit(1);
}

static void add_libsvm(struct buf *out, uint64_t i, bool ones)
{
    buf_printf(out, "%s", rng_below(1, i, 2) == 0 ? "-1" : "+1");
    uint64_t index = 1;
    for (uint64_t k = 0; k < 30; k++) {
        index += 1 + rng_below(2, i * 30 + k, 32);
        if (ones) {
            buf_printf(out, " %d:1", (int)index);
        } else {
            buf_printf(out, " %d:%.6f", (int)index, rng_uniform(3, i * 30 + k));
        }
    }
    buf_add_char(out, '\n');
}

static void add_real(struct buf *out, uint64_t i)
{
    add_libsvm(out, i, false);
}

static void add_ones(struct buf *out, uint64_t i)
{
    add_libsvm(out, i, true);
}

static void add_numbers(struct buf *out, uint64_t i)
{
    for (uint64_t k = 0; k < 30; k++) {
        buf_printf(out, "%.4f,", rng_uniform(4, i * 30 + k) * 100);
    }
    buf_printf(out, "%d\n", (int)rng_below(5, i, 2));
}

static void add_ffm(struct buf *out, uint64_t i)
{
    buf_printf(out, "%d", (int)rng_below(9, i, 2));
    for (uint64_t k = 0; k < 39; k++) {
        buf_printf(out, " %d:%d:%.4f", (int)k, (int)rng_below(10, i * 39 + k, 1000000),
                   rng_uniform(11, i * 39 + k));
    }
    buf_add_char(out, '\n');
}

static void add_clicks(struct buf *out, uint64_t i)
{
    buf_printf(out, "%d", (int)rng_below(6, i, 2));
    for (uint64_t k = 0; k < 13; k++) {
        uint64_t n = rng_below(7, i * 13 + k, 500);
        buf_add_char(out, '\t');
        if (n % 5 != 0) {
            buf_printf(out, "%d", (int)n);
        }
    }
    for (uint64_t k = 0; k < 26; k++) {
        uint64_t n = rng_below(8, i * 26 + k, 1000);
        buf_add_char(out, '\t');
        if (n % 10 != 0) {
            buf_printf(out, "%08x", (unsigned)(n * n * 2654435761U));
        }
    }
    buf_add_char(out, '\n');
}

static struct data_column clicks[] = {
    {.column = (char[]){"0"}, .as = COLUMN_LABEL},
    {.column = (char[]){"1..13"}, .missing = COLUMN_MISSING_ZERO, .log = true, .standardise = true},
    {.column = (char[]){"14..39"},
     .as = COLUMN_CATEGORY,
     .missing = COLUMN_MISSING_ZERO,
     .buckets = 20},
};

/* TFRecord of tf.train.Example: label, 13 floats, 26 int64 of 32 bits. */
static void add_span(struct buf *out, unsigned tag, const struct buf *bytes)
{
    buf_add_char(out, (char)tag);
    for (size_t n = bytes->len;; n >>= 7) {
        buf_add_char(out, (char)(n < 0x80 ? n : (n | 0x80)));
        if (n < 0x80) {
            break;
        }
    }
    buf_add(out, bytes->data, bytes->len);
}

static void add_feature(struct buf *features, const char *prefix, uint64_t number, unsigned kind,
                        const struct buf *values)
{
    struct buf list = {0}, feature = {0}, entry = {0}, name = {0};
    add_span(&list, 0x0A, values);
    add_span(&feature, kind << 3 | 2, &list);
    buf_printf(&name, "%s%d", prefix, (int)number);
    add_span(&entry, 0x0A, &name);
    add_span(&entry, 0x12, &feature);
    add_span(features, 0x0A, &entry);
    buf_release(&list);
    buf_release(&feature);
    buf_release(&entry);
    buf_release(&name);
}

static void add_example(struct buf *out, uint64_t i)
{
    struct buf features = {0}, example = {0}, values = {0};
    buf_add_char(&values, (char)rng_below(12, i, 2));
    add_feature(&features, "y", 0, 3, &values);
    for (uint64_t k = 1; k <= 13; k++) {
        float x = (float)rng_uniform(13, i * 13 + k);
        buf_reset(&values);
        buf_add(&values, (const char *)&x, sizeof x);
        add_feature(&features, "I", k, 2, &values);
    }
    for (uint64_t k = 1; k <= 26; k++) {
        uint64_t key = rng_below(14, i * 26 + k, UINT32_MAX);
        buf_reset(&values);
        for (; key >= 0x80; key >>= 7) {
            buf_add_char(&values, (char)(key | 0x80));
        }
        buf_add_char(&values, (char)key);
        add_feature(&features, "C", k, 3, &values);
    }
    add_span(&example, 0x0A, &features);
    char length[8] = {(char)example.len, (char)(example.len >> 8)};
    uint32_t sums[2] = {crc32c_masked(length, sizeof length),
                        crc32c_masked(example.data, example.len)};
    buf_add(out, length, sizeof length);
    buf_add(out, (const char *)&sums[0], sizeof sums[0]);
    buf_add(out, example.data, example.len);
    buf_add(out, (const char *)&sums[1], sizeof sums[1]);
    buf_release(&features);
    buf_release(&example);
    buf_release(&values);
}

static struct data_column features[] = {
    {.column = (char[]){"y0"}, .as = COLUMN_LABEL},
    {.column = (char[]){"I1..I13"}, .length = 1},
    {.column = (char[]){"C1..C26"}, .as = COLUMN_SPARSE, .width = 20},
};

static struct data_column criteo[] = {
    {.column = (char[]){"label"}, .as = COLUMN_LABEL},
    {.column = (char[]){"I1..I13"},
     .missing = COLUMN_MISSING_ZERO,
     .log = true,
     .standardise = true},
    {.column = (char[]){"C1..C26"},
     .as = COLUMN_SPARSE,
     .missing = COLUMN_MISSING_ZERO,
     .width = 20},
};

static struct data_column keys[] = {
    {.column = (char[]){"0..38"}, .as = COLUMN_SPARSE, .width = 20},
};

static const struct file_kind {
    const char *name;
    void (*add)(struct buf *out, uint64_t i);
    enum data_format format;
    const char *separator;
    struct data_column *columns;
    size_t column_count;
} kinds[] = {
    {"libsvm", add_real, DATA_FORMAT_LIBSVM, ",", NULL, 0},
    {"libsvm-ones", add_ones, DATA_FORMAT_LIBSVM, ",", NULL, 0},
    {"libsvm-keys", add_real, DATA_FORMAT_LIBSVM, ",", keys, 1},
    {"libffm", add_ffm, DATA_FORMAT_LIBFFM, ",", keys, 1},
    {"csv-numbers", add_numbers, DATA_FORMAT_CSV, ",", NULL, 0},
    {"clicks-tsv", add_clicks, DATA_FORMAT_CSV, "tab", clicks, 3},
    {"tfrecord", add_example, DATA_FORMAT_TFRECORD, ",", features, 3},
    {"clicks-criteo", add_clicks, DATA_FORMAT_CRITEO, ",", criteo, 3},
};

static size_t make_file(const struct file_kind *k, const char *path, size_t bytes)
{
    struct stat s;
    if (stat(path, &s) == 0 && s.st_size > 0) {
        return (size_t)s.st_size;
    }
    struct buf out = {0};
    struct err err = {0};
    for (uint64_t i = 0; out.len < bytes; i++) {
        k->add(&out, i);
    }
    if (file_write_atomic(path, out.data, out.len, &err) != 0) {
        fail(&err);
    }
    size_t n = out.len;
    buf_release(&out);
    return n;
}

/* *@records: how many the file has. */
static double read_s(const struct data_spec *spec, const char *path, double *records_read)
{
    struct format_request q = {
        .spec = spec, .path = path, .labels_path = "", .key = "train", .label_is_class = true};
    struct format_choice choice = {0};
    struct records records = {0};
    struct err err = {0};
    double begin = spent_s();
    if (format_find(spec, path, &choice, &err) != 0 ||
        choice.format->read(&q, &records, &err) != 0) {
        fail(&err);
    }
    double s = spent_s() - begin;
    *records_read = (double)records.count;
    records_release(&records);
    return s;
}

/* Of the first records; *@part is set to the part of the file that they are. */
static double ready_s(struct data_spec *spec, double *part)
{
    struct dataset *train = NULL, *test = NULL;
    struct err err = {0};
    spec->train.limit = RECORDS_READY;
    double begin = spent_s();
    if (dataset_open(spec, DATA_LABEL_CLASS, &train, &test, &err) != 0) {
        fail(&err);
    }
    double s = spent_s() - begin;
    *part = (double)dataset_info(train)->records;
    spec->train.limit = 0;
    dataset_free(train);
    return s;
}

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double median(double *values)
{
    qsort(values, REPEATS, sizeof *values, by_value);
    return values[REPEATS / 2];
}

static void measure(const struct file_kind *k, const char *dir, size_t bytes)
{
    char *path = mem_printf("%s/%s", dir, k->name);
    struct data_spec spec = {0};
    field_defaults(data_fields, data_field_count, &spec);
    spec.train.file = mem_strdup(path);
    free(spec.separator);
    spec.separator = mem_strdup(k->separator);
    spec.format = (int)k->format;
    spec.header = DATA_HEADER_FALSE;
    spec.columns = k->columns;
    spec.column_count = k->column_count;
    size_t n = make_file(k, path, bytes);
    double read[REPEATS], ready[REPEATS], records = 1, all = 1;
    for (size_t i = 0; i < REPEATS; i++) {
        read[i] = read_s(&spec, path, &all);
        ready[i] = ready_s(&spec, &records);
    }
    double mb = (double)n / 1e6, part = records / all;
    (void)printf("%-13s %8.1f %8.1f %8.1f\n", k->name, mb, mb / median(read),
                 mb * part / median(ready));
    field_release(data_fields, data_field_count, &spec);
    free(path);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        (void)fputs("usage: bench_data DIR [MEGABYTES]\n", stderr);
        return 2;
    }
    size_t bytes = (argc > 2 ? (size_t)strtoul(argv[2], NULL, 10) : 16) * 1000000;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        measure(&kinds[i], argv[1], bytes);
    }
    return 0;
}
