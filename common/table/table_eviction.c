/* SPDX-License-Identifier: Apache-2.0 */
/* To find the least rows without memory for a list of them, the rank and then the key
 * that divide them from the rest are found digit by digit, from counts of digits (radix select). */
#include "table/table_eviction.h"

#include "table/table_line.h"

#define LISTED 256 /* entries at a time */
#define DIGIT_BITS 8
#define DIGITS (1U << DIGIT_BITS)

uint64_t table_rows_in(const struct table_rows *rows, uint64_t bytes)
{
    const double row =
        1.35 * (double)(8 + rows->stride * sizeof(float) + sizeof(struct table_note));
    const double fixed = 262144;
    return (double)bytes > fixed ? (uint64_t)(((double)bytes - fixed) / row) : 0;
}

static uint64_t rank_of(const struct table_note *note, enum table_least least)
{
    return least == TABLE_LEAST_RECENT ? note->seen : note->sightings;
}

bool table_least_has(const struct table_rows *rows, enum table_least least,
                     const struct table_least_limit *limit, const struct table_entry *e)
{
    const struct table_note *note = table_rows_note(rows, e->row);
    const uint64_t rank = rank_of(note, least);
    return note->seen != TABLE_SEEN_UNUSED &&
           (rank < limit->rank || (rank == limit->rank && e->key <= limit->key));
}

/* Radix selection: finds the k-th smallest number digit by digit, most significant first. */
struct select {
    uint64_t found; /* its digits so far, zeros behind */
    int bits;       /* number of bits that are still unknown */
    uint64_t left;  /* it is the @left-th, from 1, of the numbers that begin with these digits */
    bool whole; /* all numbers that begin with these digits go: the other digits become the greatest
                 */
    uint64_t counts[DIGITS]; /* numbers that begin with these digits, by their next digit */
};

static void select_count(struct select *s, uint64_t x)
{
    if (s->bits == 64 || x >> s->bits == s->found >> s->bits) {
        s->counts[x >> (s->bits - DIGIT_BITS) & (DIGITS - 1)]++;
    }
}

/* Takes the next digit from the counts. */
static void select_digit(struct select *s)
{
    uint64_t digit = 0;
    for (; s->counts[digit] < s->left; digit++) {
        s->left -= s->counts[digit];
        s->counts[digit] = 0;
    }
    s->bits -= DIGIT_BITS;
    s->found |= digit << s->bits;
    if (s->counts[digit] == s->left) {
        s->whole = true;
        s->found |= ((uint64_t)1 << s->bits) - 1;
        s->bits = 0;
    }
    for (; digit < DIGITS; digit++) {
        s->counts[digit] = 0;
    }
}

/* Bits of the greatest rank, in whole digits. */
static int rank_bits(const struct table_rows *rows, enum table_least least)
{
    uint64_t all = 0;
    int bits = DIGIT_BITS;
    for (uint32_t row = 0; row < rows->made; row++) {
        const struct table_note *note = table_rows_note(rows, row);
        all |= note->seen == TABLE_SEEN_UNUSED ? 0 : rank_of(note, least);
    }
    while (bits < 64 && all >> bits != 0) {
        bits += DIGIT_BITS;
    }
    return bits;
}

/* Finds the rank of the @n-th row in the order of ranks, and which one it is of the rows with this
 * rank. */
static void select_rank(struct select *s, const struct table_rows *rows, enum table_least least,
                        uint64_t n)
{
    *s = (struct select){.bits = rank_bits(rows, least), .left = n};
    while (s->bits > 0) {
        for (uint32_t row = 0; row < rows->made; row++) {
            const struct table_note *note = table_rows_note(rows, row);
            if (note->seen != TABLE_SEEN_UNUSED) {
                select_count(s, rank_of(note, least));
            }
        }
        select_digit(s);
    }
}

/* Finds the @n-th key of the rows with @rank. */
static uint64_t select_key(const struct table_rows *rows, enum table_least least, uint64_t rank,
                           uint64_t n)
{
    struct select s = {.bits = 64, .left = n};
    while (s.bits > 0) {
        struct table_cursor cursor = {0};
        struct table_entry entries[LISTED];
        size_t count;
        while ((count = table_index_next(&rows->index, &cursor, entries, LISTED)) > 0) {
            for (size_t i = 0; i < count; i++) {
                __builtin_prefetch(table_rows_note(rows, entries[i].row));
            }
            for (size_t i = 0; i < count; i++) {
                const struct table_note *note = table_rows_note(rows, entries[i].row);
                if (rank_of(note, least) == rank && note->seen != TABLE_SEEN_UNUSED) {
                    select_count(&s, entries[i].key);
                }
            }
        }
        select_digit(&s);
    }
    return s.found;
}

struct table_least_limit table_least_find(const struct table_rows *rows, enum table_least least,
                                          uint64_t n)
{
    struct select s;
    select_rank(&s, rows, least, n);
    return (struct table_least_limit){
        .rank = s.found,
        .key = s.whole ? UINT64_MAX : select_key(rows, least, s.found, s.left),
    };
}
