/* SPDX-License-Identifier: Apache-2.0 */
#include "master/shell/node_wire.h"

#include <stdlib.h>

#include "base/mem.h"
#include "wire/wire_json.h"

void node_wire_init(struct node_wire *w, const struct master_node_info *n)
{
    const char *from[NODE_WIRE_STRINGS] = {n->id,      n->address, n->http_address,
                                           n->version, n->host,    n->unready};
    for (size_t i = 0; i < NODE_WIRE_STRINGS; i++) {
        w->strings[i] = mem_strdup(from[i]);
    }
    w->jobs = mem_new(n->job_count + 1, sizeof *w->jobs);
    for (size_t i = 0; i < n->job_count; i++) {
        w->jobs[i] = mem_strdup(n->jobs[i]);
    }
    gradus__v1__node_info__init(&w->info);
    w->info.id = w->strings[0];
    w->info.address = w->strings[1];
    w->info.http_address = w->strings[2];
    w->info.version = w->strings[3];
    w->info.host = w->strings[4];
    w->info.unready = w->strings[5];
    w->info.role = (Gradus__V1__NodeRole)n->role;
    w->info.alive = n->alive;
    w->info.jobs = w->jobs;
    w->info.n_jobs = n->job_count;
    w->info.joined_ms = n->joined_ms;
    w->info.heartbeat_age_ms = (int64_t)n->heartbeat_age_ms;
    w->info.pid = n->pid;
    w->info.draining = n->draining;
}

void node_wire_release(struct node_wire *w)
{
    for (size_t i = 0; i < NODE_WIRE_STRINGS; i++) {
        free(w->strings[i]);
    }
    for (size_t i = 0; i < w->info.n_jobs; i++) {
        free(w->jobs[i]);
    }
    free(w->jobs);
}

void node_wire_json(const struct master_node_info *n, struct buf *out)
{
    struct node_wire w;
    node_wire_init(&w, n);
    wire_json(&w.info.base, out);
    node_wire_release(&w);
}
