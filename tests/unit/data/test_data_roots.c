/* SPDX-License-Identifier: Apache-2.0 */
/* Data files below roots: what leads out is refused, whatever it is called. */
#include "unit/data/data_rig.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "data/data_roots.h"
#include "data/dataset_cache.h"
#include "data/file_list.h"

static char *in, *out; /* directories: a root, and one beside it */
static struct data_roots roots;

static void make_text(const char *dir, const char *name, const char *text)
{
    char *path = file_join(dir, name);
    assert_int_equal(file_write_atomic(path, text, strlen(text), NULL), 0);
    free(path);
}

static void make_link(const char *dir, const char *name, const char *target)
{
    char *path = file_join(dir, name);
    assert_int_equal(symlink(target, path), 0);
    free(path);
}

static int begin(void **state)
{
    assert_int_equal(fixture_setup(state), 0);
    in = file_join(fixture_dir, "in");
    out = file_join(fixture_dir, "in-not"); /* begins as the root does */
    char *below = file_join(in, "below");
    assert_int_equal(file_make_dirs(below, NULL), 0);
    assert_int_equal(file_make_dirs(out, NULL), 0);
    make_text(in, "a.csv", "1,0\n2,1\n");
    make_text(below, "b.csv", "3,0\n4,1\n");
    make_text(out, "secret.csv", "1,0\nhush,1\n");
    char *secret = file_join(out, "secret.csv");
    char *nothing = file_join(out, "nothing");
    make_link(in, "link.csv", secret);
    make_link(in, "dangling.csv", nothing);
    make_link(in, "dir", out);
    make_link(in, "good.csv", "below/b.csv");
    make_link(out, "back", in);
    free(secret);
    free(nothing);
    free(below);
    assert_int_equal(data_roots_read(in, &roots, NULL), 0);
    return 0;
}

static int end(void **state)
{
    data_roots_release(&roots);
    free(in);
    free(out);
    return fixture_teardown(state);
}

/* How @name below @dir is judged. */
static int judge(const char *dir, const char *name, struct err *err)
{
    char *path = file_join(dir, name);
    int rc = data_roots_check(&roots, path, err);
    free(path);
    return rc;
}

static void what_leads_out_is_refused(void **state)
{
    (void)state;
    static const char *const good[] = {"a.csv",          "good.csv",    "below/../a.csv",
                                       "dir/back/a.csv", "../in/a.csv", "below/.."};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(judge(in, good[i], NULL), 0);
    }
    static const char *const bad[] = {
        "link.csv", "dir/secret.csv",    "dir/nothing",    "dangling.csv", "../in-not/secret.csv",
        "..",       "../nowhere/at/all", "dir/../nothing", "/etc/passwd",  "/nowhere",
        "/"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err err = {0};
        assert_int_equal(judge(in, bad[i], &err), ERR_PERMISSION);
        assert_non_null(strstr(err.msg, "outside of what this node reads (data_root): "));
        assert_non_null(strstr(err.msg, in));
        assert_non_null(strstr(err.msg, bad[i]));
    }
    /* what would lie in a root is told apart */
    assert_int_equal(judge(in, "nothing", NULL), ERR_NOT_FOUND);
    assert_int_equal(judge(in, "below/no/where", NULL), ERR_NOT_FOUND);
    assert_int_equal(judge(out, "back/nothing", NULL), ERR_NOT_FOUND);
    assert_int_equal(data_roots_check(&roots, "", NULL), ERR_PERMISSION);
    assert_int_equal(data_roots_check(&roots, "relative", NULL), ERR_PERMISSION);
    assert_int_equal(data_roots_check(NULL, "/etc/passwd", NULL), 0);
}

static void objects_are_compared_part_by_part(void **state)
{
    (void)state;
    struct data_roots r = {0};
    assert_int_equal(data_roots_read("[s3://bucket/a/b/, /]", &r, NULL), 0);
    assert_int_equal(data_roots_check(&r, "s3://bucket/a/b/c.csv", NULL), 0);
    assert_int_equal(data_roots_check(&r, "s3://bucket//a/b", NULL), 0);
    assert_int_equal(data_roots_check(&r, "/etc/passwd", NULL), 0);
    assert_int_equal(data_roots_check(&r, "s3://bucket/a/bc", NULL), ERR_PERMISSION);
    assert_int_equal(data_roots_check(&r, "s3://bucket/a", NULL), ERR_PERMISSION);
    assert_int_equal(data_roots_check(&r, "s3://bucket2/a/b/c", NULL), ERR_PERMISSION);
    assert_int_equal(data_roots_check(&r, "file://host/a", NULL), ERR_PERMISSION);
    data_roots_release(&r);
    assert_int_equal(data_roots_read("s3://bucket", &r, NULL), 0);
    assert_int_equal(data_roots_check(&r, "s3://bucket/x", NULL), 0);
    assert_int_equal(data_roots_check(&r, "s3://bucket-2/x", NULL), ERR_PERMISSION);
    assert_int_equal(data_roots_check(&r, "/etc/passwd", NULL), ERR_PERMISSION);
    data_roots_release(&r);
    static const char *const none[] = {"data", "[/a, b]", "http://a/b", "s3://", "[/a, ,]"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        assert_int_equal(data_roots_read(none[i], &r, NULL), ERR_INVALID);
    }
    assert_int_equal(data_roots_read("", &r, NULL), 0);
    assert_false(data_roots_bind(&r));
    data_roots_release(&r);
}

/* How many files @name means below the root; negative: the error. */
static int lists(const char *name, struct err *err)
{
    struct file_list list = {0};
    int rc = file_list_make(&roots, in, name, "data.train.file", &list, err);
    int count = rc != 0 ? rc : (int)list.count;
    file_list_release(&list);
    return count;
}

static void patterns_do_not_look_around(void **state)
{
    (void)state;
    assert_int_equal(lists("*.csv", NULL), 4); /* with links that cannot be opened */
    assert_int_equal(lists("*/b.csv", NULL), 1);
    assert_int_equal(lists("below/../?.csv", NULL), 1);
    assert_int_equal(lists("x*", NULL), ERR_NOT_FOUND);
    static const char *const bad[] = {"../in-not/*.csv", "../in-not/x*", "dir/s*", "/etc/pass*",
                                      "/nowhere/x*"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err err = {0};
        assert_int_equal(lists(bad[i], &err), ERR_PERMISSION);
        assert_non_null(strstr(err.msg, "data.train.file: open "));
        assert_non_null(strstr(err.msg, "outside of what this node reads"));
    }
    /* a name behind a pattern is not told from one that is not there */
    assert_int_equal(lists("*/../../in-not/secret.csv", NULL), ERR_NOT_FOUND);
    assert_int_equal(lists("*/../../in-not/nothing.csv", NULL), ERR_NOT_FOUND);
    assert_int_equal(lists("*/../../in-not/s*", NULL), ERR_NOT_FOUND);
    assert_int_equal(lists("s3://bucket/x*", NULL), ERR_PERMISSION);
}

static struct data_spec spec_of(char *file)
{
    static char none[] = "";
    struct data_spec spec = fixture_spec(file, none);
    spec.dir = in;
    spec.roots = &roots;
    return spec;
}

static void every_way_of_reading_is_bound(void **state)
{
    (void)state;
    static char outside[] = "dir/secret.csv", both[] = "[a.csv, link.csv]", inside[] = "a.csv";
    struct data_spec spec = spec_of(outside);
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_PERMISSION, "outside of what this node reads");
    for (int format = DATA_FORMAT_AUTO + 1; format < DATA_FORMAT_COUNT; format++) {
        spec.format = format;
        spec.train.labels = format == DATA_FORMAT_IDX ? outside : spec.train.labels;
        fixture_refused(&spec, DATA_LABEL_CLASS, ERR_PERMISSION, "outside of what this node reads");
        spec = spec_of(outside);
    }
    spec = spec_of(both);
    fixture_refused(&spec, DATA_LABEL_CLASS, ERR_PERMISSION, "link.csv: outside of what");
    spec = spec_of(inside);
    struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    assert_int_equal(dataset_info(d)->records, 2);
    dataset_free(d);
}

/* A name that leads elsewhere since the data were read does not bring them back. */
static void what_is_kept_is_judged_again(void **state)
{
    (void)state;
    static char name[] = "below/now.csv";
    char *path = file_join(in, name), *moved = file_join(out, "now.csv");
    make_text(in, name, "1,0\n2,1\n");
    struct data_spec spec = spec_of(name);
    spec.roots = NULL; /* the cache has its own */
    struct dataset_cache *cache = dataset_cache_new(&roots, NULL);
    struct dataset *train = NULL, *test = NULL;
    bool known = false;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            dataset_cache_open(cache, &spec, DATA_LABEL_CLASS, &train, &test, &known, NULL), 0);
        assert_int_equal(known, i);
        dataset_free(train);
    }
    assert_int_equal(rename(path, moved), 0); /* the same file on disk, with the same times */
    assert_int_equal(symlink(moved, path), 0);
    assert_int_equal(
        dataset_cache_open(cache, &spec, DATA_LABEL_CLASS, &train, &test, &known, NULL),
        ERR_PERMISSION);
    dataset_cache_free(cache);
    free(path);
    free(moved);
}

/* The message without roots has @cell, and with them not. */
static void check_hidden(struct data_spec spec, enum data_label_kind kind, const char *cell,
                         const char *where)
{
    for (int hide = 0; hide < 2; hide++) {
        struct dataset *train = NULL, *test = NULL;
        struct err err = {0};
        spec.roots = hide ? &roots : NULL;
        if (dataset_open(&spec, kind, &train, &test, &err) == 0) {
            fail_msg("%s was taken", where);
        }
        if ((strstr(err.msg, cell) == NULL) != hide || strpbrk(err.msg, "\x01\x02") != NULL ||
            strstr(err.msg, where) == NULL || (strstr(err.msg, "[not shown]") != NULL) != hide) {
            fail_msg("%s", err.msg);
        }
    }
}

static void cells_are_not_quoted(void **state)
{
    (void)state;
    static char word[] = "word.csv", header[] = "header.csv", label[] = "label.csv",
                svm[] = "bad.libsvm", bytes[] = "bytes.bin", gap[] = "gap.csv",
                other[] = "other.csv";
    make_text(in, word, "1,0\nhush,1\n");
    struct data_spec spec = spec_of(word);
    check_hidden(spec, DATA_LABEL_CLASS, "hush", "word.csv:2: column 0: ");
    make_text(in, header, "secret,y\n1,0\nhush,1\n");
    check_hidden(spec_of(header), DATA_LABEL_REAL, "hush", "header.csv:3: column 0 (");
    check_hidden(spec_of(header), DATA_LABEL_REAL, "secret", "header.csv:3: column 0 (");
    make_text(in, svm, "1 1:2\n0 1:hush\n");
    spec = spec_of(svm);
    spec.format = DATA_FORMAT_LIBSVM;
    check_hidden(spec, DATA_LABEL_CLASS, "hush", "bad.libsvm:2:5: ");
    make_text(in, bytes, "\x01\x7e\x02\x03 and so on");
    check_hidden(spec_of(bytes), DATA_LABEL_CLASS, "01 7e 02 03", "bytes.bin: neither IDX nor");
    make_text(in, gap, "secret,y\n,0\n,1\n");
    spec = spec_of(gap);
    spec.missing = DATA_MISSING_MEAN;
    check_hidden(spec, DATA_LABEL_CLASS, "secret", "gap.csv: column ");
    make_text(in, label, "1,hush\n2,still\n");
    make_text(in, other, "1,hush\n2,silent\n");
    spec = spec_of(label);
    spec.classes = 3;
    check_hidden(spec, DATA_LABEL_CLASS, "hush, still", "label.csv: data.classes is 3");
    spec.classes = 0;
    spec.test.file = other;
    check_hidden(spec, DATA_LABEL_CLASS, "silent", "other.csv:2");
    check_hidden(spec, DATA_LABEL_CLASS, "the classes are hush, still", "other.csv:2");
}

/* What keys and cells of sparse fields say. */
static void keys_are_not_quoted(void **state)
{
    (void)state;
    static char ffm[] = "clicks.ffm", tsv[] = "clicks.tsv";
    static char none[] = "", pipe[] = "|", numbers[] = "0..9", label[] = "label", c1[] = "C1";
    struct data_column columns[] = {
        {.column = numbers, .as = COLUMN_SPARSE, .separator = pipe, .width = 2}};
    make_text(in, ffm, "1 0:7700770077:1 0:7700770077:1\n");
    struct data_spec spec = spec_of(ffm);
    spec.format = DATA_FORMAT_LIBFFM;
    spec.columns = columns;
    spec.column_count = 1;
    check_hidden(spec, DATA_LABEL_CLASS, "7700770077", "clicks.ffm:1:1");
    make_text(in, ffm, "1 0:1:hush\n");
    check_hidden(spec, DATA_LABEL_CLASS, "hush", "clicks.ffm:1:7");
    struct data_column fields[] = {
        {.column = label, .as = COLUMN_LABEL},
        {.column = c1, .as = COLUMN_SPARSE, .separator = pipe, .width = 2}};
    make_text(in, tsv, "1\t\t\t\t\t\t\t\t\t\t\t\t\t\thush\n");
    spec = spec_of(tsv);
    spec.format = DATA_FORMAT_CRITEO;
    spec.short_rows = DATA_SHORT_ROWS_MISSING;
    spec.columns = fields;
    spec.column_count = 2;
    spec.train.labels = none;
    check_hidden(spec, DATA_LABEL_CLASS, "hush", "clicks.tsv:1:16");
}

static void bad_records_are_not_quoted(void **state)
{
    (void)state;
    static char name[] = "some.csv";
    make_text(in, name, "1,0\nhush,1\n2,1\n");
    struct data_spec spec = spec_of(name);
    spec.bad_records = 5;
    struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    const char *first = NULL;
    assert_int_equal(dataset_bad_records(d, &first), 1);
    assert_non_null(strstr(first, "some.csv:2: column 0: [not shown]"));
    dataset_free(d);
    spec.roots = NULL;
    d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    assert_int_equal(dataset_bad_records(d, &first), 1);
    assert_non_null(strstr(first, "some.csv:2: column 0: \"hush\""));
    dataset_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_leads_out_is_refused),
        cmocka_unit_test(objects_are_compared_part_by_part),
        cmocka_unit_test(patterns_do_not_look_around),
        cmocka_unit_test(every_way_of_reading_is_bound),
        cmocka_unit_test(what_is_kept_is_judged_again),
        cmocka_unit_test(cells_are_not_quoted),
        cmocka_unit_test(keys_are_not_quoted),
        cmocka_unit_test(bad_records_are_not_quoted),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
