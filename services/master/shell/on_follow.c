/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs.Follow: where a reader finds the parameters of a job that runs, and the secret of readers,
 * with which the shards let them read and nothing else. */
#include <stdlib.h>

#include "auth/shard_key.h"
#include "base/mem.h"
#include "gradus/v1/jobs.pb-c.h"
#include "master/core/job_follow.h"
#include "master/shell/shell.h"
#include "os/chrono.h"
#include "wire/wire.h"

static char *text_of(const char *text)
{
    return (char *)(uintptr_t)(text == NULL ? "" : text);
}

static void answer(struct request *r, const struct master_follow *f)
{
    Gradus__V1__FollowResponse m = GRADUS__V1__FOLLOW_RESPONSE__INIT;
    Gradus__V1__Plan plan;
    struct fence fence = f->fence;
    Gradus__V1__ShardLocation *shards = mem_new(f->shard_count + 1, sizeof *shards);
    m.shards = mem_new(f->shard_count + 1, sizeof *m.shards);
    m.n_shards = f->shard_count;
    for (size_t i = 0; i < f->shard_count; i++) {
        gradus__v1__shard_location__init(&shards[i]);
        shards[i].shard = f->shards[i].shard;
        shards[i].node = text_of(f->shards[i].node);
        shards[i].address = text_of(f->shards[i].address);
        shards[i].opening = f->shards[i].opening;
        m.shards[i] = &shards[i];
    }
    wire_plan_to_proto(f->plan, &plan);
    shard_worker_secret(f->fence.secret, SHARD_READER, fence.secret);
    m.job = text_of(f->job->id);
    m.text = text_of(f->job->text);
    m.encoding = text_of(f->encoding);
    m.plan = &plan;
    m.generation = f->job->generation;
    m.secret = wire_secret_to_proto(&fence);
    m.sync = f->sync;
    m.version_shift = f->version_shift;
    m.step = f->step;
    m.average = f->average;
    m.model_file = f->model_file;
    request_reply(r, &m.base);
    wire_plan_release(&plan);
    free(m.shards);
    free(shards);
}

static void run_follow(struct request *r)
{
    const Gradus__V1__FollowRequest *q = (const Gradus__V1__FollowRequest *)r->msg->body;
    struct master_follow f = {0};
    struct err err = {0};
    (void)master_job(r->shell->master, q->job, chrono_now_ms()); /* as of now */
    if (master_follow(r->shell->master, q->job, &f, &err) != 0) {
        request_fail(r, &err);
        return;
    }
    answer(r, &f);
    free(f.shards);
}

void on_follow_call(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    request_begin(service, call, msg, run_follow);
}
