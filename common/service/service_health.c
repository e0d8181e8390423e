/* SPDX-License-Identifier: Apache-2.0 */
/* The health of a service. There are four questions, because each answer leads to another action:
 *
 * /livez: does it turn? No: start it again.
 *
 * /startupz: has it come up? No: wait with the other questions.
 *
 * /readyz: can it be worked with? No: send nobody there.
 *
 * /healthz: is it well? For people and grpc.health.v1.
 *
 * A node whose master is away is alive and well; to start it again would only lose its shards. */
#include "service/service_health.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "os/chrono.h"

/* Longer than any turn of a loop: also one that waits for a disk. */
#define SILENCE_MS_MAX 30000

/* The lock is held, so that the RPC server hears of changes in their order; it calls nobody back.
 */
static void tell_health(struct service_context *sc)
{
    bool serving = sc->ready && !sc->draining && sc->reason[0] == '\0';
    if (serving != sc->serving) {
        sc->serving = serving;
        rpc_server_set_serving(sc->rpc, serving);
    }
}

void service_set_unhealthy(struct service_context *sc, const char *reason)
{
    pthread_mutex_lock(&sc->lock);
    (void)snprintf(sc->reason, sizeof sc->reason, "%s", reason != NULL ? reason : "");
    tell_health(sc);
    pthread_mutex_unlock(&sc->lock);
}

void service_set_absent(struct service_context *sc, const char *reason)
{
    pthread_mutex_lock(&sc->lock);
    (void)snprintf(sc->absence, sizeof sc->absence, "%s", reason != NULL ? reason : "");
    pthread_mutex_unlock(&sc->lock);
}

void service_stand_by(struct service_context *sc, const char *why, const char *leader)
{
    access_stand_by(sc->access, why, leader);
    pthread_mutex_lock(&sc->lock);
    sc->standing_by = why != NULL;
    pthread_mutex_unlock(&sc->lock);
}

int service_standing_by(struct service_context *sc, struct err *err)
{
    return access_standing_by(sc->access, NULL, err);
}

struct pulse *service_pulse(struct service_context *sc)
{
    return sc->pulse_count < SERVICE_PULSES_MAX ? &sc->pulses[sc->pulse_count++] : NULL;
}

void service_health_ready(struct service_context *sc)
{
    pthread_mutex_lock(&sc->lock);
    sc->ready = true;
    tell_health(sc);
    pthread_mutex_unlock(&sc->lock);
}

void service_health_draining(struct service_context *sc)
{
    pthread_mutex_lock(&sc->lock);
    sc->draining = true;
    tell_health(sc);
    pthread_mutex_unlock(&sc->lock);
}

/* ---- pages ---- */

static bool is_healthy(void *ctx, char *reason, size_t n)
{
    struct service_context *sc = ctx;
    pthread_mutex_lock(&sc->lock);
    bool ready = sc->ready;
    const char *why = !ready ? "starting" : sc->draining ? "draining" : sc->reason;
    (void)snprintf(reason, n, "%s", why);
    pthread_mutex_unlock(&sc->lock);
    struct err standing_by = {0};
    if (!ready && service_standing_by(sc, &standing_by) != 0) {
        (void)snprintf(reason, n, "%s", standing_by.msg);
    }
    return reason[0] == '\0';
}

static bool is_ready(void *ctx, char *reason, size_t n)
{
    struct service_context *sc = ctx;
    if (!is_healthy(sc, reason, n)) {
        return false;
    }
    pthread_mutex_lock(&sc->lock);
    (void)snprintf(reason, n, "%s", sc->absence);
    pthread_mutex_unlock(&sc->lock);
    return reason[0] == '\0';
}

static bool is_started(void *ctx, char *reason, size_t n)
{
    struct service_context *sc = ctx;
    pthread_mutex_lock(&sc->lock);
    bool ready = sc->ready || sc->standing_by;
    pthread_mutex_unlock(&sc->lock);
    (void)snprintf(reason, n, "%s", ready ? "" : "starting");
    return ready;
}

/* True if all loops turn. At the end loops stop one after the other; other code sees to it that the
 * process ends. */
static bool is_live(void *ctx, char *reason, size_t n)
{
    struct service_context *sc = ctx;
    pthread_mutex_lock(&sc->lock);
    bool over = sc->draining;
    pthread_mutex_unlock(&sc->lock);
    reason[0] = '\0';
    for (size_t i = 0; i < sc->pulse_count && !over; i++) {
        uint64_t silence_ms = pulse_silence_ms(&sc->pulses[i], chrono_now_ms());
        if (silence_ms > SILENCE_MS_MAX) {
            (void)snprintf(reason, n, "the loop %s has not turned for %" PRIu64 " ms",
                           sc->pulses[i].name, silence_ms);
            return false;
        }
    }
    return true;
}

const struct http_check SERVICE_CHECKS[] = {
    {"/healthz", is_healthy},
    {"/livez", is_live},
    {"/readyz", is_ready},
    {"/startupz", is_started},
};
const size_t SERVICE_CHECK_COUNT = sizeof SERVICE_CHECKS / sizeof SERVICE_CHECKS[0];
