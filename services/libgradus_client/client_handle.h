/* SPDX-License-Identifier: Apache-2.0 */
/* What is behind struct gradus_client (include/gradus/client.h): a channel to the master, the last
 * error, and the answer that the caller may still look at. Belongs to one thread at a time. */
#ifndef GRADUS_LIBGRADUS_CLIENT_CLIENT_HANDLE_H
#define GRADUS_LIBGRADUS_CLIENT_CLIENT_HANDLE_H

#include "base/err.h"
#include "client/master_client.h"
#include "gradus/client.h"

struct job_view { /* begins zeroed */
    struct gradus_job_status status;
    struct gradus_metric *metrics; /* train and test metrics, in one array */
};

struct gradus_client {
    struct client client;
    unsigned timeout_ms;
    struct err err;
    struct rpc_msg *shown; /* the message that holds the strings of @view; NULL: none */
    struct job_view view;
};

/* Fill c->err and return the status that @code (enum err_code) means. */
int handle_fail(struct gradus_client *c, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Makes @view show @job; it points into both. Its old content is gone. */
void job_view_set(struct job_view *view, const Gradus__V1__Job *job);
void job_view_release(struct job_view *view);

#endif
