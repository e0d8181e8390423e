/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the master's core in a process: carries out its actions, and starts and ends everything
 * around it. */
#include "master/shell/master_shell.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/mem.h"
#include "gradus/v1/cluster.pb-c.h"
#include "gradus/v1/jobs.pb-c.h"
#include "master/shell/boards.h"
#include "master/shell/curves.h"
#include "master/shell/events.h"
#include "master/shell/job_logs.h"
#include "master/shell/shell.h"
#include "os/chrono.h"
#include "os/file.h"
#include "os/log.h"
#include "service/pulse.h"

#define POOL_THREADS 2 /* parse job files */
#define POOL_QUEUE 256
#define MAILBOX 16384
#define ADDRESS_AGAIN_MS 2000

#define ROW(member, type_, def_, min_, max_, help_)                                                \
    {                                                                                              \
        .path = #member, .type = type_, .offset = offsetof(struct master_settings, member),        \
        .def = def_, .min = min_, .max = max_, .help = help_                                       \
    }
static const char *const off_on[] = {"off", "on", NULL};
static const char *const resume_hold[] = {"resume", "hold", NULL};

const struct field master_fields[] = {
    ROW(state_dir, FIELD_STRING, "gradus-state", 0, 0,
        "Directory of the master's state; one master at a time"),
    ROW(store, FIELD_STRING, "", 0, 0,
        "Where jobs are kept: etcd://HOST:PORT[,HOST:PORT...]/PREFIX for several masters, of which "
        "one leads; empty: state_dir, for one master"),
    ROW(store_tls_ca, FIELD_STRING, "", 0, 0,
        "TLS to the store: the PEM file of the CA that its members' certificates are of; empty: "
        "without TLS"),
    ROW(store_tls_cert, FIELD_STRING, "", 0, 0,
        "The PEM file of the certificate that is shown to the store; empty: none"),
    ROW(store_tls_key, FIELD_STRING, "", 0, 0, "Its key"),
    ROW(store_credentials, FIELD_STRING, "", 0, 0,
        "File with one line, USER:PASSWORD, that is shown to the store; it is read again when a "
        "new login is needed; empty: none"),
    ROW(store_import, FIELD_STRING, "", 0, 0,
        "State directory of a master that kept its jobs there: they are moved into the store, "
        "once, "
        "if that has none; empty: none"),
    ROW(lead_lease, FIELD_MS, "5s", ETCD_LEASE_S_MIN * 1000.0, ETCD_LEASE_S_MAX * 1000.0,
        "With several masters: time that the one that leads is not heard of by the store until "
        "another one leads; whole seconds"),
    ROW(checkpoint_dir, FIELD_STRING, "", 0, 0,
        "Directory of checkpoints, shared with the parameter servers, or s3://BUCKET/PREFIX; "
        "empty: checkpoints in state_dir"),
    ROW(tensorboard_root, FIELD_STRING, "", 0, 0,
        "Directory below which jobs may have event files written (training.tensorboard), by this "
        "process; empty: nowhere"),
    ROW(heartbeat_timeout_ms, FIELD_MS, "3000", 300, 600000,
        "Time without a heartbeat after which a worker is given up, and a parameter server that "
        "holds no shard"),
    ROW(heartbeat_interval_ms, FIELD_MS, "0", 0, 60000,
        "Time between the heartbeats of a node, less than half of heartbeat_timeout_ms; 0: a fifth "
        "of it. A node that misses two is late: it is looked whether its process has ended"),
    ROW(ps_timeout_ms, FIELD_MS, "120000", 300, 7200000,
        "Time without a heartbeat for which a parameter server that holds shards is waited for, "
        "as long as nobody knows that its process has ended; at least heartbeat_timeout_ms"),
    {.path = "unfinished",
     .type = FIELD_ENUM,
     .offset = offsetof(struct master_settings, unfinished),
     .def = "resume",
     .choices = resume_hold,
     .help = "Jobs that had not ended when the master of before did: resume lets them go on, hold "
             "makes them wait for `gradus resume`"},
    ROW(jobs_max, FIELD_INT, "1000", 1, 100000, "Jobs that wait or run at once"),
    ROW(owner_jobs_max, FIELD_INT, "500", 1, 100000,
        "Of these, jobs of one submitter who is no admin, where it is known who submits"),
    ROW(finished_max, FIELD_INT, "1000", 0, 100000,
        "Finished jobs in memory, which `gradus list` shows; the state directory keeps more"),
    ROW(finished_rows_max, FIELD_INT, "10000", 0, 10000000,
        "Finished jobs in the state directory; of what is more, that which ended first is "
        "forgotten, but none of those in memory and none that ended within the last hour. Their "
        "checkpoints stay"),
    ROW(finished_rows_age, FIELD_MS, "8760h", 0, 315360000000.0,
        "Finished jobs that ended longer ago are forgotten likewise; 0: never"),
    ROW(owner_running_max, FIELD_INT, "0", 0, 100000,
        "Running jobs of one owner; more wait in the queue, in nobody's way; 0: no limit"),
    ROW(owner_workers_max, FIELD_INT, "0", 0, 100000,
        "Workers of all running jobs of one owner together; 0: no limit"),
    ROW(owner_ps_memory_max, FIELD_BYTES, "0", 0, 1125899906842624.0,
        "Bytes on parameter servers of all running jobs of one owner together, as `gradus plan` "
        "counts them; 0: no limit"),
    {.path = "preemption",
     .type = FIELD_ENUM,
     .offset = offsetof(struct master_settings, preemption),
     .def = "off",
     .choices = off_on,
     .help = "on: a job that waits for nodes makes running ones of a lower priority take a "
             "checkpoint, give up theirs and go back to the queue"},
    ROW(preempt_after_ms, FIELD_MS, "60000", 0, 86400000,
        "Time that a job has run before it makes way for another one"),
};
const size_t master_field_count = sizeof master_fields / sizeof *master_fields;

/* ---- actions ---- */

static void put(struct shell *s, const struct master_store *store)
{
    s->rows = mem_grow(s->rows, &s->row_capacity, s->row_count + 1, sizeof *s->rows);
    struct shell_row *row = &s->rows[s->row_count++];
    *row = (struct shell_row){.row = store->row};
    (void)snprintf(row->job, sizeof row->job, "%s", store->job->id);
    bool well = shell_store_put(s, store->job, &row->err) == 0;
    meter_add(well ? s->meters.rows_stored : s->meters.store_failures, 1);
    shell_store_is(s, row->err.code == 0 ? NULL : &row->err);
}

static void act(struct shell *s)
{
    for (size_t i = 0; i < s->actions.count && lead_holds(s); i++) {
        const struct master_action *a = &s->actions.items[i];
        switch (a->kind) {
        case MASTER_REPLY:
            request_answered(s, &a->reply);
            break;
        case MASTER_CALL:
            shell_call(s, &a->call);
            break;
        case MASTER_PREPARE:
            shell_prepare(s, &a->prepare);
            break;
        case MASTER_MANIFEST:
            shell_manifest(s, &a->manifest);
            break;
        case MASTER_FIND:
            shell_find(s, &a->find);
            break;
        case MASTER_PRUNE:
            shell_prune(s, &a->prune);
            break;
        case MASTER_STORE:
            put(s, &a->store);
            break;
        case MASTER_CHANGED:
            (void)master_job(s->master, a->job->id, chrono_now_ms()); /* fresh rates */
            watchers_changed(s, a->job);
            curves_changed(s, a->job);
            boards_changed(s, a->job);
            events_changed(s, a->job);
            break;
        case MASTER_LOG:
            log_write((enum log_level)a->log.level, a->log.event, "%s", a->log.text);
            events_logged(s, &a->log);
            job_logs_add_own(s, &a->log);
            break;
        }
    }
}

/* ---- life ---- */

static void shell_free(struct shell *s)
{
    if (s->loop != NULL) {
        loop_stop(s->loop);
        loop_join(s->loop);
    }
    peers_free(s);
    if (s->rpc_loop != NULL) {
        rpc_loop_free(s->rpc_loop);
    }
    pool_free(s->pool);
    pool_free(s->files);
    pool_free(s->probes);
    pool_free(s->boards.pool);
    if (s->loop != NULL) {
        loop_free(s->loop);
    }
    if (s->store != NULL) {
        s->store->ops->close(s->store);
    }
    store_etcd_free(s->etcd);
    master_actions_release(&s->actions);
    master_free(s->master);
    name_index_release(&s->watched);
    curves_release(s);
    boards_release(s);
    events_release(s);
    job_logs_release(s);
    free(s->checkpoints.root);
    free(s->rows);
    free(s);
}

static int open_sqlite(struct shell *s, struct err *err)
{
    char host[256] = "";
    (void)gethostname(host, sizeof host - 1);
    char owner[320];
    (void)snprintf(owner, sizeof owner, "gradus-master with process id %ld on host %s",
                   (long)getpid(), host);
    return store_sqlite_open(s->settings->state_dir, owner, &s->store, err);
}

/* When the store is open: from now on this master leads. */
static int begin(struct shell *s, struct err *err)
{
    int rc = shell_root_open(s, err);
    rc = rc < 0 ? rc : shell_restore(s, err); /* before the loop runs: no other thread is here */
    if (rc < 0) {
        return rc;
    }
    shell_root_watch(s);
    shell_trim_begin(s);
    probes_begin(s);
    pulse_begin(s->pulse, "master", s->loop);
    rc = loop_start(s->loop, "master", err);
    s->leads = rc == 0;
    return rc;
}

static int start_threads(struct shell *s, struct err *err)
{
    s->loop = loop_new(MAILBOX);
    traces_init(s);
    s->pool = pool_new(POOL_THREADS, POOL_QUEUE, "master-pool", err);
    s->files = s->pool == NULL ? NULL : pool_new(1, POOL_QUEUE, "master-files", err);
    s->probes = s->files == NULL ? NULL : pool_new(1, 4, "master-probes", err);
    s->boards.pool = s->probes == NULL ? NULL : pool_new(1, POOL_QUEUE, "master-events", err);
    s->rpc_loop = s->boards.pool == NULL ? NULL : rpc_loop_new(NULL, err);
    return s->rpc_loop == NULL ? err->code : 0;
}

int master_shell_check(const void *settings, struct err *err)
{
    const struct master_settings *s = settings;
    if (s->heartbeat_interval_ms * 2 >= s->heartbeat_timeout_ms) {
        return err_set(err, ERR_INVALID,
                       "heartbeat_interval_ms %" PRId64 " must be less than half of "
                       "heartbeat_timeout_ms, which is %" PRId64,
                       s->heartbeat_interval_ms, s->heartbeat_timeout_ms);
    }
    return lead_check(s, err);
}

static int serve(struct shell *s, struct err *err)
{
    const struct service_methods jobs = {&gradus__v1__jobs__descriptor, jobs_methods,
                                         jobs_method_count, s};
    const struct service_methods cluster = {&gradus__v1__cluster__descriptor, cluster_methods,
                                            cluster_method_count, s};
    const struct http_pages pages = shell_pages(s);
    service_serve_pages(s->sc, &pages);
    int rc = service_serve(s->sc, &jobs, err);
    return rc < 0 ? rc : service_serve(s->sc, &cluster, err);
}

int master_shell_start(struct service_context *sc, struct err *err)
{
    struct shell *s = mem_new(1, sizeof *s);
    s->sc = sc;
    s->act = act;
    s->credentials = service_credentials(sc);
    s->settings = service_config(sc);
    struct master_config config = {
        .heartbeat_timeout_ms = (uint64_t)s->settings->heartbeat_timeout_ms,
        .heartbeat_interval_ms = (uint64_t)s->settings->heartbeat_interval_ms,
        .ps_timeout_ms = (uint64_t)s->settings->ps_timeout_ms,
        .jobs_max = (size_t)s->settings->jobs_max,
        .finished_max = (size_t)s->settings->finished_max,
        .owner_running_max = (size_t)s->settings->owner_running_max,
        .owner_workers_max = (size_t)s->settings->owner_workers_max,
        .owner_ps_memory_max = (uint64_t)s->settings->owner_ps_memory_max,
        .preemption = s->settings->preemption != 0,
        .preempt_after_ms = (uint64_t)s->settings->preempt_after_ms,
    };
    if (getrandom(config.seeds, sizeof config.seeds, 0) != (ssize_t)sizeof config.seeds) {
        free(s);
        return err_errno(err, errno, "draw random numbers");
    }
    s->master = master_new(&config);
    s->store_well = true;
    struct err local = {0};
    s->pulse = service_pulse(sc);
    const bool alone = s->settings->store[0] == '\0';
    int rc = alone ? open_sqlite(s, &local) : 0;
    rc = rc < 0 ? rc : start_threads(s, &local);
    if (rc == 0) {
        shell_meters_init(s, service_meters(sc));
        rc = serve(s, &local);
    }
    if (!alone) {
        lead_stand_by(s);
    } else if (rc == 0) {
        rc = begin(s, &local);
    }
    if (rc < 0) {
        shell_free(s);
        return err_set(err, local.code, "%s", local.msg);
    }
    service_set_state(sc, s);
    return 0;
}

/* Writes the master's address for clients that are told the state directory (--state-dir) instead.
 * Nobody else needs it: where it cannot be written, the master serves and tries again. */
static void write_address(void *ctx)
{
    struct shell *s = ctx;
    char *path = file_join(s->settings->state_dir, "master.address");
    char *line = mem_printf("%s\n", service_advertised(s->sc));
    struct err err = {0};
    bool written = file_write_atomic(path, line, strlen(line), &err) == 0;
    if (!written && !s->address_missing) {
        char quoted[1200];
        log_error("address_not_written", "reason=%s", log_quote(err.msg, quoted, sizeof quoted));
    } else if (written && s->address_missing) {
        log_info("address_written", "path=%s", path);
    }
    s->address_missing = !written;
    if (!written && !atomic_load(&s->ending)) {
        loop_timer_set(s->loop, &s->address_timer, chrono_now_ms() + ADDRESS_AGAIN_MS,
                       write_address, s);
    }
    free(line);
    free(path);
}

int master_shell_ready(struct service_context *sc, struct err *err)
{
    struct shell *s = service_state(sc);
    char state[1100], checkpoints[1100];
    int rc = s->leads ? 0 : lead_win(s, err);
    rc = rc < 0 || s->leads ? rc : begin(s, err);
    if (rc < 0) {
        return rc;
    }
    (void)lead_holds(s); /* to read all rows may have taken long */
    service_stand_by(sc, NULL, NULL);
    log_info("master_ready", "address=%s state_dir=%s checkpoint_dir=%s", service_advertised(sc),
             log_quote(s->settings->state_dir, state, sizeof state),
             log_quote(s->checkpoints.root, checkpoints, sizeof checkpoints));
    return loop_call(s->loop, write_address, s, err);
}

/* Another master may have the same state directory: one that stands by has written none. */
static void remove_address(struct shell *s)
{
    char *path = file_join(s->settings->state_dir, "master.address");
    if (!s->address_missing) {
        (void)unlink(path); /* a file that is gone already is no error */
    }
    free(path);
}

static void end(void *ctx)
{
    struct shell *s = ctx;
    if (loop_discarding(s->loop)) {
        return;
    }
    atomic_store(&s->ending, true);
    remove_address(s);
    requests_end(s, "the master is stopping");
    traces_end(s, "the master is stopping");
    watchers_end(s);
    events_end(s);
    curves_flush(s);
    loop_timer_clear(s->loop, &s->boards.timer);
    loop_timer_clear(s->loop, &s->curves.timer); /* the store may have refused */
    loop_timer_clear(s->loop, &s->timer);
    loop_timer_clear(s->loop, &s->meters_timer);
    loop_timer_clear(s->loop, &s->root.timer);
    loop_timer_clear(s->loop, &s->trim_timer);
    loop_timer_clear(s->loop, &s->address_timer);
    loop_timer_clear(s->loop, &s->probe_timer);
}

void master_shell_drain(struct service_context *sc, int64_t grace_ms)
{
    (void)grace_ms; /* jobs end with their master; nothing is worth waiting for */
    struct shell *s = service_state(sc);
    if (s->leads) {
        (void)loop_call(s->loop, end, s, NULL);
    }
}

void master_shell_stop(struct service_context *sc)
{
    shell_free(service_state(sc));
    service_set_state(sc, NULL);
}
