/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over whole variables as a worker carries them: joined from what the shards say, sent on as
 * they are, and the norms of gradients of which each shard gets a part. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "worker/job/worker_job_sums.h"

#define SHARDS 2
#define INPUTS 4
#define UNITS 3
#define GAP 5 /* between two variables in the flat array of a gradient */

static const char TEXT[] =
    "name: demo\ndata: {train: {file: a.csv}}\n"
    "model: {layers: [{dense: {units: 3}}],"
    " loss: softmax_cross_entropy}\n"
    "update: {rule: sgd, clip_global_norm: 1}\ntraining: {batch_size: 5, epochs: 2}\n";

static char NONSENSE[] = "update:\n  rule: nothing\n";
static char PLAIN[] = "update:\n  rule: sgd\n";
static char CLIPS[] = "update:\n  rule: sgd\n  clip_norm: 1\n";
static char CUTS[] = "update:\n  rule: sgd\n  clip_value: 1\n  clip_norm: 1\n";

static struct worker_model model; /* only what sums look at */
static struct job_spec *const spec = &model.spec;
static uint64_t offsets[2] = {0, (uint64_t)INPUTS *UNITS + GAP};
static struct variable_spec *variables;
static struct plan plan, alone; /* on several shards, and on one */

static int set_up(void **state)
{
    (void)state;
    struct diags diags = {0};
    struct err err = {0};
    const struct shape input = {1, {INPUTS}};
    assert_int_equal(job_spec_parse(TEXT, strlen(TEXT), "job", NULL, 0, spec, &diags), 0);
    struct model *layers;
    assert_int_equal(model_new(&spec->model, &input, NULL, UNITS, &layers, &err), 0);
    model.variable_count = model_variable_count(layers);
    assert_int_equal(model.variable_count, 2);
    model.variables = variables = model_variables(layers);
    model_free(layers);
    model.offsets = offsets;
    const struct cluster_spec cluster = {
        .ps = SHARDS, .partitioner = PARTITIONER_FIXED, .partitions = SHARDS};
    const struct cluster_spec one = {.ps = 1, .partitioner = PARTITIONER_FIXED, .partitions = 1};
    assert_int_equal(plan_make(variables, 2, &cluster, &plan, NULL), 0);
    assert_int_equal(plan_make(variables, 2, &one, &alone, NULL), 0);
    assert_int_equal(plan.shard_count, SHARDS);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    plan_release(&plan);
    plan_release(&alone);
    free(variables);
    job_spec_release(spec);
    return 0;
}

static void begin(struct worker_job_sums *s)
{
    struct err err = {0};
    *s = (struct worker_job_sums){0};
    if (worker_job_sums_init(s, &plan, spec, NULL, 0, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    assert_int_equal(s->era_count, 1);
    assert_int_equal(s->eras[0].rounds, 1);
    assert_int_equal(s->variable_count, 2);
}

/* What @shard says of a gradient that is 1, 2, 3 … there. */
static void reduce(uint32_t shard, struct buf *out)
{
    struct update *u;
    float in[INPUTS * UNITS + UNITS] = {0}, gradient[INPUTS * UNITS + UNITS];
    for (size_t i = 0; i < sizeof gradient / sizeof *gradient; i++) {
        gradient[i] = (float)(i + 1);
    }
    assert_int_equal(plan_update_shard(&plan, &spec->update, shard, &u, NULL), 0);
    const struct update_step step = {.lr_scale = 1, .in = in, .gradient = gradient, .examples = 2};
    update_begin(u, &step);
    update_reduce(u, 0, out);
    update_free(u);
}

static void take(struct worker_job_sums *s, uint32_t shard, enum exchange_kind kind,
                 const struct buf *sums)
{
    const struct ps_answer answer = {
        .shard = shard, .answer = {.kind = kind, .sums = {.data = sums->data, .bytes = sums->len}}};
    worker_job_sums_take(s, &answer);
}

static void attach_totals(struct worker_job_sums *s, uint32_t round, const void *data, size_t bytes)
{
    struct ps_client_request r = {.ask = {.kind = EXCHANGE_TOTALS, .totals.of.round = round}};
    struct err err;
    assert_int_equal(worker_job_sums_attach(s, &model, &r, &err), 0);
    assert_int_equal(r.ask.totals.bytes, bytes);
    assert_memory_equal(r.ask.totals.data, data, bytes);
    assert_null(r.norms);
}

static void the_sums_of_all_shards_are_joined(void **state)
{
    (void)state;
    struct worker_job_sums s;
    struct buf sums[SHARDS] = {{0}}, totals = {0}, junk = {0};
    struct err err = {0};
    const void *parts[SHARDS];
    size_t bytes[SHARDS];
    begin(&s);
    buf_add_str(&junk, "junk");
    for (uint32_t i = 0; i < SHARDS; i++) {
        reduce(i, &sums[i]);
        parts[i] = sums[i].data;
        bytes[i] = sums[i].len;
        take(&s, i, EXCHANGE_SUMS, &junk); /* an old answer: the last one counts */
        take(&s, i, EXCHANGE_SUMS, &sums[i]);
        take(&s, i, EXCHANGE_TRAIN, &junk); /* has none */
    }
    take(&s, SHARDS, EXCHANGE_SUMS, &junk); /* there is no such shard */
    assert_int_equal(update_join(parts, bytes, SHARDS, &totals, &err), 0);
    struct worker_do_join join = {.step = 7, .round = 0};
    assert_int_equal(worker_job_sums_join(&s, &join, &err), 0);
    attach_totals(&s, 0, totals.data, totals.len);

    /* A shard that knows the totals says these. */
    join = (struct worker_do_join){.round = 1, .known = true, .shard = 1};
    assert_int_equal(worker_job_sums_join(&s, &join, &err), 0);
    attach_totals(&s, 1, sums[1].data, sums[1].len);
    attach_totals(&s, 0, totals.data, totals.len);

    take(&s, 1, EXCHANGE_SUMS, &junk);
    join = (struct worker_do_join){.step = 7, .round = 2};
    assert_int_equal(worker_job_sums_join(&s, &join, &err), ERR_INVALID);
    assert_string_equal(
        err.msg, "sums of round 2 of step 7: join sums: message 1: 4 bytes that are no sums");
    worker_job_sums_release(&s);
    buf_release(&junk);
    buf_release(&totals);
    for (uint32_t i = 0; i < SHARDS; i++) {
        buf_release(&sums[i]);
    }
}

/* A push of batches, as async jobs make it. */
static struct ps_client_request push(const float *gradient, uint32_t buffer)
{
    return (struct ps_client_request){
        .ask = {.has_push = true, .push.examples = 2}, .gradient = gradient, .gradient_id = buffer};
}

static void attach_norms(struct worker_job_sums *s, struct ps_client_request *r, double first,
                         double second)
{
    struct err err = {0};
    assert_true(worker_job_sums_needs_norms(s, r));
    r->norms = NULL;
    assert_int_equal(worker_job_sums_attach(s, &model, r, &err), 0);
    assert_int_equal(r->norm_count, 2);
    assert_true(r->norms[0] == first && r->norms[1] == second);
}

static void norms_are_of_whole_variables(void **state)
{
    (void)state;
    struct worker_job_sums s;
    float gradient[INPUTS * UNITS + GAP + UNITS], other[INPUTS * UNITS + GAP + UNITS];
    for (size_t i = 0; i < sizeof gradient / sizeof *gradient; i++) {
        gradient[i] = i < INPUTS * UNITS ? 4 : i < offsets[1] ? 100 : 6; /* of two examples */
        other[i] = 2;
    }
    begin(&s);
    struct ps_client_request r = push(gradient, 3), of_other = push(other, 4);
    attach_norms(&s, &r, 4.0 * INPUTS * UNITS, 9.0 * UNITS); /* sums of squares of the mean */
    gradient[0] = 5;
    attach_norms(&s, &r, 4.0 * INPUTS * UNITS, 9.0 * UNITS); /* once for all shards */
    worker_job_sums_changed(&s, 4);                          /* another buffer */
    attach_norms(&s, &r, 4.0 * INPUTS * UNITS, 9.0 * UNITS);
    worker_job_sums_changed(&s, 3);
    gradient[0] = 8;
    attach_norms(&s, &r, 4.0 * (INPUTS * UNITS - 1) + 16, 9.0 * UNITS);
    attach_norms(&s, &of_other, 1.0 * INPUTS * UNITS, 1.0 * UNITS);
    attach_norms(&s, &r, 4.0 * (INPUTS * UNITS - 1) + 16, 9.0 * UNITS);
    worker_job_sums_release(&s);
    assert_null(s.norms);
}

/* Those of tables come behind those of the variables, of rows as they are clipped. */
static void norms_are_of_all_tables(void **state)
{
    (void)state;
    struct worker_job_sums s = {0};
    struct err err = {0};
    float gradient[INPUTS * UNITS + GAP + UNITS] = {0};
    float wide[] = {2, 4, 6, 8}, narrow[] = {2, 2, 8};
    uint64_t keys[] = {1, 5, 7};
    uint32_t sightings[] = {1, 1, 1};
    struct table_gradient gradients[] = {
        {.dim = 2, .n = 2, .keys = keys, .sightings = sightings, .values = wide},
        {.dim = 1, .n = 3, .keys = keys, .sightings = sightings, .values = narrow}};
    struct model_table tables[2] = {{.clip_norm = 0}, {.clip_norm = 1}};
    spec->model.tables = tables;
    spec->model.table_count = 2;
    model.row_gradients[3].tables = gradients;
    assert_int_equal(worker_job_sums_init(&s, &plan, spec, NULL, 0, &err), 0);
    struct ps_client_request r = push(gradient, 3);
    assert_int_equal(worker_job_sums_attach(&s, &model, &r, &err), 0);
    assert_int_equal(r.norm_count, 4);
    assert_true(r.norms[0] == 0 && r.norms[1] == 0);
    assert_true(r.norms[2] == 1 + 4 + 9 + 16); /* of the mean of two examples */
    assert_true(r.norms[3] == 1 + 1 + 1);      /* of which the last was 4 */
    worker_job_sums_release(&s);
    spec->model.tables = NULL;
    spec->model.table_count = 0;
    model.row_gradients[3].tables = NULL;
}

static void who_needs_none_gets_none(void **state)
{
    (void)state;
    struct worker_job_sums s;
    struct err err = {0};
    float gradient[INPUTS * UNITS + GAP + UNITS] = {0};
    struct ps_client_request r = push(gradient, 3);
    begin(&s);
    r.ask.push.replica_end = 1; /* sync: the servers exchange sums */
    assert_false(worker_job_sums_needs_norms(&s, &r));
    r = push(NULL, 3); /* no values, either */
    assert_false(worker_job_sums_needs_norms(&s, &r));
    r = push(gradient, 3);
    r.ask.has_push = false;
    assert_false(worker_job_sums_needs_norms(&s, &r));
    assert_int_equal(worker_job_sums_attach(&s, &model, &r, &err), 0);
    assert_null(r.norms);
    worker_job_sums_release(&s);

    assert_int_equal(worker_job_sums_init(&s, &alone, spec, NULL, 0, &err), 0);
    assert_int_equal(s.era_count, 0);
    r = push(gradient, 3);
    assert_false(worker_job_sums_needs_norms(&s, &r)); /* one shard has everything */
    worker_job_sums_release(&s);

    Gradus__V1__Era plain = GRADUS__V1__ERA__INIT, *const list[] = {&plain};
    plain.update = PLAIN;
    assert_int_equal(worker_job_sums_init(&s, &plan, spec, list, 1, &err), 0);
    assert_int_equal(s.eras[0].rounds, 0);
    assert_false(worker_job_sums_needs_norms(&s, &r));
    worker_job_sums_release(&s);
}

/* Clipping begins at version 10: from then on there are rounds, and pushes bring norms, which are
 * made as they were at the version that the gradient was computed on. */
static void eras_change(void **state)
{
    (void)state;
    struct worker_job_sums s = {0};
    struct err err = {0};
    float gradient[INPUTS * UNITS + GAP + UNITS] = {6};
    struct ps_client_request r = push(gradient, 3);
    Gradus__V1__Era plain = GRADUS__V1__ERA__INIT, clips = GRADUS__V1__ERA__INIT, cut = clips;
    Gradus__V1__Era *const list[] = {&plain, &clips, &cut};
    plain.update = PLAIN;
    clips.update = CLIPS;
    clips.version = 10;
    cut.update = CUTS;
    cut.version = 20;
    assert_int_equal(worker_job_sums_init(&s, &plan, spec, list, 1, &err), 0);
    assert_false(worker_job_sums_needs_norms(&s, &r));
    assert_int_equal(worker_job_sums_eras(&s, list, 3, &err), 0);
    assert_int_equal(s.era_count, 3);
    assert_true(s.eras[0].rounds == 0 && s.eras[1].rounds == 1 && s.eras[1].version == 10);
    r.ask.push.base_version = 12;
    assert_int_equal(worker_job_sums_attach(&s, &model, &r, &err), 0);
    assert_true(r.norms[0] == 9); /* the mean of two examples, squared */
    worker_job_sums_changed(&s, 3);
    r.ask.push.base_version = 20;
    assert_int_equal(worker_job_sums_attach(&s, &model, &r, &err), 0);
    assert_true(r.norms[0] == 1); /* clipped to 1 before */
    worker_job_sums_changed(&s, 3);
    r.ask.push.base_version = 0; /* in an era without norms: those of the newest */
    assert_int_equal(worker_job_sums_attach(&s, &model, &r, &err), 0);
    assert_true(r.norms[0] == 1);

    clips.version = 30; /* behind the third */
    assert_int_equal(worker_job_sums_eras(&s, list, 3, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "era 2 begins at version 20"));
    clips.update = NONSENSE;
    assert_int_equal(worker_job_sums_eras(&s, list, 2, &err), ERR_INVALID);
    assert_int_equal(s.era_count, 3);
    assert_int_equal(s.eras[1].version, 10); /* as before */
    assert_int_equal(worker_job_sums_eras(&s, list, 0, &err), 0);
    assert_int_equal(s.era_count, 3);
    worker_job_sums_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sums_of_all_shards_are_joined),
        cmocka_unit_test(norms_are_of_whole_variables),
        cmocka_unit_test(norms_are_of_all_tables),
        cmocka_unit_test(who_needs_none_gets_none),
        cmocka_unit_test(eras_change),
    };
    return cmocka_run_group_tests_name("worker_job_sums", tests, set_up, tear_down);
}
