/* SPDX-License-Identifier: Apache-2.0 */
/* Reads whole variables. */
#include "saved/saved_variables.h"

#include <stdlib.h>

#include "base/mem.h"

void saved_variables_release(struct saved_variables *v)
{
    for (size_t i = 0; i < v->count; i++) {
        free(v->values[i]);
    }
    free(v->values);
    *v = (struct saved_variables){0};
}

int saved_variables_read(const struct checkpoint *c, const struct model *model, const char *slot,
                         struct saved_variables *v, struct err *err)
{
    v->count = model_variable_count(model);
    v->values = mem_new(v->count, sizeof *v->values);
    for (size_t i = 0; i < v->count; i++) {
        const struct variable_spec *spec = model_variable(model, i);
        uint64_t n = shape_count(&spec->shape);
        v->values[i] = mem_try_aligned(n, sizeof(float), spec->name, err);
        if (v->values[i] == NULL) {
            return ERR_EXHAUSTED;
        }
        int rc = checkpoint_read(c, spec->name, slot, 0, n, v->values[i], err);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}
