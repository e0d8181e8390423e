/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "data/csv.h"
#include "unit/data/data_rig.h"

/* Read all rows of the file "t" as text: fields in brackets, rows as "line: …;". */
static int read_all(char separator, struct buf *out, struct err *err)
{
    char *path = file_join(fixture_dir, "t");
    struct csv *c = NULL;
    const struct csv_row *row = NULL;
    int rc = csv_open(path, NULL, separator, &c, err);
    while (rc == 0 && (rc = csv_next(c, &row, err)) == 0 && row != NULL) {
        buf_printf(out, "%d:", (int)row->line);
        for (size_t i = 0; i < row->count; i++) {
            buf_printf(out, "[%.20s]", row->fields[i]);
        }
        buf_add_char(out, ';');
    }
    csv_close(c);
    free(path);
    return rc;
}

static void rows_and_lines(void **state)
{
    (void)state;
    static const struct {
        const char *text, *rows;
    } cases[] = {
        {"", ""},
        {"\n\r\n\r", ""},
        {"a", "1:[a];"},
        {",", "1:[][];"},
        {"a,\n,b", "1:[a][];2:[][b];"},
        {"\"\"", "1:[];"},
        {"\"\"\"\"", "1:[\"];"},
        {"\"a\n\nb\",c\nd,e\n", "1:[a\n\nb][c];4:[d][e];"},
        {"\"a\r\nb\"\r\nd", "1:[a\r\nb];3:[d];"},
        {" \"a, b\" ,c", "1:[a, b][c];"},
        {"a \"quoted\" word, 5\" nails", "1:[a \"quoted\" word][5\" nails];"},
        {"\n\n a b \n\tc\t", "3:[a b];4:[c];"},
        {"\xEF\xBB\xBF\"x\",y", "1:[x][y];"},
        {"a\xEF\xBB\xBF,y", "1:[a\xEF\xBB\xBF][y];"},
        {"sep=,\nx,y", "2:[x][y];"},
        {"\xEF\xBB\xBFSEP=,\r\nx,y", "2:[x][y];"},
        {"sep=,\n", ""},
        {"sep=;\nx,y", "1:[sep=;];2:[x][y];"}, /* of another separator */
        {"sep=,", "1:[sep=][];"},
        {"sep=,y\n", "1:[sep=][y];"},
        {"x,y\nsep=,\n", "1:[x][y];2:[sep=][];"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buf rows = {0};
        fixture_text("t", cases[i].text);
        assert_int_equal(read_all(',', &rows, NULL), 0);
        assert_string_equal(buf_str(&rows), cases[i].rows);
        buf_release(&rows);
    }
}

static void runs_of_blanks_separate(void **state)
{
    (void)state;
    struct buf rows = {0};
    fixture_text("t", "  a  b\tc  \n   \n\"d e\" f\n");
    assert_int_equal(read_all(CSV_BLANKS, &rows, NULL), 0);
    assert_string_equal(buf_str(&rows), "1:[a][b][c];3:[d e][f];");
    buf_release(&rows);
}

/* Fields and line ends that straddle the chunks in which the file is read. */
static void chunk_borders_do_not_show(void **state)
{
    (void)state;
    static char text[65536 + 64];
    for (size_t pad = 65536 - 12; pad < 65536 + 2; pad++) {
        memset(text, 'x', pad);
        (void)snprintf(text + pad, sizeof text - pad, ",\"a\"\"b\"\r\n\"c\r\nd\",e\r\n");
        fixture_text("t", text);
        struct buf rows = {0};
        assert_int_equal(read_all(',', &rows, NULL), 0);
        assert_string_equal(buf_str(&rows), "1:[xxxxxxxxxxxxxxxxxxxx][a\"b];2:[c\r\nd][e];");
        buf_release(&rows);
    }
}

static void check_limit(const char *data, size_t n, const char *message)
{
    struct buf rows = {0};
    struct err err;
    fixture_write("t", data, n);
    assert_int_equal(read_all(',', &rows, &err), ERR_EXHAUSTED);
    assert_non_null(strstr(err.msg, message));
    buf_release(&rows);
}

static void rows_have_limits(void **state)
{
    (void)state;
    size_t n = CSV_ROW_BYTES_MAX + 10;
    char *text = mem_new(n, 1);
    memset(text, 'x', n);
    memcpy(text, "1\n\"", 3);
    check_limit(text, n, "t:2: field 1: the row is longer than 16 MiB");
    memset(text, ',', CSV_COLUMNS_MAX);
    check_limit(text, CSV_COLUMNS_MAX, "t:1: field 100001: more than 100000 columns");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_and_lines),
        cmocka_unit_test(runs_of_blanks_separate),
        cmocka_unit_test(chunk_borders_do_not_show),
        cmocka_unit_test(rows_have_limits),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
