/* SPDX-License-Identifier: Apache-2.0 */
/* Matches names with patterns; each star takes the shortest text with which the rest matches. */
#include "warm/warm_names.h"

/* The parts of a name that the stars of a pattern matched. */
struct taken {
    struct {
        const char *text;
        size_t bytes;
    } stars[FROM_STARS_MAX];
    size_t count;
};

/* When it does not go on, the last star that was passed takes one more byte; those before it never
 * have to, for what stands between them was found as early as it can be. */
static bool matches(const char *pattern, const char *name, struct taken *out)
{
    const char *again = NULL; /* place in the pattern, behind the last star */
    out->count = 0;
    while (*name != '\0' || *pattern != '\0') {
        if (*pattern == '*' && out->count < FROM_STARS_MAX) {
            again = ++pattern;
            out->stars[out->count].text = name;
            out->stars[out->count++].bytes = 0;
        } else if (*pattern != '\0' && *pattern == *name) {
            pattern++;
            name++;
        } else if (again != NULL && *name != '\0') {
            const size_t last = out->count - 1;
            name = out->stars[last].text + ++out->stars[last].bytes;
            pattern = again;
        } else {
            return false;
        }
    }
    return true;
}

bool warm_name(const struct from_map *map, size_t count, const char *name, struct buf *out,
               size_t *used)
{
    struct taken taken = {0};
    size_t i = 0;
    while (i < count && !matches(map[i].from, name, &taken)) {
        i++;
    }
    if (used != NULL) {
        *used = i;
    }
    if (i == count) {
        buf_add_str(out, name);
        return true;
    }
    size_t star = 0;
    for (const char *at = map[i].to; *at != '\0'; at++) {
        if (*at != '*') {
            buf_add_char(out, *at);
        } else if (star < taken.count) {
            buf_add(out, taken.stars[star].text, taken.stars[star].bytes);
            star++;
        }
    }
    return map[i].to[0] != '\0';
}
