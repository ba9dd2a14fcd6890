#include "memest/spec/change_words.hpp"

#include <string_view>

#include "memest/spec/framework.hpp"
#include "spec/change_word_rows.hpp"

namespace memest {
namespace {

// A model of transformers is made alike for a loop and for the Trainer.
constexpr std::string_view kSdpa = R"(from_pretrained(..., attn_implementation="sdpa"))";
constexpr std::string_view kLora =
    R"(peft.get_peft_model(model, LoraConfig(r=16, target_modules=["q_proj", "v_proj"])))";

constexpr std::string_view kQlora =
    R"(from_pretrained(..., quantization_config=BitsAndBytesConfig(load_in_4bit=True, )"
    R"(bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, )"
    R"(bnb_4bit_compute_dtype=torch.bfloat16)), then )"
    R"(peft.get_peft_model(model, LoraConfig(r=16, target_modules=["q_proj", "v_proj"])))";
constexpr std::string_view kQloraOfFp32 =
    R"(from_pretrained(..., quantization_config=BitsAndBytesConfig(load_in_4bit=True, )"
    R"(bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, )"
    R"(bnb_4bit_compute_dtype=torch.bfloat16)), then )"
    R"(peft.get_peft_model(peft.prepare_model_for_kbit_training(model, )"
    R"(use_gradient_checkpointing=False), )"
    R"(LoraConfig(r=16, target_modules=["q_proj", "v_proj"])))";

constexpr std::string_view kSaveOnCpu =
    "with torch.autograd.graph.save_on_cpu(pin_memory=True): loss = model(**batch).loss";
constexpr std::string_view kSaveOnCpuAround =
    "with torch.autograd.graph.save_on_cpu(pin_memory=True): around forward and loss";

}  // namespace

// transformers 5.17, peft 0.21, bitsandbytes 0.50, liger-kernel 0.8.5, DeepSpeed 0.19,
// PyTorch 2.11.
const ChangeWords kWordsOfTransformers = {
    .recompute_full =
        R"(model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": )"
        "False})",
    .recompute_first =
        R"(model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": )"
        "False}); for layer in model.model.layers[{k}:]: layer.gradient_checkpointing = False",
    .save_on_cpu = kSaveOnCpu,
    .micro_batch = "DataLoader(batch_size={b}), loss / {m}, optimizer.step() every {m} backwards",
    .fused_optimizer = "torch.optim.{optimizer}, fused=True)",
    .adamw_8bit = "bitsandbytes.optim.AdamW8bit(model.parameters())",
    .sdpa = kSdpa,
    .liger = "liger_kernel.transformers.AutoLigerKernelForCausalLM.from_pretrained(...)",
    .compile = "for layer in model.model.layers: layer.compile()",
    .bf16 = "from_pretrained(..., dtype=torch.bfloat16), without autocast",
    .lora = kLora,
    .qlora = kQlora,
    .qlora_of_fp32 = kQloraOfFp32,
    .zero1 = R"(DeepSpeed: "zero_optimization": {"stage": 1})",
    .zero2 = R"(DeepSpeed: "zero_optimization": {"stage": 2})",
    .zero2_offload = R"(DeepSpeed: "zero_optimization": {"stage": 2, )"
                     R"("offload_optimizer": {"device": "cpu", "pin_memory": true}})",
    .zero3 = R"(DeepSpeed: "zero_optimization": {"stage": 3})",
    .fsdp2 = "fully_shard(layer) for every layer, then fully_shard(model)",
    .fsdp2_offload = "the same, fully_shard(..., offload_policy=CPUOffloadPolicy())",
};

const ChangeWords kWordsOfTrainer = {
    .recompute_full =
        "TrainingArguments(gradient_checkpointing=True, "
        R"(gradient_checkpointing_kwargs={"use_reentrant": False}))",
    .micro_batch =
        "TrainingArguments(per_device_train_batch_size={b}, gradient_accumulation_steps={m})",
    .fused_optimizer = R"(TrainingArguments(optim="adamw_torch_fused"))",
    .adamw_8bit = R"(TrainingArguments(optim="adamw_bnb_8bit"))",
    .sdpa = kSdpa,
    .liger = "TrainingArguments(use_liger_kernel=True)",
    .bf16 = "from_pretrained(..., dtype=torch.bfloat16), TrainingArguments(bf16=False)",
    .lora = kLora,
    .zero1 = R"(TrainingArguments(deepspeed={"zero_optimization": {"stage": 1}, ...}))",
    .zero2 = R"(TrainingArguments(deepspeed={"zero_optimization": {"stage": 2}, ...}))",
    .zero3 = R"(TrainingArguments(deepspeed={"zero_optimization": {"stage": 3}, ...}))",
    .fsdp2 = "accelerate launch --use_fsdp --fsdp_version 2",
    .fsdp2_offload = "accelerate launch --use_fsdp --fsdp_version 2 --fsdp_offload_params true",
};

// torchtitan 0.2.2, config/job_config.py.
const ChangeWords kWordsOfTorchtitan = {
    .recompute_full = R"([activation_checkpoint] mode = "full")",
    .recompute_selective =
        R"([activation_checkpoint] mode = "selective", selective_ac_option = "op")",
    .recompute_every_second =
        R"([activation_checkpoint] mode = "selective", selective_ac_option = "2")",
    .micro_batch = "[training] local_batch_size = {b}, where global_batch_size is written",
    .fused_optimizer = R"([optimizer] implementation = "fused")",
    .compile = "[compile] enable = true",
    .fsdp2 = "[parallelism] data_parallel_shard_degree = -1",
    .fsdp2_offload = "[training] enable_cpu_offload = true",
};

// Megatron-core 0.16.1, megatron/training/arguments.py.
const ChangeWords kWordsOfMegatron = {
    .recompute_full =
        "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1",
    .recompute_selective = "--recompute-granularity selective",
    .recompute_modules = "--recompute-granularity selective --recompute-modules {modules}",
    .recompute_first =
        "--recompute-granularity full --recompute-method block --recompute-num-layers {k}",
    .micro_batch = "--micro-batch-size {b}",
    .sharded_states = "--use-distributed-optimizer",
};

// karpathy/nanoGPT, model.py and train.py, whose gradient_accumulation_steps is of all GPUs
// together.
const ChangeWords kWordsOfNanoGpt = {
    .recompute_full =
        "GPT.forward: x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)",
    .micro_batch = "--batch_size={b} --gradient_accumulation_steps={m} (times the GPUs)",
};

const ChangeWords kWordsOfPlain = {
    .recompute_full = "torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)",
    .recompute_selective =
        "checkpoint(block, x, use_reentrant=False, context_fn=functools.partial("
        "create_selective_checkpoint_contexts, [torch.ops.aten.convolution.default, "
        "torch.ops.aten.addmm.default, torch.ops.aten.mm.default]))",
    .save_on_cpu = kSaveOnCpuAround,
    .micro_batch = "batches of {b}, loss / {m}, optimizer.step() every {m} backwards",
    .fused_optimizer = "torch.optim.{optimizer}, fused=True)",
};

const ChangeWords& change_words_of(const Implementation& implementation) {
  static constexpr ChangeWords kNone;
  const ChangeWords* const of_loop = row_of(implementation.loop).change_words;
  const ChangeWords* const of_framework = row_of(implementation.framework).change_words;
  if (of_loop != nullptr) return *of_loop;
  return of_framework != nullptr ? *of_framework : kNone;
}

}  // namespace memest
