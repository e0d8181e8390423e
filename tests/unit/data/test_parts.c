/* SPDX-License-Identifier: Apache-2.0 */
/* Data in several files. */
#include <sys/stat.h>
#include <unistd.h>

#include "unit/data/data_rig.h"

static struct data_spec files_spec(char *files)
{
    static char none[] = "";
    return fixture_spec(files, none);
}

/* Several files are as one that has all their lines. */
static void same_as_one(char *files, const char *all, enum data_label_kind kind)
{
    struct data_spec spec = files_spec(files);
    spec.header = DATA_HEADER_FALSE;
    spec.categorical = (char[]){""};
    struct dataset *d = fixture_open(&spec, kind, NULL);
    fixture_text("all", all);
    spec.train.file = (char[]){"all"};
    struct dataset *one = fixture_open(&spec, kind, NULL);
    assert_int_equal(dataset_info(d)->records, dataset_info(one)->records);
    assert_true(dataset_info(d)->fingerprint == dataset_info(one)->fingerprint);
    dataset_free(d);
    dataset_free(one);
}

static void files_are_read_one_after_the_other(void **state)
{
    (void)state;
    fixture_text("c1", "1,2,b\n3,4,a\n");
    fixture_text("c2", "5,6,c\n7,8,a\n");
    same_as_one((char[]){"[c1, c2]"}, "1,2,b\n3,4,a\n5,6,c\n7,8,a\n", DATA_LABEL_CLASS);
    same_as_one((char[]){"[c2, c1]"}, "5,6,c\n7,8,a\n1,2,b\n3,4,a\n", DATA_LABEL_CLASS);
    same_as_one((char[]){"c?"}, "1,2,b\n3,4,a\n5,6,c\n7,8,a\n", DATA_LABEL_CLASS);
    fixture_text("l1", "1 1:1\n2 3:1\n");
    fixture_text("l2", "3 2:1 5:4\n");
    fixture_write_gz("l3", "1\n2 1:1 2:2\n", 12);
    same_as_one((char[]){"l?"}, "1 1:1\n2 3:1\n3 2:1 5:4\n1\n2 1:1 2:2\n", DATA_LABEL_CLASS);
    same_as_one((char[]){"l?"}, "1 1:1\n2 3:1\n3 2:1 5:4\n1\n2 1:1 2:2\n", DATA_LABEL_REAL);
}

static void categories_and_headers_go_together(void **state)
{
    (void)state;
    fixture_text("h1", "color,x,y\nred,1,0\nblue,2,1\n");
    fixture_text("h2", "color,x,y\ngreen,3,1\nred,4,0\n,5,1\n");
    struct data_spec spec = files_spec((char[]){"h?"});
    spec.categorical = (char[]){"color"};
    spec.missing = DATA_MISSING_ZERO;
    spec.scale = DATA_SCALE_NONE;
    struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    struct batch b = fixture_read(d);
    static const float expected[] = {1, 0, 0, 1, 2, 1, 0, 0, 3, 0, 1, 0, 4, 0, 0, 1, 5, 0, 0, 0};
    assert_int_equal(b.count, 5);
    assert_memory_equal(b.features, expected, sizeof expected);
    batch_release(&b);
    dataset_free(d);
}

static void idx_files_come_in_pairs(void **state)
{
    (void)state;
    static const uint8_t values[] = {1, 2, 3, 4, 5, 6};
    fixture_write_idx("f1", 8, (uint32_t[]){2, 2}, 2, values, 4);
    fixture_write_idx("f2", 8, (uint32_t[]){1, 2}, 2, values + 4, 2);
    fixture_write_idx("g1", 8, (uint32_t[]){2}, 1, values, 2);
    fixture_write_idx("g2", 8, (uint32_t[]){1}, 1, values, 1);
    struct data_spec spec = fixture_spec((char[]){"f?"}, (char[]){"[g1, g2]"});
    spec.scale = DATA_SCALE_NONE;
    struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    struct batch b = fixture_read(d);
    assert_int_equal(b.count, 3);
    assert_true(b.features[4] == 5 && b.classes[1] == 2 && b.classes[2] == 1);
    batch_release(&b);
    dataset_free(d);
    spec.classes = 2;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "/g1: record 1: label 2");
    spec.classes = 0;
    spec.train.labels = (char[]){"g1"};
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "data.train.file means 2 files, data.train.labels 1; every file of features");
    static const uint8_t wrong[] = {200};
    fixture_write_idx("g2", 8, (uint32_t[]){1}, 1, wrong, 1);
    spec.train.labels = (char[]){"g?"};
    spec.classes = 3;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "/g2: record 0: label 200");
}

static void files_of_another_kind_are_refused(void **state)
{
    (void)state;
    fixture_text("k1", "a,b,y\n1,2,0\n3,4,1\n");
    static const struct {
        const char *second, *message;
    } cases[] = {
        {"a,y\n1,2\n", "/k2: its columns are a; those of "},
        {"a,c,y\n1,2,0\n", "/k2: its columns are a, c; those of "},
        {"1,2,0\n3,4,1\n", "/k2 begins with a record, "},
        {"", "/k2: the file is empty"},
        {"a,b,y\n", "/k2: a header line and no records"},
        {"a,b,y\n1,x,0\n", "/k2:2: column 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture_text("k2", cases[i].second);
        struct data_spec spec = files_spec((char[]){"[k1, k2]"});
        fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, cases[i].message);
    }
    struct data_spec spec = files_spec((char[]){"[k1, k9]"});
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_NOT_FOUND, "/k9");
    spec.train.file = (char[]){"z*"};
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_NOT_FOUND, "data.train.file: no file matches ");
}

/* Parts as Spark leaves them. */
static void parts_without_records_do_not_count(void **state)
{
    (void)state;
    static const struct {
        const char *parts[4], *all;
    } cases[] = {
        {{"", "a,b,y\n1,2,0\n3,4,1\n", "a,b,y\n", "a,b,y\n5,6,0\n"},
         "a,b,y\n1,2,0\n3,4,1\n5,6,0\n"},
        {{"a,b,y\n", "", "a,b,y\n1,2,0\n", "a,b,y\n5,6,1\n"}, "a,b,y\n1,2,0\n5,6,1\n"},
        {{"", "1 1:2\n", "", "2 2:3\n"}, "1 1:2\n2 2:3\n"},
    };
    fixture_text("_SUCCESS", "");
    fixture_text("_metadata", "what is no record");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (size_t k = 0; k < 4; k++) {
            char name[16];
            (void)snprintf(name, sizeof name, "part-%zu", k);
            fixture_text(name, cases[i].parts[k]);
        }
        fixture_text("all", cases[i].all);
        for (int loading = 0; loading < 2; loading++) {
            struct data_spec spec = files_spec((char[]){"part-*"});
            spec.loading = loading == 0 ? DATA_LOADING_MEMORY : DATA_LOADING_STREAM;
            struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
            spec.train.file = (char[]){"all"};
            struct dataset *one = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
            assert_int_equal(dataset_info(d)->records, dataset_info(one)->records);
            struct batch b = fixture_read(d), of_one = fixture_read(one);
            assert_memory_equal(b.features, of_one.features, b.count * 2 * sizeof *b.features);
            batch_release(&b);
            batch_release(&of_one);
            dataset_free(d);
            dataset_free(one);
        }
    }
    struct data_spec spec = files_spec((char[]){"[part-1, part-0]"}); /* named: an error */
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "/part-0: ");
    for (size_t k = 0; k < 4; k++) {
        char name[16];
        (void)snprintf(name, sizeof name, "part-%zu", k);
        fixture_text(name, k == 2 ? "a,b,y\n" : "");
    }
    for (int loading = 0; loading < 2; loading++) {
        spec = files_spec((char[]){"part-*"});
        spec.loading = loading == 0 ? DATA_LOADING_MEMORY : DATA_LOADING_STREAM;
        fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                        "part-0 and the other files: empty, or a header alone");
    }
}

#define OTHER(bytes, message)                                                                      \
    {                                                                                              \
        bytes, sizeof(bytes) - 1, message                                                          \
    }

static void other_programs_files_are_told(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t count;
        const char *message;
    } cases[] = {
        OTHER("BZh91AY&SY....", "this is a file packed with bzip2; unpack it with bunzip2"),
        OTHER("\xFD"
              "7zXZ\0....",
              "packed with xz"),
        OTHER("PAR1....PAR1", "a Parquet file; write it as CSV"),
        OTHER("PK\x03\x04..........................[Content_Types].xml", "a spreadsheet (XLSX)"),
        OTHER("PK\x03\x04..........................train.csv....", "a zip archive"),
        OTHER("\x93NUMPY\x01\0v\0", "an array of NumPy"),
        OTHER("\n <!DOCTYPE HTML><html><body>404</body></html>", "a web page (HTML)"),
        OTHER("version https://git-lfs.github.com/spec/v1\noid sha256:4d\nsize 9\n",
              "a pointer of Git LFS, not the file itself; fetch the file with git lfs pull"),
        OTHER("\xFF\xFE"
              "a\0;\0b\0\n\0",
              "this is text in UTF-16; write it in UTF-8 (iconv"),
        OTHER("\xFE\xFF\0a\0;\0b\0\n", "this is text in UTF-16"),
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct data_spec spec = files_spec((char[]){"other"});
        fixture_write("other", cases[i].bytes, cases[i].count);
        fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, cases[i].message);
        spec.format = DATA_FORMAT_CSV;
        fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, cases[i].message);
        fixture_write_gz("other", cases[i].bytes, cases[i].count);
        fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, cases[i].message);
    }
    static const char packed[] = "\x1F\x8B\x08\x08....";
    struct data_spec spec = files_spec((char[]){"other"});
    fixture_write_gz("other", packed, sizeof packed - 1);
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "this is a file packed twice; unpack it once, with gunzip");
}

static void what_is_no_file_is_told(void **state)
{
    (void)state;
    struct data_spec spec = files_spec((char[]){"~/data.csv"});
    spec.format = DATA_FORMAT_CSV;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_NOT_FOUND,
                    "No such file or directory; ~ stands for no directory here");
    char *pipe = file_join(fixture_dir, "pipe");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    spec.train.file = pipe;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID,
                    "pipe or socket, not a file; `gradus predict --data -` reads standard input");
    assert_int_equal(unlink(pipe), 0);
    free(pipe);
}

static void limits_and_splits_are_of_all(void **state)
{
    (void)state;
    fixture_text("m1", "1,0\n2,1\n");
    fixture_text("m2", "3,0\n4,1\n5,1\n");
    fixture_text("m3", "not read\n");
    struct data_spec spec = files_spec((char[]){"m?"});
    spec.header = DATA_HEADER_FALSE;
    spec.train.limit = 4;
    struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    assert_int_equal(dataset_info(d)->records, 4);
    dataset_free(d);

    fixture_text("m3", "6,zero\n");
    spec.train.limit = 0;
    spec.classes = 2;
    spec.test_fraction = 0.5;
    for (spec.split_seed = 0; spec.split_seed < 4; spec.split_seed++) { /* in either part */
        fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "");
    }
    spec.test_fraction = 0;
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "/m1 and 2 more: data.classes is 2");
    spec.classes = 0;
    spec.test.file = spec.train.file;
    spec.train.file = (char[]){"[m1, m2]"};
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_INVALID, "/m3:1: label \"zero\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_read_one_after_the_other),
        cmocka_unit_test(categories_and_headers_go_together),
        cmocka_unit_test(idx_files_come_in_pairs),
        cmocka_unit_test(files_of_another_kind_are_refused),
        cmocka_unit_test(what_is_no_file_is_told),
        cmocka_unit_test(parts_without_records_do_not_count),
        cmocka_unit_test(other_programs_files_are_told),
        cmocka_unit_test(limits_and_splits_are_of_all),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
