/* SPDX-License-Identifier: Apache-2.0 */
/* What a reader of a job's parameters has to know. A reader reads versions as a worker does, and is
 * none: nothing waits for it, and it changes nothing. */
#include "base/mem.h"
#include "master/core/core.h"
#include "master/core/job_follow.h"

static int check(const struct job *j, struct err *err)
{
    const char *id = j->record.id;
    if (j->record.state != JOB_RUNNING || j->phase < PHASE_REGROUP || !j->has_plan) {
        return err_set(err, ERR_STATE, "job %s is %s; it has no parameters to read now", id,
                       job_state_name(j->record.state));
    }
    if (job_spec_is_program(&j->spec)) {
        return err_set(err, ERR_STATE,
                       "the model of job %s is a program of its workers, which alone computes it",
                       id);
    }
    return 0;
}

int master_follow(struct master *m, const char *id, struct master_follow *out, struct err *err)
{
    struct job *j = job_find(m, id);
    if (j == NULL) {
        return err_set(err, ERR_NOT_FOUND, "no job %.128s runs", id);
    }
    int rc = check(j, err);
    if (rc != 0) {
        return rc;
    }
    *out = (struct master_follow){.job = &j->record,
                                  .plan = &j->plan,
                                  .encoding = j->encoding,
                                  .model_file = data_model_file(j),
                                  .fence = fence_of(j, 0),
                                  .sync = job_is_sync(j),
                                  .version_shift = j->version_shift,
                                  .step = train_step(j),
                                  .average = j->spec.update.evaluate_average,
                                  .shard_count = j->shard_count};
    out->shards = mem_new(j->shard_count + 1, sizeof *out->shards);
    for (size_t i = 0; i < j->shard_count; i++) {
        const struct node *n = j->shards[i].node;
        out->shards[i] =
            (struct master_shard_location){(uint32_t)i, n->id, n->address, j->shards[i].opening};
    }
    return 0;
}
