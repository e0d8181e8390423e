/* SPDX-License-Identifier: Apache-2.0 */
/* Writes floats with nine digits, which read back to the same bits. */
#include "cli/answer_text.h"

#include <math.h>
#include <string.h>

#include "base/text.h"
#include "json/json_write.h"

void answer_text_cell(const char *prefix, const char *text, struct buf *out)
{
    if (text[strcspn(text, ",\"\r\n")] == '\0') {
        if (prefix[0] != '\0') {
            buf_add_str(out, prefix);
        }
        buf_add_str(out, text);
        return;
    }
    buf_add_char(out, '"');
    buf_add_str(out, prefix);
    for (const char *p = text; *p != '\0'; p++) {
        buf_add_str(out, *p == '"' ? "\"" : "");
        buf_add_char(out, *p);
    }
    buf_add_char(out, '"');
}

void answer_text_begin(const struct saved_model *m, enum answer_format format, const char *id,
                       struct buf *out)
{
    if (format != ANSWER_CSV) {
        return;
    }
    if (id != NULL) {
        answer_text_cell("", id, out);
        buf_add_char(out, ',');
    }
    buf_add_str(out, saved_model_classes(m) > 0 ? "class" : "value");
    for (size_t i = 0; i < saved_model_classes(m); i++) {
        buf_add_char(out, ',');
        answer_text_cell("p_", saved_model_class_name(m, i), out);
    }
    buf_add_char(out, '\n');
}

static size_t largest(const float *p, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++) {
        best = p[i] > p[best] ? i : best;
    }
    return best;
}

static void add_number(float value, bool json, struct buf *out)
{
    if (json && !isfinite(value)) {
        buf_add_str(out, "null");
    } else {
        char text[TEXT_FLOAT_BYTES];
        buf_add_str(out, text_float(value, text));
    }
}

/* A cell behind another one. */
static void add_number_cell(float value, struct buf *out)
{
    char text[1 + TEXT_FLOAT_BYTES] = ",";
    buf_add(out, text, 1 + strlen(text_float(value, text + 1)));
}

static void add_csv(const struct saved_model *m, const float *answer, struct buf *out)
{
    const size_t classes = saved_model_classes(m);
    if (classes == 0) {
        add_number(answer[0], false, out);
    } else {
        answer_text_cell("", saved_model_class_name(m, largest(answer, classes)), out);
    }
    for (size_t i = 0; i < classes; i++) {
        add_number_cell(answer[i], out);
    }
    buf_add_char(out, '\n');
}

static void add_json(const struct saved_model *m, const float *answer, struct buf *out)
{
    const size_t classes = saved_model_classes(m);
    if (classes == 0) {
        buf_add_str(out, "\"value\": ");
        add_number(answer[0], true, out);
        buf_add_str(out, "}\n");
        return;
    }
    buf_add_str(out, "\"class\": ");
    json_add_text(out, saved_model_class_name(m, largest(answer, classes)));
    buf_add_str(out, ", \"probabilities\": {");
    for (size_t i = 0; i < classes; i++) {
        buf_add_str(out, i == 0 ? "" : ", ");
        json_add_text(out, saved_model_class_name(m, i));
        buf_add_str(out, ": ");
        add_number(answer[i], true, out);
    }
    buf_add_str(out, "}}\n");
}

/* Writes the id of the record that the answer is for. */
static void add_id(enum answer_format format, const char *id, const char *text, struct buf *out)
{
    if (format == ANSWER_CSV) {
        answer_text_cell("", text, out);
        buf_add_char(out, ',');
        return;
    }
    json_add_text(out, id);
    buf_add_str(out, ": ");
    json_add_text(out, text);
    buf_add_str(out, ", ");
}

void answer_text_add(const struct saved_model *m, enum answer_format format, const float *answers,
                     const char *id, const char *ids, size_t count, struct buf *out)
{
    for (size_t i = 0; i < count; i++) {
        const float *answer = answers + i * saved_model_width(m);
        if (format == ANSWER_JSON) {
            buf_add_char(out, '{');
        }
        if (ids != NULL) {
            add_id(format, id, ids, out);
            ids += strlen(ids) + 1;
        }
        if (format == ANSWER_CSV) {
            add_csv(m, answer, out);
        } else {
            add_json(m, answer, out);
        }
    }
}
