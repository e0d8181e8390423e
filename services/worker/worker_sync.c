/* Sync: global step t from version t, replicas summed along the fixed tree (docs/protocol.md,
 * Sync). */
#include "worker/worker_state.h"

static void batch_of(const struct worker *w, uint64_t step, uint32_t replica,
                     struct ledger_batch *out)
{
    ledger_sync_batch(&w->ledger, w->a.replicas, step - w->a.ledger_step, replica, out);
}

void worker_sync_begin(struct worker *w)
{
    w->position = w->a.step;
    w->step_begun = false;
    w->replica_next = w->a.replica_first;
    w->prefetch_step = w->a.step;
    w->prefetch_replica = w->a.replica_first;
    for (uint32_t s = 0; s < w->config.shard_count; s++) {
        if (w->versions[w->current][s] != w->a.step) {
            w->params_valid = false;
        }
    }
}

static void pull_version(struct worker *w)
{
    for (uint32_t s = 0; s < w->config.shard_count; s++) {
        struct worker_action request = worker_request(w, s);
        request.pull = WORKER_PULL_VERSION;
        request.version = w->position;
        worker_exchange(w, &request, false);
    }
}

/* Name the batches that will be computed next, a few ahead. */
static void prefetch(struct worker *w)
{
    uint32_t mine = w->a.replica_end - w->a.replica_first;
    if (mine == 0) {
        return;
    }
    for (;;) {
        uint64_t ahead = (w->prefetch_step - w->position) * mine + w->prefetch_replica;
        if (w->prefetch_step >= w->a.step_limit ||
            ahead >= (uint64_t)w->replica_next + WORKER_PREFETCH_MAX) {
            return;
        }
        struct ledger_batch batch;
        batch_of(w, w->prefetch_step, w->prefetch_replica, &batch);
        if (batch.count > 0) {
            worker_add(w, WORKER_DO_PREFETCH)->batch = batch;
        }
        if (++w->prefetch_replica == w->a.replica_end) {
            w->prefetch_replica = w->a.replica_first;
            w->prefetch_step++;
        }
    }
}

/* Push one finished node to every shard; the last node of the step also pulls the next version. */
static void push_node(struct worker *w, const struct stacked *node, bool last)
{
    for (uint32_t s = 0; s < w->config.shard_count; s++) {
        struct worker_action request = worker_request(w, s);
        request.push = true;
        request.step = w->position;
        request.replica_first = node->block.lo;
        request.replica_end = node->block.hi;
        request.examples = node->examples;
        request.slot = node->slot;
        request.batch = w->computing_batch;
        if (last) {
            request.pull = WORKER_PULL_VERSION;
            request.version = w->position + 1;
        }
        worker_exchange(w, &request, false);
    }
    worker_slot_drop(w, node->slot);
}

static bool within(const struct worker *w, struct tree_block b)
{
    return b.lo >= w->a.replica_first && b.hi <= w->a.replica_end;
}

/* Add the right node of a pair to the left one. An empty contribution is no summand at all, here as
 * at the shards, so that the bits do not depend on who does the sum. */
static void merge_pair(struct worker *w, struct stacked *left, struct stacked *right)
{
    if (left->slot == WORKER_SLOT_NONE) {
        left->slot = right->slot;
    } else if (right->slot != WORKER_SLOT_NONE) {
        struct worker_action *add = worker_add(w, WORKER_DO_ADD);
        add->slot = left->slot;
        add->slot_from = right->slot;
        worker_slot_drop(w, right->slot);
    }
    left->block.hi = right->block.hi;
    left->examples += right->examples;
}

static void stack_merge(struct worker *w)
{
    while (w->stack_count >= 2) {
        struct stacked *left = &w->stack[w->stack_count - 2];
        struct stacked *right = &w->stack[w->stack_count - 1];
        struct tree_block parent;
        if (!tree_parent(w->a.replicas, right->block, &parent) || parent.lo != left->block.lo ||
            parent.hi != right->block.hi || tree_split(parent.lo, parent.hi) != right->block.lo) {
            return;
        }
        merge_pair(w, left, right);
        w->stack_count--;
    }
}

/* Push the nodes whose parent this worker cannot complete: nothing will be added to them here. */
static void stack_push(struct worker *w)
{
    bool last_replica = w->replica_next == w->a.replica_end;
    size_t kept = 0;
    for (size_t i = 0; i < w->stack_count; i++) {
        struct tree_block parent;
        bool has_parent = tree_parent(w->a.replicas, w->stack[i].block, &parent);
        if (has_parent && within(w, parent)) {
            w->stack[kept++] = w->stack[i];
        } else {
            push_node(w, &w->stack[i], last_replica && i + 1 == w->stack_count);
        }
    }
    w->stack_count = kept;
}

static void take_in(struct worker *w, uint32_t slot, uint64_t examples)
{
    w->step_begun = true;
    w->stack[w->stack_count++] = (struct stacked){
        .block = {w->replica_next, w->replica_next + 1},
        .slot = slot,
        .examples = examples,
    };
    w->replica_next++;
    stack_merge(w);
    stack_push(w);
}

void worker_sync_computed(struct worker *w)
{
    if (w->next_pending || w->fenced) {
        return; /* the gradient is of a generation that is over */
    }
    take_in(w, w->gradient_slot, w->computing_batch.count);
}

static void step_done(struct worker *w)
{
    w->position++;
    w->params_valid = true;
    w->step_begun = false;
    w->replica_next = w->a.replica_first;
    if (w->prefetch_step < w->position) {
        w->prefetch_step = w->position;
        w->prefetch_replica = w->a.replica_first;
    }
}

void worker_sync_exchanged(struct worker *w)
{
    if (w->training_open > 0) {
        return;
    }
    if (!w->step_begun) {
        w->params_valid = true; /* this was the first pull of an assignment */
    } else if (w->replica_next == w->a.replica_end) {
        step_done(w);
    }
}

static void compute(struct worker *w, const struct ledger_batch *batch)
{
    w->computing_batch = *batch;
    w->gradient_slot = worker_slot_take(w);
    w->computing = COMPUTING_BATCH;
    struct worker_action *action = worker_add(w, WORKER_DO_COMPUTE);
    action->batch = *batch;
    action->step = w->position;
    action->replica = w->replica_next;
    action->slot = w->gradient_slot;
    action->set = w->current;
    action->generation = w->a.generation;
}

void worker_sync_pump(struct worker *w)
{
    if (w->computing != COMPUTING_NOTHING) {
        return;
    }
    if (!w->params_valid) {
        if (w->training_open == 0) {
            pull_version(w);
        }
        return;
    }
    if (w->a.replica_first == w->a.replica_end && w->position < w->a.step_limit) {
        w->position = w->a.step_limit; /* nothing to contribute */
    }
    w->idle_due = w->position >= w->a.step_limit && !w->step_begun;
    if (w->idle_due) {
        return;
    }
    while (w->replica_next < w->a.replica_end) {
        struct ledger_batch batch;
        batch_of(w, w->position, w->replica_next, &batch);
        if (batch.count > 0) {
            prefetch(w);
            compute(w, &batch);
            return;
        }
        w->computing_batch = batch;
        take_in(w, WORKER_SLOT_NONE, 0);
    }
}
