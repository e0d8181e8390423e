/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a file again with other values of its variables. The net does not change: what is
 * different stands in copies of the parts of the message that lead there, for the time of the call.
 *
 * Graphs that were exported for training have norms and dropouts that say so; the written file is
 * for answers. */
#include "onnx_net/onnx_net.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "onnx/onnx_message.h"
#include "onnx_net/onnx_net_impl.h"

struct copy {
    const struct onnx_net *net;
    Onnx__ModelProto model;
    Onnx__GraphProto graph;
    Onnx__TensorProto *tensors; /* [n_initializer], those that differ */
    Onnx__NodeProto *nodes;     /* [n_node], likewise */
    Onnx__StringStringEntryProto *notes;
};

/* Elements in place of those that @t has, wherever it has them. */
static void replace(Onnx__TensorProto *t, const float *values, size_t count)
{
    t->has_raw_data = true;
    t->raw_data.len = count * sizeof *values;
    t->raw_data.data = (uint8_t *)(uintptr_t)values;
    t->n_float_data = 0;
    t->float_data = NULL;
    t->n_external_data = 0;
    t->external_data = NULL;
    t->has_data_location = false;
}

static bool lies_outside(const Onnx__TensorProto *t)
{
    return t->has_data_location && t->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
}

/* The values of initializer @name: new ones, or those that lay in another file. */
static const float *values_of(const struct copy *c, const float *const *values,
                              const Onnx__TensorProto *t, size_t *count)
{
    for (size_t i = 0; i < c->net->value_count && t->name != NULL; i++) {
        const struct onnx_value *v = &c->net->values[i];
        if (strcmp(v->name, t->name) == 0) {
            *count = v->count;
            return v->variable != SIZE_MAX                    ? values[v->variable]
                   : lies_outside(t) && v->type == ONNX_FLOAT ? v->floats
                                                              : NULL;
        }
    }
    return NULL;
}

static int copy_initializers(struct copy *c, const float *const *values, struct err *err)
{
    const size_t n = c->graph.n_initializer;
    Onnx__TensorProto **list = mem_new(n + 1, sizeof *list);
    c->tensors = mem_new(n + 1, sizeof *c->tensors);
    for (size_t i = 0; i < n; i++) {
        size_t count = 0;
        const float *with = values_of(c, values, c->graph.initializer[i], &count);
        list[i] = c->graph.initializer[i];
        if (with != NULL) {
            c->tensors[i] = *list[i];
            list[i] = &c->tensors[i];
            replace(list[i], with, count);
        } else if (lies_outside(list[i])) {
            char shown[96];
            int rc = err_set(err, ERR_UNSUPPORTED,
                             "initializer '%s' lies in another file and is not computed with; a "
                             "file with its weights inside can be written again",
                             text_shown(list[i]->name, shown, sizeof shown));
            free(list);
            return rc;
        }
    }
    c->graph.initializer = list;
    return 0;
}

/* True if the node says that it is for training. */
static bool is_for_training(const Onnx__NodeProto *n)
{
    const char *type = n->op_type == NULL ? "" : n->op_type;
    return (strcmp(type, "Dropout") == 0 && n->n_input > 2) ||
           strcmp(type, "BatchNormalization") == 0;
}

/* Only what answers: the ratio of a dropout, and a norm by the running statistics. */
static void for_answers(Onnx__NodeProto *n)
{
    if (strcmp(n->op_type, "Dropout") == 0) {
        n->n_input = 2;
        return;
    }
    Onnx__AttributeProto **kept = mem_new(n->n_attribute + 1, sizeof *kept);
    size_t count = 0;
    for (size_t i = 0; i < n->n_attribute; i++) {
        if (n->attribute[i]->name == NULL || strcmp(n->attribute[i]->name, "training_mode") != 0) {
            kept[count++] = n->attribute[i];
        }
    }
    n->attribute = kept;
    n->n_attribute = count;
    n->n_output = n->n_output < 1 ? n->n_output : 1;
}

static void copy_nodes(struct copy *c)
{
    const size_t n = c->graph.n_node;
    Onnx__NodeProto **list = mem_new(n + 1, sizeof *list);
    c->nodes = mem_new(n + 1, sizeof *c->nodes);
    for (size_t i = 0; i < n; i++) {
        list[i] = c->graph.node[i];
        if (is_for_training(list[i])) {
            c->nodes[i] = *list[i];
            list[i] = &c->nodes[i];
            for_answers(list[i]);
        }
    }
    c->graph.node = list;
}

/* Adds notes in place of those of the same keys. */
static void add_notes(struct copy *c, const struct onnx_note *notes, size_t count)
{
    const size_t had = c->model.n_metadata_props;
    Onnx__StringStringEntryProto **list = mem_new(had + count + 1, sizeof *list);
    size_t n = 0;
    c->notes = mem_new(count + 1, sizeof *c->notes);
    for (size_t i = 0; i < had; i++) {
        const char *key = c->model.metadata_props[i]->key;
        bool again = key == NULL;
        for (size_t k = 0; k < count && !again; k++) {
            again = strcmp(key, notes[k].key) == 0;
        }
        if (!again) {
            list[n++] = c->model.metadata_props[i];
        }
    }
    for (size_t k = 0; k < count; k++) {
        onnx__string_string_entry_proto__init(&c->notes[k]);
        c->notes[k].key = (char *)(uintptr_t)notes[k].key;
        c->notes[k].value = (char *)(uintptr_t)notes[k].text;
        list[n++] = &c->notes[k];
    }
    c->model.metadata_props = list;
    c->model.n_metadata_props = n;
}

static int write_copy(struct copy *c, const char *location, struct err *err)
{
    const size_t bytes = onnx__model_proto__get_packed_size(&c->model);
    if (bytes > ONNX_NET_BYTES_MAX) {
        return err_set(err, ERR_UNSUPPORTED,
                       "the file would have %zu bytes, and a message of protobuf may have %zu",
                       bytes, ONNX_NET_BYTES_MAX);
    }
    return onnx_message_write(&c->model, location, err);
}

static void release(struct copy *c)
{
    const Onnx__GraphProto *before = c->net->model->graph;
    for (size_t i = 0; c->nodes != NULL && i < before->n_node; i++) {
        if (c->nodes[i].op_type != NULL && c->nodes[i].attribute != before->node[i]->attribute) {
            free(c->nodes[i].attribute);
        }
    }
    if (c->graph.initializer != before->initializer) {
        free(c->graph.initializer);
    }
    if (c->graph.node != before->node) {
        free(c->graph.node);
    }
    if (c->model.metadata_props != c->net->model->metadata_props) {
        free(c->model.metadata_props);
    }
    free(c->tensors);
    free(c->nodes);
    free(c->notes);
}

int onnx_net_write(const struct onnx_net *net, const float *const *values,
                   const struct onnx_note *notes, size_t note_count, const char *location,
                   struct err *err)
{
    struct copy c = {.net = net, .model = *net->model, .graph = *net->model->graph};
    c.model.graph = &c.graph;
    int rc = copy_initializers(&c, values, err);
    if (rc == 0) {
        copy_nodes(&c);
        add_notes(&c, notes, note_count);
        rc = write_copy(&c, location, err);
    }
    release(&c);
    return rc;
}
