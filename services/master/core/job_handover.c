/* SPDX-License-Identifier: Apache-2.0 */
/* Copies and frees what a job's row says to a later master. Nothing is decided here. */
#include <stdlib.h>

#include "base/mem.h"
#include "master/core/job_record.h"

static void release_nodes(struct job_handover_node *nodes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(nodes[i].id);
        free(nodes[i].address);
        free(nodes[i].http_address);
        free(nodes[i].host);
        free(nodes[i].version);
    }
    free(nodes);
}

void job_handover_release(struct job_handover *h)
{
    release_nodes(h->servers, h->server_count);
    release_nodes(h->workers, h->worker_count);
    release_nodes(h->others, h->other_count);
    ledger_release(&h->ledger);
    free(h->pin.id);
    ledger_release(&h->pin.ledger);
    *h = (struct job_handover){0};
}

const struct job_handover_node *job_handover_place(const struct job_handover *h, uint32_t place)
{
    return place <= h->server_count ? &h->servers[place - 1]
                                    : &h->others[place - h->server_count - 1];
}

void job_handover_no_backup(struct job_handover_node *server)
{
    server->backup = 0;
    server->backup_opening = 0;
    server->backup_follows = false;
}

struct job_handover_node *job_handover_nodes(size_t count)
{
    struct job_handover_node *nodes = mem_new(count + 1, sizeof *nodes);
    for (size_t i = 0; i < count; i++) {
        nodes[i] = (struct job_handover_node){.id = mem_strdup(""),
                                              .address = mem_strdup(""),
                                              .http_address = mem_strdup(""),
                                              .host = mem_strdup(""),
                                              .version = mem_strdup("")};
    }
    return nodes;
}

static struct job_handover_node *copy_nodes(const struct job_handover_node *from, size_t count)
{
    struct job_handover_node *to = mem_new(count + 1, sizeof *to);
    for (size_t i = 0; i < count; i++) {
        to[i] = from[i];
        to[i].id = mem_strdup(from[i].id);
        to[i].address = mem_strdup(from[i].address);
        to[i].http_address = mem_strdup(from[i].http_address);
        to[i].host = mem_strdup(from[i].host);
        to[i].version = mem_strdup(from[i].version);
    }
    return to;
}

void job_handover_copy(struct job_handover *to, const struct job_handover *from)
{
    *to = *from;
    if (from->opening == 0) {
        return;
    }
    to->servers = copy_nodes(from->servers, from->server_count);
    to->workers = copy_nodes(from->workers, from->worker_count);
    to->others = copy_nodes(from->others, from->other_count);
    ledger_copy(&to->ledger, &from->ledger);
    if (from->pin.id != NULL) {
        to->pin.id = mem_strdup(from->pin.id);
        ledger_copy(&to->pin.ledger, &from->pin.ledger);
    }
}
