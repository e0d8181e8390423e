/* SPDX-License-Identifier: Apache-2.0 */
/* Writes entries as they come, then the notes, then an end by which a cut file is known. */
#include "data/stream_index.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

#define MAGIC "GRADUSIX"
#define VERSION 4U
#define END_WORDS 4 /* version, bytes of entries, bytes of notes, checksum */
#define END_BYTES (sizeof MAGIC - 1 + END_WORDS * sizeof(uint64_t))
#define PIECE_BYTES ((size_t)64 << 10)
#define NOTES_BYTES_MAX ((uint64_t)1 << 32)

int stream_index_path(const struct data_spec *spec, const char *first_file, const char *settings,
                      char **out, struct err *err)
{
    const char *slash = strrchr(first_file, '/');
    const char *name = slash == NULL ? first_file : slash + 1;
    const bool given = spec->cache_dir != NULL && spec->cache_dir[0] != '\0';
    if (!given && data_roots_bind(spec->roots)) {
        return err_set(err, ERR_PERMISSION,
                       "%s: data.loading: stream needs an index, and this node says where jobs may "
                       "read (data_root), but not where indexes are written; set its cache_dir",
                       first_file);
    }
    char *dir = given           ? mem_strdup(spec->cache_dir)
                : slash == NULL ? mem_strdup("")
                                : mem_printf("%.*s", (int)(slash - first_file) + 1, first_file);
    /* Hidden, so that no pattern of data files means it. */
    char *file = mem_printf(".%s.%016" PRIx64 ".gradus-index", name,
                            checksum_of(settings, strlen(settings)));
    *out = file_join(dir, file);
    free(dir);
    free(file);
    return 0;
}

/* ---- writing ---- */

static int flush(struct stream_index_writer *w, struct err *err)
{
    checksum_add(w->sum, w->pending.data, w->pending.len);
    int rc = file_writer_add(&w->file, w->pending.data, w->pending.len, err);
    buf_reset(&w->pending);
    return rc;
}

int stream_index_begin(struct stream_index_writer *w, const char *path, struct err *err)
{
    *w = (struct stream_index_writer){.file.fd = -1};
    int rc = file_writer_open(&w->file, path, err);
    if (rc != 0) {
        (void)err_wrap(err, "the index of the data cannot be written; GRADUS_CACHE_DIR in the "
                            "environment, or --cache-dir of the worker, says where else");
        return rc;
    }
    w->sum = checksum_new();
    return 0;
}

int stream_index_add(struct stream_index_writer *w, uint64_t entry, struct err *err)
{
    notes_add_number(&w->pending, entry);
    w->entries += sizeof entry;
    return w->pending.len < PIECE_BYTES ? 0 : flush(w, err);
}

int stream_index_commit(struct stream_index_writer *w, const struct buf *notes, struct err *err)
{
    int rc = flush(w, err);
    buf_add(&w->pending, notes->data, notes->len);
    buf_add_str(&w->pending, MAGIC);
    notes_add_number(&w->pending, VERSION);
    notes_add_number(&w->pending, w->entries);
    notes_add_number(&w->pending, notes->len);
    rc = rc != 0 ? rc : flush(w, err);
    if (rc == 0) {
        notes_add_number(&w->pending, checksum_value(w->sum));
        rc = file_writer_add(&w->file, w->pending.data, w->pending.len, err);
    }
    rc = rc != 0 ? rc : file_writer_commit(&w->file, err);
    stream_index_abort(w);
    return rc;
}

void stream_index_abort(struct stream_index_writer *w)
{
    if (w->sum != NULL) {
        file_writer_abort(&w->file);
        checksum_free(w->sum);
        buf_release(&w->pending);
        *w = (struct stream_index_writer){.file.fd = -1};
    }
}

/* ---- reading ---- */

static int read_all(int fd, uint64_t at, void *out, size_t n, struct err *err)
{
    char *to = out;
    while (n > 0) {
        ssize_t k = pread(fd, to, n, (off_t)at);
        if (k < 0 && errno == EINTR) {
            continue;
        }
        if (k <= 0) {
            return k < 0 ? err_errno(err, errno, "read it")
                         : err_set(err, ERR_CORRUPT, "it is cut off");
        }
        to += k;
        at += (uint64_t)k;
        n -= (size_t)k;
    }
    return 0;
}

/* The words of the end. */
static int read_end(int fd, uint64_t bytes, uint64_t words[END_WORDS], struct err *err)
{
    char end[END_BYTES];
    if (bytes < END_BYTES) {
        return err_set(err, ERR_CORRUPT, "it is cut off");
    }
    int rc = read_all(fd, bytes - END_BYTES, end, sizeof end, err);
    if (rc != 0) {
        return rc;
    }
    if (memcmp(end, MAGIC, sizeof MAGIC - 1) != 0) {
        return err_set(err, ERR_CORRUPT, "it is cut off, or no index");
    }
    struct notes n = {.data = end, .bytes = sizeof end, .at = sizeof MAGIC - 1, .ok = true};
    for (size_t i = 0; i < END_WORDS; i++) {
        words[i] = notes_number(&n);
    }
    if (words[0] != VERSION) {
        return err_set(err, ERR_CORRUPT, "it is of version %" PRIu64 "; this is version %u",
                       words[0], VERSION);
    }
    const uint64_t content = bytes - END_BYTES;
    return words[1] <= content && words[2] == content - words[1] && words[2] <= NOTES_BYTES_MAX
               ? 0
               : err_set(err, ERR_CORRUPT, "it is damaged");
}

static int check_sum(int fd, uint64_t bytes, uint64_t expected, struct err *err)
{
    struct checksum *sum = checksum_new();
    char *piece = mem_new(PIECE_BYTES, 1);
    int rc = 0;
    for (uint64_t at = 0; at < bytes && rc == 0;) {
        const size_t n = bytes - at < PIECE_BYTES ? (size_t)(bytes - at) : PIECE_BYTES;
        rc = read_all(fd, at, piece, n, err);
        checksum_add(sum, piece, n);
        at += n;
    }
    if (rc == 0 && checksum_value(sum) != expected) {
        rc = err_set(err, ERR_CORRUPT, "it is damaged: its checksum is another one");
    }
    free(piece);
    checksum_free(sum);
    return rc;
}

static int read_index(int fd, struct buf *notes, struct err *err)
{
    struct stat st;
    uint64_t words[END_WORDS] = {0};
    if (fstat(fd, &st) != 0) {
        return err_errno(err, errno, "look at it");
    }
    const uint64_t bytes = (uint64_t)st.st_size;
    int rc = read_end(fd, bytes, words, err);
    rc = rc != 0 ? rc : check_sum(fd, bytes - sizeof(uint64_t), words[3], err);
    if (rc == 0) {
        char *text = mem_new((size_t)words[2] + 1, 1);
        rc = read_all(fd, words[1], text, (size_t)words[2], err);
        buf_add(notes, text, (size_t)words[2]);
        free(text);
    }
    return rc;
}

int stream_index_open(const char *path, struct buf *notes, int *fd, struct err *err)
{
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (*fd < 0) {
        return err_errno(err, errno, "open %s", path);
    }
    int rc = read_index(*fd, notes, err);
    if (rc != 0) {
        (void)close(*fd);
        *fd = -1;
    }
    return rc;
}

/* ---- notes ---- */

void notes_add_number(struct buf *b, uint64_t number)
{
    uint8_t bytes[8];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(number >> (8 * i));
    }
    buf_add(b, bytes, sizeof bytes);
}

void notes_add_bytes(struct buf *b, const void *data, size_t n)
{
    notes_add_number(b, n);
    buf_add(b, data, n);
}

void notes_add_text(struct buf *b, const char *text)
{
    notes_add_number(b, text != NULL);
    if (text != NULL) {
        notes_add_bytes(b, text, strlen(text));
    }
}

uint64_t notes_number(struct notes *n)
{
    uint64_t number = 0;
    n->ok = n->ok && n->bytes - n->at >= sizeof number;
    for (size_t i = 0; n->ok && i < sizeof number; i++) {
        number |= (uint64_t)(uint8_t)n->data[n->at++] << (8 * i);
    }
    return number;
}

size_t notes_count(struct notes *n, size_t least)
{
    const uint64_t count = notes_number(n);
    n->ok = n->ok && count <= (n->bytes - n->at) / least;
    return n->ok ? (size_t)count : 0;
}

const void *notes_bytes(struct notes *n, size_t *bytes)
{
    *bytes = notes_count(n, 1);
    const void *p = n->data + n->at;
    n->at += *bytes;
    return p;
}

char *notes_text(struct notes *n)
{
    size_t bytes = 0;
    if (notes_number(n) == 0) {
        return NULL;
    }
    const char *p = notes_bytes(n, &bytes);
    char *text = mem_new(bytes + 1, 1);
    memcpy(text, p, bytes);
    return text;
}
