// torchao's float8 linears: the closed form held to the replay, their FLOPs and calls, and what
// they refuse.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "../draws.hpp"
#include "jobs.hpp"
#include "memest/plan/step_memory.hpp"
#include "memest/time/flops.hpp"
#include "memest/time/work.hpp"
#include "plan/layouts/space.hpp"

namespace memest {
namespace {

class Specs : test::Draws {
 public:
  using Draws::Draws;

  std::string draw() {
    const bool titan = one_of(true, false);
    const int head_dim = one_of(32, 64, 128);
    const int kv_heads = one_of(1, 2, 4);
    const int heads = kv_heads * one_of(1, 2, 3);
    const int hidden_size = heads * head_dim;
    const std::string way = titan ? one_of("", "data: 4, zero: 3, fsdp: {version: 2}",
                                           "data: 4, zero: 3, fsdp: {version: 2, replicate: 2}")
                                  : one_of("", "data: 2", "data: 4, zero: 3, fsdp: {version: 2}");
    const bool sharded = way.find("fsdp") != std::string::npos;
    const std::string ranks = sharded ? "4" : way.empty() ? "1" : "2";
    const std::string sizes =
        std::to_string(one_of(1, 2, 3, 5)) + ", hidden_size: " + std::to_string(hidden_size);
    const std::string ffn_size = std::to_string(hidden_size * one_of(2, 3, 4));
    const std::string vocabulary = std::to_string(one_of(512, 1000, 5003, 32000));
    const std::string own =
        "model: {family: decoder, layers: " + sizes + ", heads: " + std::to_string(heads) +
        ", kv_heads: " + std::to_string(kv_heads) + ", head_dim: " + std::to_string(head_dim) +
        ", ffn_size: " + ffn_size + ", vocab_size: " + vocabulary +
        ", activation: swiglu, norm: rmsnorm, position: rope}\n";
    const std::string config =
        "model: {hf: {model_type: " + std::string(one_of("llama", "mistral", "qwen2", "qwen3")) +
        ", num_hidden_layers: " + sizes + ", num_attention_heads: " + std::to_string(heads) +
        ", num_key_value_heads: " + std::to_string(kv_heads) +
        ", head_dim: " + std::to_string(head_dim) + ", intermediate_size: " + ffn_size +
        ", vocab_size: " + vocabulary +
        ", max_position_embeddings: 2048, tie_word_embeddings: false}}\n";
    const char* unsharded = titan ? "amp-bf16" : one_of("bf16", "amp-bf16", "fp32");
    return test::Text() << (titan ? own : config)
                        << "training: {micro_batch: " << one_of(1, 2, 3, 8)
                        << ", seq_len: " << one_of(64, 128, 512, 1024)
                        << ", precision: " << (sharded ? "fsdp2-bf16" : unsharded)
                        << ", optimizer: {name: " << one_of("adamw", "sgd")
                        << ", implementation: fused}, recompute: "
                        << (titan ? one_of("none", "selective", "full")
                                  : one_of("none", "none", "full"))
                        << ", gradient_accumulation: " << one_of(1, 2)
                        << ", clip_gradients: " << flag()
                        << ", implementation: " << (titan ? "torchtitan" : "transformers")
                        << ", float8: {" << recipe(sharded) << ", filter_fqns: " << filters(titan)
                        << "}}\n"
                        << (way.empty() ? "" : "parallelism: {" + way + "}\n")
                        << "hardware: {gpu: " << one_of("h100-sxm-80gb", "b200-sxm-180gb")
                        << ", count: " << ranks << "}\n";
  }

 private:
  std::string recipe(bool sharded) {
    const std::string recipe = one_of("tensorwise", "rowwise", "rowwise_with_gw_hp");
    const bool gathers = sharded && recipe == "tensorwise" && one_of(true, true, false);
    return "recipe: " + recipe + (gathers ? ", all_gather: true" : "");
  }

  std::string filters(bool titan) {
    const std::string head = titan ? "output" : "lm_head";
    const std::string values = titan ? "attention.wv" : "v_proj";
    return one_of(std::string("[]"), "[" + head + "]", "[" + head + ", " + values + "]");
  }
};

Job without_float8(Job job) {
  job.training->float8.reset();
  return job;
}

std::string llama(const std::string& training, const std::string& gpu = "h100-sxm-80gb",
                  const std::string& model = "model_type: llama, intermediate_size: 704") {
  return "model: {hf: {" + model +
         ", num_hidden_layers: 2, hidden_size: 256, num_attention_heads: 4, num_key_value_heads: "
         "2, vocab_size: 5008, max_position_embeddings: 2048}}\ntraining: {micro_batch: 2, " +
         training + "}\nhardware: {gpu: " + gpu + "}\n";
}

std::string refusal_of(const std::string& spec) {
  const auto memory = step_memory_of(test::job_from(spec));
  const auto* reason = std::get_if<Unavailable>(&memory);
  return reason == nullptr ? "" : reason->sentence;
}

TEST_CASE("with float8 linears the closed form is the replay without rounding, to 0.1 %") {
  constexpr int kJobs = 80;
  Specs specs(1);
  int close = 0;
  int gathered = 0;
  for (int i = 0; i < kJobs; ++i) {
    const std::string spec = specs.draw();
    INFO(spec);
    const double distance = test::distance_of(test::job_from(spec));
    CHECK(distance <= 0.001);
    if (distance <= 0.0001) ++close;
    if (spec.find("all_gather") != std::string::npos) ++gathered;
  }
  CHECK(close >= kJobs * 9 / 10);
  CHECK(gathered >= 5);
}

TEST_CASE("float8 linears count the FLOPs of the model's own, and a checkpoint's last product") {
  constexpr int kJobs = 60;
  Specs specs(2);
  for (int i = 0; i < kJobs; ++i) {
    const std::string spec = specs.draw();
    INFO(spec);
    const Job job = test::job_from(spec);
    const Job own = without_float8(job);
    const FlopsEstimate with = count_flops(test::steps_of(job).graph, job);
    const FlopsEstimate without = count_flops(test::steps_of(own).graph, own);
    CHECK(with.forward.value() == without.forward.value());
    const bool recomputes = std::holds_alternative<FullRecompute>(job.training->recompute) &&
                            job.training->implementation.framework == Framework::transformers;
    // An autograd function saves when it has run, so a checkpoint that stops early runs the last
    // product too; torchtitan's run to their end.
    CHECK((with.backward.value() > without.backward.value()) == recomputes);
  }
}

TEST_CASE("a float8 linear's products take fp8 operands, and its casts are traffic beside them") {
  const Job job = test::job_from(llama("seq_len: 512, precision: bf16, float8: {recipe: rowwise}"));
  const StepMemory step = test::steps_of(job);
  int products = 0;
  for (const OpWork& op : work_of(step.graph, job).ops) {
    if (op.op->kind != OpKind::linear) continue;
    const bool head = op.op->name == "lm_head";
    const std::size_t casts = head ? 0 : 1;
    REQUIRE(op.forward_calls.size() == 1 + casts);
    REQUIRE(op.backward_calls.size() == 2 + casts);
    for (const auto* calls : {&op.forward_calls, &op.backward_calls}) {
      CHECK(std::holds_alternative<StreamShape>(calls->front()) != head);
      for (std::size_t i = casts; i < calls->size(); ++i) {
        const auto& product = std::get<MatmulShape>((*calls)[i]);
        CHECK(product.operand == (head ? DType::bf16 : DType::fp8));
        CHECK(product.result == DType::bf16);
      }
    }
    ++products;
  }
  CHECK(products > 1);
}

/// LLaMA over so many ranks of FSDP2.
std::string sharded(const std::string& float8, int ranks = 4,
                    const std::string& model = "model_type: llama, intermediate_size: 704") {
  const std::string count = std::to_string(ranks);
  return llama("seq_len: 512, float8: {" + float8 + "}", "h100-sxm-80gb, count: " + count, model) +
         "parallelism: {data: " + count + ", fsdp: {version: 2}}\n";
}

/// Bytes of the weights that units gather, one after another, without those of scales.
std::vector<std::int64_t> gathered_weights(const Timeline& timeline) {
  constexpr std::int64_t kScale = 4;
  std::vector<std::int64_t> bytes;
  for (const Storage& storage : timeline.storages) {
    const bool weight = storage.label.origin == Origin::unit &&
                        storage.label.tensor == static_cast<std::uint16_t>(UnitTensor::weight);
    if (weight && storage.bytes > kScale) bytes.push_back(storage.bytes);
  }
  return bytes;
}

TEST_CASE(
    "weights of float8 linears are gathered in half the bytes of bf16, all others as before") {
  const Job in_bf16 = test::job_from(sharded(""));
  const Job in_fp8 = test::job_from(sharded("all_gather: true"));
  const std::vector<std::int64_t> before = gathered_weights(test::steps_of(in_bf16).timeline);
  const std::vector<std::int64_t> after = gathered_weights(test::steps_of(in_fp8).timeline);
  REQUIRE(before.size() == after.size());
  int halved = 0;
  int equal = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (2 * after[i] == before[i]) ++halved;
    if (after[i] == before[i]) ++equal;
  }
  CHECK(halved + equal == static_cast<int>(before.size()));
  // A layer has seven linears and two gains; the root, gathered once a step, three more tensors.
  constexpr int kSteps = 2;
  CHECK(2 * halved == 7 * (equal - 3 * kSteps));
}

TEST_CASE("gathered in fp8, weights take less of the links and their shares less to cast") {
  const auto step_of = [](const Job& job) {
    return std::get<TimeEstimate>(estimate_job(job).time).step.value();
  };
  const std::string rest =
      "parallelism: {data: 8, fsdp: {version: 2}}\nhardware: {gpu: h100-sxm-80gb, count: 8}\n";
  const std::string training = "seq_len: 4096, implementation: torchtitan, float8: ";
  CHECK(step_of(test::llama(training + "{all_gather: true}", rest)) <
        step_of(test::llama(training + "{}", rest)));
}

TEST_CASE("what cannot be gathered in fp8 is refused by name") {
  CHECK(refusal_of(sharded("all_gather: true")).empty());
  CHECK(refusal_of(sharded("all_gather: true", 3)) ==
        "weights gathered in fp8 lie in equal shares of rows: 256 rows do not divide among 3 "
        "ranks");
  CHECK(refusal_of(sharded("all_gather: true, filter_fqns: []", 4,
                           "model_type: llama, intermediate_size: 704, tie_word_embeddings: "
                           "true")) ==
        "a float8 head that is tied to the embedding and gathered in fp8 is not available yet");
}

TEST_CASE("a plan gathers weights in fp8 under FSDP2 alone, over ranks that have equal rows") {
  const Job job = test::job_from(sharded("all_gather: true"));
  Parallelism layout;
  for (const int ranks : {8, 6}) {
    layout.data = ranks;
    Job any = job;
    any.given.sharing = false;
    const std::vector<Sharing> choices = sharing_choices(any, layout);
    CHECK_FALSE(choices.empty());
    for (const Sharing& sharing : choices) {
      CHECK(sharing.in_units());
      CHECK(256 % (ranks / sharing.replicas()) == 0);
    }
  }
}

TEST_CASE("a plan shares beside float8 linears what an estimate answers: DDP and FSDP2") {
  for (const char* name : {"transformers", "torchtitan"}) {
    const Job job =
        test::job_from(llama("seq_len: 512, float8: {}, implementation: " + std::string(name)));
    Parallelism layout;
    layout.data = 8;
    const std::vector<Sharing> choices = sharing_choices(job, layout);
    CHECK_FALSE(choices.empty());
    for (const Sharing& sharing : choices) {
      CHECK((sharing.zero == ZeroStage::none || sharing.fsdp));
      CHECK_FALSE(sharing.offload.any());
    }
  }
}

TEST_CASE(
    "a plan recomputes beside float8 linears nothing or whole layers, torchtitan's by choice") {
  const auto selects = [](const std::string& implementation) {
    const Job job =
        test::job_from(llama("seq_len: 512, float8: {}, implementation: " + implementation));
    return std::ranges::any_of(recompute_choices(job), [](const Recompute& recompute) {
      return std::holds_alternative<SelectiveRecompute>(recompute);
    });
  };
  CHECK_FALSE(selects("transformers"));
  CHECK(selects("torchtitan"));
  CHECK(selects("{name: torchtitan, compile: blocks}"));
}

TEST_CASE("a selective checkpoint casts the operands of the products again that it keeps") {
  const Job job = test::job_from(
      llama("seq_len: 512, float8: {}, recompute: selective, implementation: torchtitan"));
  const StepMemory step = test::steps_of(job);
  std::string multiplied;
  std::string cast;
  for (const OpWork& op : work_of(step.graph, job).ops) {
    if (op.op->kind != OpKind::linear || op.op->name == "lm_head") continue;
    if (op.recomputations > 0) multiplied += std::string(op.op->name) + " ";
    if (op.recasts > 0) cast += std::string(op.op->name) + " ";
    CHECK(op.recomputations + op.recasts == 2);
  }
  CHECK(multiplied == "k_proj o_proj up_proj ");
  CHECK(cast == "q_proj v_proj gate_proj down_proj ");
}

/// A LLaMA over FSDP2 whose layers torchtitan compiles.
std::string compiled_over_ranks(const std::string& float8, const std::string& recompute,
                                const std::string& tokens = "micro_batch: 2, seq_len: 1024") {
  return "model: {family: decoder, layers: 3, hidden_size: 512, heads: 8, kv_heads: 4, head_dim: "
         "64, ffn_size: 1536, vocab_size: 1024, activation: swiglu, norm: rmsnorm, position: "
         "rope}\ntraining: {" +
         tokens + ", precision: fsdp2-bf16, recompute: " + recompute +
         ", implementation: {name: torchtitan, compile: blocks}, float8: {" + float8 +
         "}}\nparallelism: {data: 8, fsdp: {version: 2}}\nhardware: {gpu: h100-sxm-80gb, count: "
         "8}\n";
}

TEST_CASE("with compiled float8 linears the closed form is the replay without rounding, to 0.1 %") {
  for (const char* float8 : {"", "all_gather: true", "recipe: rowwise",
                             "filter_fqns: [output, attention.wk, attention.wv]"}) {
    for (const char* recompute : {"none", "selective", "full"}) {
      for (const char* tokens :
           {"micro_batch: 2, seq_len: 1024", "micro_batch: 1, seq_len: 8192"}) {
        INFO(float8 << " " << recompute << " " << tokens);
        CHECK(test::distance_of(test::job_from(compiled_over_ranks(float8, recompute, tokens))) <=
              0.001);
      }
    }
  }
}

TEST_CASE("compiled casts move less than eager ones, and products take fp8 operands in both") {
  const auto calls_of = [](const std::string& spec) {
    const Job job = test::job_from(spec);
    const StepMemory step = test::steps_of(job);
    double cast = 0;
    int products = 0;
    for (const OpWork& op : work_of(step.graph, job).ops) {
      if (op.op->kind != OpKind::linear || op.op->compute != DType::fp8) continue;
      for (const auto* calls : {&op.forward_calls, &op.backward_calls}) {
        for (const KernelShape& call : *calls) {
          if (const auto* stream = std::get_if<StreamShape>(&call)) {
            cast += static_cast<double>(stream->bytes);
          } else if (std::get<MatmulShape>(call).operand == DType::fp8) {
            ++products;
          }
        }
      }
    }
    return std::pair{cast, products};
  };
  const std::string spec = compiled_over_ranks("", "none");
  const std::string eager = "{name: torchtitan, compile: off}";
  const std::string blocks = "{name: torchtitan, compile: blocks}";
  std::string uncompiled = spec;
  uncompiled.replace(uncompiled.find(blocks), blocks.size(), eager);
  const auto [compiled_bytes, compiled_products] = calls_of(spec);
  const auto [eager_bytes, eager_products] = calls_of(uncompiled);
  CHECK(compiled_products == eager_products);
  CHECK(compiled_bytes < eager_bytes / 4);
}

TEST_CASE("what float8 linears cannot be is refused by name") {
  const std::string float8 = "seq_len: 512, precision: bf16, float8: {recipe: tensorwise}";
  const std::string rows = "seq_len: 512, precision: bf16, float8: {recipe: rowwise}";
  CHECK(refusal_of(llama(float8)).empty());
  CHECK(refusal_of(llama(float8, "l40s-48gb")).empty());
  CHECK(refusal_of(llama(rows, "b200-sxm-180gb")).empty());
  CHECK(refusal_of(llama(float8, "a100-sxm-80gb")) ==
        "float8 products run from compute capability 8.9 on");
  CHECK(refusal_of(llama(rows, "l40s-48gb")) ==
        "float8 products with scales by rows run from compute capability 9.0 on");
  CHECK(refusal_of(llama("seq_len: 77, precision: bf16, float8: {}")) ==
        "float8 products sum over the tokens of a micro-batch, a multiple of 16: not 154");
  CHECK(refusal_of(llama("seq_len: 512, precision: bf16, float8: {filter_fqns: [wq]}")) ==
        "no linear layer's name contains 'wq'");
  CHECK(refusal_of(llama(float8 + ", adapter: {lora: {rank: 8, targets: [q_proj]}}")) ==
        "float8 linears beside an adapter are not available yet");
  CHECK(refusal_of(llama(float8 + ", implementation: {compile: blocks}")) ==
        "torch.compile beside float8 linears is not available yet in another program than "
        "torchtitan");
  CHECK(refusal_of(llama("seq_len: 512, precision: amp-bf16, float8: {}, implementation: {name: "
                         "torchtitan, compile: blocks}")) ==
        "torch.compile beside float8 linears is not available yet under autocast, or with weights "
        "that are not gathered in bf16");
  CHECK(refusal_of(compiled_over_ranks("recipe: rowwise_with_gw_hp", "none")) ==
        "torch.compile beside float8 linears is not available yet with the recipe "
        "rowwise_with_gw_hp");
  CHECK(refusal_of(llama(float8 + ", implementation: {liger: true}")) ==
        "Liger's kernels beside float8 linears are not available yet");
  CHECK(refusal_of(llama(float8 + ", use_cache: true")) ==
        "a key-value cache beside float8 linears is not available yet");
  CHECK(refusal_of(llama("seq_len: 512, precision: bf16, loss: sum-of-logits, float8: "
                         "{filter_fqns: []}")) ==
        "a sum of logits behind a float8 head is not available yet");
  CHECK(refusal_of(
            "model: {family: decoder, layers: 2, hidden_size: 256, heads: 4, ffn_size: 768, "
            "vocab_size: 1000, activation: swiglu, norm: rmsnorm, position: rope, qk_norm: "
            "true}\ntraining: {seq_len: 128, precision: fsdp2-bf16, implementation: torchtitan, "
            "float8: {}}\n"
            "parallelism: {data: 2, fsdp: {version: 2}}\nhardware: {gpu: h100-sxm-80gb, count: "
            "2}\n") == "float8 linears in torchtitan's Qwen3 are not available yet");
  CHECK(refusal_of("model: gpt2\ntraining: {seq_len: 128, precision: bf16, float8: {}}\nhardware: "
                   "{gpu: h100-sxm-80gb}\n") ==
        "float8 linears are available in models of model_type llama, mistral, qwen2, qwen3, phi3, "
        "torchtitan");
}

}  // namespace
}  // namespace memest
