/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a shared object and checks the table `gradus_rule` in it: the ABI version before
 * anything else, then names, ranges and help. Refuses one that changes the processor's float
 * mode. */
#include <dlfcn.h>
#include <fenv.h>
#include <math.h>
#include <string.h>

#include "base/float_mode.h"
#include "base/text.h"
#include "rule/plugin/plugin.h"
#include "rule/plugin/plugin_open.h"

/* Keys of a job's `update` that are not the rule's, and slots that are not the rule's. l1, l2 and
 * weight_decay are not among them: a rule that has one of these has its own. */
static const char *const keys_taken[] = {
    "rule",      "schedule",   "schedules",  "clip_value", "clip_norm",        "clip_global_norm",
    "variables", "accumulate", "non_finite", "average",    "evaluate_average",
};
static const char *const slots_taken[] = {"average", "accumulated", "accumulated_examples"};
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static bool is_among(const char *name, const char *const *names, size_t count)
{
    size_t i = 0;
    while (i < count && strcmp(names[i], name) != 0) {
        i++;
    }
    return i < count;
}

static int check_name(const char *what, const char *name, struct err *err)
{
    char shown[64];
    if (name == NULL) {
        return err_set(err, ERR_INVALID, "%s has no name", what);
    }
    size_t n = strnlen(name, GRADUS_RULE_NAME_BYTES_MAX + 1);
    bool plain = n > 0 && n <= GRADUS_RULE_NAME_BYTES_MAX && name[0] >= 'a' && name[0] <= 'z';
    for (size_t i = 0; plain && i < n; i++) {
        plain = (name[i] >= 'a' && name[i] <= 'z') || (name[i] >= '0' && name[i] <= '9') ||
                name[i] == '_';
    }
    if (plain) {
        return 0;
    }
    char cut[GRADUS_RULE_NAME_BYTES_MAX + 2] = {0};
    memcpy(cut, name, n);
    return err_set(err, ERR_INVALID,
                   "the name '%s' of %s is not 1 to %d lower-case letters, digits and underscores",
                   text_shown(cut, shown, sizeof shown), what, GRADUS_RULE_NAME_BYTES_MAX);
}

static int check_help(const char *what, const char *help, struct err *err)
{
    size_t n = help == NULL ? 0 : strnlen(help, GRADUS_RULE_HELP_BYTES_MAX + 1);
    bool line = n > 0 && n <= GRADUS_RULE_HELP_BYTES_MAX && text_is_utf8(help, n);
    for (size_t i = 0; line && i < n; i++) {
        line = (unsigned char)help[i] >= ' ' && help[i] != 0x7f;
    }
    return line ? 0
                : err_set(err, ERR_INVALID, "the help of %s is not a line of 1 to %d bytes of text",
                          what, GRADUS_RULE_HELP_BYTES_MAX);
}

bool plugin_key_is_taken(const char *key)
{
    return is_among(key, keys_taken, COUNT(keys_taken));
}

static int check_taken(const char *what, const char *name, const char *const *taken, size_t count,
                       struct err *err)
{
    return is_among(name, taken, count)
               ? err_set(err, ERR_INVALID, "the name %s of %s is taken", name, what)
               : 0;
}

static int check_range(const struct gradus_hyperparameter *h, struct err *err)
{
    bool sound = isfinite(h->min) && (isfinite(h->max) || h->max == INFINITY) && h->min < h->max;
    if (!sound) {
        return err_set(err, ERR_INVALID, "hyperparameter %s: from %g to %g is no range", h->name,
                       h->min, h->max);
    }
    if (!isfinite(h->default_value) || h->default_value < h->min || h->default_value > h->max) {
        return err_set(err, ERR_INVALID, "hyperparameter %s: the default %g is not from %g to %g",
                       h->name, h->default_value, h->min, h->max);
    }
    return 0;
}

static int check_hyperparameters(const struct gradus_rule *g, struct err *err)
{
    if (g->hyperparameter_count > GRADUS_RULE_HYPERPARAMETERS_MAX ||
        (g->hyperparameter_count > 0 && g->hyperparameters == NULL)) {
        return err_set(err, ERR_INVALID, "%zu hyperparameters: 0 to %d are allowed",
                       g->hyperparameter_count, GRADUS_RULE_HYPERPARAMETERS_MAX);
    }
    const char *names[GRADUS_RULE_HYPERPARAMETERS_MAX];
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < g->hyperparameter_count; i++) {
        const struct gradus_hyperparameter *h = &g->hyperparameters[i];
        names[i] = h->name;
        rc = check_name("a hyperparameter", h->name, err);
        rc = rc != 0 ? rc
                     : check_taken("a hyperparameter", h->name, keys_taken, COUNT(keys_taken), err);
        rc = rc != 0 ? rc : check_taken("a hyperparameter", h->name, names, i, err);
        rc = rc != 0 ? rc : check_help(h->name, h->help, err);
        rc = rc != 0 ? rc : check_range(h, err);
    }
    return rc;
}

static int check_slots(const struct gradus_rule *g, struct err *err)
{
    if (g->slot_count > GRADUS_RULE_SLOTS_MAX || (g->slot_count > 0 && g->slots == NULL)) {
        return err_set(err, ERR_INVALID, "%zu slots: 0 to %d are allowed", g->slot_count,
                       GRADUS_RULE_SLOTS_MAX);
    }
    const char *names[GRADUS_RULE_SLOTS_MAX];
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < g->slot_count; i++) {
        const char *name = names[i] = g->slots[i].name;
        rc = check_name("a slot", name, err);
        rc = rc != 0 ? rc : check_taken("a slot", name, slots_taken, COUNT(slots_taken), err);
        rc = rc != 0 ? rc : check_taken("a slot", name, names, i, err);
        if (rc == 0 && !isfinite(g->slots[i].initial)) {
            rc = err_set(err, ERR_INVALID, "slot %s begins as %g", name,
                         (double)g->slots[i].initial);
        }
    }
    return rc;
}

/* Nothing but `abi` may be read before it is known. */
static int check_table(const struct gradus_rule *g, struct err *err)
{
    if (g->abi != GRADUS_RULE_ABI) {
        return err_set(err, ERR_UNSUPPORTED, "it has ABI version %u; this program knows %d",
                       (unsigned)g->abi, GRADUS_RULE_ABI);
    }
    int rc = check_name("the rule", g->name, err);
    rc = rc != 0 ? rc : check_help("the rule", g->help, err);
    rc = rc != 0 ? rc : check_hyperparameters(g, err);
    rc = rc != 0 ? rc : check_slots(g, err);
    if (rc == 0 && (g->prepare == NULL || g->apply == NULL)) {
        rc = err_set(err, ERR_INVALID, "it has no %s()", g->prepare == NULL ? "prepare" : "apply");
    }
    return rc;
}

/* Checks that floats are computed as before the plug-in was loaded, and makes it so. */
static int check_float_mode(const fenv_t *before, bool flushed, struct err *err)
{
    if (fegetround() != FE_TONEAREST || float_mode_flushes() != flushed) {
        (void)fesetenv(before);
        return err_set(err, ERR_INVALID,
                       "it changes the floating-point mode of the process (as libraries linked "
                       "with -ffast-math do)");
    }
    return 0;
}

int plugin_open(const char *path, const struct gradus_rule **out, struct err *err)
{
    const bool flushed = float_mode_flushes();
    fenv_t before;
    (void)fegetenv(&before);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        const char *why = dlerror();
        return err_set(err, ERR_INVALID, "it cannot be loaded: %s", why == NULL ? "" : why);
    }
    int rc = check_float_mode(&before, flushed, err);
    const struct gradus_rule *g = rc == 0 ? dlsym(handle, "gradus_rule") : NULL;
    if (rc == 0 && g == NULL) {
        rc = err_set(err, ERR_INVALID, "it does not define gradus_rule");
    }
    rc = rc != 0 ? rc : check_table(g, err);
    rc = rc != 0 ? rc : rule_name_is_free(g->name, err);
    if (rc == 0) {
        *out = g;
    } else {
        (void)dlclose(handle);
    }
    return rc;
}
