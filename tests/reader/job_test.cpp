#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <numeric>
#include <string>
#include <variant>
#include <vector>

#include "memest/reader/catalog.hpp"
#include "memest/reader/read_job.hpp"
#include "reader/frameworks/megatron_stages.hpp"

namespace memest {
namespace {

constexpr const char* kModel =
    "model: {layers: 2, hidden_size: 64, heads: 4, vocab_size: 100}\n"
    "training: {seq_len: 128}\n";

Checked<Job> read_text(std::string text) {
  return read_job(std::make_shared<const SourceText>(SourceText{"spec.yaml", std::move(text)}));
}

Job job_of(const std::string& text) {
  Checked<Job> job = read_text(text);
  for (const Diagnostic& diagnostic : job.diagnostics()) UNSCOPED_INFO(diagnostic.message);
  REQUIRE(job.ok());
  return std::move(job).value();
}

std::string first_error(const std::string& text) {
  const Checked<Job> job = read_text(text);
  return job.ok() ? "ok" : job.diagnostics().front().message;
}

const DecoderSpec& decoder_of(const Job& job) {
  return std::get<DecoderSpec>(job.model.architecture);
}

}  // namespace

TEST_CASE("what a spec leaves out has the documented default") {
  const Job job = job_of(kModel);
  const DecoderSpec& decoder = decoder_of(job);
  const auto& attention = std::get<SoftmaxAttention>(decoder.attention);
  CHECK(attention.kv_heads == 4);
  CHECK(attention.head_dim == 16);
  CHECK(std::get<RotaryPosition>(decoder.position).rotary_dim == 16);
  REQUIRE(decoder.kinds.size() == 1);
  const auto& feed_forward = std::get<DenseFeedForward>(decoder.kinds[0].feed_forward);
  CHECK(feed_forward.size == 4 * 64);
  CHECK_FALSE(feed_forward.gated);
  CHECK(decoder.layers() == 2);
  CHECK(job.name == "spec");
  CHECK(job.model.name == "spec");
  REQUIRE(job.training);
  CHECK(job.training->micro_batch == 1);
  CHECK(job.training->gradient_accumulation == 1);
  CHECK(job.training->recipe.name == "amp-bf16");
  CHECK(job.training->optimizer.name == "adamw");
  CHECK(job.training->optimizer_implementation == OptimizerImplementation::foreach_);
  CHECK(job.training->implementation.framework == Framework::transformers);
  CHECK(job.training->implementation.norm == NormKernel::composite);
  CHECK(job.hardware.assumed);
  CHECK(job.hardware.gpu.slug == kDefaultGpu);
  CHECK(job.hardware.price);
  CHECK(job.hardware.count == 1);
  CHECK_FALSE(job.given.global_batch);
}

TEST_CASE("GPUs and data-parallel ranks follow from each other") {
  const std::string model = kModel;
  CHECK(job_of(model + "hardware: {count: 8}\n").parallelism.data == 8);
  CHECK(job_of(model + "parallelism: {data: 4}\n").hardware.count == 4);
  CHECK(job_of(model + "parallelism: {}\n").hardware.count == 1);
  CHECK(first_error(model + "parallelism: {}\nhardware: {count: 8}\n") ==
        "'parallelism' uses 1 GPU (data 1), 'hardware.count' is 8");
  CHECK(first_error(model + "parallelism: {data: 2}\nhardware: {count: 8}\n") ==
        "'parallelism' uses 2 GPUs (data 2), 'hardware.count' is 8");
  CHECK(job_of(model + "parallelism: {data: 2, distributed_optimizer: true}\n").parallelism.zero ==
        ZeroStage::optimizer);
}

TEST_CASE("GPUs of the flag leave what the other ranks do not take to the data-parallel ones") {
  const auto job = [](std::vector<std::string> overrides) {
    ReadRequest request{.files = {"llama-3-8b"}, .overrides = {}, .gpus = 8};
    for (std::string& text : overrides) request.overrides.push_back({"--set", std::move(text)});
    return read_job(request);
  };
  const std::string megatron = "training.implementation={name: megatron, layers: te}";
  const std::string precision = "training.precision=megatron";
  const Checked<Job> split = job({megatron, precision, "parallelism={context: 4, data: 7}"});
  CHECK_FALSE(split.ok());  // 28 GPUs, as written
  const Checked<Job> left = job({megatron, precision, "parallelism.context=4"});
  REQUIRE(left.ok());
  CHECK(left.value().hardware.count == 8);
  CHECK(left.value().parallelism.data == 2);
  const Checked<Job> alone = job({});
  REQUIRE(alone.ok());
  CHECK(alone.value().parallelism.data == 8);
}

TEST_CASE("the global batch decides the accumulation, and both must agree") {
  const std::string model = "model: {layers: 2, hidden_size: 64, heads: 4, vocab_size: 100}\n";
  const std::string four = "parallelism: {data: 4}\n";
  const Job job =
      job_of(model + four + "training: {seq_len: 8, micro_batch: 2, global_batch: 64}\n");
  CHECK(job.training->gradient_accumulation == 8);
  CHECK(job.global_batch() == 64);
  CHECK(job.given.global_batch);
  CHECK(job.given.micro_batch);
  CHECK(first_error(model + four + "training: {seq_len: 8, micro_batch: 3, global_batch: 64}\n") ==
        "'global_batch' 64 is not a multiple of micro_batch 3 x data 4 = 12");
  CHECK(first_error(model + four +
                    "training: {seq_len: 8, global_batch: 64, gradient_accumulation: 2}\n") ==
        "'gradient_accumulation' 2 does not agree with 'global_batch' 64 and micro_batch 1 x data "
        "4");
  CHECK(
      job_of(model + four + "training: {seq_len: 8, global_batch: 64, gradient_accumulation: 16}\n")
          .global_batch() == 64);
}

TEST_CASE("a layer list keeps its repeats, and blocks within blocks are written out") {
  const Job job = job_of(
      "model: {layers: [{repeat: 8, block: [{linear: {in: 16, out: 16}}, {relu: {}}]},\n"
      "  {repeat: 2, block: [{repeat: 3, block: [{softmax: {}}]}, {linear: {in: 16, out: 16, "
      "bias: false}}]}]}\n"
      "training: {seq_len: 4}\n");
  const auto& list = std::get<LayerList>(job.model.architecture);
  REQUIRE(list.blocks.size() == 2);
  CHECK(list.blocks[0].repeat == 8);
  CHECK(list.blocks[0].block.size() == 2);
  CHECK(std::get<LinearLayer>(list.blocks[0].block[0]).bias);
  CHECK(list.blocks[1].repeat == 2);
  CHECK(list.blocks[1].block.size() == 4);
  CHECK(job.training->implementation.framework == Framework::plain);
  const std::string broken =
      "model: {layers: [{linear: {in: 4, out: 8}}, {linear: {in: 4, out: 4}}]}";
  CHECK(first_error(broken) == "the layer before gives 8 features, this one takes 4");
  CHECK(first_error("model: {layers: [{repeat: 2, block: [{linear: {in: 4, out: 8}}]}]}") ==
        "the block takes 4 features and gives 8, so it cannot repeat");
  CHECK(first_error("model: {layers: [{repeat: 1000, block: [{repeat: 1000, block: [{repeat: "
                    "1000, block: [{relu: {}}]}]}]}]}") == "a block of more than 10000 layers");
}

TEST_CASE("torchtitan's units stay gathered as its own default says, where the spec is silent") {
  const auto reshard = [](const std::string& implementation, const std::string& more) {
    return job_of(
               "model: {layers: 4, hidden_size: 64, heads: 4, ffn_size: 128, vocab_size: 100, "
               "activation: swiglu, norm: rmsnorm, position: rope, bias: false}\ntraining: "
               "{seq_len: 128, precision: fsdp2-bf16, implementation: " +
               implementation + "}\nparallelism: {data: 2, " + more + "}\n")
        .parallelism.reshard();
  };
  CHECK(reshard("torchtitan", "fsdp: {version: 2}") == Reshard::all_but_last);
  CHECK(reshard("torchtitan", "fsdp: {version: 2, reshard_after_forward: always}") ==
        Reshard::always);
  CHECK(reshard("torchtitan", "pipeline: 2, fsdp: {version: 2}") == Reshard::never);
  CHECK(reshard("transformers", "fsdp: {version: 2}") == Reshard::always);
}

TEST_CASE("ZeRO 3 is FSDP2 where the framework shards by nothing else") {
  const auto job = [](const std::string& implementation, const std::string& sharing) {
    return job_of(
        "model: {layers: 4, hidden_size: 64, heads: 4, ffn_size: 128, vocab_size: 100, "
        "activation: swiglu, norm: rmsnorm, position: rope, bias: false}\ntraining: "
        "{seq_len: 128, precision: amp-bf16, implementation: " +
        implementation + "}\nparallelism: {data: 2, " + sharing + "}\n");
  };
  const Job written = job("torchtitan", "fsdp: {version: 2}");
  const Job implied = job("torchtitan", "zero: 3");
  CHECK(implied.parallelism == written.parallelism);
  CHECK(implied.training->recipe.name == written.training->recipe.name);
  CHECK(!job("torchtitan", "zero: 1").parallelism.fsdp);
  CHECK(!job("transformers", "zero: 3").parallelism.fsdp);
}

TEST_CASE("several stages a rank are interleaved where the spec names no schedule") {
  const auto schedule = [](const std::string& keys) {
    return job_of(
               "model: llama-3-8b\ntraining: {seq_len: 128, global_batch: 8, precision: megatron, "
               "implementation: megatron}\nparallelism: {pipeline: 2" +
               keys + "}\n")
        .parallelism.schedule;
  };
  CHECK(schedule("") == Schedule::one_f_one_b);
  CHECK(schedule(", virtual_stages: 2") == Schedule::interleaved);
  CHECK(schedule(", virtual_stages: 2, schedule: interleaved") == Schedule::interleaved);
}

TEST_CASE("a key without machinery is refused by name unless it says its default") {
  const std::string model = kModel;
  for (const char* section :
       {"parallelism: {tensor: 1, pipeline: 1, context: 1, expert: 1, sequence: false}",
        "parallelism: {schedule: 1f1b, virtual_stages: 1, distributed_optimizer: false}",
        "allocator: {}"}) {
    INFO(section);
    CHECK(first_error(model + section + "\n") == "ok");
  }
  for (const auto& [section, sentence] :
       {std::pair{"parallelism: {tensor: 2}",
                  "tensor parallelism in the implementation 'transformers' is not available yet"},
        std::pair{"parallelism: {data: 2, fsdp: {version: 1, replicate: 2}}",
                  "FSDP1's hybrid sharding in the implementation 'transformers' is not available "
                  "yet"},
        std::pair{
            "parallelism: {schedule: gpipe}",
            "the pipeline schedule in the implementation 'transformers' is not available yet"}}) {
    INFO(section);
    CHECK(first_error(model + section + "\n") == sentence);
  }
  for (const char* key : {"implementation: {compile: off, rotary: composite, torch: 2.11}",
                          "adapter: none", "use_cache: true", "loss: sum-of-logits", "steps: 1"}) {
    INFO(key);
    CHECK(first_error("model: {layers: 2, hidden_size: 64, heads: 4, vocab_size: 100}\n"
                      "training: {seq_len: 128, " +
                      std::string(key) + "}\n") == "ok");
  }
}

TEST_CASE("FSDP around adapters is answered where one flat tensor has one type") {
  const auto error_of = [](const std::string& fsdp, const std::string& loop,
                           const std::string& lora = "") {
    return first_error(
        "model: {layers: 2, hidden_size: 64, heads: 4, vocab_size: 100}\n"
        "training: {seq_len: 128, precision: bf16, implementation: {loop: " +
        loop + "},\n           adapter: {lora: {rank: 8, targets: [q_proj, v_proj]" + lora +
        "}}}\n" + "parallelism: {data: 2, fsdp: {" + fsdp + "}}\n");
  };
  CHECK(error_of("version: 2", "plain") == "ok");
  CHECK(error_of("version: 2", "trainer") == "ok");
  CHECK(error_of("version: 2", "trainer", ", modules_to_save: [lm_head]") ==
        "an adapter outside the layers under FSDP2 in the Trainer is not available yet");
  CHECK(error_of("version: 1", "plain", ", dtype: model") == "ok");
  CHECK(error_of("version: 1, no_sync: true", "plain", ", dtype: model") == "ok");
  CHECK(error_of("version: 1", "plain") ==
        "FSDP1 puts a layer's weights in bf16 and its adapters in fp32 into one flat tensor, which "
        "has one type");
  CHECK(error_of("version: 1", "plain", ", dtype: model, modules_to_save: [lm_head]") ==
        "an adapter outside the layers under FSDP1 is not available yet");
  CHECK(error_of("version: 1, units: adapters", "plain") == "ok");
  CHECK(error_of("version: 2, units: adapters", "plain") ==
        "units of adapters are FSDP1's, of a model that has adapters");
  CHECK(error_of("version: 2, no_sync: true", "plain") == "FSDP2 has no 'no_sync'");
}

TEST_CASE("where FSDP finds the weights is what is written, where a framework does so") {
  const std::string model = kModel;
  const auto fsdp_of = [&](const std::string& keys) {
    return *job_of(model + "parallelism: {data: 2, fsdp: {" + keys + "}}\n").parallelism.fsdp;
  };
  CHECK_FALSE(fsdp_of("version: 1").init);
  CHECK_FALSE(fsdp_of("version: 1").sync_module_states);
  CHECK(fsdp_of("version: 1, init: meta").init == ShardInit::meta);
  CHECK(fsdp_of("version: 2, init: host").init == ShardInit::host);
  const FullySharded synced = fsdp_of("version: 1, init: device, sync_module_states: true");
  CHECK(synced.init == ShardInit::device);
  CHECK(synced.sync_module_states);

  const auto error_of = [](const std::string& training, const std::string& layout) {
    return first_error(
        "model: {layers: 2, hidden_size: 64, heads: 4, vocab_size: 100}\n"
        "training: {seq_len: 128, " +
        training + "}\n" + "parallelism: {data: 2, " + layout + "}\n");
  };
  CHECK(error_of("precision: bf16", "fsdp: {sync_module_states: true}") ==
        "FSDP2 has no 'sync_module_states'");
  CHECK(error_of("implementation: torchtitan", "fsdp: {init: host}") ==
        "torchtitan makes its model on the meta device");
  CHECK(error_of("implementation: torchtitan", "fsdp: {init: meta}") == "ok");
  CHECK(error_of("implementation: {loop: trainer}", "fsdp: {init: device}") ==
        "init 'device' in the Trainer is not available yet");
  CHECK(error_of("implementation: {loop: trainer}", "fsdp: {init: meta}") == "ok");
  CHECK(error_of("precision: bf16",
                 "fsdp: {init: host}, offload: {optimizer: cpu, parameters: cpu}") ==
        "init 'host' beside 'offload' is not available yet");
  CHECK(error_of("precision: bf16, adapter: {lora: {rank: 8, targets: [q_proj]}}",
                 "fsdp: {init: device}") ==
        "init 'device' of a model with an adapter is not available yet");
}

TEST_CASE("DeepSpeed's sizes are its own, or what transformers makes of auto") {
  const std::string model = kModel;
  const DeepSpeed usual = job_of(model + "parallelism: {data: 2, zero: 2}\n").parallelism.deepspeed;
  CHECK(usual.reduce_bucket_size == 500'000'000);
  CHECK(usual.persistence_threshold == 100'000);
  CHECK(usual.contiguous_gradients);
  const Job job =
      job_of(model +
             "parallelism: {data: 2, zero: 3, deepspeed: {reduce_bucket_size: auto, "
             "stage3_prefetch_bucket_size: auto, stage3_param_persistence_threshold: auto, "
             "stage3_max_live_parameters: 7, sub_group_size: 9, overlap_comm: true}}\n");
  const std::int64_t h = std::get<DecoderSpec>(job.model.architecture).hidden_size;
  CHECK(job.parallelism.deepspeed.reduce_bucket_size == h * h);
  CHECK(job.parallelism.deepspeed.prefetch_bucket_size == 9 * h * h / 10);
  CHECK(job.parallelism.deepspeed.persistence_threshold == 10 * h);
  CHECK(job.parallelism.deepspeed.max_live_parameters == 7);
  CHECK(job.parallelism.deepspeed.sub_group_size == 9);
  CHECK(job.parallelism.deepspeed.overlap_comm);
}

TEST_CASE("DeepSpeed's table asks for its ZeRO") {
  const std::string model = kModel;
  CHECK(first_error(model + "parallelism: {data: 2, deepspeed: {overlap_comm: true}}\n") ==
        "'deepspeed' says how ZeRO works, and 'zero' is 0");
  CHECK(first_error(model +
                    "parallelism: {data: 2, fsdp: {version: 2}, deepspeed: {sub_group_size: "
                    "1}}\n") == "'fsdp' shards without DeepSpeed");
}

TEST_CASE("inference is a forward of prompts, and stands in place of training") {
  const std::string model = "model: {layers: 2, hidden_size: 64, heads: 4, vocab_size: 100}\n";
  const Job usual = job_of(model + "inference: {prompt: 128}\n");
  REQUIRE(usual.inference);
  CHECK_FALSE(usual.training);
  CHECK(usual.forward() == &*usual.inference);
  CHECK(usual.inference->seq_len == 128);
  CHECK(usual.inference->micro_batch == 1);
  CHECK(usual.inference->use_cache);
  CHECK(usual.inference->logits == KeptLogits::last);
  CHECK(usual.inference->recipe.name == "bf16");
  CHECK_FALSE(usual.inference->dropout);
  const Job all = job_of(model +
                         "inference: {prompt: 9, batch: 3, use_cache: false, logits: all,\n"
                         "  generate: 0, beams: 1, precision: fp32, implementation: textbook}\n");
  CHECK(all.inference->micro_batch == 3);
  CHECK_FALSE(all.inference->use_cache);
  CHECK(all.inference->logits == KeptLogits::all);
  CHECK(all.inference->implementation.framework == Framework::textbook);
  CHECK_FALSE(all.inference->generation);
  const Job beams = job_of(model + "inference: {prompt: 9, batch: 3, generate: 20, beams: 4}\n");
  REQUIRE(beams.inference->generation);
  CHECK(beams.inference->generation->tokens == 20);
  CHECK_FALSE(beams.inference->generation->samples);
  CHECK(beams.inference->micro_batch == 12);
  CHECK(beams.inference->prompts() == 3);
  for (const auto& [section, sentence] :
       {std::pair{"inference: {prompt: 1, beams: 4}", "the forward of a prompt alone has no beams"},
        std::pair{"inference: {prompt: 1, sample: true}",
                  "the forward of a prompt alone draws no token"},
        std::pair{"inference: {prompt: 1, generate: 2, beams: 2, sample: true}",
                  "sampling among beams is not available yet"},
        std::pair{"inference: {prompt: 1, generate: 2, logits: all}",
                  "generate() computes the logits of the last token alone"},
        std::pair{"inference: {prompt: 1, generate: 2, use_cache: false}",
                  "generation without a key-value cache is not available yet"},
        std::pair{"inference: {prompt: 1, paged: {block: 16}}",
                  "a cache in pages is not available yet"},
        std::pair{"inference: {prompt: 1, cache: fp8}",
                  "a key-value cache in fp8 is not available yet"},
        std::pair{
            "inference: {prompt: 1, cache: bf16, precision: fp32}",
            "a cache in another type than that of the keys under 'fp32' is not available yet"},
        std::pair{"inference: {prompt: 1, precision: fp8}",
                  "inference under the precision 'fp8' is not available yet"},
        std::pair{"inference: {prompt: 1}\nhardware: {count: 2}",
                  "inference on several GPUs is not available yet"}}) {
    INFO(section);
    CHECK(first_error(model + section + "\n") == sentence);
  }
  CHECK(first_error(model + "inference: {prompt: 8}\ntraining: {seq_len: 8}\n") ==
        "a spec has 'training' or 'inference', not both");
  CHECK(first_error("model: {layers: 2, hidden_size: 64, heads: 4, vocab_size: 100, position: "
                    "learned, max_positions: 16}\ninference: {prompt: 17}\n") ==
        "'prompt' 17 is more than the 16 positions that the model has");
  CHECK(first_error("model: {layers: 2, hidden_size: 64, heads: 4, vocab_size: 100, position: "
                    "learned, max_positions: 16}\ntraining: {seq_len: 10, implementation: "
                    "transformers, adapter: {prompt_tuning: {num_virtual_tokens: 7}}}\n") ==
        "10 tokens behind the prompt's are 17, more than the 16 positions that the model has");
  const std::string learned =
      "model: {layers: 2, hidden_size: 64, heads: 4, vocab_size: 100, position: learned, "
      "max_positions: 16}\ninference: {prompt: 10, generate: ";
  CHECK(job_of(learned + "7}\n").inference->generation->tokens == 7);
  CHECK(first_error(learned + "8}\n") ==
        "'generate' 8 behind 'prompt' 10 is more than the 16 positions that the model has");
}

TEST_CASE("an adapter is part of the model, and its type that of gradients and states") {
  const auto adapted = [](const char* precision, const char* dtype) {
    return job_of(std::string("model: {layers: 2, hidden_size: 64, heads: 4, vocab_size: 100}\n") +
                  "training: {seq_len: 128, precision: " + precision +
                  ", adapter: {lora: {rank: 4, targets: [q_proj], dtype: " + dtype + "}}}\n");
  };
  const Job wide = adapted("bf16", "fp32");
  REQUIRE(wide.model.adapter);
  CHECK(wide.model.adapter->rank == 4);
  CHECK(wide.model.adapter->targets == std::vector<std::string>{"q_proj"});
  CHECK(wide.model.adapter->dtype == DType::fp32);
  CHECK(wide.training->recipe.gradients == DType::fp32);
  CHECK(wide.training->recipe.weights == DType::bf16);
  CHECK(adapted("bf16", "model").model.adapter->dtype == DType::bf16);
  const Job whole = job_of(
      "model: {layers: 2, hidden_size: 64, heads: 4, vocab_size: 100}\n"
      "training: {seq_len: 128, adapter: {lora: {rank: 4, targets: [q_proj], modules_to_save: "
      "[lm_head]}}}\n");
  CHECK(whole.model.adapter->whole_modules == std::vector<std::string>{"lm_head"});
  CHECK(adapted("amp-bf16", "fp32").model.adapter->dtype == DType::fp32);
}

TEST_CASE("the Trainer's AdamW is fused unless the spec says otherwise") {
  const auto implementation = [](const char* keys) {
    return job_of(std::string("model: {layers: 2, hidden_size: 64, heads: 4, vocab_size: 100}\n") +
                  "training: {seq_len: 128, " + keys + "}\n")
        .training->optimizer_implementation;
  };
  CHECK(implementation("optimizer: adamw") == OptimizerImplementation::foreach_);
  CHECK(implementation("implementation: {loop: trainer}") == OptimizerImplementation::fused);
  CHECK(implementation("implementation: {loop: trainer}, optimizer: sgd") ==
        OptimizerImplementation::foreach_);
  CHECK(implementation("implementation: {loop: trainer}, "
                       "optimizer: {name: adamw, implementation: foreach}") ==
        OptimizerImplementation::foreach_);
}

TEST_CASE("who holds the outputs of nanoGPT's model, and says no loop, means train.py") {
  const auto training = [](const std::string& keys) {
    return *job_of(
                "model: {layers: 2, hidden_size: 64, heads: 4, vocab_size: 100}\n"
                "training: {seq_len: 128, " +
                keys + "}\n")
                .training;
  };
  const auto loop = [&](const char* keys) { return training(keys).implementation.loop; };
  CHECK(loop("implementation: nanogpt") == LoopKind::plain);
  CHECK(loop("implementation: nanogpt, hold_outputs: true") == LoopKind::nanogpt);
  CHECK(loop("implementation: {name: nanogpt, loop: plain}, hold_outputs: true") ==
        LoopKind::plain);
  CHECK(loop("hold_outputs: true") == LoopKind::plain);
  const TrainingSpec script = training("implementation: {name: nanogpt, loop: nanogpt}");
  CHECK(script.hold_outputs);
  CHECK(script.optimizer_implementation == OptimizerImplementation::fused);
}

TEST_CASE("the allocator's options are read, by PyTorch's names") {
  const std::string model = kModel;
  CHECK(job_of(model).allocator == AllocatorSettings());
  const AllocatorSettings settings =
      job_of(model +
             "allocator: {expandable_segments: true, max_split_size_mb: 128,\n"
             "  roundup_power2_divisions: 4, garbage_collection_threshold: 0.8}\n")
          .allocator;
  CHECK(settings.expandable_segments);
  CHECK(settings.max_split_size == Bytes(128 * kMiB));
  CHECK(settings.garbage_collection_threshold == 0.8);
  RoundingDivisions divisions{};
  divisions.fill(4);
  CHECK(settings.roundup_power2_divisions == divisions);
  // Seen on PyTorch 2.11: the first entry also holds for what is smaller, `>` for what comes after
  // the last named, and what lies between two of them is not rounded.
  divisions = {4, 4, 4, 4, 4, 4, 4, 4, 4, 0, 2, 8, 8, 8, 8, 8};
  CHECK(job_of(model + "allocator: {roundup_power2_divisions: \"[256:4,1024:2,>:8]\"}\n")
            .allocator.roundup_power2_divisions == divisions);
}

TEST_CASE("every catalog file is read, and every name finds its own") {
  CHECK(all_gpus().size() >= 40);
  for (const GpuSpec& gpu : all_gpus()) {
    INFO(gpu.slug);
    CHECK(gpu.capacity.value.value() > 0);
    CHECK_FALSE(gpu.capacity.source.empty());
    for (const std::string& alias : gpu.aliases) CHECK(find_gpu(alias).value().slug == gpu.slug);
  }
  for (const Recipe& recipe : all_recipes()) CHECK(find_recipe(recipe.name).ok());
  for (const Optimizer& optimizer : all_optimizers()) {
    INFO(optimizer.name);
    CHECK_FALSE(optimizer.implementations.empty());
    CHECK(find_optimizer(optimizer.name).ok());
  }
  for (const Price& price : all_prices()) CHECK(find_gpu(price.gpu).ok());
  const GpuSpec h100 = find_gpu("h100").value();
  CHECK(h100.capacity.value == Bytes(81008 * kMiB));
  CHECK(h100.peak.at(DType::bf16).value.value() == 989e12);
  CHECK(h100.context_range);
  CHECK(find_gpu("H100").value().slug == h100.slug);
  CHECK_FALSE(find_gpu("h1000").ok());
  CHECK(find_gpu("mi250x").value().capacity.value <
        Bytes(std::int64_t{64} * kGiB));  // one of two GCDs
  CHECK(first_error(std::string(kModel) + "hardware: {gpu: nowhere/gpu.yaml}\n") ==
        "cannot open 'nowhere/gpu.yaml': No such file or directory");
}

TEST_CASE("checkpoints of several layers go with stages of any number that they divide") {
  for (const char* recompute : {"{method: uniform, layers: 2}", "{method: block, layers: 3}"}) {
    CHECK(read_text(
              "model: {layers: 10, hidden_size: 64, heads: 4, vocab_size: 128, activation: gelu, "
              "norm: layernorm, position: learned, max_positions: 128}\n"
              "training: {seq_len: 128, global_batch: 4, precision: megatron, recompute: {full: " +
              std::string(recompute) +
              "}, implementation: {name: megatron, layers: local}}\n"
              "parallelism: {pipeline: 3, first_stage_layers: 4, last_stage_layers: 2}\n"
              "hardware: {gpu: h100-sxm-80gb, count: 3}\n")
              .ok());
  }
}

TEST_CASE("DeepSpeed deals layers that do not divide up to the least bottleneck") {
  using Stages = std::vector<std::int64_t>;
  // As deepspeed.runtime.utils.partition_balanced answers.
  CHECK(balanced_stages(78, 12) == Stages{7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 1});
  CHECK(balanced_stages(106, 12) == Stages{9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 7});
  CHECK(balanced_stages(72, 12) == Stages(12, 6));
  // The search ends within a thousandth: just below a whole number a layer waits.
  CHECK(balanced_stages(16, 3) == Stages{5, 5, 6});
  CHECK(balanced_stages(8, 7) == Stages{1, 1, 1, 1, 1, 1, 2});

  const auto stages_of = [](const std::string& implementation, const std::string& parallelism) {
    return job_of(
               "model: {layers: 10, hidden_size: 64, heads: 4, vocab_size: 128, activation: gelu, "
               "norm: layernorm, position: learned, max_positions: 128}\n"
               "training: {seq_len: 128, precision: megatron, implementation: {name: megatron, "
               "layers: legacy, " +
               implementation + "}}\nparallelism: {" + parallelism +
               "}\nhardware: {gpu: a100-sxm-80gb, count: 4}\n")
        .parallelism.stage_layers;
  };
  CHECK(stages_of("deepspeed: true", "pipeline: 4, zero: 1") == Stages{3, 3, 3, 1});
  CHECK(stages_of("deepspeed: true",
                  "pipeline: 4, zero: 1, account_for_embedding: true, "
                  "account_for_loss: true")
            .empty());
}

TEST_CASE("Megatron's layers that do not divide are dealt as recipes deal them, with a warning") {
  using Stages = std::vector<std::int64_t>;
  const auto ends = [](std::int64_t stages, std::int64_t first, std::int64_t each,
                       std::int64_t last) {
    Stages counts(static_cast<std::size_t>(stages), each);
    counts.front() = first;
    counts.back() = last;
    return counts;
  };
  // Llama-3.1 405B and Qwen3 235B account for embedding and loss; DeepSeek-V3's layout_map.
  CHECK(stages_with_short_ends(126, 128) == ends(128, 0, 1, 0));
  CHECK(stages_with_short_ends(126, 64) == ends(64, 1, 2, 1));
  CHECK(stages_with_short_ends(94, 24) == ends(24, 3, 4, 3));
  CHECK(stages_with_short_ends(61, 4) == ends(4, 16, 16, 13));
  CHECK(stages_with_short_ends(61, 16) == ends(16, 4, 4, 1));
  CHECK(stages_with_short_ends(61, 32) == ends(32, 1, 2, 0));
  CHECK(stages_with_short_ends(27, 4) == ends(4, 7, 7, 6));
  CHECK(stages_with_short_ends(61, 48).empty());
  for (const std::int64_t layers : {7, 26, 61, 94, 126}) {
    for (std::int64_t stages = 2; stages <= layers; ++stages) {
      const Stages counts = stages_with_short_ends(layers, stages);
      if (counts.empty()) continue;
      CHECK(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) == layers);
      CHECK(std::ranges::all_of(counts, [](std::int64_t count) { return count >= 0; }));
    }
  }

  const auto spec_of = [](const std::string& layers, const std::string& parallelism) {
    return "model: {layers: 13, hidden_size: 64, heads: 4, vocab_size: 128, activation: gelu, "
           "norm: layernorm, position: learned, max_positions: 128}\n"
           "training: {seq_len: 128, precision: megatron, implementation: {name: megatron, "
           "layers: " +
           layers + "}}\nparallelism: {" + parallelism +
           "}\nhardware: {gpu: a100-sxm-80gb, count: 4}\n";
  };
  const Checked<Job> dealt = read_text(spec_of("te", "pipeline: 4"));
  REQUIRE(dealt.ok());
  CHECK(dealt.value().parallelism.stage_layers == Stages{4, 4, 4, 1});
  REQUIRE(dealt.diagnostics().size() == 1);
  CHECK(dealt.diagnostics().front().severity == Severity::warning);
  CHECK(dealt.diagnostics().front().hint ==
        "say so with 'pipeline_layout: \"Et*4|(t*4|)*2tL\"', or otherwise; Megatron refuses to "
        "guess");
  CHECK(read_text(spec_of("te", "pipeline: 4, pipeline_layout: \"Et*4|(t*4|)*2tL\""))
            .diagnostics()
            .empty());
  CHECK_FALSE(read_text(spec_of("legacy", "pipeline: 4")).ok());
  CHECK_FALSE(read_text(spec_of("te", "pipeline: 4, account_for_loss: true")).ok());
}

}  // namespace memest
