// Autograd's sums of gradients, held to what `memest record` tells of them: bytes of aten::add_ and
// aten::add in the second step's backward, of plain loops under transformers 5.17 and torch 2.11
// (docs/record.md, Time, held to memest estimate).
#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <string>
#include <variant>

#include "memest/graph/lower.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/reader/read_job.hpp"
#include "memest/time/work.hpp"

namespace memest {
namespace {

constexpr const char* kLlama1B =
    "model_type: llama, vocab_size: 128256, hidden_size: 2048, intermediate_size: 8192, "
    "num_hidden_layers: 16, num_attention_heads: 32, num_key_value_heads: 8, head_dim: 64, "
    "max_position_embeddings: 131072, hidden_act: silu, tie_word_embeddings: true";
constexpr const char* kGpt2 =
    "model_type: gpt2, vocab_size: 50257, n_embd: 768, n_layer: 12, n_head: 12, n_positions: 1024, "
    "activation_function: gelu_new, tie_word_embeddings: true";
constexpr const char* kLlama8B =
    "model_type: llama, vocab_size: 128256, hidden_size: 4096, intermediate_size: 14336, "
    "num_hidden_layers: 32, num_attention_heads: 32, num_key_value_heads: 8, "
    "max_position_embeddings: 8192, hidden_act: silu, tie_word_embeddings: false";

/// Bytes of a step's sums of two tensors, three for each; biases' gradients are sums over rows.
double bytes_of_sums(const std::string& model, const std::string& training) {
  auto text = std::make_shared<SourceText>();
  text->name = "recorded.yaml";
  text->text = "model: {hf: {" + model + "}}\ntraining: {" + training +
               ", implementation: {name: transformers, attention: sdpa}}\n"
               "hardware: {gpu: h100-sxm-80gb}\n";
  const Checked<Job> job = read_job(std::shared_ptr<const SourceText>(std::move(text)));
  REQUIRE(job.ok());
  const auto graph = lower(job.value().model, policy_of(job.value()));
  REQUIRE(std::holds_alternative<Graph>(graph));
  const StepWork work = work_of(std::get<Graph>(graph), job.value());
  double bytes = 0;
  for (const OpWork& op : work.ops) {
    if (op.sums == GradientSums::none) continue;
    for (const KernelShape& call : op.backward_calls) {
      const auto& sum = std::get<StreamShape>(call);
      if (sum.op == StreamOp::add) bytes += op.executions * static_cast<double>(sum.bytes);
    }
  }
  return bytes;
}

TEST_CASE("Sums of gradients move what PyTorch's engine was recorded to move") {
  // add_ 15,401,484,288 B, and out of place 64 residual streams of 50,331,648 B.
  CHECK(bytes_of_sums(kLlama8B, "seq_len: 2048, micro_batch: 1, precision: bf16") ==
        18'622'709'760);
  // Run again, a layer sums as often: add_ 7,751,073,792 B, out of place 32 residual streams of
  // 50,331,648 B and the tied table.
  CHECK(
      bytes_of_sums(kLlama1B, "seq_len: 2048, micro_batch: 2, precision: bf16, recompute: full") ==
      10'937'696'256);
  // An activation in Python reads its input three times: add_ 4,529,848,320 B, and the tied table.
  CHECK(bytes_of_sums(kGpt2, "seq_len: 1024, micro_batch: 8, precision: bf16") == 4'761'432'576);
  // In fp32, each behind its own cast: all in place.
  CHECK(bytes_of_sums(kLlama1B, "seq_len: 2048, micro_batch: 2, precision: amp-bf16") ==
        16'540'237'824);
}

TEST_CASE("Sums of gradients of other families, and beside adapters, are those recorded") {
  const std::string sizes =
      "hidden_size: 1024, intermediate_size: 2816, num_hidden_layers: 3, num_attention_heads: 16, ";
  const std::string trained = "seq_len: 512, micro_batch: 2, precision: bf16";
  // Both branches read what the residual stream has, and a quarter of each head rotates.
  CHECK(
      bytes_of_sums("model_type: gpt_neox, vocab_size: 50304, max_position_embeddings: 2048, "
                    "rotary_pct: 0.25, use_parallel_residual: true, tie_word_embeddings: false, " +
                        sizes + "hidden_act: gelu",
                    trained) == 94'371'840);
  // Four norms a layer that read their input twice, and a tied table.
  CHECK(
      bytes_of_sums("model_type: gemma2, vocab_size: 32000, num_key_value_heads: 4, head_dim: 64, "
                    "max_position_embeddings: 4096, sliding_window: 4096, "
                    "query_pre_attn_scalar: 64, final_logit_softcapping: 30.0, "
                    "attn_logit_softcapping: null, " +
                        sizes + "tie_word_embeddings: true",
                    trained) == 501'743'616);
  // Each adapted projection's input has a user more; the tied table is frozen.
  CHECK(bytes_of_sums("model_type: qwen2, vocab_size: 32000, num_key_value_heads: 4, "
                      "max_position_embeddings: 4096, " +
                          sizes + "tie_word_embeddings: true",
                      trained + ", adapter: {lora: {rank: 16, targets: [q_proj, k_proj, v_proj, "
                                "o_proj]}}") == 254'803'968);
}

}  // namespace
}  // namespace memest
