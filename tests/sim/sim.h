/* SPDX-License-Identifier: Apache-2.0 */
/* The simulator: the cores of a master, of parameter servers and of workers in one process, under
 * virtual time, over a network and machines that fail as a seed says.
 *
 * A *schedule* is everything that is decided beforehand: the jobs, the nodes, what goes wrong when.
 * A *world* is the run of one schedule. A run is a function of its schedule alone, so a schedule
 * that fails can be run again, smaller (shrink.c), or with its trace.
 *
 * The files are the shells around the cores: world.c clocks and processes; net.c calls and streams;
 * member.c a node's place in the cluster; master_node.c, ps_node.c, ps_shard.c, ps_budget.c,
 * worker_node.c, worker_act.c, worker_rows.c what services/ does in threads; disk.c checkpoints;
 * fault.c what goes wrong; rounds.c and recorder.c the traces that clients ask for. check.c knows
 * what must hold. Time is in microseconds; the cores see milliseconds of their node's own clock. */
#ifndef GRADUS_SIM_SIM_H
#define GRADUS_SIM_SIM_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "job/progress/consistency.h"
#include "job/progress/fence.h"
#include "job/progress/ledger.h"
#include "master/core/master.h"
#include "master/core/trace_rounds.h"
#include "ps/core/gradient_budget.h"
#include "ps/core/shard.h"
#include "membership/membership_core.h"
#include "trace/recording.h"
#include "worker/core/worker.h"

#define SIM_NODES_MAX 12
#define SIM_JOBS_MAX 3
#define SIM_SHARDS_MAX 3
#define SIM_ROUNDS_MAX 4    /* of sums */
#define SIM_ELEMENTS_MAX 16 /* floats of a whole model */
#define SIM_EPOCHS_MAX 3
#define SIM_SHARDS_OF_PS                                                                           \
    (SIM_JOBS_MAX * 4)     /* with leftovers of starts before, until they are closed */
#define SIM_BATCHES_MAX 60 /* of an epoch: a bit of a word each */
#define SIM_SPLITS_MAX 60
#define SIM_NAMES_MAX 256 /* ids that the master gave to nodes */
#define SIM_NAME_BYTES 32
#define SIM_TEXT_BYTES 1400
#define SIM_FAULTS_MAX 32
#define SIM_VERSIONS_MAX 1024 /* of a shard */
#define SIM_MS UINT64_C(1000)
#define SIM_S UINT64_C(1000000)
#define SIM_NONE UINT32_MAX

/* ---- schedules (schedule.c) ---- */

#define SIM_MODES(X)                                                                               \
    X(ANY, any)                                                                                    \
    X(SYNC, sync)                                                                                  \
    X(PARTIAL, partial)                                                                            \
    X(SPECULATE, speculate)                                                                        \
    X(ASYNC, async)                                                                                \
    X(BOUNDED, bounded)                                                                            \
    X(CHANGE, change)                                                                              \
    X(SUMS, sums)     /* sync, with sums over whole variables on several shards */                 \
    X(LATE, late)     /* bounded or any: much of what was given up comes all the same */           \
    X(MEMORY, memory) /* each of those before late, with little memory for gradients */            \
    X(TRACED, traced) /* as all, and clients ask for traces */                                     \
    X(FAIR, fair)     /* any of these: jobs with priorities and quotas, which are paused */        \
    X(TABLES, tables) /* any of these: jobs have tables, of which each computation reads rows */   \
    X(ALL, all)       /* each of those before late, in proportion; some are traced */

enum sim_mode {
#define X(NAME, name) SIM_##NAME,
    SIM_MODES(X)
#undef X
        SIM_MODE_COUNT
};
extern const char *const sim_mode_names[SIM_MODE_COUNT];

/* One line per kind: what befalls @node (and @other) from at_us until until_us. */
#define SIM_FAULTS(X)                                                                              \
    X(CRASH, crash)           /* killed; started again at the end */                               \
    X(MIDSTEP, midstep)       /* killed after `number` actions of its next step with any */        \
    X(PAUSE, pause)           /* SIGSTOP, SIGCONT */                                               \
    X(FREEZE, freeze)         /* SIGSTOP for good before a push; the master never finds out */     \
    X(SLOW, slow)             /* computes `number` times as long */                                \
    X(CUT, cut)               /* nothing goes from node to other */                                \
    X(SPLIT, split)           /* nothing goes between node and other */                            \
    X(BREAK, break)           /* connections between node and other are reset, once */             \
    X(LEAVE, leave)           /* SIGTERM; started again at the end */                              \
    X(LOST, lost)             /* killed for good, while the only job runs */                       \
    X(JOIN, join)             /* a spare worker is started */                                      \
    X(CANCEL, cancel)         /* a client cancels job `number` */                                  \
    X(CHECKPOINT, checkpoint) /* a client wants a checkpoint of job `number` */                    \
    X(SET, set)               /* a client changes job `number` as `change` says */                 \
    X(STRANGER, stranger)     /* somebody else calls node, as `number` says (stranger.c) */        \
    X(ROWS, rows)             /* the master's rows cannot be stored */                             \
    X(FULL, full)             /* nothing more goes onto the disk of checkpoints */                 \
    X(GONE, gone)             /* that disk is not there; number 1: as if it were empty */          \
    X(DAMAGE, damage)         /* a bit of the newest checkpoint of job `number` flips */           \
    X(PINS, pins)             /* servers have no memory for copies of slots */                     \
    X(TESTS, tests)           /* workers cannot read test records */                               \
    X(SUSPEND,                                                                                     \
      suspend)      /* a client pauses job `number`, and resumes it at the end; other 1: later */  \
    X(TRACE, trace) /* a client wants a trace, as `number` says; it goes away at the end */

enum sim_fault_kind {
#define X(NAME, name) FAULT_##NAME,
    SIM_FAULTS(X)
#undef X
        FAULT_KIND_COUNT
};
extern const char *const sim_fault_names[FAULT_KIND_COUNT];

#define SIM_CHANGE_SETS 4
#define SIM_SET_BYTES 48

struct sim_fault {
    enum sim_fault_kind kind;
    bool off; /* shrunk away */
    uint64_t at_us, until_us;
    uint32_t node, other, number;
    char change[SIM_CHANGE_SETS][SIM_SET_BYTES]; /* "training.mode=async" */
};

/* How the machines and the network are. Parts are in millionths of messages. */
struct sim_knobs {
    bool even;                   /* everything takes exactly as long as these say */
    uint32_t delay_us;           /* usual time of a message: half to one and a half */
    uint32_t tail_part, tail_us; /* some take up to so much longer */
    uint32_t loss_part, twice_part, break_part;
    uint32_t late_part, late_us; /* calls come once more, and streams that were given up are read */
    uint32_t compute_us, load_us, file_us;
    uint32_t copy_us; /* of slots for a pin; 0: at once */
    /* Answers that are told early: the rest of the values comes up to so much later, or never. */
    uint32_t early_part, early_us, lost_part;
    uint32_t reader_part, reader_us, readers_max; /* slow readers of snapshots */
    /* Memory of parameter servers: parts of the OpenShards that are refused for a time; the workers
     * (0: any number) and the modes (a bit for each) for which a shard that was opened with less
     * than that, or in another mode, has none. Each server draws its own, near these. */
    uint32_t full_part, room_workers, full_modes_part;
    uint32_t refused_part; /* of the ends of processes, that the master sees before the time-out */
    uint32_t moved_part;   /* of shards, that have another address in a new generation */
    bool skew;             /* clocks differ, and run at 0.9 to 1.1 */
    /* Servers have memory for the gradients that their shards reserve, and for so many more; each
     * comes in for up to so long. Parts of those beyond a reserve are refused by the machine. */
    bool memory_tight;
    uint32_t memory_more, memory_us, memory_refused_part;
};

struct sim_job_plan {
    char text[SIM_TEXT_BYTES];
    uint64_t submit_us;
    uint32_t records, test_records;
    uint32_t least, ps; /* workers and servers that it needs */
    int32_t priority;
    uint32_t owner; /* 0: nobody known */
    bool tables;    /* half of its elements are rows of tables */
};

struct sim_fair {                                  /* what the master allows */
    bool on;                                       /* one of these, or a job is paused */
    uint32_t running_max, workers_max, memory_max; /* of an owner; 0: any number */
    bool preemption;
    uint32_t preempt_after_ms;
};

struct sim_schedule {
    uint64_t seed;
    enum sim_mode mode;
    uint32_t ps_count, worker_count, spare_count;
    struct sim_job_plan jobs[SIM_JOBS_MAX];
    uint32_t job_count;
    struct sim_knobs knobs;
    struct sim_fair fair;
    struct sim_fault faults[SIM_FAULTS_MAX];
    uint32_t fault_count;
    uint64_t quiet_us; /* nothing goes wrong from then on */
    uint64_t live_us;  /* so long after that every job must have ended */
};

/* A worker of it is stopped, and nobody ever counts as dead. */
bool schedule_freezes(const struct sim_schedule *s);
void schedule_make(uint64_t seed, enum sim_mode mode, struct sim_schedule *out);

/* ---- what is pushed and read ---- */

/* Which batches of a job: bit b of word e is batch b of epoch e. */
struct ids {
    uint64_t epoch[SIM_EPOCHS_MAX];
};

struct tensor {
    float v[SIM_ELEMENTS_MAX];
};

/* Sums over a whole gradient, or the part of some shards: what is packed in messages. They are of
 * the gradient's bits, so that a wrong one shows in the values. */
struct sim_sums {
    uint64_t step, value;
    uint32_t round;
    uint32_t shards; /* a bit for each that it is of; all: totals */
};

/* A gradient in a server's memory; what core events call a buffer. */
struct gradient {
    struct gradient *next, *all; /* free ones; all that were ever made */
    struct tensor t;
    struct ids ids;      /* of the batches that are summed up in it */
    uint64_t generation; /* of the requests that brought it: the oldest */
    bool counted;        /* in the budget of its server */
};

/* ---- the network (net.c) ---- */

enum unary_kind {
    UNARY_CALL, /* of the master; `call` says which */
    UNARY_JOIN,
    UNARY_HEARTBEAT,
    UNARY_LEAVE,
    UNARY_LEASE,
    UNARY_REPORT_SPLIT,
    UNARY_REPORT_PROGRESS,
    UNARY_REPORT_FAILURE,
    UNARY_STRANGER, /* as UNARY_CALL, of nobody */
    UNARY_TRACE,    /* of the master: `trace` says what */
    UNARY_KIND_COUNT
};

struct flat_ledger { /* a ledger in a message */
    bool present;
    struct ledger_shape shape;
    uint64_t epoch;
    uint32_t split_count;
    uint32_t done[SIM_SPLITS_MAX];
};

#define SIM_WORKERS_MAX 10
#define SIM_LEASES_MAX 8
#define SIM_WORKS_MAX 3

/* Where a shard is: its server may have had other addresses before. */
struct sim_place {
    uint8_t node, address;
    uint64_t opening;
};

/* The fields of all requests; each kind uses some. */
struct unary_request {
    enum master_call_kind call;
    uint64_t number; /* of the master's call */
    uint32_t job, shard;
    struct fence fence;
    uint64_t generation, start, version, step, step_limit, ledger_step;
    uint32_t replica_first, replica_end;
    bool hold, slots, idle;
    struct consistency consistency;
    struct flat_ledger ledger;
    uint16_t workers[SIM_WORKERS_MAX]; /* names */
    uint32_t worker_count;
    struct lease leases[SIM_LEASES_MAX];
    uint32_t lease_count;
    struct sim_place places[SIM_SHARDS_MAX]; /* ASSIGN, EVALUATE */
    uint32_t shard_count;
    char pin_id[64], directory[80];
    uint64_t first, count;
    struct { /* UNARY_TRACE */
        uint64_t id;
        uint32_t node; /* its number in the trace */
        bool told;     /* TRACE_DO_TELL */
        struct trace_ask ask;
    } trace;
    /* of nodes */
    uint16_t name;        /* who asks; 0: nobody knows */
    uint64_t incarnation; /* of who asks, or of the process that the master means */
    struct {
        uint32_t job;
        uint64_t generation; /* a worker's */
        uint64_t opening;    /* a worker's start */
    } held[SIM_SHARDS_OF_PS];
    uint32_t held_count;
    struct {
        uint32_t job;
        const char *what;
        uint64_t done, total, age_ms;
    } works[SIM_WORKS_MAX];
    uint32_t work_count;
    uint64_t membership_call;
    uint64_t epoch, sequence, position, dropped, speculated;
    uint32_t split, batch_end;
    struct {
        uint64_t epoch, batches, examples;
    } epochs[SIM_EPOCHS_MAX];
    uint32_t epoch_count;
    uint64_t staleness[JOB_STALENESS_BUCKETS];
    int code;
    char message[128];
};

struct unary_reply {
    int code;
    char message[160];
    uint64_t generation, version, position, examples, pushes, duplicates, dropped;
    struct flat_ledger ledger;
    uint64_t count; /* EVALUATE: test records */
    char file[40];
    uint64_t bytes, checksum;
    uint16_t name;      /* JOIN */
    uint32_t stop_jobs; /* HEARTBEAT: a bit for each */
    uint64_t stop_openings[SIM_SHARDS_OF_PS];
    uint32_t stop_opening_count;
    enum master_lease_kind lease_kind;
    struct lease lease;
};

struct unary {
    enum unary_kind kind;
    uint32_t from, to, from_life;
    uint32_t serial; /* of this use of the slot */
    uint32_t refs;   /* events and waiting servers that know it */
    uint32_t next;   /* of free ones */
    bool done;       /* the caller has its answer */
    bool lost;       /* and will hear nothing but a broken connection */
    bool wait_for_ready;
    uint32_t served_life[2]; /* life of the callee that has it; 0: none */
    uint64_t deadline_us;
    struct unary_request req;
    struct unary_reply rsp[2]; /* a request that came twice is answered twice */
};

struct stream { /* of one worker's job and one shard */
    uint32_t worker, worker_life, ps, ps_life;
    uint32_t job, shard;
    uint32_t serial;                /* of the worker's job */
    uint64_t request_us, answer_us; /* when the last one arrives: they stay in order */
    bool broken;                    /* the worker knows */
    bool gone;                      /* the server knows */
    struct sim_inlet *inlet;        /* NULL: all that arrived is read */
    bool nowhere;                   /* nobody listens at this address any more */
};

struct exchange { /* a request or an answer on its way */
    uint32_t stream;
    uint32_t next; /* of a server's that wait, or of free ones */
    uint64_t number, generation, opening;
    uint16_t name;
    struct exchange_request ask; /* bytes that it or the answer points to are in what follows */
    uint64_t elements;           /* of its push */
    uint64_t decision;           /* a bit for each replica */
    struct sim_sums sums;        /* of the answer, or the totals that are asked to be taken */
    /* of an answer */
    struct exchange_answer answer;
    int code;
    char message[120];
    uint64_t version;
    bool has_values;
    bool partial; /* told early: the rest of the values is still coming */
    struct tensor values;
    struct ids ids;  /* summed in the push; applied in the values */
    uint64_t opened; /* the generation that the shard was opened with */
};

/* ---- nodes ---- */

struct sim_timer {
    uint64_t due_us;    /* UINT64_MAX: it is not set */
    uint64_t queued_us; /* of the earliest event that is in the heap for it */
};

struct snapshot_slot {
    uint64_t version;
    uint32_t refs;    /* holds of the present, the previous, pins and readers */
    uint32_t readers; /* slow ones */
    struct tensor t;
    struct ids ids;
};
#define SIM_SNAPSHOTS_MAX 24

struct sim_request { /* a tag of a shard's core */
    uint32_t next;   /* free ones */
    bool used, waiting;
    struct sim_shard *shard;
    uint32_t unary, attempt; /* or */
    uint32_t exchange;       /* SIM_NONE: it is a unary one */
    uint32_t serial;
};

struct sim_shard {               /* on a parameter server */
    struct gradient_share share; /* where memory for gradients is tight: in `elements` */
    uint64_t reserve_before;     /* a change of membership */
    uint32_t taken;              /* gradients that come in, or that its core has */
    uint32_t lent;               /* versions, of memory for gradients */
    uint32_t buffers;            /* for versions */
    bool open;
    uint32_t node, job, number, serial;
    struct fence fence;
    uint64_t opened, version_first; /* generation and version that it was opened with */
    uint32_t leftover_beats; /* answered heartbeats in a row that named it, of an earlier start */
    uint32_t elements;
    uint16_t map[SIM_ELEMENTS_MAX]; /* element of the shard → of the model */
    struct shard *core;
    struct shard_actions actions;
    struct snapshot_slot snapshots[SIM_SNAPSHOTS_MAX];
    /* Sums, as services/ps/rpc/ps_sums.c keeps them. */
    bool begun;
    uint32_t settled;
    struct sim_sums mine, totals[SIM_ROUNDS_MAX], last[SIM_ROUNDS_MAX];
    uint32_t present, previous; /* SIM_NONE */
    struct tensor slot;         /* momentum */
    struct ids applied;
    uint64_t examples;
    uint32_t gradients; /* buffers that its core has */
    uint32_t waiting;   /* requests without an answer */
    uint32_t kept;      /* SHARD_KEEP without its SHARD_FORGET */
    uint32_t room;      /* for so many workers at least */
    uint32_t modes;     /* that it was in: a bit for each */
    bool stepping;
};

/* Of a stream at a server whose memory for gradients is tight: what has arrived and is not read,
 * because a gradient waits for memory, or comes in. Or a push of a stranger, in a call of its own,
 * which waits for memory. */
struct sim_inlet {
    struct gradient_waiter waiter; /* the first member */
    struct sim_inlet *next, *all;  /* free ones; all that were ever made */
    bool used;
    enum { INLET_READS, INLET_WAITS, INLET_COMES_IN } at;
    uint32_t node;
    uint32_t stream, first, last; /* exchanges, in order; stream SIM_NONE: a stranger's push */
    uint32_t fault;               /* which is this one's */
    struct sim_shard *shard;      /* of the first one, unless it is at INLET_READS */
    uint64_t serial;
};

struct sim_link {    /* of a worker's job to a shard */
    uint32_t stream; /* SIM_NONE */
    struct sim_place place;
};

struct pending_exchange {
    bool open, pulls, early, rows;
    uint64_t number;
    uint32_t shard, stream;
    enum worker_set set;
    uint32_t buffer;
    bool push;
    uint64_t traced; /* the trace that it is recorded for; 0: none */
};
#define SIM_PENDING_MAX 192 /* 64 for each shard, as in the client */

struct worker_values { /* a set: what came from each shard */
    struct tensor t;
    struct {
        uint64_t version, opened;
        struct ids ids;
        bool known;
        uint64_t lands_us; /* the last of it */
        uint32_t stream;   /* on which it comes until then */
        bool lost;         /* it does not */
    } shard[SIM_SHARDS_MAX];
};

struct worker_buffer {
    struct tensor t;
    struct ids ids;
    uint64_t examples;
    uint64_t base[SIM_SHARDS_MAX]; /* versions that it was computed on, of the first batch */
};

enum mail_kind { MAIL_REQUEST, MAIL_EXCHANGED, MAIL_MASTER, MAIL_TIMER, MAIL_RECORD_DUE };
struct mail {
    enum mail_kind kind;
    uint32_t index, attempt; /* unary or exchange */
};
#define SIM_MAIL_MAX 512

struct sim_measured {
    struct {
        bool used;
        uint64_t epoch, batches, examples;
    } epochs[SIM_EPOCHS_MAX];
    uint64_t staleness[JOB_STALENESS_BUCKETS];
};

/* What a node does for traces (recorder.c), and what the simulator knows of it. */
struct sim_recorder {
    struct recording recording;
    uint64_t over;         /* traces that were recorded or taken here: a bit for each */
    uint64_t id, until_ns; /* of the last RECORD that was not refused */
    /* Of a worker: the RECORD that waits for its answer, and the exchanges of the recorded steps.
     */
    bool asked;
    uint32_t unary, attempt;
    uint64_t first, last;
};

struct sim_worker_job {
    bool there, loaded, started, halted;
    uint32_t serial; /* of worker jobs in this world */
    struct worker_held held;
    uint64_t core_start; /* of the StartJob that the core was made for */
    uint32_t job;
    uint16_t name; /* the node's when it was started */
    uint32_t shard_count;
    struct worker *core;
    struct consistency consistency; /* of the last assignment that it took */
    struct worker_actions actions;
    size_t at;     /* next action to do */
    bool stepping; /* actions are being done */
    bool busy;     /* computing or loading: mail waits */
    uint64_t busy_us;
    uint64_t taken; /* the newest generation whose Assign it answered */
    struct worker_action computing;
    struct tensor rows;        /* that the computation has read */
    bool rows_wait, rows_lost; /* it waits for them; they do not all come, */
    int rows_code;             /* and why not */
    uint64_t takes_us;         /* how long it takes when they are there */
    struct sim_recorder recorder;
    bool has_loading; /* the mail to handle when the data is there */
    struct mail loading_mail;
    struct mail mail[SIM_MAIL_MAX];
    uint32_t mail_first, mail_count;
    struct sim_timer timer;
    struct sim_link links[SIM_SHARDS_MAX];
    struct pending_exchange pending[SIM_PENDING_MAX];
    uint32_t pending_count;             /* up to the last that is open */
    uint32_t filling[WORKER_SET_COUNT]; /* open pulls into a set */
    struct worker_values sets[WORKER_SET_COUNT];
    struct worker_buffer buffers[WORKER_BUFFERS_MAX];
    struct sim_sums sums[SIM_SHARDS_MAX]; /* the last that each shard sent */
    struct sim_sums totals[SIM_ROUNDS_MAX];
    struct {
        uint64_t tag;
        uint32_t unary, attempt;
    } calls[WORKER_EVALUATIONS_MAX + 8];
    uint64_t tag_last;
    struct sim_measured measured, reporting;
};

#define SIM_TIMER_NONE ((struct sim_timer){UINT64_MAX, UINT64_MAX})

enum sim_role { ROLE_MASTER, ROLE_PS, ROLE_WORKER };

#define SIM_CLOSINGS_KEPT 16

struct sim_closing {
    uint64_t opening;
    uint32_t shard;
};

struct sim_node {
    enum sim_role role;
    bool up, paused, leaving;
    uint32_t life; /* 1 for the first process; higher with every start */
    uint64_t resume_us;
    uint32_t slow; /* × */
    /* local time = offset + time · rate / 1024 */
    uint64_t clock_offset_us, clock_rate;
    bool armed; /* dies after so many actions */
    uint32_t armed_actions;
    bool gone;             /* killed for good */
    bool freezing, frozen; /* stops for good after so many pushes; has stopped */
    uint32_t freezing_pushes;
    uint64_t back_us; /* when it starts again after that; 0: when things are quiet */
    uint32_t link_count[SIM_NODES_MAX]; /* messages sent to each: the counters of its draws */

    struct membership_core member;
    uint64_t incarnation;
    uint16_t name;             /* 0: none */
    uint64_t dead_incarnation; /* of its last life that ended, */
    uint16_t dead_name;        /* and what it was called */
    struct sim_timer member_timer;

    struct sim_shard *shards[SIM_SHARDS_OF_PS]; /* a server's */
    struct shard_closed closed;
    struct sim_closing closings[SIM_CLOSINGS_KEPT]; /* that it heard of before the opening */
    uint32_t closing_count;
    struct gradient_budget budget;
    bool telling;                          /* who waited for memory; a task of its pool */
    uint64_t file_free_us, open_free_us;   /* when its one thread for that is free */
    uint64_t file_us, open_us, copy_us;    /* when it began */
    uint32_t file_job, open_job, copy_job; /* the last one that it is for */
    uint64_t copied_us;                    /* until then its shards are not asked for anything */
    uint64_t heard_us;                     /* when it was heard of again after a time-out, */
    uint64_t beat_us;                      /* when that came to the master's machine, */
    uint16_t beat_name;                    /* and as whom it came */
    struct sim_recorder recorder;          /* a server's */
    struct sim_worker_job *job;            /* a worker's; memory is kept */
    struct worker_starts starts;           /* that it has heard of */
};

/* ---- jobs, as the simulator sees them ---- */

struct sim_grant { /* the last one of a split */
    uint16_t name;
    uint64_t generation;
};

struct sim_job {
    char id[48];
    bool submitted, known;
    uint32_t records, test_records, batch_records, split_batches, batches, epochs;
    uint64_t steps;
    uint32_t rounds; /* of its update; none are exchanged with one shard */
    enum job_state state;
    bool has_plan;
    bool tables;
    uint32_t shard_count, elements;
    uint32_t shard_elements[SIM_SHARDS_MAX];
    uint16_t map[SIM_SHARDS_MAX][SIM_ELEMENTS_MAX];
    struct consistency first; /* of the job file */
    bool changed, partial;    /* was it ever */
    bool cancelled;           /* a client asked for it */
    bool pausing, paused;     /* a client wants it paused, and was told that it is so */
    uint64_t pause_request, resume_request;
    uint64_t running_us, paused_us;    /* when it came to that state */
    bool held;                         /* nodes, after the last step */
    uint64_t submit_order;             /* of its row */
    uint64_t fits_us;                  /* since then it waits for what is free; 0: it does not */
    uint64_t opened;                   /* the generation of the last start */
    uint64_t opening;                  /* of the shards of that */
    uint8_t addresses[SIM_SHARDS_MAX]; /* how often each shard has moved */
    uint64_t moved;                    /* the newest generation in which they might have */
    /* Per version of the present opening: what the first shard that made it applied. */
    struct {
        bool known, sync;
        uint64_t opened, totals;
        struct ids ids;
    } made[SIM_VERSIONS_MAX];
    struct sim_grant granted[SIM_EPOCHS_MAX][SIM_SPLITS_MAX];
    char reason[256];
    char checkpoint[96];
};

#define SIM_TRACES_MAX 8

/* A trace that the master leads (rounds.c). */
struct sim_trace {
    bool open;
    uint32_t fault, job;
    uint64_t id;
    struct trace_rounds rounds;
    struct {
        uint32_t node;
        bool recorded, has_trace; /* it answered RECORD; a server also TAKE */
        uint32_t life;            /* of the process that did the former, */
        uint64_t until_ns;        /* which gives up then, by its clock */
        uint32_t taken_life;      /* of the process that was asked TAKE */
    } nodes[SIM_NODES_MAX];
};

struct disk;

struct sim_row { /* that the store has answered; the master's core does not know yet */
    uint32_t job;
    uint64_t row;
    bool failed;
};
#define SIM_ROWS_MAX 64

/* ---- events ---- */

enum event_kind {
    EVENT_REQUEST, /* arg: unary·4 + attempt */
    EVENT_REPLY,   /* the same; attempt 2: the connection broke, 3: the deadline */
    EVENT_EXCHANGE,
    EVENT_ANSWER,
    EVENT_BROKEN, /* stream, at the worker */
    EVENT_GONE,   /* stream, at the server */
    EVENT_MASTER_TIMER,
    EVENT_WORKER_TIMER,
    EVENT_MEMBER_TIMER,
    EVENT_COMPUTED,
    EVENT_OPENED, /* a server has the time to make a shard: arg as of EVENT_REQUEST */
    EVENT_FILE,   /* arg: a disk operation */
    EVENT_READER, /* a slow reader of a snapshot is done */
    EVENT_ROOM,   /* a server tells who waited for memory */
    EVENT_TAKEN,  /* the last of a gradient has come in: stream, inlet; or who waits gives up */
    EVENT_FAULT,
    EVENT_FAULT_END,
    EVENT_SUBMIT,
    EVENT_QUIET,
    EVENT_REFUSED,    /* the master finds nobody at the address of a node that died */
    EVENT_RECORD_DUE, /* arg: the worker's job; more: the trace */
    EVENT_TRACE_DUE,  /* arg: the trace, which is over by now */
    EVENT_ROWS_DUE,   /* a worker has waited long enough for rows: its job, the exchange */
    EVENT_UNPAUSE,    /* arg: a job, at the end of all faults */
};

struct event {
    uint64_t us;
    uint32_t seq;
    uint8_t kind, node;
    uint32_t life, arg, more;
};

/* ---- the world ---- */

#define SIM_INVARIANTS(X)                                                                          \
    X(ASSERT, "no assertion of a core fails")                                                      \
    X(CRASH, "no core crashes")                                                                    \
    X(ONCE, "a batch is applied at most once on a shard")                                          \
    X(ALL, "every batch is applied exactly once on every shard in the end")                        \
    X(SAME, "all shards apply the same batches in a step")                                         \
    X(EXAMPLES, "the examples of an update are those of its batches")                              \
    X(VERSION, "a shard's version rises by one")                                                   \
    X(READ, "a reader sees one version")                                                           \
    X(FENCE, "a request of an old generation, or of a stranger, changes nothing")                  \
    X(SKEW, "shards of a sync job are one step apart at most")                                     \
    X(BITS, "sync training gives the bits of the reference")                                       \
    X(LEDGER, "a shard's ledger says what it applied")                                             \
    X(MANIFEST, "a manifest names complete files of one cut")                                      \
    X(ANEW, "a job that has a checkpoint never begins anew")                                       \
    X(STORED, "no generation is used, and no end is told, before it is stored")                    \
    X(STATE, "states of a job follow the table")                                                   \
    X(FAILED, "no fault makes a job fail")                                                         \
    X(LEASE, "a split is leased as fresh once")                                                    \
    X(ANSWER, "every request is answered or its caller is gone")                                   \
    X(LIVE, "a job ends soon after faults have stopped")                                           \
    X(BEATS, "no node is given up that beats")                                                     \
    X(PAUSED, "a paused job holds nothing, has its checkpoint, and waits to be resumed")           \
    X(QUEUE, "higher priorities go first, quotas hold, nobody waits for what is free")             \
    X(CLEAN, "nothing is left when a job is over")                                                 \
    X(MEMORY, "memory for gradients has its limit, and nobody waits for what he may have")         \
    X(BOUND, "nobody is further ahead than the staleness bound")                                   \
    X(TRACE, "a trace ends, with an answer of each node, and nobody records for it then")          \
    X(RECORDED, "what a server does for a recorded step is recorded")                              \
    X(ORDER, "actions come in an order that can be carried out")

enum sim_invariant {
    INVARIANT_NONE,
#define X(NAME, text) INVARIANT_##NAME,
    SIM_INVARIANTS(X)
#undef X
        INVARIANT_COUNT
};
extern const char *const sim_invariant_names[INVARIANT_COUNT];
extern const char *const sim_invariant_texts[INVARIANT_COUNT];

struct sim_counts {
    uint64_t events, messages, steps, dropped, recoveries, checkpoints, duplicates, old, speculated;
    uint64_t given_up, memory_waits;
    uint64_t traces, traces_answered, traces_whole; /* the last: of every node */
    uint64_t faults[FAULT_KIND_COUNT], states[JOB_STATE_END];
};

struct world {
    const struct sim_schedule *schedule;
    uint64_t key; /* of the seed */
    uint64_t now_us;
    bool quiet, ended;
    uint64_t ended_us;

    struct event *heap;
    size_t heap_count, heap_capacity;
    uint32_t seq;
    uint64_t event_count;

    struct sim_node nodes[SIM_NODES_MAX];
    uint32_t node_count;
    char names[SIM_NAMES_MAX][SIM_NAME_BYTES]; /* [0]: "" */
    uint16_t name_count;
    uint64_t blocked_until[SIM_NODES_MAX][SIM_NODES_MAX];
    /* Until then: no row can be stored; nothing can be written to the disk of checkpoints; it is
     * not there; versions cannot be pinned with slots; test records cannot be read. */
    uint64_t rows_full_us, full_us, gone_us, pins_us, tests_us;
    bool gone_silently;

    struct unary *unaries;
    uint32_t unary_free;
    size_t unary_count, unary_capacity;
    struct stream *streams;
    size_t stream_count, stream_capacity;
    struct exchange *exchanges;
    uint32_t exchange_free;
    size_t exchange_count, exchange_capacity;
    struct sim_request *requests;
    uint32_t request_free;
    size_t request_count, request_capacity;
    struct gradient *gradients, *all_gradients; /* free ones; all */
    struct sim_inlet *inlets, *all_inlets;      /* the same */
    uint64_t inlet_serials;

    struct master *master;
    struct master_actions actions;
    struct sim_row rows[SIM_ROWS_MAX + 1];
    uint32_t row_count;
    struct sim_timer master_timer;
    uint64_t client_request; /* of SUBMIT, CANCEL … */
    uint64_t submits;

    struct sim_job jobs[SIM_JOBS_MAX];
    struct sim_trace traces[SIM_TRACES_MAX];
    uint64_t trace_last; /* id */
    struct disk *disk;

    enum sim_invariant broken;
    char why[400];
    sigjmp_buf *escape;
    bool tracing;
    void (*look)(struct world *w); /* after every event, and at look_us; NULL: nobody does */
    void *look_ctx;
    uint64_t look_us;
    bool look_waits;                  /* for that time, even when all is over */
    uint64_t serials, answers, moves; /* answers: that may be early; moves: of shards */
    struct sim_counts counts;
};

/* Run @schedule in @w, which may have run others; true: all held. */
struct world *world_new(void);
void world_free(struct world *w);
bool world_run(struct world *w, const struct sim_schedule *schedule, bool trace);

/* world.c */
void world_at(struct world *w, uint64_t us, enum event_kind kind, uint32_t node, uint32_t arg,
              uint32_t more);
uint64_t world_draw(struct world *w, const char *what, uint64_t index, uint64_t n);
/* How long something takes that takes @us at most; exactly @us when all is even. */
uint64_t world_takes(struct world *w, const char *what, uint64_t us);
uint64_t node_ms(const struct world *w, uint32_t node); /* on its clock */
uint64_t node_us_of(const struct world *w, uint32_t node, uint64_t ms);
void node_start(struct world *w, uint32_t node);
void node_kill(struct world *w, uint32_t node);
/* Counts an action of the node; true: the machine has just died, do nothing more. */
bool node_acts(struct world *w, uint32_t node);
/* Counts a push of the node; true: it has just stopped for good, do nothing more. */
bool node_freezes(struct world *w, uint32_t node);
uint16_t name_of(struct world *w, const char *id);
void world_check_end(struct world *w);
void timer_set(struct world *w, uint32_t node, enum event_kind kind, uint32_t arg,
               struct sim_timer *t, uint64_t us);

/* net.c */
struct unary *unary_new(struct world *w, uint32_t from, uint32_t to, enum unary_kind kind,
                        uint64_t timeout_ms, uint32_t *index);
void unary_send(struct world *w, uint32_t index);
struct unary_reply *unary_reply(struct world *w, uint32_t index, uint32_t attempt);
void unary_answer(struct world *w, uint32_t index, uint32_t attempt); /* drops the server's hold */
void unary_refuse(struct world *w, uint32_t index, uint32_t attempt, int code, const char *why);
void unary_unref(struct world *w, uint32_t index);
void net_killed(struct world *w, uint32_t node);
void on_request(struct world *w, const struct event *e);
void on_reply(struct world *w, const struct event *e);
uint32_t exchange_new(struct world *w);
void exchange_free(struct world *w, uint32_t index);
uint32_t stream_open(struct world *w, uint32_t worker, uint32_t ps, uint32_t job, uint32_t shard);
void stream_send(struct world *w, uint32_t exchange);   /* worker → server */
void stream_answer(struct world *w, uint32_t exchange); /* server → worker */
void stream_close(struct world *w, uint32_t stream);    /* the worker does not want it any more */
void stream_break(struct world *w, uint32_t stream);
void stream_leave(struct world *w, uint32_t stream); /* the shard is elsewhere */
void on_exchange(struct world *w, const struct event *e);
void on_answer(struct world *w, const struct event *e);
void on_broken(struct world *w, const struct event *e);
void on_gone(struct world *w, const struct event *e);

/* member.c */
void member_begin(struct world *w, uint32_t node);
void member_timer(struct world *w, uint32_t node);
void member_answer(struct world *w, uint32_t node, const struct unary *u,
                   const struct unary_reply *r);
void member_hurry(struct world *w, uint32_t node);
void member_leave(struct world *w, uint32_t node);

/* master_node.c */
void master_begin(struct world *w);
void master_end(struct world *w);
void master_called(struct world *w, uint32_t unary, uint32_t attempt);
void master_answered(struct world *w, const struct unary *u, const struct unary_reply *r);
void master_refused(struct world *w, uint32_t node);
void master_tick(struct world *w);
void master_event(struct world *w, struct master_event *e);
void master_client(struct world *w, const struct sim_fault *f);
void master_submit(struct world *w, uint32_t job);
bool master_resume(struct world *w, uint32_t job); /* false: it cannot be asked now */
uint32_t job_index(struct world *w, const char *id);

/* ps_node.c */
void ps_called(struct world *w, uint32_t node, uint32_t unary, uint32_t attempt);
void ps_open(struct world *w, uint32_t node, uint32_t unary, uint32_t attempt);
void ps_exchange(struct world *w, uint32_t node, uint32_t exchange);
void ps_refuse(struct world *w, uint32_t exchange, int code, const char *why);
void ps_gone(struct world *w, uint32_t node, uint32_t stream);
struct sim_shard *ps_shard_there(struct world *w, uint32_t node, uint32_t job, uint32_t shard);
void ps_drop(struct world *w, uint32_t node, uint32_t job); /* SIM_NONE: all */
void ps_drop_opening(struct world *w, uint32_t node, uint64_t opening);
void ps_end(struct world *w, uint32_t node); /* killed: memory is gone */
void ps_reader(struct world *w, const struct event *e);

/* ps_budget.c: memory for gradients that is tight */
bool budget_is_tight(const struct world *w);
void budget_begin(struct world *w, uint32_t node);
void budget_end(struct world *w, uint32_t node); /* killed */
void budget_clear(struct world *w);
void budget_free(struct world *w);
void budget_open(struct world *w, struct sim_shard *s, const struct consistency *c, size_t workers);
/* Before and after a shard takes a SetMembership. */
void budget_membership(struct world *w, struct sim_shard *s, const struct shard_event *e);
void budget_membership_done(struct world *w, struct sim_shard *s, uint64_t generation_before,
                            size_t workers);
void budget_close(struct world *w, struct sim_shard *s); /* its core has released all */
void gradient_memory_back(struct world *w, struct sim_shard *s);
/* A version for slow readers. False: there is no memory for it. */
bool budget_lend(struct world *w, struct sim_shard *s);
void budget_take_back(struct world *w, struct sim_shard *s);
void ps_arrives(struct world *w, uint32_t node, uint32_t exchange);
void budget_gone(struct world *w, uint32_t node, uint32_t stream);
void budget_taken(struct world *w, const struct event *e);
void budget_tell(struct world *w, uint32_t node);
/* A push of the stranger of @fault, in a call of its own. */
void budget_push(struct world *w, struct sim_shard *s, uint32_t fault);

/* ps_shard.c */
void snapshots_trim(struct world *w, struct sim_shard *s);
void shard_take(struct world *w, struct sim_shard *s, struct shard_event *e);
struct sim_shard *shard_make(struct world *w, uint32_t node, const struct unary_request *q,
                             struct err *err);
void shard_drop(struct world *w, struct sim_shard *s); /* close it, whatever waits */
void shard_release(struct world *w, struct sim_shard *s);
struct gradient *gradient_new(struct world *w);
struct sim_request *request_new(struct world *w, struct sim_shard *s);
void *request_tag(const struct world *w, const struct sim_request *r);
void request_drop(struct world *w, struct sim_request *r);

/* worker_node.c */
void worker_called(struct world *w, uint32_t node, uint32_t unary, uint32_t attempt);
void worker_drop(struct world *w, uint32_t node, uint32_t job); /* SIM_NONE: any */
void worker_end(struct world *w, uint32_t node);
void worker_exchanged(struct world *w, uint32_t node, uint32_t exchange);
void worker_broken(struct world *w, uint32_t node, uint32_t stream);
void worker_master(struct world *w, uint32_t node, uint32_t unary, uint32_t attempt);
void worker_timer(struct world *w, uint32_t node);
void worker_record_due(struct world *w, uint32_t node, uint32_t id);
void worker_computed(struct world *w, uint32_t node, uint32_t serial);

/* worker_act.c */
void job_feed(struct world *w, uint32_t node, struct worker_event *e);
void job_go_on(struct world *w, uint32_t node);
/* What was still to land in @set from @shard does not. */
void values_lost(const struct sim_job *job, struct worker_values *set, uint32_t shard);

void exchange_send(struct world *w, uint32_t node, const struct worker_request *r);

/* worker_rows.c */
bool job_is_row(const struct sim_job *job, uint32_t element); /* of a table */
/* The computation takes so long, once its rows are there; without tables it begins at once. */
void rows_begin(struct world *w, uint32_t node, uint64_t takes_us);
void rows_came(struct world *w, uint32_t node, const struct pending_exchange *p,
               const struct exchange *x);
void rows_broken(struct world *w, uint32_t node); /* some of them will not */
void rows_due(struct world *w, uint32_t node, uint32_t serial, uint32_t number);
void rows_fill(const struct world *w, const struct sim_worker_job *j, struct tensor *t);

/* disk.c */
struct disk *disk_new(void);
void disk_free(struct disk *d);
void disk_clear(struct disk *d);
void disk_prepare(struct world *w, const struct master_prepare *p);
void disk_manifest(struct world *w, const struct master_manifest *m);
void disk_find(struct world *w, const struct master_find *f);
void disk_prune(struct world *w, const struct master_prune *p);
void disk_damage(struct world *w, uint32_t job);                 /* its newest checkpoint */
int disk_readable(const struct world *w, const char *directory); /* 0, or why not */
void disk_write(struct world *w, struct sim_shard *s, const struct shard_action *a, uint32_t unary,
                uint32_t attempt);
void on_file(struct world *w, const struct event *e);
struct disk_cut { /* of a checkpoint: a shard's part, by elements of the model */
    uint64_t version, examples;
    struct ids ids;
};
/* Values and slots of a complete checkpoint. False: it is not there. */
bool disk_read(struct world *w, const char *directory, struct tensor *values, struct tensor *slot,
               struct disk_cut *cut);
bool disk_newest(struct world *w, uint32_t job, char directory[80], uint64_t *step);
bool disk_store(struct world *w, const struct job_record *r);           /* false: it is full */
const struct job_record *disk_row(const struct world *w, uint32_t job); /* NULL: none */
void disk_restore(struct world *w); /* every row to the master's core */

/* fault.c */
void fault_begin(struct world *w, uint32_t index);
void fault_end(struct world *w, uint32_t index);
void faults_stop(struct world *w);

/* rounds.c: clients who ask for traces, and the master, who leads them */
void rounds_begin(struct world *w, uint32_t fault);
void rounds_gone(struct world *w, uint32_t fault); /* the client */
void rounds_answered(struct world *w, const struct unary *u, const struct unary_reply *r);
void rounds_drop(struct world *w); /* the master is gone */
void rounds_check_due(struct world *w, uint64_t id);
struct sim_trace *trace_find(struct world *w, uint64_t id);    /* NULL: it is over */
uint32_t trace_node(const struct sim_trace *t, uint32_t node); /* SIM_NONE: not of it */
const struct sim_trace *trace_open(const struct world *w);     /* any */

/* recorder.c: nodes that record */
uint64_t node_ns(const struct world *w, uint32_t node); /* on its clock */
void recorder_server_called(struct world *w, uint32_t node, uint32_t unary, uint32_t attempt);
void recorder_worker_called(struct world *w, uint32_t node, uint32_t unary, uint32_t attempt);
void recorder_end(struct world *w, uint32_t node); /* a worker answers with what there is */
void recorder_due(struct world *w, uint32_t node, uint32_t id);
void recorder_step(struct world *w, uint32_t node, uint64_t step);
uint64_t recorder_sending(struct world *w, uint32_t node, uint64_t exchange); /* for which trace */
void recorder_answered(struct world *w, uint32_t node, uint64_t exchange);
/* A server is at this exchange: is that recorded, if the worker records its step? */
void recorder_check(struct world *w, uint32_t node, uint32_t stream, uint64_t exchange);

/* check_fair.c */
void check_fair(struct world *w); /* after a step of the master */
void check_yielded(struct world *w, uint32_t job, const struct job_record *r);
void check_preempted(struct world *w, const char *text); /* of the event job_preempted */
void check_unpause(struct world *w, uint32_t job);

/* stranger.c */
void stranger_calls(struct world *w, uint32_t fault);
void stranger_pushes(struct world *w, struct sim_shard *s, uint32_t fault);

/* numbers.c: the model, the update rule, and the sequential reference */
void numbers_initial(uint64_t key, uint32_t elements, struct tensor *out);
void numbers_gradient(const struct tensor *params, uint32_t elements, uint64_t epoch,
                      uint32_t batch, uint32_t records, struct tensor *out);
/* The part of one round of sums: of @n elements of the gradient that are those of @map in the model
 * (NULL: the same). @gradient NULL: there is none. */
uint64_t numbers_sums(const float *gradient, const uint16_t *map, uint32_t n, uint32_t round,
                      uint64_t before);
float numbers_factor(uint64_t totals);          /* of the gradient, after the last round */
uint32_t job_rounds(const struct sim_job *job); /* that its shards exchange */
struct numbers_update {
    float scale, lr_scale, lambda;
    const float *base; /* NULL: no compensation */
};
void numbers_apply(const float *in, float *out, float *slot, const float *gradient, uint32_t n,
                   const struct numbers_update *u);
void numbers_reference(const struct sim_job *job, uint32_t replicas, uint64_t key,
                       struct tensor *values, struct tensor *slot);
uint64_t key_of_job(const struct world *w, uint32_t job);

/* check.c */
__attribute__((noreturn, format(printf, 3, 4))) void
violated(struct world *w, enum sim_invariant which, const char *fmt, ...);
bool ids_overlap(const struct ids *a, const struct ids *b);
bool ids_equal(const struct ids *a, const struct ids *b);
void ids_add(struct ids *to, const struct ids *from);
uint64_t ids_examples(const struct sim_job *j, const struct ids *ids);
void check_applied(struct world *w, struct sim_shard *s, const struct shard_action *a,
                   const struct gradient *g);
void check_step(struct world *w, struct sim_shard *s, const struct shard_event *e,
                const struct shard_info *before);
void check_ledger(struct world *w, const struct sim_shard *s);
void check_record(struct world *w, const struct job_record *r);
void check_generation(struct world *w, uint32_t job, uint64_t generation); /* of a call */
void check_lease(struct world *w, uint32_t job, uint16_t name, uint64_t generation,
                 const struct lease *lease);
void check_compute(struct world *w, uint32_t node, const struct worker_action *a);
void check_evaluate(struct world *w, uint32_t node);
void check_job_end(struct world *w, uint32_t job);
void check_clean(struct world *w);
void check_lost(struct world *w, const char *text); /* of the event node_lost */

/* trace.c */
__attribute__((format(printf, 3, 4))) void trace(struct world *w, uint32_t node, const char *fmt,
                                                 ...);
#define TRACE(w, ...)                                                                              \
    do {                                                                                           \
        if ((w)->tracing) {                                                                        \
            trace(w, __VA_ARGS__);                                                                 \
        }                                                                                          \
    } while (0)
extern void (*trace_line)(void *ctx, const char *line);
extern void *trace_ctx;
const char *trace_unary(const struct world *w, const struct unary *u, char *out, size_t n);
const char *trace_exchange(const struct world *w, const struct exchange *x, char *out, size_t n);
void schedule_print(const struct sim_schedule *s, void (*line)(void *ctx, const char *text),
                    void *ctx);

/* shrink.c */
void shrink(struct world *w, struct sim_schedule *s); /* that has just failed in @w */

#endif
