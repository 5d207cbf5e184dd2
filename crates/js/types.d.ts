// Generated from the Rust types; `KV_WRITE_TYPES=1 cargo test --package kv-js --test types` writes it.
// Sizes are bytes, lengths are tokens, and every whole number is exact.

/** A question but for its GPU. */
export interface OpenCase {
  /** Comes back in the result. */
  id?: unknown;
  /** vLLM's version; without it the latest that has rules. */
  release?: Release | null;
  /** A model of the catalog, by its id; see `models`. */
  model?: string | null;
  /** A model's own config.json, instead. */
  hf_config?: object | null;
  /** The drafter's config.json, where it is not in the catalog. */
  draft_hf_config?: object | null;
  /** What the user passes, by names of `EngineArgs`. */
  args?: Args | null;
  /** `VLLM_` variables. */
  env?: Record<string, string | null> | null;
  /** The pool in bytes: what is left for the KV cache on one GPU. */
  available_memory?: number | null;
  /** What is free on one GPU before vLLM starts, in bytes. */
  free_memory?: number | null;
  /** Who starts vLLM: `vllm serve` or Python's `LLM`. */
  usage?: Usage | null;
  /** A GPU of the catalog by its key (see `gpus`), or any other; `matrix` does not look at it. */
  gpu?: GpuKey | (string & {}) | OwnGpu | null;
}

/** A question. */
export interface Case extends OpenCase {
  /** A GPU of the catalog by its key (see `gpus`), or any other. */
  gpu: GpuKey | (string & {}) | OwnGpu;
}

/** A GPU that the catalog has not. */
export interface OwnGpu {
  /** Compute capability: major and minor. */
  cc: [number, number];
  /** The driver's name: some of vLLM's defaults look at it. */
  name?: string | null;
  /** Its memory in GiB. */
  mem_gib?: number | null;
}

/** Flags by names of `EngineArgs`. One without a rule is answered as unmodelled. */
export interface Args {
  kv_cache_dtype?: CacheDtype | (string & {}) | null;
  tensor_parallel_size?: number | null;
  pipeline_parallel_size?: number | null;
  data_parallel_size?: number | null;
  enable_expert_parallel?: boolean | null;
  decode_context_parallel_size?: number | null;
  prefill_context_parallel_size?: number | null;
  cp_kv_cache_interleave_size?: number | null;
  dcp_kv_cache_interleave_size?: number | null;
  dcp_comm_backend?: string | null;
  max_model_len?: number | null;
  max_num_batched_tokens?: number | null;
  max_num_seqs?: number | null;
  block_size?: number | null;
  attention_backend?: string | null;
  enable_prefix_caching?: boolean | null;
  async_scheduling?: boolean | null;
  enforce_eager?: boolean | null;
  num_gpu_blocks_override?: number | null;
  disable_hybrid_kv_cache_manager?: boolean | null;
  gpu_memory_utilization?: number | null;
  kv_cache_memory_bytes?: number | null;
  dtype?: string | null;
  kv_cache_dtype_skip_layers?: string[] | null;
  mamba_block_size?: number | null;
  mamba_cache_dtype?: string | null;
  mamba_ssm_cache_dtype?: string | null;
  mamba_cache_mode?: string | null;
  disable_sliding_window?: boolean | null;
  trust_remote_code?: boolean | null;
  speculative_config?: object | null;
  [name: string]: unknown;
}

/** Keys of the catalog's GPUs; there are shorter ones as well. */
export type GpuKey =
  | "h100-sxm-80gb"
  | "h100-pcie-80gb"
  | "h100-nvl-94gb"
  | "h200-sxm-141gb"
  | "h200-nvl-141gb"
  | "h20-96gb"
  | "h20-141gb"
  | "h800-80gb"
  | "gh200-96gb"
  | "gh200-144gb"
  | "b200"
  | "gb200"
  | "b300"
  | "gb300-nvl"
  | "gb300-dgx-station"
  | "rtx-pro-6000-ws"
  | "rtx-pro-6000-server"
  | "rtx-pro-6000-maxq"
  | "rtx-pro-5000-48gb"
  | "rtx-pro-5000-72gb"
  | "rtx-pro-4500-32gb"
  | "rtx-pro-4500-server-32gb"
  | "rtx-pro-4000-24gb"
  | "rtx-5090"
  | "rtx-5080"
  | "rtx-5070-ti"
  | "rtx-5060-ti-16gb"
  | "gb10-dgx-spark";

/** Who starts vLLM. */
export type Usage =
  | "server"
  | "llm";

/** What vLLM would do; `ok` tells which of the two it is. */
export type Result = Resolved | Refused;

/** It starts, as far as vLLM decides before its first kernel. */
export interface Resolved {
  /** The case's own. */
  id: unknown;
  /** Always `true` here: by it the two kinds of results are told apart. */
  ok: true;
  /** In one word. */
  outcome: Outcome;
  /** The spelling that was asked. */
  requested_cache_dtype: CacheDtype;
  /** What vLLM writes back. */
  cache_dtype: CacheDtype;
  /** Attention backends of all layers, sorted by name. */
  backends: string[];
  /** `--block-size` as it ends up, in tokens. */
  block_size: number;
  /** What vLLM's metrics show as block size afterwards: the smallest group's. */
  reported_block_size: number;
  /** Order of the physical dimensions; not a concept before 0.29. */
  kv_cache_layout: KvCacheLayout | null;
  /** Tokens, after auto-fit. */
  max_model_len: number;
  /** Tokens in one step. */
  max_num_batched_tokens: number;
  /** Requests in one step. */
  max_num_seqs: number;
  /** Tokens of what is in flight that each window reserves. */
  reserved_in_flight_tokens: number;
  /** Steps in flight; not a concept before 0.23. */
  max_concurrent_batches: number | null;
  /** vLLM's name for the reserve; not a concept before 0.26. */
  max_in_flight_tokens: number | null;
  /** Fraction of the GPU that vLLM may fill. */
  gpu_memory_utilization: number;
  /** Bytes of one block: the widest group's pages. */
  bytes_per_block: number;
  /** Bytes of one more token, past every window's reach. */
  marginal_bytes_per_token: number;
  /** Bytes of every request whatever its length. */
  fixed_bytes_per_request: number;
  /** Bytes of one request at `max_model_len`. */
  request_bytes: number;
  /** Bytes of the slot of each kind of layer. */
  slot_bytes: SlotBytes[];
  /** The distinct layer specs, in order of first appearance. */
  layers: LayerRow[];
  /** The groups, in vLLM's order. */
  groups: GroupRow[];
  /** Every parameter and buffer of the model, in bytes. */
  parameter_bytes?: number;
  /** Their elements. */
  parameter_count?: number;
  /** The drafter's own, beside those that it shares with the model. */
  draft_parameter_bytes?: number;
  /**
   * What kernels make of them on load takes so much more, or less, the drafter's
   * among them.
   */
  repacked_bytes?: Interval;
  /** Why they are not counted. */
  parameters_uncounted?: string;
  /** Why the drafter's are not counted. */
  draft_parameters_uncounted?: string;
  /** The pool that this holds for, in bytes; `None` if none was given. */
  available_memory: number | null;
  /** Blocks in the pool, the null block among them. */
  num_blocks?: number;
  /** Bytes that vLLM allocates. */
  allocated_bytes?: number;
  /**
   * vLLM's `kv_cache_size_tokens`, which its metrics show; not a concept
   * before 0.24. From 0.24 to 0.26 it is not what the log line says.
   */
  capacity_tokens?: number | null;
  /** vLLM's `kv_cache_max_concurrency`, before 0.24 the printed figure. */
  max_concurrency?: number;
  /** Tokens in the log line. */
  printed_tokens?: number;
  /** Concurrency in the log line. */
  printed_concurrency?: string;
  /**
   * Requests that fit by the blocks they reserve, as vLLM prints such a
   * figure; through 0.26 less than it does print.
   */
  requests?: string;
  /** What auto-fit says before, if it was asked for. */
  auto_fit_line?: string;
  /** The log line itself; two lines through 0.27. */
  log_line?: string;
  /** The placements. */
  tensors?: TensorRow[];
  /**
   * The stages of a pipeline; none where there is only one. What is above is
   * then the first one's, which the scheduler sees, but for `layers` and
   * `backends`, which are all stages'.
   */
  stages?: StageRow[];
  /** The drafter's layers, which are among `layers`. */
  draft_layers?: DraftLayers[];
  /** What the answer does not say by itself. */
  notes: Note[];
  /** What vLLM logs while it starts, as far as it is predicted. */
  log: LogLine[];
  /** Why. */
  trace: TraceStep[];
}

/** What becomes of a case, in one word. */
export type Outcome =
  | "works"
  | "becomes"
  | "unverified"
  | "refused"
  | "does not fit"
  | "unmodelled";

/**
 * A `--kv-cache-dtype` spelling of any modelled release.
 * Mirrors `vllm/config/cache.py` `CacheDType`.
 */
export type CacheDtype =
  | "auto"
  | "float16"
  | "bfloat16"
  | "fp8"
  | "fp8_e4m3"
  | "fp8_e5m2"
  | "fp8_inc"
  | "fp8_ds_mla"
  | "nvfp4_ds_mla"
  | "turboquant_k8v4"
  | "turboquant_4bit_nc"
  | "turboquant_k3v4_nc"
  | "turboquant_3bit_nc"
  | "octave_k3v4"
  | "octave_k3v3"
  | "octave_k3v3_compact"
  | "ultraquant_4bit"
  | "int4_per_token_head"
  | "int8_per_token_head"
  | "fp8_per_token_head"
  | "nvfp4"
  | "nvfp4_4over6";

/**
 * A permutation of `[L, B, H, N, C]`, outermost first.
 * Mirrors `vllm/v1/kv_cache_layout.py` `KVCacheLayout`.
 */
export type KvCacheLayout =
  | "LBHNC"
  | "LBNHC"
  | "LHBNC"
  | "BLHNC"
  | "BLNHC"
  | "BHLNC";

/** One stored state's bytes. */
export interface SlotBytes {
  /** What is stored. */
  role: LayerRole;
  /** Bytes of one stored state. */
  bytes: number;
  /** Tokens that it covers; -1 for the whole request. */
  tokens_per_state: number;
}

/** What a layer of a model stores. */
export type LayerRole =
  | "attention"
  | "sliding_window"
  | "chunked_local"
  | "mla"
  | "linear_state"
  | "window"
  | "c4"
  | "c128"
  | "indexer"
  | "c4_state"
  | "c128_state"
  | "indexer_state";

/** One distinct layer spec and how many layers have it. */
export interface LayerRow {
  /** Layers with this spec. */
  count: number;
  /** The first such layer's name in the model. */
  first: string;
  /** Whether they are the drafter's, where the release tells them apart. */
  is_draft?: boolean;
  /** What these layers store. */
  role: LayerRole;
  /** vLLM's class. */
  kind: SpecKind;
  /** Tokens in a block. */
  block_size: number;
  /** Bytes of one page, padded. */
  page_size_bytes: number;
  /** Bytes of one page before padding. */
  unpadded_page_size_bytes: number;
  /** Tokens that one stored state covers; -1 for states of the whole request. */
  tokens_per_state: number;
  /** Stored states in one page. */
  states_per_page: number;
  /** Bytes of one stored state. */
  slot_bytes: number;
  /** vLLM's field: the slot's bytes where it is packed. */
  state_content_bytes: number | null;
  /** Elements of one row. */
  head_size: number;
  /** Elements of a V row; 0 where one vector serves for both. */
  head_size_v: number;
  /** KV heads on one rank. */
  num_kv_heads: number;
  /** Element type of the stored bytes. */
  dtype: TorchDtype;
  /** vLLM's quantisation mode. */
  kv_quant_mode: KvQuantMode;
  /** Window in tokens. */
  sliding_window: number | null;
  /** Chunk in tokens. */
  attention_chunk_size: number | null;
  /** Page alignment in bytes. */
  alignment: number | null;
}

/** vLLM's class of a spec. */
export type SpecKind =
  | "FullAttentionSpec"
  | "SlidingWindowSpec"
  | "ChunkedLocalAttentionSpec"
  | "MLAAttentionSpec"
  | "SlidingWindowMLASpec"
  | "MambaSpec"
  | "UniformTypeKVCacheSpecs";

/** The element type of a stored row, by torch's name. */
export type TorchDtype =
  | "uint8"
  | "int8"
  | "float16"
  | "bfloat16"
  | "float8_e4m3fn"
  | "float32";

/**
 * vLLM's quantisation mode of a cache, by its name there.
 * Mirrors `vllm/v1/kv_cache_interface.py` `KVQuantMode`.
 */
export type KvQuantMode =
  | "NONE"
  | "FP8_PER_TENSOR"
  | "INT8_PER_TOKEN_HEAD"
  | "FP8_PER_TOKEN_HEAD"
  | "INT4_PER_TOKEN_HEAD"
  | "NVFP4"
  | "TURBOQUANT_K8V4"
  | "TURBOQUANT_4BIT_NC"
  | "TURBOQUANT_K3V4_NC"
  | "TURBOQUANT_3BIT_NC"
  | "NVFP4_DS_MLA"
  | "ULTRAQUANT_4BIT"
  | "OCTAVE_K3V4"
  | "OCTAVE_K3V3"
  | "OCTAVE_K3V3_COMPACT";

/** Layers that share a block table. */
export interface GroupRow {
  /** vLLM's class of the group's spec. */
  kind: SpecKind;
  /** Tokens in a block. */
  block_size: number;
  /** Layers in the group. */
  layers: number;
  /** The first layer's name. */
  first: string;
  /** Bytes of the group's pages, side by side. */
  page_size_bytes: number;
  /** Blocks that vLLM reserves for one request of `max_model_len`. */
  blocks_per_request: number;
  /** Bytes of the block that the group's pages leave unused. */
  padding_bytes: number;
  /** `blocks_per_request` × `bytes_per_block`. */
  request_bytes: number;
  /** The group's share of the marginal bytes per token. */
  marginal_bytes_per_token: number;
  /** The group's share of the fixed bytes per request. */
  fixed_bytes_per_request: number;
  /** What it is made of, in the order of the pages. */
  members: GroupMember[];
}

/** Layers of one spec in a group. */
export interface GroupMember {
  /** Index into `layers`. */
  layer: number;
  /** What they store. */
  role: LayerRole;
  /** How many of them. */
  count: number;
  /** Bytes of one page. */
  page_size_bytes: number;
}

/**
 * Bytes between two ends, with the likeliest between them. Signed, for what is
 * left of a budget may be less than nothing.
 */
export interface Interval {
  /** At least. */
  low: number;
  /** Most likely. */
  likely: number;
  /** At most. */
  high: number;
}

/** A part of the memory that vLLM allocates, and the layers in it. */
export type TensorRow = TensorRun | SharedTensor;

/**
 * Where the pages of same-shaped layers lie: layer `l` (counted within the
 * row), block `b` starts at `offset + l × layer_stride + b × block_stride`.
 */
export interface TensorRun {
  /** Index into `groups`. */
  group: number;
  /** Index into `layers` of the result: the spec. */
  layer: number;
  /** Layers in the row. */
  layers: number;
  /** Their numbers in the model, in the order of the pages. */
  layer_indices: number[];
  /** What precedes the number in their names. */
  name_prefix: string;
  /** What follows it. */
  name_suffix: string;
  /** Names of the layers after these, where they are built otherwise: a drafter's. */
  other_names?: string[];
  /** Bytes from the start of the allocation to the first page. */
  offset: number;
  /** Bytes from one layer's page to the next layer's. */
  layer_stride: number;
  /** Bytes from one block to the next. */
  block_stride: number;
  /** Bytes of the whole allocation. */
  size: number;
}

/**
 * vLLM's `KVCacheTensor` through 0.28. With a `block_stride` above 0 it is a view
 * into one allocation of `size` bytes that all such rows share; otherwise it is
 * an allocation of its own, and a block is `size` / `num_blocks` bytes.
 */
export interface SharedTensor {
  /** Layers that take it in turn. */
  layers: number;
  /** The layers, at most one a group. */
  shared_by: SharedLayer[];
  /**
   * Bytes from the start of the allocation to the first page; not a concept
   * before 0.24.
   */
  offset?: number;
  /** Bytes from one block to the next; not a concept before 0.24. */
  block_stride?: number;
  /** Bytes. */
  size: number;
}

/** A layer that takes a shared slot. */
export interface SharedLayer {
  /** Index into `groups`. */
  group: number;
  /** Index into `layers` of the result: the spec. */
  layer: number;
  /** The layer's name in the model. */
  name: string;
}

/** One stage of a pipeline. */
export interface StageRow {
  /** Its first decoder layer. */
  start_layer: number;
  /** The decoder layer after its last. */
  end_layer: number;
  /** Layers with a cache. */
  layers: number;
  /** The first such layer's name. */
  first: string | null;
  /** Such layers by group. */
  groups: number[];
  /** Bytes of one block on its GPUs. */
  bytes_per_block: number;
  /** Bytes of one request at `max_model_len` there. */
  request_bytes: number;
  /** Whether its block is the widest, so that it has the fewest. */
  binds: boolean;
  /** Blocks that would fit there, before all stages take the fewest. */
  num_blocks?: number;
  /** Bytes that vLLM allocates there. */
  allocated_bytes?: number;
  /** The placements. */
  tensors: TensorRow[];
}

/** A drafter's layers of one spec. */
export interface DraftLayers {
  /** Layers with this spec. */
  count: number;
  /** The first such layer's name. */
  first: string;
  /** What they store. */
  role: LayerRole;
}

/** What the answer does not say by itself. */
export interface Note {
  /** A stable name, for links and tests. */
  code: string;
  /** The whole sentence. */
  text: string;
}

/** One line. */
export interface LogLine {
  /** How loud it is. */
  level: Level;
  /** Who prints it. */
  by: Process;
  /** Whether there is a copy for each GPU; otherwise there is one, of the first. */
  every_rank: boolean;
  /** Whether its figures follow from the size of the pool. */
  of_pool: boolean;
  /** What it says. */
  text: string;
}

/** How loud a line is. */
export type Level =
  | "info"
  | "warning";

/** Who prints a line. */
export type Process =
  | "api_server"
  | "engine_core"
  | "worker";

/** One decision. */
export interface TraceStep {
  /** Where in vLLM's start-up it falls. */
  stage: Stage;
  /** What was decided, and from what. */
  decided: string;
  /** The rule in vLLM that decides so. */
  rule: Rule;
}

/** Where in vLLM's start-up something happens. */
export type Stage =
  | "args"
  | "config"
  | "model"
  | "specs"
  | "plan"
  | "engine"
  | "unmodelled";

/** A place in vLLM's source at the release that was asked. */
export interface Rule {
  /** File, from the root of vLLM's package (`vllm/…`). */
  file: string;
  /** Function or method in it. */
  function: string;
}

/** It stops, or there is no rule for it. */
export interface Refused {
  /** The case's own. */
  id: unknown;
  /** Always `false` here. */
  ok: false;
  /** In one word. */
  outcome: Outcome;
  /** Where vLLM stops. */
  stage: Stage;
  /** Python's exception class, or `NotModelled` for ours. */
  error_type: string;
  /** vLLM's text, verbatim. */
  error: string;
  /** What to change instead, which has been tried. */
  advice: Advice[];
  /** What the error does not say by itself. */
  notes: Note[];
  /** What vLLM logs before it stops, as far as it is predicted. */
  log: LogLine[];
  /** Why. */
  trace: TraceStep[];
}

/** Something to change, which has been tried and works on this GPU. */
export interface Advice {
  /** The whole sentence. */
  text: string;
  /**
   * The flags to change and their new values, by `EngineArgs` name; an empty
   * value takes the flag away.
   */
  set: [string, string][];
}

/** Every GPU of the catalog × every cache dtype of the release. */
export interface Matrix {
  /** The release that was asked. */
  release: Release;
  /** The GPUs' keys. */
  gpus: string[];
  /** The cache dtypes as they are asked for. */
  dtypes: CacheDtype[];
  /** A cell for each GPU and each dtype: all of the first GPU's, then the next one's. */
  cells: MatrixCell[];
}

/** A release that is modelled, oldest first. */
export type Release =
  | "0.20.2"
  | "0.21.0"
  | "0.22.1"
  | "0.23.0"
  | "0.24.0"
  | "0.25.1"
  | "0.26.0"
  | "0.27.1"
  | "0.28.0"
  | "0.29.0"
  | "0.30.0"
  | "0.31.0"
  | "0.32.0"
  | "0.33.0";

/** What becomes of one dtype on one GPU. Names are those of a result. */
export type MatrixCell = StartingCell | StoppingCell;

/** A cell that starts. */
export interface StartingCell {
  /** The GPU's key. */
  gpu: string;
  /** The cache dtype that was asked for. */
  requested_cache_dtype: CacheDtype;
  /** Always `true` here: by it the two kinds of cells are told apart. */
  ok: true;
  /** In one word. */
  outcome: Outcome;
  /** What vLLM writes back. */
  cache_dtype: CacheDtype;
  /** Attention backends of all layers, sorted by name. */
  backends: string[];
  /** Order of the physical dimensions; not a concept before 0.29. */
  kv_cache_layout: KvCacheLayout | null;
  /** Bytes of one more token, past every window's reach. */
  marginal_bytes_per_token: number;
  /** Bytes of every request whatever its length. */
  fixed_bytes_per_request: number;
  /** Bytes of one request at `max_model_len`. */
  request_bytes: number;
  /** Tokens, after auto-fit. */
  max_model_len: number;
  /** Requests of `max_model_len` that fit, as vLLM prints such a figure; only where the pool is known. */
  requests?: string;
  /** Tokens in vLLM's log line; only where the pool is known. */
  printed_tokens?: number;
}

/** A cell that stops, or that has no rule. */
export interface StoppingCell {
  /** The GPU's key. */
  gpu: string;
  /** The cache dtype that was asked for. */
  requested_cache_dtype: CacheDtype;
  /** Always `false` here. */
  ok: false;
  /** In one word. */
  outcome: Outcome;
  /** Where vLLM stops. */
  stage: Stage;
  /** Python's exception class, or `NotModelled` for ours. */
  error_type: string;
  /** vLLM's text, verbatim. */
  error: string;
}

/** What changed between two releases, and what the GPUs are called that it counts. */
export interface Compared {
  /** The release that is compared with. */
  from: Release;
  /** The other one. */
  to: Release;
  /** How many cells there are. */
  cells: number;
  /**
   * How many of them have no rule in one of the releases or in both, so that
   * they cannot be compared.
   */
  unmodelled: number;
  /** The ways in which cells changed, by weight, then by how many cells. */
  changes: Change[];
  /** The GPUs' keys; a cell of a change begins with an index into them. */
  gpus: string[];
}

/** Cells of the matrix that changed in the same way. */
export interface Change {
  /** How much of a change it is. */
  weight: Weight;
  /** The outcome in the release that is compared with. */
  from: Outcome;
  /** The outcome in the other one. */
  to: Outcome;
  /** The cells: a GPU's index in the list that was asked, and a cache dtype. */
  cells: [number, CacheDtype][];
  /** What differs in the answers. */
  fields: FieldChange[];
  /** The decisions that differ, of the first cell. */
  why: StepChange[];
}

/** How much of a change it is, most first. */
export type Weight =
  | "outcome"
  | "bytes"
  | "words";

/**
 * A figure that differs. Texts are as people read them; `None` where the
 * answer has no such figure.
 */
export interface FieldChange {
  /** The figure's name in a result. */
  field: string;
  /** In the release that is compared with. */
  from: string | null;
  /** In the other one. */
  to: string | null;
}

/**
 * A decision that differs: what one release decides and the other does not, or
 * otherwise.
 */
export interface StepChange {
  /** In the release that is compared with. */
  from: TraceStep | null;
  /** In the other one. */
  to: TraceStep | null;
}

/** A model of the catalog. */
export interface ModelRow {
  /** Its Hugging Face id, by which a case names it. */
  id: string;
  /** Its architecture, by vLLM's name. */
  architecture: string;
}

/** A GPU of the catalog. */
export interface GpuRow {
  /** The key by which a case names it. */
  key: string;
  /** Shorter keys, which a case may use as well. */
  aliases: string[];
  /** The driver's name. */
  name: string;
  /** The name for people. */
  label: string;
  /** Its architecture. */
  arch: Arch | null;
  /** Its compute capability, major and minor. */
  cc: [number, number];
  /** NVML's total memory in MiB, as nvidia-smi prints it. */
  memory_mib: number;
  /** Whether that figure is inferred. */
  memory_is_inferred: boolean;
}

/** The architectures that are answered. */
export type Arch =
  | "SM90"
  | "SM100"
  | "SM120";

/** A release of vLLM that has rules. */
export interface ReleaseRow {
  /** Its version. */
  release: Release;
  /** Whether every modelled architecture has rules in it; otherwise DeepSeek V4 alone. */
  models_all_families: boolean;
  /** The spellings that its `--kv-cache-dtype` takes. */
  cache_dtypes: CacheDtype[];
}

/** A start of vLLM, as its user writes it. */
export interface ParsedCommand {
  /** What it asks, but for what it does not say: give it a `gpu` to resolve it. */
  case: ParsedCase;
  /** The version in the name of the image, as written there; its release is in `case` if it has rules. */
  version: string | null;
  /** GPUs that it is shown, where that is said. */
  visible_gpus: number | null;
  /** The flags, of the same flag the last. */
  flags: ParsedFlag[];
  /** What was not taken as it stands, in words. */
  problems: string[];
  /** The same start as one command for a POSIX shell, where one can be written. */
  command: string | null;
  /** Starts of vLLM in the text; this is the first. */
  starts: number;
}

/** A case but for what the text does not hold. */
export interface ParsedCase {
  /** The release, if the text names one that has rules. */
  release?: Release;
  /** The model, by the catalog's id if it is the catalog's. */
  model?: string;
  /** The GPU's key, if the text names one. */
  gpu?: string;
  /** The engine's flags. */
  args: Args;
  /** The `VLLM_` variables. */
  env: Record<string, string>;
  /** Who starts vLLM. */
  usage: Usage;
}

/** A flag that was passed. */
export interface ParsedFlag {
  /** The name that vLLM keeps it under. */
  name: string;
  /** As it was written: `-tp`, `--kv_cache_dtype`. */
  spelled: string;
  /** Its value. */
  value: unknown;
  /** What it does to the answer, in a few words. */
  standing: string;
}

/** What a log says of a start-up; of several the last. */
export interface ParsedLog {
  /** What was asked, as far as the log says it. */
  case: ParsedCase;
  /** vLLM's version, as printed; its release is in `case` if it has rules. */
  version: string | null;
  /** The flags, from the line of those that are not at their defaults, or else from the engine's own line. */
  flags: ParsedFlag[];
  /** They are the engine's: what came of the flags, not what was asked. */
  is_effective: boolean;
  /** The pool, which is printed rounded: from so many bytes to so many. */
  available_bytes: [number, number] | null;
  /** "GPU KV cache size" */
  tokens: number | null;
  /** The longest request, in tokens. */
  max_model_len: number | null;
  /** The error that it stopped with. */
  error: PrintedError | null;
  /** What was not taken as it stands, in words. */
  problems: string[];
  /** Start-ups in the text. */
  starts: number;
}

/** An error of vLLM's that is known, in a log. */
export interface PrintedError {
  /** Where vLLM stopped. */
  stage: Stage;
  /** Python's exception class. */
  error_type: string;
  /** The text by which it is known. */
  error: string;
  /** The line it stands in, from 1. */
  line: number;
}
