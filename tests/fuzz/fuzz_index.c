/* SPDX-License-Identifier: Apache-2.0 */
/* The index beside streamed data (data/stream_index.c, data/stream_recall.c, data/stream_read.c):
 * an index that is damaged, or of other data, is made anew; one that lies under a right checksum
 * (which only somebody who means it can make) leads to records of the data or to errors.
 *
 * Input: a byte of flags, changes of the data (their number; a place and a byte each), and the
 * index: as it is, or changes of the true one. */
#include "fuzz/data.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/checksum.h"
#include "base/mem.h"
#include "data/ranged_file.h"
#include "data/stream_index.h"
#include "os/file.h"

#define RECORDS_MAX 256
#define MEMORY (1 << 20)
#define END_BYTES 40 /* "GRADUSIX", version, bytes of entries and notes, checksum */
#define CHANGED_S 1700000000
#define WORD sizeof(uint64_t)
#define FLAG_AS_IT_IS 8U
#define FLAG_SUM_REPAIRED 16U
#define FLAG_STAMP_REPAIRED 32U
#define FLAG_DATA_CHANGED 64U

static char dir[64];

/* A part in memory, and all of its records. */
struct known {
    struct dataset *d; /* NULL: the data cannot be read */
    struct batch b;
    size_t width;
};

/* Data, and the index that is true of them. */
struct scene {
    const char *files;
    const char *name; /* of the first file, whose bytes may change */
    const char *test;
    void (*write)(struct buf *out);
    enum data_label_kind kind;
    double test_fraction;
    bool measured; /* what is read depends on what was measured, too */
    struct buf data, index;
    size_t numbers_at; /* in the index: behind what is said of the files */
    char *index_path;
    bool dirty;    /* the file has other bytes */
    bool requoted; /* a quote more or less: lines are rows or not by what stands far before */
    struct known known[2]; /* where it has not */
};

static void write_rows(struct buf *out)
{
    for (unsigned i = 0; i < 120; i++) {
        buf_printf(out, "%u,%u.5,%u\n", i, i % 7, i % 3);
    }
}

static void write_uneven_rows(struct buf *out)
{
    for (unsigned i = 0; i < 70; i++) {
        buf_printf(out, i % 9 == 0 ? "%u,\"%u\",%u\n\n" : "%u,%u,%u\r\n", i, i % 5, i % 4);
    }
    buf_add_str(out, "7,\"8\",9");
}

static void write_sparse_rows(struct buf *out)
{
    for (unsigned i = 0; i < 90; i++) {
        buf_printf(out, "%u %u:%u 9:1\n", i, 1 + i % 8, i);
        buf_add_str(out, i > 70 && i % 6 == 0 ? "# none\n\n" : "");
    }
}

static void write_words(struct buf *out)
{
    for (unsigned i = 0; i < 80; i++) {
        buf_printf(out, "w%u,%u,c%u\n", i % 5, i, i % 3);
    }
}

static struct scene scenes[] = {
    {"rows.csv", "rows.csv", "", write_rows, DATA_LABEL_REAL, .test_fraction = 0},
    {"uneven.csv", "uneven.csv", "", write_uneven_rows, DATA_LABEL_REAL, .test_fraction = 0},
    {"sparse.libsvm", "sparse.libsvm", "", write_sparse_rows, DATA_LABEL_REAL,
     .test_fraction = 0.2},
    {"[two.csv, more.csv]", "two.csv", "", write_rows, DATA_LABEL_REAL, .test_fraction = 0.3},
    {"words.csv", "words.csv", "", write_words, DATA_LABEL_CLASS, .measured = true},
    {"a.libsvm", "a.libsvm", "more.libsvm", write_sparse_rows, DATA_LABEL_REAL, .test_fraction = 0},
};
#define SCENES (sizeof scenes / sizeof scenes[0])

/* ---- data ---- */

static struct data_spec spec_of(const struct scene *s, int loading)
{
    const union {
        const char *in;
        char *out;
    } zero = {.in = "0"}, test = {.in = s->test}; /* nobody writes to them */
    struct data_spec spec = fuzz_data_spec(s->files);
    spec.loading = loading;
    spec.memory = MEMORY;
    spec.test_fraction = s->test_fraction;
    spec.test.file = test.out;
    spec.bad_records = 3;
    spec.header = DATA_HEADER_FALSE;
    spec.categorical = s->measured ? zero.out : spec.categorical;
    spec.scale = s->measured ? DATA_SCALE_STANDARD : DATA_SCALE_NONE;
    return spec;
}

static void write_data(const char *name, const void *data, size_t n)
{
    const struct timespec times[2] = {{.tv_sec = CHANGED_S}, {.tv_sec = CHANGED_S}};
    FILE *f = fopen(name, "w");
    fuzz_require(f != NULL && fwrite(data, 1, n, f) == n && fclose(f) == 0 &&
                     utimensat(AT_FDCWD, name, times, 0) == 0,
                 "a file can be written");
}

static void remove_dir(void)
{
    (void)file_remove_tree(dir, NULL);
}

/* Behind the settings and all that is said of the files. */
static size_t numbers_at(const struct buf *index)
{
    struct notes end = {.data = buf_str(index), .bytes = index->len, .ok = true};
    end.at = index->len - END_BYTES + 2 * WORD;
    const size_t entries = (size_t)notes_number(&end);
    struct notes n = {.data = buf_str(index), .bytes = index->len, .at = entries, .ok = true};
    free(notes_text(&n));
    const size_t files = (size_t)notes_number(&n);
    for (size_t i = 0; i < files; i++) {
        free(notes_text(&n));
        n.at += 3 * WORD;
    }
    fuzz_require(n.ok && n.at < index->len - END_BYTES, "the true index is as it is described");
    return n.at;
}

static size_t width_of(const struct dataset *d)
{
    const struct shape *features = &dataset_info(d)->features;
    size_t width = 1;
    for (size_t i = 0; i < features->rank; i++) {
        width *= (size_t)features->dims[i];
    }
    return width;
}

static void read_known(struct known *k)
{
    uint64_t records[RECORDS_MAX];
    struct err err = {0};
    if (k->d == NULL) {
        return;
    }
    const size_t n = (size_t)dataset_info(k->d)->records;
    for (size_t i = 0; i < n; i++) {
        records[i] = i;
    }
    k->width = width_of(k->d);
    fuzz_require(n <= RECORDS_MAX && batch_init(&k->b, k->d, RECORDS_MAX, &err) == 0 &&
                     dataset_read(k->d, records, n, &k->b, &err) == 0,
                 "records in memory can be read");
}

static void release_known(struct known *k)
{
    if (k->d != NULL) {
        batch_release(&k->b);
        dataset_free(k->d);
    }
}

/* Both parts of the data of @s in memory, or none. */
static void open_known(const struct scene *s, struct known parts[2])
{
    const struct data_spec spec = spec_of(s, DATA_LOADING_MEMORY);
    struct err err = {0};
    fuzz_require_error(dataset_open(&spec, s->kind, &parts[0].d, &parts[1].d, &err), &err);
    read_known(&parts[0]);
    read_known(&parts[1]);
}

static void make_scene(struct scene *s)
{
    struct dataset *d = NULL, *test = NULL;
    struct err err = {0};
    s->write(&s->data);
    write_data(s->name, s->data.data, s->data.len);
    const struct data_spec spec = spec_of(s, DATA_LOADING_STREAM);
    fuzz_require(dataset_open(&spec, s->kind, &d, &test, &err) == 0, err.msg);
    const char *path = dataset_loading(d) + strlen("index ");
    s->index_path = mem_printf("%.*s", (int)strcspn(path, ","), path);
    fuzz_require(file_read(s->index_path, (size_t)MEMORY, &s->index, &err) == 0, err.msg);
    s->numbers_at = numbers_at(&s->index);
    open_known(s, s->known);
    dataset_free(d);
    dataset_free(test);
}

static void make_scenes(void)
{
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    (void)snprintf(dir, sizeof dir, "%s/gradus-fuzz-XXXXXX", base);
    fuzz_require(mkdtemp(dir) != NULL && chdir(dir) == 0, "a directory can be made");
    (void)atexit(remove_dir);
    write_data("more.csv", "4,5.5,6\n7,8,9\n", 14);
    write_data("more.libsvm", "4 5:5\n7 2:9 30:1\n", 18);
    for (size_t i = 0; i < SCENES; i++) {
        make_scene(&scenes[i]);
    }
}

/* Write the data, with changes of the input; false: they are as they were. */
static bool change_data(struct scene *s, struct fuzz_input *in, bool wanted)
{
    if (!wanted && !s->dirty) {
        return false;
    }
    struct buf data = {0};
    s->requoted = false;
    buf_add(&data, s->data.data, s->data.len);
    for (size_t i = wanted ? 1U + fuzz_below(in, 4) : 0; i > 0; i--) {
        const size_t high = fuzz_byte(in), low = fuzz_byte(in);
        char *at = &data.data[(high << 8 | low) % data.len], was = *at;
        *at = (char)fuzz_byte(in);
        s->requoted = s->requoted || was == '"' || *at == '"';
    }
    write_data(s->name, data.data, data.len);
    s->dirty = memcmp(data.data, s->data.data, data.len) != 0;
    buf_release(&data);
    return s->dirty;
}

/* ---- an index ---- */

static uint64_t get_word(const struct buf *b, size_t at)
{
    struct notes n = {.data = b->data, .bytes = b->len, .at = at, .ok = at + WORD <= b->len};
    return notes_number(&n);
}

static void put_word(struct buf *b, size_t at, uint64_t word)
{
    for (size_t i = 0; i < WORD && at + i < b->len; i++) {
        b->data[at + i] = (char)(uint8_t)(word >> (8 * i));
    }
}

/* Cut @n bytes out at @at, and put @more of the input there. */
static void replace(struct buf *b, size_t at, size_t n, struct fuzz_input *in, size_t more)
{
    struct buf out = {0};
    at = at < b->len ? at : b->len;
    n = n < b->len - at ? n : b->len - at;
    more = more < in->n ? more : in->n;
    buf_add(&out, b->data, at);
    buf_add(&out, in->data, more);
    buf_add(&out, b->data + at + n, b->len - at - n);
    in->data += more;
    in->n -= more;
    buf_release(b);
    *b = out;
}

/* One change of @b; @entries: bytes of them, @numbers_at as of the scene. */
static void change_index(struct fuzz_input *in, struct buf *b, size_t *entries, size_t numbers)
{
    const unsigned kind = fuzz_below(in, 8);
    const uint8_t where = fuzz_byte(in);
    const size_t words = *entries / WORD;
    size_t at =
        (where & 1) != 0 && words > 0 ? where / 2 % words * WORD : numbers + where / 2 * WORD;
    const size_t before = b->len;
    switch (kind) {
    case 0:
        put_word(b, at, fuzz_u64(in));
        break;
    case 1:
        put_word(b, at, get_word(b, at) + fuzz_byte(in));
        break;
    case 2:
        put_word(b, at, get_word(b, at) - fuzz_byte(in));
        break;
    case 3:
        put_word(b, at, get_word(b, at) ^ UINT64_C(1) << fuzz_below(in, 64));
        break;
    case 4:
        put_word(b, at, get_word(b, at + WORD * fuzz_byte(in)));
        break;
    case 5:
        replace(b, at, fuzz_byte(in), in, 0);
        break;
    case 6:
        replace(b, at, 0, in, fuzz_byte(in));
        break;
    default:
        at = (size_t)where << 8 | fuzz_byte(in);
        replace(b, at, 1, in, 1);
    }
    *entries += at < *entries && b->len + *entries >= before ? b->len - before : 0;
}

/* The words of the files are made those of the files that are there. */
static void repair_stamps(struct buf *b, size_t entries)
{
    struct notes n = {.data = buf_str(b), .bytes = b->len, .at = entries, .ok = entries <= b->len};
    free(notes_text(&n));
    for (size_t files = notes_count(&n, 4 * WORD); files > 0 && n.ok; files--) {
        char *path = notes_text(&n);
        struct ranged_file *f = NULL;
        struct ranged_stamp stamp;
        struct err err = {0};
        if (path != NULL && strchr(path, '/') == NULL &&
            ranged_file_open(path, NULL, NULL, &f, &err) == 0 &&
            ranged_file_stamp(f, &stamp, &err) == 0) {
            put_word(b, n.at, stamp.bytes);
            put_word(b, n.at + WORD, (uint64_t)stamp.changed_ns);
            put_word(b, n.at + 2 * WORD, stamp.samples);
        }
        ranged_file_close(f);
        free(path);
        n.at += 3 * WORD < n.bytes - n.at ? 3 * WORD : n.bytes - n.at;
    }
}

/* The index of the input. Owned in *@out. */
static void make_index(const struct scene *s, struct fuzz_input *in, unsigned flags,
                       struct buf *out)
{
    const bool as_it_is = (flags & FLAG_AS_IT_IS) != 0;
    const struct buf whole = {.data = s->index.data, .len = s->index.len};
    size_t entries = (size_t)get_word(&whole, whole.len - END_BYTES + 2 * WORD);
    if (as_it_is) {
        entries = (size_t)fuzz_byte(in) * WORD;
        buf_add(out, in->data, in->n);
        entries = entries < out->len ? entries : out->len;
    } else {
        buf_add(out, whole.data, whole.len - END_BYTES);
        while (in->n > 0) {
            change_index(in, out, &entries, s->numbers_at);
        }
    }
    if ((flags & FLAG_STAMP_REPAIRED) != 0) {
        repair_stamps(out, entries);
    }
    if ((flags & FLAG_SUM_REPAIRED) != 0) {
        const size_t notes = out->len - entries;
        buf_add_str(out, "GRADUSIX");
        notes_add_number(out, 1);
        notes_add_number(out, entries);
        notes_add_number(out, notes);
        notes_add_number(out, checksum_of(out->data, out->len));
    } else if (!as_it_is) {
        buf_add(out, whole.data + whole.len - END_BYTES, END_BYTES);
    }
}

/* ---- what is read ---- */

/* Are record @i of @b and @j of @k the same? */
static bool is_same(const struct known *k, size_t j, const struct batch *b, size_t i)
{
    return memcmp(k->b.features + j * k->width, b->features + i * k->width,
                  k->width * sizeof *b->features) == 0 &&
           memcmp(&k->b.targets[j], &b->targets[i], sizeof *b->targets) == 0;
}

/* Parts of one source are drawn by the numbers of records: it may be one of the other part. */
static bool is_known(const struct known parts[2], const struct dataset *d, const struct batch *b,
                     size_t i)
{
    for (size_t k = 0; k < 2; k++) {
        for (size_t j = 0; parts[k].width == width_of(d) && j < parts[k].b.count; j++) {
            if (is_same(&parts[k], j, b, i)) {
                return true;
            }
        }
    }
    return false;
}

/* What must be true of the records of a part. */
struct expected {
    const struct known *exact;  /* the same ones */
    const struct known *either; /* [2], some of these; NULL for both: whatever */
};

/* Read @n records from @first on. False: an error. */
static bool read_records(const struct dataset *d, const struct expected *e, uint64_t first,
                         size_t n, struct batch *b)
{
    uint64_t records[RECORDS_MAX];
    struct err err = {0};
    for (size_t i = 0; i < n; i++) {
        records[i] = first + i;
    }
    int rc = dataset_read(d, records, n, b, &err);
    fuzz_require_error(rc, &err);
    fuzz_require(rc == 0 || e->exact == NULL, "what was found can be read");
    for (size_t i = 0; rc == 0 && i < n; i++) {
        fuzz_require(e->exact == NULL || is_same(e->exact, (size_t)first + i, b, i),
                     "each record is what it is in memory");
        fuzz_require(e->either == NULL || is_known(e->either, d, b, i),
                     "only records of the data are read");
    }
    return rc == 0;
}

static void read_part(const struct dataset *d, const struct expected *e)
{
    const uint64_t n = dataset_info(d)->records;
    const size_t some = n < RECORDS_MAX ? (size_t)n : RECORDS_MAX;
    struct batch b;
    struct err err = {0};
    if (e->exact != NULL) {
        const struct known *k = e->exact;
        fuzz_require(k->d != NULL, "what cannot be read in memory cannot be streamed");
        fuzz_require(n == dataset_info(k->d)->records && k->width == width_of(d) &&
                         dataset_info(d)->fingerprint == dataset_info(k->d)->fingerprint,
                     "a data set that was just indexed is that in memory");
    }
    int rc = batch_init(&b, d, RECORDS_MAX, &err);
    fuzz_require_error(rc, &err);
    if (rc != 0) {
        return;
    }
    bool can = read_records(d, e, 0, some, &b);
    for (uint64_t i = 0; !can && i < some; i += 9) {
        (void)read_records(d, e, i, 1, &b);
    }
    (void)read_records(d, e, n - 1, 1, &b);
    batch_release(&b);
}

/* @intact: all is true; @damaged: it is not, and shows it. @known: of the data as they are. */
static void read_streamed(const struct scene *s, const struct known known[2], bool intact,
                          bool damaged)
{
    const struct data_spec spec = spec_of(s, DATA_LOADING_STREAM);
    struct dataset *parts[2] = {NULL, NULL};
    struct err err = {0};
    int rc = dataset_open(&spec, s->kind, &parts[0], &parts[1], &err);
    fuzz_require_error(rc, &err);
    const bool made = rc == 0 && strstr(dataset_loading(parts[0]), ", made ") != NULL;
    fuzz_require(rc != 0 || made != intact || !(intact || damaged),
                 "an index is used where it is right, and not where it is damaged");
    fuzz_require(rc == 0 || known[0].d == NULL || !(intact || damaged) || rc == ERR_UNSUPPORTED,
                 "data that can be read can be streamed, whatever damage the index has");
    for (size_t i = 0; rc == 0 && i < 2; i++) {
        const bool exact = made || intact;
        const bool comparable = known[0].d != NULL && !s->measured && !s->requoted;
        const bool alike = parts[0] != NULL && width_of(parts[0]) == known[0].width;
        const struct expected e = {.exact = exact ? &known[i] : NULL,
                                   .either = !exact && comparable && alike ? known : NULL};
        if (parts[i] != NULL) {
            read_part(parts[i], &e);
        }
    }
    dataset_free(parts[0]);
    dataset_free(parts[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz_input in = {data, n};
    struct err err = {0};
    struct buf index = {0};
    if (dir[0] == '\0') {
        make_scenes();
    }
    const unsigned flags = fuzz_byte(&in);
    struct scene *s = &scenes[(flags & 7) % SCENES];
    const bool changed = change_data(s, &in, (flags & FLAG_DATA_CHANGED) != 0);
    make_index(s, &in, flags, &index);
    const bool intact =
        !changed && index.len == s->index.len && memcmp(index.data, s->index.data, index.len) == 0;
    fuzz_require(file_write_atomic(s->index_path, buf_str(&index), index.len, &err) == 0, err.msg);
    struct known changed_known[2] = {{0}, {0}};
    if (changed) {
        open_known(s, changed_known);
    }
    read_streamed(s, changed ? changed_known : s->known, intact,
                  !intact && (flags & FLAG_SUM_REPAIRED) == 0);
    release_known(&changed_known[0]);
    release_known(&changed_known[1]);
    buf_release(&index);
    return 0;
}
