/* SPDX-License-Identifier: Apache-2.0 */
/* Models whose first values the servers do not make by themselves: which variables they have, and
 * the values that this worker brings. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "warm/warm_start.h"
#include "worker/job/worker_compute.h"

bool worker_model_brings(const struct worker_model *m)
{
    return m->initial != NULL || m->given.count > 0;
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
    struct warm_start *w = NULL;
    int rc = warm_start_open(&m->spec, roots, m->given.variables, m->given.count, &w, err);
    rc = rc != 0 ? rc : warm_start_load(w, NULL, &out->fingerprint, err);
    if (rc == 0) {
        const char *rows_from = warm_start_rows(w, &out->rows_manifest);
        out->summary = summarize(m, warm_start_summary(w));
        out->slots_version = warm_start_version(w);
        out->rows_from = mem_strdup(rows_from == NULL ? "" : rows_from);
    }
    warm_start_close(w);
    return rc;
}

void worker_source_describe(const struct worker_source *from, Gradus__V1__DataInfo *out)
{
    out->from_fingerprint = from->fingerprint;
    out->rows_manifest = from->rows_manifest;
    out->slots_version = from->slots_version;
    if (from->summary != NULL) {
        out->from = from->summary;
        out->rows_from = from->rows_from;
    }
}

void worker_source_release(struct worker_source *s)
{
    free(s->summary);
    free(s->rows_from);
    *s = (struct worker_source){0};
}

static int load(const struct worker_model *m, const struct data_roots *roots, uint64_t expected,
                float *const *values, struct err *err)
{
    struct warm_start *w = NULL;
    uint64_t found = 0;
    int rc = warm_start_open(&m->spec, roots, m->given.variables, m->given.count, &w, err);
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
        m->compute->begin(m, i, values[i]); /* what the source does not have */
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
