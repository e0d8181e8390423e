/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules: what is decided before a run, and how large things may be. Only sim.h and messages.h
 * include this. */
#ifndef GRADUS_SIM_PLANS_H
#define GRADUS_SIM_PLANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_WORKERS_MAX 10
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
#define SIM_ERAS_MAX 24
#define SIM_ASKED_MAX 32
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
    X(SUMS, sums)       /* sync, with sums over whole variables on several shards */               \
    X(LATE, late)       /* bounded or any: much of what was given up comes all the same */         \
    X(MEMORY, memory)   /* each of those before late, with little memory for gradients */          \
    X(TRACED, traced)   /* as all, and clients ask for traces */                                   \
    X(FAIR, fair)       /* any of these: jobs with priorities and quotas, which are paused */      \
    X(TABLES, tables)   /* any of these: jobs have tables, of which each computation reads rows */ \
    X(GIVEN, given)     /* any of these: workers bring the initial values of jobs */               \
    X(RESUMED, resumed) /* any of these: what has ended is resumed, time and again */              \
    X(UPDATES, updates) /* any of these: clients change update sections */                         \
    X(STILL, still)     /* any of these: processes stand still, and masters die */                 \
    X(STANDBY, standby) /* any of these: shards have backups, and servers end */                   \
    X(DRAIN, drain)     /* any of these: nodes are emptied while jobs run */                       \
    X(ALL, all)         /* each of those before late, in proportion; some are traced */

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
    X(RAISE, raise) /* the user's code raises on a worker of job `number`, which fails */          \
    X(TRACE, trace) /* a client wants a trace, as `number` says; it goes away at the end */        \
    X(COPY, copy)   /* another process wants the name of node */                                   \
    X(PROBE, probe) /* somebody has found nobody at node, which beats */                           \
    X(DRAIN, drain) /* a client empties node, and takes that back at the end; number 1: before     \
                       that the node leaves, when it is empty */                                   \
    X(END, end)     /* a server is told to end, and does when it may, or when until_us is over */

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
    uint32_t followers;                           /* readers of running jobs */
    /* Memory of parameter servers: parts of the OpenShards that are refused for a time; the workers
     * (0: any number) and the modes (a bit for each) for which a shard that was opened with less
     * than that, or in another mode, has none. Each server draws its own, near these. */
    uint32_t full_part, room_workers, full_modes_part;
    uint32_t beat_ms;       /* between heartbeats; 0: a fifth of the time-out */
    uint32_t ps_timeout_ms; /* a server with shards is waited for so long; 0: as any node */
    uint32_t refused_part;  /* of the ends of processes, that the master sees before the time-out */
    uint32_t moved_part;    /* of shards, that have another address in a new generation */
    bool skew;              /* clocks differ, and run at 0.9 to 1.1 */
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
    bool standby;   /* its shards have backups */
    bool given;     /* workers bring its initial values */
    bool from;      /* likewise, those of a source */
    uint32_t again; /* how often a client resumes it when it has ended, */
    uint32_t more;  /* and how often with one epoch more when it has succeeded */
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
    bool updates; /* clients change update sections */
    struct sim_fault faults[SIM_FAULTS_MAX];
    uint32_t fault_count;
    uint64_t quiet_us; /* nothing goes wrong from then on */
    uint64_t live_us;  /* so long after that every job must have ended */
};

/* A worker of it is stopped, and nobody ever counts as dead. */
bool schedule_freezes(const struct sim_schedule *s);
/* Nothing in it may cost a job a step: no server, and not the master, ends, and each server is
 * heard before it would be given up. */
bool schedule_is_steady(const struct sim_schedule *s);
void schedule_make(uint64_t seed, enum sim_mode mode, struct sim_schedule *out);

struct sim_layout {       /* where the elements of a job are, with so many servers */
    uint32_t shard_count; /* 0: it was never planned so */
    uint32_t shard_elements[SIM_SHARDS_MAX];
    uint16_t map[SIM_SHARDS_MAX][SIM_ELEMENTS_MAX];
};

#endif
