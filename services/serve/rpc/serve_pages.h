/* SPDX-License-Identifier: Apache-2.0 */
/* The open inference protocol over HTTP, beside gRPC:
 *
 *   GET  /v2, /v2/health/live, /v2/health/ready
 *   GET  /v2/models/NAME[/versions/V], …/ready, …/config
 *   POST /v2/models/NAME[/versions/V]/infer
 *
 * An error is {"error": "…"} with a status of HTTP. */
#ifndef GRADUS_SERVE_SERVE_PAGES_H
#define GRADUS_SERVE_SERVE_PAGES_H

#include "serve/rpc/serve.h"
#include "service/http.h"

/* Pages that ask @s; their limits are the caller's to set. */
struct http_pages serve_pages(struct serve *s);

#endif
