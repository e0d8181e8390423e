/* SPDX-License-Identifier: Apache-2.0 */
/* Random garbage and random damage through every format: any answer is fine, a crash is not. */
#include "support/test.h"

#include "base/rng.h"
#include "unit/data/data_rig.h"

#define ROUNDS 1500

struct text {
    uint8_t bytes[2048];
    size_t n;
};

static void open_once(const struct data_spec *spec)
{
    struct dataset *train = NULL, *test = NULL;
    struct err err = {0};
    int rc = dataset_open(spec, DATA_LABEL_CLASS, &train, &test, &err);
    if (rc == 0) {
        struct batch b = fixture_read(train);
        batch_release(&b);
    } else {
        assert_true(err.code == rc && err.msg[0] != '\0');
    }
    dataset_free(train);
    dataset_free(test);
}

/* Bytes of @alphabet, or any bytes when it is NULL. */
static void garbage(struct text *t, uint64_t key, const char *alphabet)
{
    t->n = (size_t)rng_below(key, 0, 400);
    size_t letters = alphabet == NULL ? 256 : strlen(alphabet);
    for (size_t i = 0; i < t->n; i++) {
        uint64_t k = rng_below(key, i + 1, letters);
        t->bytes[i] = alphabet == NULL ? (uint8_t)k : (uint8_t)alphabet[k];
    }
}

/* Change, cut or repeat a few bytes. */
static void damage(struct text *t, uint64_t key)
{
    uint64_t changes = rng_below(key, 0, 4);
    for (uint64_t i = 0; i < changes && t->n > 0; i++) {
        size_t at = (size_t)rng_below(key, 10 * i + 1, t->n);
        switch (rng_below(key, 10 * i + 2, 3)) {
        case 0:
            t->bytes[at] = (uint8_t)rng_below(key, 10 * i + 3, 256);
            break;
        case 1:
            t->n = at;
            break;
        default:
            memmove(t->bytes + at, t->bytes + at / 2, t->n - at);
            break;
        }
    }
}

/* Through the table: a new format is here without a new test. */
static void every_format_survives_garbage(void **state)
{
    (void)state;
    for (int format = DATA_FORMAT_AUTO; format < DATA_FORMAT_COUNT; format++) {
        for (uint64_t round = 0; round < ROUNDS / 3; round++) {
            struct text t;
            garbage(&t, rng_key_mix(rng_key(3, "any"), round), NULL);
            fixture_write("x", t.bytes, t.n);
            struct data_spec spec =
                fixture_spec((char[]){"x"}, round % 2 == 0 ? (char[]){"x"} : (char[]){""});
            spec.format = format;
            open_once(&spec);
        }
    }
}

static void idx_survives(void **state)
{
    (void)state;
    static const uint8_t types[] = {8, 9, 11, 12, 13, 14};
    static const uint8_t values[512] = {1, 2, 3};
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t key = rng_key_mix(rng_key(1, "idx"), round);
        size_t rank = 1 + (size_t)rng_below(key, 1, 4);
        uint32_t dims[4];
        for (size_t i = 0; i < 4; i++) {
            dims[i] = 1 + (uint32_t)rng_below(key, 2 + i, 3);
        }
        size_t n;
        uint8_t *file = fixture_idx(types[rng_below(key, 8, 6)], dims, rank, values,
                                    (size_t)rng_below(key, 9, sizeof values), &n);
        struct text t = {.n = n};
        memcpy(t.bytes, file, n);
        free(file);
        damage(&t, key);
        fixture_write("x", t.bytes, t.n);
        fixture_write_idx("y", 8, dims, 1, values, dims[0]);
        struct data_spec spec = fixture_spec((char[]){"x"}, (char[]){"y"});
        spec.format = DATA_FORMAT_IDX;
        open_once(&spec);
        spec = fixture_spec((char[]){"x"}, (char[]){"x"});
        open_once(&spec);
        garbage(&t, key, NULL);
        fixture_write("x", t.bytes, t.n);
        open_once(&spec);
    }
}

static void packed_survives(void (*pack)(const char *name, const void *data, size_t n))
{
    static const char csv[] = "a,b,c\n1,2,x\n3,4,y\n5,6,x\n";
    pack("x", csv, sizeof csv - 1);
    char *path = file_join(fixture_dir, "x");
    struct buf whole = {0};
    assert_int_equal(file_read(path, 2048, &whole, NULL), 0);
    struct data_spec spec = fixture_spec((char[]){"x"}, (char[]){""});
    for (uint64_t round = 0; round < ROUNDS; round++) {
        struct text t = {.n = whole.len};
        memcpy(t.bytes, whole.data, whole.len);
        damage(&t, rng_key_mix(2, round));
        fixture_write("x", t.bytes, t.n);
        open_once(&spec);
    }
    buf_release(&whole);
    free(path);
}

static void gzip_survives(void **state)
{
    (void)state;
    packed_survives(fixture_write_gz);
}

static void zstd_survives(void **state)
{
    (void)state;
    packed_survives(fixture_write_zstd);
}

/* A format of lines, and what is drawn for each round beside the file. */
struct lines {
    const char *name, *alphabet, *good;
    uint64_t garbage_every; /* rounds; the others damage @good */
    int format;
    void (*set)(struct data_spec *spec, uint64_t key);
};

static void lines_survive(const struct lines *lines)
{
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t key = rng_key_mix(rng_key(1, lines->name), round);
        struct text t = {.n = strlen(lines->good)};
        if (round % lines->garbage_every == 0) {
            garbage(&t, key, lines->alphabet);
        } else {
            memcpy(t.bytes, lines->good, t.n);
            damage(&t, key);
        }
        fixture_write("x", t.bytes, t.n);
        struct data_spec spec = fixture_spec((char[]){"x"}, (char[]){""});
        spec.format = round % 5 == 0 ? DATA_FORMAT_AUTO : lines->format;
        spec.bad_records = (int64_t)rng_below(key, 1003, 3);
        spec.test_fraction = rng_below(key, 1002, 2) == 0 ? 0 : 0.5;
        lines->set(&spec, key);
        open_once(&spec);
    }
}

static void set_csv(struct data_spec *spec, uint64_t key)
{
    static char texts[][2] = {" ", ",", "0", ""};
    spec->missing = (int)rng_below(key, 1000, 5);
    spec->header = (int)rng_below(key, 1001, 3);
    spec->separator = texts[rng_below(key, 1005, 3) == 0 ? 0 : 1];
    spec->categorical = texts[rng_below(key, 1004, 2) == 0 ? 2 : 3];
}

static void csv_survives(void **state)
{
    (void)state;
    lines_survive(&(struct lines){
        .name = "csv",
        .alphabet = "\"\"\",,,,\n\n\r\t ;0123456789.-eaNn?\xC3\xB6",
        .good = "a,b,\"c\"\"d\"\r\n1,,x\n3,\"4\",y\n5,6,\"x\ny\"\n",
        .garbage_every = 2,
        .format = DATA_FORMAT_CSV,
        .set = set_csv,
    });
}

static void set_libsvm(struct data_spec *spec, uint64_t key)
{
    spec->features = (int64_t)rng_below(key, 1000, 9);
    spec->first_index = (int64_t)rng_below(key, 1001, 2);
}

static void libsvm_survives(void **state)
{
    (void)state;
    lines_survive(&(struct lines){
        .name = "libsvm",
        .alphabet = "::::  \n\n\r\t#0123456789.+-eEqid",
        .good = "+1 1:0.5 3:1e-3 7:2\r\n# none\n-1 qid:3 7:1 2:-.5 #x\n1 4:1\n-1\n",
        .garbage_every = 3,
        .format = DATA_FORMAT_LIBSVM,
        .set = set_libsvm,
    });
}

static void set_libffm(struct data_spec *spec, uint64_t key)
{
    static char fields[] = "0..3";
    static struct data_column columns[] = {{.column = fields, .as = COLUMN_SPARSE, .width = 5}};
    (void)key;
    spec->columns = columns;
    spec->column_count = 1;
}

static void libffm_survives(void **state)
{
    (void)state;
    lines_survive(&(struct lines){
        .name = "libffm",
        .alphabet = "::::::  \n\n\r\t#0123456789.+-e",
        .good = "+1 0:1:0.5 3:1:1e-3 2:18446744073709551615:2\n# none\n-1 1:7:1\n",
        .garbage_every = 3,
        .format = DATA_FORMAT_LIBFFM,
        .set = set_libffm,
    });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_survives_garbage),
        cmocka_unit_test(idx_survives),
        cmocka_unit_test(gzip_survives),
        cmocka_unit_test(zstd_survives),
        cmocka_unit_test(csv_survives),
        cmocka_unit_test(libsvm_survives),
        cmocka_unit_test(libffm_survives),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
