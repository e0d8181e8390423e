/* SPDX-License-Identifier: Apache-2.0 */
/* Shards that begin with a checkpoint, on other numbers of servers than wrote it; over real gRPC.
 */
#include "ps_rig.h"

#include "base/text.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/shard_file.h"
#include "ps/rpc/ps_shell.h"

static char job[] = "a-1";
static char other[] = "b-2";
static float whole[3][ELEMENTS]; /* kernel, then bias */
static float part[ELEMENTS];

/* ---- shards of any plan ---- */

static void copy_parts(const struct plan *plan, uint32_t shard, float *of_shard, float *of_all,
                       bool gather)
{
    size_t count;
    const struct partition *p = plan_shard(plan, shard, &count);
    for (size_t i = 0; i < count; i++) {
        bool kernel = strcmp(plan->variables[p[i].variable].name, "dense_1.kernel") == 0;
        float *all = of_all + (kernel ? 0 : ROWS * COLUMNS) + p[i].first;
        float *mine = of_shard + p[i].offset;
        memcpy(gather ? all : mine, gather ? mine : all, p[i].count * sizeof(float));
    }
}

static void pull_all(struct ps_rig *rig, char *id, uint32_t shards, uint64_t version, float *out)
{
    struct plan plan;
    struct err err;
    ps_rig_plan(shards, &plan);
    for (uint32_t shard = 0; shard < shards; shard++) {
        Gradus__V1__PullRequest r = GRADUS__V1__PULL_REQUEST__INIT;
        Gradus__V1__ShardRef ref = ps_rig_ref(id, 1);
        Gradus__V1__Pull pull = GRADUS__V1__PULL__INIT;
        struct rpc_msg *reply = NULL;
        ref.shard = shard;
        pull.kind = GRADUS__V1__PULL__KIND__VERSION;
        pull.version = version;
        r.shard = &ref;
        r.what_case = GRADUS__V1__PULL_REQUEST__WHAT_PULL;
        r.pull = &pull;
        ps_rig_expect(ps_rig_call(rig, "Pull", &r.base, NULL, 0, &reply, &err), 0, &err, "");
        assert_true(rpc_spans_read_floats(reply->bulk, part, plan.shard_elements[shard]));
        rpc_msg_unref(reply);
        copy_parts(&plan, shard, part, out, true);
    }
    plan_release(&plan);
}

static void push_all(struct ps_rig *rig, char *id, uint32_t shards, uint64_t step)
{
    struct plan plan;
    struct err err;
    ps_rig_plan(shards, &plan);
    for (size_t i = 0; i < ELEMENTS; i++) {
        whole[2][i] = (float)((i + step * 7) % 23) - 11;
    }
    for (uint32_t shard = 0; shard < shards; shard++) {
        Gradus__V1__ShardRef ref = ps_rig_ref(id, 1);
        Gradus__V1__Push push = GRADUS__V1__PUSH__INIT;
        ref.shard = shard;
        push.step = step;
        push.replica_end = 1;
        push.examples = 10;
        copy_parts(&plan, shard, part, whole[2], false);
        ps_rig_expect(
            ps_rig_push_to(rig, &ref, &push, part, plan.shard_elements[shard], NULL, &err), 0, &err,
            "");
    }
    plan_release(&plan);
}

static void close_all(struct ps_rig *rig, char *id, uint32_t shards)
{
    struct err err;
    for (uint32_t shard = 0; shard < shards; shard++) {
        Gradus__V1__CloseShardRequest r = GRADUS__V1__CLOSE_SHARD_REQUEST__INIT;
        Gradus__V1__ShardRef ref = ps_rig_ref(id, 1);
        ref.shard = shard;
        r.shard = &ref;
        ps_rig_expect(ps_rig_call(rig, "CloseShard", &r.base, NULL, 0, NULL, &err), 0, &err, "");
    }
}

/* ---- checkpoints ---- */

#define STEPS 3

/* Open job a-1 on two shards with adam, make STEPS updates and write a-1/step-000000003, which
 * becomes b-2's: it moves there. */
static void write_checkpoint(struct ps_rig *rig)
{
    char pin_id[] = "p";
    char directory[] = "a-1/step-000000003";
    struct manifest m;
    struct plan plan;
    struct err err;
    struct ps_rig_opening o = {.job = job,
                               .rule = "adam",
                               .generation = 1,
                               .consistency = ps_rig_consistency("sync", 1),
                               .shards = 2};
    ps_rig_plan(2, &plan);
    for (o.shard = 0; o.shard < 2; o.shard++) {
        ps_rig_expect(ps_rig_open_as(rig, &o, NULL, &err), 0, &err, "");
    }
    for (uint64_t step = 0; step < STEPS; step++) {
        push_all(rig, job, 2, step);
    }
    manifest_init(&m, job, "name: demo", TRAINING_SYNC,
                  &(struct update_spec){.rule = rule_find("adam")}, &plan);
    for (uint32_t shard = 0; shard < 2; shard++) {
        Gradus__V1__PinRequest pin = GRADUS__V1__PIN_REQUEST__INIT;
        Gradus__V1__CheckpointShardRequest r = GRADUS__V1__CHECKPOINT_SHARD_REQUEST__INIT;
        Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
        struct rpc_msg *reply;
        ref.shard = shard;
        pin.shard = r.shard = &ref;
        pin.pin_id = r.pin_id = pin_id;
        pin.slots = 1;
        r.directory = directory;
        ps_rig_expect(ps_rig_call(rig, "Pin", &pin.base, NULL, 0, NULL, &err), 0, &err, "");
        ps_rig_expect(ps_rig_call(rig, "Checkpoint", &r.base, NULL, 0, &reply, &err), 0, &err, "");
        const Gradus__V1__CheckpointShardResponse *done =
            (const Gradus__V1__CheckpointShardResponse *)reply->body;
        m.shards[shard] = (struct manifest_shard){
            .version = done->version, .bytes = done->bytes, .checksum = done->checksum};
        rpc_msg_unref(reply);
    }
    char *path = mem_printf("%s/%s", rig->dir, directory);
    ps_rig_expect(manifest_write(path, &m, &err), 0, &err, "");
    free(path);
    char *from = mem_printf("%s/%s", rig->dir, job), *to = mem_printf("%s/%s", rig->dir, other);
    assert_int_equal(rename(from, to), 0);
    free(from);
    free(to);
    manifest_release(&m);
    plan_release(&plan);
}

static struct ps_rig_opening restoring(char *directory)
{
    return (struct ps_rig_opening){.job = other,
                                   .rule = "adam",
                                   .generation = 1,
                                   .consistency = ps_rig_consistency("sync", 1),
                                   .version = STEPS,
                                   .restore = directory,
                                   .epoch = 1,
                                   .done = {2, 1, 0}};
}

/* Two shards become one, and it goes on with the same bits: the slots are there, too. */
static void test_restore(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct err err;
    struct rpc_msg *reply;
    char directory[] = "b-2/step-000000003";
    ps_rig_start(&rig, 0);
    write_checkpoint(&rig);
    push_all(&rig, job, 2, STEPS);
    pull_all(&rig, job, 2, STEPS + 1, whole[0]);
    close_all(&rig, job, 2);
    struct ps_rig_opening o = restoring(directory);
    ps_rig_expect(ps_rig_open_as(&rig, &o, &reply, &err), 0, &err, "");
    const Gradus__V1__ShardState *m = (const Gradus__V1__ShardState *)reply->body;
    assert_int_equal(m->version, STEPS);
    assert_int_equal(m->elements, ELEMENTS);
    assert_int_equal(m->examples, 50 + 20 + 10);
    assert_int_equal(m->pushes, 0);
    rpc_msg_unref(reply);
    push_all(&rig, other, 1, STEPS);
    pull_all(&rig, other, 1, STEPS + 1, whole[1]);
    assert_memory_equal(whole[0], whole[1], sizeof whole[0]);
    ps_rig_expect(ps_rig_open_as(&rig, &o, &reply, &err), 0, &err, ""); /* what it is by now */
    m = (const Gradus__V1__ShardState *)reply->body;
    assert_int_equal(m->version, STEPS + 1);
    assert_int_equal(m->examples, 90);
    assert_int_equal(m->pushes, 1);
    rpc_msg_unref(reply);
    ps_rig_stop(&rig);
}

static void flip_last_byte(const char *path)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, -1, SEEK_END), 0);
    int byte = fgetc(f);
    assert_int_equal(fseek(f, -1, SEEK_END), 0);
    assert_int_equal(fputc(byte ^ 1, f), byte ^ 1);
    assert_int_equal(fclose(f), 0);
}

static void test_a_checkpoint_that_cannot_be_restored(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct err err;
    char directory[] = "b-2/step-000000003";
    char nowhere[] = "b-2/step-000000004";
    char *outside[] = {(char[]){"../x"},
                       (char[]){"/tmp/x"},
                       (char[]){"b-2/../a-1/step-000000003"},
                       (char[]){"b-2/"},
                       (char[]){"a-1/step-000000003"},
                       (char[]){"b-2/step-000000003/.."}};
    ps_rig_start(&rig, 0);
    write_checkpoint(&rig);
    close_all(&rig, job, 2);
    struct ps_rig_opening o = restoring(nowhere);
    ps_rig_expect(ps_rig_open_as(&rig, &o, NULL, &err), ERR_NOT_FOUND, &err,
                  "job b-2 shard 0: restore b-2/step-000000004: ");
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
        o.restore = outside[i];
        ps_rig_expect(ps_rig_open_as(&rig, &o, NULL, &err), ERR_INVALID, &err,
                      "job b-2 shard 0: restore: directory '");
    }
    o.restore = directory;
    o.rule = "sgd";
    ps_rig_expect(ps_rig_open_as(&rig, &o, NULL, &err), ERR_INVALID, &err,
                  "of rule adam, sgd is wanted");
    o.rule = "adam";
    char *path = mem_printf("%s/%s/shard-1-of-2.safetensors", rig.dir, directory);
    flip_last_byte(path);
    ps_rig_expect(ps_rig_open_as(&rig, &o, NULL, &err), ERR_CORRUPT, &err,
                  "shard-1-of-2.safetensors");
    assert_int_equal(unlink(path), 0);
    ps_rig_expect(ps_rig_open_as(&rig, &o, NULL, &err), ERR_NOT_FOUND, &err,
                  "shard-1-of-2.safetensors");
    free(path);
    assert_int_equal(atomic_load(&rig.ps->budget.bytes), 0);
    o.restore = NULL;
    ps_rig_expect(ps_rig_open_as(&rig, &o, NULL, &err), 0, &err, "");
    ps_rig_stop(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_restore),
        cmocka_unit_test(test_a_checkpoint_that_cannot_be_restored),
    };
    return cmocka_run_group_tests(tests, ps_rig_setup, ps_rig_teardown);
}
