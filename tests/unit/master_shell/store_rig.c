/* SPDX-License-Identifier: Apache-2.0 */
#include "store_rig.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "support/tmp_dir.h"
#include "support/wait_until.h"

#define GRACE_MS 60000
static const char PROGRAM[] = "/usr/bin/etcd";

static enum store_kind kind;
static char *dir;
static unsigned prefix; /* of the test that runs */
static struct rig_etcd server;
static struct store_etcd *leads;

/* ---- etcd ---- */

bool rig_etcd_is_installed(void)
{
    return access(PROGRAM, X_OK) == 0;
}

void rig_etcd_start(struct rig_etcd *e)
{
    struct err err = {0};
    char *data = mem_printf("%s/data", e->dir), *log = mem_printf("%s/log", e->dir);
    char *client = mem_printf("http://%s", e->client.address);
    char *peer = mem_printf("http://%s", e->peer.address);
    char *cluster = mem_printf("default=%s", peer);
    char *const argv[] = {(char *)(uintptr_t)PROGRAM,
                          "--data-dir",
                          data,
                          "--listen-client-urls",
                          client,
                          "--advertise-client-urls",
                          client,
                          "--listen-peer-urls",
                          peer,
                          "--initial-advertise-peer-urls",
                          peer,
                          "--initial-cluster",
                          cluster,
                          NULL};
    if (spawn_start(&e->process, "etcd", argv, log, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    free(data);
    free(log);
    free(client);
    free(peer);
    free(cluster);
}

void rig_etcd_make(struct rig_etcd *e)
{
    *e = (struct rig_etcd){.dir = tmp_dir_make("etcd")};
    held_port_take(&e->client);
    held_port_take(&e->peer);
    rig_etcd_start(e);
}

void rig_etcd_kill(struct rig_etcd *e)
{
    spawn_kill(&e->process);
    spawn_release(&e->process);
}

void rig_etcd_remove(struct rig_etcd *e)
{
    rig_etcd_kill(e);
    held_port_release(&e->client);
    held_port_release(&e->peer);
    tmp_dir_remove(e->dir);
}

char *rig_etcd_url(const struct rig_etcd *e, const char *name)
{
    return mem_printf("etcd://%s/%s", e->client.address, name);
}

/* ---- stores ---- */

static void end_server(void)
{
    rig_etcd_remove(&server);
    rpc_shutdown();
}

bool store_rig_use(enum store_kind wanted)
{
    kind = wanted;
    if (kind == STORE_SQLITE) {
        return true;
    }
    if (!rig_etcd_is_installed()) {
        print_message("etcd is not installed (script/bootstrap), so its store is not tried\n");
        return false;
    }
    rpc_init();
    rig_etcd_make(&server);
    return atexit(end_server) == 0;
}

int store_rig_make(void **state)
{
    (void)state;
    dir = tmp_dir_make("store");
    prefix++;
    return 0;
}

static void leave(void)
{
    store_etcd_free(leads);
    leads = NULL;
}

int store_rig_remove(void **state)
{
    (void)state;
    leave();
    tmp_dir_remove(dir);
    dir = NULL;
    return 0;
}

const char *store_rig_dir(void)
{
    return dir;
}

static bool never_ends(void *ctx)
{
    (void)ctx;
    return false;
}

static void waits(void *ctx, const char *leader, const struct err *why)
{
    (void)ctx;
    (void)leader;
    (void)why; /* it has just been started */
}

static void lost(void *ctx, const struct err *why)
{
    (void)ctx;
    print_message("the lease was lost: %s\n", why->msg);
}

static int open_etcd(struct store **out, struct err *err)
{
    static const struct etcd_leader_events events = {never_ends, waits, lost};
    char name[32];
    (void)snprintf(name, sizeof name, "test/%u", prefix);
    char *url = rig_etcd_url(&server, name);
    const struct store_etcd_options options = {.settings = {.url = url},
                                               .address = "127.0.0.1:7000",
                                               .lease_s = ETCD_LEASE_S_MAX,
                                               .events = &events};
    leave();
    leads = store_etcd_lead(&options, err);
    free(url);
    return leads == NULL ? err->code : store_etcd_open(leads, out, err);
}

struct store *store_rig_open(void)
{
    struct store *s = NULL;
    struct err err = {0};
    int rc =
        kind == STORE_SQLITE ? store_sqlite_open(dir, "the test", &s, &err) : open_etcd(&s, &err);
    if (rc < 0) {
        fail_msg("%s", err.msg);
    }
    return s;
}
