/* SPDX-License-Identifier: Apache-2.0 */
/* Names by patterns, and which tensor is which variable. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "warm/warm_match.h"
#include "warm/warm_names.h"

/* ---- names ---- */

static void assert_name(const char *from, const char *to, const char *name, const char *expected)
{
    char *owned[] = {mem_strdup(from), mem_strdup(to)};
    const struct from_map map = {owned[0], owned[1]};
    struct buf out = {0};
    size_t used = 9;
    const bool wanted = warm_name(&map, 1, name, &out, &used);
    assert_int_equal(wanted, expected != NULL);
    if (expected != NULL) {
        assert_string_equal(buf_str(&out), expected);
    }
    buf_release(&out);
    free(owned[0]);
    free(owned[1]);
}

static void stars_are_carried_over(void **state)
{
    (void)state;
    assert_name("a", "b", "a", "b");
    assert_name("a", "b", "ab", "ab"); /* no match: it keeps its name */
    assert_name("*", "net.*", "fc.weight", "net.fc.weight");
    assert_name("layers.*.weight", "dense_*.kernel", "layers.12.weight", "dense_12.kernel");
    assert_name("layers.*.weight", "dense_*.kernel", "layers.1.bias", "layers.1.bias");
    assert_name("*.*", "*/*", "a.b.c", "a/b.c"); /* the shortest text for the first */
    assert_name("*.c", "*", "a.c.c", "a.c");     /* and as much as it has to be */
    assert_name("*ab*ab", "*-*", "xabyabzab", "x-yabz");
    assert_name("x*", "y*", "x", "y");
    assert_name("head.*", "", "head.bias", NULL); /* left out */
    assert_name("a*b", "*", "a", "a");
    assert_name("", "b", "", "b");
}

static void the_first_pattern_counts(void **state)
{
    (void)state;
    char a[] = "a.*", b[] = "b.*", every[] = "*", z[] = "z.*";
    const struct from_map map[] = {{a, b}, {every, z}};
    struct buf out = {0};
    size_t used = 9;
    assert_true(warm_name(map, 2, "a.x", &out, &used));
    assert_string_equal(buf_str(&out), "b.x");
    assert_int_equal(used, 0);
    buf_reset(&out);
    assert_true(warm_name(map, 2, "c", &out, &used));
    assert_string_equal(buf_str(&out), "z.c");
    assert_int_equal(used, 1);
    buf_release(&out);
}

/* ---- matching ---- */

#define F32(label, ...)                                                                            \
    {                                                                                              \
        .name = label, .type = "F32", .readable = true, .shape = {                                 \
            .rank = 2,                                                                             \
            .dims = {__VA_ARGS__}                                                                  \
        }                                                                                          \
    }

static const struct variable_spec variables[] = {
    {.name = "in.kernel", .shape = {.rank = 2, .dims = {4, 3}}},
    {.name = "in.bias", .shape = {.rank = 2, .dims = {1, 3}}},
    {.name = "head.kernel", .shape = {.rank = 2, .dims = {3, 2}}},
};
#define VARIABLES (sizeof variables / sizeof variables[0])
static const struct warm_wanted wanted = {variables, VARIABLES, 0};

static void assert_match(const struct warm_tensor *tensors, size_t count,
                         const struct from_spec *from, const char *summary, const char *error)
{
    struct warm_match m = {0};
    struct err err = {0};
    const int rc = warm_match(tensors, count, &wanted, from, &m, &err);
    if (error != NULL) {
        assert_int_equal(rc, ERR_INVALID);
        assert_string_equal(err.msg, error);
    } else {
        assert_int_equal(rc, 0);
        assert_string_equal(m.summary, summary);
    }
    warm_match_release(&m);
}

static void everything_fits(void **state)
{
    (void)state;
    const struct warm_tensor tensors[] = {
        F32("head.kernel", 3, 2),
        F32("in.kernel", 4, 3),
        F32("in.bias", 1, 3),
        {.name = "in.num_batches_tracked", .type = "I64", .aside = true}};
    const struct from_spec from = {.strict = true};
    struct warm_match m = {0};
    assert_int_equal(warm_match(tensors, 4, &wanted, &from, &m, NULL), 0);
    assert_int_equal(m.taken, 3);
    assert_int_equal(m.tensors[0], 1);
    assert_int_equal(m.tensors[1], 2);
    assert_int_equal(m.tensors[2], 0);
    assert_string_equal(m.summary, "all 3 variables");
    warm_match_release(&m);
}

static void what_does_not_fit_is_said_at_once(void **state)
{
    (void)state;
    const struct warm_tensor tensors[] = {F32("in.kernel", 3, 4), F32("in.bias", 1, 3),
                                          F32("tail", 1, 1)};
    struct from_spec from = {.strict = true};
    assert_match(tensors, 3, &from, NULL,
                 "not there: head.kernel; of another shape: in.kernel [4, 3], [3, 4] there; left "
                 "over there: tail ('strict: false' takes what fits)");
    from.strict = false;
    assert_match(tensors, 3, &from,
                 "1 of 3 variables; not there: head.kernel; of another shape: in.kernel [4, 3], "
                 "[3, 4] there; left over there: tail",
                 NULL);
    assert_match(tensors + 2, 1, &from, NULL,
                 "nothing there fits a variable of the job in name and shape; there are tail");
}

static void another_shape_is_not_taken(void **state)
{
    (void)state;
    const struct warm_tensor tensors[] = {F32("in.kernel", 3, 4), F32("in.bias", 1, 3)};
    const struct from_spec from = {.strict = false};
    struct warm_match m = {0};
    assert_int_equal(warm_match(tensors, 2, &wanted, &from, &m, NULL), 0);
    assert_true(m.tensors[0] == WARM_NONE);
    assert_int_equal(m.tensors[1], 1);
    assert_true(m.tensors[2] == WARM_NONE);
    assert_int_equal(m.taken, 1);
    warm_match_release(&m);
}

static void types_are_refused_by_name(void **state)
{
    (void)state;
    struct warm_tensor tensors[] = {F32("in.kernel", 4, 3), F32("in.bias", 1, 3),
                                    F32("head.kernel", 3, 2)};
    tensors[0].type = "F64";
    tensors[2].type = "I32";
    tensors[0].readable = tensors[2].readable = false;
    const struct from_spec from = {.strict = false};
    assert_match(tensors, 3, &from, NULL,
                 "in.kernel is of type F64, and F32, F16 and BF16 are read, head.kernel is of type "
                 "I32, and F32, F16 and BF16 are read");
}

static void patterns_have_to_be_of_use(void **state)
{
    (void)state;
    const struct warm_tensor tensors[] = {F32("a.kernel", 4, 3), F32("in.kernel", 4, 3),
                                          F32("in.bias", 1, 3)};
    char a[] = "a.*", in[] = "in.*", out[] = "out.*", b[] = "b.*", none[] = "";
    struct from_map to_in[] = {{a, in}}, to_out[] = {{a, out}}, of_b[] = {{b, in}},
                    left[] = {{a, none}};
    struct from_spec from = {.strict = false, .map = to_in, .map_count = 1};
    assert_match(tensors, 3, &from, NULL, "a.kernel and in.kernel are both in.kernel");
    from.map = to_out;
    assert_match(tensors, 3, &from, NULL, "from.map.0: no variable of the job is called 'out.*'");
    from.map = of_b;
    assert_match(tensors, 3, &from, NULL, "from.map.0: no tensor there is called 'b.*'");
    from.map = left;
    assert_match(tensors, 3, &from, "2 of 3 variables; not there: head.kernel", NULL);
}

static void long_lists_are_counted(void **state)
{
    (void)state;
    enum { COUNT = 100 };
    struct warm_tensor tensors[COUNT + 1] = {F32("in.bias", 1, 3)};
    char names[COUNT][16];
    for (size_t i = 0; i < COUNT; i++) {
        (void)snprintf(names[i], sizeof names[i], "other%03zu", i);
        tensors[i + 1] = (struct warm_tensor){.name = names[i], .type = "F32", .readable = true};
    }
    const struct from_spec from = {.strict = true};
    struct warm_match m = {0};
    struct err err = {0};
    assert_int_equal(warm_match(tensors, COUNT + 1, &wanted, &from, &m, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "other025 and 74 more"));
    assert_null(strstr(err.msg, "other026"));
}

/* ---- tables ---- */

#define ROWS(label, dim)                                                                           \
    {                                                                                              \
        .name = label, .type = "F32", .readable = true, .table = true, .shape = {                  \
            .rank = 1,                                                                             \
            .dims = {dim}                                                                          \
        }                                                                                          \
    }

static void assert_tables(const struct warm_tensor *tensors, size_t count,
                          const struct from_spec *from, const char *summary, const char *error)
{
    char weights[] = "weights", vectors[] = "vectors";
    struct model_table tables[] = {{.name = weights, .dim = 1}, {.name = vectors, .dim = 8}};
    const struct model_spec model = {.tables = tables, .table_count = 2};
    const struct variable_spec variable = {.name = "bias", .shape = {.rank = 1, .dims = {1}}};
    struct variable_spec *all = warm_wanted_new(&variable, 1, &model);
    const struct warm_wanted with_tables = {all, 3, 2};
    struct warm_match m = {0};
    struct err err = {0};
    const int rc = warm_match(tensors, count, &with_tables, from, &m, &err);
    assert_int_equal(rc, error == NULL ? 0 : ERR_INVALID);
    assert_string_equal(error == NULL ? m.summary : err.msg, error == NULL ? summary : error);
    warm_match_release(&m);
    free(all);
}

static void tables_are_matched_beside_variables(void **state)
{
    (void)state;
    const struct warm_tensor bias = {
        .name = "bias", .type = "F32", .readable = true, .shape = {.rank = 1, .dims = {1}}};
    const struct warm_tensor tensors[] = {bias, ROWS("ads.weights", 1), ROWS("ads.vectors", 8)};
    char ads[] = "ads.*", star[] = "*";
    struct from_map map = {ads, star};
    struct from_spec from = {.strict = true, .map = &map, .map_count = 1};
    assert_tables(tensors, 3, &from, "all 1 variables and all 2 tables", NULL);
}

static void tables_that_do_not_fit_are_said_with_variables(void **state)
{
    (void)state;
    /* A variable is no table, whatever its name and shape. */
    const struct warm_tensor vector = {
        .name = "vectors", .type = "F32", .readable = true, .shape = {.rank = 1, .dims = {8}}};
    const struct warm_tensor tensors[] = {ROWS("weights", 4), vector, ROWS("clicks", 2)};
    struct from_spec from = {.strict = true};
    assert_tables(tensors, 3, &from, NULL,
                  "not there: bias, table vectors; of another shape: rows of table weights [1], "
                  "[4] there; left over there: vectors, table clicks ('strict: false' takes what "
                  "fits)");
    from.strict = false;
    const struct warm_tensor one[] = {ROWS("vectors", 8), ROWS("weights", 4)};
    assert_tables(one, 2, &from,
                  "0 of 1 variables and 1 of 2 tables; not there: bias; of another shape: rows of "
                  "table weights [1], [4] there",
                  NULL);
}

static void shapes_are_those_of_variables(void **state)
{
    (void)state;
    const uint64_t dims[] = {2, 3, 4, 5, 6};
    struct shape s = warm_shape(dims, 4);
    assert_true(s.rank == 4 && s.dims[3] == 5);
    s = warm_shape(dims, 5);
    assert_true(s.rank == 1 && s.dims[0] == 720);
    s = warm_shape(NULL, 0);
    assert_true(s.rank == 1 && s.dims[0] == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stars_are_carried_over),
        cmocka_unit_test(the_first_pattern_counts),
        cmocka_unit_test(everything_fits),
        cmocka_unit_test(what_does_not_fit_is_said_at_once),
        cmocka_unit_test(another_shape_is_not_taken),
        cmocka_unit_test(types_are_refused_by_name),
        cmocka_unit_test(patterns_have_to_be_of_use),
        cmocka_unit_test(long_lists_are_counted),
        cmocka_unit_test(tables_are_matched_beside_variables),
        cmocka_unit_test(tables_that_do_not_fit_are_said_with_variables),
        cmocka_unit_test(shapes_are_those_of_variables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
