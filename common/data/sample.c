/* SPDX-License-Identifier: Apache-2.0 */
/* Draws by counter, so that blocks of a file give what all of it in memory gives. */
#include "data/sample.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "base/rng.h"

#define WORD_BITS 64U
#define STEP_WORDS 8U /* of one rank */

int sample_new(const struct data_spec *spec, uint32_t classes, struct sample **out, struct err *err)
{
    *out = NULL;
    if (!data_spec_samples(spec)) {
        return 0;
    }
    if (classes != 2) {
        return err_set(err, ERR_INVALID,
                       "data.negative_sampling: the data has %" PRIu32
                       " classes; only of two is one the negative",
                       classes);
    }
    struct sample *s = mem_new(1, sizeof *s);
    s->key = rng_key((uint64_t)spec->split_seed, "negative_sampling");
    s->rate = spec->negative_sampling;
    *out = s;
    return 0;
}

void sample_free(struct sample *s)
{
    if (s != NULL) {
        free(s->bits);
        free(s->ranks);
        free(s);
    }
}

bool sample_add(struct sample *s, int32_t class)
{
    const bool kept = class != 0 || rng_uniform(s->key, s->records) < s->rate;
    const size_t word = (size_t)(s->records / WORD_BITS);
    if (word == s->words) {
        const size_t words = s->words < STEP_WORDS ? STEP_WORDS : 2 * s->words;
        s->bits = mem_resize(s->bits, words, sizeof *s->bits);
        memset(s->bits + s->words, 0, (words - s->words) * sizeof *s->bits);
        s->words = words;
    }
    s->bits[word] |= (uint64_t)kept << (s->records % WORD_BITS);
    s->records++;
    return kept;
}

static size_t words_of(uint64_t records)
{
    return (size_t)((records + WORD_BITS - 1) / WORD_BITS);
}

static unsigned ones(uint64_t word)
{
    return (unsigned)__builtin_popcountll(word);
}

int sample_end(struct sample *s, struct err *err)
{
    s->words = words_of(s->records);
    s->ranks = mem_new(s->words / STEP_WORDS + 1, sizeof *s->ranks);
    s->kept = 0;
    for (size_t i = 0; i < s->words; i++) {
        if (i % STEP_WORDS == 0) {
            s->ranks[i / STEP_WORDS] = s->kept;
        }
        s->kept += ones(s->bits[i]);
    }
    return s->kept > 0 ? 0
                       : err_set(err, ERR_INVALID,
                                 "data.negative_sampling: %g of %" PRIu64
                                 " train records, none of the second class, keeps none",
                                 s->rate, s->records);
}

bool sample_take(struct sample *s, uint64_t records, const void *bits, size_t bytes)
{
    const size_t words = words_of(records), over = (size_t)(records % WORD_BITS);
    if (bits == NULL || records == 0 || bytes != words * sizeof *s->bits) {
        return false;
    }
    s->bits = mem_new(words, sizeof *s->bits);
    memcpy(s->bits, bits, bytes);
    s->records = records;
    return (over == 0 || s->bits[words - 1] >> over == 0) && sample_end(s, NULL) == 0;
}

uint64_t sample_record(const struct sample *s, uint64_t position)
{
    size_t low = 0, high = (s->words + STEP_WORDS - 1) / STEP_WORDS;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (s->ranks[middle] <= position) {
            low = middle;
        } else {
            high = middle;
        }
    }
    uint64_t left = position - s->ranks[low];
    size_t word = low * STEP_WORDS;
    for (; left >= ones(s->bits[word]); word++) {
        left -= ones(s->bits[word]);
    }
    uint64_t bits = s->bits[word];
    for (; left > 0; left--) {
        bits &= bits - 1; /* clears the lowest bit */
    }
    return (uint64_t)word * WORD_BITS + (uint64_t)__builtin_ctzll(bits);
}

uint64_t sample_fingerprint(const struct sample *s, uint64_t fingerprint)
{
    struct checksum *c = checksum_new();
    checksum_add(c, &fingerprint, sizeof fingerprint);
    checksum_add(c, &s->rate, sizeof s->rate);
    checksum_add(c, s->bits, words_of(s->records) * sizeof *s->bits);
    const uint64_t value = checksum_value(c);
    checksum_free(c);
    return value;
}
