"""What model servers print of their own memory and speed. The llama.cpp lines of 2026 are from a run in this project; the others are quoted
from the servers' public issue threads."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from anycard.sizing.inference import Server
from anycard.sizing.serverlog import read_server_log
from anycard.units import GIB, MIB

LLAMA_2026 = """\
0.00.778.032 I load_tensors: loading model tensors, this can take a while... (load_mode = mmap)
0.00.800.216 I load_tensors:   CPU_Mapped model buffer size =    92.10 MiB
0.00.807.601 I llama_context:        CPU  output buffer size =     0.19 MiB
0.00.807.689 I llama_kv_cache:        CPU KV buffer size =    90.00 MiB
0.00.936.259 I sched_reserve:        CPU compute buffer size =    18.64 MiB
0.02.214 I slot print_timing: id  0 | task 0 | prompt eval time = 128.77 ms /  6 tokens (21.46 ms per token, 46.60 tokens per second)
0.02.214 I slot print_timing: id  0 | task 0 |        eval time = 1090.71 ms / 48 tokens (23.21 ms per token, 43.09 tokens per second)
"""
# ggml-org/llama.cpp#9229: four cards; the middle ones are like the last
LLAMA_2024 = """\
llm_load_tensors:        CPU buffer size =   500.00 MiB
llm_load_tensors:      CUDA0 buffer size =  3088.25 MiB
llm_load_tensors:      CUDA3 buffer size =  3188.25 MiB
llama_kv_cache_init:      CUDA0 KV buffer size =   512.00 MiB
llama_kv_cache_init:      CUDA3 KV buffer size =   512.00 MiB
llama_new_context_with_model: KV self size  = 2048.00 MiB, K (f16): 1024.00 MiB, V (f16): 1024.00 MiB
llama_new_context_with_model:  CUDA_Host  output buffer size =     0.12 MiB
llama_new_context_with_model:      CUDA0 compute buffer size =   320.50 MiB
llama_new_context_with_model:      CUDA3 compute buffer size =   296.00 MiB
llama_new_context_with_model:  CUDA_Host compute buffer size =    16.01 MiB
"""
# ollama/ollama#12027 and #11090
OLLAMA = """\
time=2025-07-18T14:50:57.066Z level=INFO source=ggml.go:365 msg="model weights" buffer=CUDA0 size="11.5 GiB"
time=2025-07-18T14:50:58.130Z level=INFO source=ggml.go:672 msg="compute graph" backend=CUDA0 buffer_type=CUDA0 size="9.1 GiB"
time=2025-08-24T08:26:00.305Z level=INFO source=ggml.go:365 msg="model weights" device=CUDA0 size="4.0 GiB"
time=2025-08-24T08:26:00.305Z level=INFO source=ggml.go:365 msg="model weights" device=CPU size="350.0 MiB"
time=2025-08-24T08:26:00.310Z level=INFO source=backend.go:321 msg="kv cache" device=CUDA0 size="936.0 MiB"
time=2025-08-24T08:26:00.310Z level=INFO source=backend.go:332 msg="compute graph" device=CUDA0 size="98.0 MiB"
time=2025-08-24T08:26:00.310Z level=INFO source=backend.go:337 msg="compute graph" device=CPU size="8.0 MiB"
time=2025-08-24T08:26:00.310Z level=INFO source=backend.go:342 msg="total memory" size="5.4 GiB"
"""
# vllm-project/vllm#38820, gpustack/runner#251
VLLM = """\
(Worker_TP0 pid=34322) INFO 05-06 20:59:59 [gpu_model_runner.py:4879] Model loading took 12.66 GiB memory and 31.657031 seconds
(Worker_TP1 pid=34323) INFO 05-06 20:59:59 [gpu_model_runner.py:4879] Model loading took 12.70 GiB memory and 31.657031 seconds
(Worker_TP0 pid=34322) INFO 08-14 14:07:22 [gpu_worker.py:563] Available KV cache memory: 6.87 GiB
(Worker_TP0 pid=34322) INFO 05-06 21:01:16 [gpu_model_runner.py:1] Graph capturing finished in 5 secs, took 0.36 GiB
"""
# vllm-project/vllm-ascend#8289
VLLM_USAGE = (
    "(EngineCore pid=2884597) INFO 04-15 06:30:01 [worker.py:575] Free memory on device (60.86/61.27 GiB) on startup. Desired GPU memory "
    "utilization is (0.9, 55.14 GiB). Actual usage: 1.14 GiB for weights, 0.22 GiB for peak activation, 0.13 GiB for non-torch memory, "
    "0.04 GiB for NPU graph memory."
)


def test_llama_cpp_on_the_cpu() -> None:
    found = read_server_log(LLAMA_2026.splitlines())
    assert found is not None and found.server is Server.LLAMA_CPP
    assert found.on_host() == {
        "weights": round(92.10 * MIB),
        "kv_cache": 90 * MIB,
        "compute": round(18.64 * MIB) + round(0.19 * MIB),
    }
    assert found.on_cards() == {}
    assert (found.tokens_per_s, found.prompt_tokens_per_s) == (43.09, None)  # six tokens of prompt say nothing


def test_of_several_cards_the_fullest_counts() -> None:
    found = read_server_log(LLAMA_2024.splitlines())
    assert found is not None
    assert found.on_cards() == {"weights": round(3188.25 * MIB), "kv_cache": 512 * MIB, "compute": 296 * MIB}
    assert found.on_host()["weights"] == 500 * MIB


def test_a_draft_model_is_not_the_model() -> None:
    draft = "load_tensors: CUDA0 model buffer size = 90.00 MiB\nllama_context: CUDA0 compute buffer size = 1.00 MiB\n"
    found = read_server_log((LLAMA_2024 + draft).splitlines())
    assert found is not None and found.on_cards()["weights"] == round(3188.25 * MIB)


def test_the_last_of_ollamas_tries_counts() -> None:
    found = read_server_log(OLLAMA.splitlines())
    assert found is not None
    assert found.on_cards() == {"weights": 4 * GIB, "kv_cache": 936 * MIB, "compute": 98 * MIB}


def test_vllm_by_worker() -> None:
    found = read_server_log(VLLM.splitlines())
    assert found is not None and found.server is Server.VLLM
    assert found.on_cards() == {"weights": round(12.66 * GIB), "cuda_graphs": round(0.36 * GIB)}
    assert found.pool_bytes == round(6.87 * GIB)


def test_vllm_sums_its_usage_up() -> None:
    found = read_server_log([VLLM_USAGE])
    assert found is not None
    expected = {"weights": 1.14, "compute": 0.22, "cuda_graphs": 0.04}
    assert found.on_cards() == {part: round(size * GIB) for part, size in expected.items()}


def test_a_log_of_something_else_says_nothing() -> None:
    assert read_server_log([]) is None
    assert read_server_log(["epoch 1 loss 0.3", "eval time = 3 s", "buffer size = 3", "CPU buffer size: 4 MiB"]) is None
    assert read_server_log(["llama_context: CUDA0 compute buffer size = 1.00 MiB"]) is None  # no weights: not all of it


@given(st.text(max_size=300), st.lists(st.sampled_from((LLAMA_2026 + OLLAMA + VLLM).splitlines()), max_size=20))
def test_no_log_breaks_it(noise: str, lines: list[str]) -> None:
    found = read_server_log([noise, *lines, noise * 20])
    assert found is None or all(size >= 0 for parts in found.devices.values() for size in parts.values())
