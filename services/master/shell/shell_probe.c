/* SPDX-License-Identifier: Apache-2.0 */
/* Looks whether a node whose heartbeat is late, or to which the master's connection has just
 * broken, is still there. A host that answers that no process listens at the address says that the
 * process has ended; nothing else is proof of anything, and the heartbeats decide. So the end of a
 * process is known within a moment, where the master has a connection to it, or a second or two,
 * and a job need not wait for the whole time-out. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "master/shell/shell.h"
#include "os/chrono.h"
#include "service/address.h"

#define LOOK_MS 100
#define CONNECT_MS 100
#define PROBES_MAX 32 /* in one round */

struct probe {
    char node[JOB_ID_BYTES_MAX + 1], address[ADDRESS_BYTES];
    uint64_t incarnation;
    uint64_t broken_ms; /* as in the event */
    bool refused;
};

struct round {
    struct shell *shell;
    size_t count;
    struct probe probes[PROBES_MAX];
};

/* ---- called on the thread of the probes ---- */

static bool is_refused(const struct addrinfo *at)
{
    int fd = socket(at->ai_family, at->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, at->ai_protocol);
    if (fd < 0) {
        return false;
    }
    int problem = connect(fd, at->ai_addr, at->ai_addrlen) == 0 ? 0 : errno;
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    if (problem == EINPROGRESS && poll(&ready, 1, CONNECT_MS) == 1) {
        socklen_t n = sizeof problem;
        (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &n);
    }
    (void)close(fd);
    return problem == ECONNREFUSED;
}

/* By each of its addresses; one that cannot be resolved is not refused. */
static bool nobody_listens(const char *text)
{
    struct address a;
    struct err err;
    struct addrinfo *list = NULL;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    char port[8];
    if (address_parse(text, &a, &err) != 0) {
        return false;
    }
    (void)snprintf(port, sizeof port, "%u", (unsigned)a.port);
    if (getaddrinfo(a.host, port, &hints, &list) != 0) {
        return false;
    }
    bool refused = list != NULL;
    for (const struct addrinfo *at = list; at != NULL && refused; at = at->ai_next) {
        refused = is_refused(at);
    }
    freeaddrinfo(list);
    return refused;
}

static void look_again(struct shell *s);

static void tell(void *ctx)
{
    struct round *round = ctx;
    struct shell *s = round->shell;
    for (size_t i = 0; i < round->count && !loop_discarding(s->loop); i++) {
        struct probe *p = &round->probes[i];
        if (p->refused) {
            struct master_event e = {.kind = MASTER_UNREACHABLE};
            e.node = (struct master_node_event){
                .node = p->node, .incarnation = p->incarnation, .broken_ms = p->broken_ms};
            shell_event(s, &e);
        }
    }
    if (!loop_discarding(s->loop)) {
        look_again(s);
    }
    free(round);
}

static void probe(void *ctx)
{
    struct round *round = ctx;
    for (size_t i = 0; i < round->count; i++) {
        round->probes[i].refused = nobody_listens(round->probes[i].address);
    }
    if (loop_post(round->shell->loop, tell, round, NULL) != 0) {
        free(round);
    }
}

/* ---- on the loop ---- */

static void look(void *ctx)
{
    struct shell *s = ctx;
    struct round *round = mem_new(1, sizeof *round);
    struct master_node_info node;
    round->shell = s;
    for (size_t i = 0; master_node_at(s->master, i, chrono_now_ms(), &node); i++) {
        if (!node.alive || round->count == PROBES_MAX) {
            continue;
        }
        const bool broken = peer_has_broken(s, node.address, node.incarnation);
        if (!node.late && !broken) {
            continue;
        }
        struct probe *p = &round->probes[round->count++];
        p->broken_ms = broken ? chrono_now_ms() : 0;
        p->incarnation = node.incarnation;
        (void)snprintf(p->node, sizeof p->node, "%s", node.id);
        if (snprintf(p->address, sizeof p->address, "%s", node.address) >= (int)sizeof p->address) {
            round->count--;
        }
    }
    if (round->count == 0 || pool_post(s->probes, probe, round, NULL) != 0) {
        free(round);
        look_again(s);
    }
}

static void look_again(struct shell *s)
{
    if (!atomic_load(&s->ending)) {
        loop_timer_set(s->loop, &s->probe_timer, chrono_now_ms() + LOOK_MS, look, s);
    }
}

void probes_begin(struct shell *s)
{
    look_again(s);
}
