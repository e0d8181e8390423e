/* Sync: one update per step, the sum over the fixed tree of replicas. */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "ps/shard_internal.h"

#define EXAMPLES_MAX (UINT64_C(1) << 40) /* in one push, so that no sum of them overflows */

int shard_check_push(const struct shard *s, const struct shard_push *p, struct err *err)
{
    if (p->examples > EXAMPLES_MAX) {
        return err_set(err, ERR_INVALID, "%" PRIu64 " examples in one push; at most %" PRIu64,
                       p->examples, EXAMPLES_MAX);
    }
    bool whole = p->elements == s->elements && p->buffer != NULL;
    bool none = p->elements == 0 && p->buffer == NULL;
    if (!whole && !(none && p->examples == 0)) {
        return err_set(err, ERR_INVALID,
                       "%" PRIu64 " gradient elements of %" PRIu64 " examples; expected %" PRIu64,
                       p->elements, p->examples, s->elements);
    }
    return 0;
}

static int check_identity(const struct shard *s, const struct shard_push *p, struct err *err)
{
    struct tree_block b = {p->replica_first, p->replica_end};
    if (b.lo >= b.hi || b.hi > s->replicas || !tree_is_node(s->replicas, b)) {
        return err_set(err, ERR_INVALID,
                       "replicas %" PRIu32 "..%" PRIu32
                       " are not a node of the reduction tree of %" PRIu32 " replicas",
                       b.lo, b.hi, s->replicas);
    }
    if (p->step > s->version) {
        return err_set(err, ERR_RANGE,
                       "a push of step %" PRIu64 ", but the shard is at step %" PRIu64, p->step,
                       s->version);
    }
    return 0;
}

/* 0 nothing of it is in; 1 this very push is in; ERR_INVALID a part of it, or more, came otherwise.
 */
static int is_in(const struct shard *s, const struct shard_push *p, struct err *err)
{
    if (s->nodes[p->replica_first].pushed_end == p->replica_end) {
        return 1;
    }
    for (uint32_t r = p->replica_first; r < p->replica_end; r++) {
        if (s->nodes[r].in) {
            return err_set(err, ERR_INVALID,
                           "a push of replicas %" PRIu32 "..%" PRIu32 " of step %" PRIu64
                           ", but replica %" PRIu32 " came in another push",
                           p->replica_first, p->replica_end, p->step, r);
        }
    }
    return 0;
}

/* The left sum takes in the right one. */
static void combine(struct shard_node *left, struct shard_node *right, struct shard_actions *out)
{
    if (left->buffer == NULL) {
        left->buffer = right->buffer;
    } else if (right->buffer != NULL) {
        struct shard_action *a = shard_act(out, SHARD_ADD);
        a->buffer = left->buffer;
        a->source = right->buffer;
        shard_release_buffer(out, right->buffer);
    }
    left->examples += right->examples;
    left->sum_end = right->sum_end;
    right->buffer = NULL;
    right->examples = 0;
    right->sum_end = 0;
}

/* Add @b to its sibling as soon as both are there, and so on up the tree. */
static void rise(struct shard *s, struct tree_block b, struct shard_actions *out)
{
    struct tree_block parent;
    while (tree_parent(s->replicas, b, &parent)) {
        uint32_t middle = b.lo == parent.lo ? b.hi : b.lo;
        struct shard_node *left = &s->nodes[parent.lo];
        struct shard_node *right = &s->nodes[middle];
        if (left->sum_end != middle || right->sum_end != parent.hi) {
            return;
        }
        combine(left, right, out);
        b = parent;
    }
}

bool shard_sync_ready(const struct shard *s)
{
    return s->replicas > 0 && s->nodes[0].sum_end == s->replicas;
}

int shard_push_sync(struct shard *s, const struct shard_event *e, enum shard_push_result *result,
                    struct shard_actions *out)
{
    const struct shard_push *p = &e->push;
    int rc = check_identity(s, p, &out->err);
    rc = rc != 0 ? rc : shard_check_push(s, p, &out->err);
    if (rc != 0) {
        return rc;
    }
    rc = p->step < s->version ? 1 : is_in(s, p, &out->err);
    if (rc < 0) {
        return rc;
    }
    if (rc == 1) {
        s->pushes_duplicate++;
        shard_release_buffer(out, p->buffer);
        *result = SHARD_PUSH_DUPLICATE;
        return 0;
    }
    void *buffer = p->buffer;
    if (p->examples == 0) {
        shard_release_buffer(out, buffer);
        buffer = NULL;
    }
    for (uint32_t r = p->replica_first; r < p->replica_end; r++) {
        s->nodes[r].in = true;
    }
    struct shard_node *node = &s->nodes[p->replica_first];
    node->pushed_end = node->sum_end = p->replica_end;
    node->buffer = buffer;
    node->examples = p->examples;
    s->nodes_in++;
    rise(s, (struct tree_block){p->replica_first, p->replica_end}, out);
    *result = SHARD_PUSH_ACCEPTED;
    if (shard_sync_ready(s) && e->can_apply) {
        shard_sync_apply(s, out);
        *result = SHARD_PUSH_APPLIED;
    }
    return 0;
}

static void begin_step(struct shard *s)
{
    memset(s->nodes, 0, s->replicas * sizeof *s->nodes);
    s->nodes_in = 0;
}

void shard_sync_apply(struct shard *s, struct shard_actions *out)
{
    assert(shard_sync_ready(s));
    struct shard_node *root = &s->nodes[0];
    struct shard_action *a = shard_act(out, SHARD_APPLY);
    a->buffer = root->buffer;
    a->examples = root->examples;
    a->version = ++s->version;
    shard_release_buffer(out, root->buffer);
    s->pushes_applied += s->nodes_in;
    begin_step(s);
}

void shard_sync_forget(struct shard *s, struct shard_actions *out)
{
    for (uint32_t r = 0; r < s->replicas; r++) {
        shard_release_buffer(out, s->nodes[r].buffer);
    }
    begin_step(s);
}

void shard_sync_resize(struct shard *s, uint32_t replicas)
{
    s->nodes = mem_resize(s->nodes, replicas, sizeof *s->nodes);
    s->replicas = replicas;
    begin_step(s);
}
