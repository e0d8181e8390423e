/* SPDX-License-Identifier: Apache-2.0 */
/* For update rules that need a number over a whole variable, of which each shard has a part only:
 * joins the shards' partial sums into totals, computes norms, and adds both to what is sent. */
#include "worker/job/worker_job_sums.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "table/table_squares.h"

static uint64_t count_elements(const struct plan *plan)
{
    uint64_t n = 0;
    for (uint32_t s = 0; s < plan->shard_count; s++) {
        n += plan->shard_elements[s];
    }
    return n;
}

int worker_job_sums_init(struct worker_job_sums *s, const struct plan *plan,
                         const struct update_spec *spec, size_t tables, struct err *err)
{
    if (plan->shard_count == 1) {
        return 0; /* it has everything */
    }
    int rc = plan_update_whole(plan, spec, &s->update, err);
    if (rc != 0) {
        return rc;
    }
    update_add_tables(s->update, tables, true);
    s->tables = update_needs_tables(s->update) ? tables : 0;
    s->rounds = plan_update_rounds(plan, s->update);
    s->shard_count = plan->shard_count;
    s->parts = mem_new(s->shard_count, sizeof *s->parts);
    s->variable_count = plan->variable_count;
    s->norms_buffer = WORKER_BUFFER_NONE;
    if (update_spec_takes_norms(spec)) {
        s->norms = mem_new(s->variable_count + s->tables, sizeof *s->norms);
        s->gradient = mem_try_aligned(count_elements(plan), sizeof(float), "a whole gradient", err);
        return s->gradient == NULL ? ERR_EXHAUSTED : 0;
    }
    return 0;
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
    update_free(s->update);
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

int worker_job_sums_join(struct worker_job_sums *s, const struct worker_action *a, struct err *err)
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

/* The norms of tables stand behind those of variables. */
static void make_table_norms(struct worker_job_sums *s, const struct worker_model *model,
                             const struct ps_client_request *r)
{
    const struct worker_rows_gradient *g = &model->row_gradients[r->gradient_id];
    const uint64_t examples = r->ask.push.examples;
    for (size_t i = 0; i < s->tables; i++) {
        const struct table_clip clip = {.value = (float)model->spec.update.clip_value,
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
        uint64_t n = shape_count(&model_variable(model->model, i)->shape);
        memcpy(to, r->gradient + model->offsets[i], (size_t)n * sizeof(float));
        to += n;
    }
    make_table_norms(s, model, r);
    return update_norms(s->update, s->gradient, r->ask.push.examples, s->norms, err);
}

bool worker_job_sums_needs_norms(const struct worker_job_sums *s, const struct ps_client_request *r)
{
    const struct exchange_push *push = &r->ask.push;
    bool of_batches = r->ask.has_push && push->replica_first == push->replica_end;
    return s->norms != NULL && of_batches && r->gradient != NULL;
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
