/* SPDX-License-Identifier: Apache-2.0 */
/* A CSV parser that needs one byte of look-ahead, so it reads files of any size in chunks and
 * keeps only the current row. Errors name line and field. */
#include "data/csv.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/mem.h"
#include "data/source.h"

#define CSV_CHUNK_BYTES 65536U
#define CSV_END (-1)
#define CSV_FAILED (-2)

struct csv {
    struct source *source;
    char separator;
    uint64_t line; /* of the next byte */
    unsigned char *chunk;
    size_t chunk_len, chunk_pos;
    struct buf text; /* the fields of the row, each with a NUL behind it */
    size_t *starts;  /* [count] of each field in text */
    size_t starts_capacity;
    char **fields;
    size_t fields_capacity;
    struct csv_row row;
    bool stops[256];  /* bytes at which the plain part of a field ends, and NUL */
    bool line_is_bad; /* the last failure was of the line in hand alone */
};

static struct csv *csv_new(struct source *source, uint64_t first, char separator)
{
    struct csv *c = mem_new(1, sizeof *c);
    c->source = source;
    c->separator = separator;
    c->line = first;
    c->stops[0] = c->stops['\n'] = c->stops['\r'] = c->stops[(unsigned char)separator] = true;
    c->stops['\t'] = separator == '\t' || separator == CSV_BLANKS;
    c->chunk = mem_new(CSV_CHUNK_BYTES, 1);
    return c;
}

int csv_open(const char *path, const struct data_roots *roots, char separator, struct csv **out,
             struct err *err)
{
    struct source *source;
    int rc = source_open(path, roots, &source, err);
    if (rc == 0) {
        *out = csv_new(source, 1, separator);
    }
    return rc;
}

void csv_of_bytes(const char *path, const char *bytes, size_t n, uint64_t first, char separator,
                  struct csv **out)
{
    struct source *source;
    source_of_bytes(path, bytes, n, &source);
    *out = csv_new(source, first, separator);
}

void csv_close(struct csv *c)
{
    if (c != NULL) {
        source_close(c->source);
        free(c->chunk);
        buf_release(&c->text);
        free(c->starts);
        free(c->fields);
        free(c);
    }
}

size_t csv_preamble(const char *text, size_t n, char separator, uint64_t *line)
{
    const size_t at = n >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    const char *p = text + at, *end = text + n;
    *line = 1;
    if (n - at < 6 || strncasecmp(p, "sep=", 4) != 0 || p[4] != separator) {
        return at;
    }
    p += p[5] == '\r' ? 6 : 5;
    if (p == end || *p != '\n') {
        return at;
    }
    *line = 2;
    return (size_t)(p + 1 - text);
}

/* Load the next chunk. Returns 0, CSV_END or CSV_FAILED. */
static int load(struct csv *c, struct err *err)
{
    bool first = source_offset(c->source) == 0 && c->line == 1;
    c->chunk_pos = 0;
    c->chunk_len = 0;
    if (source_read(c->source, c->chunk, CSV_CHUNK_BYTES, &c->chunk_len, err) != 0) {
        return CSV_FAILED;
    }
    if (first) {
        c->chunk_pos = csv_preamble((const char *)c->chunk, c->chunk_len, c->separator, &c->line);
    }
    return c->chunk_pos < c->chunk_len ? 0 : CSV_END;
}

/* The next byte without taking it, CSV_END or CSV_FAILED. */
static int peek(struct csv *c, struct err *err)
{
    if (c->chunk_pos == c->chunk_len) {
        int state = load(c, err);
        if (state != 0) {
            return state;
        }
    }
    return c->chunk[c->chunk_pos];
}

static void take(struct csv *c)
{
    c->chunk_pos++;
}

/* Take a line end whose first byte @byte was peeked and not taken: LF, CRLF or CR. */
static int take_line_end(struct csv *c, int byte, struct err *err)
{
    take(c);
    c->line++;
    if (byte == '\r') {
        int next = peek(c, err);
        if (next == CSV_FAILED) {
            return CSV_FAILED;
        }
        if (next == '\n') {
            take(c);
        }
    }
    return 0;
}

static int row_error(const struct csv *c, int code, const char *what, struct err *err)
{
    return err_set(err, code, "%s:%" PRIu64 ": field %zu: %s", source_path(c->source), c->row.line,
                   c->row.count + 1, what);
}

static int add_byte(struct csv *c, int byte, struct err *err)
{
    if (byte == 0) {
        return row_error(c, ERR_CORRUPT, "a NUL byte; this is not a text file", err);
    }
    if (c->text.len >= CSV_ROW_BYTES_MAX) {
        return row_error(
            c, ERR_EXHAUSTED,
            "the row is longer than 16 MiB; is a quote not closed, or is this no CSV file?", err);
    }
    buf_add_char(&c->text, (char)byte);
    return 0;
}

static bool is_blank(int byte)
{
    return byte == ' ' || byte == '\t';
}

static bool is_separator(const struct csv *c, int byte)
{
    return byte == c->separator || (c->separator == CSV_BLANKS && byte == '\t');
}

static bool ends_field(const struct csv *c, int byte)
{
    return byte < 0 || byte == '\n' || byte == '\r' || is_separator(c, byte);
}

/* Skip blanks that do not separate; returns the byte behind them. */
static int skip_blanks(struct csv *c, struct err *err)
{
    int byte = peek(c, err);
    while (is_blank(byte) && (c->separator == CSV_BLANKS || !is_separator(c, byte))) {
        take(c);
        byte = peek(c, err);
    }
    return byte;
}

/* @byte follows a closing quote, and is no end of the field: in most files that is another
 * separator. */
static int text_follows(const struct csv *c, int byte, struct err *err)
{
    const char *other = byte == ';'    ? "; is it data.separator: \";\"?"
                        : byte == '\t' ? "; is it data.separator: tab?"
                        : byte == '|'  ? "; is it data.separator: \"|\"?"
                        : byte == ','  ? "; is it data.separator: \",\"?"
                                       : "; a quote inside quotes is written twice";
    char what[80];
    (void)snprintf(what, sizeof what, "text follows the closing quote%s", other);
    return row_error(c, ERR_CORRUPT, what, err);
}

/* A field whose opening quote is next; returns the byte behind the field, or CSV_FAILED. */
static int read_quoted(struct csv *c, struct err *err)
{
    take(c);
    for (;;) {
        int byte = peek(c, err);
        if (byte == CSV_FAILED) {
            return CSV_FAILED;
        }
        if (byte == CSV_END) {
            (void)row_error(c, ERR_CORRUPT, "the file ends inside quotes", err);
            return CSV_FAILED;
        }
        take(c);
        if (byte == '"') {
            if (peek(c, err) != '"') {
                break;
            }
            take(c);
        }
        c->line += byte == '\n';
        if (add_byte(c, byte, err) != 0) {
            return CSV_FAILED;
        }
    }
    int byte = peek(c, err);
    if (!ends_field(c, byte)) {
        byte = skip_blanks(c, err);
    }
    if (!ends_field(c, byte)) {
        (void)text_follows(c, byte, err);
        c->line_is_bad = byte != CSV_FAILED;
        return CSV_FAILED;
    }
    return byte;
}

/* The number of bytes of the chunk in hand that belong to the present field. */
static size_t plain_bytes(const struct csv *c)
{
    size_t end = c->chunk_pos;
    while (end < c->chunk_len && !c->stops[c->chunk[end]]) {
        end++;
    }
    return end - c->chunk_pos;
}

static int read_plain(struct csv *c, size_t start, struct err *err)
{
    int byte = peek(c, err);
    while (!ends_field(c, byte)) {
        if (add_byte(c, byte, err) != 0) { /* checks what ends no field */
            return CSV_FAILED;
        }
        take(c);
        size_t n = plain_bytes(c);
        buf_add(&c->text, (const char *)c->chunk + c->chunk_pos, n);
        c->chunk_pos += n;
        byte = peek(c, err);
    }
    while (c->text.len > start && is_blank((unsigned char)c->text.data[c->text.len - 1])) {
        c->text.len--;
    }
    return byte;
}

/* Read one field into the row; returns the byte behind it (not taken), or CSV_FAILED. */
static int read_field(struct csv *c, struct err *err)
{
    if (c->row.count >= CSV_COLUMNS_MAX) {
        (void)row_error(c, ERR_EXHAUSTED, "more than 100000 columns", err);
        return CSV_FAILED;
    }
    size_t start = c->text.len;
    int byte = skip_blanks(c, err);
    byte = byte == '"' ? read_quoted(c, err) : read_plain(c, start, err);
    if (byte == CSV_FAILED) {
        return CSV_FAILED;
    }
    c->starts = mem_grow(c->starts, &c->starts_capacity, c->row.count + 1, sizeof *c->starts);
    c->starts[c->row.count++] = start;
    buf_add(&c->text, "", 1);
    return byte;
}

/* Reads the fields of a row up to its line end, which is taken. */
static int read_fields(struct csv *c, struct err *err)
{
    for (;;) {
        int byte = read_field(c, err);
        if (byte != CSV_FAILED && c->separator == CSV_BLANKS) {
            byte =
                /* a run of blanks is one separator, and none at the end of the line */
                skip_blanks(c, err);
        } else if (byte >= 0 && is_separator(c, byte)) {
            take(c);
            continue;
        }
        if (byte == CSV_FAILED) {
            return CSV_FAILED;
        }
        if (byte == CSV_END) {
            return 0;
        }
        if (byte == '\n' || byte == '\r') {
            return take_line_end(c, byte, err);
        }
    }
}

/* The first byte of the next row that is not empty. */
static int skip_empty_rows(struct csv *c, struct err *err)
{
    for (;;) {
        int byte = c->separator == CSV_BLANKS ? skip_blanks(c, err) : peek(c, err);
        if (byte != '\n' && byte != '\r') {
            return byte;
        }
        if (take_line_end(c, byte, err) == CSV_FAILED) {
            return CSV_FAILED;
        }
    }
}

int csv_next(struct csv *c, const struct csv_row **row, struct err *err)
{
    struct err failure = {0};
    c->line_is_bad = false;
    int byte = skip_empty_rows(c, &failure);
    if (byte == CSV_END) {
        *row = NULL;
        return 0;
    }
    c->row = (struct csv_row){.line = c->line};
    buf_reset(&c->text);
    if (byte == CSV_FAILED || read_fields(c, &failure) != 0) {
        if (err != NULL) {
            *err = failure;
        }
        return failure.code;
    }
    c->fields = mem_grow(c->fields, &c->fields_capacity, c->row.count, sizeof *c->fields);
    for (size_t i = 0; i < c->row.count; i++) {
        c->fields[i] = c->text.data + c->starts[i];
    }
    c->row.fields = c->fields;
    *row = &c->row;
    return 0;
}

void csv_pad(struct csv *c, size_t count)
{
    c->fields = mem_grow(c->fields, &c->fields_capacity, count, sizeof *c->fields);
    while (c->row.count < count) {
        c->fields[c->row.count++] = c->text.data + c->text.len - 1; /* the NUL of the last one */
    }
    c->row.fields = c->fields;
}

void csv_insert(struct csv *c, size_t column, char *text)
{
    column = column < c->row.count ? column : c->row.count;
    const size_t behind = c->row.count - column;
    c->fields = mem_grow(c->fields, &c->fields_capacity, c->row.count + 1, sizeof *c->fields);
    memmove(c->fields + column + 1, c->fields + column, behind * sizeof *c->fields);
    c->fields[column] = text;
    c->row.count++;
    c->row.fields = c->fields;
}

bool csv_recover(struct csv *c)
{
    int byte = c->line_is_bad ? peek(c, NULL) : CSV_FAILED;
    while (byte >= 0 && byte != '\n' && byte != '\r') {
        take(c);
        byte = peek(c, NULL);
    }
    return byte != CSV_FAILED && (byte == CSV_END || take_line_end(c, byte, NULL) == 0);
}
