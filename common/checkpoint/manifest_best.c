/* SPDX-License-Identifier: Apache-2.0 */
/* What a manifest says of the best version of its job. A job that goes back to the checkpoint goes
 * on comparing from there; a reader of the best version finds it beside the checkpoint. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/manifest.h"
#include "json/json_doc.h"
#include "json/json_write.h"

#define VALUE_DIGITS 16

static void add_number(struct buf *out, bool there, const char *key, uint64_t value)
{
    if (there) {
        buf_printf(out, ", \"%s\": %" PRIu64, key, value);
    }
}

/* The value as its bits, and once more for people. */
void manifest_best_format(const struct manifest *m, struct buf *out)
{
    const struct best *b = &m->best;
    uint64_t bits;
    if (b->count == 0 && !m->result_is_best) {
        return;
    }
    memcpy(&bits, &b->value, sizeof bits);
    buf_printf(out, "  \"best\": {\"metric\": \"%s\"", metric_kind_names[b->metric]);
    if (b->known) {
        buf_printf(out, ", \"value\": \"%016" PRIx64 "\", \"reads\": \"%.9g\"", bits, b->value);
    }
    add_number(out, b->known, "step", b->step);
    add_number(out, true, "count", b->count);
    add_number(out, true, "last", b->last);
    add_number(out, true, "without", b->without);
    add_number(out, b->stops, "stops", 1);
    add_number(out, b->kept, "kept_step", b->kept_step);
    add_number(out, m->result_is_best, "result", 1);
    buf_add_str(out, "},\n");
}

static int read_metric(const struct json_t *object, struct best *b, struct err *err)
{
    const char *name = NULL;
    int rc = json_doc_string(object, "metric", &name, err);
    for (int kind = 0; rc == 0 && kind < METRIC_KIND_COUNT; kind++) {
        if (strcmp(metric_kind_names[kind], name) == 0) {
            b->metric = (enum metric_kind)kind;
            return 0;
        }
    }
    return rc != 0 ? rc : err_set(err, ERR_CORRUPT, "best: metric: %.40s is not known", name);
}

static int read_value(const struct json_t *object, struct best *b, struct err *err)
{
    const char *digits = NULL;
    if (json_doc_string(object, "value", &digits, NULL) != 0) {
        return 0;
    }
    if (strlen(digits) != VALUE_DIGITS || strspn(digits, "0123456789abcdef") != VALUE_DIGITS) {
        return err_set(err, ERR_CORRUPT, "best: value: not %d digits", VALUE_DIGITS);
    }
    const uint64_t bits = strtoull(digits, NULL, 16);
    memcpy(&b->value, &bits, sizeof bits);
    b->known = true;
    return json_doc_u64(object, "step", INT64_MAX, &b->step, err);
}

/* Manifests of earlier versions have none. */
int manifest_best_read(const struct json_t *root, struct manifest *m, struct err *err)
{
    const struct json_t *object = NULL;
    uint64_t flag = 0;
    if (json_doc_object(root, "best", &object, NULL) != 0) {
        return 0;
    }
    struct best b = {0};
    int rc = read_metric(object, &b, err);
    rc = rc != 0 ? rc : read_value(object, &b, err);
    rc = rc != 0 ? rc : json_doc_u64(object, "count", INT64_MAX, &b.count, err);
    rc = rc != 0 ? rc : json_doc_u64(object, "last", INT64_MAX, &b.last, err);
    rc = rc != 0 ? rc : json_doc_u64(object, "without", INT64_MAX, &b.without, err);
    if (rc != 0) {
        return rc;
    }
    b.stops = json_doc_u64(object, "stops", 1, &flag, NULL) == 0 && flag == 1;
    b.kept = json_doc_u64(object, "kept_step", INT64_MAX, &b.kept_step, NULL) == 0;
    m->result_is_best = json_doc_u64(object, "result", 1, &flag, NULL) == 0 && flag == 1;
    m->best = b;
    return 0;
}
