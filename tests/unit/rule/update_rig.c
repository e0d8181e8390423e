/* SPDX-License-Identifier: Apache-2.0 */
/* Updates of the tests, and what they are compared with. */
#include "update_rig.h"

/* ---- the job ---- */

/* @settings: "key=value …" of the rule. */
void rig_spec(struct update_spec *s, const char *rule, const char *settings)
{
    *s = (struct update_spec){.rule = rule_find(rule)};
    assert_non_null(s->rule);
    s->params = mem_new(1, s->rule->params_bytes + 1);
    s->non_finite = UPDATE_NON_FINITE_FAIL;
    field_defaults(s->rule->fields, s->rule->field_count, s->params);
    char text[256], *rest = NULL;
    (void)snprintf(text, sizeof text, "%s", settings);
    for (char *p = strtok_r(text, " ", &rest); p != NULL; p = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(p, '=');
        assert_non_null(value);
        *value++ = '\0';
        const struct field *field = field_find(s->rule->fields, s->rule->field_count, p);
        struct err err = {0};
        if (field == NULL || field_set(field, s->params, value, &err) != 0) {
            fail_msg("%s: %s: %s", rule, p, err.msg);
        }
    }
}

struct update_pattern *rig_pattern(struct update_spec *s, const char *match)
{
    s->patterns = mem_resize(s->patterns, s->pattern_count + 1, sizeof *s->patterns);
    struct update_pattern *p = &s->patterns[s->pattern_count++];
    *p = (struct update_pattern){.match = mem_strdup(match), .learning_rate = 1};
    return p;
}

struct schedule *rig_schedule(struct update_spec *s, const char *name, int kind)
{
    s->schedules = mem_resize(s->schedules, s->schedule_count + 1, sizeof *s->schedules);
    struct rule_schedule *r = &s->schedules[s->schedule_count++];
    *r = (struct rule_schedule){.field = update_spec_field(s, name, FIELD_FLOAT)};
    assert_non_null(r->field);
    field_defaults(schedule_fields, schedule_field_count, &r->schedule);
    r->schedule.kind = kind;
    return &r->schedule;
}

/* ---- parts ---- */

void rig_add_part(struct rig_shard *s, uint32_t variable, uint64_t row, uint64_t rows)
{
    const size_t width = rig_variables[variable].width;
    s->parts[s->part_count++] = (struct update_part){
        .variable = variable,
        .first = row * width,
        .count = rows * width,
        .offset = s->elements,
    };
    s->elements += rows * width;
}

/* Cut every variable into up to @pieces and deal them out at random; @seed 0: whole, in order. */
void rig_deal(struct rig *r, size_t shards, size_t pieces, uint64_t seed)
{
    uint64_t draw = 0;
    size_t dealt = 0;
    r->shard_count = shards;
    for (uint32_t v = 0; v < RIG_VARIABLES; v++) {
        const uint64_t rows = rig_variables[v].elements / rig_variables[v].width;
        for (uint64_t at = 0, n; at < rows; at += n) {
            n = rows;
            size_t shard = v < shards ? v : shards - 1;
            if (seed != 0) {
                n = 1 + rng_below(seed, draw++, 2 * rows / pieces + 1);
                shard = (size_t)rng_below(seed, draw++, shards);
            }
            if (v == 2 && seed != 0) { /* nobody goes away empty */
                n = n < rows / shards ? n : rows / shards;
                shard = dealt < shards ? dealt++ : shard;
            }
            n = n < rows - at ? n : rows - at;
            rig_add_part(&r->shards[shard], v, at, n);
        }
    }
}

float *rig_floats(uint64_t n)
{
    return mem_new(n + 1, sizeof(float));
}

float rig_value(uint32_t variable, uint64_t element)
{
    return (float)rng_normal(rng_key_mix(3, variable), element);
}

int rig_try_open(struct rig_shard *s, const struct update_spec *spec, struct err *err)
{
    return update_new(spec, rig_variables, RIG_VARIABLES, s->parts, s->part_count, &s->update, err);
}

void rig_open(struct rig *r, const struct update_spec *spec)
{
    r->spec = spec;
    for (size_t i = 0; i < r->shard_count; i++) {
        struct rig_shard *s = &r->shards[i];
        struct err err = {0};
        if (rig_try_open(s, spec, &err) != 0) {
            fail_msg("%s", err.msg);
        }
        s->values = rig_floats(s->elements);
        s->out = rig_floats(s->elements);
        s->gradient = rig_floats(s->elements);
        s->more = rig_floats(s->elements);
        s->then = rig_floats(s->elements);
        for (size_t p = 0; p < s->part_count; p++) {
            for (uint64_t k = 0; k < s->parts[p].count; k++) {
                s->values[s->parts[p].offset + k] =
                    rig_value(s->parts[p].variable, s->parts[p].first + k);
            }
        }
        for (size_t k = 0; k < update_slot_count(s->update); k++) {
            s->slots[k] = rig_floats(update_slot_floats(s->update, k));
        }
        update_slots_fill(s->update, s->values, s->slots);
    }
}

void rig_init(struct rig *r, const struct update_spec *spec, size_t shards, size_t pieces,
              uint64_t seed)
{
    *r = (struct rig){0};
    rig_deal(r, shards, pieces, seed);
    rig_open(r, spec);
}

void rig_release(struct rig *r)
{
    for (size_t i = 0; i < r->shard_count; i++) {
        struct rig_shard *s = &r->shards[i];
        for (size_t k = 0; k < UPDATE_SLOTS_MAX; k++) {
            free(s->slots[k]);
        }
        update_free(s->update);
        buf_release(&s->sums);
        free(s->values);
        free(s->out);
        free(s->gradient);
        free(s->more);
        free(s->then);
    }
    *r = (struct rig){0};
}

/* ---- gradients ---- */

float rig_usual(uint64_t version, uint32_t variable, uint64_t element)
{
    uint64_t key = rng_key_mix(rng_key_mix(11, version), variable);
    float g = (float)rng_normal(key, element) * (variable == 2 ? 4.0F : 40.0F);
    return element % 7 == 3 ? 0.0F : g;
}

/* What a worker read, for delay compensation. */
float rig_then(uint32_t variable, uint64_t element)
{
    return 0.5F * rig_value(variable, element);
}

void rig_fill(struct rig *r, rig_gradient *gradient)
{
    for (size_t i = 0; i < r->shard_count; i++) {
        struct rig_shard *s = &r->shards[i];
        for (size_t p = 0; p < s->part_count; p++) {
            const struct update_part *part = &s->parts[p];
            for (uint64_t k = 0; k < part->count; k++) {
                float g = gradient(r->version, part->variable, part->first + k);
                s->more[part->offset + k] = r->in_two ? 0.5F * g : 0.0F;
                s->gradient[part->offset + k] = r->in_two ? 0.5F * g : g;
                s->then[part->offset + k] = rig_then(part->variable, part->first + k);
            }
        }
    }
}

struct update_step rig_step(const struct rig *r, size_t shard, uint64_t examples)
{
    const struct rig_shard *s = &r->shards[shard];
    return (struct update_step){
        .version = r->version,
        .lr_scale = r->lr_scale == 0 ? 1 : r->lr_scale,
        .in = s->values,
        .gradient = s->gradient,
        .more = r->in_two ? s->more : NULL,
        .then = r->lambda == 0 ? NULL : s->then,
        .lambda = r->lambda,
        .examples = examples,
        .slots = s->slots,
    };
}

void rig_flip(struct rig *r)
{
    for (size_t i = 0; i < r->shard_count; i++) {
        float *was = r->shards[i].values;
        r->shards[i].values = r->shards[i].out;
        r->shards[i].out = was;
    }
    r->version++;
}

void rig_round(struct rig *r, unsigned round)
{
    const void *parts[RIG_SHARDS_MAX];
    size_t bytes[RIG_SHARDS_MAX];
    for (size_t i = 0; i < r->shard_count; i++) {
        size_t at = (i + r->version) % r->shard_count; /* in any order */
        update_reduce(r->shards[at].update, round, &r->shards[at].sums);
        parts[i] = r->shards[at].sums.data;
        bytes[i] = r->shards[at].sums.len;
    }
    struct buf totals = {0};
    struct err err = {0};
    if (update_join(parts, bytes, r->shard_count, &totals, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    for (size_t i = 0; i < r->shard_count; i++) {
        if (update_settle(r->shards[i].update, round, totals.data, totals.len, &err) != 0) {
            fail_msg("%s", err.msg);
        }
    }
    buf_release(&totals);
}

/* One version of all shards, with all rounds between them. The gradient is in place. */
struct update_result rig_update(struct rig *r, uint64_t examples)
{
    struct update_result result, all = {0};
    for (size_t i = 0; i < r->shard_count; i++) {
        const struct update_step step = rig_step(r, i, examples);
        update_begin(r->shards[i].update, &step);
    }
    for (unsigned round = 0; round < update_rounds(r->shards[0].update); round++) {
        rig_round(r, round);
    }
    for (size_t i = 0; i < r->shard_count; i++) {
        update_finish(r->shards[i].update, r->shards[i].out, &result);
        if (i == 0 || result.outcome > all.outcome || result.element < all.element) {
            all = result;
        }
    }
    rig_flip(r);
    return all;
}

struct update_result rig_train(struct rig *r, rig_gradient *gradient, uint64_t examples)
{
    rig_fill(r, gradient);
    return rig_update(r, examples);
}

/* ---- looking ---- */

const float *rig_find(const struct rig *r, uint32_t variable, uint64_t element, int slot)
{
    for (size_t i = 0; i < r->shard_count; i++) {
        const struct rig_shard *s = &r->shards[i];
        for (size_t p = 0; p < s->part_count; p++) {
            const struct update_part *part = &s->parts[p];
            if (part->variable != variable || element < part->first ||
                element - part->first >= part->count) {
                continue;
            }
            uint64_t inside = element - part->first;
            if (slot < 0) {
                return &s->values[part->offset + inside];
            }
            const struct update_slot *kind = update_slot(s->update, (size_t)slot);
            const size_t width = rig_variables[variable].width;
            uint64_t at = update_slot_offset(s->update, (size_t)slot, p);
            at += kind->kind == RULE_SLOT_PARAMETER ? inside
                  : kind->kind == RULE_SLOT_ROW     ? inside / width
                  : kind->kind == RULE_SLOT_COLUMN  ? element % width
                                                    : 0;
            return &s->slots[slot][at];
        }
    }
    fail_msg("no element %lu of variable %u", (unsigned long)element, variable);
    return NULL;
}

/* The same bits everywhere, slots too. */
void rig_assert_same(const struct rig *a, const struct rig *b, const char *what)
{
    int slots = (int)update_slot_count(a->shards[0].update);
    for (uint32_t v = 0; v < RIG_VARIABLES; v++) {
        for (uint64_t e = 0; e < rig_variables[v].elements; e++) {
            for (int slot = -1; slot < slots; slot++) {
                const float *x = rig_find(a, v, e, slot), *y = rig_find(b, v, e, slot);
                if (memcmp(x, y, sizeof *x) != 0) {
                    fail_msg("%s: version %lu, %s[%lu] slot %d: %.9g and %.9g", what,
                             (unsigned long)a->version, rig_variables[v].name, (unsigned long)e,
                             slot, (double)*x, (double)*y);
                }
            }
        }
    }
}
