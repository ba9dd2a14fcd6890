// torchao's float8 linears: the closed form held to the replay, their FLOPs and calls, and what
// they refuse.
#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <random>
#include <string>
#include <variant>

#include "jobs.hpp"
#include "memest/plan/step_memory.hpp"
#include "memest/time/flops.hpp"
#include "memest/time/work.hpp"
#include "plan/layouts/space.hpp"

namespace memest {
namespace {

class Specs {
 public:
  explicit Specs(std::uint32_t seed) : random_(seed) {}

  std::string draw() {
    const bool titan = one_of(std::array{true, false});
    const int head_dim = one_of(std::array{32, 64, 128});
    const int kv_heads = one_of(std::array{1, 2, 4});
    const int heads = kv_heads * one_of(std::array{1, 2, 3});
    const int hidden_size = heads * head_dim;
    const std::string way = one_of(
        titan ? std::array<std::string, 3>{"", "data: 4, zero: 3, fsdp: {version: 2}",
                                           "data: 4, zero: 3, fsdp: {version: 2, replicate: 2}"}
              : std::array<std::string, 3>{"", "data: 2", "data: 4, zero: 3, fsdp: {version: 2}"});
    const bool sharded = way.find("fsdp") != std::string::npos;
    const std::string ranks = sharded ? "4" : way.empty() ? "1" : "2";
    const std::string sizes =
        number(std::array{1, 2, 3, 5}) + ", hidden_size: " + std::to_string(hidden_size);
    const std::string ffn_size = std::to_string(hidden_size * one_of(std::array{2, 3, 4}));
    const std::string vocabulary = number(std::array{512, 1000, 5003, 32000});
    const std::string own =
        "model: {family: decoder, layers: " + sizes + ", heads: " + std::to_string(heads) +
        ", kv_heads: " + std::to_string(kv_heads) + ", head_dim: " + std::to_string(head_dim) +
        ", ffn_size: " + ffn_size + ", vocab_size: " + vocabulary +
        ", activation: swiglu, norm: rmsnorm, position: rope}\n";
    const std::string config =
        "model: {hf: {model_type: " +
        std::string(one_of(std::array{"llama", "mistral", "qwen2", "qwen3"})) +
        ", num_hidden_layers: " + sizes + ", num_attention_heads: " + std::to_string(heads) +
        ", num_key_value_heads: " + std::to_string(kv_heads) +
        ", head_dim: " + std::to_string(head_dim) + ", intermediate_size: " + ffn_size +
        ", vocab_size: " + vocabulary +
        ", max_position_embeddings: 2048, tie_word_embeddings: false}}\n";
    return (titan ? own : config) + "training: {micro_batch: " + number(std::array{1, 2, 3, 8}) +
           ", seq_len: " + number(std::array{64, 128, 512, 1024}) + ", precision: " +
           (sharded ? "fsdp2-bf16"
            : titan ? "amp-bf16"
                    : one_of(std::array{"bf16", "amp-bf16", "fp32"})) +
           ", optimizer: {name: " + one_of(std::array{"adamw", "sgd"}) +
           ", implementation: fused}, recompute: " + one_of(std::array{"none", "none", "full"}) +
           ", gradient_accumulation: " + number(std::array{1, 2}) +
           ", clip_gradients: " + one_of(std::array{"true", "false"}) +
           ", implementation: " + (titan ? "torchtitan" : "transformers") + ", float8: {recipe: " +
           one_of(std::array{"tensorwise", "rowwise", "rowwise_with_gw_hp"}) +
           ", filter_fqns: " + filters(titan) + "}}\n" +
           (way.empty() ? "" : "parallelism: {" + way + "}\n") +
           "hardware: {gpu: " + one_of(std::array{"h100-sxm-80gb", "b200-sxm-180gb"}) +
           ", count: " + ranks + "}\n";
  }

 private:
  std::string filters(bool titan) {
    const std::string head = titan ? "output" : "lm_head";
    const std::string values = titan ? "attention.wv" : "v_proj";
    return one_of(
        std::array<std::string, 3>{"[]", "[" + head + "]", "[" + head + ", " + values + "]"});
  }

  template <class Choices>
  std::string number(const Choices& choices) {
    return std::to_string(one_of(choices));
  }

  template <class Choices>
  typename Choices::value_type one_of(const Choices& choices) {
    return choices[random_() % choices.size()];  // the same draw with every standard library
  }

  std::mt19937 random_;
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

TEST_CASE("with float8 linears the closed form is near the replay") {
  constexpr int kJobs = 80;
  Specs specs(1);
  int close = 0;
  for (int i = 0; i < kJobs; ++i) {
    const std::string spec = specs.draw();
    INFO(spec);
    const double distance = test::distance_of(test::job_from(spec));
    // It counts the weight's gradient from the operation's begin on, and nothing of what kernels
    // ask for beside their results: the largest values of columns leave partial ones for every
    // block.
    const bool by_columns = spec.find("{recipe: rowwise") != std::string::npos;
    CHECK(distance <= (by_columns ? 0.08 : 0.02));
    if (distance <= 0.001) ++close;
  }
  CHECK(close >= kJobs / 2);
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

TEST_CASE("a plan recomputes beside float8 linears nothing or whole layers") {
  const Job job = test::job_from(llama("seq_len: 512, float8: {}, implementation: torchtitan"));
  const std::vector<Recompute> choices = recompute_choices(job);
  CHECK(choices.size() == 2);
  for (const Recompute& recompute : choices) {
    CHECK_FALSE(std::holds_alternative<SelectiveRecompute>(recompute));
  }
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
        "torch.compile beside float8 linears is not available yet");
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
