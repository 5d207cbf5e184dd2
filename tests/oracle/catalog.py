#!/usr/bin/env python3
"""catalog.py [MODELS_DIR]: from real config.json files to the catalog.

Writes resolver/src/catalog/models/ (of each file, the fields that the rules read) and the table in
resolver/src/catalog/models.rs. A Rust test asserts that the reduced files give the same facts as the real ones
in tests/models/ (Hugging Face ids with "/" written "--").
"""
import json
import pathlib
import re
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests/models"
TARGET = ROOT / "resolver/src/catalog/models"

FIELDS = """
architectures model_type text_config dtype torch_dtype num_hidden_layers num_attention_heads num_key_value_heads
head_dim hidden_size max_position_embeddings n_positions max_seq_len seq_length model_max_length
max_target_positions max_sequence_length max_seq_length seq_len rope_theta rope_scaling rope_parameters
quantization_config attn_logit_softcapping use_bidirectional_attention is_causal moe_intermediate_size expert_dtype
vision_n_layers compress_ratios compress_rates compress_rate_csa compress_rate_hca layer_types sliding_window
index_head_dim index_topk index_topk_freq index_skip_topk_offset index_topk_pattern
qk_nope_head_dim qk_rope_head_dim v_head_dim kv_lora_rank use_sliding_window
global_head_dim attention_k_eq_v num_global_key_value_heads num_kv_shared_layers
hybrid_layer_pattern add_full_attention_sink_bias add_swa_attention_sink_bias swa_num_key_value_heads swa_head_dim
swa_v_head_dim sliding_window_size attention_chunk_size no_rope_layer_interval no_rope_layers
full_attention_interval linear_num_key_heads linear_num_value_heads linear_key_head_dim linear_value_head_dim
linear_conv_kernel_dim mamba_ssm_dtype hybrid_override_pattern layers_block_type mamba_num_heads mamba_head_dim
n_groups ssm_state_size conv_kernel mamba_ssm_cache_dtype linear_attn_config
original_max_position_embeddings vocab_size intermediate_size first_k_dense_replace n_shared_experts vision_config
num_nextn_predict_layers mtp_num_hidden_layers mtp_hybrid_override_pattern mtp_layers_block_type n_mtp_layers
block_configs num_experts moe_num_experts n_routed_experts num_local_experts
attention_bias attn_output_gate decoder_sparse_step hc_mult hidden_size_per_layer_input index_n_heads
indexer_rope_interleave interleave_moe_layer_step intermediate_size_mlp latent_moe_use_norm mamba_proj_bias
mla_use_output_gate mlp_bias mlp_only_layers moe_latent_size moe_layer_freq
moe_shared_expert_intermediate_size num_experts_per_tok num_hash_layers num_shared_experts o_groups
o_lora_rank partial_rotary_factor q_lora_rank rotary_dim routed_expert_hidden_size
shared_expert_intermediate_size tie_word_embeddings topk_method use_bias use_conv_bias use_double_wide_mlp
use_routing_bias
""".split()
QUANTISATION = ["quant_method", "kv_cache_scheme", "kv_cache_quant_algo", "weight_block_size", "producer",
                "activation_scheme", "quant_algo", "moe_quant_algo", "format"]
INNER = ["quant_algo", "modelopt_quant_config", "kv_cache_scheme", "kv_cache_quant_algo"]
# of the lists of modules that are left unquantised, the rules look for these
UNQUANTISED = ["q_b_proj", "kv_b_proj", "o_proj", "down_proj", "experts", "self_attn", "mlp"]
VISION = """
attention_bias depth head_dim hidden_size image_size in_channels init_pos_emb_height init_pos_emb_time init_pos_emb_width
intermediate_size num_attention_heads num_heads num_hidden_layers num_position_embeddings out_hidden_size
max_position_embeddings patch_size position_embedding_size projector_input_dim projector_output_dim qkv_hidden_size spatial_merge_size
standardize temporal_patch_size use_clipped_linears vision_output_dim vt_hidden_size vt_intermediate_size
vt_num_attention_heads vt_num_hidden_layers deepstack_visual_indexes
""".split()
# null says something there: not what is absent
NULLS = ["attention_chunk_size", "sliding_window", "num_key_value_heads", "head_dim"]
SCHEME = ["type", "dynamic", "num_bits"]
ROPE = """rope_theta type rope_type factor original_max_position_embeddings partial_rotary_factor low_freq_factor
high_freq_factor beta_fast beta_slow mscale mscale_all_dim truncate mrope_section""".split()
# of a group of a compressed checkpoint
GROUP = ["num_bits", "group_size", "type"]
# of a block of Llama Nemotron
BLOCK = ["no_op", "replace_with_linear", "n_heads_in_group"]
LINEAR = ["kda_layers", "num_heads", "head_dim", "short_conv_kernel_size"]


def keep(mapping, names):
    return {name: mapping[name] for name in names if mapping.get(name) is not None}


def by_kind(name):
    """Of modules with a layer's number, the name with a star; the first layers keep theirs."""
    return re.sub(r"(?<=layers\.)(\d+)(?=\.[a-z])", "*", name)


def speaks(name):
    return name == "mtp*" or not re.search(r"vision|visual|mm_projector|mtp|gate$|router|embed", name)


def rope(value):
    if any(isinstance(inner, dict) for inner in value.values()):
        return {name: keep(inner, ROPE) for name, inner in value.items() if isinstance(inner, dict)}
    # in the file's order, by which vLLM tells tables apart
    return keep(value, [name for name in value if name in ROPE])


def reduce(config):
    small = keep(config, FIELDS)
    for name in NULLS:
        if name in config:
            small[name] = config[name]
    if isinstance(small.get("vision_config"), dict):
        small["vision_config"] = keep(small["vision_config"], VISION)
    if isinstance(small.get("text_config"), dict):
        small["text_config"] = reduce(small["text_config"])
    for name in ("rope_scaling", "rope_parameters"):
        if name in small:
            small[name] = rope(small[name])
    if "linear_attn_config" in small:
        small["linear_attn_config"] = keep(small["linear_attn_config"], LINEAR)
    if "block_configs" in small:
        small["block_configs"] = [
            {part: {k: v for k, v in keep(block[part], names).items() if v is not False}
             for part, names in (("attention", BLOCK), ("ffn", ["no_op", "ffn_mult"]))}
            for block in small["block_configs"]]
    if "quantization_config" in small:
        whole = small["quantization_config"]
        quantisation = keep(whole, QUANTISATION)
        if isinstance(quantisation.get("kv_cache_scheme"), dict):
            quantisation["kv_cache_scheme"] = keep(quantisation["kv_cache_scheme"], SCHEME)
        if isinstance(whole.get("quantization"), dict):
            quantisation["quantization"] = keep(whole["quantization"], INNER)
        if isinstance(whole.get("producer"), dict):
            quantisation["producer"] = keep(whole["producer"], ["name"])
        for name in ("modules_to_not_convert", "ignored_layers"):
            found = {module.rsplit(".", 1)[-1] for module in whole.get(name) or []} & set(UNQUANTISED)
            if found:
                quantisation[name] = sorted(found)
        if whole.get("ignore"):
            quantisation["ignore"] = sorted({by_kind(name) for name in whole["ignore"] if speaks(name)})
        if whole.get("quantized_layers"):
            layers = whole["quantized_layers"].items()
            quantisation["quantized_layers"] = {by_kind(name): keep(how, ["quant_algo"]) for name, how in layers}
        if whole.get("quant_method") == "compressed-tensors":
            quantisation["config_groups"] = {
                name: {"input_activations": group["input_activations"], "weights": keep(group["weights"], GROUP)}
                for name, group in whole["config_groups"].items()}
        small["quantization_config"] = quantisation
    return small


def main():
    shutil.rmtree(TARGET, ignore_errors=True)
    TARGET.mkdir(parents=True)
    rows = []
    files = (file for file in SOURCE.glob("*.json"))
    for file in sorted(files, key=lambda file: file.stem.lower()):
        config = json.loads(file.read_text())
        small = reduce(config)
        # ours, for a note: what a quantised checkpoint's config.json does not say is in hf_quant_config.json
        if re.search("-(FP8|NVFP4)$", file.stem) and "quantization_config" not in json.dumps(small):
            small["hf_quant_config"] = "beside config.json"
        (TARGET / file.name).write_text(json.dumps(small, separators=(",", ":")) + "\n")
        rows.append((file.stem.replace("--", "/", 1), file.name))
    table = [
        "//! Generated by tests/oracle/catalog.py from tests/models/; do not edit.",
        "",
        "use super::CatalogModel;",
        "",
        "/// Of real config.json files, as public packages of model configurations carry",
        "/// them, the fields that the rules read.",
        f"pub const MODELS: [CatalogModel; {len(rows)}] = [",
    ]
    for name, file in rows:
        table += [
            "    CatalogModel {",
            f'        id: "{name}",',
            f'        config_json: include_str!("models/{file}"),',
            "    },",
        ]
    table += ["];", ""]
    (ROOT / "resolver/src/catalog/models.rs").write_text("\n".join(table))
    print(len(rows), "models")


main()
