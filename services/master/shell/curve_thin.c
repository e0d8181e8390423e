/* SPDX-License-Identifier: Apache-2.0 */
#include "master/shell/curve_thin.h"

#define PAUSE_MS_MIN 1000
#define PAUSE_MS_MAX 10000
#define STAY_MAX ((size_t)CURVE_POINTS_MAX / 8 * 7)

/* Time is cut into cells whose width is a power of two; the older, the wider, so that cells of a
 * later time are whole ones of an earlier time, and a curve that is thinned often stays even. */
static int64_t width_at(int64_t age_ms)
{
    int64_t width = 1;
    while (width <= age_ms / CURVE_PARTS / 2) {
        width *= 2;
    }
    return width;
}

size_t curve_thin(const int64_t *time_ms, size_t count, bool *goes)
{
    size_t stay = 0, place = 0;
    int64_t before = 0; /* the last one that stays */
    for (size_t i = 0; i < count; i++) {
        const int64_t width = width_at(time_ms[count - 1] - time_ms[i]);
        goes[i] = i > 0 && i + 1 < count && time_ms[i] / width == before / width;
        if (!goes[i]) {
            before = time_ms[i];
            stay++;
        }
    }
    while (stay > STAY_MAX) { /* a job of many years: every second one */
        stay = place = 0;
        for (size_t i = 0; i < count; i++) {
            goes[i] = goes[i] || (place++ % 2 == 1 && i + 1 < count);
            stay += goes[i] ? 0 : 1;
        }
    }
    return count - stay;
}

uint64_t curve_pause_ms(int64_t age_ms)
{
    const int64_t pause = age_ms / CURVE_PARTS;
    return pause < PAUSE_MS_MIN   ? PAUSE_MS_MIN
           : pause > PAUSE_MS_MAX ? PAUSE_MS_MAX
                                  : (uint64_t)pause;
}
