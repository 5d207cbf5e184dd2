/* Allocates a KV cache by kvx's plan, and holds every page against every other.
 *
 *     cc -I crates/native/include crates/native/examples/allocate.c libkv_native.a -lpthread -ldl -lm -o allocate
 *     ./allocate CASE        a case: one line of JSON, as `kvx resolve` takes it, with `available_memory`
 *
 * Prints the plan as `kvx native --plan` does. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kvx.h"

static int failed(const char *what) {
  fprintf(stderr, "allocate: %s\n", what);
  return 1;
}

/* Marks one block's pages of a group in the pool: no byte is two layers'. */
static int mark(const KvxPlan *plan, unsigned char *pool, uint64_t group, uint64_t block) {
  KvxPool of = kvx_plan_pool(plan);
  for (uint64_t i = 0; i < of.num_layers; i++) {
    KvxLayer layer;
    if (kvx_plan_layer(plan, i, &layer) != KVX_STATUS_OK) return failed("a layer is missing");
    if (layer.group != group) continue;
    uint64_t start = layer.offset + block * layer.block_stride;
    if (start + layer.page_bytes > of.allocated_bytes) return failed("a page is outside the allocation");
    for (uint64_t byte = start; byte < start + layer.page_bytes; byte++) {
      if (pool[byte] != 0) return failed("two layers share a byte");
      pool[byte] = 1;
    }
  }
  return 0;
}

/* Every field of a kind of layer is inside its page. */
static int check_fields(const KvxPlan *plan, const KvxLayer *layer) {
  uint64_t cells = 0;
  for (uint64_t i = 0; i < layer->num_fields; i++) {
    KvxField field;
    if (kvx_plan_field(plan, layer->kind, i, &field) != KVX_STATUS_OK) return failed("a field is missing");
    if (field.offset + (field.count - 1) * field.stride + field.bytes > layer->kernel_block_bytes) {
      return failed("a field is outside its page");
    }
    if (strlen(field.name) == 0 || strlen(field.dtype) == 0) return failed("a field without a name");
    cells += field.count * field.bytes;
  }
  if (layer->num_fields > 0 && cells * layer->kernel_blocks > layer->page_bytes) {
    return failed("fields are more than their page");
  }
  return 0;
}

int main(int count, char **arguments) {
  if (count != 2) return failed("one case is wanted");
  KvxPlan *plan = NULL;
  char *message = NULL;
  KvxStatus status = kvx_resolve(arguments[1], &plan, &message);
  if (status != KVX_STATUS_OK) {
    fprintf(stderr, "allocate: status %d: %s\n", (int)status, message);
    kvx_string_free(message);
    return 2;
  }
  KvxPool of = kvx_plan_pool(plan);
  unsigned char *pool = calloc(of.allocated_bytes, 1);
  if (pool == NULL) return failed("out of memory");
  printf("allocation %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", of.allocated_bytes, of.num_blocks, of.bytes_per_block);
  for (uint64_t i = 0; i < of.num_layers; i++) {
    KvxLayer layer;
    if (kvx_plan_layer(plan, i, &layer) != KVX_STATUS_OK) return failed("a layer is missing");
    if (check_fields(plan, &layer) != 0) return 1;
    printf("%s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", layer.name, layer.group, layer.offset,
           layer.block_stride, layer.page_bytes);
  }
  /* a block belongs to one group at a time: each group gets some of its own, the last one among them */
  for (uint64_t block = 0; block < of.num_blocks; block++) {
    if (mark(plan, pool, block % of.num_groups, block) != 0) return 1;
  }
  KvxLayer none;
  if (kvx_plan_layer(plan, of.num_layers, &none) != KVX_STATUS_OUT_OF_RANGE) return failed("a layer too many");
  KvxGroup group;
  if (kvx_plan_group(plan, 0, &group) != KVX_STATUS_OK || group.tokens_per_block == 0) return failed("no group");
  free(pool);
  kvx_plan_free(plan);
  return 0;
}
