/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the master's core need around it: virtual time, nodes that join and beat, and
 * calls that are answered after random delays.
 *
 * Nodes know nothing of the protocol between each other: where a job is is one position, which its
 * workers move on as they were told to, and its servers say. What comes of that when nodes differ
 * is a matter of the simulator (docs/simulator.md). Here the master's decisions are tested: whom it
 * calls for what, what it stores and answers, for what it waits. What a record of a job must look
 * like is checked whenever watchers are told. */
#ifndef GRADUS_TESTS_MASTER_CLUSTER_H
#define GRADUS_TESTS_MASTER_CLUSTER_H

#include "support/test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/release.h"
#include "master/core/master.h"

#define NODES_MAX 24
#define SPLITS_MAX 256
#define FLIGHTS_MAX 512
#define JOBS_MAX 16

/* Lines such as "training.mode=async", as the two arguments of cluster_submit() and others. */
#define SETS(...)                                                                                  \
    ((const char *const[]){__VA_ARGS__}),                                                          \
        sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *)

struct fake_position { /* where a job is */
    char job[64];
    uint64_t version, pinned;
    char pin_id[64];     /* of what is pinned; "": nothing */
    uint64_t generation; /* a server knows it: nothing of an older one counts */
    bool sync;
    struct ledger ledger; /* done is in counts */
    uint32_t counts[SPLITS_MAX];
};

struct fake_checkpoint { /* the newest of a job: what its manifest says */
    char job[64], directory[96];
    uint64_t step, version;
    struct ledger ledger; /* done is in counts */
    uint32_t counts[SPLITS_MAX];
    uint64_t train_epoch;
    double train_sums[16];
    size_t train_sum_count;
    struct best best;
    bool result_is_best;
};

struct fake_worker_job { /* what a worker was told */
    bool started, assigned, hold;
    char job[64];
    uint64_t generation, start, step, limit, sequence;
    int mode;
    bool idle_sent;
    bool leasing, leased, done; /* async, bounded */
    struct lease lease;
    uint32_t batch;
    uint64_t batches, report; /* in all, since the last report */
};

struct fake_shard { /* of a server; job "": none */
    char job[64];
    uint32_t number;
    uint64_t generation, opening;
    uint64_t opened; /* the generation of its OpenShard */
    uint64_t backup; /* the opening of its backup; 0: it has none */
    bool is_backup;
    bool follows; /* a backup: it could take over */
};

struct fake_node {
    bool alive, joined, mute;
    bool leaves, moves; /* a server says that; and its master last said that */
    enum master_role role;
    char id[64], address[64];
    uint64_t incarnation, next_ms, heartbeat_ms;
    uint64_t frozen_ms; /* until then it gets no processor; what comes waits for it */
    struct fake_shard shards[2 * MASTER_JOBS_PER_PS_MAX];
    int told_mode;                   /* a server: the last one that it was told */
    struct master_standby_said says; /* of its primaries that have a backup */
    const char *says_problem;        /* of its backups */
    int refuses_backups;             /* code: none may join its primaries; 0: all may */
    bool takes_late;   /* it then takes an earlier attempt of the same, which comes late */
    bool says_joining; /* of backups that join its primaries: they do not follow yet */
    struct fake_worker_job job;
    unsigned crash_on;   /* call kind + 1 at which it dies */
    bool knows_no_base;  /* a server: it writes everything */
    bool pinned_in_sync; /* likewise: before the job was changed, so its pins have no ledger */
    int refuse;          /* code that it answers @refuse_kind with */
    enum master_call_kind refuse_kind;
    bool loses_answers;  /* it does what it answers so */
    size_t room_workers; /* a parameter server: it has memory for no more; 0: for any number */
    int full_mode;       /* likewise: for no change to this mode, counted from 1 */
    uint64_t slow_ms;    /* that @slow_kind takes longer */
    enum master_call_kind slow_kind;
    bool says_works;                /* in heartbeats: what it was asked for and has not answered, */
    uint64_t work_done, work_total; /* and how far it is */
    const char *at_a_change, *of_job; /* likewise: a server is at this, for that job; NULL: none */
    uint64_t says_opening;            /* that its shards, or its job, are of this one */
    uint64_t step_since_ms;           /* likewise: a worker computes since then; 0: it does not */
};

enum flight_kind { FLIGHT_CALL, FLIGHT_ANSWER, FLIGHT_PREPARE, FLIGHT_MANIFEST, FLIGHT_FIND };
struct flight { /* what comes to the other side, or back, later */
    bool used;
    enum flight_kind kind;
    uint64_t ms, number, incarnation;
    struct master_call c; /* what it points to is copied below */
    char node[64], job[64];
    struct consistency consistency;
    bool has_backup, has_ledger;
    struct ledger ledger; /* done is in counts */
    uint32_t counts[SPLITS_MAX];
    struct lease lease;
    uint64_t pin_step;                 /* EVALUATE */
    char pin_id[64];                   /* PIN, UNPIN */
    struct fake_checkpoint checkpoint; /* MANIFEST */
    struct master_call_done done;
    struct err err;
    bool failed;
};

struct cluster {
    struct master *m;
    struct master_config config;
    struct master_actions actions;
    uint64_t now, timer, draws, seed;
    struct fake_node nodes[NODES_MAX];
    size_t node_count;
    struct flight flights[FLIGHTS_MAX];
    struct fake_position positions[JOBS_MAX];
    uint64_t request;
    struct master_reply reply;               /* to the last request that was answered at once */
    enum job_state reply_state;              /* of the job in it */
    char reply_text[64], reply_unready[128]; /* the latter: JOIN, HEARTBEAT */
    uint64_t reply_openings[8];
    char reply_problem[200]; /* DRAIN: of the first job */
    struct {                 /* what watchers saw */
        char id[64];
        enum job_state state;
        uint64_t generation, step, resumes;
    } seen[JOBS_MAX];
    size_t seen_count;
    struct buf trace; /* the states that they saw */
    /* knobs */
    const char *submitter; /* of the jobs that are submitted; NULL: nobody known */
    uint64_t delay_ms_max; /* of a call or an answer */
    uint64_t train_records, test_records;
    uint32_t classes;
    bool old_manifests; /* without sums of metrics */
    double best_step;   /* accuracy is highest there, and lower with each step farther; 0: 0.5 */
    bool manifest_fails, store_fails;
    bool tells_pins;         /* shards name what is pinned, to a master that adopts their job */
    const char *cannot_save; /* servers say this when they open a shard; NULL: they can */
    int full_after;          /* 1 + a mode: rows are refused after the first that has it */
    const char *from; /* workers say that they took this of the source; NULL: there is none */
    uint64_t from_fingerprint;
    struct { /* what the last InspectData and StartJob said */
        bool begins;
        uint64_t from_fingerprint;
        size_t inspections, places;
        char inspect_encoding[32], start_encoding[32];
    } asked;
    const char *encoding; /* workers, and manifests, say that this was measured; or NULL */
    struct {              /* rows that the store has answered; the core does not know yet */
        char job[64];
        uint64_t row;
        bool failed;
    } rows[64];
    size_t row_count;
    struct { /* what a restarted master would find */
        char job[64];
        uint64_t generation, adoptions;
        enum job_state state;
        enum training_mode mode;
    } stored[JOBS_MAX];
    size_t calls[MASTER_CALL_KIND_COUNT]; /* that were sent */
    size_t manifests, evaluations_sent, discards, prunes, releases;
    size_t avoided;                      /* checkpoints, by the last FIND */
    int find_fails;                      /* code; 0: it does not */
    bool find_gone;                      /* no checkpoint is there */
    bool only_one;                       /* and none when it is to be avoided */
    bool row_of_start;                   /* it was stored when the job began: it knows of no step */
    uint32_t format_more, protocol_more; /* by so much the row's differ from the next master's */
    bool other_unsound;    /* the next master cannot believe that the server of a backup is there */
    char stop_reason[256]; /* of the last StopJob */
    struct fake_checkpoint disk[JOBS_MAX];
    uint64_t manifest_steps[64];
    char manifest_bases[64][96]; /* "": it is to have everything */
    int manifest_code;           /* of @manifest_fails; 0: ERR_EXHAUSTED */
    uint64_t waiting[JOBS_MAX];  /* requests that wait for an answer */
    bool answered[JOBS_MAX];
    struct err answer[JOBS_MAX];
    struct { /* of the last call about a job */
        char job[64];
        struct fence fence;
    } fences[JOBS_MAX];
};

struct cluster *cluster_new(uint64_t seed, size_t ps, size_t workers);
/* @config: its quotas, and preemption. */
struct cluster *cluster_new_with(uint64_t seed, size_t ps, size_t workers,
                                 const struct master_config *config);
void cluster_free(struct cluster *c);
/* The master dies, and the next one has the row of this job, as it is now. */
void cluster_restart_master(struct cluster *c, const char *id);

/* Time goes on: to the next event, for @ms, until the job is in @state (fails after @ms), or in a
 * phase or a work inside its state. */
void cluster_advance(struct cluster *c);
void cluster_run_ms(struct cluster *c, uint64_t ms);
const struct job_record *cluster_until(struct cluster *c, const char *id, enum job_state state,
                                       uint64_t ms);
void cluster_until_in(struct cluster *c, const char *id, const char *where);
const struct job_record *cluster_run_to_end(struct cluster *c, const char *id); /* SUCCEEDED */

/* Give the core an event, with the present time, and carry out what it asks for. */
void cluster_event(struct cluster *c, struct master_event *e);

/* Clients. 100 records in batches of 5, 3 replicas: 7 steps an epoch in sync, 20 batches otherwise.
 */
void cluster_spec(struct job_spec *spec, const char *name, const char *const *sets, size_t count);
int cluster_try(struct cluster *c, const char *name, const char *const *sets, size_t count,
                char id[64]);
void cluster_submit(struct cluster *c, const char *name, char id[64], const char *const *sets,
                    size_t count);
int cluster_cancel(struct cluster *c, const char *id, bool now);
/* PAUSE, RESUME: the code of the answer, which comes at once unless rows cannot be stored. */
int cluster_ask(struct cluster *c, const char *id, enum master_event_kind kind);
/* RESUME of a job that has ended, with these changes. */
int cluster_resume(struct cluster *c, const char *id, const char *const *sets, size_t count);
/* These requests may wait; cluster_answer() runs until they are answered, and gives the code. */
size_t cluster_ask_checkpoint(struct cluster *c, const char *id);
size_t cluster_set(struct cluster *c, const char *id, const char *const *sets, size_t count);
int cluster_answer(struct cluster *c, size_t k, uint64_t ms);

/* cluster_pins.c: a call that is well. */
void cluster_pins_answer(const struct cluster *c, struct fake_position *p, const struct flight *f,
                         struct master_call_done *done);

/* What is known */
const struct job_record *cluster_job(struct cluster *c, const char *id);
void cluster_assert_reason(struct cluster *c, const char *id, const char *words);
struct fake_node *cluster_node(struct cluster *c, const char *id);
bool cluster_holds(struct cluster *c, const char *node, const char *job); /* a shard of it */
struct fake_checkpoint *cluster_checkpoint(struct cluster *c, const char *job);
size_t cluster_stored(const struct cluster *c, const char *job); /* index in stored[] */
struct fence *cluster_fence(struct cluster *c, const char *job);
uint64_t cluster_draw(struct cluster *c, uint64_t n);

/* Nodes (cluster_nodes.c) */
struct fake_node *cluster_add(struct cluster *c, enum master_role role);
void cluster_kill(struct fake_node *n);
void cluster_freeze(struct cluster *c, struct fake_node *n, uint64_t ms);
void cluster_kill_one(struct cluster *c, enum master_role role);
void fake_heartbeat(struct cluster *c, struct fake_node *n);
void fake_drop_job(struct fake_node *n, const char *job); /* without telling anybody */
void fake_turn(struct cluster *c, struct fake_node *n);   /* it does a bit of its work */
void fake_reply(struct cluster *c,
                const struct master_reply *r); /* to a worker that wants a lease */
/* It answers @f, which came to it; @answer is filled. */
int fake_call(struct cluster *c, struct flight *f, struct fake_node *n, struct flight *answer);
struct master_event fake_event(struct cluster *c, struct fake_node *n, enum master_event_kind kind);

#endif
