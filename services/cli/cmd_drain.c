/* SPDX-License-Identifier: Apache-2.0 */
/* gradus drain: empties a node while its jobs go on, and ends when it is empty. It asks again and
 * again, so that a master that was started again, and has forgotten, hears of it, too. */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/client_common.h"
#include "cli/follow.h"
#include "cli/output.h"
#include "cli/query.h"
#include "cli/terminal.h"
#include "os/chrono.h"
#include "os/signals.h"

#define POLL_MS 500
#define LOST_MS 60000 /* without an answer for so long it gives up */

struct options {
    struct cli_common common;
    bool undo;
};

static const struct field fields[] = {
    {.path = "undo",
     .type = FIELD_BOOL,
     .offset = offsetof(struct options, undo),
     .def = "false",
     .help = "Put the node back into service; what has moved stays where it is"},
};

struct drain {
    const struct cli_args *args;
    const struct options *o;
    int signal_fd;
    uint64_t heard_ms; /* since then there was no answer */
    struct buf said;   /* last */
    bool known;        /* the master has answered once */
    bool had;          /* something, by the last answer of when the node was there */
};

static void add_shards(const char *what, const uint32_t *shards, size_t count, struct buf *out)
{
    for (size_t i = 0; i < count; i++) {
        if (i == 0) {
            buf_printf(out, " %s%s", what, count > 1 ? "s" : "");
        }
        buf_printf(out, " %" PRIu32 "%s", shards[i], i + 1 < count ? "," : ";");
    }
}

static void add_held(const Gradus__V1__HeldByNode *h, struct buf *out)
{
    const bool has = h->n_shards + h->n_backups > 0 || h->works;
    buf_printf(out, "  job %s:", h->job);
    add_shards("shard", h->shards, h->n_shards, out);
    add_shards("backup", h->backups, h->n_backups, out);
    buf_printf(out, "%s %s\n", h->works ? " works for it;" : "",
               !has                    ? "is being closed"
               : h->problem[0] == '\0' ? "moves"
                                       : h->problem);
}

static void text(const ProtobufCMessage *reply, struct buf *out)
{
    const Gradus__V1__DrainNodeResponse *r = (const Gradus__V1__DrainNodeResponse *)reply;
    if (!r->alive) {
        buf_printf(out, "node %s is gone\n", r->node);
    } else if (!r->draining) {
        buf_printf(out, "node %s is in service\n", r->node);
    } else if (r->n_held == 0) {
        buf_printf(out, "node %s is empty: it can be stopped\n", r->node);
    } else {
        buf_printf(out, "node %s has still\n", r->node);
        for (size_t i = 0; i < r->n_held; i++) {
            add_held(r->held[i], out);
        }
    }
}

/* Says what is left when that is another than before; with --json only the end is said. */
static void say(struct drain *d, const Gradus__V1__DrainNodeResponse *r, bool ends)
{
    struct buf now = {0};
    text(&r->base, &now);
    if (ends || !d->o->common.json) {
        if (ends || strcmp(buf_str(&now), buf_str(&d->said)) != 0) {
            query_show(&d->o->common, &r->base, text);
            (void)fflush(stdout);
        }
    }
    buf_release(&d->said);
    d->said = now;
}

/* True: somebody has pressed Ctrl-C. */
static bool pause_is_cut(const struct drain *d)
{
    struct pollfd p = {.fd = d->signal_fd, .events = POLLIN};
    return poll(&p, 1, POLL_MS) > 0;
}

static bool passes(const struct drain *d, int rc)
{
    const bool away = rc == ERR_UNAVAILABLE || rc == ERR_TIMEOUT ||
                      (rc == ERR_NOT_FOUND && d->known); /* it joins a new master in a moment */
    return away && chrono_now_ms() - d->heard_ms < LOST_MS;
}

/* Asks once. *@ends: there is nothing to wait for. */
static int ask(struct drain *d, struct client *client, bool *ends, struct err *err)
{
    Gradus__V1__DrainNodeRequest request = GRADUS__V1__DRAIN_NODE_REQUEST__INIT;
    struct rpc_msg *reply = NULL;
    request.node = client_text(d->args->positional[0]);
    request.undo = d->o->undo;
    const int rc =
        client_call(client, "DrainNode", &request.base, client_timeout_ms(), &reply, err);
    if (rc != 0) {
        return rc;
    }
    const Gradus__V1__DrainNodeResponse *r = (const Gradus__V1__DrainNodeResponse *)reply->body;
    *ends = d->o->undo || !r->alive || r->n_held == 0;
    say(d, r, *ends);
    const bool lost = !r->alive && d->had && !d->o->undo;
    d->had = r->alive && r->n_held > 0;
    d->known = true;
    d->heard_ms = chrono_now_ms();
    rpc_msg_unref(reply);
    return lost ? err_set(err, ERR_STATE, "node %s has ended before it was empty",
                          d->args->positional[0])
                : 0;
}

static int drain(struct drain *d, struct client *client, struct err *err)
{
    for (bool ends = false; !ends;) {
        const int rc = ask(d, client, &ends, err);
        if (rc != 0 && (!d->known || !passes(d, rc))) {
            return rc;
        }
        if (!ends && pause_is_cut(d)) {
            cli_note("the drain goes on; gradus drain %s --undo%s ends it", d->args->positional[0],
                     d->args->where);
            return ERR_CANCELLED;
        }
    }
    return 0;
}

static int run(const struct cli_args *args)
{
    struct drain d = {.args = args, .o = args->options, .heard_ms = chrono_now_ms()};
    struct client client = {0};
    struct err err = {0};
    follow_block_signals(false);
    const sigset_t signals = client_signals();
    d.signal_fd = signals_open(&signals, &err);
    int rc = d.signal_fd < 0 ? d.signal_fd : client_open_common(&client, args->options, true, &err);
    const bool opened = rc == 0;
    rc = rc != 0 ? rc : drain(&d, &client, &err);
    if (opened) {
        client_close(&client);
    }
    if (d.signal_fd >= 0) {
        (void)close(d.signal_fd);
    }
    buf_release(&d.said);
    return rc == 0 ? CLI_OK : rc == ERR_CANCELLED ? CLI_FAILED : cli_fail(&err);
}

const struct cli_command cmd_drain = {
    .name = "drain",
    .summary = "Empty a node while its jobs go on, so that it can be stopped",
    .usage = "NODE",
    .examples = "  gradus drain ps-2 --master master:7000\n"
                "  gradus drain ps-2 --undo --master master:7000\n",
    .notes =
        "The node is given nothing new. Its shards move to other servers, also those of jobs "
        "without `cluster.standby`, its workers' part goes to other workers, and no step is "
        "lost or made again. The command ends with 0 when the node is empty, or was gone before, "
        "and not when it ends before it is empty. What cannot "
        "move now is named with the reason, and tried again. Ctrl-C ends the waiting; the "
        "drain goes on until --undo, or until the node or the master is started again.",
    .shares = CLI_MASTER | CLI_JSON,
    .fields = fields,
    .field_count = sizeof fields / sizeof fields[0],
    .options_bytes = sizeof(struct options),
    .positional_min = 1,
    .positional_max = 1,
    .run = run,
};
