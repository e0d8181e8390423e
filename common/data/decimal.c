/* SPDX-License-Identifier: Apache-2.0 */
/* A number of up to 2^53 with a power of ten that a double holds exactly needs one multiplication
 * or division, which rounds correctly (W. D. Clinger, How to Read Floating Point Numbers
 * Accurately, PLDI 1990, section 3). Files hold hardly any others; those go the slow way. */
#include "data/decimal.h"

#include <stdint.h>
#include <string.h>

#include "base/text.h"

#define DECIMAL_BYTES_MAX 400 /* a number in a data file is never longer */
#define DECIMAL_EXACT (UINT64_C(1) << 53)
#define DECIMAL_POWER_MAX 22 /* 10^22 is the largest power of ten that a double holds exactly */

static bool ends(char c)
{
    return c == '\0' || c == ' ' || c == '\t';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_sign(char c)
{
    return c == '-' || c == '+';
}

static bool read_slowly(const char *s, double *value, const char **end)
{
    char copy[DECIMAL_BYTES_MAX];
    size_t n = strcspn(s, " \t");
    if (n >= sizeof copy) {
        return false;
    }
    memcpy(copy, s, n);
    copy[n] = '\0';
    *end = s + n;
    return text_to_double(copy, value);
}

/* Take digits behind what @mantissa holds; its value is wrong, and large, when there are too many.
 */
static const char *digits(const char *p, uint64_t *mantissa)
{
    for (; is_digit(*p); p++) {
        *mantissa = *mantissa > DECIMAL_EXACT ? *mantissa : *mantissa * 10 + (uint64_t)(*p - '0');
    }
    return p;
}

bool decimal_read(const char *s, double *value, const char **end)
{
    static const double powers[DECIMAL_POWER_MAX + 1] = {
        1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
        1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    uint64_t mantissa = 0, exponent = 0;
    int64_t power = 0;
    const char *first = s + is_sign(*s), *p = digits(first, &mantissa);
    if (*p == '.' && (p > first || is_digit(p[1]))) {
        const char *fraction = p + 1;
        p = digits(fraction, &mantissa);
        power = fraction - p;
    }
    if (p > first && (*p == 'e' || *p == 'E')) {
        const char *number = p + 1 + is_sign(p[1]);
        const char *behind = digits(number, &exponent);
        power += p[1] == '-' ? -(int64_t)exponent : (int64_t)exponent;
        p = behind > number ? behind : p;
    }
    if (p == first || !ends(*p) || mantissa > DECIMAL_EXACT || power > DECIMAL_POWER_MAX ||
        power < -DECIMAL_POWER_MAX) {
        return read_slowly(s, value, end);
    }
    double v = (double)mantissa;
    v = power < 0 ? v / powers[-power] : v * powers[power];
    *value = *s == '-' ? -v : v;
    *end = p;
    return true;
}
