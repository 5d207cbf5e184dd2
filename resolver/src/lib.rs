//! Every rule of vLLM's KV cache, pure.
