/* SPDX-License-Identifier: Apache-2.0 */
/* TFRecord files of tf.train.Example: one record each, whose features data.columns declares as the
 * label, as numbers (float or int64, as many as length says) or as sparse fields (int64, which are
 * keys, or bytes, which are hashed). Features that it does not declare are left out. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "data/cells.h"
#include "data/csv_columns.h"
#include "data/format.h"
#include "data/tf_example.h"
#include "data/tfrecord_load.h"

#define SHOWN_FEATURES_MAX 12 /* in a message */

static int add_records(struct tfrecord_load *l, struct tfrecord *file, struct err *err)
{
    const uint64_t limit = l->request->limit;
    int rc = 0;
    while (rc == 0 && (limit == 0 || l->out.count < limit)) {
        struct err cause = {0};
        bool framed;
        rc = tfrecord_next(file, &l->item, &framed, &cause);
        if (rc != 0 && !framed) {
            return err_set(err, rc, "%s", cause.msg);
        }
        if (rc == 0 && l->item.bytes == NULL) {
            break;
        }
        rc = rc != 0 ? rc : tfrecord_load_add(l, &cause);
        if (rc != 0) {
            rc = records_leave_out(&l->out, l->request->bad_had,
                                   (uint64_t)l->request->spec->bad_records, rc, &cause, err);
        }
    }
    const bool nothing = l->out.bad_count == 0 && l->out.skipped == 0;
    rc = rc != 0 ? rc : tfrecord_load_end(l, err);
    if (rc != 0 || l->out.count > 0 || l->request->part != NULL ||
        (nothing && l->request->may_be_empty)) {
        return rc;
    }
    if (l->out.bad_count > 0) {
        return err_set(err, ERR_INVALID, "%s: no records: all %" PRIu64 " are bad, such as %s",
                       l->request->path, l->out.bad_count, l->out.bad_first);
    }
    return l->out.skipped > 0
               ? err_set(err, ERR_INVALID,
                         "%s: no records: all %" PRIu64 " lack a value and missing is skip",
                         l->request->path, l->out.skipped)
               : err_set(err, ERR_INVALID, "%s: there are no records", l->request->path);
}

/* "label (int64), I1 (float), …", what the first record has. */
static int list_features(const struct format_request *q, struct buf *out, struct err *err)
{
    struct tfrecord *file;
    struct tfrecord_item item;
    struct tf_example example;
    struct tf_feature f;
    bool framed;
    int rc = tfrecord_open(q->path, q->spec->roots, &file, err);
    if (rc != 0) {
        return rc;
    }
    rc = tfrecord_next(file, &item, &framed, err);
    tf_example_begin(&example, item.bytes, rc == 0 && item.bytes != NULL ? item.size : 0);
    for (int n = 0; rc == 0 && item.bytes != NULL && tf_example_next(&example, &f) == TF_FOUND;
         n++) {
        if (n == SHOWN_FEATURES_MAX) {
            buf_printf(out, ", …");
            break;
        }
        char *name = mem_printf("%.*s", (int)(f.name.end - f.name.p), (const char *)f.name.p);
        char shown[64];
        buf_printf(out, "%s%s (%s)", n == 0 ? "" : ", ",
                   cells_mark(name, CSV_SHOWN_BYTES, false, shown, sizeof shown),
                   tf_kind_names[f.kind]);
        free(name);
    }
    tfrecord_close(file);
    return rc;
}

static int check_request(const struct format_request *q, struct err *err)
{
    struct buf features = {0};
    if (q->labels_path[0] != '\0') {
        return err_set(err, ERR_INVALID,
                       "data.%s.labels is set, but records of a TFRecord file have the label among "
                       "their features (data.columns)",
                       q->key);
    }
    if (q->spec->column_count > 0) {
        return 0;
    }
    int rc = list_features(q, &features, err);
    if (rc == 0) {
        rc = err_set(err, ERR_INVALID,
                     "%s: nothing says what the features of a TFRecord file are; declare them in "
                     "data.columns; the first record has: %s",
                     q->path, buf_str(&features));
    }
    buf_release(&features);
    return rc;
}

static int tfrecord_read(const struct format_request *q, struct records *out, struct err *err)
{
    struct tfrecord_load load = {.request = q,
                                 .out = {.where = mem_strdup(q->path)},
                                 .weights = data_spec_weights(q->spec, q->key)};
    struct tfrecord *file = NULL;
    int rc = check_request(q, err);
    rc = rc != 0 ? rc : tfrecord_slots_init(&load.slots, q, &load.out, err);
    if (rc == 0 && q->part != NULL) {
        tfrecord_of_bytes(q->path, q->part->bytes, q->part->count, q->part->line, q->part->offset,
                          &file);
    } else if (rc == 0) {
        rc = tfrecord_open(q->path, q->spec->roots, &file, err);
    }
    rc = rc != 0 ? rc : add_records(&load, file, err);
    tfrecord_close(file);
    tfrecord_slots_release(&load.slots, q->spec->column_count);
    sparse_draft_release(&load.draft);
    if (rc != 0) {
        records_release(&load.out);
        return rc;
    }
    *out = load.out;
    return 0;
}

static void tfrecord_look(const uint8_t *head, size_t n, struct format_look *look)
{
    look->lines = 1;
    look->fit = tfrecord_begins(head, n);
    look->what = "it begins with a length and its checksum";
}

const struct format format_tfrecord = {.name = "tfrecord",
                                       .parts = true,
                                       .weights = true,
                                       .look = tfrecord_look,
                                       .read = tfrecord_read};
