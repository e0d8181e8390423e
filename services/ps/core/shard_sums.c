/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over whole variables, in sync mode with several shards. When everything of a step is in, the
 * shard makes partial sums; a worker joins those of all shards and brings the totals back; with the
 * totals the shard goes on to the next round, and after the last one it applies.
 *
 * The totals are the same whichever worker joins them, so the first ones count. The totals of the
 * step that was applied last are kept: the other shards may have to do that step again in a new
 * generation, and this shard will not make partial sums of it any more. */
#include <inttypes.h>

#include "base/mutant.h"
#include "ps/core/shard_internal.h"

bool shard_sums_wanting(const struct shard *s)
{
    return s->sums.begun && s->sums.settled < shard_rounds(s, s->version);
}

static void reduce(struct shard *s, struct shard_actions *out)
{
    const struct shard_node *root = &s->nodes[0];
    struct shard_action *a = shard_act(out, SHARD_REDUCE);
    a->buffer = root->buffer;
    a->examples = root->examples;
    a->version = s->version + 1;
    a->era = shard_era(s, s->version);
    a->lr_scale = 1;
    a->round = (struct exchange_round){s->version, s->sums.settled};
}

bool shard_sums_go_on(struct shard *s, struct shard_actions *out)
{
    if (shard_rounds(s, s->version) > 0 && !s->sums.begun) {
        s->sums.begun = true;
        if (s->lead && consistency_is_partial(&s->consistency) && !MUTANT(decision_not_said)) {
            shard_record_decision(s, out); /* others hear of it before the step is applied */
        }
        reduce(s, out);
    }
    return !shard_sums_wanting(s);
}

void shard_sums_applied(struct shard *s)
{
    s->sums.kept = s->sums.begun && !MUTANT(last_totals_forgotten);
    s->sums.begun = false;
    s->sums.settled = 0;
}

void shard_sums_forget(struct shard *s, struct shard_actions *out)
{
    if (MUTANT(sums_over_generations)) {
        return;
    }
    if (s->sums.begun) {
        (void)shard_act(out, SHARD_ABANDON);
    }
    s->sums.begun = false;
    s->sums.settled = 0;
}

int shard_sums_check(const struct shard *s, const struct shard_event *e, struct err *err)
{
    const struct exchange_round *of =
        e->ask.kind == EXCHANGE_SUMS ? &e->ask.sums : &e->ask.totals.of;
    const uint32_t rounds = shard_rounds(s, of->step);
    if (rounds == 0 || s->consistency.mode != TRAINING_SYNC) {
        return err_set(err, ERR_INVALID,
                       "sums of step %" PRIu64 ", which takes none over several shards", of->step);
    }
    if (of->round >= rounds) {
        return err_set(err, ERR_INVALID,
                       "sums of round %" PRIu32 " of step %" PRIu64 "; there are %" PRIu32
                       " rounds",
                       of->round, of->step, rounds);
    }
    if (of->step > s->version) {
        return err_set(err, ERR_RANGE,
                       "sums of step %" PRIu64 ", but the shard is at step %" PRIu64, of->step,
                       s->version);
    }
    return 0;
}

/* ---- requests ---- */

/* Totals of what @p asks for that this shard has, or that nobody needs any more. */
static bool is_settled(const struct shard *s, const struct shard_parked *p)
{
    return p->sums.step < s->version || p->sums.round < s->sums.settled;
}

int shard_sums_answer(const struct shard *s, const struct shard_parked *p,
                      struct shard_actions *out, struct err *err)
{
    bool settled = is_settled(s, p);
    bool over = p->sums.step + 1 < s->version;
    if (!settled && (!s->sums.begun || p->sums.round > s->sums.settled)) {
        return 1;
    }
    if (p->sums.step + 1 == s->version && !s->sums.kept) {
        return err_set(err, ERR_RANGE,
                       "sums of step %" PRIu64 ", which was not made here; the shard began at "
                       "step %" PRIu64,
                       p->sums.step, s->version);
    }
    struct shard_action *a = shard_act(out, SHARD_REPLY);
    a->tag = p->tag;
    a->version = s->version;
    a->generation = s->generation;
    a->answer.kind = EXCHANGE_SUMS;
    a->answer.sums = (struct exchange_sums){.of = p->sums, .known = settled, .over = over};
    shard_decide_tell(s, p->sums.step, &a->answer);
    return 0;
}

/* ---- totals ---- */

static void settle(struct shard *s, const struct exchange_totals *t, struct shard_actions *out)
{
    struct shard_action *a = shard_act(out, SHARD_SETTLE);
    a->round = t->of;
    a->totals = t->data;
    a->totals_bytes = t->bytes;
    s->sums.settled++;
    if (shard_sums_wanting(s)) {
        reduce(s, out);
    }
}

void shard_sums_repeat(struct shard *s, const struct exchange_totals *totals,
                       struct shard_actions *out)
{
    (void)shard_sums_go_on(s, out);
    while (shard_sums_wanting(s)) {
        settle(s, &totals[s->sums.settled], out);
    }
}

int shard_sums_take(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    const struct exchange_totals *t = &e->ask.totals;
    bool over = t->of.step < s->version || t->of.round < s->sums.settled;
    if (over && !(s->sums.begun && MUTANT(old_totals))) {
        return 0; /* another worker was faster */
    }
    if (!s->sums.begun || t->of.round > s->sums.settled) {
        return err_set(&out->err, ERR_RANGE,
                       "totals of round %" PRIu32 " of step %" PRIu64
                       ", which is not reduced here yet",
                       t->of.round, t->of.step);
    }
    settle(s, t, out);
    return shard_sums_wanting(s) ? 0 : 1;
}
