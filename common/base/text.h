/* SPDX-License-Identifier: Apache-2.0 */
/* Text: numbers in and out, and the nearest known word for a typo. Locale-independent. */
#ifndef GRADUS_BASE_TEXT_H
#define GRADUS_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* The whole string must be the number; surrounding blanks are not allowed. False otherwise. */
bool text_to_int(const char *s, int64_t *value);
bool text_to_double(const char *s, double *value); /* finite only */
/* "64", "64 KiB", "1.5MiB", "2GiB", "10kB" (1000) → bytes. */
bool text_to_bytes(const char *s, int64_t *value);
/* "250ms", "3s", "2m", "1h" or a bare number of milliseconds → ms. */
bool text_to_ms(const char *s, int64_t *value);
/* "1.5 MiB" into @out; returns @out. */
const char *text_bytes(uint64_t bytes, char *out, size_t n);

/* @s cut to fit @out (at a character, with "..." behind it), control bytes as '?', so that a
 * message can show any input; returns @out. */
const char *text_shown(const char *s, char *out, size_t n);

/* True for a byte that a terminal may obey instead of showing: below 0x20, 0x7f, and the first byte
 * of U+0080 to U+009F in UTF-8, of which @next is the second. */
bool text_is_control(unsigned char c, unsigned char next);
/* True if they differ in numbers alone: ages, ports, versions. */
bool text_is_same_words(const char *a, const char *b);
/* Make the @n bytes of @s safe to show, in place: line ends and tabs become blanks, other control
 * bytes '?'. */
void text_plain(char *s, size_t n);

/* Append @text as lines of at most @columns, each after @indent blanks and ended, broken at blanks
 * alone: a word that does not fit has a line of its own. */
void text_wrap(const char *text, size_t indent, size_t columns, struct buf *out);
/* Characters of @s (UTF-8): one column of a terminal each, as far as our own texts go. */
size_t text_columns(const char *s, size_t bytes);

/* True for at most @bytes_max letters, digits, '.', '_' and '-', the first no '.' and no '-': safe
 * as a file name and in an address. The empty text is one, too. */
bool text_is_name(const char *s, size_t bytes_max);

/* Edit distance (Damerau-Levenshtein, adjacent transposition counts 1). */
size_t text_distance(const char *a, const char *b);
/* The word of @words (@count of them) that alone begins with @typed, or is nearest to it, or NULL
 * when none is close. */
const char *text_nearest(const char *typed, const char *const *words, size_t count);
/* Copy @s into @out of @n bytes, cut to fit and terminated. */
void text_copy(char *out, size_t n, const char *s);
/* True when the @n bytes are valid UTF-8 without NUL. */
bool text_is_utf8(const char *s, size_t n);
/* Copy @s to @out[@n]: bytes that are no UTF-8 as \xNN, and no more characters than fit. Strict
 * peers refuse a message with a string that is not UTF-8, and with it all that it says. */
void text_utf8(const char *s, char *out, size_t n);

#define TEXT_FLOAT_BYTES 32
/* @x with nine digits, as "%.9g" has it (rarely one more or less in the last one),
 * which read back to the same bits; several times as fast for usual values. Returns @out. */
char *text_float(float x, char out[TEXT_FLOAT_BYTES]);

#endif
