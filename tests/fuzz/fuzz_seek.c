/* SPDX-License-Identifier: Apache-2.0 */
/* Zstd files with a table of their frames (data/zstd_seek.c, data/ranged_file.c,
 * data/frame_cache.c), read at any place as streamed data are: what is read is what reading from
 * the beginning gives, whatever the table says.
 *
 * Input: a byte of flags, one with the bytes that are kept unpacked, the places to read, the file:
 * as it is, or frames that are packed here and a table that is wrong about them in given ways. */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/buf.h"
#include "data/ranged_file.h"
#include "data/source.h"

#define CONTENT_BYTES_MAX ((size_t)1 << 20)
#define FRAMES_MAX 16
#define PLACES_MAX 8
#define REPEATS 24
#define FLAG_AS_IT_IS 1U

struct place {
    uint64_t at;
    size_t n;
};

struct entry {
    uint32_t packed, content;
};

/* What reading from the beginning gives. */
struct content {
    uint8_t *bytes; /* [CONTENT_BYTES_MAX] */
    size_t n;
    bool whole; /* to its end, without an error */
};

/* ---- a file ---- */

static void add_32(struct buf *b, uint32_t number)
{
    for (unsigned i = 0; i < 4; i++) {
        buf_add_char(b, (char)(uint8_t)(number >> (8 * i)));
    }
}

static uint32_t take_32(struct fuzz_input *in)
{
    uint32_t value = 0;
    for (unsigned i = 0; i < 4; i++) {
        value |= (uint32_t)fuzz_byte(in) << (8 * i);
    }
    return value;
}

static void pack(struct buf *file, const struct buf *content, unsigned kind)
{
    static char packed[1 << 16];
    ZSTD_CCtx *context = ZSTD_createCCtx();
    (void)ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, (kind & 1) != 0);
    (void)ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, (kind & 2) == 0);
    const size_t n = ZSTD_compress2(context, packed, sizeof packed, buf_str(content), content->len);
    fuzz_require(!ZSTD_isError(n), "the frame is packed");
    buf_add(file, packed, n);
    (void)ZSTD_freeCCtx(context);
}

/* A frame of some bytes of the input, and what is true of it. */
static struct entry add_frame(struct fuzz_input *in, struct buf *file)
{
    const size_t before = file->len;
    struct buf content = {0};
    const uint8_t want = fuzz_byte(in);
    const unsigned kind = fuzz_byte(in);
    const size_t n = want < in->n ? want : in->n;
    for (size_t i = 0; i < ((kind & 4) != 0 ? REPEATS : 1); i++) {
        buf_add(&content, in->data, n);
    }
    in->data += n;
    in->n -= n;
    pack(file, &content, kind);
    struct entry e = {.content = (uint32_t)content.len};
    if ((kind & 8) != 0) { /* one more in the same entry */
        pack(file, &content, kind);
        e.content += (uint32_t)content.len;
    }
    if ((kind & 16) != 0) { /* what readers pass over */
        add_32(file, UINT32_C(0x184D2A50));
        add_32(file, 3);
        buf_add_str(file, "abc");
    }
    e.packed = (uint32_t)(file->len - before);
    buf_release(&content);
    return e;
}

/* Make @entries wrong in the next way; their number then. */
static size_t lie(struct fuzz_input *in, struct entry *entries, size_t count)
{
    const unsigned kind = fuzz_below(in, 8);
    if (count == 0 || kind == 0) {
        return count;
    }
    struct entry *e = &entries[fuzz_below(in, (unsigned)count)];
    struct entry *other = &entries[fuzz_below(in, (unsigned)count)];
    const struct entry was = *e;
    switch (kind) {
    case 1:
        e->packed = take_32(in);
        return count;
    case 2:
        e->content = take_32(in);
        return count;
    case 3: /* a border lies elsewhere */
        e->packed += fuzz_byte(in);
        other->packed -= e->packed - was.packed;
        return count;
    case 4:
        e->content += fuzz_byte(in);
        other->content -= e->content - was.content;
        return count;
    case 5:
        *e = *other;
        *other = was;
        return count;
    case 6: /* one that is several */
        e->packed += entries[count - 1].packed;
        e->content += entries[count - 1].content;
        return count - 1;
    default:
        entries[count] = (struct entry){.packed = fuzz_byte(in), .content = fuzz_byte(in)};
        return count + 1;
    }
}

static void add_table(struct fuzz_input *in, unsigned lies, const struct entry *entries,
                      size_t count, struct buf *file)
{
    const bool sums = (lies & 1) != 0;
    const uint32_t bytes = (uint32_t)(count * (sums ? 12 : 8) + 9);
    add_32(file, UINT32_C(0x184D2A5E));
    add_32(file, (lies & 2) != 0 ? take_32(in) : bytes);
    for (size_t i = 0; i < count; i++) {
        add_32(file, entries[i].packed);
        add_32(file, entries[i].content);
        if (sums) {
            add_32(file, 0);
        }
    }
    add_32(file, (lies & 4) != 0 ? take_32(in) : (uint32_t)count);
    buf_add_char(file, (char)((lies & 8) != 0 ? fuzz_byte(in) : sums ? 0x80 : 0));
    add_32(file, UINT32_C(0x8F92EAB1));
}

static void make_file(struct fuzz_input *in, struct buf *file)
{
    struct entry entries[FRAMES_MAX + 1];
    size_t count = 0;
    const size_t frames = 1U + fuzz_below(in, FRAMES_MAX / 2);
    const unsigned lies = fuzz_byte(in), in_entries = fuzz_below(in, FRAMES_MAX / 2);
    for (; count < frames; count++) {
        entries[count] = add_frame(in, file);
    }
    for (size_t i = 0; i < in_entries; i++) {
        count = lie(in, entries, count);
    }
    add_table(in, lies >> 4, entries, count, file);
}

/* ---- reading ---- */

static void read_from_beginning(const char *path, struct content *out)
{
    struct source *s = NULL;
    struct err err = {0};
    int rc = source_open(path, NULL, &s, &err);
    fuzz_require_error(rc, &err);
    size_t got = 1;
    while (rc == 0 && got > 0 && out->n < CONTENT_BYTES_MAX) {
        const size_t left = CONTENT_BYTES_MAX - out->n;
        rc = source_read(s, out->bytes + out->n, left < 64 ? left : 64, &got, &err);
        fuzz_require_error(rc, &err);
        out->n += rc == 0 ? got : 0;
    }
    out->whole = rc == 0 && got == 0;
    source_close(s);
}

/* False: it cannot be read. @sure: bytes of the content before which all can be read, so that they
 * lie where the table says. */
static bool read_at(struct ranged_file *f, struct place p, uint64_t sure,
                    const struct content *known)
{
    static uint8_t out[CONTENT_BYTES_MAX];
    struct err err = {0};
    int rc = ranged_file_read(f, p.at, out, p.n, &err);
    fuzz_require_error(rc, &err);
    if (rc != 0) {
        return false;
    }
    fuzz_require(p.n <= ranged_file_bytes(f) - p.at, "nothing is read behind the end");
    if (p.at <= sure && p.n <= sure - p.at) {
        const size_t from = p.at < known->n ? (size_t)p.at : known->n;
        const size_t n = p.n < known->n - from ? p.n : known->n - from;
        fuzz_require(memcmp(out, known->bytes + from, n) == 0,
                     "what is read at a place is what is read from the beginning");
        fuzz_require(!known->whole || n == p.n, "nothing is read that is not there");
    }
    return true;
}

static void read_places(struct ranged_file *f, const struct place *places,
                        const struct content *known)
{
    const uint64_t bytes = ranged_file_bytes(f);
    const uint64_t end = bytes < CONTENT_BYTES_MAX ? bytes : CONTENT_BYTES_MAX;
    uint64_t sure = 0;
    while (sure < end) { /* as an index is made */
        const struct place p = {sure, end - sure < 100 ? (size_t)(end - sure) : 100};
        if (!read_at(f, p, sure + p.n, known)) {
            break;
        }
        sure += p.n;
    }
    fuzz_require(sure < bytes || !known->whole || bytes == known->n, "all that is there is read");
    for (size_t i = 0; i < PLACES_MAX; i++) {
        struct place p = places[i];
        p.at = p.at <= UINT16_MAX ? p.at % (bytes + 2) : p.at;
        ranged_file_expect(f, p.at, p.n);
        const bool can = read_at(f, p, sure, known);
        fuzz_require(can || p.at > sure || p.n > sure - p.at, "what was read once is read again");
        fuzz_require(read_at(f, p, sure, known) == can, "what is kept is what was read");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static uint8_t bytes[CONTENT_BYTES_MAX];
    struct fuzz_input in = {data, n};
    struct place places[PLACES_MAX];
    struct buf file = {0};
    const uint8_t flags = fuzz_byte(&in), kept = fuzz_byte(&in);
    for (size_t i = 0; i < PLACES_MAX; i++) {
        const size_t high = fuzz_byte(&in), low = fuzz_byte(&in);
        places[i].at = high << 8 | low;
        places[i].n = fuzz_byte(&in);
    }
    if ((flags & 2) != 0) {
        places[0] = (struct place){.at = fuzz_u64(&in), .n = fuzz_byte(&in)};
    }
    if ((flags & FLAG_AS_IT_IS) != 0) {
        buf_add(&file, in.data, in.n);
    } else {
        make_file(&in, &file);
    }
    const char *path = fuzz_file(0, buf_str(&file), file.len);
    struct content known = {.bytes = bytes};
    read_from_beginning(path, &known);
    struct frame_cache *cache = frame_cache_new(kept < 128 ? kept * 8U : 1U << 20);
    struct ranged_file *f = NULL;
    struct err err = {0};
    int rc = ranged_file_open(path, NULL, cache, &f, &err);
    fuzz_require_error(rc, &err);
    if (rc == 0) {
        read_places(f, places, &known);
    }
    ranged_file_close(f);
    frame_cache_free(cache);
    buf_release(&file);
    return 0;
}
