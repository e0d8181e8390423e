/* SPDX-License-Identifier: Apache-2.0 */
/* Texts become places by a LabelEncoder. */
#include "saved/saved_onnx_categories.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "json/json_write.h"

#define MIXTURES_MAX 34 /* of the words that read as missing */

/* For whoever fills the input: places in the list are the numbers. */
void saved_onnx_tell_categories(struct onnx_graph *g, const char *name, const struct names *known,
                                size_t first, size_t width)
{
    struct buf text = {0};
    json_t *list = json_array();
    for (size_t i = 0; i < width; i++) {
        const bool has = i >= first && i - first < known->count;
        json_append(list, has ? json_text(known->texts[i - first]) : json_null());
    }
    json_print(list, 9, false, &text);
    char *key = mem_printf("gradus.categories.%s", name);
    onnx_graph_describe(g, key, buf_str(&text));
    free(key);
    buf_release(&text);
}

void saved_onnx_tell_hash(struct onnx_graph *g, const char *name, const struct data_column *c)
{
    char *key = mem_printf("gradus.hash.%s", name);
    onnx_graph_describe(g, key, c->hash == COLUMN_HASH_FNV1A ? "fnv1a" : "xxh3");
    free(key);
}

struct places {
    const char **texts;
    int64_t *of;
    size_t count;
    char *mixtures[MIXTURES_MAX]; /* [mixture_count] owned */
    size_t mixture_count;
};

/* @word in every mixture of small and capital letters, as csv_is_missing() takes it. */
static void add_missing(struct places *p, const char *word, int64_t place)
{
    const size_t n = strlen(word);
    for (unsigned which = 0; which < 1U << n; which++) {
        char *text = mem_strdup(word);
        bool same = false; /* the same text as another mixture, because a character is no letter */
        for (size_t i = 0; i < n; i++) {
            const bool letter = text[i] >= 'a' && text[i] <= 'z';
            same = same || (!letter && (which >> i & 1) != 0);
            text[i] = (char)(letter && (which >> i & 1) != 0 ? text[i] - 'a' + 'A' : text[i]);
        }
        if (same) {
            free(text);
            continue;
        }
        p->mixtures[p->mixture_count++] = text;
        p->texts[p->count] = text;
        p->of[p->count++] = place;
    }
}

const char *saved_onnx_places(struct onnx_graph *g, const struct names *known, size_t first,
                              int64_t missing, int64_t unknown, const char *x)
{
    static const char *const words[] = {"", "na", "n/a", "nan", "null", "?"};
    const size_t most = known->count + MIXTURES_MAX;
    struct places p = {.texts = mem_new(most, sizeof *p.texts), .of = mem_new(most, sizeof *p.of)};
    for (size_t i = 0; i < known->count; i++, p.count++) {
        p.texts[i] = known->texts[i];
        p.of[i] = (int64_t)(first + i);
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0] && missing != unknown; i++) {
        add_missing(&p, words[i], missing);
    }
    const struct onnx_attr attrs[] = {ONNX_ATTR_TEXTS("keys_strings", p.texts, p.count),
                                      ONNX_ATTR_INTS("values_int64s", p.of, p.count),
                                      ONNX_ATTR_INT("default_int64", unknown)};
    x = onnx_graph_node(g, ONNX_ML "LabelEncoder", "/place", &x, 1, attrs, 3);
    for (size_t i = 0; i < p.mixture_count; i++) {
        free(p.mixtures[i]);
    }
    free(p.texts);
    free(p.of);
    return x;
}
