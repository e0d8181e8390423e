/* SPDX-License-Identifier: Apache-2.0 */
/* Sources as files: which values come out of them, and how they are refused. */
#include "support/test.h"
#include "support/tmp_dir.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "checkpoint/safetensors.h"
#include "os/file.h"
#include "warm/warm_start.h"

static const struct variable_spec variables[] = {
    {.name = "a", .shape = {.rank = 2, .dims = {2, 2}}},
    {.name = "b", .shape = {.rank = 1, .dims = {3}}},
};

static int setup(void **state)
{
    *state = tmp_dir_make("warm-start");
    return 0;
}

static int teardown(void **state)
{
    tmp_dir_remove(*state);
    return 0;
}

/* A file with "a" (@a [4]) and "b" in bf16 (1, 2, 3). */
static void write_file(const char *dir, const char *name, const float *a)
{
    static const uint16_t b[] = {0x3f80, 0x4000, 0x4040};
    const struct safetensors_tensor tensors[] = {
        {.name = "a", .dtype = SAFETENSORS_F32, .rank = 2, .dims = {2, 2}},
        {.name = "b", .dtype = SAFETENSORS_BF16, .rank = 1, .dims = {3}}};
    const void *data[] = {a, b};
    const size_t bytes[] = {16, 6};
    char *path = file_join(dir, name);
    struct safetensors_writer w;
    struct safetensors_written written;
    size_t i;
    assert_int_equal(safetensors_writer_open(&w, path, tensors, 2, NULL, 0, NULL), 0);
    while (safetensors_writer_next(&w, &i)) {
        assert_int_equal(safetensors_writer_add(&w, data[i], bytes[i], NULL), 0);
    }
    assert_int_equal(safetensors_writer_commit(&w, &written, NULL), 0);
    free(path);
}

/* The job file says `from`, below @dir. */
static int open_source(const char *dir, const char *kind, const char *path,
                       const struct data_roots *roots, struct warm_start **out, struct err *err)
{
    char *none = mem_strdup(""), *given = mem_strdup(path), *below = mem_strdup(dir);
    struct job_spec spec = {
        .data.dir = below,
        .from = {.checkpoint = none, .safetensors = none, .onnx = none, .strict = true}};
    char **at = strcmp(kind, "onnx") == 0         ? &spec.from.onnx
                : strcmp(kind, "checkpoint") == 0 ? &spec.from.checkpoint
                                                  : &spec.from.safetensors;
    *at = given;
    const int rc = warm_start_open(&spec, roots, variables, 2, out, err);
    free(none);
    free(given);
    free(below);
    return rc;
}

static void values_and_their_fingerprint(void **state)
{
    static const float first[] = {1, 2, 3, 4}, second[] = {1, 2, 3, 5};
    uint64_t fingerprints[3];
    write_file(*state, "x", first);
    write_file(*state, "y", second);
    for (size_t i = 0; i < 3; i++) {
        struct warm_start *w = NULL;
        float a[4] = {0}, b[3] = {0};
        float *values[] = {a, b};
        assert_int_equal(open_source(*state, "safetensors", i == 2 ? "y" : "x", NULL, &w, NULL), 0);
        assert_int_equal(warm_start_load(w, i == 0 ? NULL : values, &fingerprints[i], NULL), 0);
        if (i == 1) {
            char *said = mem_printf("all 2 variables from safetensors %s/x", (char *)*state);
            assert_string_equal(warm_start_summary(w), said);
            assert_memory_equal(a, first, sizeof a);
            assert_true(b[0] == 1 && b[1] == 2 && b[2] == 3);
            free(said);
        }
        warm_start_close(w);
    }
    assert_true(fingerprints[0] != 0);
    assert_true(fingerprints[0] == fingerprints[1]); /* whether anybody wants them or not */
    assert_true(fingerprints[1] != fingerprints[2]);
}

static void values_have_to_be_finite(void **state)
{
    const float a[] = {1, 2, INFINITY, 4};
    struct warm_start *w = NULL;
    struct err err = {0};
    uint64_t fingerprint = 5;
    write_file(*state, "x", a);
    assert_int_equal(open_source(*state, "safetensors", "x", NULL, &w, NULL), 0);
    assert_int_equal(warm_start_load(w, NULL, &fingerprint, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "element 2 of a is inf, which is not finite"));
    assert_int_equal(fingerprint, 5);
    warm_start_close(w);
}

static void assert_refused(const char *dir, const char *kind, const char *path,
                           const struct data_roots *roots, int code, const char *says)
{
    struct warm_start *w = NULL;
    struct err err = {0};
    assert_int_equal(open_source(dir, kind, path, roots, &w, &err), code);
    if (strstr(err.msg, says) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", err.msg, says);
    }
}

static void what_is_no_source(void **state)
{
    static const char *const kinds[] = {"checkpoint", "safetensors", "onnx"};
    for (size_t i = 0; i < 3; i++) {
        char *says = mem_printf("from.%s none: ", kinds[i]);
        assert_refused(*state, kinds[i], "none", NULL, ERR_NOT_FOUND, says);
        free(says);
    }
    char *path = file_join(*state, "text");
    assert_int_equal(file_write_atomic(path, "no model at all", 15, NULL), 0);
    free(path);
    assert_refused(*state, "safetensors", "text", NULL, ERR_CORRUPT, "from.safetensors text: ");
    assert_refused(*state, "onnx", "text", NULL, ERR_INVALID, "from.onnx text: ");
    assert_refused(*state, "checkpoint", "text", NULL, ERR_NOT_FOUND, "no such directory");
}

/* As data are: what lies elsewhere is refused, whether it is there or not. */
static void sources_lie_below_roots(void **state)
{
    static const char *const kinds[] = {"checkpoint", "safetensors", "onnx"};
    static const float a[] = {1, 2, 3, 4};
    char *inside = file_join(*state, "inside"), *in_it = file_join(inside, "x");
    char *outside = file_join(*state, "outside"), *link = file_join(inside, "link");
    struct data_roots roots = {0};
    struct warm_start *w = NULL;
    assert_int_equal(mkdir(inside, 0700), 0);
    assert_int_equal(data_roots_read(inside, &roots, NULL), 0);
    write_file(inside, "x", a);
    write_file(*state, "outside", a);
    assert_int_equal(symlink(outside, link), 0);
    assert_int_equal(open_source("", "safetensors", in_it, &roots, &w, NULL), 0);
    warm_start_close(w);
    for (size_t i = 0; i < 3; i++) {
        assert_refused("", kinds[i], outside, &roots, ERR_PERMISSION, "data_root");
        assert_refused("", kinds[i], link, &roots, ERR_PERMISSION, "data_root");
        assert_refused("/", kinds[i], "none/at/all", &roots, ERR_PERMISSION, "data_root");
    }
    data_roots_release(&roots);
    free(inside);
    free(in_it);
    free(outside);
    free(link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(values_and_their_fingerprint, setup, teardown),
        cmocka_unit_test_setup_teardown(values_have_to_be_finite, setup, teardown),
        cmocka_unit_test_setup_teardown(what_is_no_source, setup, teardown),
        cmocka_unit_test_setup_teardown(sources_lie_below_roots, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
