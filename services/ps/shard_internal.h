/* What the files of the shard's core share. */
#ifndef GRADUS_PS_SHARD_INTERNAL_H
#define GRADUS_PS_SHARD_INTERNAL_H

#include "job/tree.h"
#include "ps/shard.h"

/* Sync: what is in of the unfinished step, by the first replica of a node. Nodes with a sum are
 * disjoint, so one place for each first replica is enough. */
struct shard_node {
    uint32_t sum_end;    /* the sum of [this, sum_end) is in buffer; 0: none begins here */
    uint32_t pushed_end; /* a push of [this, pushed_end) came; 0: none begins here */
    bool in;             /* this replica is in */
    void *buffer;        /* NULL: nobody had examples */
    uint64_t examples;
};

/* Async, bounded: a push that waits for a free snapshot. Its identity is in, whatever happens to
 * who sent it; requests wait for it by its ticket. */
struct shard_queued {
    uint64_t epoch;
    uint32_t split, batch;
    uint64_t examples;
    uint64_t base_version;
    void *buffer;
    uint32_t worker;
};

struct shard_worker {
    char id[SHARD_WORKER_BYTES];
    bool active;    /* bounded: others wait for it */
    uint64_t clock; /* pushes of it applied */
};
#define SHARD_WORKER_NONE UINT32_MAX

/* A request that waits: for its push in the queue, a version, or (bounded) the slowest worker. */
struct shard_parked {
    void *tag;
    uint64_t since_ms;
    uint64_t ticket; /* of a queued push that must be applied before anything else; 0: none */
    uint32_t worker;
    enum shard_push_result push;
    bool has_pull;
    bool progress;
    enum shard_pull_kind pull_kind;
    uint64_t pull_version;
    uint64_t epoch;
    uint32_t split;
};

struct shard_pin {
    char id[SHARD_PIN_ID_BYTES]; /* "": free */
    uint64_t version;
    bool slots;
    void *slots_buffer;
    struct ledger ledger; /* of that version: async, bounded */
};

struct shard {
    uint64_t generation;
    uint64_t version;
    uint64_t version_first; /* where it began: there is no version before it */
    uint64_t elements;
    uint64_t staleness;
    enum training_mode mode;
    bool has_slots;
    bool closed;

    uint32_t replicas;
    struct shard_node *nodes; /* [replicas] */
    uint32_t nodes_in;        /* pushes in the unfinished step */

    struct ledger ledger;
    struct shard_queued *queue; /* oldest first */
    size_t queue_count, queue_capacity;
    uint64_t tickets_applied; /* pushes that ever left the queue; those in it have the next ones */

    struct shard_worker *workers;
    size_t worker_count;
    uint64_t pace; /* the least clock of the active workers; UINT64_MAX: none is active */

    struct shard_parked *parked; /* oldest first */
    size_t parked_count, parked_capacity;

    struct shard_pin pins[SHARD_PINS_MAX];

    uint64_t pushes_applied;
    uint64_t pushes_duplicate;
};

#define X(NAME, name)                                                                              \
    void shard_on_##name(struct shard *s, const struct shard_event *e, struct shard_actions *out);
SHARD_EVENTS(X)
#undef X

/* ---- shard.c ---- */

struct shard_action *shard_act(struct shard_actions *out, enum shard_action_kind kind);
void shard_release_buffer(struct shard_actions *out, void *buffer); /* NULL is fine */
/* Answer @tag with the error in @out->err. */
void shard_refuse(const struct shard *s, void *tag, struct shard_actions *out);
/* 0, or the reason in @err why @generation may not speak. */
int shard_check_generation(const struct shard *s, uint64_t generation, struct err *err);
void shard_reply_state(const struct shard *s, void *tag, struct shard_actions *out);

/* ---- shard_sync.c, shard_async.c: where a push goes ---- */

/* Examples and elements of @p. Errors: ERR_INVALID. */
int shard_check_push(const struct shard *s, const struct shard_push *p, struct err *err);
/* Take @e->push. The buffer is taken unless an error is returned. */
int shard_push_sync(struct shard *s, const struct shard_event *e, enum shard_push_result *result,
                    struct shard_actions *out);
/* The same; @ticket is of the push when it waits in the queue, else 0. */
int shard_push_async(struct shard *s, const struct shard_event *e, uint32_t worker,
                     enum shard_push_result *result, uint64_t *ticket, struct shard_actions *out);
bool shard_sync_ready(const struct shard *s); /* the root of the step is complete */
void shard_sync_apply(struct shard *s, struct shard_actions *out);
/* Drop what is in of the unfinished step. */
void shard_sync_forget(struct shard *s, struct shard_actions *out);
void shard_sync_resize(struct shard *s, uint32_t replicas); /* nothing is in */
/* Apply the oldest push of the queue. */
void shard_async_apply(struct shard *s, struct shard_actions *out);
void shard_async_forget(struct shard *s, struct shard_actions *out);
uint32_t shard_progress(const struct shard *s, uint64_t epoch, uint32_t split);

/* ---- shard_park.c: requests that wait ---- */

/* Answer the request @p, or leave it: 0 answered, 1 it must wait, ERR_* refused for @err. */
int shard_try_answer(struct shard *s, const struct shard_parked *p, struct shard_actions *out,
                     struct err *err);
/* Errors: ERR_EXHAUSTED. */
int shard_park(struct shard *s, const struct shard_parked *p, struct err *err);
/* Answer all who waited for what is now there. */
void shard_wake(struct shard *s, struct shard_actions *out);
/* End all with the error in @out->err. */
void shard_refuse_parked(struct shard *s, struct shard_actions *out);

/* ---- shard_workers.c: bounded staleness ---- */

uint32_t shard_worker_find(const struct shard *s, const char *id);
int shard_workers_check(const char *const *ids, size_t count, struct err *err);
/* Copy the list; who stays keeps its clock and its activity. */
void shard_workers_set(struct shard *s, const char *const *ids, size_t count);
/* Others wait for it again, from the pace of the slowest on. */
void shard_worker_activate(struct shard *s, uint32_t worker);
void shard_worker_idle(struct shard *s, uint32_t worker);
void shard_worker_tick(struct shard *s, uint32_t worker); /* one more push applied */
/* True while @worker is too far ahead of the slowest active one. */
bool shard_worker_ahead(const struct shard *s, uint32_t worker);

/* ---- shard_pin.c ---- */

const struct shard_pin *shard_pin_find(const struct shard *s, const char *id);
void shard_pins_release(struct shard *s, struct shard_actions *out);

#endif
