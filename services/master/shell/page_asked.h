/* SPDX-License-Identifier: Apache-2.0 */
/* A request for a page of the API as the message that a call over gRPC brings, so that handlers do
 * not know which of both it was. Private to the room. */
#ifndef GRADUS_MASTER_SHELL_PAGE_ASKED_H
#define GRADUS_MASTER_SHELL_PAGE_ASKED_H

#include "gradus/v1/jobs.pb-c.h"
#include "master/shell/shell.h"
#include "service/http.h"

struct page_asked {
    struct rpc_msg msg; /* body: one of these */
    union {
        Gradus__V1__GetJobRequest get;
        Gradus__V1__ListJobsRequest list;
        Gradus__V1__NodesRequest nodes;
        Gradus__V1__CancelRequest cancel;
        Gradus__V1__ResumeRequest resume;
        Gradus__V1__SetJobRequest set;
        Gradus__V1__TraceJobRequest trace;
    } body;
    char *job;
    char **sets;
    size_t set_count;
    void (*run)(struct request *r);
    uint64_t since_ms; /* of a picture: when run() saw it first; 0: not yet */
};

/* What can be asked for of a job, most of it changes: POST /api/v1/jobs/JOB/NAME. */
struct page_change {
    const char *name;   /* "pause" */
    const char *method; /* its row of auth_table.h */
    const char *keys;   /* what the body may have: "sets", "now", "" */
    void (*fill)(struct page_asked *a, bool now);
    void (*run)(struct request *r);
    enum http_deed deed;
};
const struct page_change *page_change_find(const char *name); /* NULL: there is none */
/* Make the message of @c for a->job out of a request's body: nothing, or an object. Errors:
 * ERR_INVALID. */
int page_change_read(const struct page_change *c, const struct buf *body, struct page_asked *a,
                     struct err *err);

#endif
