"""Measures what training frameworks' own loops allocate: transformers' Trainer, alone and with peft, megatron-core, torchtitan,
torchtune and litgpt.

  python frameworks.py frameworks.jsonl -o raw.jsonl [--only ID,ID]

Every case is a rank of its world alone, with PyTorch's `fake` process group, and runs in a fresh process. A package that is not
installed is told by its name, and its cases are left out.
"""

import argparse
import contextlib
import itertools
import json
import os
import subprocess
import sys
import tempfile

NEEDS = {
    "trainer": ("transformers", "accelerate"),
    "peft": ("transformers", "accelerate", "peft"),
    "qlora": ("transformers", "accelerate", "peft", "bitsandbytes"),
    "megatron": ("megatron.core",),
    "torchtitan": ("torchtitan",),
    "torchtune": ("torchtune", "torchao"),
    "litgpt": ("litgpt", "torchmetrics"),
}
STEPS = 3


class Phases:
    """The peak and the end of every phase, by the names that the records have: steps from 1, a repeated phase's last."""

    def __init__(self):
        import torch

        self.cuda = torch.cuda
        self.step = 0
        self.told = {}
        self.peaks = {}  # by step; 0 is what is before the first
        self.reserved = 0

    def end(self, name):
        peak = self.cuda.max_memory_allocated()
        now = self.cuda.memory_allocated()
        self.peaks[self.step] = max(self.peaks.get(self.step, 0), peak)
        self.reserved = max(self.reserved, self.cuda.max_memory_reserved())
        if self.step:
            self.told.update({f"step{self.step}.{name}_peak": peak, f"step{self.step}.{name}_end": now})
        else:
            self.told.update({name: now, f"{name}_end": now, f"{name}_peak": peak})
        self.cuda.reset_peak_memory_stats()

    def around(self, owner, method, name):
        """Ends the phase `name` where the method returns."""
        call = getattr(owner, method)

        def wrapped(*arguments, **options):
            result = call(*arguments, **options)
            self.end(name)
            return result

        setattr(owner, method, wrapped)

    def measured(self):
        return {"allocated_peak_bytes": self.peaks[self.step], "reserved_peak_bytes": self.reserved, "phases": self.told}


def fake_world(ranks, rank=0):
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
    dist.init_process_group("fake", rank=rank, world_size=ranks, store=FakeStore())


def reduce_in_place(model):
    """Stands for DDP's all-reduce, whose fake has no result."""
    import torch

    def keep(_, bucket):
        done = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    if isinstance(model, torch.nn.parallel.DistributedDataParallel):
        model.register_comm_hook(None, keep)


# --- transformers' Trainer ----------------------------------------------------------------------------------------------


def adapted(model, settings):
    import peft

    words = dict(settings["peft"])
    kind = words.pop("kind", "lora")
    config = {"lora": peft.LoraConfig, "ia3": peft.IA3Config, "prompt": peft.PromptTuningConfig}[kind]
    return peft.get_peft_model(model, config(task_type="CAUSAL_LM", **words),
                               autocast_adapter_dtype=settings["autocast_adapter_dtype"])


def coded(model, codes):
    """Puts the model on the GPU with its linear layers' weights as bitsandbytes' codes, as from_pretrained() does tensor by tensor."""
    import bitsandbytes
    import torch
    import transformers
    from transformers.quantizers import AutoHfQuantizer

    settings = {"quant_type": codes["type"], "compress_statistics": codes["double_quant"], "quant_storage": getattr(torch, codes["storage"])}
    for module in list(model.modules()):
        for name, linear in list(module.named_children()):
            if not isinstance(linear, torch.nn.Linear) or name == "lm_head":
                continue
            layer = bitsandbytes.nn.Linear4bit(linear.in_features, linear.out_features, linear.bias is not None, torch.bfloat16, **settings)
            layer.weight = bitsandbytes.nn.Params4bit(linear.weight.data, requires_grad=False, module=layer, **settings)
            layer.bias = linear.bias
            setattr(module, name, layer)
    model.requires_grad_(False).to("cuda")
    model.is_loaded_in_4bit = model.is_quantized = True
    model.config.quantization_config = transformers.BitsAndBytesConfig(load_in_4bit=True)
    model.hf_quantizer = AutoHfQuantizer.from_config(model.config.quantization_config)
    return model


def trainer(case):
    import torch
    import transformers

    settings = case["settings"]
    fake = settings["gpus"] > 1
    if fake:
        fake_world(settings["gpus"])
    config = transformers.AutoConfig.for_model(settings["model"].split("_")[0], **case["config"])
    with torch.device("cpu" if "fsdp" in settings["args"] else "cuda"):
        model = transformers.AutoModelForCausalLM.from_config(
            config, dtype=getattr(torch, settings["dtype"]), attn_implementation=settings.get("attn", "sdpa"))
    if "codes" in settings:
        model = coded(model, settings["codes"])
    if settings.get("prepared_for_kbit_training"):
        import peft

        model = peft.prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
    if "peft" in settings:
        model = adapted(model, settings)
    row = {"input_ids": torch.zeros(settings["seq"], dtype=torch.int64), "labels": torch.zeros(settings["seq"], dtype=torch.int64)}
    rows = settings["batch"] * settings["gpus"] * STEPS * settings["args"].get("gradient_accumulation_steps", 1)
    phases = Phases()
    by_calls = "codes" in settings  # phases end with the Trainer's own calls

    class Watch(transformers.TrainerCallback):
        def on_train_begin(self, *_, optimizer=None, **__):
            if not by_calls:
                phases.end("prepared")
            phases.around(optimizer, "step", "optimizer")
            reduce_in_place(loop.model_wrapped)

        def on_step_begin(self, *_, **__):
            phases.step += 1

        def on_step_end(self, *_, **__):
            phases.end("zero_grad")

    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            folder, per_device_train_batch_size=settings["batch"], max_steps=STEPS, bf16=settings["amp"], optim=settings["optim"],
            logging_strategy="no", save_strategy="no", report_to=[], disable_tqdm=True, **settings["args"])
        loop = transformers.Trainer(model, arguments, train_dataset=[row] * rows, callbacks=[Watch()])
        backward = loop.accelerator.backward

        def watched(loss, **options):
            phases.end("forward")
            backward(loss, **options)
            if not by_calls:
                phases.end("backward")

        loop.accelerator.backward = watched
        phases.around(loop.accelerator, "clip_grad_norm_", "clip")
        if by_calls:
            phases.around(loop.accelerator, "prepare", "prepared")
            phases.around(loop, "training_step", "backward")
        loop.train()
    return phases.measured()


# --- Megatron-core ------------------------------------------------------------------------------------------------------


def megatron_experts(model, ways):
    """Of `moe`, routed so that no size depends on where tokens go."""
    if "moe" not in model:
        return {}
    from megatron.core.transformer.moe import moe_utils

    moe_utils.te_general_gemm = None  # which it names, and defines with Transformer Engine alone
    routing = {"expert_model_parallel_size": ways.get("ep", 1), "moe_router_load_balancing_type": "none"}
    if model.get("dispatcher") == "hybridep":
        import deep_ep

        deep_ep.HybridEPBuffer.experts_of_a_token = model["moe"]["moe_router_topk"]
        return {**routing, "moe_token_dispatcher_type": "flex", "moe_flex_dispatcher_backend": "hybridep", **model["moe"]}
    return {**routing, "moe_expert_capacity_factor": 1.0, "moe_pad_expert_input_to_capacity": True, "moe_token_dispatcher_type": "alltoall",
            **model["moe"]}


def megatron_config(settings):
    import torch
    from megatron.core.transformer import MLATransformerConfig, TransformerConfig

    model, ways = settings["model"], settings["parallel"]
    recompute = settings.get("recompute", {})
    kind = torch.float32 if settings["dtype"] == "fp32" else torch.bfloat16
    gated = model.get("swiglu", True)
    made = MLATransformerConfig if "latent" in model else TransformerConfig
    return made(
        **megatron_experts(model, ways), **model.get("latent", {}),
        num_layers=model["layers"], hidden_size=model["hidden"], num_attention_heads=model["heads"],
        num_query_groups=model.get("kv_heads", model["heads"]), ffn_hidden_size=model["ffn"], gated_linear_unit=gated,
        activation_func=torch.nn.functional.silu if gated else torch.nn.functional.gelu, add_bias_linear=model.get("bias", False),
        normalization=model.get("norm", "RMSNorm"), attention_softmax_in_fp32=False, hidden_dropout=model.get("dropout", 0.0),
        attention_dropout=model.get("dropout", 0.0), bias_activation_fusion=True, params_dtype=kind, pipeline_dtype=kind, deallocate_pipeline_outputs=True,
        bf16=kind == torch.bfloat16, gradient_accumulation_fusion=False, tensor_model_parallel_size=ways.get("tp", 1),
        pipeline_model_parallel_size=ways.get("pp", 1), virtual_pipeline_model_parallel_size=ways.get("vpp"), pipeline_model_parallel_layout=ways.get("layout"),
        sequence_parallel=ways.get("sp", False), recompute_granularity=recompute.get("granularity"),
        recompute_modules=recompute.get("modules"), recompute_method=recompute.get("method"), mtp_num_layers=model.get("mtp"),
        recompute_num_layers=recompute.get("layers"), distribute_saved_activations=recompute.get("distribute", False))


def allow_norms_of_sequence_shards():
    """Without Apex the norms are PyTorch's, which Megatron takes for whole sequences alone; they are the same for shards."""
    from megatron.core.transformer import torch_norm

    make = torch_norm.WrappedTorchNorm.__new__

    def made(kind, config, *arguments, **options):
        sharded, config.sequence_parallel = config.sequence_parallel, False
        norm = make(kind, config, *arguments, **options)
        config.sequence_parallel = sharded
        for parameter in norm.parameters():
            parameter.sequence_parallel = sharded
        return norm

    torch_norm.WrappedTorchNorm.__new__ = made


def allow_results_thrown_away():
    """CheckpointWithoutOutput enters contexts of Transformer Engine, which do nothing in bf16."""
    import contextlib
    import types

    from megatron.core.tensor_parallel import random

    random.FP8GlobalStateManager = types.SimpleNamespace(is_fp8_enabled=lambda: False)
    for name in ("activation_recompute_forward", "fp8_autocast"):
        setattr(random, name, lambda **_: contextlib.nullcontext())


def megatron_chunks(settings, config):
    from megatron.core import parallel_state
    from megatron.core.models.gpt import GPTModel
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec, get_gpt_layer_local_spec, get_gpt_mtp_block_spec

    allow_norms_of_sequence_shards()
    allow_results_thrown_away()

    model = settings["model"]
    norm = model.get("norm", "RMSNorm")
    if "moe" in model:
        layers = get_gpt_decoder_block_spec(config, use_transformer_engine=False, normalization=norm)
    else:
        layers = get_gpt_layer_local_spec(normalization=norm, multi_latent_attention="latent" in model, qk_layernorm="latent" in model)
    for chunk in range(settings["parallel"].get("vpp", 1)):
        at = {"vp_stage": chunk} if "vpp" in settings["parallel"] else {}
        here = {"ignore_virtual": False, **at}
        predicted = get_gpt_mtp_block_spec(config, layers, use_transformer_engine=False, **at)
        yield GPTModel(
            config, layers, model["vocab"], settings["seq"],
            pre_process=parallel_state.is_pipeline_first_stage(**here), post_process=parallel_state.is_pipeline_last_stage(**here),
            share_embeddings_and_output_weights=model.get("tied", False), position_embedding_type=model.get("position", "rope"),
            mtp_block_spec=predicted, **at)


def megatron(case):
    os.environ["TORCHDYNAMO_DISABLE"] = "1"  # its fused functions as they are written
    import torch
    from megatron.core import parallel_state, tensor_parallel
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
    from megatron.core.pipeline_parallel import get_forward_backward_func
    from megatron.core.transformer.module import Float16Module

    settings = case["settings"]
    ways, optimizing = settings["parallel"], settings["optimizer"]
    fake_world(settings["gpus"], settings.get("rank", 0))
    torch.cuda.set_device(0)
    parallel_state.initialize_model_parallel(ways.get("tp", 1), ways.get("pp", 1), ways.get("vpp"),
                                             expert_model_parallel_size=ways.get("ep", 1), create_gloo_process_groups=False)
    captures = settings.get("cuda_graph", False)
    tensor_parallel.model_parallel_cuda_manual_seed(1, use_cudagraphable_rng=captures)
    phases = Phases()
    config = megatron_config(settings)
    chunks = [chunk.cuda() for chunk in list(megatron_chunks(settings, config))]  # get_model makes all of them first
    phases.end("model")
    distributed = optimizing.get("distributed", True)
    averaged = DistributedDataParallelConfig(
        grad_reduce_in_fp32=optimizing.get("fp32_grads", True), overlap_grad_reduce=optimizing.get("overlap_grads", False),
        overlap_param_gather=optimizing.get("overlap_params", False), use_distributed_optimizer=distributed,
        bucket_size=optimizing.get("bucket_size"))
    if config.bf16:
        chunks = [Float16Module(config, chunk) for chunk in chunks]
    chunks = [DistributedDataParallel(config, averaged, chunk, disable_bucketing=place > 0) for place, chunk in enumerate(chunks)]
    phases.end("ddp_buffers")
    optimizer = get_megatron_optimizer(
        OptimizerConfig(optimizer="adam", lr=1e-4, bf16=config.bf16, params_dtype=config.params_dtype,
                        use_distributed_optimizer=distributed, overlap_param_gather=optimizing.get("overlap_params", False)),
        chunks, use_gloo_process_groups=False)
    phases.end("optimizer_main_params")
    config.finalize_model_grads_func = finalize_model_grads
    config.grad_scale_func = optimizer.scale_loss
    if optimizing.get("overlap_grads"):
        config.no_sync_func = [chunk.no_sync for chunk in chunks]
        config.no_sync_func = config.no_sync_func if len(chunks) > 1 else config.no_sync_func[0]
    batch, seq = settings["batch"], settings["seq"]
    mask = torch.empty((1, 1, seq, seq), dtype=torch.bool, device="cuda")  # whatever it hides

    def batches():
        while True:
            tokens = torch.zeros((batch, seq), dtype=torch.int64, device="cuda")
            yield tokens  # which it holds until the next

    def loaded_batches():  # what FullCudaGraphWrapper copies to the device
        tokens, places = torch.zeros((batch, seq), dtype=torch.int64), torch.arange(seq).expand(batch, -1)
        while True:
            yield {"tokens": tokens, "labels": tokens, "loss_mask": torch.ones((batch, seq)), "position_ids": places}

    def made_batch(data):
        tokens = next(data)
        labels = torch.zeros((batch, seq), dtype=torch.int64, device="cuda")
        weights = torch.ones((batch, seq), device="cuda")
        return tokens, labels, weights, torch.arange(seq, device="cuda").unsqueeze(0).expand(batch, -1)

    def forward(data, model):
        tokens, labels, weights, places = next(data).values() if captures else made_batch(data)

        def loss_of(output):
            if ways.get("pp", 1) == 1:
                phases.end("forward")
            loss = (output.float() * weights).sum() / weights.sum()
            return loss, {"loss": loss.detach()}

        return model(tokens, places, mask, labels=labels, loss_mask=weights), loss_of

    run, data = get_forward_backward_func(), loaded_batches if captures else batches
    if captures:
        from megatron.core.full_cuda_graph import FullCudaGraphWrapper

        run = FullCudaGraphWrapper(run, cuda_graph_warmup_steps=STEPS - 1)  # the last step is captured
    for _ in range(STEPS):
        phases.step += 1
        for chunk in chunks:
            chunk.zero_grad_buffer()
        optimizer.zero_grad()
        run(forward_step_func=forward, data_iterator=[data() for _ in chunks] if len(chunks) > 1 else data(), model=chunks,
            num_microbatches=settings["microbatches"], seq_length=seq, micro_batch_size=batch, forward_only=False)
        phases.end("backward")
        optimizer.step()
        phases.end("optimizer")
    return phases.measured()


# --- torchtitan ---------------------------------------------------------------------------------------------------------


def torchtitan(case):
    import dataclasses

    import torch
    from torchtitan.config import JobConfig
    from torchtitan.distributed import utils as distributed
    from torchtitan.protocols import train_spec
    from torchtitan.train import Trainer

    settings = case["settings"]
    fake_world(settings["gpus"], settings.get("rank", 0))
    distributed.init_distributed = lambda *_, **__: settings["gpus"]
    spec = train_spec.get_train_spec(settings["model"])
    flavor = settings.get("flavor", "case")
    models = dict(spec.model_args)
    if "shape" in settings:
        models[flavor] = dataclasses.replace(type(models["8B"])(), **settings["shape"])

    def loader(**_):
        row = torch.zeros((settings["batch"], settings["seq"]), dtype=torch.int64)
        while True:
            yield {"input": row}, row.clone()

    train_spec.register_train_spec("case", dataclasses.replace(
        spec, model_args=models, build_tokenizer_fn=None, build_dataloader_fn=loader))
    job = JobConfig()
    job.model.name, job.model.flavor = "case", flavor
    job.training.local_batch_size, job.training.seq_len = settings["batch"], settings["seq"]
    job.training.steps = STEPS
    job.activation_checkpoint.selective_ac_option = "op"  # as its own settings files have it
    for name, value in settings["args"].items():
        section, key = name.split(".")
        setattr(getattr(job, section), key, value)
    with tempfile.TemporaryDirectory() as folder:
        job.job.dump_folder = folder
        phases = Phases()
        loop = Trainer(job)
        phases.end("init")
        clip = distributed.clip_grad_norm_

        def watched(*arguments, **options):
            phases.end("backward")
            norm = clip(*arguments, **options)
            phases.end("clip")
            return norm

        distributed.clip_grad_norm_ = watched
        staged = loop.parallel_dims.pp_enabled
        if staged:
            phases.around(loop.optimizers, "step", "optimizer")
        else:
            loop.model_parts[0].register_forward_hook(lambda *_: phases.end("forward"))
        batches = loop.batch_generator(loop.dataloader)
        for _ in range(STEPS):
            phases.step += 1
            loop.step += 1
            loop.train_step(batches)
            if not staged:
                phases.end("optimizer")
    return phases.measured()


# --- torchtune ----------------------------------------------------------------------------------------------------------


def recipe_of(name):
    """The module of a recipe, which is no package's, and its class."""
    import importlib.util
    import pathlib

    folder = pathlib.Path(importlib.util.find_spec("torchtune").origin).parents[1] / "recipes"
    spec = importlib.util.spec_from_file_location(name, folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    classes = [one for one in vars(module).values() if isinstance(one, type) and one.__module__ == name]
    return module, classes[-1]


def recipe_settings(settings, folder):
    return {
        "output_dir": folder, "device": "cuda", "seed": 0, "epochs": 1, "max_steps_per_epoch": STEPS, "shuffle": False,
        "resume_from_checkpoint": False, "save_adapter_weights_only": True, "checkpointer": {"model_type": "LLAMA3"},
        "dtype": settings["dtype"], "batch_size": settings["batch"], "optimizer_in_bwd": settings.get("optimizer_in_bwd", False),
        "gradient_accumulation_steps": settings.get("accumulation", 1), "clip_grad_norm": settings.get("clip"),
        "enable_activation_checkpointing": settings.get("checkpoint", False), "compile": settings.get("compile", False),
        "metric_logger": {"_component_": "torchtune.training.metric_logging.DiskLogger", "log_dir": folder},
        "tokenizer": {"_component_": "builtins.dict"}, "dataset": {},
        "loss": {"_component_": settings.get("loss", "torchtune.modules.loss.CEWithChunkedOutputLoss")},
        "lr_scheduler": {"_component_": "torchtune.training.lr_schedulers.get_cosine_schedule_with_warmup", "num_warmup_steps": 1},
        "optimizer": settings["optimizer"], "model": settings["model"]}


class Sequences:
    """A recipe's loader of sequences of zeros."""

    def __init__(self, settings):
        import torch

        self.batches = STEPS * settings.get("accumulation", 1)
        self.row = torch.zeros((settings["batch"], settings["seq"]), dtype=torch.int64)
        self.sampler = self

    def set_epoch(self, _):
        pass

    def state_dict(self):
        return {}

    def __len__(self):
        return self.batches

    def __iter__(self):
        for _ in range(self.batches):
            yield {"tokens": self.row, "labels": self.row.clone()}


def base_weights(settings):
    """A checkpoint of the frozen weights, a number for each. Codes are made of it while it is loaded."""
    import torch
    from omegaconf import OmegaConf
    from torchtune import config, training

    dtype = training.get_dtype(settings["dtype"], device="cpu")
    with training.set_default_dtype(dtype), torch.device("meta"):
        model = config.instantiate(OmegaConf.create({**settings["model"], "quantize_base": False}))
    number = torch.zeros((), dtype=dtype)
    return {name: number.expand(weight.shape) for name, weight in model.state_dict().items() if "lora_" not in name}


def torchtune(case):
    import torch
    from omegaconf import OmegaConf
    from torchtune import training

    settings = case["settings"]
    if settings["gpus"] > 1:
        fake_world(settings["gpus"])
        torch.distributed.init_process_group = torch.distributed.barrier = lambda *_, **__: None
    module, kind = recipe_of(settings["recipe"])
    module.validate_missing_and_unexpected_for_lora = lambda **_: None
    weights = {training.MODEL_KEY: {}}
    if settings["model"].get("quantize_base"):
        weights[training.MODEL_KEY] = base_weights(settings)
    else:
        made = torch.nn.modules.module._IncompatibleKeys([], [])  # the weights stay as they were made
        torch.nn.Module.load_state_dict = lambda *_, **__: made

        def place(model, _, device, **__):
            model.to_empty(device=device)
            return made

        training.load_from_full_model_state_dict = place

    class Recipe(kind):
        def load_checkpoint(self, *_, **__):
            return weights

        def _setup_data(self, *_, **__):
            return Sequences(settings)

        def save_checkpoint(self, *_, **__):
            pass

    class Client:
        def load_base_checkpoint(self):
            return weights

        def save_checkpoint(self, **_):
            pass

    phases = Phases()
    with tempfile.TemporaryDirectory() as folder:
        config = OmegaConf.create(recipe_settings(settings, folder))
        recipe = Recipe(config)
        recipe._checkpoint_client = Client()
        recipe.setup(config)
        phases.end("init")
        phases.step = 1
        backward = torch.Tensor.backward

        def watched(loss, *arguments, **options):
            phases.end("forward")
            backward(loss, *arguments, **options)
            phases.end("backward")

        torch.Tensor.backward = watched
        phases.around(training, "scale_grads", "clip")
        phases.around(torch.nn.utils, "clip_grad_norm_", "clip")
        if recipe._optimizer is not None:  # it does not step in the backward
            phases.around(recipe._optimizer, "step", "optimizer")
        follow = recipe._lr_scheduler.step

        def step():
            phases.end("zero_grad")
            phases.step = min(phases.step + 1, STEPS)
            follow()

        recipe._lr_scheduler.step = step
        recipe.train()
    return phases.measured()


# --- litgpt -------------------------------------------------------------------------------------------------------------


def litgpt_loader(settings, fabric):
    """Sequences of zeros, collated as litgpt's datasets are."""
    import torch
    from litgpt.data.base import get_sft_collate_fn

    seq = settings["seq"]
    zeros = torch.zeros(seq, dtype=torch.int64)
    one = {"input_ids": zeros, "labels": zeros, "token_counts": {"raw": seq, "raw_plus_prompt_template": seq}}
    rows = settings["batch"] * settings["gpus"] * STEPS * settings.get("accumulation", 1) * 2
    loaders = [torch.utils.data.DataLoader([one] * rows, batch_size=settings["batch"], collate_fn=get_sft_collate_fn()) for _ in range(2)]
    return fabric.setup_dataloaders(*loaders)


class Finished(Exception):
    """The steps are done; what the program writes behind them is left out."""


def litgpt(case):
    import gc
    import importlib
    import pathlib

    import torch
    import yaml
    from litgpt.args import EvalArgs, TrainArgs

    settings = case["settings"]
    program = importlib.import_module(f"litgpt.{settings['program']}")
    if settings["gpus"] > 1:
        fake_world(settings["gpus"])
        torch.distributed.init_process_group = torch.distributed.barrier = lambda *_, **__: None
        device_parser = importlib.import_module("lightning.fabric.utilities.device_parser")
        device_parser._sanitize_gpu_ids = lambda devices, **_: devices  # it asks whether they are there
        program.check_nvlink_connectivity = lambda *_: None
    phases = Phases()

    def finish(*_, **__):
        raise Finished

    def watch_optimizer_of(name):
        make = getattr(program, name, None)

        def watched(*arguments, **options):
            optimizer = make(*arguments, **options)
            phases.around(optimizer, "step", "optimizer")
            return optimizer

        if make is not None:
            setattr(program, name, watched)

    watch_optimizer_of("instantiate_torch_optimizer")
    watch_optimizer_of("instantiate_bnb_optimizer")
    program.auto_download_checkpoint = lambda model_name, **_: pathlib.Path(model_name)
    program.check_valid_checkpoint_dir = program.load_checkpoint = program.Tokenizer = lambda *_, **__: None
    program.get_dataloaders = lambda fabric, *_, **__: litgpt_loader(settings, fabric)
    program.create_finetuning_performance_report = finish
    run = program.fit

    def fit(*arguments, **options):
        gc.collect()  # modules of codes that the adapted ones have replaced hold themselves by a hook
        phases.end("init")
        return run(*arguments, **options)

    program.fit = fit
    made = program.CycleIterator
    batches = itertools.count()

    class Batches(made):
        def __next__(self):
            if next(batches) % settings.get("accumulation", 1) == 0:
                phases.end("zero_grad" if phases.step else "validation")
                phases.step = min(phases.step + 1, STEPS)
            return super().__next__()

    program.CycleIterator = Batches
    backward = torch.Tensor.backward

    def watched(loss, *arguments, **options):
        phases.end("forward")
        backward(loss, *arguments, **options)
        phases.end("backward")

    torch.Tensor.backward = watched
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = pathlib.Path(folder) / "checkpoint"
        checkpoint.mkdir()
        (checkpoint / "model_config.yaml").write_text(yaml.safe_dump(settings["model"]))
        train = TrainArgs(save_interval=None, log_interval=1, micro_batch_size=settings["batch"], lr_warmup_steps=1, epochs=1,
                          global_batch_size=settings["batch"] * settings["gpus"] * settings.get("accumulation", 1),
                          max_steps=STEPS, max_seq_length=settings["seq"])
        with contextlib.suppress(Finished), contextlib.redirect_stdout(sys.stderr):
            program.setup(checkpoint, pathlib.Path(folder) / "out", data=object(), train=train,
                          eval=EvalArgs(interval=1000, max_new_tokens=1, max_iters=2), devices=settings["gpus"],
                          **settings["args"])
    # torch.cuda.max_memory_allocated(), as fit() prints it: of the validation and the first steps, too.
    return {**phases.measured(), "allocated_peak_bytes": max(phases.peaks.values())}


# --- One case after the other -------------------------------------------------------------------------------------------

RUN = {"trainer": trainer, "peft": trainer, "qlora": trainer, "megatron": megatron, "torchtitan": torchtitan, "torchtune": torchtune,
       "litgpt": litgpt}


def missing(framework):
    """The package that a framework's cases lack, or None."""
    import importlib.util

    for package in NEEDS[framework]:
        try:
            if importlib.util.find_spec(package) is None:
                return package
        except ModuleNotFoundError:
            return package
    return None


def in_a_process(case):
    environment = dict(os.environ)
    if "allocator" in case:
        environment["PYTORCH_ALLOC_CONF"] = case["allocator"]
    ran = subprocess.run([sys.executable, __file__, "-"], input=json.dumps(case), capture_output=True, text=True, env=environment)
    lines = [line for line in ran.stdout.splitlines() if line.startswith('{"id"')]
    return json.loads(lines[-1]) if lines else {"id": case["id"], "error": (ran.stderr.strip().splitlines() or ["nothing"])[-1]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", help="JSON lines, or - for one case on standard input, run in this process")
    parser.add_argument("-o", "--output")
    parser.add_argument("--only", help="comma-separated ids")
    words = parser.parse_args()
    if words.cases == "-":
        case = json.load(sys.stdin)
        print(json.dumps({"id": case["id"], **RUN[case["framework"]](case)}))
        return
    with open(words.cases) as file:
        cases = [json.loads(line) for line in file]
    wanted = words.only.split(",") if words.only else [case["id"] for case in cases]
    with open(words.output, "a") if words.output else contextlib.nullcontext(sys.stdout) as output:
        for case in cases:
            if case["id"] not in wanted:
                continue
            package = missing(case["framework"])
            raw = {"id": case["id"], "missing": package} if package else in_a_process(case)
            print(json.dumps(raw), file=output, flush=True)


if __name__ == "__main__":
    main()
