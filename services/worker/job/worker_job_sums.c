/* SPDX-License-Identifier: Apache-2.0 */
/* For update rules that need a number over a whole variable, of which each shard has a part only:
 * joins the shards' partial sums into totals, computes norms, and adds both to what is sent. */
#include "worker/job/worker_job_sums.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "job/spec/job_era.h"
#include "table/table_squares.h"

static uint64_t count_elements(const struct plan *plan)
{
    uint64_t n = 0;
    for (uint32_t s = 0; s < plan->shard_count; s++) {
        n += plan->shard_elements[s];
    }
    return n;
}

/* ---- eras ---- */

static void release_eras(struct worker_job_era *items, struct era *eras, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        update_free(items[i].update);
        update_spec_release(&items[i].spec);
        free(items[i].section);
    }
    free(items);
    free(eras);
}

static int make_era(const struct worker_job_sums *s, const char *section, struct worker_job_era *e,
                    struct err *err)
{
    int rc = job_update_parse(section, s->spec, &e->spec, err);
    rc = rc != 0 ? rc : plan_update_whole(s->plan, &e->spec, &e->update, err);
    if (rc != 0) {
        update_spec_release(&e->spec);
        return rc;
    }
    update_add_tables(e->update, s->spec->model.table_count, true);
    e->section = mem_strdup(section);
    return 0;
}

static bool are_known(const struct worker_job_sums *s, Gradus__V1__Era *const *eras, size_t count)
{
    bool same = count == s->era_count;
    for (size_t i = 0; i < count && same; i++) {
        same = s->eras[i].version == eras[i]->version &&
               strcmp(s->items[i].section, eras[i]->update) == 0;
    }
    return same;
}

/* Memory for norms, when an era wants them. */
static int make_room(struct worker_job_sums *s, struct err *err)
{
    bool wanted = false;
    s->tables = 0;
    for (size_t i = 0; i < s->era_count; i++) {
        wanted = wanted || update_spec_takes_norms(&s->items[i].spec);
        s->tables =
            update_needs_tables(s->items[i].update) ? s->spec->model.table_count : s->tables;
    }
    s->needs_norms = wanted;
    s->norms_buffer = WORKER_BUFFER_NONE;
    if (!wanted || s->gradient != NULL) {
        return 0;
    }
    s->norms = mem_new(s->variable_count + s->spec->model.table_count, sizeof *s->norms);
    s->gradient = mem_try_aligned(count_elements(s->plan), sizeof(float), "a whole gradient", err);
    return s->gradient == NULL ? ERR_EXHAUSTED : 0;
}

int worker_job_sums_eras(struct worker_job_sums *s, Gradus__V1__Era *const *list, size_t count,
                         struct err *err)
{
    if (s->shard_count == 0 || count == 0 || are_known(s, list, count)) {
        return 0;
    }
    if (count > ERAS_MAX) {
        return err_set(err, ERR_INVALID, "%zu eras; at most %d", count, ERAS_MAX);
    }
    struct worker_job_era *items = mem_new(count, sizeof *items);
    struct era *eras = mem_new(count, sizeof *eras);
    size_t made = 0;
    int rc = 0;
    while (made < count && rc == 0) {
        rc = make_era(s, list[made]->update, &items[made], err);
        if (rc == 0) {
            eras[made] = (struct era){
                .version = list[made]->version,
                .rounds = plan_update_rounds(s->plan, items[made].update),
            };
            made++;
        }
    }
    rc = rc != 0 ? rc : era_check(eras, count, WORKER_ROUNDS_MAX, err);
    if (rc != 0) {
        release_eras(items, eras, made);
        return err_wrap(err, "eras");
    }
    release_eras(s->items, s->eras, s->era_count);
    s->items = items;
    s->eras = eras;
    s->era_count = count;
    return make_room(s, err);
}

int worker_job_sums_init(struct worker_job_sums *s, const struct plan *plan,
                         const struct job_spec *spec, Gradus__V1__Era *const *eras, size_t count,
                         struct err *err)
{
    if (plan->shard_count == 1) {
        return 0; /* it has everything */
    }
    s->plan = plan;
    s->spec = spec;
    s->shard_count = plan->shard_count;
    s->parts = mem_new(s->shard_count, sizeof *s->parts);
    s->variable_count = plan->variable_count;
    s->norms_buffer = WORKER_BUFFER_NONE;
    if (count > 0) {
        return worker_job_sums_eras(s, eras, count, err);
    }
    char *section = job_update_section(spec->text);
    Gradus__V1__Era only = GRADUS__V1__ERA__INIT;
    Gradus__V1__Era *const list[] = {&only};
    only.update = section;
    int rc = worker_job_sums_eras(s, list, 1, err);
    free(section);
    return rc;
}

void worker_job_sums_release(struct worker_job_sums *s)
{
    for (uint32_t i = 0; i < s->shard_count; i++) {
        buf_release(&s->parts[i]);
    }
    for (size_t i = 0; i < WORKER_ROUNDS_MAX; i++) {
        buf_release(&s->totals[i]);
    }
    free(s->parts);
    free(s->gradient);
    free(s->norms);
    release_eras(s->items, s->eras, s->era_count);
    *s = (struct worker_job_sums){0};
}

static void keep(struct buf *to, const void *data, size_t bytes)
{
    buf_reset(to);
    buf_add(to, data, bytes);
}

void worker_job_sums_take(struct worker_job_sums *s, const struct ps_answer *answer)
{
    const struct exchange_answer *a = &answer->answer;
    if (a->kind == EXCHANGE_SUMS && answer->shard < s->shard_count) {
        keep(&s->parts[answer->shard], a->sums.data, a->sums.bytes);
    }
}

int worker_job_sums_join(struct worker_job_sums *s, const struct worker_do_join *a, struct err *err)
{
    struct buf *totals = &s->totals[a->round];
    if (a->known) {
        keep(totals, s->parts[a->shard].data, s->parts[a->shard].len);
        return 0;
    }
    const void **parts = mem_new(s->shard_count, sizeof *parts);
    size_t *bytes = mem_new(s->shard_count, sizeof *bytes);
    for (uint32_t i = 0; i < s->shard_count; i++) {
        parts[i] = s->parts[i].data;
        bytes[i] = s->parts[i].len;
    }
    int rc = update_join(parts, bytes, s->shard_count, totals, err);
    free(parts);
    free(bytes);
    return rc == 0 ? 0
                   : err_wrap(err, "sums of round %" PRIu32 " of step %" PRIu64, a->round, a->step);
}

/* The era that norms are made for: of the version that the gradient was computed on, unless that
 * needs none. A gradient that is applied in a later era brings the norms of its own. */
static const struct worker_job_era *era_of(const struct worker_job_sums *s, uint64_t version)
{
    size_t at = era_at(s->eras, s->era_count, version);
    for (size_t i = 0; i < s->era_count && !update_spec_takes_norms(&s->items[at].spec); i++) {
        at = s->era_count - 1 - i;
    }
    return &s->items[at];
}

/* The norms of tables stand behind those of variables. */
static void make_table_norms(struct worker_job_sums *s, const struct worker_model *model,
                             const struct ps_client_request *r, const struct worker_job_era *era)
{
    const struct worker_rows_gradient *g = &model->row_gradients[r->gradient_id];
    const uint64_t examples = r->ask.push.examples;
    for (size_t i = 0; i < s->tables; i++) {
        const struct table_clip clip = {.value = (float)era->spec.clip_value,
                                        .norm = model->spec.model.tables[i].clip_norm};
        const struct table_gradient_view rows = table_gradient_view(&g->tables[i]);
        struct exact_sum sum = {0};
        float *scratch = mem_new(rows.dim, sizeof *scratch);
        table_squares_add(&sum, &rows, examples == 0 ? 1.0F : 1.0F / (float)examples, &clip,
                          scratch);
        s->norms[s->variable_count + i] = exact_sum_total(&sum);
        free(scratch);
    }
}

/* The flat arrays of the model have gaps between variables. */
static int make_norms(struct worker_job_sums *s, const struct worker_model *model,
                      const struct ps_client_request *r, struct err *err)
{
    float *to = s->gradient;
    for (size_t i = 0; i < model->variable_count; i++) {
        uint64_t n = shape_count(&model->variables[i].shape);
        memcpy(to, r->gradient + model->offsets[i], (size_t)n * sizeof(float));
        to += n;
    }
    const struct worker_job_era *era = era_of(s, r->ask.push.base_version);
    make_table_norms(s, model, r, era);
    return update_norms(era->update, s->gradient, r->ask.push.examples, s->norms, err);
}

bool worker_job_sums_needs_norms(const struct worker_job_sums *s, const struct ps_client_request *r)
{
    const struct exchange_push *push = &r->ask.push;
    bool of_batches = r->ask.has_push && push->replica_first == push->replica_end;
    return s->needs_norms && of_batches && r->gradient != NULL;
}

int worker_job_sums_attach(struct worker_job_sums *s, const struct worker_model *model,
                           struct ps_client_request *r, struct err *err)
{
    struct exchange_totals *totals = &r->ask.totals;
    if (r->ask.kind == EXCHANGE_TOTALS) {
        totals->data = s->totals[totals->of.round].data;
        totals->bytes = s->totals[totals->of.round].len;
    }
    if (!worker_job_sums_needs_norms(s, r)) {
        return 0;
    }
    if (s->norms_buffer != r->gradient_id) {
        s->norms_buffer = WORKER_BUFFER_NONE;
        int rc = make_norms(s, model, r, err);
        if (rc != 0) {
            return rc;
        }
        s->norms_buffer = r->gradient_id;
    }
    r->norms = s->norms;
    r->norm_count = s->variable_count + s->tables;
    return 0;
}

void worker_job_sums_changed(struct worker_job_sums *s, uint32_t buffer)
{
    if (s->norms_buffer == buffer) {
        s->norms_buffer = WORKER_BUFFER_NONE;
    }
}
