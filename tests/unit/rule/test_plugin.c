/* SPDX-License-Identifier: Apache-2.0 */
/* Plug-ins, good and bad, built here with cc from tests/unit/rule/plugins and examples. */
#include "rule_rig.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "os/file.h"
#include "rule/plugin/plugin.h"
#include "support/tmp_dir.h"

struct place {
    char *dir;
};

static int setup(void **state)
{
    struct place *p = mem_new(1, sizeof *p);
    p->dir = tmp_dir_make("plugin");
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    struct place *p = *state;
    tmp_dir_remove(p->dir);
    free(p);
    return 0;
}

/* Compile plugins/rule.c with @flags to <dir>/<name>.so; returns the path, owned. */
static char *build(const struct place *p, const char *name, const char *flags)
{
    const char *source = getenv("GRADUS_SOURCE_DIR");
    if (source == NULL) {
        skip();
    }
    char *path = mem_printf("%s/%s.so", p->dir, name);
    char *command = mem_printf("cc -std=gnu11 -w -O1 -ffp-contract=off -fPIC -shared "
                               "-I '%s/include' %s -o '%s' '%s/tests/unit/rule/plugins/rule.c' -lm",
                               source, flags, path, source);
    if (system(command) != 0) {
        fail_msg("%s", command);
    }
    free(command);
    return path;
}

static void expect_refused(const char *path, int code, const char *message)
{
    size_t count = 0;
    while (rule_at(count) != NULL) {
        count++;
    }
    const struct rule *rule = NULL;
    struct err err = {0};
    int rc = plugin_load(path, &rule, &err);
    if (rc != code || strstr(err.msg, message) == NULL) {
        fail_msg("%s: code %d, \"%s\"; expected %d, \"%s\"", path, rc, err.msg, code, message);
    }
    assert_null(rule);
    assert_null(rule_at(count));
}

static void mistakes_are_refused_with_a_reason(void **state)
{
    static const struct {
        const char *mistake;
        int code;
        const char *message;
    } rows[] = {
        {"ABI", ERR_UNSUPPORTED, "it has ABI version 2; this program knows 1"},
        {"SYMBOL", ERR_INVALID, "it does not define gradus_rule"},
        {"UNDEFINED", ERR_INVALID, "undefined symbol: nowhere"},
        {"NO_NAME", ERR_INVALID, "the rule has no name"},
        {"NO_HELP", ERR_INVALID, "the help of the rule is not a line"},
        {"HELP_OF_KEY", ERR_INVALID, "the help of learning_rate is not a line"},
        {"NO_KEYS", ERR_INVALID, "2 hyperparameters: 0 to 16 are allowed"},
        {"KEYS_MANY", ERR_INVALID, "17 hyperparameters: 0 to 16 are allowed"},
        {"KEY_TAKEN", ERR_INVALID, "the name clip_norm of a hyperparameter is taken"},
        {"KEY_TWICE", ERR_INVALID, "the name learning_rate of a hyperparameter is taken"},
        {"KEY_MALFORMED", ERR_INVALID, "the name 'learning-rate' of a hyperparameter is not"},
        {"RANGE", ERR_INVALID, "hyperparameter learning_rate: from 1 to 1 is no range"},
        {"RANGE_INFINITE", ERR_INVALID, "from -inf to 1 is no range"},
        {"DEFAULT", ERR_INVALID, "the default 1.5 is not from 0 to 1"},
        {"DEFAULT_NAN", ERR_INVALID, "the default nan is not from 0 to 1"},
        {"NO_SLOTS", ERR_INVALID, "1 slots: 0 to 4 are allowed"},
        {"SLOTS_MANY", ERR_INVALID, "5 slots: 0 to 4 are allowed"},
        {"SLOT_TAKEN", ERR_INVALID, "the name average of a slot is taken"},
        {"SLOT_TWICE", ERR_INVALID, "the name m of a slot is taken"},
        {"SLOT_NAN", ERR_INVALID, "slot m begins as nan"},
        {"NO_PREPARE", ERR_INVALID, "it has no prepare()"},
        {"NO_APPLY", ERR_INVALID, "it has no apply()"},
        {"ROUNDING", ERR_INVALID, "it changes the floating-point mode"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *flags = mem_printf("-DMISTAKE_%s", rows[i].mistake);
        char *path = build(*state, rows[i].mistake, flags);
        expect_refused(path, rows[i].code, rows[i].message);
        free(path);
        free(flags);
    }
}

static void names_are_checked(void **state)
{
    static const char *const rows[][2] = {
        {"adam", "there is a rule adam already, built in"},
        {"", "the name '' of the rule is not 1 to 31"},
        {"Adam", "the name 'Adam' of the rule"},
        {"1st", "the name '1st' of the rule"},
        {"../x", "the name '../x' of the rule"},
        {"a_name_that_has_too_many_letters", "of the rule is not 1 to 31"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *flags = mem_printf("-DNAME='\"%s\"'", rows[i][0]);
        char *path = build(*state, "named", flags);
        expect_refused(path, i == 0 ? ERR_EXISTS : ERR_INVALID, rows[i][1]);
        free(path);
        free(flags);
    }
}

static void owners_are_checked(void **state)
{
    const struct place *p = *state;
    const struct rule *rule = NULL;
    char *path = build(p, "owned", "-DNAME='\"owned\"'");
    assert_int_equal(chmod(path, 0757), 0);
    expect_refused(path, ERR_PERMISSION, "everybody may write it");
    assert_int_equal(chmod(path, 0755), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(path, 1, 0), 0);
        expect_refused(path, ERR_PERMISSION, "it belongs to user 1, not to 0");
        assert_int_equal(chown(path, 0, 0), 0);
    }
    assert_int_equal(plugin_load(path, &rule, NULL), 0);
    free(path);
    expect_refused(p->dir, ERR_INVALID, "it is no file");
    expect_refused("/nonexistent.so", ERR_NOT_FOUND, "look at it");
}

/* ---- a good one ---- */

static void check_update(const struct rule *rule)
{
    enum { N = 1000 };
    static float in[N], out[N], m[N], gradient[N];
    double *params = fixture_params(rule, "decay=0.5");
    float *slots[] = {m};
    struct rule_scalars s;
    memset(&s, 0xff, sizeof s);
    rule->prepare(params, 3, 0.5, &s);
    for (size_t i = 0; i < N; i++) {
        in[i] = (float)rng_normal(1, i);
        m[i] = (float)rng_normal(2, i);
        gradient[i] = (float)rng_normal(3, i);
    }
    float before[N];
    memcpy(before, m, sizeof m);
    struct rule_span span = {
        .out = out,
        .in = in,
        .slots = slots,
        .gradient = gradient,
        .gradient_scale = 0.25F,
        .n = N,
        .width = 1,
    };
    rule_apply_span(rule, &s, &span);
    for (size_t i = 0; i < N; i++) {
        float want = 0.5F * before[i] + gradient[i] * 0.25F;
        assert_true(m[i] == want);
        assert_true(out[i] == in[i] - 0.25F * want);
    }
    free(params);
}

static void a_good_one_is_a_rule_as_any_other(void **state)
{
    char *path = build(*state, "good", "-DNAME='\"good\"'");
    const struct rule *rule = NULL;
    struct err err = {0};
    if (plugin_load(path, &rule, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    assert_ptr_equal(rule_find("good"), rule);
    assert_string_equal(rule_file(rule), path);
    assert_null(rule_file(rule_find("adam")));
    assert_string_equal(rule->name, "good");
    assert_string_equal(rule->help, "Momentum");
    assert_int_equal(rule->slot_count, 1);
    assert_string_equal(rule->slot_names[0], "m");
    assert_true(rule_is_elementwise(rule));
    assert_int_equal(rule->field_count, 2);
    const struct field *rate = field_find(rule->fields, 2, "learning_rate");
    assert_non_null(rate);
    assert_string_equal(rate->def, "0.5");
    double params[2] = {0};
    field_defaults(rule->fields, 2, params);
    assert_true(params[0] == 0.5 && params[1] == 0.9);
    assert_int_equal(field_set(rate, params, "1.5", &err), ERR_INVALID);
    assert_int_equal(field_set(&rule->fields[1], params, "1e30", &err), 0); /* no upper bound */
    check_update(rule);
    expect_refused(path, ERR_EXISTS, "there is a rule good already, from /tmp");
    free(path);
}

/* ---- directories ---- */

struct told {
    struct buf text;
    size_t announced, taken, refused;
};

static void tell(void *ctx, const struct plugin_result *result)
{
    struct told *t = ctx;
    const char *name = strrchr(result->path, '/') + 1;
    if (result->rule == NULL && result->reason == NULL) { /* it comes */
        t->announced++;
        return;
    }
    assert_true((result->rule == NULL) == (result->reason != NULL));
    t->taken += result->rule != NULL;
    t->refused += result->rule == NULL;
    assert_int_equal(t->announced, t->taken + t->refused);
    buf_printf(&t->text, "%s: %s\n", name,
               result->rule != NULL ? result->rule->name : result->reason);
}

static void write_file(const struct place *p, const char *name, const void *data, size_t n)
{
    char *path = file_join(p->dir, name);
    assert_int_equal(file_write_atomic(path, data, n, NULL), 0);
    assert_int_equal(chmod(path, 0644), 0);
    free(path);
}

static void a_directory_is_read_in_order_of_names(void **state)
{
    const struct place *p = *state;
    free(build(p, "b", "-DNAME='\"from_b\"'"));
    free(build(p, "a", "-DNAME='\"from_a\"'"));
    free(build(p, "c", "-DMISTAKE_ABI"));
    write_file(p, "d.so", "no library", 10);
    write_file(p, "README", "not looked at", 13);
    struct told t = {0};
    assert_int_equal(plugin_load_dir(p->dir, tell, &t, NULL), 0);
    const char *expected = "a.so: from_a\nb.so: from_b\nc.so: it has ABI version 2; this program "
                           "knows 1\nd.so: it cannot be loaded: ";
    assert_memory_equal(buf_str(&t.text), expected, strlen(expected));
    assert_int_equal(t.taken, 2);
    assert_int_equal(t.refused, 2);
    check_update(rule_find("from_a"));
    check_update(rule_find("from_b"));
    buf_release(&t.text);
}

static void directories_are_checked(void **state)
{
    const struct place *p = *state;
    struct told t = {0};
    struct err err = {0};
    assert_int_equal(plugin_load_dir("/nonexistent", tell, &t, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.msg, "directory of rules /nonexistent: "));
    write_file(p, "file", "", 0);
    char *file = file_join(p->dir, "file");
    assert_int_equal(plugin_load_dir(file, tell, &t, &err), ERR_INVALID);
    free(file);
    assert_int_equal(plugin_load_dir(p->dir, tell, &t, &err), 0); /* an empty one */
    assert_int_equal(chmod(p->dir, 0777), 0);
    assert_int_equal(plugin_load_dir(p->dir, tell, &t, &err), ERR_PERMISSION);
    assert_non_null(strstr(err.msg, "everybody may write it"));
    assert_int_equal(chmod(p->dir, 0700), 0);
    assert_int_equal(t.taken + t.refused, 0);
}

/* The same library again and again, with another name in it. */
static void there_is_room_for_so_many(void **state)
{
    const struct place *p = *state;
    char *path = build(p, "many", "-DNAME='\"many_00\"'");
    struct buf library = {0};
    assert_int_equal(file_read(path, 1U << 22, &library, NULL), 0);
    assert_int_equal(unlink(path), 0);
    char *name = memmem(library.data, library.len, "many_00", 7);
    assert_non_null(name);
    for (unsigned i = 0; i <= RULE_ADDED_MAX; i++) {
        char file[32];
        name[5] = (char)('0' + i / 10);
        name[6] = (char)('0' + i % 10);
        (void)snprintf(file, sizeof file, "many_%02u.so", i);
        write_file(p, file, library.data, library.len);
    }
    struct told t = {0};
    assert_int_equal(plugin_load_dir(p->dir, tell, &t, NULL), 0);
    assert_true(t.refused > 0 && t.taken > 0 && t.taken + t.refused == RULE_ADDED_MAX + 1);
    assert_non_null(strstr(buf_str(&t.text), "there are 32 plug-ins already"));
    size_t found = 0;
    for (size_t i = 0; rule_at(i) != NULL; i++) {
        if (strncmp(rule_at(i)->name, "many_", 5) == 0) {
            check_update(rule_at(i));
            found++;
        }
    }
    assert_int_equal(found, t.taken);
    buf_release(&t.text);
    buf_release(&library);
    free(path);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(mistakes_are_refused_with_a_reason),
        TEST(names_are_checked),
        TEST(owners_are_checked),
        TEST(a_good_one_is_a_rule_as_any_other),
        TEST(a_directory_is_read_in_order_of_names),
        TEST(directories_are_checked),
        TEST(there_is_room_for_so_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
