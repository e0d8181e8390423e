/* SPDX-License-Identifier: Apache-2.0 */
/* Requests for a service's own pages on the HTTP port, from their headers to their answers. A
 * request that has no answer yet is suspended: the HTTP thread goes on with others. Private to
 * common/service, as libmicrohttpd is. */
#ifndef GRADUS_SERVICE_HTTP_CALLS_H
#define GRADUS_SERVICE_HTTP_CALLS_H

#include <microhttpd.h>

#include "service/http.h"

struct http_calls;

/* Returns owned. @pages is copied; prefix NULL: there are none. NULL: no descriptor was free. */
struct http_calls *http_calls_new(const struct http_pages *pages);
/* A descriptor that can be read when answers wait for the library; looking at them empties it. */
int http_calls_fd(const struct http_calls *cs);
void http_calls_look(struct http_calls *cs);
/* Call when the daemon has stopped. */
void http_calls_free(struct http_calls *cs);
void http_calls_close(struct http_calls *cs);

/* The row for a path below the prefix, into *@row (NULL: no such page); false: it is another. */
bool http_calls_has(const struct http_calls *cs, const char *path, const char **row);
/* What a request of that method to @path does. */
enum http_deed http_calls_deed(const struct http_calls *cs, const char *method, const char *path);
#define HTTP_PEER_BYTES 80
struct http_asked { /* copied, but for row */
    const char *method, *path;
    const char *row; /* of auth_table.h */
    struct auth_identity who;
    char peer[HTTP_PEER_BYTES];
    struct err refusal; /* code 0: none */
};
/* The headers are there. Returns what the library's state of the request becomes. */
struct http_call *http_calls_begin(struct http_calls *cs, struct MHD_Connection *c,
                                   const struct http_asked *asked);
/* A part of the body, or, with none, its end; or the answer is there. */
enum MHD_Result http_calls_go_on(struct http_call *call, const char *upload, size_t *upload_bytes);
/* It has been answered with a stream: it may take for ever. */
bool http_calls_streams(struct http_call *call);
/* The library is through with the request. */
void http_calls_end(struct http_call *call);

#endif
