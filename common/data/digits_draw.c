/* SPDX-License-Identifier: Apache-2.0 */
/* One digit: the path of the pen, bent and placed at random, drawn by distance to the path. */
#include "data/digits.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/rng.h"
#include "data/digits_glyphs.h"
#include "data/order.h"

#define STEPS_PER_KNOT 7 /* straight pieces of a curve between two knots */
#define PATH_MAX_POINTS (GLYPH_KNOTS_MAX * STEPS_PER_KNOT + 1)
#define FIELD_SIDE 5 /* nodes of the displacement field in each direction */

/* How much everything varies. Set so that a linear model fails on every tenth image and a network
 * of two layers on every thirtieth or fortieth. */
static const struct {
    float knot, rotate, slant, slant_mean, shift, elastic, sloppy;
    float height_low, height_high, aspect_low, aspect_high;
    float radius_low, radius_high, edge_low, edge_high;
    float gap, stray, grain, speckles, speckle_ink;
} vary = {
    .knot = 0.035F,  /* knots, in glyph units */
    .rotate = 0.14F, /* radians */
    .slant = 0.19F,  /* shear */
    .slant_mean = 0.10F,
    .shift = 0.8F,    /* pixels */
    .elastic = 0.9F,  /* pixels */
    .sloppy = 0.55F,  /* deviation of the logarithm: some hands shake much more than others */
    .height_low = 17, /* pixels */
    .height_high = 20.5F,
    .aspect_low = 0.6F,
    .aspect_high = 0.9F,
    .radius_low = 0.6F, /* of the pen, pixels */
    .radius_high = 1.65F,
    .edge_low = 0.9F, /* width of the soft edge, pixels */
    .edge_high = 1.9F,
    .gap = 0.12F, /* probabilities */
    .stray = 0.08F,
    .grain = 0.10F,       /* of the ink */
    .speckles = 0.02F,    /* most pixels of the paper that are not clean */
    .speckle_ink = 0.45F, /* and their ink */
};

/* Random draws of one image, in the order in which they are asked for. */
struct dice {
    uint64_t key, next;
};

static float uniform(struct dice *d, float low, float high)
{
    return low + (high - low) * (float)rng_uniform(d->key, d->next++);
}

static float normal(struct dice *d, float deviation)
{
    float z = (float)rng_normal(d->key, d->next++);
    return deviation * fmaxf(-2.5F, fminf(2.5F, z)); /* nobody writes that differently */
}

struct point {
    float x, y;
    float radius;
    bool joined; /* a line joins it to the point before */
};

struct path {
    size_t count;
    struct point points[PATH_MAX_POINTS];
};

struct canvas {
    float ink[DIGITS_SIDE][DIGITS_SIDE];
};

/* The direction of the path at knot @i: of the neighbours' line when smooth, of the piece itself at
 * corners and ends (a Catmull-Rom spline with corners). @ahead: of the piece behind the knot. */
static void tangent(const struct knot *k, size_t count, size_t i, bool ahead, float out[2])
{
    bool first = k[i].kind == KNOT_MOVE;
    bool last = i + 1 == count || k[i + 1].kind == KNOT_MOVE;
    size_t a = first || (k[i].kind == KNOT_CORNER && ahead) ? i : i - 1;
    size_t b = last || (k[i].kind == KNOT_CORNER && !ahead) ? i : i + 1;
    float scale = b - a == 2 ? 0.5F : 1.0F;
    out[0] = scale * (k[b].x - k[a].x);
    out[1] = scale * (k[b].y - k[a].y);
}

/* Follow the glyph with shaking knots; the path stays in glyph units. */
static void trace(const struct glyph *g, float sloppiness, struct dice *d, struct path *path)
{
    struct knot knots[GLYPH_KNOTS_MAX];
    for (size_t i = 0; i < g->count; i++) {
        knots[i] = g->knots[i];
        knots[i].x += normal(d, sloppiness * vary.knot);
        knots[i].y += normal(d, sloppiness * vary.knot);
    }
    path->count = 0;
    for (size_t i = 0; i < g->count; i++) {
        if (knots[i].kind == KNOT_MOVE) {
            path->points[path->count++] = (struct point){.x = knots[i].x, .y = knots[i].y};
            continue;
        }
        float from[2], to[2];
        tangent(knots, g->count, i - 1, true, from);
        tangent(knots, g->count, i, false, to);
        for (int s = 1; s <= STEPS_PER_KNOT; s++) {
            float t = (float)s / STEPS_PER_KNOT, u = 1 - t; /* cubic Hermite */
            float p = (1 + 2 * t) * u * u, q = t * t * (3 - 2 * t), m = t * u * u, n = -t * t * u;
            path->points[path->count++] = (struct point){
                .x = p * knots[i - 1].x + q * knots[i].x + m * from[0] + n * to[0],
                .y = p * knots[i - 1].y + q * knots[i].y + m * from[1] + n * to[1],
                .joined = true,
            };
        }
    }
}

/* A random linear map from glyph units to pixels. */
static void place(struct path *path, struct dice *d)
{
    float height = uniform(d, vary.height_low, vary.height_high);
    float width = height * uniform(d, vary.aspect_low, vary.aspect_high);
    float slant = vary.slant_mean + normal(d, vary.slant), angle = normal(d, vary.rotate);
    float c = cosf(angle), s = sinf(angle);
    for (size_t i = 0; i < path->count; i++) {
        struct point *p = &path->points[i];
        float y = (p->y - 0.5F) * height, x = (p->x - 0.5F) * width - slant * y;
        p->x = DIGITS_SIDE / 2.0F + c * x - s * y;
        p->y = DIGITS_SIDE / 2.0F + s * x + c * y;
    }
}

/* Weights of a uniform cubic B-spline, which smooths the field between its nodes. */
static void spline_weights(float t, float w[4])
{
    float u = 1 - t;
    w[0] = u * u * u / 6;
    w[1] = (3 * t * t * t - 6 * t * t + 4) / 6;
    w[2] = (3 * u * u * u - 6 * u * u + 4) / 6;
    w[3] = t * t * t / 6;
}

/* Elastic distortion: a smooth random displacement field (Simard, Steinkraus, Platt: "Best
 * practices for convolutional neural networks", ICDAR 2003), applied to the path instead of the
 * pixels. A third component of the field makes the pen press harder or softer. */
static void distort(struct path *path, float sloppiness, struct dice *d)
{
    float nodes[FIELD_SIDE][FIELD_SIDE][3];
    float radius = uniform(d, vary.radius_low, vary.radius_high);
    for (size_t i = 0; i < FIELD_SIDE; i++) {
        for (size_t j = 0; j < FIELD_SIDE; j++) {
            nodes[i][j][0] =
                normal(d, 2 * sloppiness * vary.elastic); /* the spline halves the deviation */
            nodes[i][j][1] = normal(d, 2 * sloppiness * vary.elastic);
            nodes[i][j][2] = normal(d, 0.3F);
        }
    }
    const float cell = (float)DIGITS_SIDE / (FIELD_SIDE - 3);
    for (size_t k = 0; k < path->count; k++) {
        struct point *p = &path->points[k];
        float fx = fmaxf(0, fminf(FIELD_SIDE - 3.001F, p->x / cell));
        float fy = fmaxf(0, fminf(FIELD_SIDE - 3.001F, p->y / cell));
        size_t column = (size_t)fx, row = (size_t)fy;
        float wx[4], wy[4], sum[3] = {0};
        spline_weights(fx - (float)column, wx);
        spline_weights(fy - (float)row, wy);
        for (size_t i = 0; i < 4; i++) {
            for (size_t j = 0; j < 4; j++) {
                const float *node = nodes[row + i][column + j];
                for (size_t m = 0; m < 3; m++) {
                    sum[m] += wy[i] * wx[j] * node[m];
                }
            }
        }
        p->x += sum[0];
        p->y += sum[1];
        p->radius = radius * (1 + sum[2]);
    }
}

/* Move the middle of the path to about the middle of the image. */
static void centre(struct path *path, struct dice *d)
{
    float left = INFINITY, right = -INFINITY, top = INFINITY, low = -INFINITY;
    for (size_t i = 0; i < path->count; i++) {
        const struct point *p = &path->points[i];
        left = fminf(left, p->x);
        right = fmaxf(right, p->x);
        top = fminf(top, p->y);
        low = fmaxf(low, p->y);
    }
    float dx = 0.5F * (DIGITS_SIDE - left - right) + normal(d, vary.shift);
    float dy = 0.5F * (DIGITS_SIDE - top - low) + normal(d, vary.shift);
    for (size_t i = 0; i < path->count; i++) {
        path->points[i].x += dx;
        path->points[i].y += dy;
    }
}

static int clamp_pixel(float v)
{
    return v < 0 ? 0 : v > DIGITS_SIDE - 1 ? DIGITS_SIDE - 1 : (int)v;
}

/* Ink along the line from @a to @b: full inside the pen's radius, none beyond the soft edge. */
static void draw_line(struct canvas *c, const struct point *a, const struct point *b, float edge,
                      float ink)
{
    float radius = 0.5F * (a->radius + b->radius), reach = radius + edge;
    int left = clamp_pixel(fminf(a->x, b->x) - reach),
        right = clamp_pixel(fmaxf(a->x, b->x) + reach);
    int top = clamp_pixel(fminf(a->y, b->y) - reach), low = clamp_pixel(fmaxf(a->y, b->y) + reach);
    float dx = b->x - a->x, dy = b->y - a->y, length2 = dx * dx + dy * dy + 1e-9F;
    for (int y = top; y <= low; y++) {
        for (int x = left; x <= right; x++) {
            float px = (float)x + 0.5F - a->x, py = (float)y + 0.5F - a->y;
            float t = fmaxf(0, fminf(1, (px * dx + py * dy) / length2));
            float ex = px - t * dx, ey = py - t * dy;
            float distance = sqrtf(ex * ex + ey * ey) - radius;
            float cover = fmaxf(0, fminf(1, 0.5F - distance / edge));
            c->ink[y][x] = fmaxf(c->ink[y][x], ink * cover);
        }
    }
}

static void draw_path(struct canvas *c, const struct path *path, struct dice *d)
{
    float edge = uniform(d, vary.edge_low, vary.edge_high), ink = uniform(d, 0.7F, 1.0F);
    for (size_t i = 0; i < path->count; i++) {
        const struct point *p = &path->points[i];
        draw_line(c, p->joined ? p - 1 : p, p, edge, ink);
    }
}

/* Where the pen did not touch: a round spot somewhere on the path without ink. */
static void lift_pen(struct canvas *c, const struct path *path, struct dice *d)
{
    const struct point *p = &path->points[rng_below(d->key, d->next++, path->count)];
    float radius = uniform(d, 0.8F, 1.8F);
    for (int y = 0; y < DIGITS_SIDE; y++) {
        for (int x = 0; x < DIGITS_SIDE; x++) {
            float distance = hypotf((float)x + 0.5F - p->x, (float)y + 0.5F - p->y);
            c->ink[y][x] *= fmaxf(0, fminf(1, 0.5F + distance - radius));
        }
    }
}

/* A short mark that belongs to nothing. */
static void draw_stray(struct canvas *c, struct dice *d)
{
    struct point a = {
        .x = uniform(d, 2, 26), .y = uniform(d, 2, 26), .radius = uniform(d, 0.4F, 0.9F)};
    struct point b = a;
    b.x += normal(d, 2.5F);
    b.y += normal(d, 2.5F);
    draw_line(c, &a, &b, 1, uniform(d, 0.3F, 0.9F));
}

/* Grain in the ink and speckles on the paper; one draw serves four pixels. */
static void develop(const struct canvas *c, struct dice *d, uint8_t *pixels)
{
    float grain = uniform(d, 0, vary.grain), speckles = uniform(d, 0, vary.speckles);
    const float *ink = &c->ink[0][0];
    for (size_t i = 0; i < DIGITS_PIXELS; i += 4) {
        uint64_t bits = rng_u64(d->key, d->next++);
        for (size_t k = 0; k < 4; k++, bits >>= 16) {
            float u = (float)(bits & 0xFFFF) / 65536.0F;
            float v = ink[i + k] * (1 + grain * (2 * u - 1));
            if (u < speckles) {
                v += vary.speckle_ink * (u / speckles);
            }
            pixels[i + k] = (uint8_t)(255 * fmaxf(0, fminf(1, v)) + 0.5F);
        }
    }
}

static uint64_t part_key(uint64_t seed, enum digits_part part)
{
    return rng_key(seed, part == DIGITS_TRAIN ? "digits train" : "digits test");
}

uint8_t digits_label(uint64_t seed, enum digits_part part, uint64_t index)
{
    struct order ten;
    order_init(&ten, 10, part_key(seed, part), index / 10);
    return (uint8_t)order_record(&ten, index % 10);
}

void digits_draw(uint64_t seed, enum digits_part part, uint64_t index, uint8_t *pixels)
{
    struct dice dice = {.key = rng_key_mix(part_key(seed, part), index)};
    unsigned digit = digits_label(seed, part, index);
    size_t variant = (size_t)rng_below(dice.key, dice.next++, glyph_variants(digit));
    struct path path;
    struct canvas canvas;
    memset(&canvas, 0, sizeof canvas);
    float sloppiness = expf(normal(&dice, vary.sloppy));
    trace(glyph_of(digit, variant), sloppiness, &dice, &path);
    place(&path, &dice);
    distort(&path, sloppiness, &dice);
    centre(&path, &dice);
    draw_path(&canvas, &path, &dice);
    if (uniform(&dice, 0, 1) < vary.gap) {
        lift_pen(&canvas, &path, &dice);
    }
    if (uniform(&dice, 0, 1) < vary.stray) {
        draw_stray(&canvas, &dice);
    }
    develop(&canvas, &dice, pixels);
}
