/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics batch by batch, over records that are read in blocks. */
#include "saved/saved_evaluate.h"

#include "saved/saved_batches.h"

struct evaluating {
    struct saved_model *model;
    struct saved_run *run;
    struct metrics *sums;
    struct saved_batches batches;
    const char *part;
    bool weighted;
};

static int add(void *context, const struct batch *b, struct err *err)
{
    struct evaluating *e = context;
    return saved_run_evaluate(e->run, b, e->sums, err);
}

static int visit(void *context, const struct encoder_block *part, struct err *err)
{
    struct evaluating *e = context;
    const struct dataset *block = part->data;
    const struct model *graph = saved_model_graph(e->model);
    e->weighted = dataset_info(block)->weighted;
    int rc = job_spec_check_lists(graph, block, NULL, err);
    rc = rc != 0 ? rc : job_spec_check_groups(graph, block, e->part, err);
    return rc != 0 ? rc : saved_batches_visit(&e->batches, block, err);
}

int saved_evaluate(struct saved_model *m, bool test, int threads, struct metrics *sums,
                   bool *weighted, struct err *err)
{
    const struct encoder *encoder = saved_model_encoder(m);
    struct evaluating e = {
        .model = m,
        .sums = sums,
        .batches = {.width = (size_t)shape_count(&encoder_info(encoder)->features), .take = add},
        .part = test ? "test" : "train"};
    e.batches.context = &e;
    int rc = saved_run_new(m, SAVED_BATCH, threads, &e.run, err);
    rc =
        rc != 0 ? rc : encoder_read_part(encoder, &saved_model_spec(m)->data, test, visit, &e, err);
    rc = saved_batches_end(&e.batches, rc, err);
    saved_run_free(e.run);
    *weighted = e.weighted;
    return rc;
}
