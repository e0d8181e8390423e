/* SPDX-License-Identifier: Apache-2.0 */
/* Loads update rules from shared objects: checks who may write the file, opens it
 * (plugin_open.c) and adds it to the table of rules. */
#include "rule/plugin/plugin.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "os/file.h"
#include "rule/plugin/plugin_open.h"

_Static_assert(GRADUS_RULE_SLOTS_MAX <= RULE_SLOTS_MAX, "slots of a plug-in fit");
_Static_assert(GRADUS_RULE_SCALARS_MAX <= RULE_SCALARS_MAX, "scalars of a plug-in fit");

/* ---- a plug-in as a struct rule ---- */

/* The functions of a struct rule are told of no rule, so each plug-in has a pair of its own that
 * knows its place. */
static const struct gradus_rule *places[RULE_ADDED_MAX];
static size_t places_taken;

/* clang-format off */
#define PLACES(X) \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) \
    X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) \
    X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23) \
    X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31)
/* clang-format on */

#define PLACE_FUNCTIONS(i)                                                                         \
    static void prepare_##i(const void *params, uint64_t version, double lr_scale,                 \
                            struct rule_scalars *out)                                              \
    {                                                                                              \
        prepare_in(places[i], params, version, lr_scale, out);                                     \
    }                                                                                              \
    static void apply_##i(const struct rule_scalars *s, float *out, const float *in,               \
                          float *const *slots, const float *gradient, float scale, size_t n)       \
    {                                                                                              \
        places[i]->apply(s->v, out, in, slots, gradient, scale, n);                                \
    }
#define PLACE_ROW(i) {prepare_##i, apply_##i},

static void prepare_in(const struct gradus_rule *g, const void *params, uint64_t version,
                       double lr_scale, struct rule_scalars *out)
{
    memset(out->v, 0, sizeof out->v); /* the interface promises zeros */
    g->prepare(params, version, lr_scale, out->v);
}

PLACES(PLACE_FUNCTIONS)

static const struct {
    void (*prepare)(const void *params, uint64_t version, double lr_scale,
                    struct rule_scalars *out);
    void (*apply)(const struct rule_scalars *s, float *out, const float *in, float *const *slots,
                  const float *gradient, float scale, size_t n);
} functions[] = {PLACES(PLACE_ROW)};
_Static_assert(sizeof functions / sizeof functions[0] == RULE_ADDED_MAX, "a pair for each");

/* Params are the doubles that prepare() takes. */
static struct field *make_fields(const struct gradus_rule *g)
{
    struct field *fields = mem_new(g->hyperparameter_count + 1, sizeof *fields);
    for (size_t i = 0; i < g->hyperparameter_count; i++) {
        const struct gradus_hyperparameter *h = &g->hyperparameters[i];
        struct buf text = {0};
        double value = h->default_value;
        fields[i] = (struct field){
            .path = h->name,
            .type = FIELD_FLOAT,
            .offset = i * sizeof(double),
            .min = h->min,
            .max = h->max,
            .help = h->help,
        };
        const struct field alone = {.type = FIELD_FLOAT};
        field_format(&alone, &value, &text);
        fields[i].def = buf_take(&text);
    }
    return fields;
}

static struct rule *make_rule(const struct gradus_rule *g, size_t place)
{
    struct rule *rule = mem_new(1, sizeof *rule);
    *rule = (struct rule){
        .name = g->name,
        .help = g->help,
        .fields = make_fields(g),
        .field_count = g->hyperparameter_count,
        .params_bytes = g->hyperparameter_count * sizeof(double),
        .slot_count = g->slot_count,
        .prepare = functions[place].prepare,
        .apply = functions[place].apply,
    };
    for (size_t k = 0; k < g->slot_count; k++) {
        rule->slot_names[k] = g->slots[k].name;
        rule->slot_initial[k] = g->slots[k].initial;
    }
    return rule;
}

static void free_rule(struct rule *rule)
{
    for (size_t i = 0; i < rule->field_count; i++) {
        free((void *)(uintptr_t)rule->fields[i].def); /* make_fields() made it */
    }
    free((void *)(uintptr_t)rule->fields);
    free(rule);
}

static int add(const struct gradus_rule *g, const char *path, const struct rule **out,
               struct err *err)
{
    if (places_taken == RULE_ADDED_MAX) {
        return err_set(err, ERR_EXHAUSTED, "there are %d plug-ins already", RULE_ADDED_MAX);
    }
    struct rule *rule = make_rule(g, places_taken);
    char *file = mem_strdup(path);
    int rc = rule_add(rule, file, err);
    if (rc != 0) {
        free_rule(rule);
        free(file);
        return rc;
    }
    places[places_taken++] = g;
    *out = rule;
    return 0;
}

/* ---- files ---- */

/* Checks the owner: whoever may change a plug-in runs code in this program. */
static int check_owner(const struct stat *st, struct err *err)
{
    if (st->st_uid != geteuid() && st->st_uid != 0) {
        return err_set(err, ERR_PERMISSION,
                       "it belongs to user %u, not to %u who runs this program",
                       (unsigned)st->st_uid, (unsigned)geteuid());
    }
    if ((st->st_mode & S_IWOTH) != 0) {
        return err_set(err, ERR_PERMISSION, "everybody may write it");
    }
    return 0;
}

static int check_file(const char *path, struct err *err)
{
    struct stat st;
    if (stat(path, &st) != 0) {
        return err_errno(err, errno, "look at it");
    }
    if (!S_ISREG(st.st_mode)) {
        return err_set(err, ERR_INVALID, "it is no file");
    }
    return check_owner(&st, err);
}

int plugin_load(const char *path, const struct rule **rule, struct err *err)
{
    const struct gradus_rule *g = NULL;
    int rc = check_file(path, err);
    rc = rc != 0 ? rc : plugin_open(path, &g, err);
    return rc != 0 ? rc : add(g, path, rule, err);
}

/* ---- directories ---- */

static int check_dir(const char *dir, struct err *err)
{
    struct stat st;
    if (stat(dir, &st) != 0) {
        return err_errno(err, errno, "look at it");
    }
    if (!S_ISDIR(st.st_mode)) {
        return err_set(err, ERR_INVALID, "it is no directory");
    }
    return check_owner(&st, err);
}

static int is_plugin(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');
    return dot != NULL && dot != entry->d_name && strcmp(dot, ".so") == 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

int plugin_load_dir(const char *dir, void (*tell)(void *ctx, const struct plugin_result *result),
                    void *ctx, struct err *err)
{
    int rc = check_dir(dir, err);
    char *absolute = rc == 0 ? realpath(dir, NULL) : NULL; /* dlopen() searches for bare names */
    struct dirent **entries = NULL;
    int count = rc == 0 && absolute != NULL ? scandir(absolute, &entries, is_plugin, by_name) : 0;
    if (rc == 0 && (absolute == NULL || count < 0)) {
        rc = err_errno(err, errno, "read it");
    }
    for (int i = 0; i < count; i++) {
        struct err refused = {0};
        char *path = file_join(absolute, entries[i]->d_name);
        struct plugin_result result = {.path = path};
        tell(ctx, &result);
        if (plugin_load(path, &result.rule, &refused) != 0) {
            result.reason = refused.msg;
        }
        tell(ctx, &result);
        free(path);
        free(entries[i]);
    }
    free(entries);
    free(absolute);
    return rc == 0 ? 0 : err_wrap(err, "directory of rules %s", dir);
}
