/* SPDX-License-Identifier: Apache-2.0 */
/* The plan as a message and back. Of a partition only variable, shard and rows travel; elements
 * and offsets are computed again, and the whole plan is checked. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "wire/wire.h"

/* Borrows from @v. */
static void write_variable(struct variable_spec *v, Gradus__V1__Variable *to)
{
    gradus__v1__variable__init(to);
    to->name = v->name;
    to->dims = v->shape.dims;
    to->n_dims = v->shape.rank;
    to->init_kind = (uint32_t)v->init.kind;
    to->init_a = v->init.a;
    to->init_b = v->init.b;
    to->fan_in = v->init.fan_in;
    to->fan_out = v->init.fan_out;
    to->statistic = v->statistic;
    to->digest = v->digest;
}

void wire_plan_to_proto(const struct plan *plan, Gradus__V1__Plan *out)
{
    gradus__v1__plan__init(out);
    Gradus__V1__Variable *variables = mem_new(plan->variable_count, sizeof *variables);
    Gradus__V1__Partition *partitions = mem_new(plan->partition_count, sizeof *partitions);
    out->variables = mem_new(plan->variable_count, sizeof(Gradus__V1__Variable *));
    out->partitions = mem_new(plan->partition_count, sizeof(Gradus__V1__Partition *));
    out->n_variables = plan->variable_count;
    out->n_partitions = plan->partition_count;
    out->shard_count = plan->shard_count;
    for (size_t i = 0; i < plan->variable_count; i++) {
        out->variables[i] = &variables[i];
        write_variable(&plan->variables[i], &variables[i]);
    }
    for (size_t i = 0; i < plan->partition_count; i++) {
        const struct partition *p = &plan->partitions[i];
        Gradus__V1__Partition *to = out->partitions[i] = &partitions[i];
        gradus__v1__partition__init(to);
        to->variable = p->variable;
        to->shard = p->shard;
        to->row_first = p->row_first;
        to->row_count = p->row_count;
    }
}

void wire_plan_release(Gradus__V1__Plan *p)
{
    /* The messages of each list are one allocation that starts with the first. */
    if (p->n_variables > 0) {
        free(p->variables[0]);
    }
    if (p->n_partitions > 0) {
        free(p->partitions[0]);
    }
    free(p->variables);
    free(p->partitions);
    gradus__v1__plan__init(p);
}

static int read_variable(const Gradus__V1__Variable *in, struct variable_spec *out, struct err *err)
{
    char shown[64];
    size_t length = strnlen(in->name, sizeof out->name);
    if (length == sizeof out->name) {
        return err_set(err, ERR_INVALID, "the name %s has more than %zu bytes",
                       text_shown(in->name, shown, sizeof shown), sizeof out->name - 1);
    }
    if (in->n_dims > SHAPE_RANK_MAX) {
        return err_set(err, ERR_INVALID, "%zu dimensions; at most %d", in->n_dims, SHAPE_RANK_MAX);
    }
    if (in->init_kind > INIT_GIVEN) {
        return err_set(err, ERR_INVALID, "unknown initialiser %u", in->init_kind);
    }
    memcpy(out->name, in->name, length);
    out->shape.rank = in->n_dims;
    for (size_t i = 0; i < in->n_dims; i++) {
        out->shape.dims[i] = in->dims[i];
    }
    out->init = (struct init){(enum init_kind)in->init_kind, in->init_a, in->init_b, in->fan_in,
                              in->fan_out};
    out->statistic = in->statistic;
    out->digest = in->digest;
    return 0;
}

/* Elements and offsets as they follow from the rows; plan_from_parts() checks what matters, so an
 * unknown variable or an overflow only has to be harmless here. */
static void read_partitions(const Gradus__V1__Plan *in, const struct variable_spec *variables,
                            struct partition *out)
{
    uint64_t offset = 0;
    for (size_t i = 0; i < in->n_partitions; i++) {
        const Gradus__V1__Partition *p = in->partitions[i];
        uint64_t row =
            p->variable < in->n_variables ? plan_row_elements(&variables[p->variable].shape) : 0;
        offset = i > 0 && in->partitions[i - 1]->shard == p->shard ? offset : 0;
        out[i] = (struct partition){
            .variable = p->variable,
            .shard = p->shard,
            .row_first = p->row_first,
            .row_count = p->row_count,
            .first = p->row_first * row,
            .count = p->row_count * row,
            .offset = offset,
        };
        offset += out[i].count;
    }
}

int wire_plan_from_proto(const Gradus__V1__Plan *in, struct plan *out, struct err *err)
{
    if (in == NULL) {
        return err_set(err, ERR_INVALID, "plan: missing");
    }
    if (in->n_variables > PLAN_VARIABLES_MAX || in->n_partitions > PLAN_PARTITIONS_MAX) {
        return err_set(err, ERR_EXHAUSTED,
                       "plan: %zu variables in %zu partitions; at most %d and %d", in->n_variables,
                       in->n_partitions, PLAN_VARIABLES_MAX, PLAN_PARTITIONS_MAX);
    }
    struct variable_spec *variables = mem_new(in->n_variables, sizeof *variables);
    struct partition *partitions = mem_new(in->n_partitions, sizeof *partitions);
    int rc = 0;
    for (size_t i = 0; i < in->n_variables && rc == 0; i++) {
        rc = read_variable(in->variables[i], &variables[i], err);
        if (rc != 0) {
            rc = err_wrap(err, "plan: variable %zu", i);
        }
    }
    if (rc == 0) {
        read_partitions(in, variables, partitions);
        rc = plan_from_parts(variables, in->n_variables, partitions, in->n_partitions,
                             in->shard_count, out, err);
        if (rc != 0) {
            rc = err_wrap(err, "plan");
        }
    }
    free(variables);
    free(partitions);
    return rc;
}

/* ---- models of programs ---- */

void wire_program_to_proto(const struct given_variables *given, Gradus__V1__ProgramModel *out)
{
    gradus__v1__program_model__init(out);
    out->fingerprint = given->fingerprint;
    out->n_variables = given->count;
    if (given->count == 0) {
        return; /* mem_new() makes an object of nothing, too */
    }
    Gradus__V1__Variable *variables = mem_new(given->count, sizeof *variables);
    out->variables = mem_new(given->count, sizeof(Gradus__V1__Variable *));
    for (size_t i = 0; i < given->count; i++) {
        /* The message has no pointers to const; nobody writes through this one. */
        union {
            const struct variable_spec *in;
            struct variable_spec *out;
        } v = {.in = &given->variables[i]};
        out->variables[i] = &variables[i];
        write_variable(v.out, &variables[i]);
    }
}

void wire_program_release(Gradus__V1__ProgramModel *p)
{
    if (p->n_variables > 0) {
        free(p->variables[0]);
    }
    free(p->variables);
    gradus__v1__program_model__init(p);
}

int wire_program_from_proto(const Gradus__V1__ProgramModel *in, struct variable_spec **variables,
                            struct given_variables *out, struct err *err)
{
    if (in->n_variables > PLAN_VARIABLES_MAX) {
        return err_set(err, ERR_INVALID, "the program's model has %zu variables; at most %d",
                       in->n_variables, PLAN_VARIABLES_MAX);
    }
    struct variable_spec *read = mem_new(in->n_variables + 1, sizeof *read);
    for (size_t i = 0; i < in->n_variables; i++) {
        int rc = read_variable(in->variables[i], &read[i], err);
        if (rc == 0 && read[i].init.kind != INIT_GIVEN) {
            rc = err_set(err, ERR_INVALID, "its initial values are not given");
        }
        if (rc != 0) {
            free(read);
            return err_wrap(err, "the program's variable %zu", i);
        }
    }
    *variables = read;
    *out = (struct given_variables){read, in->n_variables, in->fingerprint};
    return 0;
}
