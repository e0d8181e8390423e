/* SPDX-License-Identifier: Apache-2.0 */
/* What anybody can know about a job: the part of it that is shown, stored, and outlives it. Plain
 * data; strings are owned and never NULL after job_record_init(). */
#ifndef GRADUS_MASTER_CORE_JOB_RECORD_H
#define GRADUS_MASTER_CORE_JOB_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "graph/metric.h"
#include "job/progress/best.h"
#include "job/progress/consistency.h"
#include "job/progress/fence.h"
#include "job/progress/ledger.h"
#include "job/progress/step_times.h"

#define JOB_ID_BYTES_MAX 128
#define JOB_NAME_BYTES_MAX                                                                         \
    (JOB_ID_BYTES_MAX - 21) /* the longest number and its dash fit behind it */
#define JOB_EVALUATIONS_MAX 1000
#define JOB_STALENESS_BUCKETS 24 /* 0, 1, 2, 3-4, 5-8, … */

/* The numbers are those of JobState in types.proto; 0 is not a state. */
enum job_state {
    JOB_PENDING = 1,
    JOB_STARTING,
    JOB_RUNNING,
    JOB_RECOVERING,
    JOB_SUCCEEDED,
    JOB_FAILED,
    JOB_CANCELLED,
    JOB_PAUSED,   /* holds nothing until it is resumed */
    JOB_STATE_END /* one past the last */
};

/* What a job without nodes waits for; the numbers are those of Waiting in jobs.proto. */
enum job_waiting {
    JOB_WAITS_NOT,
    JOB_WAITS_NODES,    /* workers or parameter servers */
    JOB_WAITS_TURN,     /* a job of a higher priority has the first right to the next nodes */
    JOB_WAITS_QUOTA,    /* its owner has reached a quota */
    JOB_WAITS_RESUME,   /* it is paused */
    JOB_WAITS_PAUSE,    /* between two attempts to start it */
    JOB_WAITS_READABLE, /* a master that can read its job file */
    JOB_WAITING_COUNT
};

const char *job_state_name(enum job_state s); /* "PENDING" */
bool job_state_is_final(enum job_state s);
/* True if a job may change its state so: the only table of transitions (job_state.c has the
 * picture). */
bool job_state_allows(enum job_state from, enum job_state to);

struct job_metrics {
    unsigned kinds; /* bit set of 1 << metric_kind: which values are known */
    bool part;      /* of an epoch in which the job recovered: without the part before that */
    double values[METRIC_KIND_COUNT];
};

/* What @sums say, for the metrics of @sums->kinds. Without examples nothing is known. */
void job_metrics_set(struct job_metrics *m, const struct metrics *sums, double label_scale);

struct job_evaluation {
    uint64_t step;
    double epoch; /* epochs of data applied */
    struct job_metrics train, test;
    int64_t time_ms; /* Unix time */
};

struct job_names {
    char **items;
    size_t count, capacity;
};

/* Fingerprints of what a job is trained on; 0: not known, or there is none. */
struct job_data {
    uint64_t train, test;
    uint64_t given; /* variables and their initial values that workers bring */
};

/* What a shard said last. */
struct job_shard {
    char *ps;
    char *backup; /* the server of its backup; "": it has none */
    char
        *backup_problem; /* why there is none, although the job is to have one; "": nothing known */
    bool follows;        /* the backup can take over; before that so much has left of the state: */
    uint64_t state_sent, state_bytes;
    uint64_t backup_behind; /* changes that the backup has not received */
    uint64_t value_bytes;   /* of the plan; 0: not known */
    uint64_t version, examples, duplicates, dropped;
    struct ledger ledger; /* async, bounded; split_count 0: none */
};

/* The update section of the job's file in versions from @version on; ERA_NEXT_START: from where the
 * job starts next. */
struct job_era {
    uint64_t version;
    char *update; /* owned; as job_update_section() cuts it out */
};
#define ERA_NEXT_START UINT64_MAX

/* What a client changed of the job's file, and where the shards were when it came into force. */
struct job_revision {
    int64_t time_ms;        /* Unix time */
    char *by;               /* who asked for it; "": nobody known */
    uint64_t step, version; /* ERA_NEXT_START: it holds from where the job starts next */
    struct job_names sets;  /* "update.learning_rate=0.01" */
};
#define JOB_CHANGES_MAX 256

/* What a client asks for, and its name; borrowed. */
struct job_set_words {
    const char *by;    /* "" or NULL: not known */
    char *const *sets; /* "update.learning_rate=0.01" */
    size_t set_count;
};

/* Eras and changes of a job (job_history.c). */
struct job_history {
    struct job_era *eras; /* in the order of versions, the first from 0 on; none: one for ever */
    size_t era_count, era_capacity;
    struct job_revision *changes; /* oldest first */
    size_t change_count, change_capacity;
};

/* What a later master needs to take a running job over as it is (adopt.c). */
struct job_handover_node {
    char *id, *address, *http_address, *host, *version; /* owned */
    uint64_t pid, incarnation;
    uint64_t start;                   /* of a worker: number of its StartJob */
    uint64_t opening, backup_opening; /* of a shard and its backup */
    uint32_t backup;     /* the place of the latter's server, from 1; 0: there is none */
    bool backup_follows; /* it can take over */
};
struct job_handover_pin {                /* a version on which work goes on while training does */
    char *id;                            /* owned; NULL: there is none */
    uint64_t step, examples, data_epoch; /* as in struct sync_point */
    double epoch;
    bool evaluate, checkpoint;
    struct ledger ledger; /* owned */
};
struct job_handover {
    uint64_t opening;          /* of its shards; 0: it does not run, and there is nothing else */
    uint32_t format, protocol; /* of the master that noted it: base/release.h */
    struct job_handover_node *servers, *workers; /* in the order of shards, and of shares; owned */
    struct job_handover_node *others; /* servers that have backups alone: behind `servers`; owned */
    size_t server_count, worker_count, other_count;
    uint64_t step;                             /* at which its step map begins, */
    struct ledger ledger;                      /* and the position there; owned */
    uint64_t version_shift, checkpointed_step; /* as in struct job */
    bool changing; /* the shards are being told of a change of its file at that step */
    struct job_handover_pin pin;
};
void job_handover_release(struct job_handover *h); /* zeroed is fine; afterwards it is */
void job_handover_copy(struct job_handover *to, const struct job_handover *from); /* overwritten */
/* The server at @place, from 1, which there is. */
const struct job_handover_node *job_handover_place(const struct job_handover *h, uint32_t place);
void job_handover_no_backup(struct job_handover_node *server);
/* Makes room for nodes, all of whose texts are "". */
struct job_handover_node *job_handover_nodes(size_t count);

struct job_worker_times { /* over the last 3 to 6 seconds, unless a step takes longer */
    char *worker;
    struct step_times times;
};

struct job_record {
    char *id, *name, *request_id, *reason, *checkpoint, *text;
    char *owner; /* the submitter; "": not known */
    int32_t priority;
    bool paused;        /* by a client: holds across restarts of the master */
    uint64_t ps_memory; /* bytes that its shards take, as far as known; else 0 */
    uint32_t servers;   /* with so many it ran last; 0: never. Its file says how many it wants */
    /* place among the jobs that wait, from 1; 0: it does not wait; not stored */
    uint64_t queue_position;
    enum job_waiting waiting; /* the same */
    uint64_t preemptions;     /* times that it made way for another job */
    char *activity; /* calls that it waits for, in words, at the moment when it is read; else "" */
    enum job_state state;
    struct consistency consistency;                /* replicas 0: not known yet */
    int64_t submitted_ms, started_ms, finished_ms; /* Unix time; 0: not yet */
    uint64_t step, steps_total;
    double epoch, epochs_total;
    uint64_t examples;
    struct job_metrics train, test;
    double *confusion; /* [classes × classes] by label, then prediction, of the last evaluation */
    size_t confusion_count;
    struct job_evaluation *evaluations; /* oldest first */
    size_t evaluation_count, evaluation_capacity;
    double examples_per_second, seconds, eta_seconds;
    struct job_names workers, ps;
    struct best best;      /* by training.stop */
    char *best_checkpoint; /* directory of the best version that is kept; "": none */
    char *started_from;    /* what was taken by `from`, in words; "": nothing */
    uint64_t generation;
    uint8_t secret[FENCE_SECRET_BYTES]; /* stored; not shown, not logged. Zeros: not drawn yet */
    uint64_t staleness[JOB_STALENESS_BUCKETS];
    uint64_t left_out; /* records of each epoch, by training.drop_last */
    uint64_t dropped, speculated, recoveries, adoptions, takeovers;
    struct job_history history;
    uint64_t resumes;     /* times that it was resumed after it had ended */
    char *ended_before;   /* how it ended last before that, "FAILED: …"; "": it did not */
    uint64_t stop_passed; /* it had SUCCEEDED at this step, and was resumed: training.stop begins
                             to wait for something better there; 0: never */
    struct job_data data; /* the data that it was trained on; stored, not shown */
    struct job_handover handover; /* stored, not shown */
    struct job_shard *shards;
    size_t shard_count;
    struct step_times times; /* of all workers */
    struct job_worker_times *worker_times;
    size_t worker_times_count, worker_times_capacity;
};

/* True if ids and directories may begin with @name: letters, digits, '.', '_' and '-', the latter
 * not first. */
bool job_name_is_good(const char *name);

void job_record_init(struct job_record *r);
void job_record_release(struct job_record *r);
void job_record_copy(struct job_record *to,
                     const struct job_record *from);  /* @to is uninitialised */
void job_record_set(char **field, const char *value); /* replace an owned string */
/* Takes the counts of @m, which may have none. */
void job_record_set_confusion(struct job_record *r, const struct metric_tally *m);
/* Appends @e; the oldest one goes when there are JOB_EVALUATIONS_MAX. */
void job_record_add_evaluation(struct job_record *r, const struct job_evaluation *e);

/* Forgets the reports of shards; makes @count new shards without one. */
void job_record_set_shards(struct job_record *r, size_t count);

/* Add what @worker reports; without steps it says nothing of the time of a step lately. */
void job_record_add_times(struct job_record *r, const char *worker, const struct step_times *times);
void job_record_drop_times(struct job_record *r, const char *worker); /* not there: fine */

void job_history_release(struct job_history *h);
void job_history_copy(struct job_history *to,
                      const struct job_history *from); /* @to: overwritten */
/* The update section becomes @to from @version on, ERA_NEXT_START included; it was @from. What was
 * to become of it at that version or later is forgotten. */
void job_history_update(struct job_history *h, uint64_t version, const char *from, const char *to);
/* Append a change; the oldest one goes when there are JOB_CHANGES_MAX. Copies all. */
void job_history_add(struct job_history *h, const struct job_revision *change);
void job_history_add_era(struct job_history *h, uint64_t version, const char *update);
/* The job starts at @version, which is @step: what waited for that holds from there on. True:
 * something did. */
bool job_history_start(struct job_history *h, uint64_t version, uint64_t step);

void job_names_add(struct job_names *n, const char *name);
void job_names_clear(struct job_names *n);

#endif
