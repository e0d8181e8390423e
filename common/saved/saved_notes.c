/* SPDX-License-Identifier: Apache-2.0 */
/* Lists and objects are JSON. */
#include "saved/saved_notes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/encoder.h"
#include "graph/metric.h"
#include "json/json_doc.h"
#include "json/json_write.h"

void saved_notes_release(struct saved_notes *n)
{
    for (size_t i = 0; i < n->count; i++) {
        free(n->items[i][0]);
        free(n->items[i][1]);
    }
    free(n->items);
    *n = (struct saved_notes){0};
}

void saved_note(struct saved_notes *n, const char *key, char *text)
{
    n->items = mem_grow(n->items, &n->capacity, n->count + 1, sizeof *n->items);
    n->items[n->count][0] = mem_strdup(key);
    n->items[n->count++][1] = text;
}

static void note_json(struct saved_notes *n, const char *key, json_t *value)
{
    struct buf text = {0};
    json_doc_print(value, &text);
    json_decref(value);
    saved_note(n, key, buf_take(&text));
}

void saved_note_list(struct saved_notes *n, const char *key, const char *const *texts, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        json_append(list, json_text(texts[i]));
    }
    note_json(n, key, list);
}

void saved_note_version(struct saved_notes *n, const struct saved_about *about)
{
    saved_note(n, "gradus.job", mem_strdup(about->job));
    saved_note(n, "gradus.step", mem_printf("%" PRIu64, about->step));
    saved_note(n, "gradus.epoch", mem_printf("%" PRIu64, about->epoch));
    saved_note(n, "gradus.version", mem_printf("%" PRIu64, about->version));
}

/* ---- inputs and outputs ---- */

/* -1: of any size. */
static json_t *tensor(const char *name, const char *type, const int64_t *dims, size_t rank)
{
    json_t *o = json_object(), *shape = json_array();
    for (size_t i = 0; i < rank; i++) {
        json_append(shape, json_integer((json_int_t)dims[i]));
    }
    json_put(o, "name", json_text(name));
    json_put(o, "datatype", json_text(type));
    json_put(o, "shape", shape);
    return o;
}

/* Notes inputs in the form that gradus-serve takes. */
static void note_inputs(struct saved_notes *n, const struct records *r)
{
    json_t *list = json_array();
    int64_t dims[SHAPE_RANK_MAX + 1] = {-1};
    for (size_t i = 0; i < r->shape.rank; i++) {
        dims[i + 1] = (int64_t)r->shape.dims[i];
    }
    if (r->numbers > 0) {
        json_append(list, tensor("features", "FP32", dims, r->shape.rank + 1));
    }
    const int64_t one[2] = {-1, 1}, any[2] = {-1, -1};
    for (size_t i = 0; i < r->category_count; i++) {
        json_append(list, tensor(r->categories[i].name, "BYTES", one, 2));
    }
    for (size_t i = 0; i < r->fields.count; i++) {
        json_append(list, tensor(r->fields.fields[i].name, "UINT64", any, 2));
    }
    note_json(n, "gradus.inputs", list);
}

static void note_outputs(struct saved_notes *n, const struct encoder *e)
{
    const struct dataset_info *info = encoder_info(e);
    const char *const *names = encoder_class_names(e);
    json_t *list = json_array();
    const int64_t dims[2] = {-1, info->label_is_class ? (int64_t)info->classes : 1};
    json_append(list, tensor(info->label_is_class ? "probabilities" : "value", "FP32", dims, 2));
    note_json(n, "gradus.outputs", list);
    if (!info->label_is_class) {
        return;
    }
    json_t *classes = json_array();
    for (uint32_t i = 0; i < info->classes; i++) {
        char number[16];
        (void)snprintf(number, sizeof number, "%" PRIu32, i);
        json_append(classes, json_text(names != NULL ? names[i] : number));
    }
    note_json(n, "gradus.classes", classes);
}

void saved_note_data(struct saved_notes *n, const struct encoder *e)
{
    note_inputs(n, encoder_raw(e));
    note_outputs(n, e);
}

static int recall_data(struct saved_notes *n, const char *encoding, const struct job_spec *spec,
                       double *label_scale, struct err *err)
{
    struct encoder *e = NULL;
    if (encoding == NULL) {
        return 0;
    }
    int rc = encoder_recall(encoding, &spec->data, job_spec_label_kind(spec), &e, err);
    if (rc == 0) {
        saved_note_data(n, e);
        *label_scale = encoder_info(e)->label_scale;
    }
    encoder_free(e);
    return rc;
}

/* ---- metrics ---- */

/* Of the train records of the epoch so far; the best of the test records, where one was noted. */
static void note_metrics(struct saved_notes *n, const struct manifest *m,
                         const struct job_spec *spec, double label_scale)
{
    struct metrics sums;
    json_t *all = json_object(), *train = json_object();
    const unsigned kinds = metrics_of_training(spec->model.metrics);
    metrics_init(&sums, kinds);
    if (m->train_sum_count > 0 &&
        metrics_unpack(&sums, m->train_sums, m->train_sum_count, NULL) == 0) {
        for (int k = 0; k < METRIC_KIND_COUNT; k++) {
            const double value = metrics_value(&sums, (enum metric_kind)k, label_scale);
            if (k == METRIC_LOSS || (kinds >> k & 1) != 0) {
                json_put(train, metric_kind_names[k], json_number(value));
            }
        }
        json_put(all, "train", train);
    } else {
        json_decref(train);
    }
    if (m->best.known) {
        json_t *best = json_object();
        json_put(best, "metric", json_text(metric_kind_names[m->best.metric]));
        json_put(best, "value", json_number(m->best.value));
        json_put(best, "step", json_integer((json_int_t)m->best.step));
        json_put(all, "best", best);
    }
    note_json(n, "gradus.metrics", all);
    metrics_release(&sums);
}

int saved_note_all(struct saved_notes *n, const struct checkpoint *c, const char *path,
                   bool average, struct err *err)
{
    struct saved_about about;
    struct job_spec spec = {0};
    double label_scale = 1;
    saved_about_checkpoint(c, &about);
    saved_note(n, "gradus.format_version", mem_printf("%d", SAVED_NOTES_VERSION));
    saved_note_version(n, &about);
    saved_note(n, "gradus.values", mem_strdup(average ? "average" : "parameters"));
    saved_note(n, "gradus.text", mem_strdup(about.text));
    if (about.encoding != NULL) {
        saved_note(n, "gradus.encoding", mem_strdup(about.encoding));
    }
    if (about.model_file != 0) {
        saved_note(n, "gradus.model_file", mem_printf("0x%016" PRIx64, about.model_file));
    }
    int rc = saved_job_read(&about, path, NULL, 0, &spec, err);
    if (rc == 0 && !job_spec_is_program(&spec)) {
        rc = recall_data(n, about.encoding, &spec, &label_scale, err);
    }
    if (rc == 0 && !job_spec_is_program(&spec)) {
        note_metrics(n, checkpoint_manifest(c), &spec, label_scale);
    }
    job_spec_release(&spec);
    return rc;
}
