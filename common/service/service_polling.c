/* SPDX-License-Identifier: Apache-2.0 */
#include "service/service_polling.h"

static int read_setting(const struct service_context *sc, struct poll_setting *out, struct err *err)
{
    int rc = poll_setting_parse(sc->svc->poll(sc->config), out, err);
    return rc != 0 ? err_wrap(err, "poll_us") : 0;
}

int service_polling_check(const struct service_context *sc, struct err *err)
{
    struct poll_setting setting;
    return sc->svc->poll != NULL ? read_setting(sc, &setting, err) : 0;
}

static void set_total(struct meter *m, double value)
{
    meter_change(m, value - meter_value(m));
}

static void collect(void *ctx)
{
    const struct service_context *sc = ctx;
    const struct rpc_polling_totals t = rpc_polling_totals(sc->polling);
    const struct {
        const char *how;
        uint64_t n;
    } waits[] = {{"polled", t.found}, {"polled_in_vain", t.missed}, {"slept", t.slept}};
    for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++) {
        const struct meter_label how = {"how", waits[i].how};
        set_total(meter_total(sc->meters, "rpc_waits_total",
                              "Waits for messages, by whether they were polled for: to the end, in "
                              "vain before sleeping, or not",
                              &how, 1),
                  (double)waits[i].n);
    }
    set_total(meter_total(sc->meters, "rpc_polling_seconds_total", "Time spent polling", NULL, 0),
              (double)t.polled_ns * 1e-9);
    for (size_t i = 0; i < POLL_WHY_COUNT; i++) {
        const struct meter_label why = {"why", poll_why_names[i]};
        meter_set(meter_gauge(sc->meters, "rpc_waiters",
                              "Threads that wait for messages, by what decided whether they poll",
                              &why, 1),
                  t.waiters[i]);
    }
    meter_set(meter_gauge(sc->meters, "rpc_polling_neighbours",
                          "Processes of this host that are known to compute for the same jobs",
                          NULL, 0),
              t.neighbours);
    meter_set(meter_gauge(sc->meters, "rpc_polling_processors",
                          "Threads that may compute here before nobody polls", NULL, 0),
              t.processors);
}

void service_polling_start(struct service_context *sc)
{
    struct poll_setting setting;
    struct err err;
    if (sc->svc->poll != NULL && read_setting(sc, &setting, &err) == 0) {
        sc->polling = rpc_polling_new(&setting);
        meter_on_collect(sc->meters, collect, sc);
    }
}

struct rpc_polling *service_polling(const struct service_context *sc)
{
    return sc == NULL ? NULL : sc->polling;
}
