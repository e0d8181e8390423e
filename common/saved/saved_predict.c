/* SPDX-License-Identifier: Apache-2.0 */
/* Answers batch by batch. */
#include "saved/saved_predict.h"

#include <stdlib.h>

#include "base/mem.h"
#include "saved/saved_batches.h"

struct predicting {
    struct saved_run *run;
    float *answers;
    saved_predict_take *take;
    void *context;
};

static int answer(void *context, const struct batch *b, struct err *err)
{
    struct predicting *p = context;
    int rc = saved_run_answer(p->run, b, p->answers, err);
    return rc != 0 ? rc : p->take(p->context, p->answers, b->count, err);
}

int saved_predict(struct saved_model *m, const struct encoder_files *files, int threads,
                  saved_predict_take *take, void *context, struct err *err)
{
    const struct encoder *e = saved_model_encoder(m);
    struct predicting p = {.take = take, .context = context};
    struct saved_batches batches = {
        .width = (size_t)shape_count(&encoder_info(e)->features), .take = answer, .context = &p};
    p.answers = mem_new(SAVED_BATCH * saved_model_width(m), sizeof *p.answers);
    int rc = saved_run_new(m, SAVED_BATCH, threads, &p.run, err);
    rc = rc != 0 ? rc : encoder_read(e, files, saved_batches_visit, &batches, err);
    rc = saved_batches_end(&batches, rc, err);
    saved_run_free(p.run);
    free(p.answers);
    return rc;
}
