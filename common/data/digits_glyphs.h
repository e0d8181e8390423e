/* SPDX-License-Identifier: Apache-2.0 */
/* How people write the ten digits: the paths of the pen, several ways for each digit. */
#ifndef GRADUS_DATA_DIGITS_GLYPHS_H
#define GRADUS_DATA_DIGITS_GLYPHS_H

#include <stddef.h>

/* A point of a path in the unit square, y downwards. */
struct knot {
    enum knot_kind {
        KNOT_MOVE,   /* a stroke begins */
        KNOT_SMOOTH, /* the path passes in a curve */
        KNOT_CORNER, /* the path turns sharply, or is straight between two corners */
    } kind;
    float x, y;
};

#define GLYPH_KNOTS_MAX 16

struct glyph {
    size_t count;
    struct knot knots[GLYPH_KNOTS_MAX];
};

size_t glyph_variants(unsigned digit); /* digit < 10 */
const struct glyph *glyph_of(unsigned digit, size_t variant);

#endif
