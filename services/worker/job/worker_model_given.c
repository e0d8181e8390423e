/* SPDX-License-Identifier: Apache-2.0 */
/* Models whose first values the servers do not make by themselves: which variables they have, and
 * the values that this worker brings. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "graph/model_import.h"
#include "warm/warm_start.h"
#include "worker/job/worker_model.h"
#include "worker/job/worker_model_program.h"

struct given_variables worker_model_given(const struct worker_model *m)
{
    if (m->by_program != NULL) {
        return *model_program_given(m);
    }
    if (model_is_imported(&m->spec.model)) {
        return model_import_given(&m->spec.model);
    }
    return (struct given_variables){
        .variables = m->given,
        .count = m->given == NULL ? 0 : model_variable_count(m->model),
        .fingerprint = m->given == NULL ? 0 : 1}; /* layers say all: nothing can differ */
}

void worker_model_give(struct worker_model *m)
{
    m->given = model_variables(m->model);
    for (size_t i = 0; i < model_variable_count(m->model); i++) {
        m->given[i].init.kind = INIT_GIVEN;
    }
}

bool worker_model_brings(const struct worker_model *m)
{
    return m->initial != NULL || model_is_imported(&m->spec.model) || job_spec_has_from(&m->spec);
}

/* ---- from ---- */

/* With what becomes of the records. */
static char *summarize(const struct worker_model *m, const char *taken)
{
    const char *news = m->train == NULL ? NULL : dataset_news(m->train);
    return mem_printf("%s%s%s%s", taken, m->encoding != NULL ? "; and the encoding of records" : "",
                      news == NULL ? "" : "; ", news == NULL ? "" : news);
}

int worker_model_look(const struct worker_model *m, const struct data_roots *roots,
                      struct worker_source *out, struct err *err)
{
    const struct given_variables given = worker_model_given(m);
    struct warm_start *w = NULL;
    int rc = warm_start_open(&m->spec, roots, given.variables, given.count, &w, err);
    rc = rc != 0 ? rc : warm_start_load(w, NULL, &out->fingerprint, err);
    if (rc == 0) {
        const char *rows_from = warm_start_rows(w, &out->rows_manifest);
        out->summary = summarize(m, warm_start_summary(w));
        out->rows_from = mem_strdup(rows_from == NULL ? "" : rows_from);
    }
    warm_start_close(w);
    return rc;
}

void worker_source_release(struct worker_source *s)
{
    free(s->summary);
    free(s->rows_from);
    *s = (struct worker_source){0};
}

/* The value that variable @i begins with when the source has none. */
static void begin(struct worker_model *m, size_t i, float *out)
{
    const struct given_variables given = worker_model_given(m);
    const uint64_t count = shape_count(&given.variables[i].shape);
    if (m->by_program != NULL) {
        memcpy(out, model_program_initial(m) + m->offsets[i], (size_t)count * sizeof *out);
    } else if (model_is_imported(&m->spec.model)) {
        memcpy(out, model_import_initial(&m->spec.model, i), (size_t)count * sizeof *out);
    } else {
        const struct variable_spec *v = model_variable(m->model, i);
        init_fill(&v->init, (uint64_t)m->spec.training.seed, v->name, 0, count, out);
    }
}

static int load(const struct worker_model *m, const struct data_roots *roots, uint64_t expected,
                float *const *values, struct err *err)
{
    const struct given_variables given = worker_model_given(m);
    struct warm_start *w = NULL;
    uint64_t found = 0;
    int rc = warm_start_open(&m->spec, roots, given.variables, given.count, &w, err);
    rc = rc != 0 ? rc : warm_start_load(w, values, &found, err);
    if (rc == 0 && expected != 0 && expected != found) {
        rc = err_set(err, ERR_STATE,
                     "%s: not the values that another worker found when the job began: the source "
                     "has changed, or this node sees another one",
                     warm_start_summary(w));
    }
    warm_start_close(w);
    return rc;
}

int worker_model_bring(struct worker_model *m, const struct data_roots *roots, uint64_t expected,
                       struct err *err)
{
    if (m->initial != NULL) {
        return 0;
    }
    float *all = mem_try_aligned(m->flat_count, sizeof *all, "initial values", err);
    if (all == NULL) {
        return ERR_EXHAUSTED;
    }
    float **values = mem_new(m->variable_count + 1, sizeof *values);
    for (size_t i = 0; i < m->variable_count; i++) {
        values[i] = all + m->offsets[i];
        begin(m, i, values[i]);
    }
    const int rc = job_spec_has_from(&m->spec) ? load(m, roots, expected, values, err) : 0;
    free(values);
    if (rc != 0) {
        free(all);
        return rc;
    }
    m->brought = all;
    m->initial = all;
    return 0;
}

void worker_model_brought(struct worker_model *m)
{
    if (m->brought != NULL) {
        free(m->brought);
        m->brought = NULL;
        m->initial = NULL;
    }
}
