/* SPDX-License-Identifier: Apache-2.0 */
/* A model as a table of its layers. */
#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"
#include "graph/model_impl.h"

#define SHAPE_TEXT_BYTES 96

static uint64_t parameters_of(const struct layer *l)
{
    uint64_t n = 0;
    for (size_t j = 0; j < l->variable_count; j++) {
        n += shape_count(&l->variables[j].shape);
    }
    return n;
}

static void describe_line(struct buf *out, const char *name, const char *kind, const char *shape,
                          uint64_t parameters)
{
    buf_printf(out, "%-18s %-18s %-16s %12" PRIu64, name, kind, shape, parameters);
}

void model_describe(const struct model *m, struct buf *out)
{
    char text[SHAPE_TEXT_BYTES], bytes[32];
    uint64_t total = 0;
    buf_printf(out, "%-18s %-18s %-16s %12s\n", "layer", "kind", "output", "parameters");
    describe_line(out, "input", "-", shape_format(&m->input, text, sizeof text), 0);
    for (size_t i = 0; i < m->layer_count; i++) {
        const struct layer *l = &m->layers[i].layer;
        if (m->layers[i].is_activation) {
            continue;
        }
        char kind[64];
        (void)snprintf(kind, sizeof kind, "%s%s%s", l->kind->name, l->activation != 0 ? " + " : "",
                       l->activation != 0 ? activation_names[l->activation] : "");
        buf_add_char(out, '\n');
        describe_line(out, l->name, kind, shape_format(&l->out, text, sizeof text),
                      parameters_of(l));
        if (m->layers[i].from != NULL) {
            buf_printf(out, "  from %s", m->layers[i].from);
        }
        if (l->has_table) {
            buf_printf(out, "  table %s", m->layers[i].table);
        }
        total += parameters_of(l);
    }
    buf_add_char(out, '\n');
    describe_line(out, "total", "-", "-", total);
    buf_printf(out, " (%s)\n", text_bytes(total * sizeof(float), bytes, sizeof bytes));
}
