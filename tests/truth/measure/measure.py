"""Measures memory, FLOPs and (on a real GPU) time of training cases.

  python measure.py cases.jsonl -o raw.jsonl [--trace-dir traces] [--only ID,ID] [--device cuda]
  echo '{"id": "x", "model": {"preset": "gpt2"}, "micro_batch": 1, "seq_len": 128}' | python measure.py -

Every case runs in a fresh process, so that the allocator starts clean.
"""
import argparse
import contextlib
import gc
import gzip
import json
import os
import subprocess
import sys
import time

DEFAULTS = dict(precision="fp32", optimizer="adamw", optimizer_impl="foreach", recompute="none", attention="sdpa",
                sdpa_backend=None, grad_accumulation=1, steps=3, clip_grad=False, set_to_none=True, use_cache=False,
                hold_outputs=False, alloc_conf="", null_device=None, capacity=None, lora=None, loss=True, mode="train",
                compile=False,
                parallel={"kind": "none", "world": 1})
DTYPE = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16", "amp-bf16": "float32", "amp-fp16": "float32"}


# ------------------------------------------------------------------------------------------------ memory meter
class Meter:
    """Peaks and resting values of the caching allocator, phase by phase."""

    def __init__(self, cuda):
        import torch
        self.cuda, self.mem = cuda, torch.cuda.memory
        self.max_allocated = self.max_reserved = self.max_requested = self.max_active = 0
        self.max_inactive_split = 0
        self.marks = []

    def stats(self):
        return self.mem.memory_stats() if self.cuda else {}

    def begin(self):
        if self.cuda:
            self.mem.reset_peak_memory_stats()
        if tracing:
            self.marks.append(("reset", None))
            self.mem.memory_snapshot()  # leaves a "snapshot" entry in the trace, which is the marker

    def end(self, name):
        """Close a phase: its peak and end in bytes; in a recorded run also a marker in the trace."""
        s = self.stats()
        get = lambda kind, what: s.get(f"{kind}.all.{what}", 0)
        self.max_allocated = max(self.max_allocated, get("allocated_bytes", "peak"))
        self.max_reserved = max(self.max_reserved, get("reserved_bytes", "peak"))
        self.max_requested = max(self.max_requested, get("requested_bytes", "peak"))
        self.max_active = max(self.max_active, get("active_bytes", "peak"))
        self.max_inactive_split = max(self.max_inactive_split, get("inactive_split_bytes", "peak"))
        if tracing:
            self.marks.append((name, summary(s)))
            self.mem.memory_snapshot()
        return {"peak": get("allocated_bytes", "peak"), "end": get("allocated_bytes", "current"),
                "reserved": get("reserved_bytes", "current")}


def summary(s):
    """The statistics that an allocator model must reproduce."""
    keys = ("allocated_bytes", "reserved_bytes", "active_bytes", "inactive_split_bytes", "requested_bytes")
    out = {k: s.get(f"{k}.all.current", 0) for k in keys}
    out.update({k.replace("_bytes", "_peak"): s.get(f"{k}.all.peak", 0) for k in keys[:2]})
    out.update(segments=s.get("segment.all.current", 0), active=s.get("active.all.current", 0),
               inactive_split=s.get("inactive_split.all.current", 0), retries=s.get("num_alloc_retries", 0),
               ooms=s.get("num_ooms", 0))
    return out


tracing = False


def start_trace():
    import torch
    global tracing
    tracing = True
    torch.cuda.memory._record_memory_history("all", context=None, max_entries=4_000_000)


def write_trace(path, header, marks):
    """The recorded events as text, see README.md (allocator traces)."""
    import torch
    events = torch.cuda.memory._snapshot()["device_traces"][torch.cuda.current_device()]
    ids, streams, lines, pending, mark, layer, count = {}, {}, [], {}, iter(marks), "", 0
    for e in events:
        action, addr, size = e["action"], e.get("addr"), e["size"]
        stream = streams.setdefault(e["stream"], len(streams))
        if action == "alloc":
            if e.get("user_metadata", "") != layer:
                layer = e.get("user_metadata", "")
                lines.append(f"l {layer or '-'}")
            ids[addr] = count
            lines.append(f"a {count} {size} {stream}")
            count += 1
        elif action == "free_requested":
            pending[addr] = len(lines)
            lines.append(f"q {ids[addr]}")
        elif action == "free_completed":
            if pending.pop(addr, None) == len(lines) - 1:  # freed at once: one line is enough
                lines.pop()
            lines.append(f"f {ids[addr]}")
        elif action in SEGMENT:
            lines.append(f"{SEGMENT[action]} {addr:x} {size} {stream}")
        elif action == "oom":
            lines.append(f"o {size} {stream}")
        elif action == "snapshot":
            name, stats = next(mark, ("", None))
            if name == "reset":
                lines.append("r")
            if stats:
                lines.append(f"= {name} " + " ".join(f"{k}={v}" for k, v in stats.items()))
            if name == "empty_cache":
                lines.append("e")
    text = "# allocator trace 1\n" + "".join(f"# {k}: {v}\n" for k, v in header.items()) + "\n".join(lines) + "\n"
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, 0) as f:
        f.write(text.encode())


SEGMENT = {"segment_alloc": "S", "segment_free": "s", "segment_map": "M", "segment_unmap": "U"}


# ------------------------------------------------------------------------------------------------ the device
def device_facts(device):
    import torch
    import transformers
    facts = {"torch": torch.__version__, "transformers": transformers.__version__, "device": device}
    if device == "cuda":
        p = torch.cuda.get_device_properties(0)
        facts.update(device_name=p.name, total_memory=p.total_memory, capability=f"{p.major}.{p.minor}",
                     null_gpu=is_null_gpu(), cudnn=torch.backends.cudnn.version())
    return facts


def is_null_gpu():
    """A null GPU runs no kernel: a sum of ones is not what it should be."""
    import torch
    return torch.ones(4, device="cuda").sum().item() != 4.0


def null_gpu_fixes():
    """transformers decides about attention masks by values read from the device (is anything padded? are sequences
    packed?). Those read as zero on a null GPU. Let it do the same work, then answer as for full, unpacked sequences.
    While it is compiled it reads nothing (and always makes a mask), so there is nothing to answer."""
    import torch
    from transformers import masking_utils as mu
    packed, bidirectional, every = mu.find_packed_sequence_indices, mu._ignore_bidirectional_mask_sdpa, mu.fast_all

    def not_packed(position_ids):
        found = packed(position_ids)
        return found if torch.compiler.is_compiling() else None

    def all_set(tensor):
        if torch.compiler.is_compiling():
            return every(tensor)
        tensor.sum() == tensor.numel()
        return True

    def ignore(padding_mask, *args, **kwargs):
        if torch.compiler.is_compiling():
            return bidirectional(padding_mask, *args, **kwargs)
        if padding_mask is not None:
            padding_mask.all()
        return bidirectional(None, *args, **kwargs)

    mu.find_packed_sequence_indices, mu.fast_all, mu._ignore_bidirectional_mask_sdpa = not_packed, all_set, ignore


def smi_used():
    try:
        out = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
                             capture_output=True, text=True, timeout=20).stdout
        return int(out.split()[0]) * 2**20
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired):
        return None


# ------------------------------------------------------------------------------------------------ model
def make_optimizer(case, params):
    import torch
    name, impl = case["optimizer"], case["optimizer_impl"]
    kw = {"foreach": impl == "foreach"}
    if impl == "fused":
        kw = {"fused": True}
    kw.update(case.get("optimizer_args", {}))
    if case["parallel"]["kind"] == "tp":  # one group of sharded and one of plain parameters
        sharded = [p for p in params if isinstance(p, torch.distributed.tensor.DTensor)]
        params = [{"params": sharded}, {"params": [p for p in params if not any(p is q for q in sharded)]}]
    if name in ("sgd", "momentum"):
        return torch.optim.SGD(params, lr=1e-4, momentum=0.9 if name == "momentum" else 0.0, **kw)
    return {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "rmsprop": torch.optim.RMSprop,
            "adagrad": torch.optim.Adagrad}[name](params, lr=1e-4, **kw)


def prepare(case, device, fill):
    """Build the model on the device and apply recompute, adapters and parallelism."""
    import torch
    import models
    dtype = getattr(torch, DTYPE[case["precision"]])
    attention = None if case["attention"] == "default" else case["attention"]
    model, kind = models.build(case["model"], dtype, attention, device)
    config = getattr(model, "config", None) or models.resolve(case["model"])[1]
    if hasattr(model, "config"):
        for c in {id(x): x for x in (model.config, model.config.get_text_config())}.values():
            if hasattr(c, "use_cache"):
                c.use_cache = bool(case["use_cache"])
    if case["lora"]:
        import peft
        lora = case["lora"]
        for p in model.parameters():
            p.requires_grad_(False)
        models.place(model, device, fill)
        model = peft.get_peft_model(model, peft.LoraConfig(
            r=lora["r"], lora_alpha=2 * lora["r"], target_modules=lora["targets"],
            lora_dropout=lora.get("dropout", 0.0)), autocast_adapter_dtype=lora.get("autocast_adapter_dtype", True))
        if device != "meta":
            model.to(device)
    recompute = {"full": False, "full-reentrant": True}.get(case["recompute"])
    if recompute is not None:
        if hasattr(model, "gradient_checkpointing_enable"):
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": recompute})
            if case["lora"]:
                model.enable_input_require_grads()
        else:
            model.recompute = recompute
    return model, kind, config, dtype


def fake_world(world):
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore
    if not dist.is_initialized():
        dist.init_process_group("fake", rank=0, world_size=world, store=FakeStore())


def parallelise(model, case, device, fill):
    """Place the model on the device, sharded as the case says. Collectives go to a process group that does nothing."""
    import torch
    import models
    kind, world = case["parallel"]["kind"], case["parallel"].get("world", 1)
    if kind == "none":
        return models.place(model, device, fill) if not case["lora"] else model
    fake_world(world)
    if kind == "ddp":
        models.place(model, device, fill)
        model = torch.nn.parallel.DistributedDataParallel(
            model, device_ids=[0] if device == "cuda" else None,
            gradient_as_bucket_view=case["parallel"].get("gradient_as_bucket_view", False))

        def keep(_, bucket):  # stands for the all-reduce in place, whose fake has no result
            done = torch.futures.Future()
            done.set_result(bucket.buffer())
            return done

        model.register_comm_hook(None, keep)
        return model
    mesh = torch.distributed.init_device_mesh("cuda" if device == "cuda" else "cpu", (world,))
    if kind == "fsdp2":
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32) \
            if case["precision"] == "amp-bf16" else MixedPrecisionPolicy()
        for block in models.blocks(model):
            fully_shard(block, mesh=mesh, mp_policy=policy,
                        reshard_after_forward=case["parallel"].get("reshard_after_forward", True))
        fully_shard(model, mesh=mesh, mp_policy=policy)
        return models.place(model, device, fill)
    if kind == "tp":
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
        col, row = ColwiseParallel(), RowwiseParallel()
        models.place(model, device, fill)
        for block in models.blocks(model):
            parallelize_module(block, mesh, {
                "self_attn.q_proj": col, "self_attn.k_proj": col, "self_attn.v_proj": col, "self_attn.o_proj": row,
                "mlp.gate_proj": col, "mlp.up_proj": col, "mlp.down_proj": row})
        gc.collect()
        torch.cuda.empty_cache() if device == "cuda" else None
        return model
    raise ValueError(f"unknown parallel kind {kind}")


def compile_model(model, case):
    """torch.compile with its default options: the whole model (true), or each block as one full graph ("blocks")."""
    import models
    if case["compile"] == "blocks":
        for block in models.blocks(model):
            block.compile(fullgraph=True)
    elif case["compile"]:
        model.compile()


# ------------------------------------------------------------------------------------------------ one case
class Loop:
    """A plain training loop: batch to device, forward with labels, backward, clip, step, zero_grad."""

    def __init__(self, case, model, kind, config, dtype, device):
        import torch
        self.t, self.case, self.model, self.kind, self.config = torch, case, model, kind, config
        self.dtype, self.device = dtype, device
        self.params = [p for p in model.parameters() if p.requires_grad]
        self.opt = make_optimizer(case, self.params) if case["mode"] == "train" else None
        amp = case["precision"].startswith("amp-") and case["parallel"]["kind"] != "fsdp2"
        self.amp = (lambda: torch.autocast("cuda" if device == "cuda" else "cpu", dtype=getattr(
            torch, {"amp-bf16": "bfloat16", "amp-fp16": "float16"}[case["precision"]]))) if amp \
            else contextlib.nullcontext
        self.scaler = torch.amp.GradScaler("cuda") if case["precision"] == "amp-fp16" and device == "cuda" else None
        self.host = None

    def batch(self):
        import models
        if self.host is None:
            self.host = models.batch(self.kind, self.case, self.config, self.dtype)
        moved = {}  # input_ids and labels may be one tensor
        put = lambda v: moved.setdefault(id(v), v.to(self.device)) if self.t.is_tensor(v) else v
        return {k: put(v) for k, v in self.host.items() if k != "labels" or self.case["loss"]}

    def forward(self, batch):
        with self.amp():
            out = self.model(**batch)
            loss = out["loss"] if self.case["loss"] else out["logits"].sum()
            if self.case["grad_accumulation"] > 1:
                loss = loss / self.case["grad_accumulation"]
        if self.case["hold_outputs"]:
            self.out = out
        return loss

    def backward(self, loss):
        (self.scaler.scale(loss) if self.scaler else loss).backward()

    def update(self):
        if self.case["clip_grad"]:
            if self.scaler:
                self.scaler.unscale_(self.opt)
            self.t.nn.utils.clip_grad_norm_(self.params, 1.0)
        if self.scaler:
            self.scaler.step(self.opt)
            self.scaler.update()
        else:
            self.opt.step()

    def step(self, meter=None):
        phases = {}

        def phase(name, work):
            if meter is None:
                return work()
            meter.begin()
            result = work()
            got = meter.end(name)
            old = phases.get(name)
            phases[name] = got if old is None else {**got, "peak": max(got["peak"], old["peak"])}
            return result

        for _ in range(self.case["grad_accumulation"]):
            batch = self.batch()
            loss = phase("forward", lambda: self.forward(batch))
            phase("backward", lambda: self.backward(loss))
        phase("optimizer", self.update)
        phase("zero_grad", lambda: self.opt.zero_grad(set_to_none=self.case["set_to_none"]))
        self.loss = loss
        return phases

    def infer(self, meter=None):
        prefill = self.case["mode"] == "generate-prefill"
        batch = {k: v for k, v in self.batch().items() if k != "labels"}
        if prefill:
            batch.update(use_cache=True, logits_to_keep=1)
        if meter:
            meter.begin()
        with self.t.no_grad(), self.amp():
            out = self.model(**batch)
        phases = {"forward": meter.end("forward")} if meter else {}
        del out
        if meter:
            phases["after"] = meter.end("after")
        return phases


def flop_counter():
    """FlopCounterMode that also knows grouped-query attention and grouped matrix products (torch 2.11 does not):
    keys and values count as if repeated to the query heads; a grouped product counts each row once."""
    import torch
    from torch.utils import flop_counter as fc
    if not hasattr(fc, "counts_gqa"):
        forward, backward, fc.counts_gqa = fc.sdpa_flop_count, fc.sdpa_backward_flop_count, True
        heads = lambda q, t: (t[0], q[1], *t[2:])
        fc.sdpa_flop_count = lambda q, k, v: forward(q, heads(q, k), heads(q, v))
        fc.sdpa_backward_flop_count = lambda g, q, k, v: backward(g, q, heads(q, k), heads(q, v))

    def grouped(a, b, *args, out_shape=None, **kwargs):
        return 2 * a[-2] * a[-1] * b[-1] * (a[0] if len(a) == 3 else 1)

    return fc.FlopCounterMode(display=False, custom_mapping={torch.ops.aten._grouped_mm: grouped})


def local(t):
    """What a DTensor or a pending collective holds on this rank."""
    for inner in ("_local_tensor", "elem"):
        t = getattr(t, inner, t)
    return t


def analyse_compiled(loop, case):
    """The same for a compiled model: saved tensors as (text, bytes of one, how many), FLOPs counted without compilation."""
    import torch
    own = {local(p).untyped_storage()._cdata for p in loop.model.parameters()}
    seen = {}

    def pack(t):
        held = local(t)
        key = held.untyped_storage()._cdata
        if t.device.type == loop.device and not isinstance(t, torch.nn.Parameter) and key not in own and key not in seen:
            seen[key] = (f"{str(held.dtype)[6:]}{list(held.shape)}", held.untyped_storage().nbytes(), held)
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        loop.backward(loop.forward(loop.batch()))
    loop.opt.zero_grad()
    kinds = {}
    for text, size, _ in seen.values():
        kinds[text, size] = kinds.get((text, size), 0) + 1
    saved = {"total": sum(size for _, size, _ in seen.values()), "kinds": [[*key, n] for key, n in kinds.items()]}
    seen.clear()
    with torch.compiler.set_stance("force_eager"):
        _, flops = analyse(loop, case)
    return saved, flops


def analyse(loop, case):
    """One more forward and backward, outside all measurements: saved tensors and counted FLOPs."""
    import torch
    import models
    own = {local(p).untyped_storage()._cdata for p in loop.model.parameters()}
    seen, hooks, here = {}, [], [None]
    for i, block in enumerate(models.blocks(loop.model)):
        hooks.append(block.register_forward_pre_hook(lambda *_, i=i: here.__setitem__(0, i)))
        hooks.append(block.register_forward_hook(lambda *_: here.__setitem__(0, None)))

    def pack(t):
        if t.device.type == loop.device and not isinstance(t, torch.nn.Parameter):
            held = local(t)
            key = held.untyped_storage()._cdata
            if key not in own and key not in seen:
                seen[key] = (held.untyped_storage().nbytes(), here[0], f"{str(held.dtype)[6:]}{list(held.shape)}", held)
        return t

    flops = {}
    batch = loop.batch()
    train = case["mode"] == "train"
    with flop_counter() as count, torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t), \
            torch.set_grad_enabled(train):
        if train:
            loss = loop.forward(batch)
        else:
            loop.model(**{k: v for k, v in batch.items() if k != "labels"})
    flops["forward"] = {str(k): v for k, v in count.get_flop_counts().get("Global", {}).items()}
    for h in hooks:
        h.remove()
    per = {}
    for size, where, text, _ in seen.values():
        per.setdefault(where, []).append((text, size))
    n = max([i for i in per if i is not None], default=-1) + 1
    sums = [sum(s for _, s in per.get(i, [])) for i in range(n)]
    saved = {"total": sum(v[0] for v in seen.values()), "per_layer": sums,
             "outside_layers": sum(s for _, s in per.get(None, [])),
             "middle_layer": [list(x) for x in per.get(n // 2, [])], "outside": [list(x) for x in per.get(None, [])]}
    if len(set(sums)) == 1:
        saved["per_layer"] = sums[:1]
    if train:
        seen.clear()
        per.clear()
        with flop_counter() as count:
            loop.backward(loss)
        flops["backward"] = {str(k): v for k, v in count.get_flop_counts().get("Global", {}).items()}
        loop.opt.zero_grad()
    flops["forward_total"] = sum(flops["forward"].values())
    flops["backward_total"] = sum(flops.get("backward", {}).values())
    return saved if train else None, flops


def timed(loop, case, seconds=4.0):
    """Step time by CUDA events: 3 warm-up steps, then 10 or more."""
    import torch
    step = loop.step if case["mode"] == "train" else loop.infer
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    times, began = [], time.time()
    while len(times) < 10 or (time.time() - began < seconds and len(times) < 50):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        step()
        b.record()
        b.synchronize()
        times.append(a.elapsed_time(b))
        if time.time() - began > 20 and len(times) >= 10:
            break
    times.sort()
    at = lambda q: times[min(len(times) - 1, int(q * len(times)))]
    tokens = case["micro_batch"] * case["seq_len"] * case["grad_accumulation"]
    return {"steps": len(times), "median_ms": at(0.5), "p10_ms": at(0.1), "p90_ms": at(0.9),
            "tokens_per_s": tokens / at(0.5) * 1e3}


def run(case, device, trace=None):
    case = {**DEFAULTS, **case}
    if case["alloc_conf"]:
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = case["alloc_conf"]
    import torch
    import models
    cuda = device == "cuda"
    record = {"id": case["id"], "case": case, "status": "ok"}
    record.update(device_facts(device))
    phase, meter = "create", Meter(cuda)
    backend = {"flash": "FLASH_ATTENTION", "efficient": "EFFICIENT_ATTENTION", "math": "MATH",
               "cudnn": "CUDNN_ATTENTION"}.get(case["sdpa_backend"])

    def sdpa():
        attention = torch.nn.attention
        return attention.sdpa_kernel(getattr(attention.SDPBackend, backend)) if backend else contextlib.nullcontext()

    steps = []
    if cuda:
        torch.cuda.empty_cache()
        free, total = torch.cuda.mem_get_info()
        record["context_bytes"] = total - free - torch.cuda.memory_reserved()
        if case["capacity"]:
            torch.cuda.set_per_process_memory_fraction(case["capacity"] / total)
        if trace:
            start_trace()
    real = cuda and not record["null_gpu"]
    if cuda and not real:
        null_gpu_fixes()
    try:
        with sdpa():
            model, kind, config, dtype = prepare(case, device, real)
            plain = model
            model = parallelise(model, case, device, real)
            total, trainable, size = models.param_count(model)
            record["params"] = {"total": total, "trainable": trainable, "bytes": size,
                                "buffer_bytes": sum(b.numel() * b.element_size() for b in model.buffers())}
            if hasattr(plain, "config"):
                record["config"] = json.loads(plain.config.to_json_string(use_diff=False))
            model.train(case["mode"] == "train")
            record["after_model"] = meter.end("model")
            compile_model(model, case)
            loop = Loop(case, model, kind, config, dtype, device)
            if trace and case["parallel"]["kind"] == "none":
                for i, block in enumerate(models.blocks(plain)):
                    block.register_forward_pre_hook(lambda *_, i=i: torch.cuda.memory._set_memory_metadata(f"{i}"))
                    block.register_forward_hook(lambda *_: torch.cuda.memory._set_memory_metadata(""))
            for i in range(case["steps"]):
                phase = f"step {i + 1}"
                steps.append(loop.step(meter) if case["mode"] == "train" else loop.infer(meter))
    except torch.OutOfMemoryError as e:
        record.update(status="oom", phase=phase, message=str(e).split(" See documentation")[0])
        record["at_oom"] = summary(meter.stats())
    record["steps"] = steps
    if cuda:
        meter.end("end")
        s = summary(meter.stats())
        record["memory"] = {
            "max_allocated": meter.max_allocated, "max_reserved": meter.max_reserved,
            "max_requested": meter.max_requested, "max_active": meter.max_active,
            "max_inactive_split": meter.max_inactive_split, "rest": s}
        if trace:
            write_trace(trace, {"case": case["id"], "conf": case["alloc_conf"] or "default", "device":
                                record["device_name"], "total": record["total_memory"],
                                "capacity": case["capacity"] or "none"}, meter.marks)
    if record["status"] == "ok" and not trace:
        try:
            with sdpa():
                record["saved"], record["flops"] = (analyse_compiled if case["compile"] else analyse)(loop, case)
        except Exception as e:  # a refinement only: the measurements above stand
            record["analysis_error"] = f"{type(e).__name__}: {e}"[:300]
        if real:
            try:
                with sdpa():
                    record["time"] = timed(loop, case)
                free, total = torch.cuda.mem_get_info()
                record["outside_allocator"] = total - free - torch.cuda.memory_reserved()
                record["smi_used"] = smi_used()
            except torch.OutOfMemoryError:
                record["time"] = None
    return record


# ------------------------------------------------------------------------------------------------ many cases
def child(case, device, trace, out):
    """Run one case in this (forked) process and write its record."""
    try:
        record = run(case, device, trace)
    except Exception as e:
        import traceback
        record = {"id": case["id"], "case": case, "status": "error", "message": f"{type(e).__name__}: {e}"[:1000],
                  "where": traceback.format_exc()[-1500:]}
    with open(out, "w") as f:
        json.dump(record, f)


def isolated(case, device, trace=None, timeout=300):
    """Run a case in a forked process, which starts without a CUDA context; return its record."""
    import tempfile
    with tempfile.TemporaryDirectory() as tmp:
        out = os.path.join(tmp, "record")
        pid = os.fork()
        if pid == 0:
            log = os.open(os.path.join(tmp, "log"), os.O_WRONLY | os.O_CREAT)
            os.dup2(log, 1)
            os.dup2(log, 2)
            child(case, device, trace, out)
            os._exit(0)
        end = time.time() + timeout
        while True:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                break
            if time.time() > end:
                os.kill(pid, 9)
                os.waitpid(pid, 0)
                status = "timeout"
                break
            time.sleep(0.02)
        if os.path.exists(out) and os.path.getsize(out):
            with open(out) as f:
                return json.load(f)
        with open(os.path.join(tmp, "log"), errors="replace") as f:
            return {"id": case["id"], "case": case, "status": "error", "message": f"process ended: {status}",
                    "where": f.read()[-1500:]}


def warm_up():
    """Import what every case needs once, without touching CUDA, so that forked cases start fast."""
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")  # no CUDA context before the fork
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import accelerate  # noqa: F401
    import torch.distributed.fsdp
    import torch.utils.flop_counter
    import transformers
    import models  # noqa: F401
    transformers.AutoModelForCausalLM, transformers.AutoConfig  # imported on first use
    transformers.logging.set_verbosity_error()


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("cases", help="JSON lines, or - for standard input")
    ap.add_argument("-o", "--output", help="where to append the records (default: standard output)")
    ap.add_argument("--only", help="comma-separated ids")
    ap.add_argument("--device", default="cuda")
    ap.add_argument("--trace", help="write the allocator trace of the (one) case to this .gz file")
    ap.add_argument("--trace-dir", help="write traces of the cases marked \"trace\": true to this folder")
    ap.add_argument("--timeout", type=float, default=300)
    ap.add_argument("--skip-done", action="store_true", help="skip the ids that the output already has")
    a = ap.parse_args()
    with contextlib.ExitStack() as stack:
        f = sys.stdin if a.cases == "-" else stack.enter_context(open(a.cases))
        cases = [json.loads(line) for line in f if line.strip()]
    if a.only:
        cases = [c for c in cases if c["id"] in a.only.split(",")]
    if a.skip_done and a.output and os.path.exists(a.output):
        with open(a.output) as f:
            done = {r["id"] for r in map(json.loads, f) if r["status"] != "error"}
        cases = [c for c in cases if c["id"] not in done]
    warm_up()
    for i, case in enumerate(cases):
        began = time.time()
        trace = a.trace
        if a.trace_dir:
            if not case.get("trace"):
                continue
            trace = os.path.join(a.trace_dir, case["id"] + ".trace.gz")
        record = isolated(case, a.device, trace, a.timeout)
        line = json.dumps(record)
        if a.output:
            with open(a.output, "a") as f:
                f.write(line + "\n")
            m = record.get("memory", {})
            print(f"{i + 1}/{len(cases)} {case['id']}: {record['status']} max_allocated={m.get('max_allocated', 0)} "
                  f"max_reserved={m.get('max_reserved', 0)} {time.time() - began:.1f}s "
                  f"{record.get('message', '')[:120]}{record.get('analysis_error', '')[:120]}", flush=True)
        elif not a.trace_dir:
            print(line, flush=True)


if __name__ == "__main__":
    main()
