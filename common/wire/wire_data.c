/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptions of data sets and sums of metrics as messages and back. Also compares the
 * descriptions of two nodes and names the first difference: all must train on the same data. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "wire/wire.h"

void wire_data_to_proto(const struct dataset_info *train, const struct dataset_info *test,
                        Gradus__V1__DataInfo *out)
{
    gradus__v1__data_info__init(out);
    out->train_records = train->records;
    out->test_records = test == NULL ? 0 : test->records;
    /* The message has no pointers to const; nobody writes through this one. */
    union {
        const uint64_t *in;
        uint64_t *out;
    } dims = {.in = train->features.dims};
    out->feature_dims = dims.out;
    out->n_feature_dims = train->features.rank;
    union {
        const char *const *in;
        char **out;
    } names = {.in = train->fields.names};
    out->sparse_fields = names.out;
    out->n_sparse_fields = train->fields.count;
    out->label_is_class = train->label_is_class;
    out->classes = train->classes;
    out->label_scale = train->label_scale;
    out->label_offset = train->label_offset;
    out->train_fingerprint = train->fingerprint;
    out->test_fingerprint = test == NULL ? 0 : test->fingerprint;
}

int wire_data_from_proto(const Gradus__V1__DataInfo *in, struct dataset_info *train,
                         struct dataset_info *test, struct err *err)
{
    if (in == NULL) {
        return err_set(err, ERR_INVALID, "data: missing");
    }
    if (in->train_records == 0) {
        return err_set(err, ERR_INVALID, "data: no train records");
    }
    if (in->n_feature_dims > SHAPE_RANK_MAX) {
        return err_set(err, ERR_INVALID, "data: records of %zu dimensions; at most %d",
                       in->n_feature_dims, SHAPE_RANK_MAX);
    }
    if (in->n_sparse_fields > SPARSE_FIELDS_MAX) {
        return err_set(err, ERR_INVALID, "data: %zu sparse fields; at most %u", in->n_sparse_fields,
                       SPARSE_FIELDS_MAX);
    }
    if (!isfinite(in->label_scale) || !isfinite(in->label_offset)) {
        return err_set(err, ERR_INVALID, "data: label scale %g and offset %g must be finite",
                       in->label_scale, in->label_offset);
    }
    struct dataset_info info = {
        .records = in->train_records,
        .features.rank = in->n_feature_dims,
        .label_is_class = in->label_is_class != 0,
        .classes = in->classes,
        .label_scale = in->label_scale,
        .label_offset = in->label_offset,
        .fingerprint = in->train_fingerprint,
        .fields = {(const char *const *)in->sparse_fields, in->n_sparse_fields},
    };
    for (size_t i = 0; i < in->n_feature_dims; i++) {
        info.features.dims[i] = in->feature_dims[i];
    }
    const bool lists_alone =
        in->n_sparse_fields > 0 && info.features.rank == 1 && info.features.dims[0] == 0;
    if (shape_count(&info.features) == 0 && !lists_alone) {
        char shape[96];
        return err_set(err, ERR_INVALID, "data: records of shape %s are empty or too large",
                       shape_format(&info.features, shape, sizeof shape));
    }
    *train = info;
    *test = info;
    test->records = in->test_records;
    test->fingerprint = in->test_fingerprint;
    return 0;
}

static int differs_u64(const char *what, uint64_t expected, uint64_t found, struct err *err)
{
    return expected == found
               ? 0
               : err_set(err, ERR_STATE, "%s: the job has %" PRIu64 ", this node found %" PRIu64,
                         what, expected, found);
}

static int differs_double(const char *what, double expected, double found, struct err *err)
{
    return expected == found
               ? 0
               : err_set(err, ERR_STATE, "%s: the job has %.17g, this node found %.17g", what,
                         expected, found);
}

static int differs_content(const char *what, uint64_t expected, uint64_t found, struct err *err)
{
    return expected == found ? 0
                             : err_set(err, ERR_STATE,
                                       "%s: the content differs: fingerprint %016" PRIx64
                                       " in the job, %016" PRIx64 " on this node",
                                       what, expected, found);
}

static int compare_dims(const Gradus__V1__DataInfo *a, const Gradus__V1__DataInfo *b,
                        struct err *err)
{
    int rc = differs_u64("dimensions of a record", a->n_feature_dims, b->n_feature_dims, err);
    for (size_t i = 0; i < a->n_feature_dims && rc == 0; i++) {
        rc = differs_u64("size of a record", a->feature_dims[i], b->feature_dims[i], err);
    }
    return rc;
}

static int compare_fields(const Gradus__V1__DataInfo *a, const Gradus__V1__DataInfo *b,
                          struct err *err)
{
    int rc = differs_u64("sparse fields", a->n_sparse_fields, b->n_sparse_fields, err);
    for (size_t i = 0; i < a->n_sparse_fields && rc == 0; i++) {
        if (strcmp(a->sparse_fields[i], b->sparse_fields[i]) != 0) {
            rc = err_set(err, ERR_STATE,
                         "sparse field %zu: the job has '%.64s', this node found '%.64s'", i,
                         a->sparse_fields[i], b->sparse_fields[i]);
        }
    }
    return rc;
}

int wire_data_compare(const Gradus__V1__DataInfo *a, const Gradus__V1__DataInfo *b, struct err *err)
{
    int rc = differs_u64("train records", a->train_records, b->train_records, err);
    rc = rc != 0 ? rc : differs_u64("test records", a->test_records, b->test_records, err);
    rc = rc != 0 ? rc : compare_dims(a, b, err);
    rc = rc != 0 ? rc : compare_fields(a, b, err);
    rc = rc != 0 ? rc
                 : differs_u64("class labels (1) or numbers (0)", a->label_is_class != 0,
                               b->label_is_class != 0, err);
    rc = rc != 0 ? rc : differs_u64("classes", a->classes, b->classes, err);
    rc = rc != 0 ? rc : differs_double("label scale", a->label_scale, b->label_scale, err);
    rc = rc != 0 ? rc : differs_double("label offset", a->label_offset, b->label_offset, err);
    rc = rc != 0
             ? rc
             : differs_content("train records", a->train_fingerprint, b->train_fingerprint, err);
    rc = rc != 0 ? rc
                 : differs_content("test records", a->test_fingerprint, b->test_fingerprint, err);
    rc = rc != 0 ? rc
                 : differs_content("the model's initial values",
                                   a->program == NULL ? 0 : a->program->fingerprint,
                                   b->program == NULL ? 0 : b->program->fingerprint, err);
    return rc;
}

void wire_metrics_to_proto(const struct metrics *m, Gradus__V1__MetricSums *out)
{
    gradus__v1__metric_sums__init(out);
    out->n_values = metrics_pack(m, NULL);
    out->values = mem_new(out->n_values, sizeof *out->values);
    (void)metrics_pack(m, out->values);
}

void wire_metrics_release(Gradus__V1__MetricSums *p)
{
    free(p->values);
    gradus__v1__metric_sums__init(p);
}

int wire_metrics_from_proto(const Gradus__V1__MetricSums *in, struct metrics *m, struct err *err)
{
    if (in == NULL) {
        return err_set(err, ERR_INVALID, "metrics: missing");
    }
    int rc = metrics_unpack(m, in->values, in->n_values, err);
    return rc == 0 ? 0 : err_wrap(err, "metrics");
}
