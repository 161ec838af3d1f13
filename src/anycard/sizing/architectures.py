"""Values of ``model_type`` whose layers follow a configuration that was compared with published sizes.

Others are taken for a decoder as most are, and that is said. Nothing is sized by this list: how it is done lies in the files that count.
"""

from __future__ import annotations

KNOWN = frozenset(
    (
        "llama", "mistral", "ministral", "mixtral", "mistral3", "pixtral", "codellama", "smollm3", "internlm2", "internlm3",
        "baichuan", "aquila", "yi", "xverse", "orion", "qwen", "qwen2", "qwen2_moe", "qwen2_vl", "qwen2_vl_text", "qwen2_5_vl",
        "qwen2_5_vl_text", "qwen3", "qwen3_moe", "qwen3_next", "qwen3_vl", "qwen3_vl_text", "qwen3_vl_moe", "qwen3_vl_moe_text",
        "qwen3_omni_moe_text", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text", "gemma", "gemma2", "gemma3",
        "gemma3_text", "gemma3n", "gemma3n_text", "gemma4", "gemma4_text", "recurrent_gemma", "phi", "phi3", "phi3_v", "phi4mm",
        "phi4_multimodal", "phimoe", "falcon", "RefinedWeb", "RefinedWebModel", "falcon_mamba", "falcon_h1", "mamba", "mamba2",
        "bamba", "zamba2", "jamba", "lfm2", "rwkv", "rwkv5", "rwkv6", "rwkv7", "nemotron", "nemotron_h", "granite", "granitemoe",
        "granitemoehybrid", "deepseek", "deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2", "kimi_linear", "chatglm", "glm",
        "glm4", "glm4v_text", "glm4_moe", "glm4v_moe_text", "glm4_moe_lite", "glm_moe_dsa", "minimax", "minimax_text_01",
        "minimax_m2", "llama4", "llama4_text", "mllama", "mllama_text_model", "dbrx", "arctic", "grok-1", "gpt_oss",
        "hunyuan_v1_moe", "hunyuan_v1_dense", "ernie4_5", "ernie4_5_moe", "bailing_moe", "bailing_moe_v2", "dots1", "seed_oss",
        "exaone", "exaone4", "olmo", "olmo2", "olmo3", "olmoe", "cohere", "cohere2", "stablelm", "starcoder2", "gpt2",
        "gpt_bigcode", "gpt_neo", "gpt_neox", "gptj", "codegen", "bloom", "mpt", "opt", "arcee", "t5", "mt5", "umt5", "bart",
        "marian", "whisper", "bert", "roberta", "xlm-roberta", "distilbert", "clip_text_model", "siglip_text_model",
    )
)  # fmt: skip
