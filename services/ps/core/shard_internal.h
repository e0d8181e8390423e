/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the shard's core share. */
#ifndef GRADUS_PS_CORE_SHARD_INTERNAL_H
#define GRADUS_PS_CORE_SHARD_INTERNAL_H

#include "base/mutant.h"
#include "job/progress/tree.h"
#include "ps/core/shard.h"

#define SHARD_DECISIONS_KEPT 16 /* a worker is hardly ever more steps behind and still pushing */

/* Sync: what is in of the unfinished step, by the first replica of a node. Nodes with a sum are
 * disjoint, so one place for each first replica is enough. */
struct shard_node {
    uint32_t sum_end; /* the sum of [this, sum_end) is in buffer; 0: none begins here */
    uint32_t pushes;  /* number of pushes that make up the sum */
    bool in;          /* this replica is in */
    void *buffer;     /* NULL: no push had examples */
    uint64_t examples;
};

/* Partial sync: the replicas that make up a step. */
struct shard_decision {
    uint64_t step;
    uint32_t replicas; /* 0: none */
    uint8_t *bits;
    size_t capacity; /* bytes */
};

/* Speculation, of one replica. */
struct shard_late {
    bool came;         /* its owner pushed it, for this step */
    bool slow;         /* its owner was late once, and was not in time since */
    uint32_t given;    /* times to idle workers, at this step */
    uint64_t given_ms; /* the last time */
};

/* Speculation: when the replicas of a step come from their owners. */
struct shard_pacing {
    struct shard_late *late; /* [replicas], NULL: every step waits for everybody */
    uint64_t *came_ms;       /* [replicas] of the non-empty ones, in the order in which they came */
    uint32_t came;
    uint32_t empty;      /* replicas without data that came */
    bool made;           /* made_ms is set */
    bool heard;          /* an idle worker asked at this step */
    uint64_t made_ms;    /* when the version was made */
    uint64_t began_ms;   /* from this time on a replica may be late */
    bool usual;          /* typical_ms is set */
    uint64_t typical_ms; /* of the last step */
};

/* Sums over whole variables: how far the present step is. */
struct shard_sums {
    bool begun;       /* everything of the step is in, the update is begun */
    uint32_t settled; /* rounds whose totals came; with all of them the step can be applied */
    bool kept;        /* the totals of the step before are still there */
};

/* Async, bounded: a push that waits for a free snapshot. Requests wait for it by its ticket. */
struct shard_queued {
    uint64_t epoch;
    uint32_t split, batch, batch_end;
    uint64_t examples;
    uint64_t base_version;
    void *buffer;
    uint32_t worker;
};

struct shard_worker {
    char id[SHARD_WORKER_BYTES];
    bool active;      /* bounded: other workers wait for it */
    uint64_t clock;   /* the clock that it said last, in this generation, */
    uint64_t session; /* and the newest of its sessions; */
    bool left;        /* that one is over */
    bool has_base;    /* POLICY_DELAY_COMPENSATION: the version that it read is kept */
    uint64_t base;
};
#define SHARD_WORKER_NONE UINT32_MAX

/* A request that waits: for its push in the queue, for its step, for a version, or (bounded) for
 * the slowest worker. */
struct shard_parked {
    void *tag;
    uint64_t since_ms;
    uint64_t ticket; /* of a queued push that must be applied before the answer; 0: none */
    uint32_t worker;
    struct exchange_trained train; /* what became of the push, for the answer */
    /* its push is of a step that need not have all replicas; what the answer says of the push holds
     * if that step has the replica */
    bool partial;
    uint64_t step;
    uint32_t replica;
    /* what it asks for; rows: of the newest version */
    enum exchange_kind kind;
    bool has_pull;
    struct exchange_pull pull; /* with a clock: waits while its worker is too far ahead */
    struct exchange_round sums;
};

struct shard_pin {
    char id[SHARD_PIN_ID_BYTES]; /* "": free */
    uint64_t version;
    bool slots;
    void *slots_buffer;
    struct ledger ledger; /* of that version: async, bounded */
    uint64_t examples;
    bool unsaid; /* the backup has joined since, and does not have it */
};

struct shard_reader {
    char id[SHARD_PIN_ID_BYTES]; /* "": free */
    void *tag;                   /* waits for the version; NULL: no longer, and then */
    bool pinned;
    uint64_t version; /* pinned, or waited for */
    uint64_t ms, since_ms, ends_ms;
};

/* An answer that shows what the backup has not received yet. */
struct shard_held {
    struct shard_action reply;
    struct ledger ledger; /* that it borrows; no counts: none */
};

struct shard_standby {
    enum shard_role role;
    uint64_t backup;  /* SHARD_PRIMARY: its opening */
    uint64_t records; /* SHARD_PRIMARY: said; SHARD_BACKUP: received */
    uint64_t received;
    uint64_t unreceived_ms; /* since when one is on its way, */
    uint64_t shown;         /* and the version that there was before */
    uint64_t now_ms;        /* of the step */
    /* SHARD_PRIMARY, of a backup that joins */
    bool joining;    /* it is not waited for, but catches up */
    bool state_kept; /* it has not received the state: */
    uint64_t state_version;
    void *state_slots; /* NULL: the rule has none */
    uint64_t behind;   /* catching up: records that it lacked when it had the state, */
    uint64_t caught;   /* and what it had received by then */
    bool follows;      /* it can take over */
    uint32_t *sent;    /* workers, of the record that was said last */
    size_t sent_capacity;
    /* SHARD_BACKUP */
    bool joins; /* it has not received its state */
    struct shard_held *held;
    size_t held_count, held_capacity;
    bool let_go;       /* these were answered in the last step, which may still borrow from them */
    struct err broken; /* SHARD_BACKUP: code 0: it is not */
};

struct shard {
    bool lead;
    struct fence fence;
    uint64_t generation;
    uint64_t version;
    uint64_t version_first; /* the first version of this shard */
    uint64_t elements;
    uint64_t filled; /* number of elements that have values, from the first on */
    struct consistency consistency;
    bool has_slots;
    bool keeps_bases;
    bool closed;
    struct era *eras; /* [era_count], at least one */
    size_t era_count;

    /* Sync. */
    uint32_t replicas;        /* 0 in other modes */
    struct shard_node *nodes; /* [replicas] */
    void *addend;             /* the update adds it to the sum in nodes[0]; NULL between steps */
    uint32_t full_in;         /* partial: replicas with data that are in, */
    uint32_t empty_in;        /* and without */
    uint32_t missing;         /* partial, not the lead: replicas of a known decision not in yet */
    struct shard_decision decisions[SHARD_DECISIONS_KEPT]; /* step % SHARD_DECISIONS_KEPT */
    struct shard_pacing pacing;
    struct shard_sums sums;

    /* Async, bounded. */
    struct ledger ledger;
    struct shard_queued *queue; /* oldest first */
    size_t queue_count, queue_capacity;
    /* tickets of pushes that have left the queue; those in it have the next ones */
    uint64_t tickets_applied;

    struct shard_worker *workers;
    size_t worker_count;
    uint64_t pace; /* the least clock of the active workers; UINT64_MAX: none is active */

    struct shard_parked *parked; /* oldest first */
    size_t parked_count, parked_capacity;

    struct shard_pin pins[SHARD_PINS_MAX];
    struct shard_reader readers[SHARD_READERS_MAX];
    uint64_t unpinned[SHARD_UNPINNED_KEPT]; /* checksums of the last ones, in a ring */
    size_t unpinned_count;                  /* that there were */

    uint64_t examples; /* applied */
    uint64_t pushes_applied;
    uint64_t pushes_duplicate;
    uint64_t pushes_dropped;

    struct shard_standby standby;
};

/* The files from top to bottom: each calls only those below it. At the top are shard.c, the
 * entrance, shard_exchange.c and shard_apply.c. */

#define X(NAME, name)                                                                              \
    void shard_on_##name(struct shard *s, const struct shard_event *e, struct shard_actions *out);
SHARD_EVENTS(X)
#undef X

/* ---- shard_backup.c: what a backup does ---- */

/* True if @e is not for a backup, and the shard is one: it is refused. */
bool shard_backup_refuses(const struct shard *s, const struct shard_event *e,
                          struct shard_actions *out);

/* ---- shard_membership.c: generations, and the end ---- */

/* Takes the generation of @e, a new one, and all that comes with it. Errors, with nothing changed:
 * as of SHARD_MEMBERSHIP. */
int shard_membership_take(struct shard *s, const struct shard_event *e, struct shard_actions *out);

/* Counts that fit their shape. Errors: ERR_INVALID. */
int shard_ledger_check(const struct ledger *l, struct err *err);

/* ---- shard_pin.c ---- */

const struct shard_pin *shard_pin_find(const struct shard *s, const char *id);
/* May the present version be pinned as @e says? Errors: those of SHARD_PIN. */
int shard_pin_check(struct shard *s, const struct shard_event *e, struct err *err);
/* Pins it; it may, and is not pinned so already. */
const struct shard_pin *shard_pin_take(struct shard *s, const struct shard_event *e,
                                       struct shard_actions *out);
/* Takes the pin of @e back, if there is one, and notes its id. */
void shard_pin_end(struct shard *s, const struct shard_event *e, struct shard_actions *out);
void shard_pins_release(struct shard *s, struct shard_actions *out);
/* The same of all but @keep (NULL: none) while the shard goes on: they are as if unpinned. */
void shard_pins_forget(struct shard *s, const char *keep, struct shard_actions *out);

/* ---- shard_sync.c: all replicas of a step ---- */

/* Take the push of @e; @request->train becomes what to answer. The gradient is taken unless an
 * error is returned. */
int shard_push_sync(struct shard *s, const struct shard_event *e, struct shard_parked *request,
                    struct shard_actions *out);

/* ---- shard_sync_step.c: one step of sync ---- */

/* Do what can be done with the step at @e, if there is a free snapshot and all that it takes. */
void shard_sync_go_on(struct shard *s, const struct shard_event *e, struct shard_actions *out);
/* Drop what is in of the unfinished step, which begins again at @now_ms. */
void shard_sync_forget(struct shard *s, uint64_t now_ms, struct shard_actions *out);
void shard_sync_resize(struct shard *s); /* for s->consistency; nothing may be in */
/* The update of the present step with the sum in nodes[0]. */
void shard_sync_apply(struct shard *s, uint64_t now_ms, struct shard_actions *out);

/* ---- shard_park.c: requests that wait ---- */

/* Answer the request @p, or leave it: 0 answered, 1 it must wait, ERR_* refused for @err. */
int shard_try_answer(struct shard *s, const struct shard_parked *p, struct shard_actions *out,
                     struct err *err);
void shard_answer_rows(const struct shard *s, void *tag, uint64_t version,
                       struct shard_actions *out);
/* True if @version is the present one or the one before it. Pins are asked for by their ids. */
bool shard_readable(const struct shard *s, uint64_t version);
/* Errors: ERR_EXHAUSTED. */
int shard_park(struct shard *s, const struct shard_parked *p, struct err *err);
/* Answers all requests that waited for what is now there. */
void shard_wake(struct shard *s, struct shard_actions *out);
/* End all with the error in @out->err. */
void shard_refuse_parked(struct shard *s, struct shard_actions *out);

/* ---- shard_read.c: readers' pins ---- */

/* Ends those whose time is over at @now_ms. */
void shard_readers_pass(struct shard *s, uint64_t now_ms, struct shard_actions *out);
/* There is a new version, or it may be shown: pins it for those who wait for it. */
void shard_readers_wake(struct shard *s, uint64_t now_ms, struct shard_actions *out);
/* Ends those that wait, with the error in @out->err. */
void shard_readers_refuse(struct shard *s, struct shard_actions *out);
/* True if @tag was a reader that waits. */
bool shard_readers_gone(struct shard *s, const void *tag, struct shard_actions *out);
void shard_readers_release(struct shard *s, struct shard_actions *out); /* nobody waits */
size_t shard_readers_count(const struct shard *s);

/* ---- shard_hold.c: answers that wait for the backup ---- */

/* True if as many wait as may, and the one to @e might: it is refused, before it changes anything.
 */
bool shard_hold_is_full(const struct shard *s, const struct shard_event *e, struct err *err);
/* Takes those of the step @e out of @out that show what the backup has not received yet. */
void shard_hold_answers(struct shard *s, const struct shard_event *e, struct shard_actions *out);
/* It has all: they are given. What they borrow is there until shard_hold_clear(). */
void shard_hold_let_go(struct shard *s, struct shard_actions *out);
void shard_hold_clear(struct shard *s); /* the next step begins */
/* Refuses all, with the error in @out->err. */
void shard_hold_refuse(struct shard *s, struct shard_actions *out);
void shard_hold_gone(struct shard *s, const void *tag); /* nobody waits for it */

/* ---- shard_fill.c ---- */

/* Takes the values of @e, from the first on that is not there. */
void shard_fill_take(struct shard *s, const struct shard_event *e, struct shard_actions *out);

/* Are its values there? Errors: ERR_STATE: workers are bringing them; asked again later it will do.
 */
int shard_check_filled(const struct shard *s, struct err *err);

/* ---- shard_async.c ---- */

/* Takes a push, as shard_push_sync(). @request->ticket is the push's when it waits in the queue,
 * else 0. */
int shard_push_async(struct shard *s, const struct shard_event *e, struct shard_parked *request,
                     struct shard_actions *out);
/* Apply the oldest push of the queue. */
void shard_async_apply(struct shard *s, struct shard_actions *out);
/* Apply @q, which is the next of its split. */
void shard_async_update(struct shard *s, const struct shard_queued *q, struct shard_actions *out);
void shard_async_forget(struct shard *s, struct shard_actions *out);
uint32_t shard_progress(const struct shard *s, uint64_t epoch, uint32_t split);

/* ---- shard_sums.c: sums over whole variables ---- */

/* The step is ready and there is a free snapshot: begin the update. True: apply it now. */
bool shard_sums_go_on(struct shard *s, struct shard_actions *out);
bool shard_sums_wanting(const struct shard *s); /* the step waits for totals */
void shard_sums_applied(struct shard *s);
/* Forgets sums that were begun of the unfinished step. */
void shard_sums_forget(struct shard *s, struct shard_actions *out);
/* Can there be what @e asks for or brings? Errors: ERR_INVALID, ERR_RANGE. */
int shard_sums_check(const struct shard *s, const struct shard_event *e, struct err *err);
/* Answers a request for sums, as shard_try_answer() does others. */
int shard_sums_answer(const struct shard *s, const struct shard_parked *p,
                      struct shard_actions *out, struct err *err);
/* Take @e's totals. 1: they are the last ones. Errors: ERR_RANGE. */
int shard_sums_take(struct shard *s, const struct shard_event *e, struct shard_actions *out);

/* The rounds of an update that was made elsewhere, with their @totals. */
void shard_sums_repeat(struct shard *s, const struct exchange_totals *totals,
                       struct shard_actions *out);

/* ---- shard_record.c: what a primary says to its backup ---- */

/* Say what comes next to the backup, if there is one. @q: the update's; NULL in sync, where it is
 * of the sum in nodes[0]. */
void shard_record_update(struct shard *s, const struct shard_queued *q, struct shard_actions *out);
void shard_record_decision(struct shard *s, struct shard_actions *out); /* of the present step */
/* Say the state to the backup of @e, which joins; it is kept until shard_record_state_end(). */
void shard_record_state(struct shard *s, const struct shard_event *e, struct shard_actions *out);
void shard_record_state_end(struct shard *s, struct shard_actions *out); /* if it is kept */
/* A change with which the event of the step comes. */
void shard_record_event(struct shard *s, enum shard_record_kind kind, struct shard_actions *out);
static inline bool shard_has_backup(const struct shard *s)
{
    return s->standby.role == SHARD_PRIMARY;
}
/* True if the backup lacks a record that was said, and the shard shows nothing before it has it. */
static inline bool shard_unreceived(const struct shard *s)
{
    if (MUTANT(alone_by_itself) && s->standby.now_ms > s->standby.unreceived_ms + 500) {
        return false;
    }
    return shard_has_backup(s) && !s->standby.joining && s->standby.received < s->standby.records;
}
/* True if no update may begin: the backup is to receive something first. One that catches up lacks
 * one record less for each two that it receives. */
static inline bool shard_awaits_backup(const struct shard *s)
{
    const struct shard_standby *b = &s->standby;
    if (!b->joining) {
        return shard_unreceived(s);
    }
    const uint64_t halves = (b->received - b->caught) / 2;
    return !b->state_kept && !MUTANT(joining_without_bound) &&
           b->records - b->received + halves >= b->behind;
}

/* The newest version that anybody may see. */
static inline uint64_t shard_shown(const struct shard *s)
{
    return shard_unreceived(s) ? s->standby.shown : s->version;
}

/* ---- shard_spare.c: speculation ---- */

void shard_spare_resize(struct shard *s);
/* A step begins (again) at @now_ms. */
void shard_spare_begin(struct shard *s, uint64_t now_ms);
/* The step is complete: what it took is the usual time of the next one. */
void shard_spare_end(struct shard *s);
void shard_spare_forgive(struct shard *s); /* nobody is slow */
/* A worker is there. */
void shard_spare_heard(struct shard *s, uint64_t now_ms);
/* Notes that @p, of the present step, came at @now_ms, whether or not it was new. */
void shard_spare_came(struct shard *s, const struct exchange_push *p, uint64_t now_ms);
/* Answer @e's request. Errors: ERR_INVALID, ERR_RANGE. */
int shard_spare_give(struct shard *s, const struct shard_event *e, struct shard_actions *out);

/* ---- shard_decide.c: partial sync, a step with fewer than all ---- */

/* shard_push_sync() of partial sync; shard_push_sync() has checked @e. True: it is new, the step
 * may be complete. */
bool shard_decide_push(struct shard *s, const struct shard_event *e, struct shard_parked *request,
                       struct shard_actions *out);
bool shard_sync_ready(const struct shard *s); /* everything of the step is there, in any sync */
/* Make the sum of the step's replicas in nodes[0], and drop the others. */
void shard_decide_sum(struct shard *s, struct shard_actions *out);
/* Begins the unfinished step, with nothing in. */
void shard_decide_begin(struct shard *s);
/* Does the present step have a decision that is not carried out here? Without rounds of sums the
 * lead is a step ahead then. */
bool shard_decide_pending(const struct shard *s);
/* Forget the decision of the present step: no shard has applied it. */
void shard_decide_erase(struct shard *s);
/* True if @replica is part of the decision. */
bool shard_decide_includes(const struct shard *s, uint32_t replica);
/* Take @e's decision. 1: it is new, the step may be complete. Errors: ERR_INVALID, ERR_RANGE. */
int shard_decide_take(struct shard *s, const struct shard_event *e, struct shard_actions *out);
/* Answers a push whose step is complete with what became of it. */
void shard_decide_answer(const struct shard *s, const struct shard_parked *p,
                         struct exchange_answer *answer);
/* The decision of @step, if it is known. */
void shard_decide_get(const struct shard *s, uint64_t step, struct exchange_decision *out);
/* The present step, of which nothing is in, takes the replicas of @d, as a primary has said.
 * Errors: ERR_INVALID. */
int shard_decide_note(struct shard *s, const struct exchange_decision *d, struct err *err);
/* The lead tells its decision of @step, if it is known. */
void shard_decide_tell(const struct shard *s, uint64_t step, struct exchange_answer *answer);

/* ---- shard_tree.c: the sums of a step ---- */

/* True if @b is part of a sum that is in. */
bool shard_tree_covers(const struct shard *s, struct tree_block b);
/* Adds the sum that begins at @from to the one that begins at @to. @last: that makes it the sum
 * of the whole step, which is applied before anything else happens. */
void shard_tree_combine(struct shard *s, uint32_t to, uint32_t from, bool last,
                        struct shard_actions *out);
/* Adds @b, which is in, to its sibling as soon as both are in, and so on up the tree. @can_apply:
 * the sum of the whole step is applied as soon as it is complete. */
void shard_tree_rise(struct shard *s, struct tree_block b, bool can_apply,
                     struct shard_actions *out);

/* ---- shard_workers.c: bounded staleness ---- */

uint32_t shard_worker_find(const struct shard *s, const char *id);
int shard_workers_check(const char *const *ids, size_t count, struct err *err);
/* Copy the list; who stays keeps its base. The queue is empty. */
void shard_workers_set(struct shard *s, const char *const *ids, size_t count,
                       struct shard_actions *out);
void shard_workers_reset(struct shard *s); /* all begin anew */
/* Makes a worker active, that comes or comes back: others wait for it again. A worker that @joins
 * gets the clock of the slowest. A late request, of a session that is over, changes nothing. */
void shard_worker_activate(struct shard *s, uint32_t worker, uint64_t session, bool joins);
/* Takes the clock of a worker. A request that comes again, or late, takes nothing back. */
void shard_worker_says(struct shard *s, uint32_t worker, uint64_t clock);
void shard_worker_idle(struct shard *s, uint32_t worker, uint64_t session);
/* True while @worker is too far ahead of the slowest active one. */
bool shard_worker_ahead(const struct shard *s, uint32_t worker);

/* ---- shard_policy.c: gradients of old parameters ---- */

/* Checks whether @p may come to this shard. Errors: ERR_STATE: the lead has to take it first. */
int shard_policy_check(const struct shard *s, const struct exchange_push *p, struct err *err);
bool shard_policy_drops(const struct shard *s, uint64_t staleness); /* the lead: too stale */
/* How the update @a, with its staleness, makes up for the age of the gradient of @q. */
void shard_policy_correct(const struct shard *s, const struct shard_queued *q,
                          struct shard_action *a);
/* The newest version is sent to @worker. */
void shard_policy_sent(struct shard *s, uint32_t worker, struct shard_actions *out);
/* Forgets the versions that are kept for workers. */
void shard_policy_forget_all(struct shard *s, struct shard_actions *out);

/* ---- shard_actions.c: the shelf ---- */

struct shard_action *shard_act(struct shard_actions *out, enum shard_action_kind kind);
void shard_release_buffer(struct shard_actions *out, void *buffer); /* NULL is fine */
/* Answer @tag with the error in @out->err. */
void shard_refuse(const struct shard *s, void *tag, struct shard_actions *out);
void shard_reply_state(const struct shard *s, void *tag, struct shard_actions *out);
/* 0, or the reason in @err why @generation may not speak. */
int shard_check_generation(const struct shard *s, uint64_t generation, struct err *err);
/* Examples and elements of the push of @e. Errors: ERR_INVALID. */
int shard_check_push(const struct shard *s, const struct shard_event *e, struct err *err);
/* Take the eras of @eras. They are checked. */
void shard_eras_set(struct shard *s, const struct era *eras, size_t count);
/* The era of the update from @version on. */
static inline size_t shard_era(const struct shard *s, uint64_t version)
{
    return era_at(s->eras, s->era_count, version);
}
/* Rounds of sums in step @step. */
static inline uint32_t shard_rounds(const struct shard *s, uint64_t step)
{
    return s->eras[shard_era(s, step)].rounds;
}

#endif
