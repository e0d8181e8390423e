/* SPDX-License-Identifier: Apache-2.0 */
/* The signatures are those of file(1)'s database and of the formats' own documents. */
#include "data/foreign_file.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#define UNPACK "data files may be plain, gzip, zlib or zstd"
#define TO_UTF_8 "write it in UTF-8 (iconv -f UTF-16 -t UTF-8, or \"CSV UTF-8\" of spreadsheets)"
#define WRITE_CSV "write it as CSV (pandas: read it, then to_csv)"

struct signature {
    size_t at; /* place of the bytes in the file */
    const char *bytes;
    size_t count;
    const char *what, *advice;
};

#define SIGNATURE(at, bytes, what, advice)                                                         \
    {                                                                                              \
        at, bytes, sizeof(bytes) - 1, what, advice                                                 \
    }

static const struct signature signatures[] = {
    SIGNATURE(0, "BZh", "packed with bzip2", "unpack it with bunzip2; " UNPACK),
    SIGNATURE(0,
              "\xFD"
              "7zXZ\0",
              "packed with xz", "unpack it with unxz; " UNPACK),
    SIGNATURE(0, "\x04\x22\x4D\x18", "packed with lz4", "unpack it with unlz4; " UNPACK),
    SIGNATURE(0, "LZIP", "packed with lzip", "unpack it with lunzip; " UNPACK),
    SIGNATURE(0, "\xFF\x06\0\0sNaPpY", "packed with snappy", "write it without; " UNPACK),
    SIGNATURE(0, "7z\xBC\xAF\x27\x1C", "a 7z archive", "unpack it; " UNPACK),
    SIGNATURE(0, "Rar!\x1A\x07", "a RAR archive", "unpack it; " UNPACK),
    SIGNATURE(257, "ustar", "a tar archive", "unpack it with tar -x; " UNPACK),
    SIGNATURE(0, "PAR1", "a Parquet file", WRITE_CSV),
    SIGNATURE(0, "PARE", "an encrypted Parquet file", WRITE_CSV),
    SIGNATURE(0, "ORC", "an ORC file", WRITE_CSV),
    SIGNATURE(0, "Obj\x01", "an Avro file", WRITE_CSV),
    SIGNATURE(0, "ARROW1", "an Arrow file", WRITE_CSV),
    SIGNATURE(0, "FEA1", "a Feather file", WRITE_CSV),
    SIGNATURE(0, "\x93NUMPY", "an array of NumPy", "write it as CSV (numpy.savetxt) or as IDX"),
    SIGNATURE(0, "SEQ\x06", "a SequenceFile of Hadoop", "write it as text or as TFRecord"),
    SIGNATURE(0, "\x89HDF\r\n\x1A\n", "an HDF5 file", WRITE_CSV),
    SIGNATURE(0, "SQLite format 3\0", "a SQLite database", "write the table as CSV"),
    SIGNATURE(0, "\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1", "a document of an old Office program",
              "save the sheet as CSV"),
    SIGNATURE(0, "MATLAB 5.0 MAT-file", "a file of MATLAB", WRITE_CSV),
    SIGNATURE(0, "%PDF-", "a PDF document", "it has no records"),
    SIGNATURE(0, "\x89PNG\r\n\x1A\n", "a PNG picture", "write the pictures of a set as IDX"),
    SIGNATURE(0, "\xFF\xD8\xFF", "a JPEG picture", "write the pictures of a set as IDX"),
    SIGNATURE(0,
              "\x7F"
              "ELF",
              "a program", "it has no records"),
    SIGNATURE(0, "\xFF\xFE", "text in UTF-16", TO_UTF_8),
    SIGNATURE(0, "\xFE\xFF", "text in UTF-16", TO_UTF_8),
    SIGNATURE(0, "version https://git-lfs.github.com/spec/",
              "a pointer of Git LFS, not the file itself", "fetch the file with git lfs pull"),
};

/* Archives of zip; those of spreadsheets begin with the list of their parts. */
static const struct signature zips[] = {
    SIGNATURE(30, "[Content_Types].xml", "a spreadsheet (XLSX)", "save the sheet as CSV"),
    SIGNATURE(30, "_rels/", "a spreadsheet (XLSX)", "save the sheet as CSV"),
    SIGNATURE(30, "xl/", "a spreadsheet (XLSX)", "save the sheet as CSV"),
    SIGNATURE(30, "mimetypeapplication/vnd.oasis", "a spreadsheet (ODS)", "save the sheet as CSV"),
    SIGNATURE(0, "PK\x03\x04", "a zip archive", "unpack it with unzip; " UNPACK),
};

static const struct signature *find(const struct signature *list, size_t count, const uint8_t *head,
                                    size_t n)
{
    for (size_t i = 0; i < count; i++) {
        const struct signature *s = &list[i];
        if (n >= s->at + s->count && memcmp(head + s->at, s->bytes, s->count) == 0) {
            return s;
        }
    }
    return NULL;
}

/* True if the text begins with @word, after any blanks. */
static bool begins(const uint8_t *head, size_t n, const char *word)
{
    size_t i = n >= 3 && memcmp(head, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
    while (i < n && strchr(" \t\r\n", head[i]) != NULL && head[i] != '\0') {
        i++;
    }
    return n - i >= strlen(word) && strncasecmp((const char *)head + i, word, strlen(word)) == 0;
}

int foreign_file_check(const char *path, const uint8_t *head, size_t n, struct err *err)
{
    static const struct signature page = {.what = "a web page (HTML)",
                                          .advice = "was it downloaded from the right address?"};
    static const struct signature xml = {.what = "an XML document",
                                         .advice = "was it downloaded from the right address?"};
    const struct signature *s = NULL;
    if (n >= 4 && memcmp(head, "PK\x03\x04", 4) == 0) {
        s = find(zips, sizeof zips / sizeof zips[0], head, n);
    } else if (begins(head, n, "<!doctype html") || begins(head, n, "<html")) {
        s = &page;
    } else if (begins(head, n, "<?xml")) {
        s = &xml;
    } else {
        s = find(signatures, sizeof signatures / sizeof signatures[0], head, n);
    }
    return s == NULL
               ? 0
               : err_set(err, ERR_INVALID, "%s: this is %s%s; %s", path,
                         strncmp(s->what, "packed", 6) == 0 ? "a file " : "", s->what, s->advice);
}
