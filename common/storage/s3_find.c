/* SPDX-License-Identifier: Apache-2.0 */
/* Lists what begins as the pattern does up to its first special character, directly beneath that
 * directory unless the pattern goes on deeper, and compares names by fnmatch(3). */
#include "storage/s3_find.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "storage/s3_list.h"
#include "storage/storage_kind.h"

struct finding {
    struct storage_names *names;
    const char *bucket;
    const char *pattern;
    size_t prefix_bytes; /* of keys, before the name that is compared */
};

static int compare(void *ctx, const char *key, struct err *err)
{
    (void)err;
    const struct finding *f = ctx;
    size_t n = strlen(key);
    if (n <= f->prefix_bytes ||
        key[n - 1] == '/' || /* a directory, or the empty object that stands for one */
        fnmatch(f->pattern, key + f->prefix_bytes, FNM_PATHNAME | FNM_PERIOD) != 0) {
        return 0;
    }
    char *location = mem_printf("s3://%s/%s", f->bucket, key);
    storage_names_add(f->names, location, strlen(location));
    free(location);
    return 0;
}

int s3_find(const char *dir, const char *pattern, struct storage_names *out, struct err *err)
{
    size_t plain = strcspn(pattern, "*?[\\"), up_to = plain;
    while (up_to > 0 && pattern[up_to - 1] != '/') {
        up_to--;
    }
    char *top = mem_printf("%s/%.*s", dir, (int)up_to, pattern);
    char *begin = mem_printf("%.*s", (int)(plain - up_to), pattern + up_to);
    struct s3_place place;
    int rc = s3_place_parse(top, &place, err);
    if (rc == 0) {
        size_t n = strlen(place.key);
        struct finding f = {.names = out,
                            .bucket = place.bucket,
                            .pattern = pattern + up_to,
                            .prefix_bytes = n == 0 ? 0 : n + 1};
        bool flat = strchr(pattern + plain, '/') == NULL;
        rc = s3_list(&place, begin, flat, 0, compare, &f, err);
    }
    free(top);
    free(begin);
    return rc;
}
