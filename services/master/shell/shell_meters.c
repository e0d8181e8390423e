/* SPDX-License-Identifier: Apache-2.0 */
/* The master's metrics for Prometheus. Soon after an event they are brought up to the numbers that
 * the core has counted: not after each one, as there are thousands in a second and jobs to count.
 */
#include "master/shell/shell.h"
#include "os/chrono.h"

#define UPDATE_MS 100

void shell_meters_init(struct shell *s, struct meter_registry *r)
{
    struct shell_meters *m = &s->meters;
    for (enum job_state state = JOB_PENDING; state < JOB_STATE_END; state++) {
        struct meter_label label = {"state", job_state_name(state)};
        m->jobs[state] = meter_gauge(r, "master_jobs", "Jobs by state", &label, 1);
    }
    struct meter_label ps = {"role", "ps"}, worker = {"role", "worker"};
    m->nodes[MASTER_PS] = meter_gauge(r, "master_nodes_alive", "Nodes with a heartbeat", &ps, 1);
    m->nodes[MASTER_WORKER] =
        meter_gauge(r, "master_nodes_alive", "Nodes with a heartbeat", &worker, 1);
    m->nodes_lost = meter_counter(r, "master_nodes_lost_total", "Nodes given up or left", NULL, 0);
    m->steps = meter_counter(r, "master_steps_total", "Steps of all jobs", NULL, 0);
    m->examples = meter_counter(r, "master_examples_total", "Training examples applied", NULL, 0);
    m->leases_granted =
        meter_counter(r, "master_leases_granted_total", "Splits leased to workers", NULL, 0);
    m->leases_returned =
        meter_counter(r, "master_leases_returned_total", "Leases that ended unfinished", NULL, 0);
    m->leases_out = meter_gauge(r, "master_leases", "Splits that workers hold", NULL, 0);
    m->calls = meter_counter(r, "master_calls_total", "Calls to nodes", NULL, 0);
    m->call_failures =
        meter_counter(r, "master_call_failures_total", "Calls to nodes that failed", NULL, 0);
    m->store_failures =
        meter_counter(r, "master_store_failures_total", "Rows that could not be stored", NULL, 0);
    m->rows_stored =
        meter_counter(r, "master_rows_stored_total", "Rows of jobs that were written", NULL, 0);
    m->store_writable = meter_gauge(r, "master_store_writable",
                                    "1: the last row was stored; 0: it was refused", NULL, 0);
    meter_set(m->store_writable, 1);
    m->rows_unreadable = meter_gauge(r, "master_rows_unreadable",
                                     "Rows that were set aside at the start, see the log", NULL, 0);
    m->watchers = meter_gauge(r, "master_watchers", "Open Watch streams", NULL, 0);
    m->requests_waiting =
        meter_gauge(r, "master_requests_waiting", "Calls of nodes and clients that wait", NULL, 0);
    m->dropped = meter_counter(r, "master_batches_dropped_total",
                               "Batches that no shard took: stale replicas, or above max_staleness",
                               NULL, 0);
    m->speculated = meter_counter(r, "master_replicas_speculated_total",
                                  "Replicas of late workers that others computed first", NULL, 0);
    m->recoveries =
        meter_counter(r, "master_recoveries_total",
                      "Jobs that went back to a checkpoint or their beginning", NULL, 0);
    m->takeovers =
        meter_counter(r, "master_takeovers_total",
                      "Backups of shards that became primaries, as a server was lost", NULL, 0);
    m->adoptions =
        meter_counter(r, "master_adoptions_total",
                      "Running jobs that this master took over from the one before", NULL, 0);
    m->servers_awaited = meter_gauge(r, "master_servers_awaited",
                                     "Parameter servers that are silent and waited for", NULL, 0);
    m->shards_alone = meter_gauge(
        r, "master_shards_without_backup",
        "Shards of running jobs with cluster.standby without a backup that can take over", NULL, 0);
    m->preemptions = meter_counter(r, "master_preemptions_total",
                                   "Jobs that made way for one of a higher priority", NULL, 0);
    m->changes = meter_counter(r, "master_changes_total",
                               "Changes of jobs (gradus set) that are in force", NULL, 0);
    m->events = meter_counter(r, "master_events_total", "Events of the core", NULL, 0);
}

static void raise(struct meter *meter, uint64_t *told, uint64_t now)
{
    meter_add(meter, now - *told);
    *told = now;
}

void shell_meters_update(struct shell *s)
{
    struct shell_meters *m = &s->meters;
    struct master_counts now;
    master_counts(s->master, &now);
    for (enum job_state state = JOB_PENDING; state < JOB_STATE_END; state++) {
        meter_set(m->jobs[state], (double)now.jobs[state]);
    }
    meter_set(m->nodes[MASTER_PS], (double)now.nodes_alive[MASTER_PS]);
    meter_set(m->nodes[MASTER_WORKER], (double)now.nodes_alive[MASTER_WORKER]);
    meter_set(m->leases_out, (double)now.leases_out);
    meter_set(m->servers_awaited, (double)now.servers_awaited);
    meter_set(m->shards_alone, (double)now.shards_alone);
    meter_set(m->watchers, (double)s->watcher_count);
    meter_set(m->requests_waiting, (double)s->waiting_count);
    raise(m->nodes_lost, &s->told.nodes_lost, now.nodes_lost);
    raise(m->steps, &s->told.steps, now.steps);
    raise(m->examples, &s->told.examples, now.examples);
    raise(m->leases_granted, &s->told.leases_granted, now.leases_granted);
    raise(m->leases_returned, &s->told.leases_returned, now.leases_returned);
    raise(m->dropped, &s->told.dropped, now.dropped);
    raise(m->speculated, &s->told.speculated, now.speculated);
    raise(m->recoveries, &s->told.recoveries, now.recoveries);
    raise(m->takeovers, &s->told.takeovers, now.takeovers);
    raise(m->adoptions, &s->told.adoptions, now.adoptions);
    raise(m->preemptions, &s->told.preemptions, now.preemptions);
    raise(m->changes, &s->told.changes, now.changes);
    raise(m->calls, &s->told.calls, now.calls);
    raise(m->call_failures, &s->told.call_failures, now.call_failures);
}

static void on_timer(void *ctx)
{
    struct shell *s = ctx;
    s->metered_ms = chrono_now_ms();
    shell_meters_update(s);
}

void shell_meters_changed(struct shell *s)
{
    if (s->metered_ms == 0 || chrono_now_ms() - s->metered_ms >= UPDATE_MS) {
        loop_timer_clear(s->loop, &s->meters_timer);
        on_timer(s);
    } else if (s->meters_timer.slot == 0) {
        loop_timer_set(s->loop, &s->meters_timer, s->metered_ms + UPDATE_MS, on_timer, s);
    }
}
