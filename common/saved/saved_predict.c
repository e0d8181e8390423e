/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of records have other ends than batches: what is left of one waits for the next. */
#include "saved/saved_predict.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "data/batch_join.h"

struct predicting {
    struct saved_run *run;
    struct batch left; /* fewer than a batch; capacity 0: none */
    float *answers;
    struct buf ids; /* of records that have no answer yet; those of a block follow each other */
    size_t ids_at;
    size_t width; /* numbers of a record */
    saved_predict_take *take;
    void *context;
};

static int answer(struct predicting *p, const struct batch *b, struct err *err)
{
    int rc = saved_run_answer(p->run, b, p->answers, err);
    const char *ids = p->ids.len > 0 ? p->ids.data + p->ids_at : NULL;
    rc = rc != 0 ? rc : p->take(p->context, p->answers, ids, b->count, err);
    for (size_t i = 0; ids != NULL && i < b->count; i++) {
        p->ids_at += strlen(p->ids.data + p->ids_at) + 1;
    }
    return rc;
}

/* Behind those that are left of the block before. */
static void add_ids(struct predicting *p, const char *ids, uint64_t count)
{
    size_t bytes = 0;
    for (uint64_t i = 0; i < count; i++) {
        bytes += strlen(ids + bytes) + 1;
    }
    const size_t left = p->ids.len - p->ids_at;
    if (left > 0) {
        memmove(p->ids.data, p->ids.data + p->ids_at, left);
    }
    p->ids.len = left;
    p->ids_at = 0;
    buf_add(&p->ids, ids, bytes);
}

/* The next @n records of @block into @b, from @at on. */
static int read_some(const struct dataset *block, uint64_t at, size_t n, struct batch *b,
                     struct err *err)
{
    uint64_t records[SAVED_PREDICT_BATCH];
    for (size_t i = 0; i < n; i++) {
        records[i] = at + i;
    }
    return dataset_read(block, records, n, b, err);
}

static size_t most(uint64_t left, size_t room)
{
    return left < room ? (size_t)left : room;
}

static int visit(void *context, const struct encoder_block *part, struct err *err)
{
    struct predicting *p = context;
    const struct dataset *block = part->data;
    const uint64_t count = dataset_info(block)->records;
    struct batch b = {0};
    if (part->ids != NULL) {
        add_ids(p, part->ids, count);
    }
    int rc = batch_init(&b, block, SAVED_PREDICT_BATCH, err);
    for (uint64_t at = 0; rc == 0 && at < count;) {
        const size_t n = most(count - at, SAVED_PREDICT_BATCH - p->left.count);
        rc = read_some(block, at, n, &b, err);
        if (rc == 0 && p->left.capacity > 0) {
            rc = batch_append(&p->left, &b, p->width, err);
        }
        struct batch *full = p->left.capacity > 0 ? &p->left : &b;
        if (rc == 0 && full->count == SAVED_PREDICT_BATCH) {
            rc = answer(p, full, err);
            batch_release(&p->left);
        } else if (rc == 0 && full == &b) {
            p->left = b;
            b = (struct batch){0}; /* the block ends here */
        }
        at += n;
    }
    batch_release(&b);
    return rc;
}

int saved_predict(struct saved_model *m, const struct encoder_files *files, int threads,
                  saved_predict_take *take, void *context, struct encoder_left *left,
                  struct err *err)
{
    const struct encoder *e = saved_model_encoder(m);
    struct predicting p = {
        .take = take, .context = context, .width = (size_t)shape_count(&encoder_info(e)->features)};
    p.answers = mem_new(SAVED_PREDICT_BATCH * saved_model_width(m), sizeof *p.answers);
    int rc = saved_run_new(m, SAVED_PREDICT_BATCH, threads, &p.run, err);
    rc = rc != 0 ? rc : encoder_read(e, files, visit, &p, left, err);
    if (rc == 0 && p.left.count > 0) {
        rc = answer(&p, &p.left, err);
    }
    batch_release(&p.left);
    buf_release(&p.ids);
    saved_run_free(p.run);
    free(p.answers);
    return rc;
}
