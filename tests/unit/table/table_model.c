/* SPDX-License-Identifier: Apache-2.0 */
/* Makes each version from a copy of the one before, one key at a time. */
#include "table_model.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"

struct table_config model_config(const char *rule, size_t dim)
{
    return (struct table_config){
        .name = "users",
        .seed = 11,
        .dim = dim,
        .init = {.kind = INIT_UNIFORM, .a = -0.5, .b = 0.5},
        .rule = rule_find(rule),
        .bytes_max = (uint64_t)1 << 26,
        .copies_bytes_max = (uint64_t)1 << 26,
        .admission = {.kind = TABLE_ADMIT_ALL, .bytes = 1 << 20},
        .shards = 1,
    };
}

void *model_params(const struct rule *rule)
{
    void *params = mem_new(1, rule->params_bytes);
    field_defaults(rule->fields, rule->field_count, params);
    return params;
}

static int compare_keys(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Keys in few of the buckets, so that limits of buckets are met. */
static void make_keys(struct model *m)
{
    size_t n = 0;
    m->keys[n++] = 0;
    m->keys[n++] = UINT64_MAX;
    for (uint64_t i = 0; n < MODEL_KEYS; i++) {
        const uint64_t key = rng_u64(5, i);
        if (table_bucket_of(key) % 32 < 1) {
            m->keys[n++] = key;
        }
    }
    qsort(m->keys, n, sizeof m->keys[0], compare_keys);
}

void model_init(struct model *m, const struct table_config *config)
{
    const struct table_spec spec = {
        .name = config->name,
        .seed = config->seed,
        .dim = config->dim,
        .init = config->init,
        .rule = config->rule,
        .bytes_max = (uint64_t)1 << 24,
    };
    struct table_admission_spec admission = config->admission;
    *m = (struct model){.config = *config, .budget = {.bytes_max = (uint64_t)1 << 30}};
    admission.name = config->name;
    admission.seed = config->seed;
    assert_int_equal(table_rows_init(&m->plan, &spec, NULL), 0);
    assert_true(m->plan.stride <= MODEL_FLOATS_MAX);
    assert_int_equal(table_admission_init(&m->admission, &admission, &m->budget, NULL), 0);
    make_keys(m);
    m->versions[0] = mem_new(1, sizeof *m->versions[0]);
    if (m->admission.counter_count > 0) {
        m->versions[0]->counters = mem_new(m->admission.counter_count, 1);
    }
}

void model_release(struct model *m)
{
    for (size_t i = 0; i < MODEL_VERSIONS; i++) {
        if (m->versions[i] != NULL) {
            free(m->versions[i]->counters);
            free(m->versions[i]);
        }
    }
    table_admission_release(&m->admission);
    table_rows_release(&m->plan);
}

const struct model_version *model_at(const struct model *m, uint64_t version)
{
    assert_true(version <= m->version);
    return m->versions[version];
}

size_t model_find(const struct model *m, uint64_t key)
{
    size_t i = 0;
    while (i < MODEL_KEYS && m->keys[i] != key) {
        i++;
    }
    return i;
}

struct model_row model_read(const struct model *m, size_t number, uint64_t version)
{
    const struct table_catch_up up = {.past = m->config.past, .version = version};
    struct model_row r = model_at(m, version)->rows[number];
    if (!r.present) {
        r.note = (struct table_note){0};
        table_rows_begin(&m->plan, m->keys[number], r.record);
    }
    if (up.past != NULL && m->config.rule->catch_up != NULL && r.note.seen < version) {
        table_rows_catch_up(&m->plan, &up, r.note.seen, r.record);
        r.note.seen = version;
    }
    return r;
}

static bool is_admitted(struct model *m, struct model_row *r, uint64_t key)
{
    if (m->config.admission.kind == TABLE_ADMIT_COUNTED) {
        return r->counted >= m->config.admission.sightings;
    }
    return table_admission_admits(&m->admission, key);
}

static void admit(struct model *m, struct model_version *next, const struct table_step *step)
{
    const struct table_gradient_view *g = &step->gradient;
    for (size_t i = 0; i < g->n; i++) {
        struct model_row *r = &next->rows[model_find(m, g->keys[i])];
        if (r->present) {
            continue;
        }
        if (m->config.admission.kind == TABLE_ADMIT_COUNTED) {
            r->counted += g->sightings[i];
        } else {
            assert_int_equal(
                table_admission_note(&m->admission, &g->keys[i], &g->sightings[i], 1, NULL), 0);
        }
    }
    for (size_t i = 0; i < g->n; i++) {
        struct model_row *r = &next->rows[model_find(m, g->keys[i])];
        if (!r->present && is_admitted(m, r, g->keys[i])) {
            *r = (struct model_row){.present = true};
            r->note.seen = m->config.past == NULL ? m->version : 0;
            table_rows_begin(&m->plan, g->keys[i], r->record);
            m->admitted++;
        }
    }
}

static void update_row(const struct model *m, struct model_row *r, const struct table_step *step,
                       size_t i)
{
    const struct table_catch_up up = {.past = m->config.past, .version = m->version};
    float *slots[RULE_SLOTS_MAX] = {NULL};
    for (size_t k = 0; k < m->config.rule->slot_count; k++) {
        slots[k] = r->record + m->plan.slot_at[k];
    }
    if (up.past != NULL) {
        table_rows_catch_up(&m->plan, &up, r->note.seen, r->record);
    }
    const size_t dim = m->config.dim;
    const struct rule_span span = {
        .out = r->record,
        .in = r->record,
        .slots = slots,
        .gradient = step->gradient.values + i * dim,
        .gradient_scale = step->gradient_scale,
        .base = step->base == NULL ? NULL : step->base + i * dim,
        .n = dim,
        .width = dim,
        .first = step->gradient.keys[i] * dim,
        .variable = m->plan.init_key,
    };
    rule_apply_span(m->config.rule, step->scalars, &span);
    r->note.seen = m->version + 1;
    r->note.sightings += step->gradient.sightings[i];
}

static void evict(struct model *m, struct model_row *r)
{
    *r = (struct model_row){0};
    m->evicted++;
}

static void evict_above(struct model *m, struct model_version *next, uint32_t bucket)
{
    const uint64_t most = table_bucket_share(bucket, m->config.eviction.rows_max);
    for (;;) {
        struct model_row *least = NULL;
        uint64_t n = 0, least_rank = 0;
        for (size_t i = 0; i < MODEL_KEYS; i++) { /* by rising keys */
            struct model_row *r = &next->rows[i];
            if (!r->present || table_bucket_of(m->keys[i]) != bucket) {
                continue;
            }
            const bool recent = m->config.eviction.least == TABLE_LEAST_RECENT;
            const uint64_t rank = recent ? r->note.seen : r->note.sightings;
            n++;
            if (least == NULL || rank < least_rank) {
                least = r;
                least_rank = rank;
            }
        }
        if (n <= most) {
            return;
        }
        evict(m, least);
    }
}

static void evict_rows(struct model *m, struct model_version *next, const struct table_step *step)
{
    const struct table_eviction_spec *e = &m->config.eviction;
    const bool passes = step->version % (e->every == 0 ? 1 : e->every) == 0;
    for (size_t i = 0; i < MODEL_KEYS; i++) {
        struct model_row *r = &next->rows[i];
        if (r->present && passes && e->unseen > 0 && r->note.seen + e->unseen <= step->version) {
            evict(m, r);
        }
    }
    for (uint32_t b = 0; passes && e->rows_max > 0 && b < TABLE_BUCKETS; b++) {
        evict_above(m, next, b);
    }
}

void model_update(struct model *m, const struct table_step *step)
{
    struct model_version *next = mem_new(1, sizeof *next);
    const struct table_gradient_view *g = &step->gradient;
    assert_true(step->version == m->version + 1 && step->version < MODEL_VERSIONS);
    *next = *model_at(m, m->version);
    admit(m, next, step);
    if (m->admission.counter_count > 0) {
        next->counters = mem_new(m->admission.counter_count, 1);
        memcpy(next->counters, m->admission.counters, m->admission.counter_count);
    }
    for (size_t i = 0; i < g->n; i++) {
        struct model_row *r = &next->rows[model_find(m, g->keys[i])];
        if (r->present) {
            update_row(m, r, step, i);
        }
        m->updated += r->present;
        m->dropped += !r->present;
    }
    evict_rows(m, next, step);
    m->version = step->version;
    m->versions[m->version] = next;
}

void model_restore(struct model *m)
{
    for (size_t i = 0; i < MODEL_KEYS; i++) {
        struct model_row *r = &m->versions[m->version]->rows[i];
        if (r->present) {
            *r = model_read(m, i, m->version);
        }
    }
}
