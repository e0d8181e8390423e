/* SPDX-License-Identifier: Apache-2.0 */
#include "service/http_gzip.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <zlib.h>

#include "base/mem.h"

#define SHORT_BYTES 1000 /* fit into one packet as they are */
#define LEVEL 3          /* JSON to a twelfth at a hundred MB/s */
#define GZIP_WINDOW_BITS (15 + 16)
#define MEMORY_LEVEL 8 /* zlib's default */

/* "gzip, deflate, br;q=0.5"; one with q=0 is refused. */
bool http_gzip_taken(const char *accept)
{
    static const char name[] = "gzip";
    const size_t n = sizeof name - 1;
    for (const char *at = accept; at != NULL && *at != '\0'; at += strcspn(at, ",")) {
        at += strspn(at, ", \t");
        const char *rest = at + n;
        if (strncasecmp(at, name, n) == 0 && strchr(",; \t", *rest) != NULL) {
            rest += strspn(rest, "; \t");
            return strncasecmp(rest, "q=0", 3) != 0 ||
                   strcspn(rest, "123456789") < strcspn(rest, ",");
        }
    }
    return false;
}

bool http_gzip(struct buf *body)
{
    z_stream z = {0};
    if (body->len < SHORT_BYTES || body->len > INT_MAX ||
        deflateInit2(&z, LEVEL, Z_DEFLATED, GZIP_WINDOW_BITS, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) !=
            Z_OK) {
        return false;
    }
    char *packed = mem_new(body->len, 1);
    union {
        const void *in;
        void *out; /* zlib only reads it */
    } from = {.in = body->data};
    z.next_in = from.out;
    z.avail_in = (unsigned)body->len;
    z.next_out = (unsigned char *)packed;
    z.avail_out = (unsigned)body->len;
    const bool well = deflate(&z, Z_FINISH) == Z_STREAM_END;
    const size_t n = body->len - z.avail_out;
    (void)deflateEnd(&z);
    if (well) {
        buf_release(body);
        *body = (struct buf){0};
        buf_add(body, packed, n);
    }
    free(packed);
    return well;
}
