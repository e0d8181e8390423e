/* SPDX-License-Identifier: Apache-2.0 */
/* A copy of slots for a checkpoint is made in parts; here of a shard that needs two of them. */
#define ROWS 75000 /* × 60 are more than 4,194,304 floats, the size of a part */
#include "ps_rig.h"

#include "checkpoint/shard_file.h"

/* In place of the C library's: tens of megabytes are nothing to wait for a disk with. */
int fsync(int fd)
{
    (void)fd;
    return 0;
}

static char job[] = "a-1", id[] = "pin", directory[] = "a-1/step-000000001";

static int pin(struct ps_rig *rig, struct err *err)
{
    Gradus__V1__PinRequest r = GRADUS__V1__PIN_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
    r.shard = &ref;
    r.pin_id = id;
    r.slots = true;
    return ps_rig_call(rig, "Pin", &r.base, NULL, 0, NULL, err);
}

static int checkpoint(struct ps_rig *rig, struct err *err)
{
    Gradus__V1__CheckpointShardRequest r = GRADUS__V1__CHECKPOINT_SHARD_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
    r.shard = &ref;
    r.pin_id = id;
    r.directory = directory;
    return ps_rig_call(rig, "Checkpoint", &r.base, NULL, 0, NULL, err);
}

static void read_slot(const struct ps_rig *rig, const char *name, float *out, size_t floats)
{
    struct err err;
    struct shard_file file;
    char *path = mem_printf("%s/%s/shard-0-of-1.safetensors", rig->dir, directory);
    ps_rig_expect(shard_file_open(&file, path, &err), 0, &err, "");
    const struct safetensors_tensor *slot = safetensors_find(&file.file, name);
    assert_non_null(slot);
    ps_rig_expect(safetensors_read(&file.file, slot, 0, out, floats * sizeof *out, &err), 0, &err,
                  "");
    shard_file_close(&file);
    free(path);
}

/* After one step the momentum is the gradient: here the same number all over but in two places of
 * the second part. */
static void every_part_is_copied(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct err err;
    const size_t kernel = (size_t)ROWS * COLUMNS;
    float *gradient = mem_new(ELEMENTS, sizeof *gradient), *got = mem_new(kernel, sizeof *got);
    for (size_t i = 0; i < ELEMENTS; i++) {
        gradient[i] = i < ELEMENTS - 1000 ? 2.0F : 3.0F;
    }
    ps_rig_start(&rig, 0);
    ps_rig_expect(ps_rig_open(&rig, job, "sync", "momentum", 1, 1, &err), 0, &err, "");
    ps_rig_expect(ps_rig_push(&rig, job, 0, 0, 1, gradient, ELEMENTS, 1, NULL, &err), 0, &err, "");
    ps_rig_expect(pin(&rig, &err), 0, &err, "");
    ps_rig_expect(checkpoint(&rig, &err), 0, &err, "");
    read_slot(&rig, "dense_1.kernel[0:75000]#momentum", got, kernel);
    assert_true(got[0] == 2.0F && got[4194303] == 2.0F && got[4194304] == 2.0F);
    assert_true(got[kernel - 1100] == 2.0F && got[kernel - 1] == 3.0F);
    ps_rig_stop(&rig);
    free(gradient);
    free(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part_is_copied),
    };
    return cmocka_run_group_tests(tests, ps_rig_setup, ps_rig_teardown);
}
