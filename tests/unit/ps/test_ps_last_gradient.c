/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient of the update that made a version, as the checkpoint of that version tells of it: on
 * any number of shards, of jobs that want it, over real gRPC. */
#include "ps_rig.h"

#include "checkpoint/checkpoint.h"
#include "ps/rpc/ps_shell.h"

static char job[] = "a-1", pin_id[] = "p", directory[] = "a-1/step-000000003";
static float gradients[2][ELEMENTS]; /* of two replicas: kernel, then bias */
static float part[ELEMENTS];
static struct histogram told[2], wanted[2];

struct wants {
    const char *mode, *rule, *training;
    uint32_t replicas, shards;
    uint64_t memory;
};

static void open_all(struct ps_rig *rig, const struct wants *w)
{
    struct err err;
    ps_rig_start(rig, w->memory);
    struct ps_rig_opening o = {.job = job,
                               .rule = w->rule,
                               .training = w->training,
                               .generation = 1,
                               .consistency = ps_rig_consistency(w->mode, w->replicas),
                               .shards = w->shards};
    for (o.shard = 0; o.shard < w->shards; o.shard++) {
        ps_rig_expect(ps_rig_open_as(rig, &o, NULL, &err), 0, &err, "");
    }
}

/* @of of replica @r at @step, of whole variables. */
static void make_gradient(uint64_t step, uint32_t r, float *of)
{
    for (size_t i = 0; i < ELEMENTS; i++) {
        of[i] = ((float)((i * (r + 3) + step * 7) % 101) - 50) / 64;
    }
}

static void push_all(struct ps_rig *rig, const struct wants *w, uint64_t step)
{
    struct plan plan;
    struct err err;
    ps_rig_plan(w->shards, &plan);
    for (uint32_t r = 0; r < w->replicas; r++) {
        make_gradient(step, r, gradients[r]);
        for (uint32_t shard = 0; shard < w->shards; shard++) {
            Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
            Gradus__V1__Push push = GRADUS__V1__PUSH__INIT;
            size_t count;
            const struct partition *p = plan_shard(&plan, shard, &count);
            for (size_t i = 0; i < count; i++) {
                const bool kernel = p[i].variable == 0;
                memcpy(part + p[i].offset,
                       gradients[r] + (kernel ? 0 : ROWS * COLUMNS) + p[i].first,
                       p[i].count * sizeof(float));
            }
            ref.shard = shard;
            push.step = step;
            push.split = 0;
            push.batch = (uint32_t)step;
            push.replica_first = r;
            push.replica_end = r + 1;
            push.examples = 10;
            ps_rig_expect(
                ps_rig_push_to(rig, &ref, &push, part, plan.shard_elements[shard], NULL, &err), 0,
                &err, "");
        }
    }
    plan_release(&plan);
}

static bool pins_ask;

static void pin_all(struct ps_rig *rig, const struct wants *w, const char *method)
{
    struct err err;
    for (uint32_t shard = 0; shard < w->shards; shard++) {
        Gradus__V1__PinRequest pin = GRADUS__V1__PIN_REQUEST__INIT;
        Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
        ref.shard = shard;
        pin.shard = &ref;
        pin.pin_id = pin_id;
        pin.slots = 1;
        pin.gradients = pins_ask;
        ps_rig_expect(ps_rig_call(rig, method, &pin.base, NULL, 0, NULL, &err), 0, &err, "");
    }
}

/* Writes the pinned version, and reads what it tells. */
static bool read_all(struct ps_rig *rig, const struct wants *w)
{
    struct manifest m;
    struct plan plan;
    struct err err;
    ps_rig_plan(w->shards, &plan);
    manifest_init(&m, job, "name: demo", TRAINING_SYNC,
                  &(struct update_spec){.rule = rule_find(w->rule)}, &plan);
    for (uint32_t shard = 0; shard < w->shards; shard++) {
        Gradus__V1__CheckpointShardRequest r = GRADUS__V1__CHECKPOINT_SHARD_REQUEST__INIT;
        Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
        struct rpc_msg *reply;
        ref.shard = shard;
        r.shard = &ref;
        r.pin_id = pin_id;
        r.directory = directory;
        ps_rig_expect(ps_rig_call(rig, "Checkpoint", &r.base, NULL, 0, &reply, &err), 0, &err, "");
        const Gradus__V1__CheckpointShardResponse *done =
            (const Gradus__V1__CheckpointShardResponse *)reply->body;
        m.shards[shard] = (struct manifest_shard){
            .version = done->version, .bytes = done->bytes, .checksum = done->checksum};
        rpc_msg_unref(reply);
    }
    char *path = mem_printf("%s/%s", rig->dir, directory);
    struct checkpoint *c = NULL;
    bool found = false;
    ps_rig_expect(manifest_write(path, &m, &err), 0, &err, "");
    ps_rig_expect(checkpoint_open(path, CHECKPOINT_FULL, &c, &err), 0, &err, "");
    ps_rig_expect(checkpoint_gradients(c, told, &found, &err), 0, &err, "");
    checkpoint_close(c);
    free(path);
    manifest_release(&m);
    plan_release(&plan);
    return found;
}

/* That is the mean of the gradients of @step, bit by bit but for the order of sums. */
static void told_of(const struct wants *w, uint64_t step)
{
    static double limits[HISTOGRAM_BUCKETS];
    const float scale = 1.0F / (float)(10 * w->replicas);
    make_gradient(step, 0, gradients[0]);
    make_gradient(step, 1, gradients[1]);
    for (size_t i = 0; i < ELEMENTS; i++) {
        part[i] = (w->replicas == 1 ? gradients[0][i] : gradients[0][i] + gradients[1][i]) * scale;
    }
    histogram_limits(limits);
    for (size_t v = 0; v < 2; v++) {
        wanted[v] = (struct histogram){0};
        histogram_add(&wanted[v], limits, part + v * ROWS * COLUMNS,
                      v == 0 ? ROWS * COLUMNS : COLUMNS);
        assert_true(told[v].count == wanted[v].count && told[v].min == wanted[v].min);
        assert_true(told[v].max == wanted[v].max);
        assert_true(told[v].sum - wanted[v].sum < 1e-6 && wanted[v].sum - told[v].sum < 1e-6);
        assert_true(told[v].squares / wanted[v].squares - 1 < 1e-9);
        assert_true(wanted[v].squares / told[v].squares - 1 < 1e-9);
        assert_memory_equal(told[v].buckets, wanted[v].buckets, sizeof told[v].buckets);
    }
}

static void stop(struct ps_rig *rig, const struct wants *w)
{
    struct err err;
    for (uint32_t shard = 0; shard < w->shards; shard++) {
        Gradus__V1__CloseShardRequest r = GRADUS__V1__CLOSE_SHARD_REQUEST__INIT;
        Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
        ref.shard = shard;
        r.shard = &ref;
        ps_rig_expect(ps_rig_call(rig, "CloseShard", &r.base, NULL, 0, NULL, &err), 0, &err, "");
    }
    assert_int_equal(atomic_load(&rig->ps->budget.bytes), 0);
    ps_rig_stop(rig);
}

#define ASKED ", tensorboard_histograms: true"

/* Of the version that was pinned, whatever was applied since. */
static void it_is_that_of_the_pinned_version(void **state)
{
    (void)state;
    const struct wants all[] = {
        {"sync", "adam", ASKED, 2, 1, 0},
        {"sync", "adam", ASKED, 2, 2, 0},
        {"sync", "sgd", ASKED, 1, 2, 0},
        {"async", "sgd", ASKED, 1, 1, 0},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct ps_rig rig;
        open_all(&rig, &all[i]);
        push_all(&rig, &all[i], 0);
        push_all(&rig, &all[i], 1);
        pin_all(&rig, &all[i], "Pin");
        if (all[i].replicas == 2 || all[i].shards == 2) { /* there are two batches of async here */
            push_all(&rig, &all[i], 2);
        }
        assert_true(read_all(&rig, &all[i]));
        told_of(&all[i], 1);
        pin_all(&rig, &all[i], "Unpin");
        stop(&rig, &all[i]);
    }
}

static void none_is_told_of(void **state)
{
    (void)state;
    const uint64_t least = 4 * (ELEMENTS + 4096) * sizeof(float);
    const struct wants all[] = {
        {"sync", "sgd", NULL, 1, 1, 0},      /* nobody asked */
        {"sync", "sgd", ASKED, 1, 1, 0},     /* nothing was pushed */
        {"sync", "sgd", ASKED, 1, 1, least}, /* there is no memory for it */
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct ps_rig rig;
        open_all(&rig, &all[i]);
        if (i != 1) {
            push_all(&rig, &all[i], 0);
        }
        pin_all(&rig, &all[i], "Pin");
        assert_false(read_all(&rig, &all[i]));
        pin_all(&rig, &all[i], "Unpin");
        stop(&rig, &all[i]);
    }
}

/* A job that is changed while it runs: from the first pin that asks for it on. */
static void a_pin_may_ask(void **state)
{
    (void)state;
    const struct wants w = {"sync", "adam", NULL, 2, 2, 0};
    struct ps_rig rig;
    open_all(&rig, &w);
    push_all(&rig, &w, 0);
    pins_ask = true;
    pin_all(&rig, &w, "Pin");
    pins_ask = false;
    assert_false(read_all(&rig, &w));
    push_all(&rig, &w, 1);
    pin_all(&rig, &w, "Unpin");
    pin_id[0]++; /* an id is good for one pin */
    pin_all(&rig, &w, "Pin");
    assert_true(read_all(&rig, &w));
    told_of(&w, 1);
    pin_all(&rig, &w, "Unpin");
    stop(&rig, &w);
}

/* Memory is taken by who asks alone, and for two gradients. */
static void it_costs_two_gradients(void **state)
{
    (void)state;
    const struct wants none = {"sync", "sgd", NULL, 1, 1, 0},
                       asks = {"sync", "sgd", ASKED, 1, 1, 0};
    const struct wants *const both[] = {&none, &asks};
    uint64_t bytes[2];
    for (size_t i = 0; i < 2; i++) {
        struct ps_rig rig;
        open_all(&rig, both[i]);
        for (uint64_t step = 0; step < 3; step++) {
            push_all(&rig, both[i], step);
        }
        bytes[i] = atomic_load(&rig.ps->budget.bytes);
        stop(&rig, both[i]);
    }
    assert_int_equal(bytes[1] - bytes[0], 2 * floats_bytes_max(ELEMENTS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_that_of_the_pinned_version),
        cmocka_unit_test(none_is_told_of),
        cmocka_unit_test(a_pin_may_ask),
        cmocka_unit_test(it_costs_two_gradients),
    };
    return cmocka_run_group_tests(tests, ps_rig_setup, ps_rig_teardown);
}
