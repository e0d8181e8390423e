/* SPDX-License-Identifier: Apache-2.0 */
/* Reads both parts into memory as a whole, measures the train records, or takes what another job
 * measured, and encodes them. */
#include <stdlib.h>

#include "base/mem.h"
#include "data/cells.h"
#include "data/dataset_state.h"
#include "data/encoding_given.h"
#include "data/encoding_json.h"
#include "data/fingerprint.h"
#include "data/foreign_text.h"
#include "data/parts.h"

/* All records of a part, in memory. */
static int dataset_new(const struct encoding *e, const struct data_spec *spec, const char *format,
                       struct records *r, struct dataset **out, struct err *err)
{
    int rc = dataset_of_records(e, spec, format, r, out, err);
    if (rc == 0) {
        struct fingerprint *f = fingerprint_new();
        fingerprint_add(f, *out);
        (*out)->info.fingerprint = fingerprint_value(f, *out, r->count);
        fingerprint_free(f);
    }
    return rc;
}

/* The train records that data.negative_sampling keeps. */
static int sample_train(const struct data_spec *spec, struct dataset *d, struct err *err)
{
    struct sample *s = NULL;
    int rc = sample_new(spec, d->info.classes, &s, err);
    for (uint64_t i = 0; s != NULL && i < d->info.records; i++) {
        (void)sample_add(s, d->classes[i]);
    }
    rc = rc != 0 || s == NULL ? rc : sample_end(s, err);
    if (rc != 0 || s == NULL) {
        sample_free(s);
        return rc;
    }
    dataset_take_sample(d, s);
    return 0;
}

static int walk_parts(void *data, measure_visit *visit, const void *context, double *sums, size_t n,
                      struct err *err)
{
    (void)n;
    (void)err;
    const struct parts *p = data;
    visit(context, &p->train, sums);
    return 0;
}

/* Both parts follow the encoding to the stage that it has reached. */
static int apply_to_parts(void *data, struct encoding *e, struct err *err)
{
    struct parts *p = data;
    const enum encoding_stage from = (enum encoding_stage)(e->stage - 1);
    int rc = e->stage == ENCODING_SCALED
                 ? dataset_settle_fields(e->spec, &p->train, p->has_test ? &p->test : NULL, err)
                 : 0;
    rc = rc != 0 ? rc : encoding_apply(e, from, &p->train, err);
    return rc == 0 && p->has_test ? encoding_apply(e, from, &p->test, err) : rc;
}

/* What is made of the parts in memory. */
struct made {
    struct parts parts;
    struct encoding_given *given; /* NULL: it is measured */
    struct encoding encoding;
    struct records like; /* the kind of the train records */
    struct buf news;
    char *foreign[2]; /* of the train and the test records */
};

static void made_release(struct made *m)
{
    encoding_release(&m->encoding);
    encoding_given_free(m->given);
    records_release(&m->like);
    parts_release(&m->parts);
    buf_release(&m->news);
    free(m->foreign[0]);
    free(m->foreign[1]);
}

static int encode_in_memory(struct made *m, const struct data_spec *spec, bool is_class,
                            struct err *err)
{
    int rc = encoding_given_open(spec, is_class, &m->given, err);
    const struct records *like = m->given == NULL ? NULL : &m->given->recalled.like;
    rc = rc != 0 ? rc : parts_read(spec, is_class, like, &m->parts, err);
    if (rc == 0 && like != NULL) {
        rc = encoding_given_check(m->given, &m->parts.train, &m->news, err);
    }
    if (rc == 0) {
        m->foreign[0] = foreign_text_first(&m->parts.train);
        m->foreign[1] = m->parts.has_test ? foreign_text_first(&m->parts.test) : NULL;
    }
    rc = rc != 0 ? rc : records_kind(&m->parts.train, &m->like, err);
    if (rc != 0) {
        return rc;
    }
    const struct encoding_train all = {.digest = &m->parts.train,
                                       .records = m->parts.train.count,
                                       .walk = walk_parts,
                                       .reached = apply_to_parts,
                                       .data = &m->parts,
                                       .given = m->given};
    return encoding_fit(&m->encoding, spec, is_class, &all, err);
}

int dataset_memory_open(const struct data_spec *spec, enum data_label_kind label_kind,
                        struct dataset **train, struct dataset **test, struct err *err)
{
    struct made m = {0};
    struct parts *parts = &m.parts;
    struct dataset *made[2] = {NULL, NULL};
    int rc = encode_in_memory(&m, spec, label_kind == DATA_LABEL_CLASS, err);
    if (rc == 0) {
        rc = dataset_new(&m.encoding, spec, parts->format, &parts->train, &made[0], err);
        rc = rc != 0 ? rc : sample_train(spec, made[0], err);
    }
    if (rc == 0 && parts->has_test) {
        rc = dataset_new(&m.encoding, spec, parts->format, &parts->test, &made[1], err);
    }
    if (rc == 0) {
        made[0]->measured = encoding_describe(m.encoding.spec, parts->format, &m.like, &m.encoding);
        made[0]->news =
            m.news.len == 0 ? NULL : cells_settle(buf_str(&m.news), data_roots_bind(spec->roots));
    }
    for (size_t i = 0; rc == 0 && i < 2 && made[i] != NULL; i++) {
        made[i]->foreign = cells_settle(m.foreign[i], data_roots_bind(spec->roots));
    }
    made_release(&m);
    if (rc != 0) {
        cells_settle_err(err, data_roots_bind(spec->roots));
        dataset_free(made[0]);
        return rc;
    }
    *train = made[0];
    *test = made[1];
    return 0;
}
