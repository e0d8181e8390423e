/* SPDX-License-Identifier: Apache-2.0 */
/* Answers batch by batch. */
#include "saved/saved_predict.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "saved/saved_batches.h"

struct predicting {
    struct saved_batches batches;
    struct saved_run *run;
    float *answers;
    struct buf ids; /* of records without an answer yet; those of a block follow each other */
    size_t ids_at;
    saved_predict_take *take;
    void *context;
};

static int answer(void *context, const struct batch *b, struct err *err)
{
    struct predicting *p = context;
    int rc = saved_run_answer(p->run, b, p->answers, err);
    const char *ids = p->ids.len > 0 ? p->ids.data + p->ids_at : NULL;
    rc = rc != 0 ? rc : p->take(p->context, p->answers, ids, b->count, err);
    for (size_t i = 0; ids != NULL && i < b->count; i++) {
        p->ids_at += strlen(p->ids.data + p->ids_at) + 1;
    }
    return rc;
}

/* Adds ids behind those that are left of the block before. */
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

static int visit(void *context, const struct encoder_block *block, struct err *err)
{
    struct predicting *p = context;
    if (block->ids != NULL) {
        add_ids(p, block->ids, dataset_info(block->data)->records);
    }
    return saved_batches_visit(&p->batches, block->data, err);
}

int saved_predict(struct saved_model *m, const struct encoder_files *files, int threads,
                  saved_predict_take *take, void *context, struct encoder_left *left,
                  struct err *err)
{
    const struct encoder *e = saved_model_encoder(m);
    struct predicting p = {
        .batches = {.width = (size_t)shape_count(&encoder_info(e)->features), .take = answer},
        .take = take,
        .context = context};
    p.batches.context = &p;
    p.answers = mem_new(SAVED_BATCH * saved_model_width(m), sizeof *p.answers);
    int rc = saved_run_new(m, SAVED_BATCH, threads, &p.run, err);
    rc = rc != 0 ? rc : encoder_read(e, files, visit, &p, left, err);
    rc = saved_batches_end(&p.batches, rc, err);
    saved_run_free(p.run);
    buf_release(&p.ids);
    free(p.answers);
    return rc;
}
