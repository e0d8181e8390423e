/* SPDX-License-Identifier: Apache-2.0 */
/* Data that are read from their files when they are needed: the same bits as in memory (data_rig.c
 * compares them in all tests of this room), the index and when it is made anew, and what is
 * refused.
 */
#include "unit/data/data_rig.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/checksum.h"
#include "data/loader.h"
#include "data/stream_index.h"

static char none[] = "", train_name[] = "t.libsvm";
static char *cache; /* where indexes go */

static int setup(void **state)
{
    cache = tmp_dir_make("index");
    return fixture_setup(state);
}

static int teardown(void **state)
{
    tmp_dir_remove(cache);
    return fixture_teardown(state);
}

/* @n records, among them comments, blank lines and, where @bad is not 0, lines that are none. */
static void write_records(const char *name, size_t n, size_t bad)
{
    struct buf text = {0};
    for (size_t i = 0; i < n; i++) {
        buf_printf(&text, "%zu 1:%zu 3:%g", i % 3, i, (double)(i % 17) / 7);
        buf_add_str(&text, i % 5 == 0 ? " # five\r\n" : "\n");
        buf_add_str(&text, i % 97 == 0 ? "\n# nothing\n" : "");
        if (bad > 0 && i % bad == 0) {
            buf_add_str(&text, "x y z\n");
        }
    }
    fixture_write(name, text.data, text.len - 1); /* the last line has no end */
    buf_release(&text);
}

static struct data_spec streamed(void)
{
    struct data_spec spec = fixture_spec(train_name, none);
    spec.loading = DATA_LOADING_STREAM;
    spec.memory = 1;
    spec.cache_dir = cache;
    return spec;
}

/* Opens, and says whether the index had to be made for a reason with @why in it. */
static void check_opened(const struct data_spec *spec, const char *why)
{
    struct dataset *d = NULL, *test = NULL;
    struct err err = {0};
    if (dataset_open(spec, DATA_LABEL_CLASS, &d, &test, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    const char *made = strstr(dataset_loading(d), ", made");
    if (why == NULL ? made != NULL : made == NULL || strstr(made, why) == NULL) {
        fail_msg("%s", dataset_loading(d));
    }
    dataset_free(d);
    dataset_free(test);
}

/* The one index. Owned. */
static char *index_path(void)
{
    glob_t found = {0};
    char *pattern = file_join(cache, ".*.gradus-index");
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 1);
    char *path = mem_strdup(found.gl_pathv[0]);
    globfree(&found);
    free(pattern);
    return path;
}

static void all_records_in_any_order(void **state)
{
    (void)state;
    write_records("t.libsvm", 3000, 0);
    write_records("u.libsvm", 1500, 10);
    struct data_spec spec = fixture_spec(train_name, none);
    struct dataset *d, *test;
    dataset_free(fixture_open(&spec, DATA_LABEL_CLASS, NULL)); /* which compares both ways */
    spec.train.file = (char[]){"[t.libsvm, u.libsvm]"};
    spec.bad_records = 150;
    spec.train.limit = 4000;
    spec.test_fraction = 0.3;
    spec.test.limit = 700;
    d = fixture_open(&spec, DATA_LABEL_REAL, &test);
    assert_int_equal(dataset_info(test)->records, 700);
    spec.loading = DATA_LOADING_STREAM;
    spec.cache_dir = cache;
    struct dataset *s, *second;
    assert_int_equal(dataset_open(&spec, DATA_LABEL_REAL, &s, &second, NULL), 0);
    struct batch a, b;
    assert_int_equal(batch_init(&a, d, 64, NULL), 0);
    assert_int_equal(batch_init(&b, s, 64, NULL), 0);
    for (uint64_t first = 0; first < 40; first++) {
        uint64_t records[64];
        for (uint64_t i = 0; i < 64; i++) {
            records[i] = (first * 64 + i) * 1009 % dataset_info(d)->records;
        }
        assert_int_equal(dataset_read(d, records, 64, &a, NULL), 0);
        assert_int_equal(dataset_read(s, records, 64, &b, NULL), 0);
        assert_memory_equal(a.features, b.features, sizeof(float) * 64 * 3);
        assert_memory_equal(a.targets, b.targets, sizeof(float) * 64);
    }
    batch_release(&a);
    batch_release(&b);
    dataset_free(d);
    dataset_free(test);
    dataset_free(s);
    dataset_free(second);
}

static void rows_of_several_lines(void **state)
{
    (void)state;
    struct buf text = {0};
    buf_add_str(&text, "\xEF\xBB\xBF\n\"na\nme\",b,y\r\n");
    for (size_t i = 0; i < 500; i++) {
        buf_printf(&text, i % 7 == 0 ? "\"a\n\"\"%zu\"\"\",%zu.5,%zu\n" : "c%zu,%zu,%zu\n", i % 9,
                   i, i % 2);
        buf_add_str(&text, i % 31 == 0 ? "\n\n" : "");
        buf_add_str(&text, i % 41 == 0 ? "\"bad\" row,1,1\n" : "");
    }
    fixture_write("t.csv", text.data, text.len);
    static char csv[] = "t.csv", zero[] = "0";
    for (int header = DATA_HEADER_AUTO; header <= DATA_HEADER_TRUE; header++) {
        struct data_spec spec = fixture_spec(csv, none);
        spec.categorical = zero;
        spec.bad_records = 20;
        spec.header = header;
        spec.test_fraction = 0.25;
        struct dataset *test, *d = fixture_open(&spec, DATA_LABEL_CLASS, &test);
        assert_int_equal(dataset_info(d)->records + dataset_info(test)->records, 500);
        assert_int_equal(dataset_bad_records(d, NULL), 13);
        dataset_free(d);
        dataset_free(test);
    }
    buf_release(&text);
}

static void flip(const char *path, off_t at)
{
    char byte;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    at = at < 0 ? lseek(fd, 0, SEEK_END) + at : at;
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    assert_int_equal(close(fd), 0);
}

static void a_damaged_index_is_made_anew(void **state)
{
    (void)state;
    write_records("t.libsvm", 2000, 0);
    const struct data_spec spec = streamed();
    check_opened(&spec, "made now");
    check_opened(&spec, NULL);
    char *path = index_path();
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    const off_t places[] = {0, st.st_size / 2, -41, -33, -25, -1};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        flip(path, places[i]);
        check_opened(&spec, "made anew: it is ");
        check_opened(&spec, NULL);
    }
    for (off_t n = 0; n < st.st_size; n += 1 + st.st_size / 5) {
        assert_int_equal(truncate(path, n), 0);
        check_opened(&spec, "made anew: it is cut off");
    }
    check_opened(&spec, NULL);
    free(path);
}

static void an_index_of_other_data_is_made_anew(void **state)
{
    (void)state;
    write_records("t.libsvm", 2000, 0);
    struct data_spec spec = streamed();
    check_opened(&spec, "made now");
    write_records("t.libsvm", 2001, 0);
    check_opened(&spec, "t.libsvm has another size than it had");
    check_opened(&spec, NULL);
    char *path = file_join(fixture_dir, "t.libsvm");
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    const struct timespec later[2] = {{.tv_sec = 1700000000}, {.tv_sec = 1700000000}};
    assert_int_equal(utimensat(AT_FDCWD, path, later, 0), 0);
    check_opened(&spec, "t.libsvm was changed");
    flip(path, 4); /* and back to the same time */
    assert_int_equal(utimensat(AT_FDCWD, path, later, 0), 0);
    check_opened(&spec, "t.libsvm has other content than it had");
    check_opened(&spec, NULL);
    spec.memory = 1 << 20; /* other numbers do not come of it */
    check_opened(&spec, NULL);
    spec.scale = DATA_SCALE_MINMAX;
    check_opened(&spec, "made now"); /* another one beside it */
    free(path);
}

/* ---- an index that lies, with a right checksum ---- */

#define END_BYTES 40
#define WORD sizeof(uint64_t)

static uint64_t word_at(const struct buf *index, size_t at)
{
    struct notes n = {.data = index->data, .bytes = index->len, .at = at, .ok = true};
    return notes_number(&n);
}

/* Where the numbers of the one source are. */
static size_t source_at(const struct buf *index)
{
    struct notes n = {.data = index->data, .bytes = index->len, .ok = true};
    n.at = (size_t)word_at(index, index->len - END_BYTES + 2 * WORD); /* behind the entries */
    free(notes_text(&n));
    assert_int_equal(notes_number(&n), 1); /* one file: its name, size, time and sum */
    free(notes_text(&n));
    assert_true(n.ok);
    return n.at + 3 * WORD;
}

/* Write @index to @path, but with @word at @at, and with its checksum. */
static void write_lie(const char *path, const struct buf *index, size_t at, uint64_t word)
{
    struct buf lie = {0};
    buf_add(&lie, index->data, at);
    notes_add_number(&lie, word);
    buf_add(&lie, index->data + at + WORD, index->len - at - 2 * WORD);
    notes_add_number(&lie, checksum_of(lie.data, lie.len));
    assert_int_equal(file_write_atomic(path, lie.data, lie.len, NULL), 0);
    buf_release(&lie);
}

static void an_index_that_does_not_fit_is_made_anew(void **state)
{
    (void)state;
    enum { RECORDS, GROUPS, GROUP, NUMBERS, BAD, FIRST_RECORD = 7, FILE_RECORDS, FIRST_GROUP, END };
    static const struct {
        size_t number;
        uint64_t is;
    } lies[] = {
        {RECORDS, UINT64_C(1) << 40},
        {RECORDS, 1999},
        {RECORDS, 2001},
        {GROUPS, 1},
        {GROUP, 0},
        {GROUP, UINT64_C(1) << 40},
        {NUMBERS, UINT64_C(1) << 62},
        {BAD, 1},
        {FIRST_RECORD, 1},
        {FILE_RECORDS, UINT64_MAX - 1000},
        {FILE_RECORDS, 0},
        {FIRST_GROUP, 1},
        {END, UINT64_C(1) << 50},
        {END, UINT64_MAX},
    };
    write_records("t.libsvm", 2000, 0);
    const struct data_spec spec = streamed();
    check_opened(&spec, "made now");
    char *path = index_path();
    struct buf index = {0};
    assert_int_equal(file_read(path, 1 << 20, &index, NULL), 0);
    const size_t source = source_at(&index);
    assert_int_equal(word_at(&index, source), 2000);
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        write_lie(path, &index, source + lies[i].number * WORD, lies[i].is);
        check_opened(&spec, "made anew: ");
        check_opened(&spec, NULL);
    }
    write_lie(path, &index, 0, word_at(&index, 0) + 2); /* within the first record */
    check_opened(&spec, "made anew: ");
    buf_release(&index);
    free(path);
}

/* Is every record of @d either what it is in @known, or refused? How many are refused. */
static size_t count_refused(const struct data_spec *spec, const struct dataset *known)
{
    struct dataset *d = NULL, *test = NULL;
    struct batch a, b;
    struct err err = {0};
    size_t refused = 0;
    assert_int_equal(dataset_open(spec, DATA_LABEL_CLASS, &d, &test, &err), 0);
    assert_null(strstr(dataset_loading(d), ", made"));
    assert_int_equal(batch_init(&a, known, 1, NULL), 0);
    assert_int_equal(batch_init(&b, d, 1, NULL), 0);
    for (uint64_t i = 0; i < dataset_info(d)->records; i++) {
        assert_int_equal(dataset_read(known, &i, 1, &a, &err), 0);
        if (dataset_read(d, &i, 1, &b, &err) != 0) {
            assert_non_null(strstr(err.msg, "its records are not where the index says"));
            refused++;
        } else {
            assert_memory_equal(a.features, b.features, 3 * sizeof(float));
        }
    }
    batch_release(&a);
    batch_release(&b);
    dataset_free(d);
    return refused;
}

/* Half a row, or another one, is no record. */
static void groups_that_are_elsewhere_are_refused(void **state)
{
    (void)state;
    for (int even = 0; even < 2; even++) {
        struct buf text = {0}, index = {0};
        for (size_t i = 0; i < 1000; i++) {
            buf_printf(&text, "%zu 1:%zu 3:7\n%s", i % 3, 1000 + i, even ? "" : "\n");
        }
        fixture_write("t.libsvm", text.data, text.len);
        struct data_spec spec = streamed();
        check_opened(&spec, even ? "has another size" : "made now");
        char *path = index_path();
        assert_int_equal(file_read(path, 1 << 20, &index, NULL), 0);
        spec.loading = DATA_LOADING_MEMORY;
        struct dataset *known = NULL, *test = NULL;
        assert_int_equal(dataset_open(&spec, DATA_LABEL_CLASS, &known, &test, NULL), 0);
        spec.loading = DATA_LOADING_STREAM;
        const uint64_t third = word_at(&index, 2 * WORD);
        const uint64_t group = word_at(&index, source_at(&index) + 2 * WORD);
        const size_t row = (sizeof "0 1:1000 3:7\n" - 1) + (even ? 0 : 1);
        const uint64_t lies[] = {third + row, third - row, third + 2, third - 3,
                                 word_at(&index, 3 * WORD)};
        for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
            write_lie(path, &index, 2 * WORD, lies[i]);
            assert_int_equal(count_refused(&spec, known), 2 * group); /* and the one before */
        }
        dataset_free(known);
        buf_release(&text);
        buf_release(&index);
        free(path);
    }
}

static void what_changes_meanwhile_is_an_error(void **state)
{
    (void)state;
    write_records("t.libsvm", 2000, 0);
    const struct data_spec spec = streamed();
    struct dataset *d = NULL, *test = NULL;
    struct batch b;
    struct err err = {0};
    uint64_t records[2] = {1999, 7};
    assert_int_equal(dataset_open(&spec, DATA_LABEL_CLASS, &d, &test, &err), 0);
    assert_int_equal(batch_init(&b, d, 2, NULL), 0);
    assert_int_equal(dataset_read(d, records, 2, &b, &err), 0);
    write_records("t.libsvm", 100, 0);
    assert_int_equal(dataset_read(d, records, 2, &b, &err), ERR_CORRUPT);
    assert_non_null(strstr(err.msg, "t.libsvm has been changed since"));
    batch_release(&b);
    dataset_free(d);
}

/* Several threads decode ahead; what they are asked for is what is taken. */
static void batches_are_decoded_ahead(void **state)
{
    (void)state;
    write_records("t.libsvm", 1000, 0);
    struct data_spec spec = streamed();
    struct dataset *d[2] = {NULL, NULL}, *test = NULL;
    struct loader *l[2];
    struct err err = {0};
    for (int i = 0; i < 2; i++) {
        spec.loading = i == 0 ? DATA_LOADING_MEMORY : DATA_LOADING_STREAM;
        assert_int_equal(dataset_open(&spec, DATA_LABEL_CLASS, &d[i], &test, &err), 0);
        assert_int_equal(dataset_is_streamed(d[i]), i);
        assert_int_equal(loader_new(d[i], 3, 50, 6, &l[i], &err), 0);
    }
    for (uint64_t step = 0; step < 100; step++) {
        const struct batch *b[2];
        for (int i = 0; i < 2; i++) {
            for (uint64_t ahead = step; ahead < step + 5; ahead++) {
                assert_int_equal(loader_request(l[i], ahead / 20, ahead % 20 * 50, 50, &err), 0);
            }
            assert_int_equal(loader_take(l[i], step / 20, step % 20 * 50, 50, &b[i], &err), 0);
        }
        assert_memory_equal(b[0]->features, b[1]->features, sizeof(float) * 50 * 3);
        assert_memory_equal(b[0]->classes, b[1]->classes, sizeof(int32_t) * 50);
        loader_return(l[0], b[0]);
        loader_return(l[1], b[1]);
    }
    write_records("t.libsvm", 100, 0);
    const struct batch *b = NULL;
    assert_int_equal(loader_take(l[1], 90, 0, 50, &b, &err), ERR_CORRUPT);
    assert_non_null(strstr(err.msg, "t.libsvm has been changed since"));
    assert_int_equal(loader_take(l[0], 90, 0, 50, &b, &err), 0);
    for (int i = 0; i < 2; i++) {
        loader_free(l[i]);
        dataset_free(d[i]);
    }
}

static void bad_records_name_their_line(void **state)
{
    (void)state;
    write_records("t.libsvm", 2000, 1000);
    struct data_spec spec = streamed();
    struct dataset *d = NULL, *test = NULL;
    struct err err = {0};
    assert_int_equal(dataset_open(&spec, DATA_LABEL_CLASS, &d, &test, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "t.libsvm:4:1: \"x\" is no label"));
    spec.bad_records = 1;
    assert_int_equal(dataset_open(&spec, DATA_LABEL_CLASS, &d, &test, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "t.libsvm:1025:1: \"x\" is no label"));
    assert_non_null(strstr(err.msg, "these are more bad records than data.bad_records: 1"));
    spec.bad_records = 2;
    assert_int_equal(dataset_open(&spec, DATA_LABEL_CLASS, &d, &test, &err), 0);
    const char *first = NULL;
    assert_int_equal(dataset_bad_records(d, &first), 2);
    assert_non_null(strstr(first, "t.libsvm:4:1: \"x\" is no label"));
    dataset_free(d);
}

static void check_refused(const struct data_spec *spec, int code, const char *part)
{
    struct dataset *d = NULL, *test = NULL;
    struct err err = {0};
    assert_int_equal(dataset_open(spec, DATA_LABEL_CLASS, &d, &test, &err), code);
    if (strstr(err.msg, part) == NULL) {
        fail_msg("%s", err.msg);
    }
}

static void what_cannot_be_streamed_is_refused(void **state)
{
    (void)state;
    struct data_spec spec = streamed();
    fixture_write_gz("t.libsvm", "1 1:1\n", 6);
    check_refused(&spec, ERR_UNSUPPORTED,
                  "t.libsvm: a gzip file has to be read from its beginning");
    fixture_write_zstd("t.libsvm", "1 1:1\n", 6);
    check_refused(&spec, ERR_UNSUPPORTED,
                  "t.libsvm: a zstd file has to be read from its beginning");
    spec.loading = DATA_LOADING_AUTO; /* is small: it is read as a whole */
    struct dataset *d = NULL, *test = NULL;
    assert_int_equal(dataset_open(&spec, DATA_LABEL_REAL, &d, &test, NULL), 0);
    assert_string_equal(dataset_loading(d), "memory");
    dataset_free(d);
    spec.loading = DATA_LOADING_STREAM;
    fixture_text("t.libsvm", "a,b\r1,2\r3,4\r");
    check_refused(&spec, ERR_UNSUPPORTED, "a line ends with CR alone");
    fixture_text("t.libsvm", "1,2\n3,4\n");
    spec.missing = DATA_MISSING_MEDIAN;
    check_refused(&spec, ERR_UNSUPPORTED, "does not measure a median");
    static const uint32_t dims[] = {2, 2};
    fixture_write_idx("t.libsvm", 8, dims, 2, "1234", 4);
    spec.missing = DATA_MISSING_ERROR;
    check_refused(&spec, ERR_UNSUPPORTED, "idx files are read as a whole");
}

static void an_index_needs_a_place(void **state)
{
    (void)state;
    write_records("t.libsvm", 10, 0);
    struct data_spec spec = streamed();
    spec.cache_dir = "/proc/nowhere";
    check_refused(&spec, ERR_NOT_FOUND,
                  "the index of the data cannot be written; GRADUS_CACHE_DIR in");
    struct data_roots roots = {0};
    spec.cache_dir = NULL;
    check_opened(&spec, "made now"); /* beside the data */
    check_opened(&spec, NULL);
    assert_int_equal(data_roots_read(fixture_dir, &roots, NULL), 0);
    spec.roots = &roots;
    check_refused(&spec, ERR_PERMISSION, "set its cache_dir");
    spec.cache_dir = cache;
    check_opened(&spec, "made now");
    data_roots_release(&roots);
}

/* Small things that make another data set. */
static void everything_counts_in_the_fingerprint(void **state)
{
    (void)state;
    static const char *const texts[] = {"1 7:1 9:2\n0 8:1\n", "1 7:1 9:2\n0 9:1\n",
                                        "1 7:1 9:2.5\n0 8:1\n", "1 7:1\n0 8:1 9:2\n",
                                        "0 7:1 9:2\n1 8:1\n"};
    static char field[] = "f";
    struct data_column column = {.column = field, .as = COLUMN_SPARSE};
    uint64_t prints[12];
    size_t n = 0;
    for (int width = 4; width < 6; width++) {
        struct data_spec spec = fixture_spec(train_name, none);
        spec.columns = &column;
        spec.column_count = 1;
        column.width = width;
        for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
            fixture_text("t.libsvm", texts[i]);
            struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
            prints[n++] = dataset_info(d)->fingerprint;
            dataset_free(d);
        }
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < i; k++) {
            assert_true(prints[i] != prints[k]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_records_in_any_order, setup, teardown),
        cmocka_unit_test_setup_teardown(rows_of_several_lines, setup, teardown),
        cmocka_unit_test_setup_teardown(a_damaged_index_is_made_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(an_index_of_other_data_is_made_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(an_index_that_does_not_fit_is_made_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(groups_that_are_elsewhere_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(what_changes_meanwhile_is_an_error, setup, teardown),
        cmocka_unit_test_setup_teardown(batches_are_decoded_ahead, setup, teardown),
        cmocka_unit_test_setup_teardown(bad_records_name_their_line, setup, teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_streamed_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(an_index_needs_a_place, setup, teardown),
        cmocka_unit_test_setup_teardown(everything_counts_in_the_fingerprint, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
