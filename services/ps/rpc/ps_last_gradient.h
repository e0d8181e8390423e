/* SPDX-License-Identifier: Apache-2.0 */
/* What the gradient of the last update was, for jobs whose checkpoints are to tell of it
 * (training.tensorboard_histograms): the mean over the records of the update, before anything is
 * clipped. A copy of each update's, of which that of a pinned version is kept until its file is
 * written. Where there is no memory for it the checkpoint does not tell.
 *
 * Owner: the shard's strand, but for what ps_last_gradient_of() returns. */
#ifndef GRADUS_PS_RPC_PS_LAST_GRADIENT_H
#define GRADUS_PS_RPC_PS_LAST_GRADIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "ps/data/buffer.h"

struct ps_shard;
struct shard_action;

struct ps_last_gradient {
    bool on;
    struct buffer_pool pool;
    struct buffer *last, *pinned; /* NULL: none */
    uint64_t last_version, pinned_version;
};

/* Takes memory for two. */
void ps_last_gradient_open(struct ps_shard *s);
/* The update of @a, SHARD_APPLY or the SHARD_REDUCE before it, begins; its gradient is still as it
 * came. No Pin comes between the two: in sync mode nobody has a step behind a version that is to be
 * pinned before all shards have pinned it. */
void ps_last_gradient_note(struct ps_shard *s, const struct shard_action *a);
/* @version, the newest, is pinned (not kept for anybody else), by the event that is stepped, or is
 * not any more. A Pin that asks for gradients is like an opening that does. */
void ps_last_gradient_pin(struct ps_shard *s, uint64_t version);
void ps_last_gradient_unpin(struct ps_shard *s, uint64_t version);
/* That of the update that made @version, which is pinned: a reference; NULL: it is not known. */
struct buffer *ps_last_gradient_of(const struct ps_shard *s, uint64_t version);
void ps_last_gradient_let_go(struct ps_shard *s);

#endif
