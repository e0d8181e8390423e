/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a program of the parameter server: its settings, its place in the cluster, start and end.
 * When the master does not know it any more, it drops all shards, and their jobs recover. */
#include "ps/rpc/ps_service.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "gradus/v1/ps.pb-c.h"
#include "os/chrono.h"
#include "os/log.h"
#include "ps/rpc/ps.h"
#include "service/access.h"
#include "service/departure.h"
#include "service/membership.h"
#include "storage/storage.h"

#define LEAVE_MS_MAX 2000

#define AT(member) offsetof(struct ps_settings, member)
const struct field ps_fields[] = {
    {.path = "master",
     .type = FIELD_STRING,
     .offset = AT(master),
     .def = SERVICE_MASTER_ADDRESS,
     .help = "Address of the master, host:port; of several masters all, with commas"},
    {.path = "name",
     .type = FIELD_STRING,
     .offset = AT(name),
     .def = "",
     .help = "Id in the cluster; empty: the master chooses one"},
    {.path = "checkpoint_dir",
     .type = FIELD_STRING,
     .offset = AT(checkpoint_dir),
     .def = "gradus-state/checkpoints", /* as the master's */
     .help =
         "Directory of checkpoints, or s3://BUCKET/PREFIX; the master and all parameter servers "
         "must see the same one"},
    {.path = "data_root",
     .type = FIELD_TEXTS,
     .offset = AT(data_root),
     .def = "",
     .help = "Take rows that tables of a job begin with (from.checkpoint) out of checkpoints below "
             "this directory or s3://BUCKET/PREFIX alone, or below one of a list ([/a, /b]); "
             "empty: any that this user can read"},
    {.path = "shards_max",
     .type = FIELD_INT,
     .offset = AT(shards_max),
     .def = "16",
     .min = 1,
     .max = PS_SHARDS_MAX,
     .help = "Jobs that may have a shard here at once"},
    {.path = "memory_bytes_max",
     .type = FIELD_BYTES,
     .offset = AT(memory_bytes_max),
     .def = "0",
     .min = 0,
     .max = 1e15,
     .help = "Memory for parameters, optimizer slots and gradients; 0: 4/5 of the limit of a "
             "control group (a container's), and as much as the machine has where there is none"},
    {.path = "gradient_bytes_max",
     .type = FIELD_BYTES,
     .offset = AT(gradient_bytes_max),
     .def = "4GiB",
     .min = 0,
     .max = 1e15,
     .help =
         "Memory for gradients that come in or are not applied yet, over all jobs, shared memory "
         "included; workers wait when it is full; 0: as much as memory-bytes-max allows"},
    {.path = "chunk_bytes",
     .type = FIELD_BYTES,
     .offset = AT(chunk_bytes),
     .def = "512KiB",
     .min = 4096,
     .max = 67108864,
     .help = "Parameters in one message of an exchange"},
    {.path = "apply_threads",
     .type = FIELD_INT,
     .offset = AT(apply_threads),
     .def = "0",
     .min = 0,
     .max = PS_APPLY_THREADS_MAX,
     .help =
         "Threads that compute one update of a large shard, the same bits for any number; 0: "
         "one for each processor that it may use, at most 4; a quota of a control group counts"},
    {.path = "poll_us",
     .type = FIELD_STRING,
     .offset = AT(poll_us),
     .def = "auto",
     .help = "Poll for a request so many microseconds before sleeping; 0: never; auto: twice as "
             "long as requests usually take to come, where that takes a processor from nobody"},
    {.path = "drain_timeout_ms",
     .type = FIELD_MS,
     .offset = AT(drain_timeout_ms),
     .def = "10s",
     .min = 0,
     .max = 3600000,
     .help = "After the first SIGTERM: time for shards to move to other servers, where there are "
             "any; 0: do not wait. Before --grace-ms begins"},
};
#undef AT
const size_t ps_field_count = sizeof ps_fields / sizeof ps_fields[0];

struct state {
    struct service_context *sc;
    struct ps *ps;
    struct membership *membership;
    struct departure departure;
    struct pulse *pulse;
    bool unready; /* for the membership's thread: the master said so last */
};

int ps_service_check(const void *settings, struct err *err)
{
    const struct ps_settings *c = settings;
    if (c->chunk_bytes % (int64_t)sizeof(float) != 0) {
        return err_set(err, ERR_INVALID, "chunk_bytes %" PRId64 " must be a multiple of 4",
                       c->chunk_bytes);
    }
    return 0;
}

const char *ps_service_peer(const void *settings)
{
    return ((const struct ps_settings *)settings)->master;
}

int64_t ps_service_leave_ms(const void *settings)
{
    return ((const struct ps_settings *)settings)->drain_timeout_ms;
}

const char *ps_service_poll(const void *settings)
{
    return ((const struct ps_settings *)settings)->poll_us;
}

/* ---- membership ---- */

static void on_joined(void *ctx, const struct membership_node *node)
{
    struct state *st = ctx;
    char id[160];
    ps_set_incarnation(st->ps, node->incarnation);
    log_info("joined", "node=%s", log_quote(node->id, id, sizeof id));
}

static void on_lost(void *ctx, const struct err *reason)
{
    struct state *st = ctx;
    char text[512];
    log_warn("lost", "reason=%s", log_quote(reason->msg, text, sizeof text));
    service_set_absent(st->sc, reason->msg);
    ps_drop(st->ps, NULL, 0);
}

static void on_stop_job(void *ctx, const char *job)
{
    struct state *st = ctx;
    if (job[0] != 0) { /* an empty id would mean all */
        ps_drop(st->ps, job, 0);
    }
}

static void on_stop_opening(void *ctx, uint64_t opening)
{
    struct state *st = ctx;
    if (opening != 0) { /* 0 would mean all */
        ps_drop(st->ps, NULL, opening);
    }
}

static void add_shard(void *ctx, const char *job, const struct membership_shard *shard)
{
    membership_jobs_add_shard(ctx, job, shard);
}

static void on_unready(void *ctx, const char *why)
{
    struct state *st = ctx;
    char text[512];
    if (why != NULL && !st->unready) {
        log_info("not_ready", "reason=%s", log_quote(why, text, sizeof text));
    } else if (why == NULL && st->unready) {
        log_info("ready_again", "%s", "");
    }
    st->unready = why != NULL;
    service_set_absent(st->sc, why);
}

static void on_jobs(void *ctx, struct membership_jobs *jobs)
{
    struct state *st = ctx;
    ps_held(st->ps, add_shard, jobs);
}

static bool on_leaves(void *ctx)
{
    struct state *st = ctx;
    return departure_has_begun(&st->departure);
}

static void on_moves(void *ctx, int code, bool moves)
{
    struct state *st = ctx;
    departure_heard(&st->departure, code, moves);
}

static void on_works(void *ctx, struct membership_works *works)
{
    struct state *st = ctx;
    ps_works(st->ps, works);
}

static void on_trouble(void *ctx, const struct err *err, uint64_t tried_ms)
{
    (void)ctx;
    char text[512];
    if (err == NULL) {
        log_info("master_back", "after_ms=%" PRIu64, tried_ms);
    } else {
        log_warn("master_unreachable", "tried_ms=%" PRIu64 " error=%s", tried_ms,
                 log_quote(err->msg, text, sizeof text));
    }
}

static const struct membership_events membership_events = {
    .joined = on_joined,
    .lost = on_lost,
    .stop_job = on_stop_job,
    .stop_opening = on_stop_opening,
    .unready = on_unready,
    .jobs = on_jobs,
    .works = on_works,
    .trouble = on_trouble,
    .leaves = on_leaves,
    .moves = on_moves,
};

/* ---- hooks ---- */

static void refused(void *ctx, struct rpc_call *call, const char *job, const struct err *why)
{
    const struct service_caller caller = service_caller_of(call);
    service_refused(ctx, &caller, ACCESS_SECRET, job, why);
}

int ps_service_start(struct service_context *sc, struct err *err)
{
    const struct ps_settings *c = service_config(sc);
    struct ps_options options = {.checkpoint_dir = c->checkpoint_dir,
                                 .data_root = c->data_root,
                                 .shards_max = (size_t)c->shards_max,
                                 .memory_bytes_max = (uint64_t)c->memory_bytes_max,
                                 .gradient_bytes_max = (uint64_t)c->gradient_bytes_max,
                                 .chunk_bytes = (size_t)c->chunk_bytes,
                                 .apply_threads = (unsigned)c->apply_threads,
                                 .shared_memory = service_common(sc)->shared_memory,
                                 .polling = service_polling(sc),
                                 .standby = true,
                                 .local_sockets = service_local_dir(sc),
                                 .credentials = service_credentials(sc),
                                 .meters = service_meters(sc),
                                 .refused = refused,
                                 .refused_ctx = sc};
    if (storage_check(c->checkpoint_dir, err) != 0) {
        return err_wrap(err, "checkpoint directory");
    }
    if (options.memory_bytes_max == 0) {
        options.memory_bytes_max = ps_memory_bytes("");
    }
    if (options.apply_threads == 0) {
        options.apply_threads = ps_apply_threads("");
    }
    log_info("limits",
             "memory_bytes_max=%" PRIu64 " gradient_bytes_max=%" PRIu64 " apply_threads=%u",
             options.memory_bytes_max, options.gradient_bytes_max, options.apply_threads);
    struct ps *ps = ps_new(&options, err);
    if (ps == NULL) {
        return err->code;
    }
    struct service_methods methods = {.service = &gradus__v1__parameter_server__descriptor,
                                      .methods = ps_methods,
                                      .method_count = ps_method_count,
                                      .ctx = ps};
    int rc = service_serve(sc, &methods, err);
    if (rc != 0) {
        ps_free(ps);
        return rc;
    }
    struct state *st = mem_new(1, sizeof *st);
    *st = (struct state){.sc = sc, .ps = ps, .pulse = service_pulse(sc)};
    departure_init(&st->departure);
    service_set_absent(sc, "the master does not know this server yet");
    service_set_state(sc, st);
    return 0;
}

int ps_service_ready(struct service_context *sc, struct err *err)
{
    struct state *st = service_state(sc);
    const struct ps_settings *c = service_config(sc);
    struct membership_options options = {.role = MEMBERSHIP_PS,
                                         .master = c->master,
                                         .name = c->name,
                                         .address = service_advertised(sc),
                                         .http_address = service_http_advertised(sc),
                                         .credentials = service_credentials(sc),
                                         .events = &membership_events,
                                         .ctx = st,
                                         .pulse = st->pulse};
    st->membership = membership_start(&options, err);
    return st->membership == NULL ? err->code : 0;
}

static void count_shard(void *ctx, const char *job, const struct membership_shard *shard)
{
    (void)job;
    (void)shard;
    (*(size_t *)ctx)++;
}

/* What would be lost with this server goes to others first. */
static void move_shards(struct service_context *sc, struct state *st)
{
    const struct ps_settings *c = service_config(sc);
    const uint64_t begin_ms = chrono_now_ms();
    size_t before = 0, after = 0;
    ps_held(st->ps, count_shard, &before);
    if (before == 0 || c->drain_timeout_ms == 0) {
        return;
    }
    const bool over = departure_wait(&st->departure, st->membership, (uint64_t)c->drain_timeout_ms);
    ps_held(st->ps, count_shard, &after);
    log_info("shards_left", "before=%zu after=%zu ms=%" PRIu64 "%s", before, after,
             chrono_now_ms() - begin_ms, over ? "" : " reason=\"--drain-timeout-ms is over\"");
}

void ps_service_drain(struct service_context *sc, int64_t grace_ms)
{
    struct state *st = service_state(sc);
    if (st->membership != NULL) {
        move_shards(sc, st);
        membership_leave(st->membership,
                         (unsigned)(grace_ms < LEAVE_MS_MAX ? grace_ms : LEAVE_MS_MAX));
    }
    ps_drain(st->ps);
}

void ps_service_stop(struct service_context *sc)
{
    struct state *st = service_state(sc);
    membership_free(st->membership);
    departure_release(&st->departure);
    ps_free(st->ps);
    free(st);
}
