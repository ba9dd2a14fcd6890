// The files of a Hugging Face Trainer's job: what keys of several files decide together.
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "memest/reader/import.hpp"
#include "memest/report/diagnostics.hpp"
#include "reader/foreign/foreign_import.hpp"
#include "reader/request/read_spec.hpp"

namespace memest {
namespace {

namespace fs = std::filesystem;

using Texts = std::vector<std::pair<std::string, std::string>>;  // name, text

/// A folder with the files, where they are read.
class Folder {
 public:
  explicit Folder(const Texts& texts)
      : before_(fs::current_path()), path_(fs::temp_directory_path() / "memest-hugging-face") {
    fs::remove_all(path_);
    fs::create_directories(path_);
    fs::current_path(path_);
    for (const auto& [name, text] : texts) {
      if (fs::path(name).has_parent_path()) fs::create_directories(fs::path(name).parent_path());
      std::ofstream(name) << text;
    }
  }
  ~Folder() {
    fs::current_path(before_);
    fs::remove_all(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

 private:
  fs::path before_;
  fs::path path_;
};

/// The tree of the first `count` files; the others are there to be named.
Checked<Value> tree_of(const Texts& texts, std::size_t count) {
  const Folder folder(texts);
  ReadRequest request;
  for (std::size_t i = 0; i < count; ++i) request.files.push_back(texts[i].first);
  return read_tree(request);
}
Checked<Value> tree_of(const Texts& texts) { return tree_of(texts, texts.size()); }

std::string value_of(const Checked<Value>& tree, std::string_view path) {
  INFO(render(tree.diagnostics(), {}));
  REQUIRE(tree.ok());
  const Value* value = find_path(tree.value(), path);
  if (value == nullptr) return "nothing";
  std::string text = value->text;
  for (const Value& item : value->items) text += (text.empty() ? "" : " ") + item.text;
  for (const Member& member : value->members) {
    text += (text.empty() ? "" : " ") + member.key + ":" + member.value.text;
  }
  return text;
}

std::string first_of(const Checked<Value>& tree) {
  return tree.diagnostics().empty() ? "" : tree.diagnostics()[0].message;
}

Texts trainer(const std::string& keys) {
  return {{"a.yaml", "output_dir: out\nper_device_train_batch_size: 4\n" + keys}};
}

TEST_CASE("the weights' type and the cast of a Trainer are a recipe") {
  const auto recipe = [](const std::string& keys) {
    return value_of(tree_of(trainer(keys)), "training.precision");
  };
  CHECK(recipe("dtype: float32\n") == "fp32");
  CHECK(recipe("dtype: float32\nbf16: true\n") == "amp-bf16");
  CHECK(recipe("torch_dtype: bfloat16\nbf16: true\n") == "bf16-autocast");
  CHECK(recipe("torch_dtype: bfloat16\n") == "bf16");
  CHECK(recipe("fp16: true\n") == "amp-fp16");
  CHECK(recipe("bf16: true\n") == "amp-bf16");
  CHECK(first_of(tree_of(trainer("bf16: true\n"))) ==
        "no file says in which type the weights are loaded: fp32 is taken");
  CHECK(first_of(tree_of(trainer("dtype: float16\nfp16: true\n"))) ==
        "autocast over weights in fp16, or in another 16-bit type is not available yet");
}

TEST_CASE("what a Trainer's file leaves out has the program's own default") {
  const auto plain = tree_of(trainer(""));
  CHECK(value_of(plain, "training.optimizer") == "name:adamw implementation:fused");
  CHECK(value_of(plain, "training.clip_gradients") == "true");
  CHECK(value_of(plain, "training.recompute") == "none");
  CHECK(value_of(plain, "training.seq_len") == "nothing");
  CHECK(value_of(tree_of({{"a.yaml", "output_dir: x\nlearning_rate: 1\n"}}),
                 "training.micro_batch") == "8");
  const auto trl = tree_of({{"a.yaml", "model_name_or_path: Qwen/Qwen3-0.6B\nuse_peft: true\n"}});
  CHECK(value_of(trl, "training.recompute") == "full");
  CHECK(value_of(trl, "training.precision") == "amp-bf16");
  CHECK(value_of(trl, "training.seq_len") == "1024");
  CHECK(value_of(trl, "training.adapter.lora.targets") == "q_proj v_proj");
  const auto dora = tree_of(
      {{"a.yaml", "model_name_or_path: Qwen/Qwen3-0.6B\nuse_peft: true\nuse_dora: true\n"}});
  CHECK(value_of(dora, "training.adapter.dora.rank") == "16");
  CHECK(value_of(dora, "training.adapter.dora.targets") == "q_proj v_proj");
  CHECK(value_of(dora, "training.adapter.lora") == "nothing");
}

TEST_CASE("a file of trl sft has SFTTrainer's loop where its sharing is known there") {
  const auto loop = [](const std::string& launch) {
    const std::string keys = "model_name_or_path: Qwen/Qwen3-0.6B\nuse_peft: true\n";
    return value_of(tree_of({{"a.yaml", keys}, {"launch.yaml", launch}}),
                    "training.implementation.loop");
  };
  const std::string deepspeed =
      "compute_environment: LOCAL_MACHINE\nnum_processes: 8\nmixed_precision: bf16\n"
      "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 3\n";
  CHECK(loop(deepspeed) == "sft");
  CHECK(loop(deepspeed + "  offload_optimizer_device: cpu\n") == "trainer");
  const std::string fsdp =
      "compute_environment: LOCAL_MACHINE\nnum_processes: 8\nmixed_precision: bf16\n"
      "distributed_type: FSDP\nfsdp_config:\n";
  CHECK(loop(fsdp + "  fsdp_version: 2\n") == "sft");
  CHECK(loop(fsdp + "  fsdp_version: 1\n") == "trainer");
  CHECK(loop(fsdp + "  fsdp_version: 2\n  fsdp_offload_params: true\n") == "trainer");
}

TEST_CASE("what the Trainer tells DistributedDataParallel is told") {
  const auto tree = tree_of(trainer("ddp_find_unused_parameters: false\nddp_bucket_cap_mb: 50\n"));
  CHECK(value_of(tree, "parallelism.ddp.find_unused_parameters") == "false");
  CHECK(value_of(tree, "parallelism.ddp.bucket_mb") == "50");
}

TEST_CASE("an adapter_config.json says the adapter, alone and beside a Trainer's arguments") {
  const std::string prompt =
      "{\"peft_type\": \"PROMPT_TUNING\", \"task_type\": \"CAUSAL_LM\", \"num_virtual_tokens\": "
      "20, "
      "\"prompt_tuning_init\": \"RANDOM\", \"token_dim\": null}";
  const auto alone = tree_of({{"adapter_config.json", prompt}});
  CHECK(value_of(alone, "training.adapter.prompt_tuning.num_virtual_tokens") == "20");
  const auto beside =
      tree_of({{"args.yaml", "per_device_train_batch_size: 4\nmax_seq_length: 128\n"},
               {"adapter_config.json", prompt}});
  CHECK(value_of(beside, "training.adapter.prompt_tuning.num_virtual_tokens") == "20");
  CHECK(value_of(beside, "training.micro_batch") == "4");
  const auto vera =
      tree_of({{"adapter_config.json",
                "{\"peft_type\": \"VERA\", \"r\": 64, \"target_modules\": [\"q_proj\", "
                "\"v_proj\"], \"vera_dropout\": 0.1}"}});
  CHECK(value_of(vera, "training.adapter.vera.rank") == "64");
  CHECK(value_of(vera, "training.adapter.vera.targets") == "q_proj v_proj");
  const auto lora =
      tree_of({{"adapter_config.json",
                "{\"peft_type\": \"LORA\", \"r\": 16, \"target_modules\": [\"q_proj\"], "
                "\"use_dora\": true, \"bias\": \"none\"}"}});
  CHECK(value_of(lora, "training.adapter.dora.rank") == "16");
  // peft takes the model's own modules there, of which no key would be left.
  CHECK(first_of(tree_of({{"adapter_config.json", "{\"peft_type\": \"IA3\"}"}})) ==
        "the adapter 'IA3' without 'target_modules' is not available yet");
  CHECK(first_of(tree_of({{"adapter_config.json", "{\"peft_type\": \"PROMPT_TUNING\"}"}})) ==
        "the adapter 'PROMPT_TUNING' without 'num_virtual_tokens' is not available yet");
  const auto factory = tree_of({{"a.yaml", "model_name_or_path: gpt2\nfinetuning_type: lora\n"}});
  CHECK(value_of(factory, "training.recompute.full") == "reentrant:true");
  CHECK(value_of(factory, "training.adapter.lora.targets") == "c_attn c_proj c_fc");
  CHECK(value_of(factory, "training.seq_len") == "2048");
  const auto axolotl = tree_of({{"a.yaml",
                                 "base_model: Qwen/Qwen3-0.6B\nadapter: lora\nlora_r: 4\n"
                                 "lora_target_linear: true\ngradient_checkpointing: true\n"}});
  CHECK(value_of(axolotl, "training.micro_batch") == "1");
  CHECK(value_of(axolotl, "training.precision") == "bf16-autocast");
  CHECK(value_of(axolotl, "training.recompute.full") == "reentrant:true");
  CHECK(value_of(axolotl, "training.adapter.lora.rank") == "4");
  const auto both = tree_of({{"a.yaml",
                              "base_model: Qwen/Qwen3-0.6B\nadapter: lora\nlora_r: 4\n"
                              "lora_target_linear: true\nlora_target_modules: [q_proj]\n"}});
  CHECK(value_of(both, "training.adapter.lora.targets") ==
        "q_proj k_proj v_proj o_proj gate_proj up_proj down_proj");
}

TEST_CASE("SFTTrainer's loop is read where its loss is known, the Trainer's elsewhere") {
  const auto loop_of = [](const std::string& keys) {
    const std::string file = "model_name_or_path: Qwen/Qwen3-0.6B\nuse_peft: true\n" + keys;
    return value_of(tree_of({{"a.yaml", file}}), "training.implementation.loop");
  };
  CHECK(loop_of("") == "sft");
  CHECK(loop_of("attn_implementation: sdpa\npacking: false\ncompletion_only_loss: true\n") ==
        "sft");
  for (const char* keys :
       {"load_in_4bit: true\n", "fp16: true\n", "max_seq_length: 512\n",
        "lora_modules_to_save: [lm_head]\n", "attn_implementation: eager\n",
        "gradient_checkpointing_kwargs: {use_reentrant: true}\n", "fsdp: full_shard offload\n"}) {
    INFO(keys);
    CHECK(loop_of(keys) == "trainer");
  }
  for (const char* keys :
       {"packing: true\npacking_strategy: wrapped\n", "attn_implementation: flash_attention_2\n",
        "load_in_4bit: true\ndtype: bfloat16\n", "fsdp: full_shard\n"}) {
    INFO(keys);
    CHECK(loop_of(keys) == "sft");
  }
  const std::string file = "model_name_or_path: Qwen/Qwen3-0.6B\nuse_peft: false\n";
  const std::string launch = "distributed_type: MULTI_GPU\nnum_processes: 4\n";
  CHECK(value_of(tree_of({{"a.yaml", file}, {"launch.yaml", launch}}),
                 "training.implementation.loop") == "sft");
}

TEST_CASE("packed documents lie as one beside flash attention, and are refused elsewhere") {
  const std::string trl = "model_name_or_path: Qwen/Qwen3-0.6B\nuse_peft: false\n";
  const std::string axolotl = "base_model: Qwen/Qwen3-0.6B\n";
  const std::string flash = "attn_implementation: flash_attention_2\n";
  const auto joins = [](const std::string& file) {
    return value_of(tree_of({{"a.yaml", file}}), "training.padding_free");
  };
  for (const char* keys : {"packing: true\n", "packing: true\npacking_strategy: bfd_split\n",
                           "padding_free: true\n"}) {
    INFO(keys);
    CHECK(joins(trl + flash + keys) == "true");
    CHECK(first_of(tree_of({{"a.yaml", trl + keys}})) ==
          "documents that lie as one without the flash-attn package is not available yet");
  }
  CHECK(joins(trl + flash + "packing: true\npacking_strategy: wrapped\n") == "nothing");
  CHECK(joins(trl + flash) == "nothing");
  CHECK(joins(axolotl + "sample_packing: true\nflash_attention: true\n") == "true");
  CHECK(joins(axolotl + flash + "sample_packing: true\n") == "true");
  CHECK(joins(axolotl + flash + "sample_packing: false\n") == "nothing");
}

TEST_CASE("the type that codes are packed in is read where FSDP2 cuts them") {
  const std::string launch =
      "distributed_type: FSDP\nfsdp_config: {fsdp_version: 2}\nnum_processes: 4\n"
      "mixed_precision: bf16\n";
  const auto storage_of = [&](const std::string& file, bool sharded) {
    const auto tree = sharded ? tree_of({{"a.yaml", file}, {"launch.yaml", launch}})
                              : tree_of({{"a.yaml", file}});
    return value_of(tree, "compression.quantize.quant_storage");
  };
  const std::string trl =
      "model_name_or_path: Qwen/Qwen3-0.6B\nuse_peft: true\nload_in_4bit: true\n"
      "dtype: bfloat16\n";
  CHECK(storage_of(trl + "bnb_4bit_quant_storage: bfloat16\n", true) == "bf16");
  CHECK(storage_of(trl + "bnb_4bit_quant_storage: uint8\n", true) == "nothing");
  CHECK(storage_of(trl, true) == "nothing");
  // Alone a GPU keeps all codes, whatever they are packed in.
  CHECK(storage_of(trl + "bnb_4bit_quant_storage: bfloat16\n", false) == "nothing");
  const std::string factory =
      "model_name_or_path: Qwen/Qwen3-0.6B\nstage: sft\nfinetuning_type: lora\n"
      "quantization_bit: 4\nbf16: true\n";
  CHECK(storage_of(factory, true) == "bf16");
  CHECK(storage_of(factory, false) == "nothing");
}

TEST_CASE("a length that is written as none is none") {
  const std::string keys = "use_peft: false\nmodel_name_or_path: gpt2\n";
  CHECK(value_of(tree_of({{"a.yaml", keys + "max_length: null\n"}}), "training.seq_len") ==
        "nothing");
  CHECK(value_of(tree_of({{"a.yaml", keys}}), "training.seq_len") == "1024");
}

TEST_CASE("files that decide a job together are one, in any order") {
  const std::pair<std::string, std::string> args = trainer("bf16: true\n").front();
  const std::pair<std::string, std::string> ds = {
      "ds.json", R"({"train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"},
                     "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto",
                                           "stage3_prefetch_bucket_size": 5e7}})"};
  const std::pair<std::string, std::string> config = {
      "config.json", R"({"model_type": "gpt2", "n_embd": 768, "n_layer": 2, "n_head": 12})"};
  for (const Texts& order : {Texts{args, ds, config}, Texts{config, ds, args}}) {
    const auto tree = tree_of(order);
    CHECK(value_of(tree, "training.precision") == "mixed");
    CHECK(value_of(tree, "training.micro_batch") == "4");
    CHECK(value_of(tree, "parallelism.zero") == "3");
    CHECK(value_of(tree, "parallelism.deepspeed.stage3_prefetch_bucket_size") == "50000000");
    CHECK(value_of(tree, "model.hf.n_embd") == "768");
  }
}

TEST_CASE("a file that another names is read beside it or above it") {
  const std::string ds = R"({"zero_optimization": {"stage": 2}})";
  const std::string keys = "output_dir: x\nlearning_rate: 1\nbf16: true\ndeepspeed: sub/ds.json\n";
  CHECK(value_of(tree_of({{"deep/a.yaml", keys}, {"deep/sub/ds.json", ds}}, 1),
                 "parallelism.zero") == "2");
  CHECK(value_of(tree_of({{"deep/down/a.yaml", keys}, {"deep/sub/ds.json", ds}}, 1),
                 "parallelism.zero") == "2");
  CHECK(first_of(tree_of({{"deep/a.yaml", keys}})) == "'sub/ds.json' is no file");
  CHECK(first_of(tree_of({{"a.yaml", keys}, {"sub/ds.json", "{\"model_type\": \"gpt2\"}"}}, 1)) ==
        "this is not what the file that names it takes it for");
  const std::string inside =
      "output_dir: x\nlearning_rate: 1\n"
      "deepspeed: {zero_optimization: {stage: 1}}\n";
  CHECK(value_of(tree_of({{"a.yaml", inside}}), "parallelism.zero") == "1");
  const std::string launch =
      "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n"
      "  deepspeed_config_file: sub/ds.json\n";
  CHECK(value_of(tree_of({{"l.yaml", launch}, {"sub/ds.json", ds}}, 1), "parallelism") ==
        "data:8 zero:2");
}

TEST_CASE("accelerate says how the ranks share") {
  const auto launch = [](const std::string& keys) {
    Texts texts = trainer("bf16: true\n");
    texts.emplace_back("l.yaml", "num_processes: 4\n" + keys);
    return tree_of(texts);
  };
  CHECK(value_of(launch("distributed_type: MULTI_GPU\n"), "parallelism") == "data:4");
  CHECK(value_of(launch("distributed_type: DEEPSPEED\n"), "parallelism") == "data:4 zero:2");
  const std::string fsdp = "distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\n";
  CHECK(value_of(launch(fsdp), "parallelism.fsdp") == "version:2 reshard_after_forward:true");
  CHECK(value_of(launch(fsdp + "  fsdp_offload_params: true\n"), "parallelism.offload") ==
        "optimizer:cpu parameters:cpu");
  CHECK(value_of(launch(fsdp + "  fsdp_activation_checkpointing: true\n"), "training.recompute") ==
        "full");
  CHECK(value_of(launch("distributed_type: FSDP\nfsdp_config:\n"
                        "  fsdp_sharding_strategy: SHARD_GRAD_OP\n"),
                 "parallelism.fsdp") == "version:1 reshard_after_forward:false");
  CHECK(first_of(launch("distributed_type: FSDP\nfsdp_config:\n"
                        "  fsdp_sharding_strategy: HYBRID_SHARD\n")) ==
        "the sharding strategy 'HYBRID_SHARD' is not available yet");
  CHECK(first_of(launch("distributed_type: MEGATRON_LM\n")) ==
        "'MEGATRON_LM' under accelerate is not available yet");
}

TEST_CASE("a Trainer's own FSDP is that of transformers 5") {
  const auto own = [](const std::string& keys) { return tree_of(trainer("bf16: true\n" + keys)); };
  CHECK(value_of(own("fsdp: true\n"), "parallelism.fsdp") ==
        "version:2 reshard_after_forward:true");
  CHECK(value_of(own("fsdp: shard_grad_op auto_wrap offload\n"), "parallelism") ==
        "fsdp: offload:");
  CHECK(value_of(own("fsdp: [shard_grad_op, auto_wrap]\n"), "parallelism.fsdp") ==
        "version:2 reshard_after_forward:false");
  CHECK(
      value_of(own("fsdp: full_shard\nfsdp_config: {version: 1, activation_checkpointing: true}\n"),
               "training.recompute") == "full");
  CHECK(value_of(own("fsdp: ''\n"), "parallelism") == "nothing");
  CHECK(first_of(own("fsdp: true\nfsdp_config: fsdp.json\n")) ==
        "a file of FSDP's own keys is not available yet");
}

TEST_CASE("DeepSpeed's engine has types of its own") {
  const auto recipe = [](const std::string& types) {
    return value_of(
        tree_of({{"ds.json", "{\"zero_optimization\": {\"stage\": 1}, " + types + "}"}}),
        "training.precision");
  };
  CHECK(recipe(R"("bf16": {"enabled": true})") == "mixed");
  CHECK(recipe(R"("bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"})") ==
        "mixed-fp32-grad");
  CHECK(recipe(R"("bf16": {"enabled": false})") == "fp32");
  CHECK(recipe(R"("bf16": {"enabled": "auto"})") == "nothing");
}

TEST_CASE("8-bit states are those of an adapter and of a whole model") {
  const auto whole = tree_of(trainer("dtype: float32\noptim: adamw_bnb_8bit\n"));
  CHECK(value_of(whole, "training.optimizer") == "adamw-8bit");
  const auto adapter = tree_of({{"a.yaml",
                                 "model_name_or_path: gpt2\nfinetuning_type: lora\n"
                                 "optim: paged_adamw_8bit\nbf16: true\n"}});
  CHECK(value_of(adapter, "training.optimizer") == "paged-adamw-8bit");
}

TEST_CASE("warnings name the key, its line and what is taken instead") {
  const Texts texts = {{"a.yaml",
                        "output_dir: out\n"
                        "model_name_or_path: acme/none-7b\n"
                        "per_device_train_batch_size: 1\n"
                        "gradient_chekpointing: true\n"
                        "dtype: float32\n"},
                       {"l.yaml", "distributed_type: MULTI_GPU\nnum_gpus: 4\n"}};
  const auto tree = tree_of(texts);
  REQUIRE(tree.ok());
  Diagnostics shown = tree.diagnostics();
  shown.resize(3);
  CHECK(
      render(shown, {}) ==
      "a.yaml:2:1: warning: 'model_name_or_path' is not followed\n"
      "  2 | model_name_or_path: acme/none-7b\n"
      "    | ^~~~~~~~~~~~~~~~~~\n"
      "    = hint: memest knows no sizes of 'acme/none-7b': put its config.json beside this file, "
      "memest\n"
      "            import config.json FILE\n"
      "a.yaml:4:1: warning: 'gradient_chekpointing' is no key of transformers' "
      "TrainingArguments that\n"
      "    memest knows\n"
      "  4 | gradient_chekpointing: true\n"
      "    | ^~~~~~~~~~~~~~~~~~~~~\n"
      "    = hint: it is passed over\n"
      "l.yaml:2:1: warning: 'num_gpus' is no key of an accelerate config that memest knows\n"
      "  2 | num_gpus: 4\n"
      "    | ^~~~~~~~\n"
      "    = hint: it is passed over\n");
}

}  // namespace
}  // namespace memest
