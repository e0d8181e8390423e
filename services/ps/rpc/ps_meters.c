/* SPDX-License-Identifier: Apache-2.0 */
/* The meters of a parameter server. */
#include "ps/rpc/ps_shell.h"

static void collect(void *ctx)
{
    struct ps *ps = ctx;
    meter_set(ps->meters.bytes, (double)atomic_load(&ps->budget.bytes));
}

static struct meter *push_counter(struct meter_registry *r, const char *result)
{
    struct meter_label label = {"result", result};
    return meter_counter(r, "ps_pushes_total", "Pushes by what became of them", &label, 1);
}

static struct meter *decision_counter(struct meter_registry *r, const char *direction)
{
    struct meter_label label = {"direction", direction};
    return meter_counter(r, "ps_decisions_total", "Messages that say which replicas make up a step",
                         &label, 1);
}

static struct meter *rows_counter(struct meter_registry *r, const char *event)
{
    struct meter_label label = {"event", event};
    return meter_counter(r, "ps_table_row_events_total", "What became of rows of tables", &label,
                         1);
}

void ps_meters_init(struct ps *ps, struct meter_registry *r)
{
    static const double staleness[] = {0, 1, 2, 4, 8, 16, 32, 64, 128, 256};
    ps->meters = (struct ps_meters){
        .pushes = {push_counter(r, "refused"), push_counter(r, "accepted"),
                   push_counter(r, "applied"), push_counter(r, "duplicate"),
                   push_counter(r, "stale"), push_counter(r, "dropped")},
        .updates = meter_counter(r, "ps_updates_total", "Versions made by updates", NULL, 0),
        .updates_skipped =
            meter_counter(r, "ps_updates_skipped_total",
                          "Updates left out because of values that are not finite", NULL, 0),
        .staleness = meter_histogram(r, "ps_staleness_versions",
                                     "Versions between a gradient's parameters and its update",
                                     staleness, sizeof staleness / sizeof staleness[0], NULL, 0),
        .spares = meter_counter(r, "ps_spares_total",
                                "Late replicas given to workers that had nothing to do", NULL, 0),
        .decisions_made = decision_counter(r, "sent"),
        .decisions_taken = decision_counter(r, "received"),
        .apply_seconds = meter_histogram(r, "ps_apply_seconds", "Time of one update of a shard",
                                         METER_SECONDS, METER_SECONDS_COUNT, NULL, 0),
        .wait_seconds =
            meter_histogram(r, "ps_wait_seconds",
                            "Time from the arrival of a push to the update it is answered with",
                            METER_SECONDS, METER_SECONDS_COUNT, NULL, 0),
        .parked = meter_gauge(r, "ps_requests_parked", "Requests that wait", NULL, 0),
        .queued = meter_gauge(r, "ps_gradients_held",
                              "Gradients that wait for others or for memory", NULL, 0),
        .snapshots = meter_gauge(r, "ps_snapshots", "Versions in memory", NULL, 0),
        .shards = meter_gauge(r, "ps_shards", "Shards on this server", NULL, 0),
        .bytes =
            meter_gauge(r, "ps_memory_bytes", "Values, slots, snapshots and gradients", NULL, 0),
        .values_received = meter_counter(r, "ps_value_bytes_received_total",
                                         "Bytes of gradients as they came", NULL, 0),
        .values_sent = meter_counter(r, "ps_value_bytes_sent_total",
                                     "Bytes of parameters as they were sent", NULL, 0),
        .records = meter_counter(r, "ps_records_total",
                                 "Changes that were said to backups of shards", NULL, 0),
        .record_bytes = meter_counter(r, "ps_record_bytes_total",
                                      "Bytes of values that were sent to backups", NULL, 0),
        .unreceived = meter_gauge(r, "ps_records_unreceived",
                                  "Changes that backups have not received yet", NULL, 0),
        .unreceived_bytes = meter_gauge(
            r, "ps_record_bytes_unreceived",
            "Bytes of values that go with changes that backups have not received", NULL, 0),
        .joining =
            meter_gauge(r, "ps_backups_joining", "Backups that cannot take over yet", NULL, 0),
        .checkpoint_seconds =
            meter_histogram(r, "ps_checkpoint_seconds", "Time of writing a shard's file",
                            METER_SECONDS, METER_SECONDS_COUNT, NULL, 0),
        .checkpoint_bytes =
            meter_counter(r, "ps_checkpoint_bytes_total", "Bytes of shard files", NULL, 0),
        .table_rows = meter_gauge(r, "ps_table_rows", "Rows of tables", NULL, 0),
        .table_bytes = meter_gauge(r, "ps_table_bytes",
                                   "Bytes of tables, copies for old versions too", NULL, 0),
        .rows_admitted = rows_counter(r, "admitted"),
        .rows_evicted = rows_counter(r, "evicted"),
        .rows_dropped = rows_counter(r, "dropped"),
        .rows_updated = rows_counter(r, "updated"),
        .rows_read = rows_counter(r, "read"),
    };
    meter_on_collect(r, collect, ps);
}
