/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the ledger (which batches of the epoch are done) into manifests and shard files, and
 * reads it back. Splits in a row with the same count are one pair; the pairs must add up to all
 * splits. */
#include "checkpoint/ledger_json.h"

#include <inttypes.h>

#include "json/json_doc.h"

void ledger_json_format(const struct ledger *l, struct buf *out)
{
    buf_printf(out, "{\"epoch\":%" PRIu64 ",\"records\":%" PRIu64, l->epoch, l->shape.records);
    buf_printf(out, ",\"batch_records\":%u,\"split_batches\":%u,\"done\":[", l->shape.batch_records,
               l->shape.split_batches);
    for (uint32_t s = 0; s < l->split_count;) {
        uint32_t run = 1;
        while (s + run < l->split_count && l->done[s + run] == l->done[s]) {
            run++;
        }
        buf_printf(out, "%s[%u,%u]", s == 0 ? "" : ",", l->done[s], run);
        s += run;
    }
    buf_add_str(out, "]}");
}

static int read_done(const struct json_t *runs, size_t count, struct ledger *l, struct err *err)
{
    uint32_t at = 0;
    for (size_t i = 0; i < count; i++) {
        const struct json_t *run = json_doc_item(runs, i);
        uint64_t done;
        uint64_t repeat;
        if (json_doc_count(run) != 2 || !json_doc_item_u64(run, 0, &done) ||
            !json_doc_item_u64(run, 1, &repeat)) {
            return err_set(err, ERR_CORRUPT, "done[%zu]: a pair of whole numbers is expected", i);
        }
        if (repeat == 0 || repeat > l->split_count - at) {
            return err_set(err, ERR_CORRUPT, "done[%zu]: %" PRIu64 " splits from split %u of %u", i,
                           repeat, at, l->split_count);
        }
        for (uint64_t k = 0; k < repeat; k++, at++) {
            if (done > ledger_shape_split_batches(&l->shape, at)) {
                return err_set(err, ERR_CORRUPT,
                               "done[%zu]: %" PRIu64 " batches of split %u, which has %u", i, done,
                               at, ledger_shape_split_batches(&l->shape, at));
            }
            l->done[at] = (uint32_t)done;
        }
    }
    if (at != l->split_count) {
        return err_set(err, ERR_CORRUPT, "done: %u splits, of %u", at, l->split_count);
    }
    return 0;
}

int ledger_json_read(const struct json_t *object, struct ledger *l, struct err *err)
{
    struct ledger_shape shape = {0};
    uint64_t epoch = 0;
    uint64_t batch = 0;
    uint64_t split = 0;
    const struct json_t *runs = NULL;
    size_t count = 0;
    int rc = json_doc_u64(object, "epoch", INT64_MAX, &epoch, err);
    if (rc == 0) {
        rc = json_doc_u64(object, "records", INT64_MAX, &shape.records, err);
    }
    if (rc == 0) {
        rc = json_doc_u64(object, "batch_records", UINT32_MAX, &batch, err);
    }
    if (rc == 0) {
        rc = json_doc_u64(object, "split_batches", UINT32_MAX, &split, err);
    }
    if (rc == 0) {
        rc = json_doc_array(object, "done", LEDGER_SPLITS_MAX, &runs, &count, err);
    }
    if (rc != 0) {
        return rc;
    }
    shape.batch_records = (uint32_t)batch;
    shape.split_batches = (uint32_t)split;
    struct ledger read = {0};
    if (ledger_init(&read, &shape, epoch, err) != 0) {
        if (err != NULL) {
            err->code = ERR_CORRUPT;
        }
        return ERR_CORRUPT;
    }
    rc = read_done(runs, count, &read, err);
    if (rc != 0) {
        ledger_release(&read);
        return rc;
    }
    *l = read;
    return 0;
}

int ledger_json_parse(const char *text, size_t n, struct ledger *l, struct err *err)
{
    struct json_t *root = NULL;
    int rc = json_doc_parse(text, n, &root, err);
    if (rc == 0) {
        rc = ledger_json_read(root, l, err);
    }
    json_doc_free(root);
    return rc;
}
