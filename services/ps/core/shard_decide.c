/* SPDX-License-Identifier: Apache-2.0 */
/* Partial sync: a step is complete with `aggregate` replicas, and all shards must take the same
 * ones. The lead takes the replicas that are in at the moment when it can update; these are its
 * decision. The other shards hold what comes until they hear of the decision and have all of it.
 *
 * A decision outlives generations. Without sums over whole variables the lead decides and applies
 * in one, and is a step ahead when the others hear of it. With sums it applies when the other
 * shards have all of the step, too; when a new generation comes in between, the same replicas make
 * up the step. */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "base/mutant.h"
#include "ps/core/shard_internal.h"

static size_t bytes_of(uint32_t replicas)
{
    return ((size_t)replicas + 7) / 8;
}

static bool has(const struct shard_decision *d, uint32_t replica)
{
    return replica < d->replicas && (d->bits[replica / 8] >> (replica % 8) & 1) != 0;
}

/* Of @step, or NULL. */
static const struct shard_decision *find(const struct shard *s, uint64_t step)
{
    const struct shard_decision *d = &s->decisions[step % SHARD_DECISIONS_KEPT];
    return d->replicas > 0 && d->step == step ? d : NULL;
}

/* Begins the decision of the present step, without any replica. */
static struct shard_decision *begin(struct shard *s)
{
    struct shard_decision *d = &s->decisions[s->version % SHARD_DECISIONS_KEPT];
    size_t bytes = bytes_of(s->replicas);
    d->bits = mem_grow(d->bits, &d->capacity, bytes, 1);
    memset(d->bits, 0, bytes);
    d->step = s->version;
    d->replicas = s->replicas;
    return d;
}

bool shard_decide_pending(const struct shard *s)
{
    return find(s, s->version) != NULL;
}

void shard_decide_erase(struct shard *s)
{
    s->decisions[s->version % SHARD_DECISIONS_KEPT].replicas = 0;
}

bool shard_decide_includes(const struct shard *s, uint32_t replica)
{
    const struct shard_decision *d = find(s, s->version);
    return d != NULL && has(d, replica);
}

void shard_decide_begin(struct shard *s)
{
    s->full_in = 0;
    s->empty_in = 0;
    s->missing = 0;
    const struct shard_decision *d = find(s, s->version);
    for (uint32_t r = 0; d != NULL && r < d->replicas; r++) {
        s->missing += has(d, r);
    }
}

static bool is_decided(const struct shard *s)
{
    if ((!s->lead && !MUTANT(everyone_decides)) || find(s, s->version) != NULL) {
        return s->missing == 0 && find(s, s->version) != NULL;
    }
    uint32_t full = s->replicas - s->empty_in; /* that there can be */
    uint32_t enough = s->consistency.aggregate < full ? s->consistency.aggregate : full;
    return s->full_in >= enough;
}

bool shard_sync_ready(const struct shard *s)
{
    if (consistency_is_partial(&s->consistency)) {
        return is_decided(s);
    }
    uint32_t needed = s->replicas - (MUTANT(sync_without_last) && s->replicas > 1 ? 1 : 0);
    return s->replicas > 0 && s->nodes[0].sum_end >= needed;
}

/* ---- pushes ---- */

/* Replica @r is in. Its gradient is not kept when the decision is known to be without it. */
static void hold(struct shard *s, uint32_t r, const struct shard_event *e,
                 struct shard_actions *out)
{
    const struct shard_decision *d = find(s, s->version);
    bool member = d == NULL || has(d, r);
    struct shard_node *node = &s->nodes[r];
    node->in = true;
    if (e->ask.push.examples == 0) {
        s->empty_in++;
    } else {
        s->full_in++;
    }
    if (d != NULL && member) {
        assert(s->missing > 0);
        s->missing--;
    }
    if (!member || e->ask.push.examples == 0) {
        shard_release_buffer(out, e->gradient);
        return;
    }
    node->buffer = e->gradient;
    node->examples = e->ask.push.examples;
}

/* Takes a push. A worker that brings a replica of its own is answered when the step is made: with
 * what became of the replica. A spare replica is answered at once: its worker asks what else is
 * missing, which the step may be waiting for. */
bool shard_decide_push(struct shard *s, const struct shard_event *e, struct shard_parked *request,
                       struct shard_actions *out)
{
    const struct exchange_push *p = &e->ask.push;
    request->partial = !p->spare || MUTANT(spare_waits_for_its_step);
    request->step = p->step;
    request->replica = p->replica_first;
    if (p->step < s->version || s->nodes[p->replica_first].in) {
        shard_release_buffer(out, e->gradient);
        request->train.push = PUSH_DUPLICATE;
        return false;
    }
    hold(s, p->replica_first, e, out);
    request->train.push = request->partial ? PUSH_APPLIED : PUSH_ACCEPTED;
    return true;
}

void shard_decide_get(const struct shard *s, uint64_t step, struct exchange_decision *out)
{
    const struct shard_decision *d = find(s, step);
    if (d != NULL) {
        *out = (struct exchange_decision){d->step, d->bits, bytes_of(d->replicas)};
    }
}

void shard_decide_tell(const struct shard *s, uint64_t step, struct exchange_answer *answer)
{
    if (s->lead) {
        shard_decide_get(s, step, &answer->decision);
    }
}

/* Answers what became of a push. When the decision is not kept any more, the step was so long ago
 * that nobody can tell; such a worker is behind by more steps than its push could still serve. */
void shard_decide_answer(const struct shard *s, const struct shard_parked *p,
                         struct exchange_answer *answer)
{
    const struct shard_decision *d = find(s, p->step);
    if (d == NULL || !has(d, p->replica)) {
        answer->train.push = PUSH_STALE;
    }
    shard_decide_tell(s, p->step, answer);
}

/* ---- the update ---- */

/* The sum over [lo, hi) goes to the node lo, along the tree as if all were there. */
static void fold(struct shard *s, uint32_t lo, uint32_t hi, struct shard_actions *out)
{
    if (hi - lo == 1) {
        return;
    }
    uint32_t middle = tree_split(lo, hi);
    fold(s, lo, middle, out);
    fold(s, middle, hi, out);
    shard_tree_combine(s, lo, middle, hi - lo == s->replicas, out);
}

static void decide(struct shard *s)
{
    struct shard_decision *d = begin(s);
    for (uint32_t r = 0; r < s->replicas; r++) {
        if (s->nodes[r].in) {
            d->bits[r / 8] |= (uint8_t)(1U << (r % 8));
        }
    }
}

void shard_decide_sum(struct shard *s, struct shard_actions *out)
{
    if (find(s, s->version) == NULL) {
        decide(s);
    }
    const struct shard_decision *d = find(s, s->version);
    for (uint32_t r = 0; r < s->replicas; r++) {
        struct shard_node *node = &s->nodes[r];
        if (!has(d, r)) {
            shard_release_buffer(out, node->buffer);
            *node = (struct shard_node){0};
        }
        node->sum_end = r + 1;
        node->pushes = has(d, r);
    }
    fold(s, 0, s->replicas, out);
}

/* ---- decisions of the lead ---- */

static int check(const struct shard *s, const struct exchange_decision *d, struct err *err)
{
    if (!consistency_is_partial(&s->consistency)) {
        return err_set(err, ERR_INVALID,
                       "a decision of step %" PRIu64 ", but every step has all its replicas",
                       d->step);
    }
    if (s->lead) {
        return err_set(err, ERR_INVALID, "a decision of step %" PRIu64 " for the lead, who decides",
                       d->step);
    }
    if (d->step > s->version) {
        return err_set(err, ERR_RANGE,
                       "a decision of step %" PRIu64 ", but the shard is at step %" PRIu64, d->step,
                       s->version);
    }
    return 0;
}

static int check_bits(const struct shard *s, const struct exchange_decision *d, struct err *err)
{
    uint32_t count = 0;
    bool inside = d->replicas != NULL && d->bytes == bytes_of(s->replicas);
    for (size_t i = 0; inside && i < d->bytes * 8; i++) {
        bool set = (d->replicas[i / 8] >> (i % 8) & 1) != 0;
        inside = !set || i < s->replicas;
        count += set;
    }
    if (!inside || count < s->consistency.aggregate) {
        return err_set(err, ERR_INVALID,
                       "a decision of step %" PRIu64 " with %" PRIu32
                       " replicas in %zu bytes; expected at least %" PRIu32 " of %" PRIu32,
                       d->step, count, d->bytes, s->consistency.aggregate, s->replicas);
    }
    return 0;
}

int shard_decide_note(struct shard *s, const struct exchange_decision *d, struct err *err)
{
    int rc = check_bits(s, d, err);
    if (rc == 0) {
        memcpy(begin(s)->bits, d->replicas, d->bytes);
        shard_decide_begin(s);
    }
    return rc;
}

/* Counts the replicas of the decision that are missing, and drops those that are not part of the
 * step. */
static void sort_out(struct shard *s, const struct shard_decision *d, struct shard_actions *out)
{
    s->missing = 0;
    for (uint32_t r = 0; r < s->replicas; r++) {
        struct shard_node *node = &s->nodes[r];
        if (has(d, r)) {
            s->missing += node->in ? 0 : 1;
        } else {
            shard_release_buffer(out, node->buffer);
            node->buffer = NULL;
        }
    }
}

int shard_decide_take(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    const struct exchange_decision *told = &e->ask.decision;
    int rc = check(s, told, &out->err);
    if (rc != 0 || told->step < s->version) {
        return rc;
    }
    rc = check_bits(s, told, &out->err);
    if (rc != 0) {
        return rc;
    }
    const struct shard_decision *known = find(s, told->step);
    if (known != NULL) {
        return memcmp(known->bits, told->replicas, told->bytes) == 0
                   ? 0
                   : err_set(&out->err, ERR_INVALID,
                             "a second decision of step %" PRIu64 ", with other replicas",
                             told->step);
    }
    struct shard_decision *d = begin(s);
    memcpy(d->bits, told->replicas, told->bytes);
    sort_out(s, d, out);
    return 1;
}
