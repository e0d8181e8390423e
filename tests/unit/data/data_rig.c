/* SPDX-License-Identifier: Apache-2.0 */
/* Files, specs and data sets for the tests of this room. */
#include "data_rig.h"

#include <zlib.h>
#include <zstd.h>

char *fixture_dir;

int fixture_setup(void **state)
{
    (void)state;
    fixture_dir = tmp_dir_make("data");
    return 0;
}

int fixture_teardown(void **state)
{
    (void)state;
    tmp_dir_remove(fixture_dir);
    return 0;
}

void fixture_write(const char *name, const void *data, size_t n)
{
    char *path = file_join(fixture_dir, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    free(path);
}

void fixture_text(const char *name, const char *text)
{
    fixture_write(name, text, strlen(text));
}

void fixture_write_gz(const char *name, const void *data, size_t n)
{
    char *path = file_join(fixture_dir, name);
    gzFile f = gzopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(gzwrite(f, data, (unsigned)n), (int)n);
    assert_int_equal(gzclose(f), Z_OK);
    free(path);
}

void fixture_write_zstd(const char *name, const void *data, size_t n)
{
    size_t capacity = ZSTD_compressBound(n);
    char *packed = mem_new(capacity, 1);
    size_t bytes = ZSTD_compress(packed, capacity, data, n, 3);
    assert_false(ZSTD_isError(bytes));
    fixture_write(name, packed, bytes);
    free(packed);
}

uint8_t *fixture_idx(uint8_t type, const uint32_t *dims, size_t rank, const void *values, size_t n,
                     size_t *size)
{
    uint8_t *p = mem_new(4 + rank * 4 + n, 1);
    p[2] = type;
    p[3] = (uint8_t)rank;
    for (size_t i = 0; i < rank; i++) {
        p[4 + 4 * i] = (uint8_t)(dims[i] >> 24);
        p[5 + 4 * i] = (uint8_t)(dims[i] >> 16);
        p[6 + 4 * i] = (uint8_t)(dims[i] >> 8);
        p[7 + 4 * i] = (uint8_t)dims[i];
    }
    if (n > 0) {
        memcpy(p + 4 + rank * 4, values, n);
    }
    *size = 4 + rank * 4 + n;
    return p;
}

void fixture_write_idx(const char *name, uint8_t type, const uint32_t *dims, size_t rank,
                       const void *values, size_t n)
{
    size_t size;
    uint8_t *file = fixture_idx(type, dims, rank, values, n, &size);
    fixture_write(name, file, size);
    free(file);
}

struct data_spec fixture_spec(char *train, char *labels)
{
    static char minus_one[] = "-1", comma[] = ",", none[] = "";
    return (struct data_spec){
        .dir = fixture_dir,
        .train = {.file = train, .labels = labels},
        .test = {.file = none, .labels = none},
        .label = minus_one,
        .weight = none,
        .separator = comma,
        .categorical = none,
        .ignore = none,
        .first_index = 1,
    };
}

/* The records of both have the same bits. */
static void check_equal(const struct dataset *d, const struct dataset *other)
{
    const struct dataset_info *a = dataset_info(d), *b = dataset_info(other);
    assert_int_equal(a->records, b->records);
    assert_true(shape_equal(&a->features, &b->features));
    assert_int_equal(a->fields.count, b->fields.count);
    assert_int_equal(a->classes, b->classes);
    assert_true(a->fingerprint == b->fingerprint);
    assert_memory_equal(&a->label_scale, &b->label_scale, sizeof a->label_scale);
    assert_memory_equal(&a->label_offset, &b->label_offset, sizeof a->label_offset);
    struct batch x = fixture_read(d), y = fixture_read(other);
    const size_t values = x.count * (size_t)shape_count(&a->features);
    assert_memory_equal(x.features, y.features, values * sizeof *x.features);
    assert_memory_equal(x.classes, y.classes, x.count * sizeof *x.classes);
    assert_memory_equal(x.targets, y.targets, x.count * sizeof *x.targets);
    assert_int_equal(a->weighted, b->weighted);
    assert_int_equal(x.weights != NULL, a->weighted);
    if (a->weighted) {
        assert_memory_equal(x.weights, y.weights, x.count * sizeof *x.weights);
    }
    for (size_t i = 0; i < a->fields.count; i++) {
        assert_string_equal(a->fields.names[i], b->fields.names[i]);
        assert_int_equal(sparse_fields_keys_of(dataset_fields(d), i),
                         sparse_fields_keys_of(dataset_fields(other), i));
        const uint64_t *p = x.lists.offsets + i * (x.lists.capacity + 1);
        const uint64_t *q = y.lists.offsets + i * (y.lists.capacity + 1);
        assert_memory_equal(p, q, (x.count + 1) * sizeof *p);
        assert_memory_equal(x.lists.keys + p[0], y.lists.keys + q[0],
                            (p[x.count] - p[0]) * sizeof *x.lists.keys);
    }
    batch_release(&x);
    batch_release(&y);
}

/* What is in memory comes from the files with the same bits, twice: while the index is made, and
 * with it. What can only be read as a whole is refused. */
static void check_streamed(const struct data_spec *spec, enum data_label_kind kind,
                           const struct dataset *train, const struct dataset *test)
{
    struct data_spec streamed = *spec;
    char *cache = tmp_dir_make("index");
    streamed.loading = DATA_LOADING_STREAM;
    streamed.memory = 1;
    streamed.cache_dir = cache;
    for (int i = 0; i < 2; i++) {
        struct dataset *d = NULL, *second = NULL;
        struct err err = {0};
        int rc = dataset_open(&streamed, kind, &d, &second, &err);
        if (rc == ERR_UNSUPPORTED) {
            break;
        }
        if (rc != 0) {
            fail_msg("streamed: %s", err.msg);
        }
        assert_int_equal(strstr(dataset_loading(d), "made now") != NULL, i == 0);
        check_equal(train, d);
        assert_int_equal(dataset_bad_records(train, NULL), dataset_bad_records(d, NULL));
        assert_int_equal(test == NULL, second == NULL);
        if (test != NULL) {
            check_equal(test, second);
            assert_int_equal(dataset_bad_records(test, NULL), dataset_bad_records(second, NULL));
        }
        dataset_free(d);
        dataset_free(second);
    }
    tmp_dir_remove(cache);
}

static void check_streamed_refused(const struct data_spec *spec, enum data_label_kind kind,
                                   int code, const char *part)
{
    struct data_spec streamed = *spec;
    struct dataset *train = NULL, *test = NULL;
    struct err err = {0};
    char *cache = tmp_dir_make("index");
    streamed.loading = DATA_LOADING_STREAM;
    streamed.memory = 1;
    streamed.cache_dir = cache;
    int rc = code == ERR_EXHAUSTED
                 ? ERR_UNSUPPORTED /* what is too much for memory may be none here */
                 : dataset_open(&streamed, kind, &train, &test, &err);
    if (rc != ERR_UNSUPPORTED) {
        if (rc != code || strstr(err.msg, part) == NULL) {
            print_error("streamed: expected \"%s\", got %d \"%s\"\n", part, rc, err.msg);
        }
        assert_int_equal(rc, code);
        assert_non_null(strstr(err.msg, part));
    }
    tmp_dir_remove(cache);
}

void fixture_refused(const struct data_spec *spec, enum data_label_kind kind, int code,
                     const char *part)
{
    struct dataset *train = NULL, *test = NULL;
    struct err err = {0};
    int rc = dataset_open(spec, kind, &train, &test, &err);
    if (rc == 0 || strstr(err.msg, part) == NULL) {
        print_error("expected \"%s\", got %d \"%s\"\n", part, rc, err.msg);
    }
    assert_int_equal(rc, code);
    assert_int_equal(err.code, code);
    assert_non_null(strstr(err.msg, part));
    assert_null(train);
    assert_null(test);
    check_streamed_refused(spec, kind, code, part);
}

struct dataset *fixture_open(const struct data_spec *spec, enum data_label_kind kind,
                             struct dataset **test)
{
    struct dataset *train = NULL, *second = NULL;
    struct err err = {0};
    if (dataset_open(spec, kind, &train, &second, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    check_streamed(spec, kind, train, second);
    if (test != NULL) {
        *test = second;
    } else {
        assert_null(second);
    }
    return train;
}

struct batch fixture_read(const struct dataset *d)
{
    size_t n = (size_t)dataset_info(d)->records;
    struct batch b;
    assert_int_equal(batch_init(&b, d, n, NULL), 0);
    uint64_t *records = mem_new(n, sizeof *records);
    for (size_t i = 0; i < n; i++) {
        records[i] = i;
    }
    assert_int_equal(dataset_read(d, records, n, &b, NULL), 0);
    free(records);
    return b;
}
