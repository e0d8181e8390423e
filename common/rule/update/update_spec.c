/* SPDX-License-Identifier: Apache-2.0 */
/* Answers what the `update` section of a job means for its variables: which slots there are and
 * which pattern (the first that matches) a variable takes. A pattern that takes none is an
 * error. */
#include "rule/update/update_spec.h"

#include <stdlib.h>
#include <string.h>

#include "rule/update/update.h"

void update_spec_release(struct update_spec *u)
{
    if (u->params != NULL) {
        field_release(u->rule->fields, u->rule->field_count, u->params);
        free(u->params);
    }
    for (size_t i = 0; i < u->schedule_count; i++) {
        field_release(schedule_fields, schedule_field_count, &u->schedules[i].schedule);
    }
    for (size_t i = 0; i < u->pattern_count; i++) {
        free(u->patterns[i].match);
    }
    free(u->schedules);
    free(u->patterns);
    free(u->tables);
    *u = (struct update_spec){0};
}

const struct field *update_spec_field(const struct update_spec *u, const char *name,
                                      enum field_type type)
{
    const struct field *field = field_find(u->rule->fields, u->rule->field_count, name);
    return field != NULL && field->type == type ? field : NULL;
}

/* True if @text matches @glob of characters, ? and *. Goes back to the last * only, so the time is
 * at most the product of the lengths. */
static bool glob(const char *glob, const char *text)
{
    const char *star = NULL, *held = NULL;
    while (*text != '\0') {
        if (*glob == '*') {
            star = glob++;
            held = text;
        } else if (*glob != '\0' && (*glob == '?' || *glob == *text)) {
            glob++;
            text++;
        } else if (star != NULL) {
            glob = star + 1;
            text = ++held;
        } else {
            return false;
        }
    }
    while (*glob == '*') {
        glob++;
    }
    return *glob == '\0';
}

size_t update_spec_match(const struct update_spec *u, const char *variable)
{
    size_t i = 0;
    while (i < u->pattern_count && !glob(u->patterns[i].match, variable)) {
        i++;
    }
    return i;
}

uint64_t update_spec_accumulate(const struct update_spec *u)
{
    return u->accumulate > 1 ? (uint64_t)u->accumulate : 1;
}

bool update_spec_takes_norms(const struct update_spec *u)
{
    return u->clip_norm > 0 || u->clip_global_norm > 0 || u->non_finite == UPDATE_NON_FINITE_SKIP;
}

size_t update_spec_slots(const struct update_spec *spec, struct update_slot slots[UPDATE_SLOTS_MAX])
{
    const struct rule *rule = spec->rule;
    size_t n = 0;
    for (; n < rule->slot_count; n++) {
        slots[n] = (struct update_slot){
            .name = rule->slot_names[n],
            .kind = rule->slot_kinds[n],
            .initial = rule->slot_initial[n],
        };
    }
    if (update_spec_accumulate(spec) > 1) {
        slots[n++] = (struct update_slot){.name = "accumulated", .kind = RULE_SLOT_PARAMETER};
        slots[n++] =
            (struct update_slot){.name = "accumulated_examples", .kind = RULE_SLOT_VARIABLE};
    }
    if (spec->average > 0) {
        slots[n++] =
            (struct update_slot){.name = "average", .kind = RULE_SLOT_PARAMETER, .of_values = true};
    }
    return n;
}

int update_spec_average(const struct update_spec *spec)
{
    struct update_slot slots[UPDATE_SLOTS_MAX];
    return spec->average > 0 ? (int)update_spec_slots(spec, slots) - 1 : -1;
}

/* The name of a variable, or behind them of a table. */
static const char *name_of(const struct update_spec *spec, const struct update_variable *variables,
                           size_t count, size_t i)
{
    return i < count ? variables[i].name : spec->tables[i - count];
}

/* A variable or table that @match matches, whatever pattern takes it; NULL: none. */
static const char *find_match(const struct update_spec *spec, const char *match,
                              const struct update_variable *variables, size_t count)
{
    for (size_t i = 0; i < count + spec->table_count; i++) {
        const char *name = name_of(spec, variables, count, i);
        if (glob(match, name)) {
            return name;
        }
    }
    return NULL;
}

static bool takes_any(const struct update_spec *spec, size_t pattern,
                      const struct update_variable *variables, size_t count)
{
    for (size_t i = 0; i < count + spec->table_count; i++) {
        if (update_spec_match(spec, name_of(spec, variables, count, i)) == pattern) {
            return true;
        }
    }
    return false;
}

int update_spec_check(const struct update_spec *spec, const struct update_variable *variables,
                      size_t count, struct err *err)
{
    for (size_t i = 0; i < spec->pattern_count; i++) {
        if (takes_any(spec, i, variables, count)) {
            continue;
        }
        const char *match = spec->patterns[i].match;
        const char *name = find_match(spec, match, variables, count);
        if (name != NULL) {
            const char *before = spec->patterns[update_spec_match(spec, name)].match;
            return err_set(err, ERR_INVALID,
                           "update.variables.%zu.match: '%s' matches nothing that '%s' above it "
                           "leaves; allowed: the special pattern first",
                           i, match, before);
        }
        return err_set(err, ERR_INVALID,
                       "update.variables.%zu.match: no variable matches '%s'; allowed: patterns of "
                       "names such as '%s'",
                       i, match, count == 0 ? "" : variables[0].name);
    }
    return 0;
}
