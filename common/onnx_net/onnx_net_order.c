/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the nodes that an output needs, each behind those that it reads, whatever the order of the
 * file: walks back from the output, without recursion. */
#include <stdlib.h>

#include "base/mem.h"
#include "base/text.h"
#include "onnx_net/onnx_net_impl.h"

enum { NEW, OPEN, DONE };

struct visit {
    size_t node;
    size_t next; /* input that is looked at next */
};

struct walk {
    unsigned char *states; /* [nodes] */
    struct visit *stack;
    size_t depth;
};

static const char *node_name(const Onnx__NodeProto *n, char *out, size_t bytes)
{
    const bool named = n->name != NULL && n->name[0] != '\0';
    return text_shown(named                ? n->name
                      : n->n_output > 0    ? n->output[0]
                      : n->op_type != NULL ? n->op_type
                                           : "",
                      out, bytes);
}

/* Value @name is needed by node @by (ONNX_NONE: it is the output). */
static int need(struct onnx_reading *r, struct walk *w, const char *name, size_t by,
                struct err *err)
{
    char shown[128], reader[128];
    struct onnx_named *found = onnx_names_find(r, name);
    if (found == NULL && by == ONNX_NONE) {
        return err_set(err, ERR_INVALID, "nothing makes the output '%s'",
                       text_shown(name, shown, sizeof shown));
    }
    if (found == NULL) {
        return err_set(err, ERR_INVALID,
                       "node '%s' reads '%s', which no initializer, input or node makes",
                       node_name(r->graph->node[by], reader, sizeof reader),
                       text_shown(name, shown, sizeof shown));
    }
    found->needed = true;
    if (found->maker != ONNX_BY_NODE || w->states[found->index] == DONE) {
        return 0;
    }
    if (w->states[found->index] == OPEN) {
        return err_set(err, ERR_INVALID, "the graph has a cycle: '%s' needs itself",
                       text_shown(name, shown, sizeof shown));
    }
    w->states[found->index] = OPEN;
    w->stack[w->depth++] = (struct visit){found->index, 0};
    return 0;
}

static int walk(struct onnx_reading *r, struct walk *w, struct err *err)
{
    int rc = need(r, w, r->output, ONNX_NONE, err);
    while (rc == 0 && w->depth > 0) {
        struct visit *top = &w->stack[w->depth - 1];
        const Onnx__NodeProto *n = r->graph->node[top->node];
        if (top->next == n->n_input) {
            w->states[top->node] = DONE;
            r->order[r->order_count++] = top->node;
            w->depth--;
            continue;
        }
        const char *name = n->input[top->next++];
        if (name[0] != '\0') {
            rc = need(r, w, name, top->node, err);
        }
    }
    return rc;
}

int onnx_order_find(struct onnx_reading *r, struct err *err)
{
    const size_t n = r->graph->n_node;
    struct walk w = {mem_new(n + 1, 1), mem_new(n + 1, sizeof *w.stack), 0};
    r->order = mem_new(n + 1, sizeof *r->order);
    int rc = walk(r, &w, err);
    free(w.states);
    free(w.stack);
    return rc;
}
