/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a source, matches it with a job, and reads what was matched. */
#include "warm/warm_start.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "checkpoint/checkpoint.h"
#include "storage/storage.h"
#include "warm/warm_kinds.h"
#include "warm/warm_match.h"
#include "warm/warm_slots.h"
#include "warm/warm_source.h"

struct warm_start {
    const struct variable_spec *variables;
    size_t count;
    struct warm_source source;
    struct variable_spec *wanted; /* the variables, and the tables of the job */
    size_t tables;
    struct warm_match match;
    char *summary;
    char *rows_from;  /* NULL: no rows are taken */
    uint64_t version; /* of the slots that are taken; 0: none are */
};

void warm_start_close(struct warm_start *w)
{
    if (w != NULL) {
        warm_match_release(&w->match);
        warm_source_close(&w->source);
        free(w->wanted);
        free(w->rows_from);
        free(w->summary);
        free(w);
    }
}

static int match(struct warm_start *w, const struct from_spec *from,
                 const struct update_spec *update, struct err *err)
{
    const struct warm_source *s = &w->source;
    const struct warm_wanted wanted = {w->wanted, w->count + w->tables, w->tables};
    int rc = warm_match(s->tensors, s->count, &wanted, from, &w->match, err);
    if (rc != 0) {
        return err_wrap(err, "from.%s %.200s", s->kind->name, s->path);
    }
    if (from->slots) {
        rc = warm_slots_check(checkpoint_manifest(warm_checkpoint_of(s)), update, &wanted,
                              &w->match, err);
        if (rc != 0) {
            return err_wrap(err, "from.%s %.200s", s->kind->name, s->path);
        }
        w->rows_from = storage_absolute(s->path);
        w->version = s->version;
    }
    for (size_t i = w->count; i < wanted.count && w->rows_from == NULL; i++) {
        w->rows_from = w->match.tensors[i] == WARM_NONE ? NULL : storage_absolute(w->source.path);
    }
    struct buf text = {0};
    const char *said = w->match.summary;
    const size_t first = strcspn(said, ";");
    buf_printf(&text, "%.*s%s from %s %s%s", (int)first, said, from->slots ? " with slots" : "",
               s->kind->name, s->path, said + first);
    w->summary = buf_take(&text);
    return 0;
}

int warm_start_open(const struct job_spec *spec, const struct data_roots *roots,
                    const struct variable_spec *variables, size_t count, struct warm_start **out,
                    struct err *err)
{
    struct err local = {0};
    err = err == NULL ? &local : err; /* wrapping needs one */
    struct warm_start *w = mem_new(1, sizeof *w);
    w->variables = variables;
    w->count = count;
    w->tables = spec->model.table_count;
    w->wanted = warm_wanted_new(variables, count, &spec->model);
    int rc = warm_source_open(&spec->from, spec->data.dir, roots, &w->source, err);
    rc = rc != 0 ? rc : match(w, &spec->from, &spec->update, err);
    if (rc != 0) {
        warm_start_close(w);
        return rc;
    }
    *out = w;
    return 0;
}

const char *warm_start_summary(const struct warm_start *w)
{
    return w->summary;
}

uint64_t warm_start_version(const struct warm_start *w)
{
    return w->version;
}

const char *warm_start_rows(const struct warm_start *w, uint64_t *manifest)
{
    *manifest = w->rows_from == NULL ? 0 : w->source.rows_manifest;
    return w->rows_from;
}

static int check_finite(const struct warm_start *w, size_t variable, const float *values,
                        uint64_t count, struct err *err)
{
    for (uint64_t i = 0; i < count; i++) {
        if (!isfinite(values[i])) {
            return err_set(err, ERR_INVALID,
                           "from.%s %.200s: element %" PRIu64 " of %s is %g, which is not finite",
                           w->source.kind->name, w->source.path, i,
                           w->source.tensors[w->match.tensors[variable]].name, (double)values[i]);
        }
    }
    return 0;
}

/* Memory for the largest variable, where the caller wants no values. */
static float *scratch_for(const struct warm_start *w, struct err *err)
{
    uint64_t most = 1;
    for (size_t i = 0; i < w->count; i++) {
        const uint64_t n = shape_count(&w->variables[i].shape);
        most = w->match.tensors[i] != WARM_NONE && n > most ? n : most;
    }
    return mem_try_aligned(most, sizeof(float), "values of a variable", err);
}

int warm_start_load(const struct warm_start *w, float *const *values, uint64_t *fingerprint,
                    struct err *err)
{
    float *scratch = values == NULL ? scratch_for(w, err) : NULL;
    if (values == NULL && scratch == NULL) {
        return ERR_EXHAUSTED;
    }
    struct checksum *sum = checksum_new();
    int rc = 0;
    for (uint64_t i = 0; i < w->count && rc == 0; i++) {
        if (w->match.tensors[i] == WARM_NONE) {
            continue;
        }
        float *to = values == NULL ? scratch : values[i];
        const uint64_t n = shape_count(&w->variables[i].shape);
        rc = warm_source_read(&w->source, w->match.tensors[i], to, err);
        rc = rc != 0 ? rc : check_finite(w, (size_t)i, to, n, err);
        if (rc == 0) {
            checksum_add(sum, &i, sizeof i);
            checksum_add(sum, to, n * sizeof *to);
        }
    }
    if (rc == 0 && w->rows_from != NULL) {
        checksum_add(sum, &w->source.rows_manifest, sizeof w->source.rows_manifest);
    }
    const uint64_t of_all = checksum_value(sum);
    checksum_free(sum);
    free(scratch);
    if (rc == 0) {
        *fingerprint = of_all == 0 ? 1 : of_all;
    }
    return rc;
}
