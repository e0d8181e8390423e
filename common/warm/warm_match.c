/* SPDX-License-Identifier: Apache-2.0 */
/* Gives each tensor its name in the job, looks the names up, and collects what does not fit. */
#include "warm/warm_match.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"
#include "warm/warm_names.h"

#define LIST_BYTES_MAX 260 /* of one kind of names; names that do not fit are counted */

/* Names of one kind, for a message. */
struct names {
    struct buf text;
    size_t count, left_out;
};

struct matching {
    const struct warm_tensor *tensors;
    const struct warm_wanted *wanted;
    const struct from_spec *from;
    size_t *sorted; /* [wanted->count] variables by name, then tables by name */
    /* [map_count] a tensor matches the pattern; one of these tensors is a variable */
    bool *used, *known;
    struct warm_match *out;
    /* missing: not there; differs: in shape; wrong: whatever is asked for */
    struct names missing, differs, left, wrong;
};

static void add(struct names *n, const char *text)
{
    n->count++;
    if (n->text.len + strlen(text) > LIST_BYTES_MAX && n->text.len > 0) {
        n->left_out++;
        return;
    }
    buf_printf(&n->text, "%s%s", n->text.len > 0 ? ", " : "", text);
}

static void add_of(struct names *n, bool table, const char *name)
{
    char *said = mem_printf("%s%s", table ? "table " : "", name);
    add(n, said);
    free(said);
}

static void put(const struct names *n, const char *what, struct buf *out)
{
    if (n->count == 0) {
        return;
    }
    buf_printf(out, "%s%s%s", out->len > 0 ? "; " : "", what, buf_str(&n->text));
    if (n->left_out > 0) {
        buf_printf(out, " and %zu more", n->left_out);
    }
}

struct shape warm_shape(const uint64_t *dims, size_t rank)
{
    struct shape out = {.rank = 1, .dims = {1}};
    if (rank >= 1 && rank <= SHAPE_RANK_MAX) {
        out.rank = rank;
        memcpy(out.dims, dims, rank * sizeof *dims);
        return out;
    }
    for (size_t i = 0; i < rank; i++) {
        out.dims[0] *= dims[i];
    }
    return out;
}

struct variable_spec *warm_wanted_new(const struct variable_spec *variables, size_t count,
                                      const struct model_spec *model)
{
    struct variable_spec *wanted = mem_new(count + model->table_count + 1, sizeof *wanted);
    if (count > 0) {
        memcpy(wanted, variables, count * sizeof *wanted);
    }
    for (size_t i = 0; i < model->table_count; i++) {
        const struct model_table *t = &model->tables[i];
        struct variable_spec *v = &wanted[count + i];
        v->shape = (struct shape){.rank = 1, .dims = {(uint64_t)t->dim}};
        text_copy(v->name, sizeof v->name, t->name);
    }
    return wanted;
}

/* ---- looking up ---- */

static int by_name(const void *a, const void *b, void *ctx)
{
    const struct variable_spec *variables = ctx;
    return strcmp(variables[*(const size_t *)a].name, variables[*(const size_t *)b].name);
}

static bool is_table(const struct matching *m, size_t variable)
{
    return variable >= m->wanted->count - m->wanted->tables;
}

static void sort(struct matching *m)
{
    const size_t count = m->wanted->count, tables = m->wanted->tables;
    m->sorted = mem_new(count + 1, sizeof *m->sorted);
    for (size_t i = 0; i < count; i++) {
        m->sorted[i] = i;
    }
    union { /* qsort_r has no pointer to const for its argument */
        const struct variable_spec *in;
        void *out;
    } ctx = {.in = m->wanted->variables};
    qsort_r(m->sorted, count - tables, sizeof *m->sorted, by_name, ctx.out);
    qsort_r(m->sorted + count - tables, tables, sizeof *m->sorted, by_name, ctx.out);
}

static size_t find(const struct matching *m, const char *name, bool table)
{
    const size_t variables = m->wanted->count - m->wanted->tables;
    size_t low = table ? variables : 0, high = table ? m->wanted->count : variables;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = strcmp(m->wanted->variables[m->sorted[middle]].name, name);
        if (order == 0) {
            return m->sorted[middle];
        }
        low = order < 0 ? middle + 1 : low;
        high = order < 0 ? high : middle;
    }
    return WARM_NONE;
}

/* ---- tensors ---- */

static void give(struct matching *m, size_t tensor, size_t variable)
{
    const struct warm_tensor *t = &m->tensors[tensor];
    const struct variable_spec *v = &m->wanted->variables[variable];
    char *said = NULL, here[64], there[64];
    if (m->out->tensors[variable] != WARM_NONE) {
        said = mem_printf("%s and %s are both %s", m->tensors[m->out->tensors[variable]].name,
                          t->name, v->name);
        add(&m->wrong, said);
    } else if (!t->readable) {
        said = mem_printf("%s is of type %s, and F32, F16 and BF16 are read", t->name, t->type);
        add(&m->wrong, said);
        m->out->tensors[variable] = tensor;
    } else {
        m->out->tensors[variable] = tensor;
        if (!shape_equal(&t->shape, &v->shape)) {
            said = mem_printf("%s%s %s, %s there", is_table(m, variable) ? "rows of table " : "",
                              v->name, shape_format(&v->shape, here, sizeof here),
                              shape_format(&t->shape, there, sizeof there));
            add(&m->differs, said);
        } else {
            m->out->taken++;
        }
    }
    free(said);
}

static void place(struct matching *m, size_t tensor)
{
    const struct warm_tensor *t = &m->tensors[tensor];
    struct buf name = {0};
    size_t map = 0;
    const bool wanted = warm_name(m->from->map, m->from->map_count, t->name, &name, &map);
    const size_t variable = wanted ? find(m, buf_str(&name), t->table) : WARM_NONE;
    if (map < m->from->map_count) {
        m->used[map] = true;
        m->known[map] = m->known[map] || !wanted || variable != WARM_NONE;
    }
    if (variable != WARM_NONE) {
        give(m, tensor, variable);
    } else if (wanted && !t->aside) {
        add_of(&m->left, t->table, t->name);
    }
    buf_release(&name);
}

static void check_map(struct matching *m)
{
    for (size_t i = 0; i < m->from->map_count; i++) {
        const struct from_map *map = &m->from->map[i];
        if (!m->used[i] || !m->known[i]) {
            char *said =
                m->used[i]
                    ? mem_printf("from.map.%zu: no variable of the job is called '%s'", i, map->to)
                    : mem_printf("from.map.%zu: no tensor there is called '%s'", i, map->from);
            add(&m->wrong, said);
            free(said);
        }
    }
}

/* Finds variables without a tensor of their shape, which begin as in any job. */
static void find_missing(struct matching *m)
{
    for (size_t i = 0; i < m->wanted->count; i++) {
        const struct variable_spec *v = &m->wanted->variables[i];
        size_t *t = &m->out->tensors[i];
        if (*t == WARM_NONE) {
            add_of(&m->missing, is_table(m, i), v->name);
        } else if (!shape_equal(&m->tensors[*t].shape, &v->shape)) {
            *t = WARM_NONE;
        }
    }
}

/* ---- what comes of it ---- */

static int judge(struct matching *m, struct err *err)
{
    struct buf said = {0};
    const bool strict = m->from->strict;
    put(&m->wrong, "", &said);
    if (strict) {
        put(&m->missing, "not there: ", &said);
        put(&m->differs, "of another shape: ", &said);
        put(&m->left, "left over there: ", &said);
    } else if (m->out->taken == 0 && said.len == 0) {
        buf_add_str(&said, "nothing there fits a variable of the job in name and shape");
        put(&m->differs, "of another shape: ", &said);
        put(&m->left, "there are ", &said);
    }
    const bool may_do = strict && m->wrong.count == 0;
    const int rc = said.len == 0 ? 0
                                 : err_set(err, ERR_INVALID, "%s%s", buf_str(&said),
                                           may_do ? " ('strict: false' takes what fits)" : "");
    buf_release(&said);
    return rc;
}

/* Says of @count variables from @first on how many have values. */
static void summarize_some(const struct matching *m, size_t first, size_t count, const char *what,
                           struct buf *out)
{
    size_t taken = 0;
    for (size_t i = first; i < first + count; i++) {
        taken += m->out->tensors[i] != WARM_NONE;
    }
    if (taken == count) {
        buf_printf(out, "all %zu %s", count, what);
    } else {
        buf_printf(out, "%zu of %zu %s", taken, count, what);
    }
}

static char *summarize(const struct matching *m)
{
    struct buf out = {0};
    const size_t tables = m->wanted->tables, variables = m->wanted->count - tables;
    summarize_some(m, 0, variables, "variables", &out);
    if (tables > 0) {
        buf_add_str(&out, " and ");
        summarize_some(m, variables, tables, "tables", &out);
    }
    put(&m->missing, "not there: ", &out);
    put(&m->differs, "of another shape: ", &out);
    put(&m->left, "left over there: ", &out);
    return buf_take(&out);
}

int warm_match(const struct warm_tensor *tensors, size_t count, const struct warm_wanted *wanted,
               const struct from_spec *from, struct warm_match *out, struct err *err)
{
    struct warm_match made = {.tensors = mem_new(wanted->count + 1, sizeof *made.tensors)};
    struct matching m = {.tensors = tensors,
                         .wanted = wanted,
                         .from = from,
                         .used = mem_new(from->map_count + 1, sizeof *m.used),
                         .known = mem_new(from->map_count + 1, sizeof *m.known),
                         .out = &made};
    for (size_t i = 0; i < wanted->count; i++) {
        made.tensors[i] = WARM_NONE;
    }
    sort(&m);
    for (size_t i = 0; i < count; i++) {
        place(&m, i);
    }
    check_map(&m);
    find_missing(&m);
    const int rc = judge(&m, err);
    made.summary = rc == 0 ? summarize(&m) : NULL;
    struct names *all[] = {&m.missing, &m.differs, &m.left, &m.wrong};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        buf_release(&all[i]->text);
    }
    free(m.sorted);
    free(m.used);
    free(m.known);
    if (rc == 0) {
        *out = made;
    } else {
        warm_match_release(&made);
    }
    return rc;
}

void warm_match_release(struct warm_match *m)
{
    free(m->tensors);
    free(m->summary);
    *m = (struct warm_match){0};
}
