/* SPDX-License-Identifier: Apache-2.0 */
/* The simulator: the cores of a master, of parameter servers and of workers in one process, under
 * virtual time, over a network and machines that fail as a seed says.
 *
 * A *schedule* is everything that is decided beforehand: the jobs, the nodes, what goes wrong when.
 * A *world* is the run of one schedule. A run is a function of its schedule alone, so a schedule
 * that fails can be run again, smaller (shrink.c), or with its trace.
 *
 * The files are the shells around the cores: world.c time; process.c processes; net.c calls and
 * streams; member.c a node's place in the cluster; master_node.c, ps_node.c, ps_shard.c, ps_life.c,
 * ps_budget.c, worker_node.c, worker_answers.c, worker_act.c, worker_rows.c what services/ does in
 * threads; master_clients.c who asks the master; disk.c checkpoints; tables.h sparse tables;
 * followers.h readers of jobs; standby.h backups of shards; fault.c what goes wrong; rounds.c and
 * recorder.c traces. check.c knows what must hold. Time is in µs; cores see milliseconds of their
 * node's clock. */
#ifndef GRADUS_SIM_SIM_H
#define GRADUS_SIM_SIM_H

#include <setjmp.h>
#include <stdbool.h>
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
#include "sim/budget.h"
#include "sim/counts.h"
#include "sim/drain.h"
#include "sim/followers.h"
#include "sim/invariants.h"
#include "sim/messages.h"
#include "sim/plans.h"
#include "sim/tables.h"
#include "worker/core/worker.h"
#include "worker/core/worker_fill.h"

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
#define SIM_SNAPSHOTS_MAX 32

struct sim_request { /* a tag of a shard's core */
    uint32_t next;   /* free ones */
    bool used, waiting;
    struct sim_shard *shard;
    uint32_t unary, attempt; /* or */
    uint32_t exchange, read; /* SIM_NONE both: it is a unary one; read: a follower's */
    uint32_t serial;
};

struct sim_shard { /* on a parameter server */
    struct sim_leases leases;
    struct sim_standby standby;
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
    struct shard_written written;
    uint32_t elements;
    const struct sim_layout *layout;
    uint16_t map[SIM_ELEMENTS_MAX]; /* element of the shard → of the model */
    uint32_t has;                   /* elements with values: a bit for each */
    struct shard *core;
    struct shard_actions actions;
    struct snapshot_slot snapshots[SIM_SNAPSHOTS_MAX];
    /* Sums, as services/ps/rpc/ps_sums.c keeps them. */
    bool begun;
    uint32_t settled;
    struct sim_sums mine, totals[SIM_ROUNDS_MAX], last[SIM_ROUNDS_MAX];
    uint32_t present, previous; /* SIM_NONE */
    struct tensor slot;         /* momentum */
    struct sim_era eras[SIM_ERAS_MAX];
    uint32_t era_count;
    struct ids applied;
    uint64_t examples;
    uint32_t gradients; /* buffers that its core has */
    uint32_t waiting;   /* requests without an answer */
    uint32_t kept;      /* SHARD_KEEP without its SHARD_FORGET */
    uint32_t room;      /* for so many workers at least */
    uint32_t modes;     /* that it was in: a bit for each */
    bool stepping;
    struct sim_tables *tables; /* NULL: the job has none */
};

struct sim_link {    /* of a worker's job to a shard */
    uint32_t stream; /* SIM_NONE */
    struct sim_place place;
};

struct pending_exchange {
    bool open, pulls, early, rows, brings_rows;
    struct ledger_batch rows_of;
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
    struct table_gradient tables[SIM_TABLE_COUNT];
};

enum mail_kind {
    MAIL_REQUEST,
    MAIL_EXCHANGED,
    MAIL_MASTER,
    MAIL_TIMER,
    MAIL_RECORD_DUE,
    MAIL_FILLED,
    MAIL_FILL_DUE
};
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
    /* Of a worker: the RECORD that waits to be answered, exchanges of the recorded steps. */
    bool asked;
    uint32_t unary, attempt;
    uint64_t first, last;
};

#define SIM_STARTS_KEPT 16

/* StartJob while the shards get their initial values. */
struct sim_fill {
    bool active;
    struct worker_fill core;
    uint64_t generation, since_us;
    struct sim_place places[SIM_SHARDS_MAX];
    struct {
        uint32_t unary, attempt;
    } calls[SIM_STARTS_KEPT];
    uint32_t call_count;
};

struct sim_worker_job {
    bool there, loaded, started, halted;
    uint32_t serial; /* of worker jobs in this world */
    struct worker_held held;
    struct sim_fill fill;
    uint64_t core_start; /* of the StartJob that the core was made for */
    uint32_t job;
    uint16_t name; /* the node's when it was started */
    uint32_t shard_count;
    const struct sim_layout *layout; /* that it was started with */
    struct worker *core;
    struct consistency consistency; /* of the last assignment that it took */
    struct worker_actions actions;
    size_t at;     /* next action to do */
    bool stepping; /* actions are being done */
    bool busy;     /* computing or loading: mail waits */
    uint64_t busy_us;
    uint64_t taken; /* the newest generation whose Assign it answered */
    struct worker_action computing;
    struct tensor rows; /* that the computation has read; of tables: */
    struct sim_values table_rows;
    struct { /* rows that came with parameters, from each shard */
        struct tensor t;
        struct sim_values table_rows;
        struct {
            uint64_t opened;
            struct ids ids;
            struct ledger_batch of;
        } shard[SIM_SHARDS_MAX];
    } ahead;
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
#define SIM_HEARTBEAT_TIMEOUT_MS 3000

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
    uint64_t lost_us[2];                   /* when the last two calls to it were lost in silence */
    uint16_t beat_name;                    /* and as whom it came */
    struct sim_drain drain;                /* drain.c */
    struct sim_departure departure;        /* departure.c */
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
    uint32_t train_records; /* of which an epoch has all or, with drop_last, whole batches */
    uint32_t records, test_records, batch_records, split_batches, batches, epochs;
    uint64_t steps;
    uint32_t rule_rounds; /* of its rule; none are exchanged with one shard */
    /* Its update sections, as its stored row has them: at least one. */
    struct sim_era eras[SIM_ERAS_MAX];
    uint32_t era_count;
    bool eras_wait; /* the last one begins where the job starts next */
    uint64_t
        eras_opened; /* they are those of shards that were opened in this generation or later */
    struct {         /* what clients know of the last one */
        struct sim_era told;
        bool unsure;            /* a change may have come into force that nobody was told of */
        uint32_t life, waiting; /* requests to this process of the master without an answer: */
        struct {
            uint64_t request;
            struct sim_era era;
            uint64_t file; /* the checksum of what the job's would be */
            bool servers;  /* it wants another number of them, and nothing else */
        } asked[SIM_ASKED_MAX];
    } update;
    enum job_state state;
    bool tables, given;
    bool from;  /* of a source that workers look at when it begins */
    bool named; /* its row names a checkpoint: it never begins anew */
    struct sim_table_plan table_plans[SIM_TABLE_COUNT];
    uint32_t shard_count, elements;                /* as it was opened last */
    struct sim_layout layouts[SIM_SHARDS_MAX + 1]; /* by the number of servers */
    struct {                                       /* check_servers.c */
        uint64_t moves_us, wants_us, recoveries;   /* since then it does; 0: it does not */
        bool due;                                  /* its master has said that it does */
        uint32_t workers;                          /* that it had last: a bit for each node; */
        uint32_t life, lives[SIM_NODES_MAX];       /* the processes of the master and of these */
    } servers;
    struct consistency first; /* of the job file */
    bool changed, partial;    /* was it ever */
    struct {                  /* after it had ended (check_resumed.c) */
        uint32_t left, more;  /* how often a client still will */
        bool due, more_now;   /* a client is about to, and tries until it is told; one epoch more */
        bool extended;        /* it was ever */
        uint64_t request;     /* its last one */
        uint64_t seen, told; /* resumes that the job has by its record; that a client was told of */
        bool begins;         /* its first start after that is checked: it is above generation */
        uint64_t opened;     /* and from a checkpoint of this step at least */
        uint64_t newest;
        bool trains; /* when it succeeds it must have come further than */
        uint64_t from;
        uint32_t cancels, raises;   /* asked for in which of its lives: a bit for each */
        uint64_t stops[8], cuts[8]; /* it has succeeded there before, and ended otherwise */
        uint32_t stop_count, cut_count;
    } again;
    struct { /* training.stop of the job file */
        bool wanted, keeps, restore;
        uint64_t patience;
        double min_delta;
        struct field_interval every; /* evaluations */
    } stop;
    bool unsteady;                 /* an evaluation or a checkpoint has failed */
    uint64_t stopped;              /* the step at which it ended early; 0: it did not */
    bool pausing, paused, shelved; /* a client wants it; was told; a life of the master did it */
    uint64_t pause_request, resume_request;
    uint64_t running_us, paused_us;        /* when it came to that state */
    bool held;                             /* nodes, after the last step */
    uint64_t submit_order;                 /* of its row */
    uint64_t steady_step;                  /* that it has come to */
    uint64_t begun[SIM_VERSIONS_MAX / 64]; /* evaluations: a bit for each step */
    uint64_t fits_us; /* since then it waits for what is free; 0: it does not */
    uint64_t opened;  /* the generation of the last start */
    uint64_t opening; /* of the shards of that */
    struct sim_job_standby standby;
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

/* A sync job as its batches make it. */
struct sim_reference {
    bool begun;
    uint64_t version; /* as far as it is known */
    struct tensor values, slot;
    struct sim_rows *rows[SIM_VERSIONS_MAX]; /* of tables; NULL */
};

struct sim_store_row { /* that the store has answered; the master's core does not know yet */
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
    EVENT_READ,
    EVENT_FOLLOW, /* a follower's request arrives; its turn has come */
    EVENT_SAY,    /* a primary says to its backup again what that has not received: its serial */
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
    EVENT_FILL_DUE,   /* a worker brings initial values again: its job */
    EVENT_UNPAUSE,    /* arg: a job, at the end of all faults */
    EVENT_DRAIN,      /* a client asks once more what node arg has */
    EVENT_DEPART,     /* server arg, in life more, says once more that it is to end */
    EVENT_AGAIN, /* a client resumes a job that has ended: arg; it asks until that is answered */
};

struct event {
    uint64_t us;
    uint32_t seq;
    uint8_t kind, node;
    uint32_t life, arg, more;
};

/* ---- the world ---- */

struct world {
    const struct sim_schedule *schedule;
    uint64_t key; /* of the seed */
    uint64_t now_us;
    bool quiet, ended;
    bool steady; /* the schedule is */
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
    struct sim_store_row rows[SIM_ROWS_MAX + 1];
    uint32_t row_count;
    struct sim_timer master_timer;
    uint64_t client_request; /* of SUBMIT, CANCEL … */
    uint32_t drains;         /* nodes that a client wants emptied */
    uint32_t departures;     /* servers that were told to end */
    uint64_t troubles;       /* changes of what is wrong, and of what clients want */
    uint64_t again_us;       /* when a job was resumed last; 0: none was */
    uint64_t submits;

    struct sim_job jobs[SIM_JOBS_MAX];
    struct sim_reference references[SIM_JOBS_MAX];
    struct budget tables_budget;  /* of all servers */
    struct sim_bytes *said_bytes; /* by primaries, of tables */
    uint64_t table_draws;
    struct sim_followers follow;
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
    uint64_t rows_asked;              /* with what is pulled */
    struct sim_counts counts;
};

#include "sim/shells.h"

#endif
