/* SPDX-License-Identifier: Apache-2.0 */
/* The registry of counters, gauges and histograms, and its page in the text format of
 * Prometheus. Values are relaxed atomics; the lock is for registering and for making the page. */
#include "metrics/meter.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

enum meter_kind { METER_COUNTER, METER_TOTAL, METER_GAUGE, METER_HISTOGRAM };

struct meter {
    struct meter *next; /* of the family */
    const struct meter_family *family;
    char *labels; /* as exposed, without braces: job="a",node="1" */
    atomic_uint_fast64_t
        bits; /* counter: the count; otherwise the bits of a double: value or sum */
    atomic_uint_fast64_t buckets[]; /* histogram: bound_count + 1, not cumulative */
};

struct meter_family {
    struct meter_family *next;
    enum meter_kind kind;
    char *name;
    char *help;
    double bounds[METER_BUCKETS_MAX];
    size_t bound_count;
    struct meter *first;
    struct meter *last;
};

struct meter_collector {
    struct meter_collector *next;
    void (*collect)(void *ctx);
    void *ctx;
};

struct meter_registry {
    pthread_mutex_t lock; /* guards the lists; values are updated without it */
    struct meter_family *first;
    struct meter_family *last;
    struct meter_collector *collectors;
    size_t series;
};

const double METER_SECONDS[METER_SECONDS_COUNT] = {
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
};

static double from_bits(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t to_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

struct meter_registry *meter_registry_new(void)
{
    struct meter_registry *r = mem_new(1, sizeof *r);
    pthread_mutex_init(&r->lock, NULL);
    return r;
}

static void family_free(struct meter_family *f)
{
    while (f->first != NULL) {
        struct meter *next = f->first->next;
        free(f->first->labels);
        free(f->first);
        f->first = next;
    }
    free(f->name);
    free(f->help);
    free(f);
}

void meter_registry_free(struct meter_registry *r)
{
    if (r == NULL) {
        return;
    }
    while (r->first != NULL) {
        struct meter_family *next = r->first->next;
        family_free(r->first);
        r->first = next;
    }
    while (r->collectors != NULL) {
        struct meter_collector *next = r->collectors->next;
        free(r->collectors);
        r->collectors = next;
    }
    pthread_mutex_destroy(&r->lock);
    free(r);
}

/* ---- registration ---- */

static bool name_is_valid(const char *name)
{
    if (name[0] == '\0' || (name[0] >= '0' && name[0] <= '9')) {
        return false;
    }
    return strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") ==
           strlen(name);
}

/* Escapes of the text format: backslash and newline, and the quote in label values. Bytes that are
 * not UTF-8 would make a scraper refuse the whole page. */
static void add_escaped(struct buf *out, const char *text, bool in_quotes)
{
    bool utf8 = text_is_utf8(text, strlen(text));
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '\n') {
            buf_add_str(out, "\\n");
        } else if (*p == '\\' || (in_quotes && *p == '"')) {
            buf_add_char(out, '\\');
            buf_add_char(out, *p);
        } else {
            buf_add_char(out, !utf8 && (unsigned char)*p >= 0x80 ? '?' : *p);
        }
    }
}

static char *format_labels(const struct meter_label *labels, size_t count, const char *value)
{
    struct buf out = {0};
    for (size_t i = 0; i < count; i++) {
        assert(name_is_valid(labels[i].name));
        buf_printf(&out, "%s%s=\"", i == 0 ? "" : ",", labels[i].name);
        add_escaped(&out, value != NULL ? value : labels[i].value, true);
        buf_add_char(&out, '"');
    }
    return out.data != NULL ? buf_take(&out) : mem_strdup("");
}

static struct meter_family *find_family(struct meter_registry *r, const char *name,
                                        const char *help, enum meter_kind kind)
{
    for (struct meter_family *f = r->first; f != NULL; f = f->next) {
        if (strcmp(f->name, name) == 0) {
            assert(f->kind == kind && "one meter name, two kinds");
            return f;
        }
    }
    assert(name_is_valid(name));
    struct meter_family *f = mem_new(1, sizeof *f);
    f->kind = kind;
    f->name = mem_strdup(name);
    f->help = mem_strdup(help);
    if (r->last != NULL) {
        r->last->next = f;
    } else {
        r->first = f;
    }
    r->last = f;
    return f;
}

static struct meter *find_series(const struct meter_family *f, const char *labels)
{
    for (struct meter *m = f->first; m != NULL; m = m->next) {
        if (strcmp(m->labels, labels) == 0) {
            return m;
        }
    }
    return NULL;
}

/* @labels is owned by this function. */
static struct meter *add_series(struct meter_registry *r, struct meter_family *f, char *labels)
{
    size_t buckets = f->kind == METER_HISTOGRAM ? f->bound_count + 1 : 0;
    struct meter *m = mem_new(1, sizeof *m + buckets * sizeof m->buckets[0]);
    m->family = f;
    m->labels = labels;
    if (f->last != NULL) {
        f->last->next = m;
    } else {
        f->first = m;
    }
    f->last = m;
    r->series++;
    return m;
}

static struct meter *find_meter(struct meter_registry *r, struct meter_family *f,
                                const struct meter_label *labels, size_t label_count)
{
    assert(label_count <= METER_LABELS_MAX);
    char *text = format_labels(labels, label_count, NULL);
    struct meter *m = find_series(f, text);
    if (m == NULL && r->series >= METER_SERIES_MAX && label_count > 0) {
        free(text);
        text = format_labels(labels, label_count, "overflow");
        m = find_series(f, text);
    }
    if (m == NULL) {
        return add_series(r, f, text);
    }
    free(text);
    return m;
}

static struct meter *register_plain(struct meter_registry *r, enum meter_kind kind,
                                    const char *name, const char *help,
                                    const struct meter_label *labels, size_t label_count)
{
    pthread_mutex_lock(&r->lock);
    struct meter *m = find_meter(r, find_family(r, name, help, kind), labels, label_count);
    pthread_mutex_unlock(&r->lock);
    return m;
}

struct meter *meter_counter(struct meter_registry *r, const char *name, const char *help,
                            const struct meter_label *labels, size_t label_count)
{
    return register_plain(r, METER_COUNTER, name, help, labels, label_count);
}

struct meter *meter_total(struct meter_registry *r, const char *name, const char *help,
                          const struct meter_label *labels, size_t label_count)
{
    return register_plain(r, METER_TOTAL, name, help, labels, label_count);
}

struct meter *meter_gauge(struct meter_registry *r, const char *name, const char *help,
                          const struct meter_label *labels, size_t label_count)
{
    return register_plain(r, METER_GAUGE, name, help, labels, label_count);
}

struct meter *meter_histogram(struct meter_registry *r, const char *name, const char *help,
                              const double *bounds, size_t bound_count,
                              const struct meter_label *labels, size_t label_count)
{
    assert(bound_count <= METER_BUCKETS_MAX);
    pthread_mutex_lock(&r->lock);
    struct meter_family *f = find_family(r, name, help, METER_HISTOGRAM);
    if (f->first == NULL) {
        for (size_t i = 0; i < bound_count; i++) {
            assert(i == 0 || bounds[i] > bounds[i - 1]);
            f->bounds[i] = bounds[i];
        }
        f->bound_count = bound_count;
    }
    struct meter *m = find_meter(r, f, labels, label_count);
    pthread_mutex_unlock(&r->lock);
    return m;
}

void meter_on_collect(struct meter_registry *r, void (*collect)(void *ctx), void *ctx)
{
    struct meter_collector *c = mem_new(1, sizeof *c);
    c->collect = collect;
    c->ctx = ctx;
    pthread_mutex_lock(&r->lock);
    c->next = r->collectors;
    r->collectors = c;
    pthread_mutex_unlock(&r->lock);
}

/* ---- updates: relaxed, because a meter orders nothing ---- */

void meter_add(struct meter *m, uint64_t n)
{
    if (m != NULL) {
        assert(m->family->kind == METER_COUNTER);
        atomic_fetch_add_explicit(&m->bits, n, memory_order_relaxed);
    }
}

void meter_set(struct meter *m, double value)
{
    if (m != NULL) {
        assert(m->family->kind == METER_GAUGE);
        atomic_store_explicit(&m->bits, to_bits(value), memory_order_relaxed);
    }
}

static void add_double(struct meter *m, double delta)
{
    uint_fast64_t old = atomic_load_explicit(&m->bits, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&m->bits, &old, to_bits(from_bits(old) + delta),
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
}

void meter_change(struct meter *m, double delta)
{
    if (m != NULL) {
        assert(m->family->kind == METER_GAUGE || m->family->kind == METER_TOTAL);
        add_double(m, delta);
    }
}

void meter_observe(struct meter *m, double value)
{
    if (m == NULL || isnan(value)) {
        return;
    }
    const struct meter_family *f = m->family;
    assert(f->kind == METER_HISTOGRAM);
    size_t i = 0;
    while (i < f->bound_count && value > f->bounds[i]) {
        i++;
    }
    atomic_fetch_add_explicit(&m->buckets[i], 1, memory_order_relaxed);
    add_double(m, value);
}

double meter_value(const struct meter *m)
{
    const struct meter_family *f = m->family;
    uint64_t bits = atomic_load_explicit(&m->bits, memory_order_relaxed);
    if (f->kind == METER_HISTOGRAM) {
        uint64_t count = 0;
        for (size_t i = 0; i <= f->bound_count; i++) {
            count += atomic_load_explicit(&m->buckets[i], memory_order_relaxed);
        }
        return (double)count;
    }
    return f->kind == METER_COUNTER ? (double)bits : from_bits(bits);
}

/* ---- exposition ---- */

/* The shortest form that reads back to the same number: 0.1, not 0.10000000000000001. */
static void add_number(struct buf *out, double value)
{
    if (isnan(value)) {
        buf_add_str(out, "NaN");
    } else if (isinf(value)) {
        buf_add_str(out, value > 0 ? "+Inf" : "-Inf");
    } else {
        char text[40];
        for (int digits = 6; digits <= 17; digits++) {
            (void)snprintf(text, sizeof text, "%.*g", digits, value);
            if (strtod(text, NULL) == value) {
                break;
            }
        }
        buf_add_str(out, text);
    }
}

static void expose_plain(const struct meter *m, struct buf *out)
{
    const struct meter_family *f = m->family;
    bool labelled = m->labels[0] != '\0';
    buf_printf(out, "gradus_%s%s%s%s ", f->name, labelled ? "{" : "", m->labels,
               labelled ? "}" : "");
    uint64_t bits = atomic_load_explicit(&m->bits, memory_order_relaxed);
    if (f->kind == METER_COUNTER) {
        buf_printf(out, "%llu", (unsigned long long)bits);
    } else {
        add_number(out, from_bits(bits));
    }
    buf_add_char(out, '\n');
}

/* The count is the sum of the buckets, not a variable of its own: so it always equals the bucket
 * "+Inf", also when an update runs at the same time. */
static void expose_histogram(const struct meter *m, struct buf *out)
{
    const struct meter_family *f = m->family;
    const char *comma = m->labels[0] != '\0' ? "," : "";
    uint64_t count = 0;
    for (size_t i = 0; i <= f->bound_count; i++) {
        count += atomic_load_explicit(&m->buckets[i], memory_order_relaxed);
        buf_printf(out, "gradus_%s_bucket{%s%sle=\"", f->name, m->labels, comma);
        add_number(out, i < f->bound_count ? f->bounds[i] : (double)INFINITY);
        buf_printf(out, "\"} %llu\n", (unsigned long long)count);
    }
    const char *open = m->labels[0] != '\0' ? "{" : "";
    const char *close = m->labels[0] != '\0' ? "}" : "";
    buf_printf(out, "gradus_%s_sum%s%s%s ", f->name, open, m->labels, close);
    add_number(out, from_bits(atomic_load_explicit(&m->bits, memory_order_relaxed)));
    buf_printf(out, "\ngradus_%s_count%s%s%s %llu\n", f->name, open, m->labels, close,
               (unsigned long long)count);
}

static void expose_family(const struct meter_family *f, struct buf *out)
{
    static const char *const types[] = {"counter", "counter", "gauge", "histogram"};
    buf_printf(out, "# HELP gradus_%s ", f->name);
    add_escaped(out, f->help, false);
    buf_printf(out, "\n# TYPE gradus_%s %s\n", f->name, types[f->kind]);
    for (const struct meter *m = f->first; m != NULL; m = m->next) {
        if (f->kind == METER_HISTOGRAM) {
            expose_histogram(m, out);
        } else {
            expose_plain(m, out);
        }
    }
}

void meter_expose(struct meter_registry *r, struct buf *out)
{
    pthread_mutex_lock(&r->lock);
    struct meter_collector *c = r->collectors;
    pthread_mutex_unlock(&r->lock);
    for (; c != NULL; c = c->next) { /* the list only grows, at the front */
        c->collect(c->ctx);
    }
    pthread_mutex_lock(&r->lock);
    for (const struct meter_family *f = r->first; f != NULL; f = f->next) {
        expose_family(f, out);
    }
    pthread_mutex_unlock(&r->lock);
}
