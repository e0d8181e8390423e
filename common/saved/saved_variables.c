/* SPDX-License-Identifier: Apache-2.0 */
/* Reads whole variables. */
#include "saved/saved_variables.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void saved_variables_release(struct saved_variables *v)
{
    for (size_t i = 0; i < v->count; i++) {
        free(v->values[i]);
    }
    free(v->values);
    *v = (struct saved_variables){0};
}

/* Values are read by number: of another shape they would be those of others. */
static int check_shape(const struct checkpoint *c, const struct saved_file *file,
                       const struct variable_spec *v, struct err *err)
{
    struct shape there = v->shape; /* a variable that is not there is not found */
    bool known = true;
    if (file != NULL) {
        known = saved_file_shape(file, v->name, &there);
    } else {
        const struct manifest *m = checkpoint_manifest(c);
        for (size_t i = 0; i < m->variable_count; i++) {
            there = strcmp(m->variables[i].name, v->name) == 0 ? m->variables[i].shape : there;
        }
    }
    if (known && shape_equal(&there, &v->shape)) {
        return 0;
    }
    char a[96], b[96];
    return err_set(err, ERR_INVALID,
                   "variable %s has shape %s in the %s, and the model that its job file and data "
                   "describe has %s",
                   v->name, shape_format(&there, a, sizeof a), file != NULL ? "file" : "checkpoint",
                   shape_format(&v->shape, b, sizeof b));
}

int saved_variables_read(const struct checkpoint *c, const struct saved_file *file,
                         const struct model *model, const char *slot, struct saved_variables *v,
                         struct err *err)
{
    v->count = model_variable_count(model);
    v->values = mem_new(v->count, sizeof *v->values);
    for (size_t i = 0; i < v->count; i++) {
        const struct variable_spec *spec = model_variable(model, i);
        uint64_t n = shape_count(&spec->shape);
        int rc = check_shape(c, file, spec, err);
        if (rc != 0) {
            return rc;
        }
        v->values[i] = mem_try_aligned(n, sizeof(float), spec->name, err);
        if (v->values[i] == NULL) {
            return ERR_EXHAUSTED;
        }
        rc = file != NULL ? saved_file_read(file, spec->name, n, v->values[i], err)
                          : checkpoint_read(c, spec->name, slot, 0, n, v->values[i], err);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

int saved_variables_copy(const struct variable_spec *variables, const float *const *values,
                         size_t count, const struct model *model, struct saved_variables *v,
                         struct err *err)
{
    v->count = model_variable_count(model);
    v->values = mem_new(v->count + 1, sizeof *v->values);
    for (size_t i = 0; i < v->count; i++) {
        const struct variable_spec *spec = model_variable(model, i);
        if (i >= count || strcmp(variables[i].name, spec->name) != 0 ||
            !shape_equal(&variables[i].shape, &spec->shape)) {
            return err_set(err, ERR_INVALID,
                           "variable %s is not that of the model that the job's file describes",
                           spec->name);
        }
        const uint64_t n = shape_count(&spec->shape);
        v->values[i] = mem_try_aligned(n, sizeof(float), spec->name, err);
        if (v->values[i] == NULL) {
            return ERR_EXHAUSTED;
        }
        memcpy(v->values[i], values[i], (size_t)n * sizeof(float));
    }
    return 0;
}
