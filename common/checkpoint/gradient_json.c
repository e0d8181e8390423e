/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/gradient_json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "json/json_doc.h"
#include "json/json_write.h"

/* ---- written ---- */

/* Adds @p, which is of @v, to what is of it. */
static void add_part(const struct partition *p, const float *gradient, const double *limits,
                     struct histogram *h)
{
    struct histogram *part = mem_new(1, sizeof *part);
    histogram_add(part, limits, gradient + p->offset, (size_t)p->count);
    histogram_join(h, part);
    free(part);
}

static void format_one(const char *name, const struct histogram *h, struct buf *out)
{
    const char *before = "";
    buf_add_str(out, out->len > 1 ? ",\n" : "");
    json_add_string(out, name);
    buf_printf(out, ":{\"min\":%.17g,\"max\":%.17g,\"sum\":%.17g,\"squares\":%.17g,", h->min,
               h->max, h->sum, h->squares);
    buf_add_str(out, "\"buckets\":[");
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        if (h->buckets[i] > 0) {
            buf_printf(out, "%s[%zu,%" PRIu64 "]", before, i, h->buckets[i]);
            before = ",";
        }
    }
    buf_add_str(out, "]}");
}

void gradient_json_format(const struct plan *plan, uint32_t shard, const float *gradient,
                          struct buf *out)
{
    size_t count = 0;
    const struct partition *parts = plan_shard(plan, shard, &count);
    struct histogram *h = mem_new(1, sizeof *h);
    double *limits = mem_new(HISTOGRAM_BUCKETS, sizeof *limits);
    histogram_limits(limits);
    buf_reset(out);
    buf_add_str(out, "{");
    for (uint32_t v = 0; v < plan->variable_count; v++) {
        bool has = false;
        *h = (struct histogram){0};
        for (size_t i = 0; plan->variables[v].statistic == 0 && i < count; i++) {
            if (parts[i].variable == v) {
                add_part(&parts[i], gradient, limits, h);
                has = true;
            }
        }
        if (has) {
            format_one(plan->variables[v].name, h, out);
        }
    }
    buf_add_str(out, "}");
    free(limits);
    free(h);
}

/* ---- read ---- */

static int read_buckets(const struct json_t *list, size_t count, struct histogram *h,
                        struct err *err)
{
    for (size_t i = 0; i < count; i++) {
        const struct json_t *pair = json_doc_item(list, i);
        uint64_t bucket = 0, n = 0;
        if (json_doc_count(pair) != 2 || !json_doc_item_u64(pair, 0, &bucket) ||
            !json_doc_item_u64(pair, 1, &n) || bucket >= HISTOGRAM_BUCKETS ||
            n > INT64_MAX - h->count) {
            return err_set(err, ERR_CORRUPT, "buckets[%zu]: a bucket and its count are expected",
                           i);
        }
        h->buckets[bucket] += n;
        h->count += n;
    }
    return 0;
}

static int read_one(const struct json_t *value, struct histogram *h, struct err *err)
{
    const struct json_t *buckets = NULL;
    size_t count = 0;
    if (!json_doc_number(json_doc_member(value, "min"), &h->min) ||
        !json_doc_number(json_doc_member(value, "max"), &h->max) ||
        !json_doc_number(json_doc_member(value, "sum"), &h->sum) ||
        !json_doc_number(json_doc_member(value, "squares"), &h->squares)) {
        return err_set(err, ERR_CORRUPT, "min, max, sum and squares are expected");
    }
    int rc = json_doc_array(value, "buckets", HISTOGRAM_BUCKETS, &buckets, &count, err);
    return rc != 0 ? rc : read_buckets(buckets, count, h, err);
}

static size_t find(const struct variable_spec *variables, size_t count, const char *name)
{
    size_t i = 0;
    while (i < count && strcmp(variables[i].name, name) != 0) {
        i++;
    }
    return i;
}

int gradient_json_add(const char *text, const struct variable_spec *variables, size_t count,
                      struct histogram *out, struct err *err)
{
    struct json_t *root = NULL;
    const struct json_t *value = NULL;
    void *at = NULL;
    struct histogram *h = mem_new(1, sizeof *h);
    int rc = json_doc_parse(text, strlen(text), &root, err);
    for (const char *name; rc == 0 && (name = json_doc_next(root, &at, &value)) != NULL;) {
        const size_t i = find(variables, count, name);
        *h = (struct histogram){0};
        rc = i == count ? err_set(err, ERR_CORRUPT, "no such variable") : read_one(value, h, err);
        if (rc == 0) {
            histogram_join(&out[i], h);
        } else {
            (void)err_wrap(err, "%.64s", name);
        }
    }
    json_doc_free(root);
    free(h);
    return rc;
}
