"""Memory as the peer predicts it: PyPI llm-analysis 0.2.2, run with an interpreter of its own that has it installed.

    PEER/bin/python bench/peer_llm_memory.py < setups.json > bytes.json

Reads a list of configurations (plain numbers), prints a list of bytes a GPU (weights, states, gradients, activations) with null
where the peer cannot be asked. Its ratio of FFN to hidden width is given where the width is no multiple, which it refuses.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import sys
from typing import Any

logging.disable(logging.CRITICAL)
KEY = "(weight+op_state+grad+act)_memory_per_gpu"


def memory(setup: dict[str, Any]) -> float | None:
    """Bytes of one GPU; None where it does not say."""
    from llm_analysis.analysis import ActivationRecomputation, DSZeRO, LLMAnalysis
    from llm_analysis.config import DtypeConfig, ModelConfig, ParallelismConfig, gpu_configs

    model = ModelConfig(
        name="row", num_layers=setup["layers"], n_head=setup["heads"], hidden_dim=setup["hidden"], vocab_size=setup["vocab"],
        max_seq_len=setup["seq"], num_key_value_heads=setup["kv_heads"], expansion_ratio=setup["ffn"] / setup["hidden"],
    )  # fmt: skip
    parallel = ParallelismConfig(tp_size=setup["tp"], pp_size=setup["pp"], dp_size=setup["data"], sp_size=setup["tp"])
    zero = {"fsdp": DSZeRO.STAGE_3, "hsdp": DSZeRO.STAGE_3, "zero1": DSZeRO.STAGE_1}.get(setup["strategy"], DSZeRO.NONE)
    again = {"none": ActivationRecomputation.NONE, "selective": ActivationRecomputation.SELECTIVE,
             "full": ActivationRecomputation.FULL}[setup["ac"]]  # fmt: skip
    with contextlib.redirect_stdout(io.StringIO()):
        analysis = LLMAnalysis(model, gpu_configs["h100-sxm-80gb"], DtypeConfig(), parallel, flops_efficiency=0.5)
        found = analysis.training(
            batch_size_per_gpu=setup["mbs"], gradient_accumulation_steps=setup["ga"],
            global_batch_size=setup["mbs"] * setup["ga"] * setup["data"], seq_len=setup["seq"], activation_recomputation=again,
            ds_zero=zero, mlp_gated_linear_units=setup["gated"],
        )  # fmt: skip
    return float(found[KEY])


def main() -> None:
    """Every setup of stdin."""
    answers = []
    for setup in json.load(sys.stdin):
        try:
            answers.append(memory(setup))
        except Exception:  # a peer may raise anything
            answers.append(None)
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
