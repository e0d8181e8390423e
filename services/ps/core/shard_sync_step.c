/* SPDX-License-Identifier: Apache-2.0 */
/* Sync: one step, from its beginning to the update, once everything of it is in. */
#include "base/mem.h"
#include "base/mutant.h"
#include "ps/core/shard_internal.h"

static void begin_step(struct shard *s, uint64_t now_ms)
{
    for (uint32_t r = 0; r < s->replicas; r++) {
        s->nodes[r] = (struct shard_node){0};
    }
    shard_decide_begin(s);
    shard_spare_begin(s, now_ms);
}

void shard_sync_apply(struct shard *s, uint64_t now_ms, struct shard_actions *out)
{
    shard_record_update(s, NULL, out);
    const struct shard_node *root = &s->nodes[0];
    struct shard_action *a = shard_act(out, SHARD_APPLY);
    a->buffer = root->buffer;
    a->source = s->addend;
    a->examples = root->examples;
    a->era = shard_era(s, MUTANT(era_of_next) ? s->version + 1 : s->version);
    a->version = ++s->version;
    a->lr_scale = 1;
    shard_release_buffer(out, s->addend);
    shard_release_buffer(out, root->buffer);
    s->addend = NULL;
    s->examples += root->examples;
    s->pushes_applied += root->pushes;
    shard_spare_end(s);
    shard_sums_applied(s);
    begin_step(s, now_ms);
}

void shard_sync_go_on(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    if (!e->can_apply || !shard_sync_ready(s)) {
        return;
    }
    if (consistency_is_partial(&s->consistency) && !s->sums.begun) {
        shard_decide_sum(s, out);
    }
    if (shard_sums_go_on(s, out)) {
        shard_sync_apply(s, e->now_ms, out);
    }
}

void shard_sync_forget(struct shard *s, uint64_t now_ms, struct shard_actions *out)
{
    shard_sums_forget(s, out); /* the sums that were begun read the sum that is released now */
    for (uint32_t r = 0; r < s->replicas; r++) {
        shard_release_buffer(out, s->nodes[r].buffer);
    }
    begin_step(s, now_ms);
}

void shard_sync_resize(struct shard *s)
{
    s->replicas = s->consistency.mode == TRAINING_SYNC ? s->consistency.replicas : 0;
    s->nodes = mem_resize(s->nodes, s->replicas, sizeof *s->nodes);
    for (uint32_t r = 0; r < s->replicas; r++) {
        s->nodes[r] = (struct shard_node){0};
    }
    shard_spare_resize(s);
    shard_decide_begin(s);
}
