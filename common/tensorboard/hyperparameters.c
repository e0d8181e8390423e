/* SPDX-License-Identifier: Apache-2.0 */
#include "tensorboard/hyperparameters.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"
#include "config/yaml.h"
#include "tensorboard/event_file.h"
#include "tensorboard/event_record.h"
#include "tensorboard/hparams.pb-c.h"

#define PLUGIN "hparams"
#define TAG "_hparams_/"
#define ENTRIES_MAX 1000 /* columns of a page */

/* ---- keys of the job file ---- */

struct entry {
    Tensorboard__Hparams__SessionStartInfo__Entry message;
    Tensorboard__Hparams__Value value;
};
struct entries {
    struct entry *items[ENTRIES_MAX];
    size_t count;
};

/* What decides how good a model gets. Where things are does not; names are parts of other keys. */
static bool is_wanted(const char *name)
{
    static const char *const others[] = {
        "name",
        "*.name",
        "priority",
        "data.dir",
        "data.train.file",
        "data.train.labels",
        "data.test.file",
        "data.test.labels",
        "data.*.vocabulary_file",
        "model.onnx",
        "from.checkpoint",
        "from.safetensors",
        "from.onnx",
        "training.tensorboard",
        "training.checkpoint*",
    };
    size_t i = 0;
    while (i < sizeof others / sizeof others[0] && fnmatch(others[i], name, 0) != 0) {
        i++;
    }
    return i == sizeof others / sizeof others[0];
}

/* Takes @text, which is owned. */
static void set_value(Tensorboard__Hparams__Value *v, enum yaml_style style, char *text)
{
    const bool yes = strcmp(text, "true") == 0, no = strcmp(text, "false") == 0;
    v->kind_case = TENSORBOARD__HPARAMS__VALUE__KIND_STRING_VALUE;
    if (style != YAML_QUOTED && (yes || no)) {
        v->kind_case = TENSORBOARD__HPARAMS__VALUE__KIND_BOOL_VALUE;
        v->bool_value = yes;
    } else if (style != YAML_QUOTED && text_to_double(text, &v->number_value)) {
        v->kind_case = TENSORBOARD__HPARAMS__VALUE__KIND_NUMBER_VALUE;
    } else {
        v->string_value = text;
        return;
    }
    free(text);
}

static void add_entry(const char *name, enum yaml_style style, char *text, struct entries *out)
{
    if (text[0] == '\0' || out->count == ENTRIES_MAX) {
        free(text);
        return;
    }
    struct entry *e = mem_new(1, sizeof *e);
    tensorboard__hparams__session_start_info__entry__init(&e->message);
    tensorboard__hparams__value__init(&e->value);
    e->message.key = mem_strdup(name);
    e->message.value = &e->value;
    set_value(&e->value, style, text);
    out->items[out->count++] = e;
}

/* The texts of a list, if it has nothing else. */
static bool join(const struct yaml_node *list, struct buf *out)
{
    for (size_t i = 0; i < list->count; i++) {
        const struct yaml_node *item = list->items[i].value;
        if (item->kind != YAML_SCALAR) {
            buf_reset(out);
            return false;
        }
        buf_printf(out, "%s%s", i > 0 ? ", " : "", item->text);
    }
    return true;
}

/* The keys of item @i of a list, and what `--set` calls it: a layer by its name, others by their
 * number. */
static const struct yaml_node *keys_of(const struct yaml_node *list, size_t i, struct buf *name)
{
    const struct yaml_node *item = list->items[i].value;
    if (item->kind == YAML_MAPPING && item->count == 1 &&
        item->items[0].value->kind == YAML_MAPPING) {
        item = item->items[0].value;
    }
    const struct yaml_entry *own = item->kind == YAML_MAPPING ? yaml_find(item, "name") : NULL;
    if (own != NULL && own->value->kind == YAML_SCALAR) {
        buf_add_str(name, own->value->text);
    } else {
        buf_printf(name, "%zu", i);
    }
    return item;
}

static void walk(const struct yaml_node *node, const char *name, struct entries *out);

static void walk_below(const struct yaml_node *node, const char *name, const char *key,
                       struct entries *out)
{
    char *below = mem_printf("%s%s%s", name, name[0] == '\0' ? "" : ".", key);
    if (is_wanted(below)) {
        walk(node, below, out);
    }
    free(below);
}

static void walk(const struct yaml_node *node, const char *name, struct entries *out)
{
    struct buf joined = {0};
    if (node->kind == YAML_SCALAR) {
        add_entry(name, node->style, mem_strdup(yaml_is_null(node) ? "" : node->text), out);
    } else if (node->kind == YAML_MAPPING) {
        for (size_t i = 0; i < node->count; i++) {
            walk_below(node->items[i].value, name, node->items[i].key, out);
        }
    } else if (join(node, &joined)) {
        add_entry(name, YAML_QUOTED, buf_take(&joined), out);
    } else {
        for (size_t i = 0; i < node->count; i++) {
            struct buf key = {0};
            const struct yaml_node *keys = keys_of(node, i, &key);
            walk_below(keys, name, buf_str(&key), out);
            buf_release(&key);
        }
    }
    buf_release(&joined);
}

/* What is tried most comes first, for there is room for ENTRIES_MAX. */
static void walk_file(const struct yaml_node *root, struct entries *out)
{
    static const char *const first[] = {"update", "training", "model"};
    enum { FIRST = sizeof first / sizeof first[0] };
    for (size_t f = 0; f <= FIRST && root->kind == YAML_MAPPING; f++) {
        for (size_t i = 0; i < root->count; i++) {
            size_t at = 0;
            while (at < FIRST && strcmp(root->items[i].key, first[at]) != 0) {
                at++;
            }
            if (at == f) {
                walk_below(root->items[i].value, "", root->items[i].key, out);
            }
        }
    }
}

/* ---- events ---- */

static void add_event(int64_t time_ms, const char *what,
                      const Tensorboard__Hparams__HParamsPluginData *data, struct buf *out)
{
    char plugin[] = PLUGIN, *tag = mem_printf(TAG "%s", what);
    const size_t n = tensorboard__hparams__hparams_plugin_data__get_packed_size(data);
    uint8_t *packed = mem_new(n + 1, 1);
    (void)tensorboard__hparams__hparams_plugin_data__pack(data, packed);
    Tensorboard__SummaryMetadata__PluginData content =
        TENSORBOARD__SUMMARY_METADATA__PLUGIN_DATA__INIT;
    content.plugin_name = plugin;
    content.content = (ProtobufCBinaryData){.len = n, .data = packed};
    Tensorboard__SummaryMetadata metadata = TENSORBOARD__SUMMARY_METADATA__INIT;
    metadata.plugin_data = &content;
    metadata.data_class = TENSORBOARD__SUMMARY_METADATA__DATA_CLASS__TENSOR;
    Tensorboard__Tensor__Shape__Dim none = TENSORBOARD__TENSOR__SHAPE__DIM__INIT, *dims = &none;
    Tensorboard__Tensor__Shape shape = TENSORBOARD__TENSOR__SHAPE__INIT;
    shape.dim = &dims;
    shape.n_dim = 1;
    Tensorboard__Tensor tensor = TENSORBOARD__TENSOR__INIT; /* without elements: all is metadata */
    tensor.dtype = TENSORBOARD__TENSOR__TYPE__FLOAT;
    tensor.tensor_shape = &shape;
    Tensorboard__Summary__Value value = TENSORBOARD__SUMMARY__VALUE__INIT, *values = &value;
    value.tag = tag;
    value.value_case = TENSORBOARD__SUMMARY__VALUE__VALUE_TENSOR;
    value.tensor = &tensor;
    value.metadata = &metadata;
    Tensorboard__Summary summary = TENSORBOARD__SUMMARY__INIT;
    summary.value = &values;
    summary.n_value = 1;
    Tensorboard__Event event = TENSORBOARD__EVENT__INIT;
    event.wall_time = (double)time_ms / 1000;
    event.what_case = TENSORBOARD__EVENT__WHAT_SUMMARY;
    event.summary = &summary;
    (void)event_record_add(&event, out);
    free(packed);
    free(tag);
}

static void add_start(const Gradus__V1__Job *job, const struct yaml_node *root, struct buf *out)
{
    struct entries *all = mem_new(1, sizeof *all);
    walk_file(root, all);
    Tensorboard__Hparams__SessionStartInfo__Entry **list = mem_new(all->count + 1, sizeof *list);
    for (size_t i = 0; i < all->count; i++) {
        list[i] = &all->items[i]->message;
    }
    Tensorboard__Hparams__SessionStartInfo info = TENSORBOARD__HPARAMS__SESSION_START_INFO__INIT;
    info.hparams = list;
    info.n_hparams = all->count;
    info.start_time_secs = (double)job->started_ms / 1000;
    Tensorboard__Hparams__HParamsPluginData data = TENSORBOARD__HPARAMS__HPARAMS_PLUGIN_DATA__INIT;
    data.data_case = TENSORBOARD__HPARAMS__HPARAMS_PLUGIN_DATA__DATA_SESSION_START_INFO;
    data.session_start_info = &info;
    add_event(job->started_ms, "session_start_info", &data, out);
    for (size_t i = 0; i < all->count; i++) {
        struct entry *e = all->items[i];
        if (e->value.kind_case == TENSORBOARD__HPARAMS__VALUE__KIND_STRING_VALUE) {
            free(e->value.string_value);
        }
        free(e->message.key);
        free(e);
    }
    free(list);
    free(all);
}

static void add_end(const Gradus__V1__Job *job, struct buf *out)
{
    const bool succeeded = job->state == GRADUS__V1__JOB_STATE__SUCCEEDED;
    if (!succeeded && job->state != GRADUS__V1__JOB_STATE__FAILED &&
        job->state != GRADUS__V1__JOB_STATE__CANCELLED) {
        return;
    }
    Tensorboard__Hparams__SessionEndInfo info = TENSORBOARD__HPARAMS__SESSION_END_INFO__INIT;
    info.status = succeeded ? TENSORBOARD__HPARAMS__STATUS__STATUS_SUCCESS
                            : TENSORBOARD__HPARAMS__STATUS__STATUS_FAILURE;
    info.end_time_secs = (double)job->finished_ms / 1000;
    Tensorboard__Hparams__HParamsPluginData data = TENSORBOARD__HPARAMS__HPARAMS_PLUGIN_DATA__INIT;
    data.data_case = TENSORBOARD__HPARAMS__HPARAMS_PLUGIN_DATA__DATA_SESSION_END_INFO;
    data.session_end_info = &info;
    add_event(job->finished_ms, "session_end_info", &data, out);
}

/* ---- the file ---- */

static bool is_ours(const Tensorboard__Event *event, size_t index)
{
    if (index == 0) {
        return event_record_is_version(event);
    }
    return event->what_case == TENSORBOARD__EVENT__WHAT_SUMMARY && event->summary->n_value == 1 &&
           strncmp(event->summary->value[0]->tag, TAG, strlen(TAG)) == 0;
}

static bool look(const void *ctx, const struct buf *file, struct event_change *change)
{
    const struct buf *wanted = ctx;
    size_t at = 0, count = 0;
    struct event_record r;
    Tensorboard__Event *event;
    int read = 0;
    while (at < file->len && (read = event_record_read(file, at, &r, &event)) > 0) {
        const bool ours = is_ours(event, count);
        tensorboard__event__free_unpacked(event, NULL);
        if (!ours) {
            return false;
        }
        at += r.bytes;
        count++;
    }
    if (read < 0) {
        return false;
    }
    const bool more = file->len == 0 || (file->len <= wanted->len &&
                                         memcmp(file->data, wanted->data, file->len) == 0);
    change->keep = more ? file->len : 0;
    buf_add(&change->more, wanted->data + change->keep, wanted->len - change->keep);
    return true;
}

int hyperparameters_write(const char *dir, const Gradus__V1__Job *job, const char *text,
                          struct err *err)
{
    struct diags diags = {0};
    struct buf wanted = {0};
    struct yaml_node *root = yaml_parse(text, strlen(text), job->id, &diags);
    int rc =
        root == NULL ? err_set(err, ERR_INVALID, "the job file of %s cannot be read", job->id) : 0;
    if (rc == 0) {
        event_record_add_version(job->started_ms, &wanted);
        add_start(job, root, &wanted);
        add_end(job, &wanted);
        rc = event_file_change(dir, job->started_ms / 1000, look, &wanted, err);
    }
    yaml_node_free(root);
    diags_release(&diags);
    buf_release(&wanted);
    return rc;
}
