/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a program of the server: its settings, its first checkpoint, start and end. */
#include "serve/rpc/serve_service.h"

#include <stdlib.h>
#include <time.h>

#include "base/mem.h"
#include "inference/open_inference.pb-c.h"
#include "os/chrono.h"
#include "os/file.h"
#include "os/log.h"
#include "serve/rpc/serve.h"
#include "serve/rpc/serve_follow.h"
#include "serve/rpc/serve_pages.h"
#include "storage/storage.h"

#define DRAIN_PAUSE_NS 2000000
#define BATCH_MAX 65536

#define AT(member) offsetof(struct serve_settings, member)
const struct field serve_fields[] = {
    {.path = "checkpoint",
     .type = FIELD_STRING,
     .offset = AT(checkpoint),
     .def = "",
     .help = "What to serve: a checkpoint, a directory of checkpoints, whose newest it is, or a "
             "safetensors file of `gradus export`; also s3://BUCKET/PREFIX"},
    {.path = "checkpoint_dir",
     .type = FIELD_STRING,
     .offset = AT(checkpoint_dir),
     .def = "gradus-state/checkpoints", /* as the master's */
     .help = "With --job, in place of --checkpoint: the directory of checkpoints of all jobs"},
    {.path = "job",
     .type = FIELD_STRING,
     .offset = AT(job),
     .def = "",
     .help = "Id of the job whose newest checkpoint is served"},
    {.path = "master",
     .type = FIELD_STRING,
     .offset = AT(master),
     .def = "",
     .help = "With --job and --follow, HOST:PORT of the master of the job while it runs: versions "
             "come from its parameter servers instead of checkpoints"},
    {.path = "tables_bytes_max",
     .type = FIELD_BYTES,
     .offset = AT(tables_bytes_max),
     .def = "4GiB",
     .min = 0,
     .max = 1e15,
     .help = "With --master: memory for the tables of one version, of which there are two for a "
             "moment; a job that has more is not followed"},
    {.path = "data_dir",
     .type = FIELD_STRING,
     .offset = AT(data_dir),
     .def = "",
     .help = "Where the train data are, of checkpoints of before they kept what was measured on "
             "them; empty: where the job file says"},
    {.path = "cache_dir",
     .type = FIELD_STRING,
     .offset = AT(cache_dir),
     .def = "",
     .help = "Directory of the indexes of data that are not read into memory; empty: beside the "
             "data"},
    {.path = "model_name",
     .type = FIELD_STRING,
     .offset = AT(model_name),
     .def = "",
     .help = "What clients call the model; empty: the id of its job"},
    {.path = "threads",
     .type = FIELD_INT,
     .offset = AT(threads),
     .def = "1",
     .min = 1,
     .max = SERVE_THREADS_MAX,
     .help = "Threads that compute, each a batch of its own"},
    {.path = "batch_max",
     .type = FIELD_INT,
     .offset = AT(batch_max),
     .def = "64",
     .min = 1,
     .max = BATCH_MAX,
     .help = "Records of one request, and of requests that are computed together"},
    {.path = "batch_delay_us",
     .type = FIELD_INT,
     .offset = AT(batch_delay_us),
     .def = "0",
     .min = 0,
     .max = 10000000,
     .help = "Microseconds that a request waits for others, to be computed together; 0: those that "
             "come while all threads compute are"},
    {.path = "waiting_max",
     .type = FIELD_INT,
     .offset = AT(waiting_max),
     .def = "1024",
     .min = 1,
     .max = SERVE_WAITING_MAX,
     .help = "Requests that may wait; further ones are refused"},
    {.path = "follow",
     .type = FIELD_BOOL,
     .offset = AT(follow),
     .def = "false",
     .help = "Look for newer checkpoints and serve them, without a gap; there need be none yet"},
    {.path = "follow_every_ms",
     .type = FIELD_MS,
     .offset = AT(follow_every_ms),
     .def = "2s",
     .min = 50,
     .max = 86400000,
     .help = "How often --follow looks"},
};
#undef AT
const size_t serve_field_count = sizeof serve_fields / sizeof serve_fields[0];

struct state {
    struct service_context *sc;
    struct serve *serve;
    struct serve_follow *follow;
    struct serve_live *live;
    char *where;
};

int serve_service_check(const void *settings, struct err *err)
{
    const struct serve_settings *c = settings;
    const bool one = c->checkpoint[0] != '\0', by_job = c->job[0] != '\0';
    if (one == by_job) {
        return err_set(
            err, ERR_INVALID,
            one ? "--checkpoint and --job exclude each other"
                : "--checkpoint DIR or FILE is missing, or --job ID with --checkpoint-dir DIR");
    }
    if (c->master[0] != '\0' && (one || !c->follow)) {
        return err_set(err, ERR_INVALID,
                       "--master follows a job that runs: --job ID and --follow belong to it");
    }
    if (c->master[0] != '\0' && rpc_target_check(c->master, err) != 0) {
        return err_wrap(err, "--master");
    }
    return storage_check(one ? c->checkpoint : c->checkpoint_dir, err);
}

static void served(void *ctx)
{
    service_set_absent(ctx, NULL);
}

static int check_follow(const char *where, struct err *err)
{
    enum storage_thing thing = STORAGE_NOTHING;
    int rc = storage_look(where, &thing, err);
    return rc != 0 || thing != STORAGE_FILE
               ? rc
               : err_set(err, ERR_INVALID,
                         "--follow looks for newer checkpoints in a directory; %s is one model in "
                         "a file",
                         where);
}

static int start_state(struct state *st, struct err *err)
{
    const struct serve_settings *c = service_config(st->sc);
    const struct serve_options options = {.name = c->model_name[0] != '\0' ? c->model_name : NULL,
                                          .threads = (size_t)c->threads,
                                          .batch_max = (size_t)c->batch_max,
                                          .waiting_max = (size_t)c->waiting_max,
                                          .delay_us = (uint64_t)c->batch_delay_us,
                                          .meters = service_meters(st->sc)};
    const bool live = c->master[0] != '\0';
    st->where = live                ? mem_printf("job %s at %s", c->job, c->master)
                : c->job[0] != '\0' ? storage_join(c->checkpoint_dir, c->job)
                                    : mem_strdup(c->checkpoint);
    const struct serve_live_options of_job = {.master = c->master,
                                              .job = c->job,
                                              .credentials = service_credentials(st->sc),
                                              .tables_bytes_max = (uint64_t)c->tables_bytes_max};
    int rc = live        ? serve_live_new(&of_job, &st->live, err)
             : c->follow ? check_follow(st->where, err)
                         : 0;
    rc = rc != 0 ? rc : serve_new(&options, &st->serve, err);
    if (rc != 0) {
        return rc;
    }
    const struct serve_follow_options follow = {.serve = st->serve,
                                                .where = st->where,
                                                .live = st->live,
                                                .data_dir = c->data_dir,
                                                .cache_dir = c->cache_dir,
                                                .batch_max = (size_t)c->batch_max,
                                                .threads = (size_t)c->threads,
                                                .every_ms = c->follow_every_ms,
                                                .served = served,
                                                .ctx = st->sc,
                                                .meters = service_meters(st->sc)};
    service_set_absent(st->sc, live ? "the job has no version to serve yet"
                                    : "there is no checkpoint to serve yet");
    st->follow = serve_follow_new(&follow);
    struct err none = {0};
    rc = serve_follow_look(st->follow, &none);
    if (rc != 0 && live) {
        char shown[512];
        log_warn("not_following", "error=%s", log_quote(none.msg, shown, sizeof shown));
    }
    return rc == 0 || live || (c->follow && rc == ERR_NOT_FOUND) ? 0
                                                                 : err_set(err, rc, "%s", none.msg);
}

static void state_free(struct state *st)
{
    serve_follow_free(st->follow);
    serve_live_free(st->live);
    if (st->serve != NULL) {
        serve_free(st->serve);
    }
    free(st->where);
    free(st);
}

int serve_service_start(struct service_context *sc, struct err *err)
{
    struct state *st = mem_new(1, sizeof *st);
    st->sc = sc;
    int rc = start_state(st, err);
    if (rc == 0) {
        const struct service_methods methods = {.service =
                                                    &inference__grpcinference_service__descriptor,
                                                .methods = serve_methods,
                                                .method_count = serve_method_count,
                                                .ctx = st->serve};
        struct http_pages pages = serve_pages(st->serve);
        pages.body_bytes_max = (size_t)service_common(sc)->message_bytes_max;
        pages.bodies_bytes_max = (size_t)service_common(sc)->inflight_bytes_max;
        service_serve_pages(sc, &pages);
        rc = service_serve(sc, &methods, err);
    }
    if (rc != 0) {
        state_free(st);
        return rc;
    }
    service_set_state(sc, st);
    return 0;
}

int serve_service_ready(struct service_context *sc, struct err *err)
{
    const struct serve_settings *c = service_config(sc);
    struct state *st = service_state(sc);
    return c->follow ? serve_follow_start(st->follow, err) : 0;
}

/* Waiting requests are answered before the end. */
void serve_service_drain(struct service_context *sc, int64_t grace_ms)
{
    struct state *st = service_state(sc);
    const uint64_t end = chrono_now_ms() + (uint64_t)grace_ms;
    const struct timespec pause = {.tv_nsec = DRAIN_PAUSE_NS};
    serve_drain(st->serve);
    while (serve_busy(st->serve) > 0 && chrono_now_ms() < end) {
        (void)nanosleep(&pause, NULL);
    }
}

void serve_service_stop(struct service_context *sc)
{
    state_free(service_state(sc));
}
