/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the master's shell. Everything but what says otherwise belongs to the loop's thread. */
#ifndef GRADUS_MASTER_SHELL_SHELL_H
#define GRADUS_MASTER_SHELL_SHELL_H

#include <stdatomic.h>

#include "base/name_index.h"
#include "master/core/master.h"
#include "master/shell/checkpoints.h"
#include "master/shell/news.h"
#include "master/shell/master_shell.h"
#include "master/store/store.h"
#include "master/store/store_etcd.h"
#include "metrics/meter.h"
#include "rpc/rpc.h"
#include "execution/loop.h"
#include "execution/pool.h"
#include "service/access.h"

#define SHELL_WATCHERS_MAX 1024
#define SHELL_TEXT_BYTES_MAX (1u << 20) /* of a job file */

struct shell;
struct watcher;
struct peer;
struct tracing;
struct page_asked;

/* A call that waits for its turn on the loop, or for the core's reply. */
struct request {
    struct shell *shell;
    struct rpc_call *call;
    struct rpc_msg *msg;
    struct http_call *page;   /* the call came over HTTP: there is no other */
    struct page_asked *asked; /* then: holds the message */
    /* On the loop: read the message and act; ends with request_event(), request_reply() or
     * request_fail(). */
    void (*run)(struct request *r);
    void (*answer)(struct request *r, const struct master_reply *reply); /* the core's, if well */
    /* The core's refusal: as answer(), takes @r. NULL: the client gets it. */
    void (*refused)(struct request *r, const struct err *err);
    void *data; /* of its kind, freed with it */
    void (*free_data)(void *data);
    struct request *prev, *next; /* in the list of all requests that wait for a reply */
};

struct shell_meters {
    struct meter *jobs[JOB_STATE_END], *nodes[3], *steps, *examples, *leases_granted,
        *leases_returned, *leases_out, *calls, *call_failures, *nodes_lost, *store_failures,
        *store_writable, *rows_stored, *rows_unreadable, *watchers, *requests_waiting, *events,
        *dropped, *speculated, *recoveries, *preemptions, *changes, *takeovers, *adoptions,
        *servers_awaited, *shards_alone;
};

struct curves {                  /* curves.h */
    struct name_index index;     /* struct curve by job */
    struct store_point *pending; /* not stored yet, in their order; texts and data are owned */
    size_t count, capacity;
    struct loop_timer timer;
    bool failing; /* the last ones could not be stored */
};

struct boards {              /* boards.h */
    struct name_index index; /* struct board by job */
    struct pool *pool;       /* one thread: a directory may not answer for long */
    struct loop_timer timer;
};

struct events { /* events.h */
    struct news news;
    bool active; /* changes are noted */
    struct events_reader *readers;
    size_t reader_count;
    uint64_t sweep, swept_ms, read_ms; /* read_ms: when there was a reader last */
    struct loop_timer timer;
};

struct job_logs {            /* job_logs.h */
    struct name_index index; /* struct job_log by job */
    size_t bytes;            /* of all */
    uint64_t number;         /* of the last line; 0: none yet */
};

struct picture_times { /* of pictures for the page: traces_init() */
    uint32_t call_ms;  /* for an answer of a node that waits for nothing */
    uint32_t all_ms;   /* from a viewer's request to its answer */
};

struct shell_row { /* a row that the store has answered; the core learns of it after the actions */
    char job[JOB_ID_BYTES_MAX + 1];
    uint64_t row;
    struct err err;
};

struct shell {
    struct service_context *sc;
    const struct master_settings *settings;
    struct checkpoints checkpoints; /* root: absolute */
    struct loop *loop;
    struct pool *pool;
    struct pool *files; /* one thread: works in the checkpoint directory keep their order */
    struct pool *probes;
    const struct rpc_credentials *credentials; /* for calls to nodes; borrows; NULL: plain */
    struct rpc_loop *rpc_loop;
    struct master *master;
    struct master_actions actions;
    void (*act)(struct shell *s); /* carries out the actions; master_shell_start() sets it */
    struct shell_row *rows; /* rows that the store has answered and the core does not know of yet */
    size_t row_count, row_capacity;
    struct store *store;
    struct store_etcd *etcd; /* of the store, if it is there */
    bool leads;              /* the loop runs; main thread */
    struct pulse *pulse;
    bool store_well;    /* the last row was stored */
    struct root_watch { /* whether the checkpoint directory is there */
        struct loop_timer timer;
        bool asked;
        uint64_t asked_ms;
    } root;
    char store_problem[1100], root_problem[1100]; /* "": none */
    struct loop_timer timer, watch_timer, probe_timer, address_timer, trim_timer, meters_timer;
    uint64_t metered_ms;  /* when the meters were brought up to date; 0: never */
    bool address_missing; /* master.address could not be written */
    struct request *waiting;
    size_t waiting_count;
    struct peer *peers;
    struct name_index peer_index; /* by address */
    struct watcher *watchers;
    size_t watcher_count;
    struct name_index watched; /* the first watcher of each job, by its id */
    struct curves curves;
    struct boards boards;
    struct events events;
    struct job_logs logs;
    atomic_bool ending;
    struct tracing *traces;
    size_t trace_count;
    struct picture_times pictures;
    atomic_size_t tables_asked; /* calls of Jobs.Tables under way; any thread */
    struct shell_meters meters;
    struct master_counts told; /* what the counters have been told */
};

/* shell_request.c */
/* Any thread: take a call to the loop. */
void request_begin(struct shell *s, struct rpc_call *call, struct rpc_msg *msg,
                   void (*run)(struct request *r));
struct request *request_new(struct shell *s, struct rpc_call *call, struct rpc_msg *msg,
                            void (*run)(struct request *r));
void request_post(struct request *r);
/* Hand @e to the core; @answer gets the reply, now or later. */
void request_event(struct request *r, struct master_event *e,
                   void (*answer)(struct request *r, const struct master_reply *reply));
void request_reply(struct request *r, const ProtobufCMessage *message); /* frees @r */
void request_fail(struct request *r, const struct err *err);            /* frees @r */
/* Of a page, with a copy of what page_json() made. Frees @r. */
void request_reply_json(struct request *r, const struct buf *json);
void requests_end(struct shell *s, const char *why);
void request_free(struct request *r);
struct service_caller request_caller(const struct request *r); /* borrows */
void request_answered(struct shell *s, const struct master_reply *reply);

/* request_job.c */
/* Answer with a job; @parts: bits of job_wire_part. */
void request_reply_job(struct request *r, const struct job_record *record, unsigned parts);

/* shell_pages.c */
/* Those of the HTTP port: the page for browsers, and what it shows, as JSON. */
struct http_pages shell_pages(struct shell *s);

/* page_answer.c */
void page_asked_free(struct page_asked *a); /* NULL is fine */
#define PAGE_JSON "application/json"
/* Answer @call, which they take; @body, too. */
void page_answer(struct http_call *call, unsigned status, const char *type, struct buf *body);
void page_reply(struct http_call *call, const ProtobufCMessage *message);
void page_json(const ProtobufCMessage *message, struct buf *out); /* the body of page_reply() */
void page_fail(struct http_call *call, const struct err *err);

/* jobs_service.c: what pages ask for, too */
void run_get(struct request *r);
void run_list(struct request *r);
void run_nodes(struct request *r);
void run_cancel(struct request *r);
void run_pause(struct request *r);
void run_checkpoint(struct request *r);
/* on_set.c */
void run_set(struct request *r);

/* shell_access.c */
/* Notes that the caller is the owner of @job, which is about to be submitted. Errors: those of the
 * store. */
int owner_store(struct request *r, const char *job, struct err *err);
/* The owner of a job whose row does not say, as the store has it. */
void owner_restore(struct shell *s, struct job_record *record);
/* Checks that the caller may have one more job that waits or runs. Errors: ERR_EXHAUSTED; those of
 * the store. */
int owner_check_room(struct request *r, struct err *err);
/* Is the job who calls' to change, as an admin or its owner? False: the call is answered. */
bool request_may_change(struct request *r, const char *action, const char *job);
void request_done(struct request *r, const char *action, const char *job); /* for the audit log */

/* bad_records.c */
/* Remember how many bad records a worker has found in the files of @job. */
void bad_records_store(struct shell *s, const char *job, uint64_t count);
/* 0: none, or the store does not say. */
uint64_t bad_records_read(struct shell *s, const char *job);

/* shell_core.c */
void shell_event(struct shell *s,
                 struct master_event *e); /* step the core, carry out its actions */

/* shell_trim.c */
/* Forget jobs that ended long ago, or too many of them. Before rows are read: all that may go. */
void shell_trim(struct shell *s);
/* And from now on, from time to time. */
void shell_trim_begin(struct shell *s);

/* shell_call.c */
void shell_call(struct shell *s, const struct master_call *call);

/* shell_peer.c */
/* The channel to @address, for the process there; @incarnation: which one is meant, 0: whoever it
 * is. Borrows until peers_free(), until another incarnation is meant, which ends the calls on it,
 * or until it is the one that was used longest ago of 2048. Errors: ERR_INVALID. */
/* Has the connection to that process ended since this was asked last? */
bool peer_has_broken(struct shell *s, const char *address, uint64_t incarnation);
struct rpc_channel *peer_channel(struct shell *s, const char *address, uint64_t incarnation,
                                 struct err *err);
void peers_free(struct shell *s);

/* shell_nodes.c */
/* Job @id, which runs; @what is to be done to it, for messages: "traced". Errors: ERR_NOT_FOUND;
 * ERR_STATE it does not run; those of the store. */
int shell_running_job(struct shell *s, const char *id, const char *what,
                      const struct job_record **out, struct err *err);
/* The node of this name; of several, the one that lives. */
bool shell_find_node(struct shell *s, const char *id, struct master_node_info *out);

/* shell_probe.c */
void probes_begin(struct shell *s); /* look after late nodes from now on */

/* shell_checkpoint.c */
void shell_prepare(struct shell *s, const struct master_prepare *prepare);
void shell_find(struct shell *s, const struct master_find *find);
void shell_prune(struct shell *s, const struct master_prune *prune);
void shell_release(struct shell *s, const char *job); /* removes its directory, if it is empty */

/* shell_root.c */
/* Owner and root of s->checkpoints; the root is made unless it was there before. Errors: those of
 * the store and of files. */
int shell_root_open(struct shell *s, struct err *err);
void shell_root_watch(struct shell *s); /* now, and from time to time from then on */

/* shell_manifest.c */
void shell_manifest(struct shell *s, const struct master_manifest *manifest);

/* shell_lead.c */
/* Errors: ERR_INVALID the settings of a store of several masters. */
int lead_check(const struct master_settings *settings, struct err *err);
/* Calls are refused until lead_win(). */
void lead_stand_by(struct shell *s);
/* Waits until this master leads; then its store is open. Errors: ERR_CANCELLED the service is to
 * end; those of the store. */
int lead_win(struct shell *s, struct err *err);
/* Is this master still the one that leads? Of several, one that is not ends here. Any thread. */
bool lead_holds(struct shell *s);

/* shell_store.c */
int shell_store_put(struct shell *s, const struct job_record *record, struct err *err);
void shell_store_is(struct shell *s, const struct err *err); /* health, meters and the log */
void shell_health(struct shell *s); /* s->store_problem or s->root_problem has changed */
int shell_restore(struct shell *s, struct err *err);

/* on_watch.c */
void on_watch(struct rpc_call *call, struct rpc_msg *msg, void *service);
void on_watch_done(struct rpc_call *call, bool cancelled, void *service);
void watchers_changed(struct shell *s, const struct job_record *record);
void watchers_end(struct shell *s);

/* job_change.c */
struct job_change { /* of a job's file, on its way to the core; the data of a request */
    const char *job;
    char *const *sets; /* of the request's message */
    size_t set_count;
    char *base;           /* the text that they are applied to; owned */
    struct job_spec spec; /* the file with the changes; owned */
    unsigned tries;
    void (*parsed)(struct request *r); /* on the loop */
    int64_t submitted_ms;              /* RESUME of a job that has ended: what there is of it, */
    char *named;                       /* the checkpoint in its row; owned; "": none */
};
/* @r wants @sets, which may be none, of @job. */
void job_change_begin(struct request *r, const char *job, char *const *sets, size_t set_count);
/* Who asks for what. */
struct job_set_words job_change_words(const struct request *r);
/* Apply the changes to @text, on the pool; then c->parsed(). What is wrong is answered. */
void job_change_parse(struct request *r, const char *text);
/* The job was changed meanwhile: may it be tried once more? */
bool job_change_again(const struct request *r, const struct err *err);
/* Says why a job that the core does not know cannot be changed; @away: what to say of a job that
 * only has a row. Returns an error in any case. */
int job_change_absent(struct shell *s, const char *job, const char *away, struct err *err);
#define JOB_SETS_MAX 1000

/* on_resume.c */
void run_resume(struct request *r);

/* on_remove.c */
void run_remove(struct request *r);

/* on_set.c */
void on_set_call(struct rpc_call *call, struct rpc_msg *msg, void *service);

/* on_trace.c */
void run_trace(struct request *r); /* of a page: answers with a Timeline, which viewers share */
void on_trace_call(struct rpc_call *call, struct rpc_msg *msg, void *service);
void on_trace_done(struct rpc_call *call, bool cancelled, void *service);
void traces_init(struct shell *s);
void traces_end(struct shell *s, const char *why);

/* on_tables.c */
void on_tables_call(struct rpc_call *call, struct rpc_msg *msg, void *service);

/* on_follow.c */
void on_follow_call(struct rpc_call *call, struct rpc_msg *msg, void *service);
void on_drain_call(struct rpc_call *call, struct rpc_msg *msg, void *service);

/* on_logs.c */
void run_logs(struct request *r);

/* on_submit.c */
void on_submit_call(struct rpc_call *call, struct rpc_msg *msg, void *service);

/* jobs_service.c, cluster_service.c */
extern const struct rpc_method jobs_methods[];
extern const size_t jobs_method_count;
extern const struct rpc_method cluster_methods[];
extern const size_t cluster_method_count;

/* shell_meters.c */
void shell_meters_init(struct shell *s, struct meter_registry *r);
/* The core has had an event: now, or in a moment when that was just done. */
void shell_meters_changed(struct shell *s);
void shell_meters_update(struct shell *s); /* at once */

#endif
