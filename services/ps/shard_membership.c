/* Generations: who may speak from now on, and the end of a shard. */
#include <inttypes.h>

#include "ps/shard_internal.h"

static int check_membership(const struct shard *s, const struct shard_event *e, struct err *err)
{
    if (e->mode != s->mode) {
        return err_set(err, ERR_UNSUPPORTED, "the mode of a job cannot change while it runs");
    }
    if (s->mode == TRAINING_SYNC && (e->replicas == 0 || e->replicas > SHARD_REPLICAS_MAX)) {
        return err_set(err, ERR_INVALID, "%" PRIu32 " replicas; from 1 to %d", e->replicas,
                       SHARD_REPLICAS_MAX);
    }
    return shard_workers_check(e->workers, e->worker_count, err);
}

void shard_on_membership(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    int rc = 0;
    if (e->generation <= s->generation) {
        rc = shard_check_generation(s, e->generation, &out->err); /* the same: it was told before */
    } else {
        rc = check_membership(s, e, &out->err);
    }
    if (rc != 0) {
        shard_refuse(s, e->tag, out);
        return;
    }
    if (e->generation > s->generation) {
        uint64_t old = s->generation;
        s->generation = e->generation;
        (void)shard_check_generation(s, old, &out->err); /* sets the words for those that wait */
        shard_refuse_parked(s, out);
        if (s->mode == TRAINING_SYNC) {
            shard_sync_forget(s, out);
            shard_sync_resize(s, e->replicas);
        }
        shard_workers_set(s, e->workers, e->worker_count);
    }
    shard_reply_state(s, e->tag, out);
}

void shard_on_state(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    if (shard_check_generation(s, e->generation, &out->err) != 0) {
        shard_refuse(s, e->tag, out);
        return;
    }
    shard_reply_state(s, e->tag, out);
}

/* A newer generation may close: the job can end before every shard has heard of it. */
void shard_on_close(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    if (e->generation < s->generation) {
        (void)shard_check_generation(s, e->generation, &out->err);
        shard_refuse(s, e->tag, out);
        return;
    }
    (void)err_set(&out->err, ERR_NOT_FOUND, "closed");
    shard_refuse_parked(s, out);
    shard_sync_forget(s, out);
    shard_async_forget(s, out);
    shard_pins_release(s, out);
    s->closed = true;
    shard_reply_state(s, e->tag, out);
}
