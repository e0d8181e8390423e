/* SPDX-License-Identifier: Apache-2.0 */
/* Where the elements of a shard lie in the job's flat arrays, and the types in which values travel.
 */
#include "wire/wire_values.h"
#include "ps_client/ps_client_state.h"

size_t ps_client_gather(const struct shard_link *link, uint64_t first, uint64_t count,
                        const float *values, struct rpc_piece *pieces)
{
    const struct ps_client *c = link->client;
    size_t n = 0;
    for (size_t i = 0; i < link->partition_count && count > 0; i++) {
        const struct partition *p = &link->partitions[i];
        if (first >= p->offset + p->count) {
            continue;
        }
        uint64_t skip = first - p->offset;
        uint64_t k = p->count - skip < count ? p->count - skip : count;
        pieces[n].data = values + c->variable_offsets[p->variable] + p->first + skip;
        pieces[n].bytes = k * sizeof(float);
        n++;
        first += k;
        count -= k;
    }
    return n;
}

bool ps_client_scatter(const struct shard_link *link, uint64_t first, uint64_t count,
                       struct rpc_spans *spans, enum value_type type, const float *block,
                       float *values)
{
    const struct ps_client *c = link->client;
    for (size_t i = 0; i < link->partition_count && count > 0; i++) {
        const struct partition *p = &link->partitions[i];
        if (first >= p->offset + p->count) {
            continue;
        }
        uint64_t skip = first - p->offset;
        uint64_t n = p->count - skip < count ? p->count - skip : count;
        float *to = values + c->variable_offsets[p->variable] + p->first + skip;
        if (block != NULL) {
            shared_memory_copy(link->elements, to, block + first, n);
        } else if (!wire_values_read(spans, type, to, n)) {
            return false;
        }
        first += n;
        count -= n;
    }
    return count == 0;
}

/* a replica is rounded when it is computed; sums of replicas have more bits */
enum value_type ps_client_push_type(const struct ps_client *c, const struct exchange_push *push)
{
    return push->replica_end > push->replica_first + 1 ? VALUE_FP32 : c->gradients;
}

/* Evaluations are of the exact parameters and rows. */
enum value_type ps_client_pull_type(const struct ps_client *c, const struct exchange_request *ask)
{
    const bool pinned_rows = ask->kind == EXCHANGE_ROWS && ask->rows.of == ROWS_OF_PIN;
    return ask->kind == EXCHANGE_PINNED || pinned_rows ? VALUE_FP32 : c->parameters;
}
