/* SPDX-License-Identifier: Apache-2.0 */
#include "service/http_origin.h"

#include <string.h>
#include <strings.h>

#include "service/address.h"

/* "localhost:7001", "[::1]", "127.0.0.1" */
static bool names_loopback(const char *host)
{
    struct address a = {0};
    const bool bare = strchr(host, ':') == NULL;
    const size_t n = strlen(host);
    if (n == 0 || n >= sizeof a.host) {
        return false;
    }
    if (bare || host[n - 1] == ']') {
        const size_t brackets = host[0] == '[' && n > 2 ? 1 : 0;
        memcpy(a.host, host + brackets, n - 2 * brackets);
    } else if (address_parse(host, &a, NULL) != 0) {
        return false;
    }
    return address_is_loopback(&a);
}

int http_origin_check_local(const struct http_origin *o, struct err *err)
{
    return o->host == NULL || names_loopback(o->host)
               ? 0
               : err_set(err, ERR_PERMISSION,
                         "this port is for its own host, and \"%.128s\" may be anybody's name for "
                         "it: ask for 127.0.0.1 or localhost (a proxy: by the header Host)",
                         o->host);
}

int http_origin_check_post(const struct http_origin *o, struct err *err)
{
    static const char json[] = "application/json";
    const char *type = o->content_type == NULL ? "" : o->content_type;
    const size_t n = sizeof json - 1;
    if (strncasecmp(type, json, n) != 0 || (type[n] != '\0' && strchr("; ", type[n]) == NULL)) {
        return err_set(err, ERR_INVALID, "a POST to this path is sent as Content-Type: %s", json);
    }
    const char *from = o->origin == NULL ? NULL : strstr(o->origin, "://");
    if (o->origin != NULL &&
        (from == NULL || o->host == NULL || strcasecmp(from + strlen("://"), o->host) != 0)) {
        return err_set(err, ERR_PERMISSION, "a page of %.128s may not send this", o->origin);
    }
    return 0;
}
