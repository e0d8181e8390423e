/* SPDX-License-Identifier: Apache-2.0 */
/* Packs answers of the HTTP port. Private to common/service. */
#ifndef GRADUS_SERVICE_HTTP_GZIP_H
#define GRADUS_SERVICE_HTTP_GZIP_H

#include <stdbool.h>

#include "base/buf.h"

/* Does the header Accept-Encoding, NULL: none, take gzip? */
bool http_gzip_taken(const char *accept);
/* Replaces @body. False: it is as it was, for it is short or would be no shorter. */
bool http_gzip(struct buf *body);

#endif
