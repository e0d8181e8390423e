/* SPDX-License-Identifier: Apache-2.0 */
/* The shapes of the digits as data. M begins a stroke, S is a point that the pen passes in a
 * curve, C one where it turns sharply; x and y go from 0 to 1, y downwards. */
#include "data/digits_glyphs.h"

#define M(x, y)                                                                                    \
    {                                                                                              \
        KNOT_MOVE, x, y                                                                            \
    }
#define S(x, y)                                                                                    \
    {                                                                                              \
        KNOT_SMOOTH, x, y                                                                          \
    }
#define C(x, y)                                                                                    \
    {                                                                                              \
        KNOT_CORNER, x, y                                                                          \
    }

/* Each row is one way of writing: the count of knots, then the path. */
static const struct glyph zero[] = {
    /* round */
    {9,
     {M(.56F, .02F), S(.25F, .16F), S(.10F, .5F), S(.22F, .86F), S(.5F, .98F), S(.79F, .83F),
      S(.9F, .5F), S(.77F, .13F), S(.5F, .03F)}},
    /* narrow, the pen returns beyond the start */
    {10,
     {M(.42F, .03F), S(.24F, .28F), S(.22F, .66F), S(.42F, .97F), S(.66F, .88F), S(.76F, .5F),
      S(.7F, .16F), S(.5F, .02F), S(.34F, .1F), S(.26F, .24F)}},
    /* not quite closed, begun on the right */
    {8,
     {M(.7F, .1F), S(.4F, .03F), S(.14F, .35F), S(.2F, .8F), S(.52F, .98F), S(.85F, .72F),
      S(.86F, .32F), S(.62F, .12F)}},
};

static const struct glyph one[] = {
    {2, {M(.52F, .0F), C(.5F, 1.F)}},
    {3, {M(.28F, .24F), C(.56F, .0F), C(.54F, 1.F)}},
    {5, {M(.3F, .2F), C(.54F, .02F), C(.52F, .97F), M(.24F, .98F), C(.8F, .96F)}},
    {3, {M(.58F, .0F), S(.53F, .5F), C(.46F, 1.F)}},
};

static const struct glyph two[] = {
    {7,
     {M(.14F, .26F), S(.4F, .02F), S(.76F, .16F), S(.7F, .46F), S(.42F, .74F), C(.1F, .97F),
      C(.9F, .95F)}},
    /* with a loop in the lower left corner */
    {9,
     {M(.2F, .2F), S(.5F, .02F), S(.78F, .24F), S(.58F, .6F), S(.24F, .94F), S(.1F, .84F),
      S(.28F, .76F), S(.58F, .92F), S(.92F, .86F)}},
    /* a straight neck */
    {6, {M(.18F, .16F), S(.5F, .02F), S(.8F, .2F), S(.66F, .5F), C(.14F, .96F), C(.86F, .98F)}},
};

static const struct glyph three[] = {
    {8,
     {M(.16F, .14F), S(.5F, .01F), S(.8F, .2F), C(.42F, .46F), S(.78F, .56F), S(.86F, .8F),
      S(.5F, .99F), S(.12F, .86F)}},
    /* flat top */
    {7,
     {M(.16F, .04F), C(.82F, .04F), C(.44F, .4F), S(.8F, .52F), S(.84F, .82F), S(.5F, .99F),
      S(.12F, .88F)}},
    /* one flowing line */
    {9,
     {M(.2F, .1F), S(.54F, .02F), S(.72F, .22F), S(.5F, .43F), S(.42F, .48F), S(.74F, .6F),
      S(.76F, .86F), S(.44F, 1.F), S(.14F, .92F)}},
};

static const struct glyph four[] = {
    /* open */
    {5, {M(.22F, .03F), C(.14F, .58F), C(.88F, .55F), M(.7F, .22F), C(.66F, 1.F)}},
    /* closed */
    {4, {M(.66F, 1.F), C(.68F, .01F), C(.1F, .66F), C(.9F, .65F)}},
    /* open, the bowl round */
    {6, {M(.18F, .04F), S(.14F, .38F), S(.38F, .54F), S(.8F, .44F), M(.82F, .04F), C(.74F, 1.F)}},
    /* closed, in two strokes */
    {5, {M(.58F, .02F), C(.12F, .6F), C(.88F, .62F), M(.6F, .3F), C(.56F, .98F)}},
};

static const struct glyph five[] = {
    {7,
     {M(.82F, .03F), C(.28F, .05F), C(.2F, .44F), S(.56F, .38F), S(.84F, .66F), S(.6F, .96F),
      S(.12F, .9F)}},
    /* the bar on its own */
    {8,
     {M(.26F, .06F), C(.22F, .46F), S(.58F, .42F), S(.82F, .7F), S(.56F, .98F), S(.16F, .92F),
      M(.26F, .06F), C(.88F, .02F)}},
    /* round, like an S */
    {8,
     {M(.8F, .06F), S(.5F, .04F), S(.28F, .2F), S(.36F, .42F), S(.68F, .52F), S(.78F, .78F),
      S(.5F, .98F), S(.16F, .9F)}},
};

static const struct glyph six[] = {
    {8,
     {M(.74F, .02F), S(.36F, .24F), S(.16F, .64F), S(.34F, .95F), S(.68F, .93F), S(.82F, .7F),
      S(.56F, .52F), S(.2F, .7F)}},
    /* a straight back, a small bowl */
    {8,
     {M(.46F, .0F), S(.3F, .36F), S(.22F, .74F), S(.42F, .98F), S(.7F, .86F), S(.66F, .62F),
      S(.44F, .6F), S(.24F, .8F)}},
    /* curled top */
    {9,
     {M(.8F, .16F), S(.6F, .03F), S(.28F, .22F), S(.14F, .6F), S(.32F, .96F), S(.7F, .94F),
      S(.84F, .68F), S(.52F, .5F), S(.18F, .66F)}},
};

static const struct glyph seven[] = {
    {4, {M(.12F, .07F), C(.88F, .05F), S(.6F, .46F), C(.42F, 1.F)}},
    /* crossed */
    {5, {M(.14F, .06F), C(.86F, .06F), C(.4F, 1.F), M(.26F, .52F), C(.8F, .49F)}},
    /* with a hook */
    {4, {M(.13F, .24F), C(.15F, .06F), C(.88F, .05F), C(.46F, 1.F)}},
    /* a wavy bar */
    {6, {M(.1F, .14F), S(.3F, .04F), S(.56F, .1F), C(.88F, .04F), S(.62F, .5F), C(.52F, 1.F)}},
};

static const struct glyph eight[] = {
    /* one line, crossing in the middle */
    {10,
     {M(.74F, .12F), S(.46F, .01F), S(.22F, .2F), S(.46F, .45F), S(.8F, .74F), S(.5F, .99F),
      S(.18F, .76F), S(.5F, .46F), S(.78F, .2F), S(.66F, .07F)}},
    /* two rings */
    {12,
     {M(.5F, .03F), S(.26F, .14F), S(.3F, .4F), S(.62F, .42F), S(.74F, .18F), S(.48F, .03F),
      M(.5F, .47F), S(.2F, .6F), S(.22F, .9F), S(.7F, .96F), S(.82F, .64F), S(.48F, .47F)}},
    /* begun in the middle */
    {9,
     {M(.5F, .48F), S(.24F, .28F), S(.5F, .02F), S(.76F, .25F), S(.5F, .48F), S(.17F, .76F),
      S(.5F, .99F), S(.84F, .76F), S(.52F, .48F)}},
};

static const struct glyph nine[] = {
    /* a straight stem */
    {7,
     {M(.78F, .22F), S(.5F, .02F), S(.18F, .26F), S(.42F, .52F), S(.72F, .34F), C(.8F, .1F),
      C(.66F, 1.F)}},
    /* a curved tail */
    {9,
     {M(.8F, .28F), S(.56F, .03F), S(.2F, .2F), S(.3F, .48F), S(.62F, .48F), S(.8F, .22F),
      S(.8F, .6F), S(.6F, .94F), S(.24F, .92F)}},
    /* the ring closed first */
    {8,
     {M(.7F, .14F), S(.38F, .04F), S(.2F, .28F), S(.42F, .46F), S(.7F, .3F), C(.72F, .1F),
      S(.72F, .55F), C(.7F, 1.F)}},
};

#undef M
#undef S
#undef C

static const struct {
    const struct glyph *glyphs;
    size_t count;
} digits[10] = {
#define D(name)                                                                                    \
    {                                                                                              \
        name, sizeof name / sizeof name[0]                                                         \
    }
    D(zero), D(one), D(two), D(three), D(four), D(five), D(six), D(seven), D(eight), D(nine),
#undef D
};

size_t glyph_variants(unsigned digit)
{
    return digits[digit].count;
}

const struct glyph *glyph_of(unsigned digit, size_t variant)
{
    return &digits[digit].glyphs[variant];
}
