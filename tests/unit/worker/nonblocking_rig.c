/* SPDX-License-Identifier: Apache-2.0 */
/* How the tests of partial and speculative steps begin. */
#include "nonblocking_rig.h"

struct worker_assignment nonblocking_partial(uint32_t aggregate, uint32_t first, uint32_t end)
{
    return (struct worker_assignment){
        .generation = 1,
        .consistency = {.mode = TRAINING_SYNC, .replicas = 4, .aggregate = aggregate},
        .replica_first = first,
        .replica_end = end,
        .step_limit = 100,
    };
}

/* Pull the first version, which is @version on both shards. */
void nonblocking_start(struct script *t, const struct worker_assignment *a, uint64_t version)
{
    script_begin(t, 2);
    script_assign(t, a);
    assert_int_equal(script_asked(t, 0).pull, ASKED_PULL_AT_LEAST);
    assert_int_equal(script_asked(t, 0).version, a->step);
    script_answer_both(t, version, PUSH_NONE);
}

void nonblocking_answer_spare(struct script *t, const struct asked *ask, bool given,
                              uint32_t replica, uint32_t wait_ms)
{
    struct worker_event e = script_answer_of(ask, 0, PUSH_NONE);
    e.exchanged.answer.kind = EXCHANGE_SPARE;
    e.exchanged.answer.spare.given = given;
    e.exchanged.answer.spare.replica = replica;
    e.exchanged.answer.spare.wait_ms = wait_ms;
    script_feed(t, e);
}
