"""Steps as the peer predicts them: PyPI llm-analysis 0.2.2, run with an interpreter of its own that has it installed.

    PEER/bin/python bench/peer_llm_analysis.py EFFICIENCY < setups.json > seconds.json

Reads a list of configurations (plain numbers), prints a list of seconds with null where the peer knows the GPU or the layout not.
EFFICIENCY is its one efficiency of peak FLOPs, `default` for its own. Its bandwidths of a node are kept.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import sys
from typing import Any

logging.disable(logging.CRITICAL)
GPUS = {"h100-sxm": "h100-sxm-80gb", "h100-sxm-96gb": "h100-sxm-80gb", "a100-sxm-80gb": "a100-sxm-80gb",
        "a100-sxm-40gb": "a100-sxm-40gb", "v100-sxm2-32gb": "v100-sxm-32gb"}  # fmt: skip


def step_s(setup: dict[str, Any], efficiency: float | None) -> float | None:
    """Seconds of one step; None where it cannot be asked."""
    from llm_analysis.analysis import ActivationRecomputation, DSZeRO, LLMAnalysis
    from llm_analysis.config import DtypeConfig, ModelConfig, ParallelismConfig, gpu_configs

    if setup["gpu"] not in GPUS:
        return None
    model = ModelConfig(
        name="row", num_layers=setup["layers"], n_head=setup["heads"], hidden_dim=setup["hidden"], vocab_size=setup["vocab"],
        max_seq_len=setup["seq"], num_key_value_heads=setup["kv_heads"], ffn_embed_dim=setup["ffn"],
    )  # fmt: skip
    data = setup["data"]
    parallel = ParallelismConfig(tp_size=setup["tp"], pp_size=setup["pp"], dp_size=data, sp_size=setup["tp"])
    zero = {"fsdp": DSZeRO.STAGE_3, "hsdp": DSZeRO.STAGE_3, "zero1": DSZeRO.STAGE_1}.get(setup["strategy"], DSZeRO.NONE)
    again = {"none": ActivationRecomputation.NONE, "selective": ActivationRecomputation.SELECTIVE,
             "full": ActivationRecomputation.FULL}[setup["ac"]]  # fmt: skip
    with contextlib.redirect_stdout(io.StringIO()):
        analysis = LLMAnalysis(model, gpu_configs[GPUS[setup["gpu"]]], DtypeConfig(), parallel, flops_efficiency=efficiency)
        found = analysis.training(
            batch_size_per_gpu=setup["mbs"], gradient_accumulation_steps=setup["ga"],
            global_batch_size=setup["mbs"] * setup["ga"] * data,
            seq_len=setup["seq"], activation_recomputation=again, ds_zero=zero, mlp_gated_linear_units=setup["gated"],
        )  # fmt: skip
    return float(found["latency_per_iter"])


def main() -> None:
    """Every setup of stdin."""
    efficiency = None if sys.argv[1] == "default" else float(sys.argv[1])
    answers = []
    for setup in json.load(sys.stdin):
        try:
            answers.append(step_s(setup, efficiency))
        except (AssertionError, ValueError, KeyError, ZeroDivisionError):
            answers.append(None)
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
