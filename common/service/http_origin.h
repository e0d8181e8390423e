/* SPDX-License-Identifier: Apache-2.0 */
/* What a request says of the page that it comes from. Browsers let every page send requests
 * anywhere: to a port of the own host under another name (DNS rebinding), and with a certificate
 * that the browser has (cross-site request forgery). Sources: OWASP, "Cross-Site Request Forgery
 * Prevention"; Fetch standard, "CORS-safelisted request-header". */
#ifndef GRADUS_SERVICE_HTTP_ORIGIN_H
#define GRADUS_SERVICE_HTTP_ORIGIN_H

#include <stdbool.h>

#include "base/err.h"

struct http_origin { /* headers; NULL: it has none */
    const char *host;
    const char *origin;
    const char *content_type;
};

/* A port of the loopback that asks nobody who it is: the host is asked for by an address of the
 * loopback, or as localhost. Errors: ERR_PERMISSION. */
int http_origin_check_local(const struct http_origin *o, struct err *err);
/* A request that does something: JSON, which forms cannot send, and of no other page. Errors:
 * ERR_PERMISSION, ERR_INVALID. */
int http_origin_check_post(const struct http_origin *o, struct err *err);

#endif
