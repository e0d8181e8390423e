/* SPDX-License-Identifier: Apache-2.0 */
/* Answers early: with the first of its values, while the rest is still on its way, which becomes
 * the tail of the link (ps_client_tail.c). */
#include "base/mem.h"
#include "ps_client/ps_client_state.h"

/* Makes a tail: what the messages that follow are compared with. The job's thread may still write
 * to the answer of @p, so not all of it is copied. */
static struct pending *tail_of(struct shard_link *link, struct pending *p)
{
    struct pending *t = link->spare;
    if (t != NULL) {
        link->spare = t->next;
    } else {
        t = mem_new(1, sizeof *t);
    }
    *t = (struct pending){
        .next = link->open,
        .values = p->values,
        .block = SHARED_MEMORY_NONE,
        .rows_block = SHARED_MEMORY_NONE,
        .type = p->type,
        .ask = p->ask,
        .begun = true,
        .tail = true,
        .expected = p->expected,
        .received = p->received,
        .message_ns = p->message_ns,
        .answer = {.exchange = p->answer.exchange,
                   .shard = p->answer.shard,
                   .version = p->answer.version},
        .decision = t->decision,
        .decision_capacity = t->decision_capacity,
        .sums = t->sums,
    };
    return t;
}

/* A computation begins with the first variable; and what is soon there costs less than a wake-up.
 * So does what passes in memory, where copying and computing would only be in each other's way. */
static bool is_worth_it(const struct shard_link *link, const struct pending *p)
{
    uint64_t first_end = link->variable_ends[link->partitions[0].variable];
    uint64_t rest_bytes = (link->elements - p->received) * value_type_bytes(p->type);
    return p->block == SHARED_MEMORY_NONE && p->received >= first_end &&
           rest_bytes >= PS_CLIENT_PART_BYTES_MIN;
}

bool ps_client_tail_begin(struct shard_link *link, struct pending *p)
{
    if (!p->early || link->tail.values != NULL || !is_worth_it(link, p)) {
        return false;
    }
    struct pending *t = tail_of(link, p);
    p->answer.partial = true;
    bool due = ps_client_answer(link, p);
    t->next = link->open;
    if (link->open == NULL) {
        link->open_end = &t->next;
    }
    link->open = t;
    link->tail = (struct tail){.values = t->values, .pending = t, .landed = t->received};
    return due;
}
