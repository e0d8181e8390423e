/* SPDX-License-Identifier: Apache-2.0 */
/* One of several masters: stands by until it leads, and ends when it does not lead any more. What
 * its core believes is of the past then, and the next master has its nodes: it must say nothing
 * more to them. Whoever started the process starts it again, and it stands by. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "master/shell/shell.h"
#include "master/store/store_import.h"
#include "os/file.h"
#include "os/log.h"

static struct etcd_settings settings_of(const struct master_settings *s)
{
    return (struct etcd_settings){
        .url = s->store,
        .ca = s->store_tls_ca,
        .cert = s->store_tls_cert,
        .key = s->store_tls_key,
        .credentials = s->store_credentials,
    };
}

static bool is_set(const char *text)
{
    return text != NULL && text[0] != '\0';
}

int lead_check(const struct master_settings *s, struct err *err)
{
    const struct etcd_settings etcd = settings_of(s);
    if (!is_set(s->store)) {
        return is_set(s->store_tls_ca) || is_set(s->store_tls_cert) || is_set(s->store_tls_key) ||
                       is_set(s->store_credentials) || is_set(s->store_import)
                   ? err_set(err, ERR_INVALID,
                             "--store-tls-ca, --store-tls-cert, --store-tls-key, "
                             "--store-credentials and --store-import need --store")
                   : 0;
    }
    int rc = etcd_check(&etcd, err);
    return rc < 0 || is_set(s->checkpoint_dir)
               ? rc
               : err_set(err, ERR_INVALID,
                         "--store needs --checkpoint-dir: a place that all masters share");
}

static bool ending(void *ctx)
{
    return service_ending(((struct shell *)ctx)->sc);
}

static void waits(void *ctx, const char *leader, const struct err *why)
{
    struct shell *s = ctx;
    char text[ERR_MESSAGE_BYTES], quoted[ERR_MESSAGE_BYTES + 64];
    if (why != NULL) {
        (void)snprintf(text, sizeof text,
                       "this master stands by: the store does not answer: %.700s", why->msg);
        log_warn("store_not_reached", "reason=%s", log_quote(why->msg, quoted, sizeof quoted));
    } else {
        (void)snprintf(text, sizeof text, "this master stands by: %s%s",
                       leader[0] == '\0' ? "nobody leads yet" : "the leader is ", leader);
        log_info("stands_by", "leader=%s", log_quote(leader, quoted, sizeof quoted));
    }
    service_stand_by(s->sc, text, why == NULL ? leader : "");
}

/* At once, as kill -9 would: an orderly end takes seconds, in which the core goes on. */
static void lost(void *ctx, const struct err *why)
{
    char quoted[ERR_MESSAGE_BYTES + 64];
    (void)ctx;
    log_error("lead_lost", "reason=%s", log_quote(why->msg, quoted, sizeof quoted));
    _exit(1);
}

void lead_stand_by(struct shell *s)
{
    service_stand_by(s->sc, "this master stands by: it has just started", "");
}

static int import(struct shell *s, struct err *err)
{
    const char *from = s->settings->store_import != NULL ? s->settings->store_import : "";
    size_t moved = 0;
    char quoted[1024];
    int rc = store_import(s->store, from, service_advertised(s->sc), &moved, err);
    if (rc == 0 && moved > 0) {
        log_info("store_imported", "state_dir=%s jobs=%zu", log_quote(from, quoted, sizeof quoted),
                 moved);
    }
    return rc;
}

int lead_win(struct shell *s, struct err *err)
{
    static const struct etcd_leader_events events = {ending, waits, lost};
    const struct store_etcd_options options = {
        .settings = settings_of(s->settings),
        .address = service_advertised(s->sc),
        .lease_s = (unsigned)((s->settings->lead_lease + 999) / 1000),
        .events = &events,
        .ctx = s,
    };
    int rc = file_make_dirs(s->settings->state_dir, err);
    if (rc < 0) {
        return rc;
    }
    s->etcd = store_etcd_lead(&options, err);
    rc = s->etcd == NULL ? err->code : store_etcd_open(s->etcd, &s->store, err);
    rc = rc < 0 ? rc : import(s, err);
    if (rc == 0) {
        log_info("leads", "address=%s", options.address);
    }
    return rc;
}

bool lead_holds(struct shell *s)
{
    return s->etcd == NULL || store_etcd_leads(s->etcd);
}
