/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the options about machines, and shows what common/job/plan/forecast.h predicts. */
#include "cli/plan_speed.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/step_cost.h"

struct unit {
    const char *name;
    double factor;
};

/* Reads a number, perhaps blanks, and one of @units. */
static bool quantity(const char *text, const struct unit *units, size_t count, double *value)
{
    char number[32];
    size_t digits = strspn(text, "0123456789.");
    const char *name = text + digits + strspn(text + digits, " ");
    if (digits == 0 || digits >= sizeof number) {
        return false;
    }
    text_copy(number, digits + 1, text);
    for (size_t i = 0; i < count; i++) {
        double v;
        if (strcmp(name, units[i].name) == 0 && text_to_double(number, &v)) {
            *value = v * units[i].factor;
            return true;
        }
    }
    return false;
}

bool plan_speed_seconds(const char *text, bool zero, double *seconds)
{
    static const struct unit UNITS[] = {{"us", 1e-6}, {"ms", 1e-3}, {"", 1e-3}, {"s", 1}};
    double v;
    if (!quantity(text, UNITS, sizeof UNITS / sizeof UNITS[0], &v) || v < 0 || (v == 0 && !zero) ||
        v > 86400) {
        return false;
    }
    *seconds = v;
    return true;
}

bool plan_speed_bits(const char *text, double *bits)
{
    static const struct unit UNITS[] = {{"kbit", 1e3},   {"Mbit", 1e6},   {"Gbit", 1e9},
                                        {"kbit/s", 1e3}, {"Mbit/s", 1e6}, {"Gbit/s", 1e9}};
    double v;
    if (strcmp(text, "none") == 0) {
        *bits = 0;
        return true;
    }
    if (!quantity(text, UNITS, sizeof UNITS / sizeof UNITS[0], &v) || v < 1e3 || v > 1e15) {
        return false;
    }
    *bits = v;
    return true;
}

static int read_links(const struct plan_speed_options *o, struct forecast_job *job, struct err *err)
{
    const char *server = o->server_link[0] == '\0' ? o->link : o->server_link;
    if (!plan_speed_bits(o->link, &job->worker_link)) {
        return err_set(err, ERR_INVALID,
                       "--link: '%s' is no speed such as 100Mbit or 10Gbit, or none", o->link);
    }
    if (!plan_speed_bits(server, &job->server_link)) {
        return err_set(err, ERR_INVALID,
                       "--server-link: '%s' is no speed such as 100Mbit or 10Gbit, or none",
                       server);
    }
    if (!plan_speed_seconds(o->round_trip, true, &job->round_trip_s)) {
        return err_set(err, ERR_INVALID, "--round-trip: '%s' is no time such as 100us or 2ms",
                       o->round_trip);
    }
    job->processors = (double)o->processors;
    return 0;
}

static int find_compute(const struct plan_speed_options *o, const struct job_spec *spec,
                        const struct model *model, const struct dataset *train,
                        struct plan_speed *out, struct err *err)
{
    out->stated = o->step_compute[0] != '\0';
    if (out->stated) {
        out->known = plan_speed_seconds(o->step_compute, false, &out->job.batch_s);
        return out->known ? 0
                          : err_set(err, ERR_INVALID,
                                    "--step-compute: '%s' is no time such as 5ms or 800us",
                                    o->step_compute);
    }
    int rc = step_cost_measure(spec, model, train, &out->job.batch_s, &out->why);
    out->known = rc == 0;
    if (rc != 0 && rc != ERR_UNSUPPORTED) {
        *err = out->why;
        return rc;
    }
    return 0;
}

int plan_speed_of(const struct plan_speed_options *o, const struct job_spec *spec,
                  const struct plan *plan, const struct model *model, const struct dataset *train,
                  struct plan_speed *out, struct err *err)
{
    *out = (struct plan_speed){.tables = model_table_count(model) > 0};
    forecast_job_of(plan, spec, &out->job);
    int rc = read_links(o, &out->job, err);
    rc = rc != 0 ? rc : find_compute(o, spec, model, train, out, err);
    if (rc == 0 && out->known) {
        forecast_predict(&out->job, &out->forecast);
        out->servers = out->forecast.held_up > FORECAST_HELD_UP ? forecast_servers(&out->job) : 0;
    }
    return rc;
}

static void link_text(double bits, char *out, size_t n)
{
    if (bits == 0) {
        text_copy(out, n, "no limit");
    } else {
        const bool giga = bits >= 1e9;
        (void)snprintf(out, n, "%.4g %s/s", bits / (giga ? 1e9 : 1e6), giga ? "Gbit" : "Mbit");
    }
}

static void say_warning(const struct plan_speed *s, struct buf *out)
{
    const struct forecast *r = &s->forecast;
    if (r->held_up <= FORECAST_HELD_UP) {
        return;
    }
    buf_printf(out,
               "warning: the servers cannot keep up: %s takes %.1f times as long as with enough "
               "of them.",
               s->job.consistency.mode == TRAINING_SYNC ? "a step" : "a batch", r->held_up);
    if (s->servers > s->job.servers) {
        buf_printf(out, " %" PRIu64 " with equal parts of the parameters would do (cluster.ps).\n",
                   s->servers);
    } else if (s->servers > 0) {
        buf_printf(out,
                   " As many would do if the parameters were in equal parts (cluster.partitioner, "
                   "cluster.partitions): one has %.0f %% of them.\n",
                   s->job.fullest * 100);
    } else {
        buf_printf(out, " No number of them helps.\n");
    }
}

void plan_speed_text(const struct plan_speed *s, struct buf *out)
{
    char worker[32], server[32];
    const struct forecast *r = &s->forecast;
    const bool sync = s->job.consistency.mode == TRAINING_SYNC;
    if (!s->known) {
        buf_printf(out,
                   "How long a step takes is not predicted: %s; say what the computation of a "
                   "batch takes (--step-compute 5ms).\n",
                   s->why.msg);
        return;
    }
    link_text(s->job.worker_link, worker, sizeof worker);
    link_text(s->job.server_link, server, sizeof server);
    buf_printf(out, "%-32s  %10s  %5s\n", sync ? "PREDICTED FOR A STEP" : "PREDICTED FOR A BATCH",
               "MS", "PART");
    for (int p = 0; p < FORECAST_PART_COUNT; p++) {
        buf_printf(out, "%-32s  %10.3f  %3.0f %%\n", forecast_part_text((enum forecast_part)p),
                   r->part_s[p] * 1e3, r->part_s[p] / r->step_s * 100);
    }
    buf_printf(out, "%-32s  %10.3f\n", "all of it", r->step_s * 1e3);
    buf_printf(out,
               "%.0f examples/s; what limits is %s. Of the fullest server a direction of its link "
               "is busy for %.0f %% of the time, and %.2f processors.\n",
               r->examples_per_second, forecast_part_text(r->limit), r->server_link_busy * 100,
               r->server_cpu_busy);
    buf_printf(out,
               "Links: workers %s, servers %s. The computation of a batch takes %.3f ms (%s).\n",
               worker, server, s->job.batch_s * 1e3, s->stated ? "as stated" : "tried out here");
    if (s->tables) {
        buf_printf(out, "What the rows of tables take is not counted.\n");
    }
    say_warning(s, out);
}

json_t *plan_speed_json(const struct plan_speed *s)
{
    if (!s->known) {
        return json_null();
    }
    const struct forecast *r = &s->forecast;
    json_t *o = json_object();
    json_put(o, "step_ms", json_fraction(r->step_s * 1e3));
    for (int p = 0; p < FORECAST_PART_COUNT; p++) {
        char key[32];
        (void)snprintf(key, sizeof key, "%s_ms", forecast_part_name((enum forecast_part)p));
        json_put(o, key, json_fraction(r->part_s[p] * 1e3));
    }
    json_put(o, "limit", json_text(forecast_part_name(r->limit)));
    json_put(o, "examples_per_second", json_fraction(r->examples_per_second));
    json_put(o, "server_link_busy", json_fraction(r->server_link_busy));
    json_put(o, "server_cpu_busy", json_fraction(r->server_cpu_busy));
    json_put(o, "worker_link_busy", json_fraction(r->worker_link_busy));
    json_put(o, "held_up_by_servers", json_fraction(r->held_up));
    json_put(o, "keeps_up", json_boolean(r->held_up <= FORECAST_HELD_UP));
    json_put(o, "servers_enough",
             s->servers > 0 ? json_integer((json_int_t)s->servers) : json_null());
    json_put(o, "batch_compute_ms", json_fraction(s->job.batch_s * 1e3));
    json_put(o, "stated", json_boolean(s->stated));
    return o;
}
