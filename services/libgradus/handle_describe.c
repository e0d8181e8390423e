/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptions of models: checks them, and sends them. */
#include "handle.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first description that there was ended here: programs that were built then have no more. */
#define SIZE_FIRST offsetof(struct gradus_description, tables)
#define ELEMENTS_MAX (UINT64_C(1) << 40) /* elements of all variables: far above any memory */

/* The place where the text is not a name; NULL: it is one. */
static const char *wrong_name(const char *name)
{
    if (name == NULL || name[0] == '\0') {
        return "it has no name";
    }
    size_t n = strnlen(name, GRADUS_VARIABLE_NAME_BYTES_MAX + 1);
    if (n > GRADUS_VARIABLE_NAME_BYTES_MAX) {
        return "its name is longer than 127 bytes";
    }
    for (size_t i = 0; i < n; i++) {
        if (name[i] <= ' ' || name[i] > '~') {
            return "a name is of printing ASCII characters without blanks";
        }
    }
    return NULL;
}

static int wrong(struct gradus_worker *w, size_t i, const char *name, const char *what)
{
    char shown[GRADUS_VARIABLE_NAME_BYTES_MAX + 1] = "";
    for (size_t k = 0; name != NULL && name[k] != '\0' && k + 1 < sizeof shown; k++) {
        shown[k] = name[k];
        if (name[k] < ' ' || name[k] > '~') {
            shown[k] = '?';
        }
    }
    return handle_error(w, GRADUS_ERROR_USE, "variable %zu (\"%s\"): %s", i, shown, what);
}

/* The dims, and how many elements they make. */
static int set_dims(struct gradus_worker *w, size_t i, const struct gradus_variable *v,
                    struct program_variable *out, uint64_t *total)
{
    if (v->rank > GRADUS_RANK_MAX) {
        return wrong(w, i, v->name, "it has more than 4 dimensions");
    }
    if (v->rank > 0 && v->dims == NULL) {
        return wrong(w, i, v->name, "dims is NULL");
    }
    uint64_t elements = 1;
    for (size_t d = 0; d < v->rank; d++) {
        if (v->dims[d] == 0) {
            return wrong(w, i, v->name, "a dimension is 0");
        }
        if (__builtin_mul_overflow(elements, v->dims[d], &elements) || elements > ELEMENTS_MAX) {
            return wrong(w, i, v->name, "it has more than 2^40 elements");
        }
        out->dims[d] = v->dims[d];
    }
    *total += elements; /* up to 4096 variables of up to 2^40 each */
    if (*total > ELEMENTS_MAX) {
        return wrong(w, i, v->name, "with it the variables have more than 2^40 elements");
    }
    out->rank = (uint32_t)v->rank;
    return GRADUS_OK;
}

static int set_variable(struct gradus_worker *w, size_t i, const struct gradus_variable *v,
                        struct program_variable *out, uint64_t *total)
{
    const char *what = wrong_name(v->name);
    if (what != NULL) {
        return wrong(w, i, v->name, what);
    }
    if (v->kind != GRADUS_TRAINED && v->kind != GRADUS_STATISTIC) {
        return wrong(w, i, v->name, "its kind is neither GRADUS_TRAINED nor GRADUS_STATISTIC");
    }
    if (v->initial == NULL) {
        return wrong(w, i, v->name, "initial is NULL");
    }
    (void)memcpy(out->name, v->name, strlen(v->name) + 1); /* wrong_name() */
    out->kind = (uint32_t)v->kind;
    return set_dims(w, i, v, out, total);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int check_names_differ(struct gradus_worker *w, const struct program_variable *variables,
                              size_t count)
{
    const char **names = malloc(count * sizeof names[0]);
    if (names == NULL) {
        return handle_error(w, GRADUS_ERROR_MEMORY, "no memory for %zu names", count);
    }
    for (size_t i = 0; i < count; i++) {
        names[i] = variables[i].name;
    }
    qsort(names, count, sizeof names[0], by_name);
    int rc = GRADUS_OK;
    for (size_t i = 1; rc == GRADUS_OK && i < count; i++) {
        if (strcmp(names[i - 1], names[i]) == 0) {
            rc = handle_error(w, GRADUS_ERROR_USE, "two variables are named \"%s\"", names[i]);
        }
    }
    free(names);
    return rc;
}

/* Fields that this library does not know have to be zero. */
static bool rest_is_zero(const struct gradus_description *d)
{
    const unsigned char *bytes = (const unsigned char *)d;
    for (size_t i = sizeof *d; i < d->size; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

static int check_outline(struct gradus_worker *w, const struct gradus_description *d)
{
    if (d == NULL || d->size < SIZE_FIRST || !rest_is_zero(d)) {
        return handle_error(w, GRADUS_ERROR_USE,
                            d == NULL ? "there is no description"
                            : d->size < SIZE_FIRST
                                ? "size of the description is not sizeof(struct gradus_description)"
                                : "the description has fields that this libgradus does not know");
    }
    if (d->variable_count == 0 || d->variable_count > GRADUS_VARIABLES_MAX ||
        d->variables == NULL) {
        return handle_error(w, GRADUS_ERROR_USE, "a model has 1 to %d variables; there are %zu",
                            GRADUS_VARIABLES_MAX, d->variables == NULL ? 0 : d->variable_count);
    }
    if (d->train_records == 0 && d->test_records != 0) {
        return handle_error(w, GRADUS_ERROR_USE,
                            "there are %" PRIu64 " test records and no train records",
                            d->test_records);
    }
    return GRADUS_OK;
}

static int set_variables(struct gradus_worker *w, const struct gradus_description *d,
                         struct program_variable *out)
{
    uint64_t total = 0;
    bool trained = false;
    for (size_t i = 0; i < d->variable_count; i++) {
        int rc = set_variable(w, i, &d->variables[i], &out[i], &total);
        if (rc != GRADUS_OK) {
            return rc;
        }
        trained = trained || d->variables[i].kind == GRADUS_TRAINED;
    }
    if (!trained) {
        return handle_error(w, GRADUS_ERROR_USE,
                            "no variable is trained: all are of kind GRADUS_STATISTIC");
    }
    return check_names_differ(w, out, d->variable_count);
}

static int copy_values(struct gradus_worker *w, const struct gradus_description *d,
                       struct program_memory *out)
{
    const struct handle_job *job = &w->job;
    const size_t tables = (size_t)job->said.table_count;
    float *values = (float *)((char *)out->bytes + program_values_at(d->variable_count, tables));
    for (size_t i = 0; i < d->variable_count; i++) {
        const float *from = d->variables[i].initial;
        const uint64_t n = program_elements(&job->variables[i]);
        for (uint64_t k = 0; k < n; k++) {
            if (!isfinite(from[k])) {
                char what[96];
                (void)snprintf(what, sizeof what, "initial value %" PRIu64 " is %s", k,
                               isnan(from[k]) ? "not a number" : "infinite");
                return wrong(w, i, d->variables[i].name, what);
            }
        }
        memcpy(values + job->offsets[i], from, (size_t)n * sizeof(float));
    }
    const size_t bytes = d->variable_count * sizeof job->variables[0];
    memcpy(out->bytes, job->variables, bytes);
    if (tables > 0) {
        memcpy((char *)out->bytes + bytes, job->tables, tables * sizeof job->tables[0]);
    }
    return GRADUS_OK;
}

static void forget_variables(struct handle_job *job)
{
    free(job->variables);
    free(job->offsets);
    job->variables = NULL;
    job->offsets = NULL;
    job->variable_count = 0;
}

int handle_describe(struct gradus_worker *w, const struct gradus_description *given,
                    struct program_memory *out)
{
    struct handle_job *job = &w->job;
    int rc = check_outline(w, given);
    if (rc != GRADUS_OK) {
        return rc;
    }
    struct gradus_description copy = {.size = sizeof copy}; /* an earlier one has no tables */
    memcpy(&copy, given, given->size < sizeof copy ? given->size : sizeof copy);
    const struct gradus_description *d = &copy;
    rc = handle_describe_tables(w, d);
    if (rc != GRADUS_OK) {
        return rc;
    }
    forget_variables(job);
    job->variables = calloc(d->variable_count, sizeof job->variables[0]);
    job->offsets = calloc(d->variable_count, sizeof job->offsets[0]);
    rc =
        job->variables == NULL || job->offsets == NULL
            ? handle_error(w, GRADUS_ERROR_MEMORY, "no memory for %zu variables", d->variable_count)
            : set_variables(w, d, job->variables);
    if (rc == GRADUS_OK) {
        job->variable_count = d->variable_count;
        job->floats = program_layout(job->variables, d->variable_count, job->offsets);
        const uint64_t at = program_values_at(d->variable_count, (size_t)job->said.table_count);
        const size_t bytes = (size_t)(at + job->floats * sizeof(float));
        rc = program_memory_new(bytes, out, &w->err) != 0 ? GRADUS_ERROR_MEMORY : GRADUS_OK;
    }
    if (rc == GRADUS_OK) {
        rc = copy_values(w, d, out);
        if (rc != GRADUS_OK) {
            program_memory_release(out);
        }
    }
    if (rc != GRADUS_OK) {
        forget_variables(job);
        return rc;
    }
    return GRADUS_OK;
}
