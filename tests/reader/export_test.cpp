// Jobs as files of training programs, and back: what is written is the same job, and what cannot be
// written is refused by name.
#include "memest/reader/export.hpp"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "../draws.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/reader/read_job.hpp"
#include "memest/report/diagnostics.hpp"
#include "reader/export/job_keys.hpp"
#include "reader/export/target.hpp"
#include "reader/export/tree.hpp"
#include "reader/foreign/dialects.hpp"
#include "reader/foreign/torchtitan/torchtitan.hpp"
#include "reader/text/merge.hpp"

namespace memest {
namespace {

using test::Draws;
using test::Text;

constexpr const char* kLlama =
    "model: {layers: 4, hidden_size: 512, heads: 8, ffn_size: 1024, vocab_size: 32000, "
    "activation: swiglu, norm: rmsnorm, position: rope}\n";

std::shared_ptr<const SourceText> source_of(std::string name, std::string text) {
  return std::make_shared<const SourceText>(SourceText{std::move(name), std::move(text)});
}

Checked<Job> job_of(const std::string& spec) { return read_job(source_of("job.yaml", spec)); }

/// The first key in which two jobs differ, with both values.
std::string difference(const Job& left, const Job& right) {
  for (const JobKey& key : job_keys()) {
    if (key.text(left) != key.text(right)) {
      return std::string(key.name) + ": " + key.text(left) + " and " + key.text(right);
    }
  }
  return {};
}

/// Keys of the file that its program has none of, as memest knows it.
std::string unknown_keys(const Checked<Job>& back) {
  std::string unknown;
  for (const Diagnostic& one : back.diagnostics()) {
    if (one.message.find("is no key of") != std::string::npos) unknown += one.message + "\n";
  }
  return unknown;
}

std::string refusal(const std::string& spec, std::string_view target) {
  const Checked<Job> job = job_of(spec);
  INFO(render(job.diagnostics(), {}));
  REQUIRE(job.ok());
  const Checked<ExportedJob> exported = export_job(job.value(), target);
  REQUIRE_FALSE(exported.ok());
  RenderOptions wide;
  wide.columns = 300;
  return render(exported.diagnostics(), wide);
}

TEST_CASE("every key of a job has one row of each program") {
  for (const ExportTarget* target : all_export_targets()) {
    std::multiset<std::string_view> rows;
    for (const std::span<const ExportRow> table : target->rows) {
      for (const ExportRow& row : table) {
        INFO(target->name << ": " << row.own);
        rows.insert(row.own);
        const bool takes_few = row.use == ExportUse::held || row.use == ExportUse::not_yet;
        CHECK(takes_few == !row.values.empty());
      }
    }
    for (const JobKey& key : job_keys()) {
      INFO(target->name << ": " << key.name);
      CHECK(rows.count(key.name) == 1);
    }
    CHECK(rows.size() == job_keys().size());
  }
}

TEST_CASE("a tree is written as TOML, JSON and YAML that read back") {
  Value tree;
  set(tree, "plain", number_of_count(3));
  set(tree, "a.b.word", word_of("quote \" and \\ and ü"));
  set(tree, "a.flag", flag_of(true));
  set(tree, "a.list", words_of_list({"x", "NO"}));
  set(tree, "a.number", literal_of("1.5"));
  CHECK(written_as_toml(tree) ==
        "plain = 3\n\n[a]\nflag = true\nlist = [\"x\", \"NO\"]\nnumber = 1.5\n\n[a.b]\n"
        "word = \"quote \\\" and \\\\ and ü\"\n");
  for (const auto& [name, text] :
       {std::pair{"a.toml", written_as_toml(tree)}, std::pair{"a.json", written_as_json(tree)},
        std::pair{"a.yaml", written_as_yaml(tree)}}) {
    INFO(text);
    const Checked<Value> back = parse_foreign(source_of(name, text));
    REQUIRE(back.ok());
    CHECK(find_path(back.value(), "plain")->text == "3");
    CHECK(find_path(back.value(), "a.b.word")->text == "quote \" and \\ and ü");
    CHECK(find_path(back.value(), "a.flag")->text == "true");
    CHECK(find_path(back.value(), "a.list")->items[1].text == "NO");
    CHECK(find_path(back.value(), "a.number")->text == "1.5");
  }
}

/// A layout, a step and their sizes, drawn; many are no job, and some torchtitan has no word for.
std::string torchtitan_spec(Draws& draws, const torchtitan::Flavor& flavor) {
  const std::size_t tensor = draws.one_of(1, 1, 2, 4);
  const std::size_t pipeline = draws.one_of(1, 1, 2, 4);
  Text text;
  text << "model: {" << std::string(flavor.sizes) << ", " << std::string(flavor.traits)
       << "}\ntraining: {seq_len: " << draws.one_of(512, 2048)
       << ", micro_batch: " << draws.one_of(1, 2)
       << ", gradient_accumulation: " << draws.one_of(1, 4, 8, 16)
       << ", precision: " << draws.one_of("amp-bf16", "bf16", "fp32")
       << ", optimizer: {name: " << draws.one_of("adamw", "adam")
       << ", implementation: " << draws.one_of("fused", "foreach", "for-loop")
       << "}, clip_gradients: true, recompute: "
       << draws.one_of("none", "full", "selective", "{every: 2}", "sqrt")
       << ", implementation: {name: torchtitan, compile: " << draws.one_of("off", "blocks")
       << ", loss_parallel: " << (tensor > 1 ? draws.flag() : "false")
       << "}}\nparallelism: {data: " << draws.one_of(1, 2, 8) << ", tensor: " << tensor
       << ", sequence: " << (tensor > 1 ? "true" : "false")
       << ", context: " << draws.one_of(1, 1, 2) << ", pipeline: " << pipeline;
  if (pipeline > 1) {
    text << ", schedule: " << draws.one_of("1f1b", "gpipe", "interleaved", "zero-bubble", "zbv");
  }
  text << draws.one_of(", fsdp: {version: 2}", ", fsdp: {version: 2, reshard_after_forward: never}",
                       ", fsdp: {version: 2, replicate: 2}", ", ddp: {bucket_mb: 100}")
       << "}\n";
  return text;
}

TEST_CASE("a drawn job of torchtitan is read back from the TOML that it is written as") {
  Draws draws(20'260'701);
  int written = 0;
  for (int i = 0; i < 1'200; ++i) {
    const auto flavors = torchtitan::flavors();
    const std::string spec = torchtitan_spec(draws, flavors[draws.below(flavors.size())]);
    const Checked<Job> job = job_of(spec);
    if (!job.ok()) continue;
    const Checked<ExportedJob> exported = export_job(job.value(), "torchtitan");
    INFO(spec);
    if (!exported.ok()) {
      CHECK(std::ranges::all_of(exported.diagnostics(),
                                [](const Diagnostic& one) { return one.unavailable; }));
      continue;
    }
    ++written;
    const ExportedFile& file = exported.value().files.front();
    const Checked<Job> back = read_job(source_of(file.name, file.text));
    REQUIRE(back.ok());
    CHECK(unknown_keys(back).empty());
    CHECK(difference(job.value(), back.value()) == "");
    CHECK(differing_part(job.value().model, back.value().model).empty());
    // Written again, it is the same file.
    CHECK(export_job(back.value(), "torchtitan")
              .value()
              .files.front()
              .text.ends_with(file.text.substr(file.text.find("[model]"))));
  }
  CHECK(written > 100);
}

TEST_CASE("every flavor of torchtitan's registry is found by its sizes, or refused by name") {
  for (const torchtitan::Flavor& flavor : torchtitan::flavors()) {
    const Checked<Job> job =
        job_of("model: {" + std::string(flavor.sizes) + ", " + std::string(flavor.traits) +
               "}\ntraining: {seq_len: 512, precision: amp-bf16, clip_gradients: true, "
               "implementation: torchtitan}\n");
    INFO(flavor.model << " " << flavor.flavor << "\n" << render(job.diagnostics(), {}));
    if (!job.ok()) continue;
    const Checked<ExportedJob> exported = export_job(job.value(), "torchtitan");
    const bool twin = flavor.flavor.ends_with("flex_attn") || flavor.flavor.ends_with("_flex");
    if (flavor.flex && !twin) {
      REQUIRE_FALSE(exported.ok());
      CHECK(exported.diagnostics()[0].unavailable);
      continue;
    }
    REQUIRE(exported.ok());
    const std::string& text = exported.value().files.front().text;
    const std::string name =
        twin ? std::string(flavor.flavor.substr(0, flavor.flavor.rfind("_flex")))
             : std::string(flavor.flavor);
    CHECK(text.find("flavor = \"" + name + "\"") != std::string::npos);
  }
}

std::string megatron_spec(Draws& draws) {
  const std::size_t tensor = draws.one_of(1, 2, 4);
  const std::size_t pipeline = draws.one_of(1, 1, 2, 4);
  const bool experts = draws.below(4) == 0;
  const bool te = draws.below(2) == 0;
  Text text;
  text << "model: {layers: " << draws.one_of(8, 14, 16)
       << ", hidden_size: 1024, heads: 16, kv_heads: " << draws.one_of(4, 16)
       << ", ffn_size: 2816, vocab_size: " << draws.one_of(32'000, 50'304)
       << ", activation: " << draws.one_of("swiglu", "gelu", "relu2")
       << ", norm: " << draws.one_of("rmsnorm", "layernorm")
       << ", position: " << draws.one_of("rope", "learned")
       << ", max_positions: 4096, bias: " << draws.flag() << ", tied_embeddings: " << draws.flag()
       << ", dropout: " << draws.one_of("0.0", "0.1");
  if (experts) text << ", moe: {experts: 8, top_k: 2, expert_ffn_size: 1408}";
  text << "}\ntraining: {seq_len: " << draws.one_of(1024, 4096)
       << ", micro_batch: " << draws.one_of(1, 2)
       << ", gradient_accumulation: " << draws.one_of(4, 8) << ", precision: "
       << draws.one_of("megatron", "megatron-bf16-grad", "fp32", "fp8", "nvfp4",
                       "mxfp8, float8: {param_gather: true}",
                       "megatron-bf16-grad, float8: {recipe: tensorwise, param_gather: true, "
                       "first_layers_bf16: 1, last_layers_bf16: 2}")
       << draws.one_of("", "", ", optimizer: {exp_avg: fp32}",
                       ", optimizer: {exp_avg: bf16, exp_avg_sq: bf16}",
                       ", optimizer: {exp_avg: bf16, exp_avg_sq: fp16, main_params: fp16}",
                       ", optimizer: {exp_avg_sq: bf16, main_params: remainders}")
       << ", clip_gradients: " << draws.flag() << ", recompute: "
       << draws.one_of("none", "full", "selective", "{full: {method: block, layers: 1}}",
                       "{selective: [attention-core, feed-forward]}")
       << draws.one_of("", "", ", offload_activations: {method: cpu_offloading, layers: 4}")
       << ", implementation: {name: megatron, layers: " << (te ? "te" : "local");
  if (te) text << draws.one_of("", ", attention: flash-2", ", loss: te");
  text << "}}\nparallelism: {data: " << draws.one_of(1, 2, 8) << ", tensor: " << tensor
       << ", sequence: " << (tensor > 1 ? draws.flag() : "false") << ", pipeline: " << pipeline;
  if (te) {
    text << ", context: " << draws.one_of(1, 2)
         << ", context_exchange: " << draws.one_of("ring", "all-to-all");
  }
  if (pipeline > 1 && draws.below(2) == 0) text << ", schedule: interleaved, virtual_stages: 2";
  if (pipeline == 2) {
    text << draws.one_of("", ", account_for_embedding: true, account_for_loss: true",
                         ", pipeline_layout: \"Ett|ttt|tt|tL\"", ", pipeline_layout: [9, 7]",
                         ", first_stage_layers: 6, last_stage_layers: 2");
  }
  if (experts) text << ", expert: " << draws.one_of(1, 2) << draws.one_of("", ", expert_tensor: 1");
  text << draws.one_of("", ", distributed_optimizer: true", ", zero: 1",
                       ", distributed_optimizer: true, overlap_grad_reduce: true, "
                       "overlap_param_gather: true")
       << "}\n"
       << draws.one_of("", "allocator: {expandable_segments: true}\n",
                       "allocator: {max_split_size_mb: 128, roundup_power2_divisions: "
                       "\"[256:1,512:2,>:4]\"}\n");
  return text;
}

TEST_CASE("a drawn job of Megatron is read back from the script that it is written as") {
  Draws draws(20'260'702);
  int written = 0;
  for (int i = 0; i < 1'200; ++i) {
    const std::string spec = megatron_spec(draws);
    const Checked<Job> job = job_of(spec);
    if (!job.ok()) continue;
    const Checked<ExportedJob> exported = export_job(job.value(), "megatron");
    INFO(spec);
    INFO(render(exported.diagnostics(), {}));
    REQUIRE(exported.ok());
    ++written;
    const ExportedFile& file = exported.value().files.front();
    const Checked<Job> back = read_job(source_of(file.name, file.text));
    REQUIRE(back.ok());
    CHECK(unknown_keys(back).empty());
    CHECK(difference(job.value(), back.value()) == "");
  }
  CHECK(written > 100);
}

std::string bytes_of(const Job& job) {
  const JobEstimate estimate = estimate_job(job);
  const auto* memory = std::get_if<MemoryAnswer>(&estimate.memory);
  REQUIRE(memory != nullptr);
  return std::to_string(memory->allocated().value());
}

TEST_CASE("what is written takes as many bytes as the job") {
  const auto [target, spec] = GENERATE(table<std::string, std::string>(
      {{"torchtitan",
        "model: llama-3-8b\ntraining: {seq_len: 2048, precision: amp-bf16, clip_gradients: true, "
        "recompute: {every: 2}, implementation: torchtitan}\n"
        "parallelism: {data: 2, tensor: 2, sequence: true, fsdp: {version: 2}}\n"},
       {"torchtitan",
        "model: llama-3-8b\ntraining: {seq_len: 1024, precision: amp-bf16, clip_gradients: true, "
        "implementation: torchtitan}\nparallelism: {data: 2, ddp: {bucket_mb: 100}}\n"},
       {"torchtitan",
        "model: llama-3-8b\ntraining: {seq_len: 2048, gradient_accumulation: 8, precision: "
        "amp-bf16, clip_gradients: true, recompute: selective, implementation: torchtitan}\n"
        "parallelism: {data: 2, pipeline: 4, schedule: interleaved, fsdp: {version: 2}}\n"},
       {"megatron",
        "model: {layers: 12, hidden_size: 768, heads: 12, vocab_size: 50257, activation: gelu, "
        "norm: layernorm, position: learned, max_positions: 1024, bias: true, tied_embeddings: "
        "true, dropout: 0.1}\ntraining: {seq_len: 1024, precision: megatron, implementation: "
        "{name: "
        "megatron, layers: local}}\nparallelism: {data: 2, distributed_optimizer: true}\n"},
       {"megatron",
        "model: mixtral-8x7b\ntraining: {seq_len: 1024, precision: megatron, recompute: full, "
        "implementation: megatron}\nparallelism: {data: 8, expert: 8, distributed_optimizer: "
        "true}\n"},
       {"megatron",
        "model: llama-3-8b\ntraining: {seq_len: 2048, gradient_accumulation: 8, precision: "
        "megatron-bf16-grad, implementation: {name: megatron, layers: local}}\n"
        "parallelism: {data: 2, tensor: 2, sequence: true, pipeline: 2}\n"}}));
  INFO(spec);
  const Checked<Job> job = job_of(spec);
  INFO(render(job.diagnostics(), {}));
  REQUIRE(job.ok());
  const Checked<ExportedJob> exported = export_job(job.value(), target);
  INFO(render(exported.diagnostics(), {}));
  REQUIRE(exported.ok());
  const ExportedFile& file = exported.value().files.front();
  const Checked<Job> back = read_job(source_of(file.name, file.text));
  REQUIRE(back.ok());
  CHECK(bytes_of(job.value()) == bytes_of(back.value()));
}

/// Of the keys that the files say, the first that another job has otherwise.
std::string difference_in_written(const Job& left, const Job& right, const ExportTarget& target) {
  for (const std::span<const ExportRow> table : target.rows) {
    for (const ExportRow& row : table) {
      const std::string here = text_of_key(left, row.own);
      const std::string there = text_of_key(right, row.own);
      if (row.use != ExportUse::beside && here != there) {
        return std::string(row.own) + ": " + here + " and " + there;
      }
    }
  }
  return {};
}

/// The job of exported files beside a spec of the rest; nothing where no dialect reads them yet.
std::optional<Checked<Job>> read_beside(const ExportedJob& exported, const std::string& spec,
                                        std::int64_t gpus) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("memest-export-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  ReadRequest request{{(folder / "spec.yaml").string()}};
  request.gpus = gpus;
  std::ofstream(request.files.front()) << spec;
  bool known = true;
  for (const ExportedFile& file : exported.files) {
    if (file.name == "model.json") continue;  // keyword arguments, no program's file
    const Checked<Value> tree = parse_foreign(source_of(file.name, file.text));
    REQUIRE(tree.ok());
    known = known && find_dialect(syntax_of(file.name), tree.value()) != nullptr;
    request.files.push_back((folder / file.name).string());
    std::ofstream(request.files.back()) << file.text;
  }
  std::optional<Checked<Job>> job;
  if (known) job = read_job(request);
  std::filesystem::remove_all(folder);
  return job;
}

TEST_CASE("files of Hugging Face's programs are read back beside what they leave to a script") {
  const std::string model = kLlama;
  const auto [target, training, parallelism] =
      GENERATE(table<std::string, std::string, std::string>(
          {{"accelerate", "precision: amp-bf16, recompute: full", "{data: 8}"},
           {"accelerate", "precision: amp-bf16, clip_gradients: true", "{}"},
           {"accelerate", "precision: amp-bf16", "{data: 8, fsdp: {version: 2}}"},
           {"accelerate", "precision: mixed, clip_gradients: true", "{data: 8, zero: 2}"},
           {"accelerate", "precision: mixed", "{data: 8, zero: 3}"},
           {"accelerate", "precision: amp-bf16, recompute: {full: {reentrant: true}}",
            "{data: 4, ddp: {bucket_mb: 50}}"},
           {"accelerate", "precision: fp32, optimizer: adagrad", "{}"},
           {"accelerate",
            "precision: amp-bf16, adapter: {lora: {rank: 16, targets: [q_proj, v_proj]}}",
            "{data: 2}"},
           {"accelerate",
            "precision: amp-bf16, optimizer: adamw-8bit, adapter: {lora: {rank: 8, targets: "
            "[q_proj]}}",
            "{}"},
           {"accelerate", "precision: amp-bf16", "{data: 8, fsdp: {version: 2, init: meta}}"},
           {"accelerate", "precision: mixed-fp32-grad",
            "{data: 4, zero: 1, deepspeed: {reduce_bucket_size: 1000000, overlap_comm: true}}"},
           {"deepspeed", "precision: mixed",
            "{data: 4, zero: 3, offload: {optimizer: cpu, parameters: cpu, pin_memory: false}}"},
           {"deepspeed", "precision: fp32", "{data: 4, zero: 2}"},
           {"deepspeed", "precision: mixed, clip_gradients: true",
            "{data: 8, zero: 3, offload: {optimizer: cpu}}"}}));
  const std::string spec = model +
                           "training: {seq_len: 128, implementation: {name: transformers, "
                           "loop: trainer}, " +
                           training + "}\nparallelism: " + parallelism + "\n";
  INFO(spec);
  const Checked<Job> job = job_of(spec);
  INFO(render(job.diagnostics(), {}));
  REQUIRE(job.ok());
  const Checked<ExportedJob> exported = export_job(job.value(), target);
  INFO(render(exported.diagnostics(), {}));
  REQUIRE(exported.ok());
  const auto back = read_beside(
      exported.value(), model + "training: {seq_len: 128}\nhardware: {gpu: h100-sxm-80gb}\n",
      job.value().parallelism.ranks());
  if (!back) return;
  INFO(render(back->diagnostics(), {}));
  REQUIRE(back->ok());
  const ExportTarget& written = target == "deepspeed" ? deepspeed_export() : accelerate_export();
  CHECK(difference_in_written(job.value(), back->value(), written) == "");
}

std::string trainer_spec(Draws& draws) {
  const bool zero = draws.below(3) == 0;
  const bool sharded = !zero && draws.below(3) == 0;
  Text text;
  text << std::string(kLlama) << "training: {seq_len: 128, micro_batch: " << draws.one_of(1, 4)
       << ", gradient_accumulation: " << draws.one_of(1, 8) << ", precision: "
       << (zero ? draws.one_of("mixed", "mixed-fp32-grad", "fp32")
                : draws.one_of("amp-bf16", "fp32"))
       << ", optimizer: "
       << draws.one_of("adamw", "{name: adamw, implementation: foreach}", "sgd", "adafactor",
                       "rmsprop", "paged-adamw", "soap")
       << ", clip_gradients: " << draws.flag()
       << ", recompute: " << draws.one_of("none", "full", "{full: {reentrant: true}}");
  if (!zero && !sharded && draws.below(3) == 0) {
    text << ", adapter: {lora: {rank: " << draws.one_of(8, 16)
         << ", targets: [q_proj, v_proj], dropout: " << draws.one_of("0.0", "0.05") << "}}";
  }
  text << ", implementation: {name: transformers, loop: trainer"
       << (!zero && !sharded ? draws.one_of("", ", liger: true") : "")
       << "}}\nparallelism: {data: " << draws.one_of(2, 8);
  if (zero) {
    text << ", zero: " << draws.one_of(1, 2, 3)
         << draws.one_of("", ", offload: {optimizer: cpu}",
                         ", deepspeed: {reduce_bucket_size: 200000000, sub_group_size: 1000000}");
  } else if (sharded) {
    text << draws.one_of(", fsdp: {version: 2}",
                         ", fsdp: {version: 2, reshard_after_forward: false}",
                         ", fsdp: {version: 2, init: meta}",
                         ", fsdp: {version: 2}, offload: {optimizer: cpu, parameters: cpu}");
  } else {
    text << draws.one_of("", ", ddp: {bucket_mb: 100}");
  }
  text << "}\n";
  return text;
}

TEST_CASE("a drawn job of the Trainer is read back from accelerate's files") {
  Draws draws(20'260'703);
  int written = 0;
  for (int i = 0; i < 300; ++i) {
    const std::string spec = trainer_spec(draws);
    const Checked<Job> job = job_of(spec);
    if (!job.ok()) continue;
    const Checked<ExportedJob> exported = export_job(job.value(), "accelerate");
    if (!exported.ok()) continue;
    INFO(spec);
    const auto back = read_beside(
        exported.value(),
        std::string(kLlama) + "training: {seq_len: 128}\nhardware: {gpu: h100-sxm-80gb}\n",
        job.value().parallelism.ranks());
    if (!back) continue;
    INFO(render(back->diagnostics(), {}));
    REQUIRE(back->ok());
    ++written;
    CHECK(unknown_keys(*back).empty());
    CHECK(difference_in_written(job.value(), back->value(), accelerate_export()) == "");
  }
  CHECK(written > 50);
}

TEST_CASE("a job of the Trainer is four files") {
  const Checked<Job> job = job_of(
      std::string(kLlama) +
      "training: {seq_len: 4096, micro_batch: 2, gradient_accumulation: 4, precision: mixed, "
      "clip_gradients: true, recompute: full, data: {workers: 4}, implementation: {name: "
      "transformers, loop: trainer, attention: flash-2}}\n"
      "parallelism: {data: 16, zero: 2, offload: {optimizer: cpu}}\n"
      "allocator: {expandable_segments: true}\n");
  INFO(render(job.diagnostics(), {}));
  REQUIRE(job.ok());
  const Checked<ExportedJob> exported = export_job(job.value(), "accelerate");
  INFO(render(exported.diagnostics(), {}));
  REQUIRE(exported.ok());
  std::string text;
  for (const ExportedFile& file : exported.value().files) {
    text += "== " + file.name + "\n" + file.text;
  }
  CHECK(text == R"TEXT(== accelerate.yaml
# For accelerate 1.15 with the Trainer of transformers 5.17. The script has the data (samples of
# 4096 tokens), the learning rate and the number of steps; training_arguments.json is its
# TrainingArguments, model.json says how it loads the model.
#
#   PYTORCH_ALLOC_CONF=expandable_segments:True accelerate launch --config_file accelerate.yaml --machine_rank RANK \
#     --main_process_ip HOST --main_process_port 29500 \
#     TRAIN.py training_arguments.json

compute_environment: "LOCAL_MACHINE"
distributed_type: "DEEPSPEED"
num_machines: 2
num_processes: 16
machine_rank: 0
main_training_function: "main"
use_cpu: false
deepspeed_config:
  deepspeed_config_file: "ds_config.json"
  zero3_init_flag: false
== training_arguments.json
{
  "per_device_train_batch_size": 2,
  "gradient_accumulation_steps": 4,
  "bf16": true,
  "fp16": false,
  "optim": "adamw_torch_fused",
  "max_grad_norm": 1.0,
  "gradient_checkpointing": true,
  "gradient_checkpointing_kwargs": {
    "use_reentrant": false
  },
  "torch_compile": false,
  "use_liger_kernel": false,
  "dataloader_num_workers": 4,
  "dataloader_prefetch_factor": 2,
  "dataloader_pin_memory": true
}
== model.json
{
  "from_pretrained": {
    "dtype": "bfloat16",
    "attn_implementation": "flash_attention_2"
  }
}
== ds_config.json
{
  "train_batch_size": 128,
  "train_micro_batch_size_per_gpu": 2,
  "gradient_accumulation_steps": 4,
  "gradient_clipping": 1.0,
  "bf16": {
    "enabled": true
  },
  "zero_optimization": {
    "stage": 2,
    "reduce_bucket_size": 500000000,
    "overlap_comm": false,
    "contiguous_gradients": true,
    "offload_optimizer": {
      "device": "cpu",
      "pin_memory": true
    }
  }
}
)TEXT");
}

TEST_CASE("what a program has no word for is refused by name") {
  const std::string llama = kLlama;
  CHECK(refusal(llama + "training: {seq_len: 128}\n", "torchtitan") ==
        "error: this job is of the implementation 'transformers', and torchtitan runs those of "
        "'torchtitan'\n    = hint: --set training.implementation=torchtitan asks for that job\n");
  CHECK(refusal(llama + "training: {seq_len: 128, implementation: torchtitan, clip_gradients: true}"
                        "\n",
                "torchtitan") ==
        "error: no flavor of torchtitan 0.2.2's registry has this model's sizes\n"
        "    = hint: its registry is of llama3, qwen3 and deepseek_v3: `memest export llama-3-8b` "
        "has one\n");
  CHECK(refusal(llama + "training: {seq_len: 128, implementation: torchtitan, zero_grad: zeros}\n",
                "torchtitan") ==
        "error: torchtitan 0.2.2 has no 'training.clip_gradients: false'\n"
        "    = hint: --set training.clip_gradients=true asks for such a job\n"
        "error: torchtitan 0.2.2 has no 'training.zero_grad: zeros'\n"
        "    = hint: --set training.zero_grad=set-to-none asks for such a job\n");
  CHECK(refusal(llama + "training: {seq_len: 128}\n", "deepspeed") ==
        "error: DeepSpeed shards nothing of this job\n"
        "    = hint: --set parallelism.zero=2 on several GPUs, or with 'offload', asks it to\n");
  CHECK(refusal(llama + "training: {seq_len: 128}\n", "accelerate") ==
        "error: this job is a loop of PyTorch's around the model, and accelerate is written for "
        "the Trainer\n    = hint: --set training.implementation.loop=trainer asks for that job\n");
  CHECK(refusal(llama + "training: {seq_len: 128, implementation: {name: transformers, loop: "
                        "trainer}, optimizer: soap}\n",
                "accelerate") ==
        "error: accelerate 1.15 with the Trainer of transformers 5.17 has no "
        "'training.optimizer: soap, for-loop'\n"
        "    = hint: its argument 'optim' has another, or none\n");
  CHECK(refusal(llama + "training: {seq_len: 128, implementation: {name: transformers, loop: "
                        "trainer, compile: blocks}}\n",
                "accelerate") ==
        "error: 'training.implementation.compile: blocks' for accelerate 1.15 with the Trainer of "
        "transformers 5.17 is not available yet\n"
        "    = hint: --set training.implementation.compile=off asks for such a job\n");
  CHECK(refusal(llama, "megatron") ==
        "error: nothing is trained here: Megatron-LM 0.16.1 is told how to train\n"
        "    = hint: a spec to export has a section 'training'\n");
  CHECK(refusal(llama + "training: {seq_len: 128}\n", "axolotl") ==
        "error: jobs are not written for 'axolotl'\n"
        "    = hint: --to takes accelerate, deepspeed, torchtitan, megatron\n");
}

TEST_CASE("a model that a program's words do not reach is refused by the part that differs") {
  CHECK(refusal("model: {layers: 4, hidden_size: 512, heads: 8, ffn_size: 1024, vocab_size: 32000, "
                "activation: geglu, norm: rmsnorm, position: rope}\n"
                "training: {seq_len: 128, precision: megatron, implementation: megatron}\n",
                "megatron") ==
        "error: Megatron-LM 0.16.1 has no model like this one: the feed-forward "
        "or window of a layer would be another\n"
        "    = hint: of it, what its files can say is less\n");
}

TEST_CASE("ranks that are no whole nodes are a mistake") {
  CHECK(refusal(std::string(kLlama) +
                    "training: {seq_len: 128, precision: megatron, implementation: megatron}\n"
                    "parallelism: {data: 12}\nhardware: {gpu: h100-sxm-80gb, count: 12}\n",
                "megatron") ==
        "error: 12 GPUs are no whole nodes of 8\n"
        "    = hint: --set hardware.gpus_per_node=N says how many a node has\n");
}

}  // namespace
}  // namespace memest
