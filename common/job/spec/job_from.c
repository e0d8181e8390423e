/* SPDX-License-Identifier: Apache-2.0 */
/* The section `from`: read, checked and written back. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "job/spec/job_internal.h"

static const char *const encodings[] = {"auto", "source", "measure", NULL};

#define FROM_AT(member) offsetof(struct from_spec, member)
const struct field job_from_fields[] = {
    {.path = "checkpoint",
     .type = FIELD_STRING,
     .offset = FROM_AT(checkpoint),
     .def = "",
     .help = "Values of a checkpoint: its directory, or that of all checkpoints of a job, below "
             "data.dir or s3://BUCKET/PREFIX; or the id of a job, in whose place `gradus run` and "
             "`gradus submit` put the directory of its result"},
    {.path = "safetensors",
     .type = FIELD_STRING,
     .offset = FROM_AT(safetensors),
     .def = "",
     .help = "Values of a safetensors file, as PyTorch's users write them: F32, F16 or BF16; below "
             "data.dir, or s3://BUCKET/KEY"},
    {.path = "onnx",
     .type = FIELD_STRING,
     .offset = FROM_AT(onnx),
     .def = "",
     .help = "Values of the initializers of an ONNX file: FLOAT, FLOAT16 or BFLOAT16; below "
             "data.dir, or s3://BUCKET/KEY"},
    {.path = "best",
     .type = FIELD_BOOL,
     .offset = FROM_AT(best),
     .def = "false",
     .help = "With checkpoint: the best version that it keeps (training.checkpoints_keep.best)"},
    {.path = "strict",
     .type = FIELD_BOOL,
     .offset = FROM_AT(strict),
     .def = "true",
     .help = "true: every variable of the job has to be in the source, with its shape, and every "
             "tensor of floats there has to be a variable; false: what fits is taken, and `gradus "
             "status` says what was not"},
    {.path = "encoding",
     .type = FIELD_ENUM,
     .offset = FROM_AT(encoding),
     .def = "auto",
     .choices = encodings,
     .help = "Means, deviations, categories and classes, by which records become what the model "
             "reads: source takes those of the checkpoint, so that its variables mean here what "
             "they meant there; measure measures the train records; auto is source with a "
             "checkpoint that has them, else measure"},
    {.path = "slots",
     .type = FIELD_BOOL,
     .offset = FROM_AT(slots),
     .def = "false",
     .help =
         "With checkpoint: the update rule's slots go on, too, of variables and rows of tables, "
         "and so does the count of updates by which the rule and schedules go; the rule has to "
         "be the same; false: they begin as those of a new job"},
};
const size_t job_from_field_count = sizeof job_from_fields / sizeof job_from_fields[0];

#define MAP_AT(member) offsetof(struct from_map, member)
const struct field job_from_map_fields[] = {
    {.path = "from",
     .type = FIELD_STRING,
     .offset = MAP_AT(from),
     .help = "Pattern of names in the source; * is any text, the shortest that fits"},
    {.path = "to",
     .type = FIELD_STRING,
     .offset = MAP_AT(to),
     .help = "What a name that matches is called in the job, with as many *, each of which is the "
             "text of the * of the same number; empty: it is left out"},
};
const size_t job_from_map_field_count = sizeof job_from_map_fields / sizeof job_from_map_fields[0];

static size_t stars(const char *pattern)
{
    size_t count = 0;
    for (; *pattern != '\0'; pattern++) {
        count += *pattern == '*';
    }
    return count;
}

static void check_map(const struct job_reader *r, const struct yaml_node *node, const char *where,
                      const struct from_map *map)
{
    const size_t from = stars(map->from), to = stars(map->to);
    if (map->from[0] == '\0') {
        yaml_diag(r->diags, r->file, node, "%s.from: it is empty; allowed: a name or a pattern",
                  where);
    } else if (strlen(map->from) > FROM_PATTERN_BYTES_MAX ||
               strlen(map->to) > FROM_PATTERN_BYTES_MAX) {
        yaml_diag(r->diags, r->file, node, "%s: a pattern has more than %d bytes", where,
                  FROM_PATTERN_BYTES_MAX);
    } else if (from > FROM_STARS_MAX) {
        yaml_diag(r->diags, r->file, node, "%s.from: %zu times *; allowed: up to %d", where, from,
                  FROM_STARS_MAX);
    } else if (map->to[0] != '\0' && from != to) {
        yaml_diag(r->diags, r->file, node,
                  "%s.to: %zu times *, and %zu times in `from`; allowed: as often as there, or an "
                  "empty text for what is left out",
                  where, to, from);
    }
}

static void read_map(struct job_reader *r, const struct yaml_node *node, size_t number)
{
    struct from_spec *from = &r->spec->from;
    struct from_map *map = &from->map[from->map_count++];
    char *where = mem_printf("from.map.%zu", number);
    bool seen[sizeof job_from_map_fields / sizeof job_from_map_fields[0]] = {false};
    const size_t before = r->diags->count;
    const struct binding b = {.fields = job_from_map_fields,
                              .count = job_from_map_field_count,
                              .object = map,
                              .seen = seen,
                              .where = where,
                              .file = r->file,
                              .diags = r->diags};
    field_defaults(job_from_map_fields, job_from_map_field_count, map);
    binding_read(&b, node);
    if (node->kind == YAML_MAPPING) {
        binding_require(&b, node);
    }
    if (r->diags->count == before) {
        check_map(r, node, where, map);
    }
    free(where);
}

static const struct yaml_node *from_node(const struct job_reader *r)
{
    const struct yaml_entry *section = yaml_find(r->root, "from");
    return section == NULL || yaml_is_null(section->value) ? NULL : section->value;
}

void job_from_read(struct job_reader *r)
{
    const struct yaml_node *section = from_node(r);
    const struct yaml_entry *entry =
        section == NULL || section->kind != YAML_MAPPING ? NULL : yaml_find(section, "map");
    if (entry == NULL || yaml_is_null(entry->value)) {
        return;
    }
    const struct yaml_node *list = entry->value;
    if (list->kind != YAML_SEQUENCE || list->count > FROM_MAP_MAX) {
        yaml_diag(r->diags, r->file, list,
                  "from.map: this is not a list of patterns; allowed: a list of up to %d sections "
                  "with the keys from and to",
                  FROM_MAP_MAX);
        return;
    }
    r->spec->from.map = mem_new(list->count + 1, sizeof *r->spec->from.map);
    for (size_t i = 0; i < list->count; i++) {
        read_map(r, list->items[i].value, i);
    }
}

static bool is_given(const char *path)
{
    return path != NULL && path[0] != '\0';
}

bool job_spec_has_from(const struct job_spec *spec)
{
    const struct from_spec *f = &spec->from;
    return is_given(f->checkpoint) || is_given(f->safetensors) || is_given(f->onnx);
}

bool job_spec_takes_encoding(const struct job_spec *spec)
{
    return is_given(spec->from.checkpoint) && spec->from.encoding != FROM_ENCODING_MEASURE &&
           job_spec_has_data(spec);
}

void job_from_check(const struct job_reader *r)
{
    const struct from_spec *f = &r->spec->from;
    const struct yaml_node *node = from_node(r);
    const int sources = is_given(f->checkpoint) + is_given(f->safetensors) + is_given(f->onnx);
    if (node == NULL || node->kind != YAML_MAPPING || !r->sound[JOB_SECTION_FROM]) {
        return;
    }
    if (sources > 1 || (sources == 0 && node->count > 0)) {
        job_report(r, "from", "from: %s; allowed: one of checkpoint, safetensors and onnx",
                   sources == 0 ? "nothing says where the values are" : "more than one source");
    }
    if (f->best && !is_given(f->checkpoint)) {
        job_report(r, "from.best",
                   "from.best: only checkpoints keep a best version; allowed: with "
                   "from.checkpoint");
    }
    if (f->encoding == FROM_ENCODING_SOURCE && sources == 1 && !job_spec_takes_encoding(r->spec)) {
        job_report(r, "from.encoding", "from.encoding: source needs %s; allowed: measure",
                   is_given(f->checkpoint) ? "records that are read by the section data"
                                           : "a checkpoint, where it lies beside the variables");
    }
    if (f->slots && sources == 1 && !is_given(f->checkpoint)) {
        job_report(r, "from.slots",
                   "from.slots: only checkpoints have the slots of an update rule; allowed: false");
    }
    if (r->spec->model.table_count > 0 && f->strict && sources == 1 && !is_given(f->checkpoint)) {
        job_report(r, "from.strict",
                   "from.strict: rows of tables are taken from checkpoints alone, and this model "
                   "has tables; allowed: from.checkpoint, or 'strict: false', with which they "
                   "begin as those of a new job");
    }
}

void job_from_release(struct from_spec *from)
{
    for (size_t i = 0; i < from->map_count; i++) {
        field_release(job_from_map_fields, job_from_map_field_count, &from->map[i]);
    }
    free(from->map);
    from->map = NULL;
    from->map_count = 0;
}

struct yaml_node *job_from_node(const struct from_spec *from)
{
    struct yaml_node *section = yaml_mapping(), *list = yaml_sequence();
    binding_write(job_from_fields, job_from_field_count, from, section);
    for (size_t i = 0; i < from->map_count; i++) {
        struct yaml_node *map = yaml_mapping();
        binding_write(job_from_map_fields, job_from_map_field_count, &from->map[i], map);
        yaml_append(list, map);
    }
    if (from->map_count > 0) {
        (void)yaml_put(section, "map", list);
    } else {
        yaml_node_free(list);
    }
    return section;
}
