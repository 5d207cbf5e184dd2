/* The KV cache's plan, for C and C++: what vLLM would do with it, and where every layer's pages lie.
 * Made by cbindgen of crates/native/src/ffi/; do not edit. examples/allocate.c allocates by it. */

#ifndef KVX_H
#define KVX_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

// How a call ended.
typedef enum KvxStatus {
  // vLLM would start: there is a plan.
  KVX_STATUS_OK = 0,
  // vLLM would refuse: the message is its error.
  KVX_STATUS_REFUSED = 1,
  // The case is malformed.
  KVX_STATUS_BAD_CASE = 2,
  // There is no rule for it.
  KVX_STATUS_UNMODELLED = 3,
  // vLLM would start, but by no plan of one allocation: the message says why.
  KVX_STATUS_NO_PLAN = 4,
  // A pointer is null.
  KVX_STATUS_NULL = 5,
  // There is no such layer, group or field.
  KVX_STATUS_OUT_OF_RANGE = 6,
} KvxStatus;

// When a group's blocks are given back before their request ends.
typedef enum KvxKeeps {
  // Every token keeps its block.
  KVX_KEEPS_ALL = 0,
  // The last `keeps_tokens` computed tokens keep theirs.
  KVX_KEEPS_LAST = 1,
  // Those of the current chunk of `keeps_tokens` keep theirs.
  KVX_KEEPS_CHUNK = 2,
} KvxKeeps;

// How the cells of a field are counted.
typedef enum KvxOrder {
  // A cell a stored state.
  KVX_ORDER_STATE = 0,
  // `head * states + state`
  KVX_ORDER_HEADS_OUTSIDE = 1,
  // `state * heads + head`
  KVX_ORDER_STATES_OUTSIDE = 2,
  // Something else: the only cell, or rows of a state of the whole request.
  KVX_ORDER_OTHER = 3,
} KvxOrder;

// A plan.
typedef struct KvxPlan KvxPlan;

// The one allocation.
typedef struct KvxPool {
  // Bytes to allocate.
  uint64_t allocated_bytes;
  // Blocks, the null block (0) among them.
  uint64_t num_blocks;
  // Bytes of one block.
  uint64_t bytes_per_block;
  // Layers with a cache.
  uint64_t num_layers;
  // Groups: layers that share a block table.
  uint64_t num_groups;
  // Kinds of layers.
  uint64_t num_kinds;
} KvxPool;

// A layer's pages: that of block `b` begins at `offset + b * block_stride`.
typedef struct KvxLayer {
  // Its name in the model; as long as the plan.
  const char *name;
  // Its group.
  uint64_t group;
  // Its kind.
  uint64_t kind;
  // Bytes from the start of the allocation to block 0's page.
  uint64_t offset;
  // Bytes from one block's page to the next.
  uint64_t block_stride;
  // Bytes of one page.
  uint64_t page_bytes;
  // Heads whose states a page holds.
  uint64_t heads;
  // Stored states of one head in a page.
  uint64_t states_per_block;
  // Tokens that one stored state covers; 0 for states of the whole request.
  uint64_t tokens_per_state;
  // Kernel blocks that a page is made of; 1 unless that matters.
  uint64_t kernel_blocks;
  // Bytes of one of them.
  uint64_t kernel_block_bytes;
  // Fields of a kernel block; none where their order is not modelled.
  uint64_t num_fields;
} KvxLayer;

// Layers that share a block table.
typedef struct KvxGroup {
  // Tokens in a block.
  uint64_t tokens_per_block;
  // What its requests keep.
  enum KvxKeeps keeps;
  // Tokens of that.
  uint64_t keeps_tokens;
} KvxGroup;

// Bytes of one meaning in each cell of a page: the cell of number `c` begins at `offset + c * stride`.
typedef struct KvxField {
  // Its name; as long as the plan.
  const char *name;
  // The type of an element, as torch names it; as long as the plan.
  const char *dtype;
  // Bytes from the start of the page's kernel block to the first cell's.
  uint64_t offset;
  // Bytes from one cell's to the next cell's.
  uint64_t stride;
  // Cells in a kernel block.
  uint64_t count;
  // Bytes in a cell.
  uint64_t bytes;
  // Elements in them.
  uint64_t elements;
  // How cells are counted.
  enum KvxOrder order;
} KvxField;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Answers a case (one line of JSON, as `kvx resolve` takes it) and plans the pool that it names as
// `available_memory`. `plan` is set on `KVX_STATUS_OK`, to be freed by `kvx_plan_free`; `message`, if it is not
// null, on anything else, to be freed by `kvx_string_free`.
//
// # Safety
// `case_line` ends in 0; `plan` may be written, and `message` too unless it is null.
enum KvxStatus kvx_resolve(const char *case_line,
                           struct KvxPlan **plan,
                           char **message);

// The whole answer to a case: the line that `kvx resolve` prints, to be freed by `kvx_string_free`; null of null.
//
// # Safety
// `case_line` ends in 0, or is null.
char *kvx_answer(const char *case_line);

// The allocation; all 0 of null.
//
// # Safety
// `plan` is of `kvx_resolve` and not freed, or null.
struct KvxPool kvx_plan_pool(const struct KvxPlan *plan);

// A layer, by its number.
//
// # Safety
// `plan` is of `kvx_resolve` and not freed, or null; `layer` may be written, or is null.
enum KvxStatus kvx_plan_layer(const struct KvxPlan *plan, uint64_t index, struct KvxLayer *layer);

// A group, by its number.
//
// # Safety
// `plan` is of `kvx_resolve` and not freed, or null; `group` may be written, or is null.
enum KvxStatus kvx_plan_group(const struct KvxPlan *plan, uint64_t index, struct KvxGroup *group);

// A field of the pages of a kind of layer, by their numbers.
//
// # Safety
// `plan` is of `kvx_resolve` and not freed, or null; `field` may be written, or is null.
enum KvxStatus kvx_plan_field(const struct KvxPlan *plan,
                              uint64_t kind,
                              uint64_t index,
                              struct KvxField *field);

// Frees a plan, and every text in it.
//
// # Safety
// `plan` is of `kvx_resolve` and not freed, or null.
void kvx_plan_free(struct KvxPlan *plan);

// Frees a text.
//
// # Safety
// `text` is of a function here and not freed, or null.
void kvx_string_free(char *text);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* KVX_H */
