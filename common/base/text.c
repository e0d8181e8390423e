/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, sizes and times as people write them, texts made safe for a terminal, words wrapped
 * into lines. Typos are matched by edit distance with swaps (Damerau 1964). */
#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool text_to_int(const char *s, int64_t *value)
{
    const char *digits = *s == '-' || *s == '+' ? s + 1 : s;
    if (*digits < '0' || *digits > '9') {
        return false;
    }
    char *end;
    errno = 0;
    long long v = strtoll(s, &end, 10);
    if (errno != 0 || *end != '\0') {
        return false;
    }
    *value = v;
    return true;
}

/* The number at the start of @s in plain decimal notation; *end is set behind it. */
static bool leading_double(const char *s, double *value, const char **end)
{
    const char *p = *s == '-' || *s == '+' ? s + 1 : s;
    bool digit = *p >= '0' && *p <= '9';
    bool dot = *p == '.' && p[1] >= '0' && p[1] <= '9';
    if ((!digit && !dot) || (p[0] == '0' && (p[1] == 'x' || p[1] == 'X'))) {
        return false;
    }
    char *stop;
    double v = strtod(s, &stop);
    if (!isfinite(v)) {
        return false;
    }
    *value = v;
    *end = stop;
    return true;
}

bool text_to_double(const char *s, double *value)
{
    const char *end;
    double v;
    if (!leading_double(s, &v, &end) || *end != '\0') {
        return false;
    }
    *value = v;
    return true;
}

struct unit {
    const char *name;
    double factor;
};

static bool with_unit(const char *s, const struct unit *units, size_t count, int64_t *value)
{
    const char *end;
    double v;
    if (!leading_double(s, &v, &end)) {
        return false;
    }
    while (*end == ' ') {
        end++;
    }
    for (size_t i = 0; i < count; i++) {
        if (strcmp(end, units[i].name) == 0) {
            double product = v * units[i].factor;
            if (!(fabs(product) < 9.0e18)) {
                return false;
            }
            *value = (int64_t)llround(product);
            return true;
        }
    }
    return false;
}

bool text_to_bytes(const char *s, int64_t *value)
{
    static const struct unit units[] = {
        {"", 1},     {"B", 1},    {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0},
        {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6},     {"GB", 1e9},        {"TiB", 1099511627776.0},
    };
    return with_unit(s, units, sizeof units / sizeof units[0], value);
}

bool text_to_ms(const char *s, int64_t *value)
{
    static const struct unit units[] = {
        {"", 1}, {"ms", 1}, {"s", 1e3}, {"m", 6e4}, {"min", 6e4}, {"h", 3.6e6},
    };
    return with_unit(s, units, sizeof units / sizeof units[0], value);
}

const char *text_bytes(uint64_t bytes, char *out, size_t n)
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double v = (double)bytes;
    size_t i = 0;
    while (v >= 1024.0 && i < 4) {
        v /= 1024.0;
        i++;
    }
    (void)snprintf(out, n, i == 0 ? "%.0f %s" : "%.1f %s", v, names[i]);
    return out;
}

bool text_is_control(unsigned char c, unsigned char next)
{
    return c < 0x20 || c == 0x7F || (c == 0xC2 && next >= 0x80 && next <= 0x9F);
}

bool text_is_same_words(const char *a, const char *b)
{
    static const char digits[] = "0123456789";
    for (;; a++, b++) {
        a += strspn(a, digits);
        b += strspn(b, digits);
        if (*a != *b || *a == '\0') {
            return *a == *b;
        }
    }
}

void text_plain(char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c == '\n' || c == '\r' || c == '\t') {
            s[i] = ' ';
        } else if (text_is_control(c, i + 1 < n ? (unsigned char)s[i + 1] : 0)) {
            s[i] = '?';
            if (c == 0xC2) {
                s[++i] = '?';
            }
        }
    }
}

const char *text_shown(const char *s, char *out, size_t n)
{
    size_t len = strlen(s);
    bool cut = len >= n;
    if (cut) {
        len = n - 4;
        while (len > 0 && ((unsigned char)s[len] & 0xC0U) == 0x80U) {
            len--;
        }
    }
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];
        unsigned char next = i + 1 < len ? (unsigned char)s[i + 1] : 0;
        out[i] = text_is_control(c, next) ? '?' : s[i];
        if (c == 0xC2 && out[i] == '?') {
            out[++i] = '?';
        }
    }
    (void)snprintf(out + len, n - len, "%s", cut ? "..." : "");
    return out;
}

bool text_is_name(const char *s, size_t bytes_max)
{
    size_t n = strlen(s);
    return n <= bytes_max && s[0] != '.' && s[0] != '-' &&
           strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}

#define TEXT_BEGUN_BYTES 3 /* so much of a word may stand for it */
#define TEXT_WORD_MAX 63   /* longer words are not compared: a typo of them is not worth guessing */

size_t text_distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    if (n > TEXT_WORD_MAX || m > TEXT_WORD_MAX) {
        return n > m ? n : m;
    }
    size_t d[TEXT_WORD_MAX + 1][TEXT_WORD_MAX + 1];
    for (size_t i = 0; i <= n; i++) {
        d[i][0] = i;
    }
    for (size_t j = 0; j <= m; j++) {
        d[0][j] = j;
    }
    for (size_t i = 1; i <= n; i++) {
        for (size_t j = 1; j <= m; j++) {
            size_t best = d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
            best = d[i - 1][j] + 1 < best ? d[i - 1][j] + 1 : best;
            best = d[i][j - 1] + 1 < best ? d[i][j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                d[i - 2][j - 2] + 1 < best) {
                best = d[i - 2][j - 2] + 1;
            }
            d[i][j] = best;
        }
    }
    return d[n][m];
}

const char *text_nearest(const char *typed, const char *const *words, size_t count)
{
    const char *nearest = NULL;
    size_t len = strlen(typed), begun = 0;
    for (size_t i = 0; i < count && len >= TEXT_BEGUN_BYTES; i++) {
        if (strncmp(typed, words[i], len) == 0) {
            nearest = words[i];
            begun++;
        }
    }
    if (begun == 1) {
        return nearest; /* acc: accuracy, though auc has fewer letters that differ */
    }
    nearest = NULL;
    size_t best = len / 3 + 2; /* so many edits, or more than half of it: another word */
    for (size_t i = 0; i < count; i++) {
        size_t distance = text_distance(typed, words[i]), other = strlen(words[i]);
        if (distance < best && 2 * distance <= (len > other ? len : other)) {
            best = distance;
            nearest = words[i];
        }
    }
    return nearest;
}

size_t text_columns(const char *s, size_t bytes)
{
    size_t columns = 0;
    for (size_t i = 0; i < bytes; i++) {
        columns += ((unsigned char)s[i] & 0xC0) != 0x80;
    }
    return columns;
}

void text_wrap(const char *text, size_t indent, size_t columns, struct buf *out)
{
    size_t column = 0; /* 0: nothing is on the line yet */
    for (const char *word = text + strspn(text, " "); *word != '\0';) {
        size_t n = strcspn(word, " ");
        size_t width = text_columns(word, n);
        if (column > 0 && column + 1 + width > columns) {
            buf_add_char(out, '\n');
            column = 0;
        }
        if (column == 0) {
            buf_add_spaces(out, indent);
            column = indent;
        } else {
            buf_add_char(out, ' ');
            column++;
        }
        buf_add(out, word, n);
        column += width;
        word += n;
        word += strspn(word, " ");
    }
    buf_add_char(out, '\n');
}

void text_copy(char *out, size_t n, const char *s)
{
    if (n == 0) {
        return;
    }
    size_t len = strnlen(s, n - 1);
    memcpy(out, s, len);
    out[len] = '\0';
}

/* ---- floats ---- */

#define FLOAT_DIGITS 9

/* @n, of nine digits, times 10^(@exponent - 8), without zeros at its end. */
static void put_digits(uint64_t n, int exponent, char *out)
{
    char digits[FLOAT_DIGITS];
    int count = FLOAT_DIGITS;
    for (int i = FLOAT_DIGITS - 1; i >= 0; i--, n /= 10) {
        digits[i] = (char)('0' + n % 10);
    }
    while (count > 1 && digits[count - 1] == '0') {
        count--;
    }
    const int whole = exponent >= 0 ? exponent + 1 : 0; /* digits before the point */
    if (whole == 0) {
        *out++ = '0';
    }
    for (int i = 0; i < whole; i++) {
        *out++ = i < count ? digits[i] : '0';
    }
    if (count > whole) {
        *out++ = '.';
    }
    for (int i = exponent; i < -1; i++) {
        *out++ = '0';
    }
    for (int i = whole; i < count; i++) {
        *out++ = digits[i];
    }
    *out = '\0';
}

char *text_float(float x, char out[TEXT_FLOAT_BYTES])
{
    /* Exact powers of ten, by which a number with that exponent gets nine digits: of 8 to -4. */
    static const double scales[] = {1e0, 1e1, 1e2, 1e3,  1e4,  1e5, 1e6,
                                    1e7, 1e8, 1e9, 1e10, 1e11, 1e12};
    const double v = x < 0 ? -(double)x : (double)x;
    if (!(v >= 1e-4 && v < 1e9)) {
        (void)snprintf(out, TEXT_FLOAT_BYTES, "%.9g", (double)x);
        return out;
    }
    int k = v < 0.5 ? 9 : v < 1 ? 8 : 0; /* probabilities begin where they may end */
    while (v * scales[k] < 99999999.5) {
        k++;
    }
    uint64_t n = (uint64_t)llrint(v * scales[k]);
    int exponent = FLOAT_DIGITS - 1 - k;
    if (n >= 1000000000U) {
        n = (n + 5) / 10;
        exponent++;
    }
    char *digits = out;
    if (x < 0) {
        *digits++ = '-';
    }
    put_digits(n, exponent, digits);
    return out;
}
