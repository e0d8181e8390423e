/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a checkpoint for as many threads as compute. */
#include "serve/rpc/serve_model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct serve_model *serve_model_ref(struct serve_model *m)
{
    atomic_fetch_add(&m->refs, 1);
    return m;
}

void serve_model_unref(struct serve_model *m)
{
    if (m == NULL || atomic_fetch_sub(&m->refs, 1) != 1) {
        return;
    }
    for (size_t i = 0; i < m->slots; i++) {
        saved_run_free(m->runs[i]);
        free(m->answers[i]);
        batch_release(&m->batches[i]);
    }
    free(m->runs);
    free(m->answers);
    free(m->batches);
    infer_inputs_release(&m->inputs);
    saved_model_free(m->saved);
    for (size_t i = 0; i < sizeof m->texts / sizeof m->texts[0]; i++) {
        free(m->texts[i]);
    }
    free(m);
}

static int make_runs(struct serve_model *m, struct err *err)
{
    int rc = 0;
    m->runs = mem_new(m->slots, sizeof *m->runs);
    m->answers = mem_new(m->slots, sizeof *m->answers);
    m->batches = mem_new(m->slots, sizeof *m->batches);
    for (size_t i = 0; i < m->slots && rc == 0; i++) {
        rc = saved_run_new(m->saved, m->batch_max, 1, &m->runs[i], err);
        m->answers[i] = mem_new(m->batch_max * saved_model_width(m->saved), sizeof(float));
    }
    return rc;
}

int serve_model_open(const struct serve_model_request *q, struct serve_model **out, struct err *err)
{
    char *set = q->data_dir[0] != '\0' ? mem_printf("data.dir=%s", q->data_dir) : NULL;
    const char *sets[] = {set};
    const struct saved_model_request request = {.path = q->path,
                                                .given = q->given,
                                                .sets = sets,
                                                .set_count = set != NULL,
                                                .cache_dir = q->cache_dir,
                                                .before =
                                                    q->before != NULL ? q->before->saved : NULL};
    struct serve_model *m = mem_new(1, sizeof *m);
    atomic_store(&m->refs, 1);
    m->number = q->number;
    m->batch_max = q->batch_max;
    int rc = saved_model_open(&request, &m->saved, err);
    rc = rc != 0 ? rc : infer_inputs_make(&m->inputs, saved_model_encoder(m->saved), err);
    if (rc == 0) {
        (void)snprintf(m->version, sizeof m->version, "%" PRIu64,
                       saved_model_about(m->saved)->step);
        m->slots = q->slots;
        rc = make_runs(m, err);
    }
    free(set);
    if (rc != 0) {
        serve_model_unref(m);
        return rc;
    }
    memcpy(m->texts, q->texts, sizeof m->texts);
    *out = m;
    return 0;
}
