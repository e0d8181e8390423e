/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of texts as one text, so that they pass through tables of settings like any other value. */
#include "config/field_texts.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void field_texts_release(struct field_texts *texts)
{
    for (size_t i = 0; i < texts->count; i++) {
        free(texts->items[i]);
    }
    free(texts->items);
    *texts = (struct field_texts){0};
}

bool field_texts_is_list(const char *text)
{
    if (text[0] != '[') {
        return false;
    }
    const char *c = text + 1;
    for (bool quoted = false; *c != '\0' && (quoted || *c != ']'); c++) {
        quoted ^= *c == '"';
        c += quoted && *c == '\\' && c[1] != '\0';
    }
    return *c == '\0' ? strchr(text, '"') != NULL : c[1] == '\0';
}

static const char *skip_blanks(const char *p)
{
    return p + strspn(p, " \t\n");
}

/* Read the item at *@p, up to the comma or bracket behind it. */
static bool read_item(const char **p, struct buf *item)
{
    const char *c = *p;
    if (*c != '"') {
        size_t n = strcspn(c, ",]\"");
        *p = c + n;
        while (n > 0 && (c[n - 1] == ' ' || c[n - 1] == '\t' || c[n - 1] == '\n')) {
            n--;
        }
        buf_add(item, c, n);
        return n > 0 && **p != '"';
    }
    for (c++; *c != '"'; c++) {
        if (*c == '\0') {
            return false;
        }
        c += *c == '\\' && (c[1] == '"' || c[1] == '\\');
        buf_add_char(item, *c);
    }
    *p = skip_blanks(c + 1);
    return item->len > 0 && (**p == ',' || **p == ']');
}

static void append(struct field_texts *texts, size_t *capacity, char *item)
{
    texts->items = mem_grow(texts->items, capacity, texts->count + 1, sizeof *texts->items);
    texts->items[texts->count++] = item;
}

bool field_texts_read(const char *text, struct field_texts *out)
{
    struct field_texts made = {0};
    size_t capacity = 0;
    bool good = true;
    if (!field_texts_is_list(text)) {
        if (text[0] != '\0') {
            append(&made, &capacity, mem_strdup(text));
        }
        *out = made;
        return true;
    }
    const char *p = skip_blanks(text + 1);
    while (good && *p != ']') {
        struct buf item = {0};
        good = read_item(&p, &item) && made.count < FIELD_TEXTS_MAX;
        if (good) {
            append(&made, &capacity, buf_take(&item));
            bool more = *p == ',';
            p = skip_blanks(p + more);
            good = !more || *p != ']';
        }
        buf_release(&item);
    }
    if (!good || made.count == 0 || p[1] != '\0') {
        field_texts_release(&made);
        return false;
    }
    *out = made;
    return true;
}

bool field_texts_read_commas(const char *text, struct field_texts *out)
{
    struct field_texts made = {0};
    size_t capacity = 0;
    if (field_texts_is_list(text)) {
        return field_texts_read(text, out);
    }
    for (const char *p = skip_blanks(text); *p != '\0'; p = skip_blanks(p)) {
        const size_t all = strcspn(p, ",");
        size_t n = all;
        while (n > 0 && (p[n - 1] == ' ' || p[n - 1] == '\t' || p[n - 1] == '\n')) {
            n--;
        }
        if (made.count < FIELD_TEXTS_MAX) {
            append(&made, &capacity, mem_printf("%.*s", (int)n, p));
        }
        p += all + (p[all] == ',');
    }
    *out = made;
    return true;
}

void field_texts_add(struct buf *out, const char *item, bool first)
{
    size_t n = strlen(item);
    bool quote =
        n == 0 || item[0] == ' ' || item[n - 1] == ' ' || strpbrk(item, ",[]\"\n\t") != NULL;
    buf_add_str(out, first ? "" : ", ");
    if (!quote) {
        buf_add_str(out, item);
        return;
    }
    buf_add_char(out, '"');
    for (; *item != '\0'; item++) {
        if (*item == '"' || *item == '\\') {
            buf_add_char(out, '\\');
        }
        buf_add_char(out, *item);
    }
    buf_add_char(out, '"');
}
