/* SPDX-License-Identifier: Apache-2.0 */
/* The shelf: actions and answers made, and what every kind of request is checked for. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "ps/core/shard_internal.h"

/* examples of one push, so that no sum of them overflows */
#define EXAMPLES_MAX (UINT64_C(1) << 40)

void shard_actions_release(struct shard_actions *a)
{
    free(a->items);
    *a = (struct shard_actions){0};
}

struct shard_action *shard_act(struct shard_actions *out, enum shard_action_kind kind)
{
    out->items = mem_grow(out->items, &out->capacity, out->count + 1, sizeof *out->items);
    struct shard_action *a = &out->items[out->count++];
    *a = (struct shard_action){.kind = kind};
    return a;
}

void shard_release_buffer(struct shard_actions *out, void *buffer)
{
    if (buffer != NULL) {
        shard_act(out, SHARD_RELEASE)->buffer = buffer;
    }
}

void shard_refuse(const struct shard *s, void *tag, struct shard_actions *out)
{
    assert(out->err.code != 0);
    struct shard_action *a = shard_act(out, SHARD_REPLY);
    a->tag = tag;
    a->code = out->err.code;
    a->version = s->version;
    a->generation = s->generation;
}

void shard_reply_state(const struct shard *s, void *tag, struct shard_actions *out)
{
    struct shard_action *a = shard_act(out, SHARD_REPLY);
    a->tag = tag;
    a->version = s->version;
    a->generation = s->generation;
    a->ledger = s->consistency.mode == TRAINING_SYNC ? NULL : &s->ledger;
    a->examples_applied = s->examples;
}

/* ---- checks ---- */

int shard_check_generation(const struct shard *s, uint64_t generation, struct err *err)
{
    if (generation < s->generation) {
        return err_set(err, ERR_ABORTED, "generation %" PRIu64 " is over; it is %" PRIu64 " now",
                       generation, s->generation);
    }
    if (generation > s->generation) {
        return err_set(err, ERR_STATE,
                       "generation %" PRIu64 " is not known yet, only %" PRIu64 "; try again",
                       generation, s->generation);
    }
    return 0;
}

int shard_check_push(const struct shard *s, const struct shard_event *e, struct err *err)
{
    const struct exchange_push *p = &e->ask.push;
    if (p->examples > EXAMPLES_MAX) {
        return err_set(err, ERR_INVALID, "%" PRIu64 " examples in one push; at most %" PRIu64,
                       p->examples, EXAMPLES_MAX);
    }
    bool whole = e->elements == s->elements && e->gradient != NULL;
    bool none = e->elements == 0 && e->gradient == NULL;
    if (!whole && !(none && p->examples == 0)) {
        return err_set(err, ERR_INVALID,
                       "%" PRIu64 " gradient elements of %" PRIu64 " examples; expected %" PRIu64,
                       e->elements, p->examples, s->elements);
    }
    return 0;
}

/* ---- eras ---- */

void shard_eras_set(struct shard *s, const struct era *eras, size_t count)
{
    static const struct era only = {0};
    s->era_count = count == 0 ? 1 : count;
    s->eras = mem_resize(s->eras, s->era_count, sizeof *s->eras);
    memcpy(s->eras, count == 0 ? &only : eras, s->era_count * sizeof *s->eras);
}
