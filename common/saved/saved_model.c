/* SPDX-License-Identifier: Apache-2.0 */
/* Puts together what a checkpoint or a file, its job file and the train data say. */
#include "saved/saved_model.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "graph/model_import.h"
#include "saved/saved_file.h"
#include "saved/saved_tables.h"
#include "saved/saved_variables.h"
#include "storage/storage.h"

struct saved_model {
    char *path;
    struct checkpoint *checkpoint; /* or */
    struct saved_file *file;
    struct saved_about about;
    struct job_spec spec;
    struct encoder *encoder;
    bool measured_anew;
    struct model *model;
    struct saved_variables variables;
    struct saved_tables tables;
    char **class_names; /* [classes] */
    size_t classes;
};

struct saved_run {
    struct saved_model *saved;
    struct runner *runner;
    struct saved_reader reader;
    bool limited;   /* layers do not take all keys */
    float *outputs; /* [batch_max × model_outputs()] */
};

void saved_model_free(struct saved_model *m)
{
    if (m == NULL) {
        return;
    }
    for (size_t i = 0; i < m->classes; i++) {
        free(m->class_names[i]);
    }
    free(m->class_names);
    saved_variables_release(&m->variables);
    saved_tables_release(&m->tables);
    model_free(m->model);
    encoder_free(m->encoder);
    job_spec_release(&m->spec);
    checkpoint_close(m->checkpoint);
    saved_file_close(m->file);
    free(m->path);
    free(m);
}

static bool same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

/* True if it is the file of the same job, with the same --set: it says the same about the data. */
static bool same_data(const struct saved_model *m, const struct saved_model *before)
{
    if (before == NULL) {
        return false;
    }
    const struct saved_about *a = &m->about, *b = &before->about;
    return same_text(a->text, b->text) && same_text(a->encoding, b->encoding);
}

/* The graph of a file is no part of what was saved, and another one may well have variables of the
 * same names and shapes: their values would be taken for it, and its answers mean nothing. */
static int check_model_file(const struct saved_model *m, struct err *err)
{
    const uint64_t then = m->about.model_file;
    if (then == 0 || !model_is_imported(&m->spec.model) ||
        then == model_import_given(&m->spec.model).fingerprint) {
        return 0;
    }
    char *file = storage_join(m->spec.data.dir, m->spec.model.onnx);
    int rc = err_set(err, ERR_INVALID,
                     "%.200s: model.onnx %.300s is not the file that the model was trained with, "
                     "or files of its weights, model.output or model.trainable are others: the "
                     "values belong to that graph alone; put the file back, or say where it is "
                     "(--set model.onnx=PATH; of gradus-serve --data-dir DIR)",
                     m->path, file);
    free(file);
    return rc;
}

/* Refuses other settings of data than those with which the data were measured. */
static int check_sets(struct saved_model *m, const struct saved_model_request *q, struct err *err)
{
    static const char *const places[] = {
        "dir",         "train.file",    "train.labels", "train.limit", "test.file", "test.labels",
        "test.limit",  "test_fraction", "split_seed",   "header",      "separator", "decimal",
        "bad_records", "short_rows",    "loading",      "memory",      NULL};
    struct job_spec trained = {0};
    struct buf then = {0}, now = {0};
    int rc = q->set_count == 0 ? 0 : saved_job_read(&m->about, q->path, NULL, 0, &trained, err);
    if (rc == 0 && q->set_count > 0) {
        data_spec_text(&trained.data, places, &then);
        data_spec_text(&m->spec.data, places, &now);
        if (strcmp(buf_str(&then), buf_str(&now)) != 0) {
            rc = err_set(err, ERR_INVALID,
                         "%s: the model was trained with other settings of data; where "
                         "records are and how files are read can be set, not what becomes of them",
                         m->path);
        }
    }
    buf_release(&then);
    buf_release(&now);
    job_spec_release(&trained);
    return rc;
}

static int open_encoder(struct saved_model *m, const struct saved_model_request *q, struct err *err)
{
    struct data_spec data = m->spec.data; /* borrows what the other has */
    data.cache_dir = q->cache_dir;
    if (same_data(m, q->before)) {
        m->encoder = encoder_ref(q->before->encoder);
        m->measured_anew = q->before->measured_anew;
        return 0;
    }
    const char *measured = m->about.encoding;
    if (measured == NULL && (m->file != NULL || q->given != NULL)) {
        return err_set(err, ERR_UNSUPPORTED,
                       "%s: %s nothing of what was measured on the train data", m->path,
                       m->file != NULL ? "its metadata lack gradus.encoding: the checkpoint kept"
                                       : "the master keeps");
    }
    m->measured_anew = measured == NULL;
    int rc = measured == NULL ? 0 : check_sets(m, q, err);
    if (rc != 0) {
        return rc;
    }
    rc = measured == NULL
             ? encoder_open(&data, job_spec_label_kind(&m->spec), &m->encoder, err)
             : encoder_recall(measured, &data, job_spec_label_kind(&m->spec), &m->encoder, err);
    if (rc != 0 && measured != NULL) {
        return err_wrap(err, "%s: what was measured on the train data", m->path);
    }
    return rc == 0 ? 0
                   : err_wrap(err,
                              "checkpoint %s keeps nothing of what was measured on the train data, "
                              "which have to be here",
                              m->path);
}

static void name_classes(struct saved_model *m)
{
    const struct dataset_info *info = encoder_info(m->encoder);
    const char *const *names = encoder_class_names(m->encoder);
    m->classes = info->label_is_class ? info->classes : 0;
    m->class_names = mem_new(m->classes + 1, sizeof *m->class_names);
    for (size_t i = 0; i < m->classes; i++) {
        m->class_names[i] = names != NULL ? mem_strdup(names[i]) : mem_printf("%zu", i);
    }
}

static int read_checkpoint(struct saved_model *m, bool average, struct err *err)
{
    int rc = saved_variables_read(m->checkpoint, NULL, m->model, average ? "average" : NULL,
                                  &m->variables, err);
    rc = rc != 0 ? rc : saved_tables_open(&m->tables, m->checkpoint, &m->spec, err);
    return rc != 0 ? rc : saved_tables_load(&m->tables, m->checkpoint, err);
}

/* A file has either the parameters or, as somebody wanted these, their average. */
static int check_file(const struct saved_model *m, bool average, struct err *err)
{
    if (average && !saved_file_is_average(m->file)) {
        return err_set(err, ERR_INVALID,
                       "it has the parameters, and its model answers with their moving average "
                       "(update.evaluate_average): export it with --average, or set "
                       "update.evaluate_average=false");
    }
    int rc = saved_file_check_data(m->file, m->encoder, err);
    return rc != 0 ? rc : saved_file_check_tensors(m->file, m->model, &m->spec, err);
}

static int read_file(struct saved_model *m, bool average, struct err *err)
{
    int rc = check_file(m, average, err);
    rc = rc != 0 ? rc : saved_variables_read(NULL, m->file, m->model, NULL, &m->variables, err);
    rc = rc != 0 ? rc : saved_tables_load_file(&m->tables, m->file, m->model, &m->spec, err);
    return rc != 0 ? err_wrap(err, "%s", m->path) : 0;
}

static int copy_given(struct saved_model *m, const struct saved_given *g, struct err *err)
{
    int rc = saved_variables_copy(g->variables, g->values, g->count, m->model, &m->variables, err);
    rc = rc != 0 ? rc : saved_tables_load_given(&m->tables, g, m->model, &m->spec, err);
    return rc == 0 ? 0 : err_wrap(err, "%s", m->path);
}

static int open_model(struct saved_model *m, const struct saved_model_request *q, struct err *err)
{
    bool average = q->average;
    const struct dataset_info *info = encoder_info(m->encoder);
    average = average || m->spec.update.evaluate_average;
    int rc = model_new(&m->spec.model, &info->features, &info->fields, (uint32_t)m->classes,
                       &m->model, err);
    return rc != 0            ? rc
           : q->given != NULL ? copy_given(m, q->given, err)
           : m->file != NULL  ? read_file(m, average, err)
                              : read_checkpoint(m, average, err);
}

static int open_source(struct saved_model *m, const struct saved_given *given, struct err *err)
{
    enum storage_thing thing = STORAGE_NOTHING;
    if (given != NULL) {
        m->about = given->about;
        return 0;
    }
    int rc = storage_look(m->path, &thing, err);
    if (rc == 0 && thing == STORAGE_FILE) {
        rc = saved_file_open(m->path, &m->file, err);
        m->about = rc == 0 ? *saved_file_about(m->file) : m->about;
        return rc;
    }
    rc = rc != 0 ? rc : checkpoint_open(m->path, CHECKPOINT_FULL, &m->checkpoint, err);
    if (rc == 0) {
        saved_about_checkpoint(m->checkpoint, &m->about);
    }
    return rc;
}

int saved_model_open(const struct saved_model_request *q, struct saved_model **out, struct err *err)
{
    struct saved_model *m = mem_new(1, sizeof *m);
    m->path = mem_strdup(q->path);
    int rc = open_source(m, q->given, err);
    rc = rc != 0 ? rc : saved_job_read(&m->about, q->path, q->sets, q->set_count, &m->spec, err);
    if (rc == 0 && job_spec_is_program(&m->spec)) {
        rc = err_set(err, ERR_UNSUPPORTED,
                     "the model is program '%s' of the workers (model.program): only they can "
                     "compute it; `gradus export` writes its values (into a module of PyTorch: "
                     "gradus.torch.load())",
                     m->spec.model.program);
    }
    rc = rc != 0 ? rc : job_spec_import(&m->spec, NULL, err);
    rc = rc != 0 ? rc : check_model_file(m, err);
    rc = rc != 0 ? rc : open_encoder(m, q, err);
    if (rc == 0) {
        name_classes(m);
        rc = open_model(m, q, err);
    }
    if (rc != 0) {
        saved_model_free(m);
        return rc;
    }
    *out = m;
    return 0;
}

const char *saved_model_path(const struct saved_model *m)
{
    return m->path;
}

const struct saved_about *saved_model_about(const struct saved_model *m)
{
    return &m->about;
}

const struct job_spec *saved_model_spec(const struct saved_model *m)
{
    return &m->spec;
}

bool saved_model_measured_anew(const struct saved_model *m)
{
    return m->measured_anew;
}

struct encoder *saved_model_encoder(const struct saved_model *m)
{
    return m->encoder;
}

size_t saved_model_classes(const struct saved_model *m)
{
    return m->classes;
}

const char *saved_model_class_name(const struct saved_model *m, size_t i)
{
    return m->class_names[i];
}

size_t saved_model_width(const struct saved_model *m)
{
    return m->classes > 0 ? m->classes : 1;
}

const struct model *saved_model_graph(const struct saved_model *m)
{
    return m->model;
}

const float *const *saved_model_values(const struct saved_model *m)
{
    return (const float *const *)m->variables.values;
}

const struct saved_tables *saved_model_tables(const struct saved_model *m)
{
    return &m->tables;
}

/* ---- computing ---- */

/* Do layers set limits to the keys that they read, or to their number? */
static bool limits_lists(const struct saved_model *m)
{
    const size_t fields = encoder_info(m->encoder)->fields.count;
    bool limits = false;
    for (size_t f = 0; f < fields; f++) {
        uint64_t keys;
        size_t length;
        const char *keys_layer, *length_layer;
        model_list_limits(m->model, f, &keys, &keys_layer, &length, &length_layer);
        limits = limits || keys != UINT64_MAX || length != SIZE_MAX;
    }
    return limits;
}

int saved_run_new(struct saved_model *m, size_t batch_max, int threads, struct saved_run **out,
                  struct err *err)
{
    struct saved_run *r = mem_new(1, sizeof *r);
    r->saved = m;
    r->limited = limits_lists(m);
    int rc = runner_new(m->model, batch_max, threads, &r->runner, err);
    if (rc == 0) {
        r->outputs = mem_try_aligned(batch_max * model_outputs(m->model), sizeof *r->outputs,
                                     "answers of a batch", err);
        rc = r->outputs == NULL ? ERR_EXHAUSTED : 0;
    }
    if (rc != 0) {
        saved_run_free(r);
        return rc;
    }
    *out = r;
    return 0;
}

void saved_run_free(struct saved_run *r)
{
    if (r != NULL) {
        runner_free(r->runner);
        saved_reader_release(&r->reader);
        free(r->outputs);
        free(r);
    }
}

/* Do the layers take the keys that came? The train data were looked at before the training. */
static int check_lists(const struct saved_model *m, const struct sparse_batch *b, struct err *err)
{
    const struct sparse_names *fields = &encoder_info(m->encoder)->fields;
    for (size_t f = 0; f < b->fields; f++) {
        uint64_t keys;
        size_t length;
        const char *keys_layer, *length_layer;
        const uint64_t *offsets = b->offsets + f * (b->capacity + 1);
        model_list_limits(m->model, f, &keys, &keys_layer, &length, &length_layer);
        for (size_t i = 0; i < b->count; i++) {
            const uint64_t n = offsets[i + 1] - offsets[i];
            if (n > length) {
                return err_set(err, ERR_INVALID,
                               "sparse field %.64s: a record has %llu keys, but %s takes %zu",
                               fields->names[f], (unsigned long long)n, length_layer, length);
            }
            for (uint64_t k = offsets[i]; keys != UINT64_MAX && k < offsets[i + 1]; k++) {
                if (b->keys[k] >= keys) {
                    return err_set(err, ERR_INVALID,
                                   "sparse field %.64s: a record has the key %llu, but %s has rows "
                                   "for the keys below %llu",
                                   fields->names[f], (unsigned long long)b->keys[k], keys_layer,
                                   (unsigned long long)keys);
                }
            }
        }
    }
    return 0;
}

/* Turns an output of the model into the form that the user wants. */
static void finish(const struct saved_model *m, const float *in, size_t count, float *out)
{
    const struct dataset_info *info = encoder_info(m->encoder);
    const size_t width = saved_model_width(m), outputs = model_outputs(m->model);
    if (m->classes == 2 && outputs == 1) {
        for (size_t i = 0; i < count; i++) {
            out[2 * i] = 1.0F - in[i];
            out[2 * i + 1] = in[i];
        }
    } else if (m->classes > 0) {
        memcpy(out, in, count * width * sizeof *out);
    } else {
        for (size_t i = 0; i < count; i++) {
            out[i] = (float)((double)in[i] * info->label_scale + info->label_offset);
        }
    }
}

static int read_rows(struct saved_run *r, const struct batch *b, struct err *err)
{
    struct saved_model *m = r->saved;
    int rc = saved_tables_read(&m->tables, m->model, &b->lists, &r->reader, err);
    if (rc == 0) {
        runner_set_rows(r->runner, r->reader.run);
    }
    return rc;
}

int saved_run_evaluate(struct saved_run *r, const struct batch *b, struct metrics *sums,
                       struct err *err)
{
    int rc = read_rows(r, b, err);
    if (rc == 0) {
        runner_evaluate(r->runner, saved_model_values(r->saved), b, sums);
    }
    return rc;
}

int saved_run_answer(struct saved_run *r, const struct batch *b, float *out, struct err *err)
{
    struct saved_model *m = r->saved;
    int rc = r->limited ? check_lists(m, &b->lists, err) : 0;
    rc = rc != 0 ? rc : read_rows(r, b, err);
    if (rc != 0) {
        return rc;
    }
    size_t width;
    model_answer(m->model, runner_predict(r->runner, saved_model_values(m), b, &width), b->count,
                 r->outputs);
    finish(m, r->outputs, b->count, out);
    return 0;
}
