"""Turns what measure.py wrote into records: a memest spec beside what was measured.

  python to_records.py raw.jsonl > records.jsonl

A raw measurement that has no meaning as a record
(it failed for another reason than memory) is left out, with a line on standard error.
"""
import contextlib
import json
import re
import sys

PHASES = {"forward": "forward_peak", "backward": "backward_peak", "optimizer": "optimizer_peak"}
OWN = {"nano-gpt": {"hidden": 768, "layers": 12, "heads": 12, "ffn": 3072, "vocab": 50304, "positions": 1024, "dropout": 0.0, "bias": False},
       "mlp": {"width": 4096, "layers": 8, "bias": True, "activation": "relu"}}  # the defaults of models.py
FOREACH = {"foreach": "foreach", "fused": "fused", "forloop": "for-loop"}


def model(case, config):
    own = case["model"].get("own")
    if own is None:
        return {"hf": config}
    c = {**OWN[own], **case["model"].get("config", {})}
    if own == "nano-gpt":
        return {"family": "decoder", "layers": c["layers"], "hidden_size": c["hidden"], "heads": c["heads"],
                "ffn_size": c["ffn"], "vocab_size": c["vocab"], "max_positions": c["positions"], "position": "learned",
                "norm": "layernorm", "activation": "gelu", "bias": c["bias"], "tied_embeddings": True,
                "dropout": c["dropout"]}
    layer = [{"linear": {"in": c["width"], "out": c["width"], "bias": c["bias"]}}]
    if c["activation"] != "none":
        layer.append({c["activation"].split("_")[0]: {"in_place": c["activation"].endswith("_inplace")}})
    return {"layers": [{"repeat": c["layers"], "block": layer}], "loss": "mean-square"}


def implementation(case):
    name = {"nano-gpt": "nanogpt", "mlp": "plain"}.get(case["model"].get("own"), "transformers")
    kind = {"flash_attention_2": "flash-2"}.get(case["attention"], case["attention"])
    if kind == "sdpa" and case["sdpa_backend"]:
        kind = "sdpa-" + case["sdpa_backend"]
    parts = {"name": name} if name == "plain" else {"name": name, "attention": kind}
    if case.get("compile"):
        parts["compile"] = "blocks" if case["compile"] == "blocks" else "whole"
    return parts


def training(case):
    t = {"seq_len": case["seq_len"], "micro_batch": case["micro_batch"],
         "gradient_accumulation": case["grad_accumulation"], "precision": case["precision"],
         "optimizer": {"name": case["optimizer"], "implementation": FOREACH[case["optimizer_impl"]],
                       **case.get("optimizer_args", {})},
         "recompute": {"none": "none", "full": "full"}.get(case["recompute"], {"full": {"reentrant": True}}),
         "implementation": implementation(case), "clip_gradients": case["clip_grad"],
         "zero_grad": "set-to-none" if case["set_to_none"] else "zeros", "steps": case["steps"],
         "hold_outputs": case["hold_outputs"], "use_cache": case["use_cache"]}
    if case.get("target_len"):
        t["target_len"] = case["target_len"]
    if case["lora"]:
        lora = {"rank": case["lora"]["r"], "targets": case["lora"]["targets"]}
        lora["dropout"] = case["lora"].get("dropout", 0.0)
        lora["dtype"] = "fp32" if case["lora"].get("autocast_adapter_dtype", True) else "model"
        t["adapter"] = {"lora": lora}
    if not case["loss"]:
        t["loss"] = "sum-of-logits"
    return t


def parallelism(parallel):
    kind, world = parallel["kind"], parallel.get("world", 1)
    if kind == "ddp":
        return {"data": world, "ddp": {"gradient_as_bucket_view": parallel.get("gradient_as_bucket_view", False)}}
    if kind == "fsdp2":
        return {"data": world, "zero": 3, "fsdp": {"version": 2, "units": "block",
                "reshard_after_forward": parallel.get("reshard_after_forward", True)}}
    if kind == "tp":
        return {"tensor": world}
    return {}


def setting(text):
    """One entry of PYTORCH_CUDA_ALLOC_CONF; a list in brackets stays text."""
    key, value = text.split(":", 1)
    for read in (int, float):
        with contextlib.suppress(ValueError):
            return key, read(value)
    return key, {"True": True, "False": False}.get(value, value)


def spec(case, raw):
    s = {"model": model(case, raw.get("config"))}
    if case["mode"] == "train":
        s["training"] = training(case)
    else:
        s["inference"] = {"prompt": case["seq_len"], "batch": case["micro_batch"], "precision": case["precision"],
                          "generate": 0, "implementation": implementation(case),
                          "use_cache": case["mode"] == "generate-prefill",
                          "logits": "last" if case["mode"] == "generate-prefill" else "all"}
    p = parallelism(case["parallel"])
    if p:
        s["parallelism"] = p
    if case["alloc_conf"]:
        s["allocator"] = dict(setting(x) for x in re.split(r",(?![^\[]*\])", case["alloc_conf"]))
    world = case["parallel"].get("world", 1)
    s["hardware"] = {"gpu": {"A100": "a100-sxm-80gb", "RTX4090": "rtx-4090", "H100": "h100-sxm-80gb"}.get(
        case["null_device"], "h200-sxm-141gb"), "count": world}
    if case["capacity"]:
        s["hardware"]["memory"] = f"{case['capacity']} B"
    return s


def measured(raw):
    m = {"outcome": raw["status"]}
    if "params" in raw:
        m.update(parameters=raw["params"]["total"], trainable_parameters=raw["params"]["trainable"],
                 buffer_bytes=raw["params"]["buffer_bytes"])
    if raw["status"] == "ok":
        m.update(allocated_peak_bytes=raw["memory"]["max_allocated"], reserved_peak_bytes=raw["memory"]["max_reserved"])
        m["phases"] = {"model": raw["after_model"]["end"]}
        for i, step in enumerate(raw["steps"], 1):
            for name, got in step.items():
                if name in PHASES:
                    m["phases"][f"step{i}.{PHASES[name]}"] = got["peak"]
                    m["phases"][f"step{i}.{name}_end"] = got["end"]
    if raw.get("saved"):
        m.update(saved_bytes=raw["saved"]["total"], saved_bytes_per_layer=raw["saved"].get("per_layer"))  # none if compiled
    # torch counts a DTensor's product at its global size, and no operator of flash-attn's.
    counted = raw["case"]["parallel"]["kind"] != "tp" and raw["case"]["attention"] != "flash_attention_2"
    if raw.get("flops") and counted:
        m.update(forward_flops=raw["flops"]["forward_total"], backward_flops=raw["flops"]["backward_total"])
    if raw.get("time"):
        m.update(step_seconds=raw["time"]["median_ms"] / 1e3, tokens_per_second_per_gpu=raw["time"]["tokens_per_s"])
    return m


def main():
    for path in sys.argv[1:]:
        with open(path) as f:
            for raw in map(json.loads, f):
                if raw["status"] not in ("ok", "oom"):
                    print(f"{raw['id']}: left out: {raw.get('message')}", file=sys.stderr)
                    continue
                environment = {k: raw[k] for k in ("torch", "transformers", "device_name", "null_gpu", "cudnn") if k in raw}
                print(json.dumps({"id": raw["id"], "source": "oracle", "spec": spec(raw["case"], raw),
                                  "measured": measured(raw), "environment": environment}))


if __name__ == "__main__":
    main()
