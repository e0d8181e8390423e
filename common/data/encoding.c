/* SPDX-License-Identifier: Apache-2.0 */
/* The stages in the order in which each builds on those before. */
#include "data/encoding.h"

#include <math.h>
#include <stdlib.h>

#include "data/encoding_given.h"

static void add_labels(const void *context, const struct records *r, double *sums)
{
    (void)context;
    for (uint64_t i = 0; i < r->count; i++) {
        *sums += r->labels[i];
    }
}

static void add_squares(const void *context, const struct records *r, double *sums)
{
    const struct label_map *m = context;
    for (uint64_t i = 0; i < r->count; i++) {
        *sums += (r->labels[i] - m->offset) * (r->labels[i] - m->offset);
    }
}

static int fit_labels(struct label_map *m, const struct data_spec *spec, bool is_class,
                      const struct encoding_train *train, struct err *err)
{
    double sum = 0, squares = 0;
    *m = (struct label_map){.is_class = is_class, .scale = 1};
    if (is_class) {
        return classes_fit(&m->classes, train->digest, spec->classes, err);
    }
    if (spec->label_scale != DATA_LABEL_SCALE_STANDARD) {
        return 0;
    }
    int rc = train->walk(train->data, add_labels, NULL, &sum, 1, err);
    m->offset = sum / (double)train->records;
    rc = rc != 0 ? rc : train->walk(train->data, add_squares, m, &squares, 1, err);
    double deviation = sqrt(squares / (double)train->records);
    m->scale = deviation > 0 && isfinite(deviation) ? deviation : 1;
    return rc;
}

static int reach(struct encoding *e, enum encoding_stage stage, const struct encoding_train *train,
                 struct err *err)
{
    e->stage = stage;
    return train->reached == NULL ? 0 : train->reached(train->data, e, err);
}

static int take_given(struct encoding *e, const struct encoding_train *train, struct err *err)
{
    int rc = 0;
    *e = train->given->recalled.encoding;
    train->given->recalled.encoding = (struct encoding){0};
    for (int stage = ENCODING_FILLED; stage <= ENCODING_SCALED && rc == 0; stage++) {
        rc = reach(e, (enum encoding_stage)stage, train, err);
    }
    return rc;
}

int encoding_fit(struct encoding *e, const struct data_spec *spec, bool label_is_class,
                 const struct encoding_train *train, struct err *err)
{
    const bool declared = train->digest->declared != NULL;
    size_t numbers =
        train->digest->numbers; /* only numbers are scaled, not the one-hot features behind them */
    if (train->given != NULL) {
        return take_given(e, train, err);
    }
    e->spec = spec;
    int rc = fit_labels(&e->labels, spec, label_is_class, train, err);
    rc = rc != 0 ? rc
                 : encode_fills_fit(&e->fills, spec, train->digest, train->walk, train->data, err);
    rc = rc != 0 ? rc : reach(e, ENCODING_FILLED, train, err);
    if (rc == 0 && declared) {
        rc = column_layout_fit(spec, train->digest, train->records, train->walk, train->data,
                               &numbers, &e->columns, err);
    } else if (rc == 0) {
        rc = encode_known_fit(&e->known, train->digest, err);
    }
    rc = rc != 0 ? rc : reach(e, ENCODING_FEATURES, train, err);
    if (rc == 0) {
        int usual = declared ? DATA_SCALE_NONE : (int)train->digest->usual_scale;
        int scale = spec->scale == DATA_SCALE_AUTO ? usual : spec->scale;
        rc = scaling_fit(&e->scaling, (enum data_scale)scale, train->digest, numbers,
                         train->records, train->walk, train->data, err);
    }
    return rc != 0 ? rc : reach(e, ENCODING_SCALED, train, err);
}

int encoding_apply(const struct encoding *e, enum encoding_stage from, struct records *r,
                   struct err *err)
{
    int rc = 0;
    if (from < ENCODING_FILLED && e->stage >= ENCODING_FILLED) {
        encode_fills_apply(&e->fills, r);
    }
    if (from < ENCODING_FEATURES && e->stage >= ENCODING_FEATURES) {
        rc = e->columns != NULL ? column_layout_apply(e->columns, e->spec, r, err)
                                : encode_known_apply(&e->known, r, err);
    }
    if (rc == 0 && from < ENCODING_SCALED && e->stage >= ENCODING_SCALED && r->values != NULL) {
        scaling_apply(&e->scaling, r->values, r->count, r->numbers);
    }
    return rc;
}

void encoding_release(struct encoding *e)
{
    classes_release(&e->labels.classes);
    encode_fills_release(&e->fills);
    encode_known_release(&e->known);
    column_layout_free(e->columns);
    scaling_release(&e->scaling);
    *e = (struct encoding){0};
}
