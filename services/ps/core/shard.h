/* SPDX-License-Identifier: Apache-2.0 */
/* The core of a parameter server: what one shard decides.
 *
 * An event goes in, actions come out. No clock, thread, socket, file, log or message type inside,
 * and no array of floats: arithmetic and memory are actions on buffers and versions, so the same
 * core runs over a hundred million floats here and over eight in a simulator.
 *
 * It decides: which generation may speak, which push is new, what is added to what and when it is
 * applied, which request waits and which is answered, which versions stay readable.
 *
 * Owner: whoever steps it, one at a time (a strand). Buffers (struct-less pointers) that come with
 * an event belong to the core until it emits SHARD_RELEASE for them.
 *
 * Answers: every request event gets exactly one SHARD_REPLY (or SHARD_WRITE for a checkpoint), in
 * its own step or a later one, unless its caller is gone (SHARD_GONE). */
#ifndef GRADUS_PS_CORE_SHARD_H
#define GRADUS_PS_CORE_SHARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "job/progress/consistency.h"
#include "job/progress/era.h"
#include "job/progress/exchange.h"
#include "job/progress/fence.h"
#include "job/progress/ledger.h"
#include "ps/core/shard_record.h"

#define SHARD_PARKED_MAX                                                                           \
    8192                          /* requests that wait: thousands of clients with one each; and   \
                                     answers that wait for the backup */
#define SHARD_PINS_MAX 4          /* the master keeps one; room for a late Unpin */
#define SHARD_READERS_MAX 4       /* readers' pins; with the others no more than a table can have */
#define SHARD_READER_MS_MAX 60000 /* a reader's pin outlives its reader by so much at most, */
#define SHARD_READER_ALL_MS_MAX 600000 /* and its own beginning */
#define SHARD_UNPINNED_KEPT 256        /* ids that a late Pin may name no more */
#define SHARD_PIN_ID_BYTES 129         /* with the NUL */
#define SHARD_WORKERS_MAX 4096
#define SHARD_REPLICAS_MAX CONSISTENCY_REPLICAS_MAX /* 2 MiB of nodes */
#define SHARD_WORKER_BYTES 129                      /* with the NUL */
#define SHARD_QUEUE_MAX 256 /* pushes that wait for a free snapshot; each holds a gradient */
/* rounds of sums over whole variables; no update takes more than four */
#define SHARD_ROUNDS_MAX 8

struct shard;

/* ---- events ---- */

/* One line per kind: its handler is shard_on_<name>(), in the file that is named here. */
#define SHARD_EVENTS(X)                                                                            \
    X(EXCHANGE, exchange)     /* shard_exchange.c: of any kind */                                  \
    X(FILL, fill)             /* shard_fill.c: initial values that a worker brings */              \
    X(MEMBERSHIP, membership) /* shard_membership.c: a new generation */                           \
    X(PIN, pin)               /* shard_pin.c */                                                    \
    X(UNPIN, unpin)           /* shard_pin.c */                                                    \
    X(CHECKPOINT, checkpoint) /* shard_pin.c: write a pinned version */                            \
    X(READ, read)             /* shard_read.c: a reader of the running job pins or reads */        \
    X(STATE, state) /* shard_membership.c: answers with the state; for a repeated OpenShard */     \
    X(GONE, gone)   /* shard_park.c: the caller of `tag` is gone; no reply */                      \
    X(SNAPSHOT, snapshot) /* shard_apply.c: a snapshot is free again; no reply */                  \
    X(RECORD, record)     /* shard_backup.c: of a backup: what its primary says */                 \
    X(RECEIPT, receipt)   /* shard_apply.c: of a primary: its backup has records; no reply */      \
    X(CLOSE, close)       /* shard_membership.c: nothing is asked afterwards */

enum shard_event_kind {
#define X(NAME, name) SHARD_##NAME,
    SHARD_EVENTS(X)
#undef X
        SHARD_EVENT_KINDS
};

/* What a reader asks for, under the pin_id that it drew. */
struct shard_read {
    enum {
        SHARD_READ_PIN,  /* the present version, or the @exact one when it is there */
        SHARD_READ_PART, /* something of the pinned version: the answer says which that is */
        SHARD_READ_END,  /* the pin is not needed any more; no pin: fine. The answer has the present
                            version */
    } kind;
    bool exact;
    uint64_t version;
    uint64_t ms; /* the pin ends so long after this request, unless others come */
};

struct shard_event {
    enum shard_event_kind kind;
    uint64_t now_ms;
    uint64_t generation;
    struct fence fence; /* of a worker only its opening */
    bool own;           /* the server's own: it needs no fence */
    /* of the request, handed back in its reply; unique among requests that wait */
    void *tag;
    bool can_apply; /* a snapshot is free to write the next version to */

    /* SHARD_EXCHANGE; all borrowed but the gradient. Whoever makes it with totals has checked that
     * they are whole; SHARD_SETTLE borrows them. */
    const char *worker;
    struct exchange_request ask;
    void *gradient;    /* gradient of its push; NULL: none came */
    uint64_t elements; /* of that */

    /* SHARD_FILL: initial values of elements [first, first + elements), which SHARD_PUT borrows;
     * none: how far is it filled? */
    uint64_t first;
    const void *given;

    /* SHARD_MEMBERSHIP */
    const char *const *workers;
    size_t worker_count;
    /* With a ledger: consistency and data position change; a shard that is not at @version, or in
     * async and bounded modes not at @ledger, or that knows of a decision which it has not carried
     * out, refuses with ERR_STATE and changes nothing. */
    const struct consistency *consistency;
    const struct ledger *ledger;
    uint64_t version;
    const struct era *eras; /* with a ledger: all of the job; none: as before */
    size_t era_count;
    bool forget_pins;     /* who made the pins there are is gone; this one stays: */
    const char *keep_pin; /* NULL or "": none */
    /* The shard has the backup that was opened as @backup; without one it is alone from now on.
     * Another one than before joins (shard_joins()), and @slots_buffer is for a copy of the slots.
     * A backup is the primary from now on, if it may: @promote. */
    bool has_backup, promote;

    /* SHARD_RECORD: besides, what the event of the change itself has: SHARD_FILL, SHARD_MEMBERSHIP
     * (with the new generation, alone), SHARD_PIN, SHARD_UNPIN; an update has @gradient, @elements,
     * and the totals of its rounds, borrowed. The state: @generation, @workers, @consistency,
     * @ledger, @eras, and @elements, of which the shell has the values and the slots. */
    struct shard_record record;
    const struct exchange_totals *totals;
    const struct err *cannot; /* why the shell cannot make this change; NULL: it can */

    /* SHARD_RECEIPT: the backup that was opened as @backup has all records up to this one */
    uint64_t received;
    uint64_t backup;

    struct shard_read read; /* SHARD_READ */

    /* SHARD_PIN, SHARD_UNPIN, SHARD_CHECKPOINT, SHARD_READ */
    const char *pin_id;
    bool slots;         /* SHARD_PIN: keep the slots too */
    void *slots_buffer; /* SHARD_PIN, SHARD_MEMBERSHIP with which a backup joins: where slots are
                           copied to; NULL: the rule has none */
};

/* ---- actions ---- */

enum shard_action_kind {
    SHARD_ADD,    /* buffer += source */
    SHARD_APPLY,  /* version := the one before it, updated with buffer / examples, or with a source:
                     (buffer + source) / examples, in one pass over memory. Without a buffer the
                     values stay the same. The two newest versions stay readable. The learning rate
                     is multiplied by lr_scale; with has_base the gradient is compensated by lambda
                     for the way from base_version, which is readable, to the version before the new
                     one. */
    SHARD_REDUCE, /* sums over whole variables: begin round 0 of the update to `version` with
                     buffer / examples (no buffer: nobody had examples), or a later round with what
                     the rounds before were settled with. Keep the partial sums of this shard */
    SHARD_SETTLE, /* `totals` are those of `round`: keep them, and after SHARD_APPLY those of all
                     rounds, until the totals of the next version are made */
    SHARD_ABANDON, /* the update that SHARD_REDUCE began will not be: nothing of it stays */
    SHARD_PUT,     /* @count of the values that are given, from number @skip on, become elements
                      [first, first + count) of version, which nobody has read. With @whole the
                      shard has all of its values now: its slots begin with them */
    SHARD_RELEASE, /* buffer is not needed any more */
    SHARD_KEEP,    /* version, the newest, stays readable until SHARD_FORGET; with a buffer: copy
                      the slots to it. At most SHARD_PINS_MAX at a time, and (in async and bounded
                      with POLICY_DELAY_COMPENSATION or keeps_bases) one for each worker; for
                      readers SHARD_READERS_MAX, as many as shard_info says; and one for a backup
                      that joins */
    SHARD_FORGET,  /* version (one SHARD_KEEP less) */
    SHARD_WRITE,   /* answer `tag`: write version and the slots in buffer to a file */
    SHARD_REPLY,   /* answer `tag`; with values of a pin: its slots are in buffer, if it has them */
    SHARD_EMIT,    /* send `record` to the backup, with the gradient in buffer (as it is now: the
                      update may overwrite it) or with what the event has that is stepped; again, in
                      order, until SHARD_RECEIPT says that the backup has it. The state comes after
                      the SHARD_KEEP of its version, which holds until it was received, with the
                      copy of the slots in buffer and the data position in ledger; the workers are
                      those of the event, all else is as shard_info() says after the step */
    SHARD_LOAD,    /* the values and the slots that came with a record are those of version, which
                      nobody has read */
};

struct shard_action {
    enum shard_action_kind kind;
    void *tag;
    void *buffer;
    void *source;
    uint64_t version;
    size_t era; /* SHARD_APPLY, SHARD_REDUCE: that the update is of, by its place in the list */
    uint64_t examples;
    uint64_t staleness; /* SHARD_APPLY in async, bounded: of the gradient */
    float lr_scale;     /* SHARD_APPLY: 1 but for POLICY_SCALE_LR */
    /* SHARD_APPLY: a base of the gradient is kept. SHARD_KEEP, SHARD_FORGET: the version is kept
     * for a worker; else it is pinned. */
    bool has_base;
    bool reader; /* SHARD_KEEP, SHARD_FORGET: the version is kept for a reader */
    bool state;  /* SHARD_KEEP, SHARD_FORGET: the version is kept for a backup that joins */
    uint64_t base_version;
    float lambda;

    /* SHARD_PUT */
    const void *given;
    uint64_t first, count, skip;
    bool whole;

    /* SHARD_REPLY */
    int code;        /* 0, or ERR_*: shard_actions.err has the words */
    bool values;     /* send the values of `version` */
    bool rows;       /* send the rows that were asked for, as of `version` */
    uint64_t filled; /* to SHARD_FILL: so many elements have values, from the first on */
    uint64_t generation;
    const struct ledger *ledger; /* batches in `version`, or NULL; borrows until the next step. Also
                                    of SHARD_EMIT of the state */
    /* examples of all training that `version` has taken in. Also of SHARD_WRITE */
    uint64_t examples_applied;
    struct exchange_answer answer; /* to an exchange; its bytes are borrowed until the next step.
                                      The shell has the data of sums */

    struct shard_record record; /* SHARD_EMIT */
    uint64_t received; /* SHARD_REPLY to SHARD_RECORD: the receipt, of all records up to this one */

    struct exchange_round round; /* SHARD_REDUCE, SHARD_SETTLE */
    const void *totals;          /* SHARD_SETTLE: borrowed from the event */
    size_t totals_bytes;
};

/* The actions of one step, in the order in which they must be done. Zeroed is empty; kept between
 * steps, so that a step allocates nothing. */
struct shard_actions {
    struct shard_action *items;
    size_t count, capacity;
    struct err err; /* of all replies with a code: one step has one reason to refuse */
};
void shard_actions_release(struct shard_actions *a);

/* ---- the shard ---- */

struct shard_options {
    uint32_t shard; /* 0 is the job's lead */
    uint64_t generation;
    struct fence fence;
    uint64_t version;  /* 0, or of the checkpoint */
    uint64_t examples; /* applied up to @version */
    uint64_t elements;
    struct consistency consistency;
    bool given; /* workers bring the initial values: nothing is read or pushed before all are there
                 */
    bool has_slots;   /* the rule has optimizer slots */
    bool keeps_bases; /* async, bounded: the update wants what the worker read, whatever the policy
                       */
    /* Copied; none: one era without rounds. Rounds are those that steps of sync take with the other
     * shards: 0 when this is the only shard, or the update needs none. */
    const struct era *eras;
    size_t era_count;
    const struct ledger *ledger; /* the data position at `version`; copied */
    const char *const *workers;  /* copied */
    size_t worker_count;
    enum shard_role role;
    uint64_t backup; /* SHARD_PRIMARY: the opening of its backup */
    bool joins;      /* SHARD_BACKUP: its primary has begun before. It has nothing until the state
                        comes, which is the first record */
};

/* Returns owned. Errors: ERR_INVALID replicas, workers or ledger that cannot be; gradients that
 * need what a worker read, which no backup has. */
struct shard *shard_new(const struct shard_options *options, struct err *err);
/* Buffers that are still in it are the caller's to find: step SHARD_CLOSE before. */
void shard_free(struct shard *s);

/* What an OpenShard of @generation means for the shard that is there (NULL: none), which was opened
 * with @opened_generation. */
enum shard_open {
    SHARD_OPEN_NEW,     /* make it */
    SHARD_OPEN_SAME,    /* the shard was made for this very request: answer with its state */
    SHARD_OPEN_REPLACE, /* the shard is of a start that is over: close it, whatever waits, and make
                           it anew */
    SHARD_OPEN_REFUSED, /* with @err: ERR_ABORTED the request is an old one; ERR_UNAUTHENTICATED the
                           shard is another master's */
};
/* The newest openings that were closed on this server. An OpenShard with one of them came late, and
 * would make an empty shard. */
#define SHARD_CLOSED_KEPT 256
struct shard_closed {
    struct {
        uint64_t opening;
        uint32_t number;
    } kept[SHARD_CLOSED_KEPT];
    size_t count; /* that there were */
};
/* Shard @number of @opening is closed; 0, that of clients who draw none, may be opened again. */
void shard_closed_add(struct shard_closed *c, uint64_t opening, uint32_t number);
/* Notes the CloseShard of a shard that is not there (yet): its OpenShard may still wait for its
 * turn. */
void shard_closed_early(struct shard_closed *c, uint64_t opening, uint32_t number);
/* Errors: ERR_ABORTED it was closed. */
int shard_closed_check(const struct shard_closed *c, uint64_t opening, uint32_t number,
                       struct err *err);

enum shard_open shard_open_decide(const struct shard *present, uint64_t opened_generation,
                                  uint64_t generation, const struct fence *fence, struct err *err);

/* Does who sends @e know the shard, and may it? shard_step() asks this first; a shell asks before
 * it finds memory for a request. Errors: ERR_ABORTED of another opening; ERR_UNAUTHENTICATED a
 * master's request without the secret. */
int shard_check_fence(const struct shard *s, const struct shard_event *e, struct err *err);
/* Take one event. @out is emptied first. */
void shard_step(struct shard *s, const struct shard_event *event, struct shard_actions *out);

/* True when @e brings totals that the core will settle: they must be whole before it is stepped. */
bool shard_takes_totals(const struct shard *s, const struct shard_event *e);

/* True when @e, if it is taken, names a backup that the shard did not have: it then needs memory
 * for the records to it, and, where the rule has slots, @slots_buffer. */
bool shard_joins(const struct shard *s, const struct shard_event *e);

/* True when something waits for a free snapshot alone: the caller steps SHARD_SNAPSHOT with
 * can_apply when there is one. */
bool shard_wants_snapshot(const struct shard *s);

/* The file that a shard wrote last. A walk may meet rows in another order the next time, so a
 * second file of the same version would differ from the one that a manifest names. A request that
 * comes again (its answer was lost, or it was late) is answered with this file, while it is there.
 * One that names another base is not the same: a later master knows of no base. */
struct shard_written {
    char pin_id[SHARD_PIN_ID_BYTES]; /* "": none */
    uint64_t base;                   /* checksum_of() its directory's name */
    uint64_t bytes, checksum;
    bool delta;
};
/* @base: directory of the base that the request names; "": none. */
bool shard_written_is(const struct shard_written *w, const char *pin_id, const char *base);
/* @written has the fields that are not @pin_id, of a request that shard_step() answered with
 * SHARD_WRITE, and @base. */
void shard_written_note(struct shard_written *w, const char *pin_id, const char *base,
                        const struct shard_written *written);

struct shard_pin_info {
    const char *id; /* borrows until the next step */
    uint64_t version;
    bool slots;
};
struct shard_info {
    uint64_t generation;
    uint64_t version;
    uint64_t elements;
    uint64_t filled; /* number of elements that have values */
    struct consistency consistency;
    uint64_t examples; /* applied, in all of the training */
    uint64_t pushes_applied;
    uint64_t pushes_duplicate;
    uint64_t pushes_dropped; /* told STALE or DROPPED */
    size_t parked;
    uint64_t parked_since_ms; /* since when the oldest request waits; 0: none waits */
    size_t queued;            /* gradients in memory: waiting for others, or for a snapshot */
    struct shard_pin_info pinned[SHARD_PINS_MAX];
    size_t pins;
    size_t readers; /* pins of readers, and readers that wait for the version to pin */
    bool closed;
    const struct ledger *ledger; /* NULL in sync; borrows */
    enum shard_role role;
    uint64_t backup;          /* a primary: the opening of its backup */
    bool follows;             /* a primary: its backup can take over */
    bool joining;             /* a primary: it does not wait for its backup yet, */
    bool state_kept;          /* which lacks the state */
    uint64_t records;         /* a primary has said, a backup has received */
    uint64_t received;        /* a primary: by its backup, of these */
    uint64_t unreceived_ms;   /* since when the oldest of the others is on its way; 0: none is */
    const struct err *broken; /* a backup: why it cannot become a primary; NULL: it can. Borrows */
};
void shard_info(const struct shard *s, struct shard_info *out);
/* True if a reader has pinned @version. */
bool shard_reads(const struct shard *s, uint64_t version);

#endif
