// The ledger of whole models: what is alive at which moment, and what the verdict makes of it. Each
// defect that a rival tool was found to have is a test here.
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "jobs.hpp"
#include "memory/moments/moments.hpp"

namespace memest {
namespace {

using namespace testing;

/// Llama-3-8B with 4096 tokens a sequence, flash attention, on an H200.
Job llama_job(const std::string& recipe = "bf16") {
  Job job = job_of(recipe, "adamw");
  job.model = llama_3_8b();
  job.training->seq_len = 4096;
  job.training->micro_batch = 2;
  job.training->implementation.attention = AttentionKernel::sdpa_flash;
  return job;
}

const Instant& instant(const Ledger& ledger, const std::string& name) {
  for (const Instant& one : ledger.instants) {
    if (one.name == name) return one;
  }
  FAIL("no instant " << name);
  return ledger.instants.front();
}

/// The formula of the term whose name begins so at the instant; zero where it has none.
Expr formula_at(const Ledger& ledger, const std::string& at, const std::string& beginning) {
  Expr total;
  for (const std::uint16_t term : instant(ledger, at).terms) {
    if (ledger.terms[term].name.starts_with(beginning)) total += ledger.terms[term].formula;
  }
  return total;
}

const Expr b(Symbol::micro_batch);
const Expr s(Symbol::seq_len);
const Expr h(Symbol::hidden_size);
const Expr v(Symbol::vocab_size);
const Expr L(Symbol::layers);

const char* const kLossBackward = "backward: loss, log_softmax";

TEST_CASE("twelve bytes a logit are alive when the loss goes backward", "[memory]") {
  const Ledger ledger = ledger_of(llama_job());
  // The log-softmax, the likelihood's gradient, the logits' gradient; the loss's own is 4 B.
  const Expr loss = formula_at(ledger, kLossBackward, "activations: loss") +
                    formula_at(ledger, kLossBackward, "log_softmax, backward");
  CHECK(loss == 12 * b * s * v);
  // bf16 and fp32 logits and the log-softmax; the labels padded, and shifted in a copy.
  const char* const forward = "forward: loss, nll_loss";
  const Expr made = formula_at(ledger, forward, "activations: loss") +
                    formula_at(ledger, forward, "nll_loss, forward");
  CHECK(made == 10 * b * s * v + 8 * b * s + 8 * b * (s + 1) + 8);
}

TEST_CASE("a checkpoint keeps every layer's input: 2·b·s·h a layer", "[memory]") {
  Job job = llama_job();
  job.training->recompute = FullRecompute{};
  const Ledger ledger = ledger_of(job);
  CHECK(formula_at(ledger, kLossBackward, "activations: checkpointed inputs") == 2 * b * s * h * L);
  CHECK(formula_at(ledger, kLossBackward, "activations: layer").is_zero());
  job.training->recompute = EveryRecompute{4};
  CHECK(formula_at(ledger_of(job), kLossBackward, "activations: checkpointed inputs") ==
        8 * (2 * b * s * h));
  job.training->recompute = SqrtRecompute{};  // ⌈√32⌉ = 6 checkpoints of 6 layers, the last of 2
  CHECK(formula_at(ledger_of(job), kLossBackward, "activations: checkpointed inputs") ==
        6 * (2 * b * s * h));
}

TEST_CASE("recompute saves memory, and longer checkpoints bring more back at once", "[memory]") {
  Job job = llama_job();
  job.training->micro_batch = 8;
  const auto allocated = [&](Recompute recompute) {
    job.training->recompute = recompute;
    return estimate_of(ledger_of(job)).allocated();
  };
  const Bytes kept = allocated(NoRecompute{});
  CHECK(allocated(FullRecompute{}) < kept);
  CHECK(allocated(EveryRecompute{2}) < kept);
  CHECK(allocated(SelectiveRecompute{}) <= kept);
}

TEST_CASE("selective recompute keeps what enters the attention core, and nothing it makes",
          "[memory]") {
  Job job = llama_job();
  job.training->recompute = SelectiveRecompute{};
  const Graph graph = lowered(job);
  const Block& layer = graph.blocks[1];
  const Ledger ledger = write_ledger(graph, job);
  const Expr kept = formula_at(ledger, kLossBackward, "activations: layer");
  CHECK(kept == L * layer.saved_bytes_without_attention_core());
  const BlockMoments moments = moments_of(layer, BlockPass::keep_parts_out);
  // The last operation goes backward with the core still gone.
  CHECK(moments.backward.front().saved == layer.saved_bytes_without_attention_core());
}

TEST_CASE("grouped key/value heads and a gated feed-forward change the activations", "[memory]") {
  Job job = llama_job();
  const auto layers = [&](const ModelSpec& model) {
    job.model = model;
    return formula_at(ledger_of(job), kLossBackward, "activations: layer")
        .evaluate(ledger_of(job).bindings);
  };
  const std::int64_t tokens = 2 * 4096 * 32;  // of all layers
  // Keys and values of 24 heads of 128 fewer, 2 B each.
  CHECK(layers(llama(32, 4096, 32, 32, 14336)) - layers(llama_3_8b()) == tokens * 2 * 2 * 24 * 128);
  // gate, its silu, up and their product: 8 B a channel.
  CHECK(layers(llama(32, 4096, 32, 8, 14337)) - layers(llama_3_8b()) == tokens * 8);
}

TEST_CASE("autocast's copies of all matmul weights are alive at the end of the forward",
          "[memory]") {
  const std::int64_t matmul = 8030261248 - 128256 * 4096 - 65 * 4096;  // no table, no norm
  for (const Recompute& recompute : {Recompute(NoRecompute{}), Recompute(FullRecompute{})}) {
    Job job = llama_job("amp-bf16");
    job.training->recompute = recompute;
    const Ledger ledger = ledger_of(job);
    const Expr kept = formula_at(ledger, "forward: loss, nll_loss", "weights cast by autocast");
    CHECK(kept.evaluate(ledger.bindings) == 2 * matmul);
  }
  CHECK(formula_at(ledger_of(llama_job()), "forward: loss, nll_loss", "weights cast").is_zero());
}

TEST_CASE("gradients are alive in the forward only where they accumulate or stay", "[memory]") {
  Job job = llama_job();
  const std::string forward = "forward: loss, nll_loss";
  CHECK(formula_at(ledger_of(job), forward, "gradients").is_zero());
  const Expr all = 2 * Expr(Symbol::parameters);
  job.training->gradient_accumulation = 2;
  CHECK(formula_at(ledger_of(job), forward, "gradients") == all);
  job.training->gradient_accumulation = 1;
  job.training->zero_grad = ZeroGrad::zeros;
  CHECK(formula_at(ledger_of(job), forward, "gradients") == all);
}

TEST_CASE("DDP's buckets are a second copy of the gradients unless they are views", "[memory]") {
  Job job = llama_job();
  const Bytes alone = estimate_of(ledger_of(job)).allocated();
  job.parallelism.data = 8;
  CHECK(estimate_of(ledger_of(job)).allocated() == alone + Bytes(2 * kLlama3));
  job.parallelism.ddp.gradient_as_bucket_view = true;
  const Ledger ledger = ledger_of(job);
  CHECK(named_bytes(ledger, "gradient buckets") == 0);
  CHECK(formula_at(ledger, "forward: loss, nll_loss", "gradients") == 2 * Expr(Symbol::parameters));
}

TEST_CASE("FSDP2 gathers layer by layer and keeps what is outside the layers gathered",
          "[memory]") {
  // Recorded: Llama-3-8B, 8 shards, b = 1, s = 4096, full recompute, fused AdamW: 22,165,456,896 B.
  Job job = llama_job("fsdp2-bf16");
  job.training->micro_batch = 1;
  job.training->optimizer_implementation = OptimizerImplementation::fused;
  job.training->recompute = FullRecompute{};
  job.parallelism.data = 8;
  job.parallelism.zero = ZeroStage::optimizer_gradients_weights;
  const Ledger ledger = ledger_of(job);
  const std::int64_t allocated = estimate_of(ledger).allocated().value();
  CHECK(allocated > 22165456896 * 99 / 100);
  CHECK(allocated <= 22165456896);
  const std::int64_t layer = 218112000;
  CHECK(ledger.bindings.at(Symbol::largest_unit) == layer);
  const auto in_a_layer = std::find_if(
      ledger.instants.begin(), ledger.instants.end(),
      [](const Instant& instant) { return instant.name.starts_with("backward: layer"); });
  REQUIRE(in_a_layer != ledger.instants.end());
  const auto alive = [&](std::string_view name) {
    Bytes bytes;
    for (const std::uint16_t term : in_a_layer->terms) {
      if (ledger.terms[term].name == name)
        bytes += ledger.terms[term].formula.bytes(ledger.bindings);
    }
    return bytes.value();
  };
  CHECK(alive("gathered weights") == 2 * (kLlama3 - 31 * layer));
  CHECK(alive("all-gather output") == 2 * layer);
  CHECK(alive("reduce-scatter input") == 4 * layer);
}

TEST_CASE("the workspaces follow the compute capability", "[memory]") {
  Job job = llama_job();
  CHECK(named_bytes(ledger_of(job), "cuBLAS workspaces") == 2 * 32 * kMiB);
  job.hardware.gpu = find_gpu("a100-sxm-80gb").value();
  CHECK(named_bytes(ledger_of(job), "cuBLAS workspaces") == 2 * 8519680);
  CHECK(named_bytes(ledger_of(job), "cublasLt") == 0);  // no bias in a LLaMA
}

TEST_CASE("logits that the caller holds stay until the next forward", "[memory]") {
  Job job = llama_job();
  const Bytes released = estimate_of(ledger_of(job)).allocated();
  job.training->hold_outputs = true;
  CHECK(estimate_of(ledger_of(job)).allocated() == released + Bytes(2 * 2 * 4096 * 128256));
}

TEST_CASE("the textbook's ledger is states and activations, nothing else", "[memory]") {
  Job job = llama_job("mixed");
  job.training->implementation.framework = Framework::textbook;
  const Graph graph = lowered(job);
  const Ledger ledger = write_ledger(graph, job);
  CHECK(estimate_of(ledger).allocated() == Bytes(16 * kLlama3 + named_bytes(ledger, "buffers")) +
                                               graph.saved_bytes().bytes(graph.sizes));
}

TEST_CASE("the peak never falls with the micro-batch or the sequence length", "[memory]") {
  for (const char* recipe : {"bf16", "amp-bf16", "mixed", "fp32"}) {
    for (const Recompute& recompute :
         {Recompute(NoRecompute{}), Recompute(FullRecompute{}), Recompute(SqrtRecompute{})}) {
      Job job = llama_job(recipe);
      job.training->implementation.attention = AttentionKernel::sdpa;
      job.training->recompute = recompute;
      const Ledger ledger = ledger_of(job);
      Bytes before;
      for (std::int64_t batch = 1; batch < 100; batch += 3) {
        const Bytes peak = peak_allocated(ledger, bindings_at(ledger, batch, 1024));
        CHECK(peak >= before);
        before = peak;
      }
      before = Bytes(0);
      for (std::int64_t seq_len = 100; seq_len < 70000; seq_len = seq_len * 5 / 4) {
        const Bytes peak = peak_allocated(ledger, bindings_at(ledger, 2, seq_len));
        CHECK(peak >= before);
        before = peak;
      }
    }
  }
}

TEST_CASE("the estimate is the sum of its terms, and a search sees the same peak", "[memory]") {
  const Ledger ledger = ledger_of(llama_job("amp-bf16"));
  for (const std::int64_t batch : {1, 2, 7, 64}) {
    const Bindings bindings = bindings_at(ledger, batch, 3000);
    const MemoryEstimate estimate = estimate_memory(ledger, bindings);
    Bytes total;
    for (const Term& term : estimate.terms) {
      CHECK(term.value == ledger.terms[term.index].formula.bytes(bindings));
      total += term.value;
    }
    CHECK(total == estimate.allocated() + estimate.outside);
    CHECK(peak_allocated(ledger, bindings) == estimate.allocated());
  }
}

TEST_CASE("the interval begins below the tensors and ends at what the allocator reserves",
          "[memory]") {
  const MemoryEstimate estimate = estimate_of(ledger_of(llama_job()));
  CHECK(estimate.low() < estimate.allocated() + estimate.outside);
  CHECK(estimate.high() > estimate.device());
  CHECK(estimate.margin.records > 0);
}

TEST_CASE("the verdict weighs the whole interval", "[memory]") {
  const MemoryEstimate estimate = estimate_of(ledger_of(llama_job()));
  CHECK(judge(estimate, {estimate.high(), false}) == Verdict::fits);
  CHECK(judge(estimate, {estimate.high() - Bytes(1), false}) == Verdict::too_close_to_call);
  CHECK(judge(estimate, {estimate.low(), false}) == Verdict::too_close_to_call);
  CHECK(judge(estimate, {estimate.low() - Bytes(1), false}) == Verdict::does_not_fit);
  // The allocator's own limit leaves the context out.
  const Bytes reserved = estimate.high() - estimate.outside_high;
  CHECK(judge(estimate, {reserved, true}) == Verdict::fits);
  CHECK(judge(estimate, {reserved, false}) == Verdict::too_close_to_call);
}

TEST_CASE("the largest micro-batch fits and the next one does not", "[memory]") {
  Job job = llama_job();
  job.training->recompute = FullRecompute{};
  const Ledger ledger = ledger_of(job);
  const Capacity capacity = capacity_of(job.hardware);
  CHECK_FALSE(capacity.allocator_limit);
  const SimpleView view = simple_view(ledger, capacity);
  REQUIRE(view.largest_micro_batch > 0);
  const auto verdict = [&](std::int64_t batch) {
    return judge(estimate_memory(ledger, bindings_at(ledger, batch, 4096)), capacity);
  };
  CHECK(verdict(view.largest_micro_batch) == Verdict::fits);
  CHECK(verdict(view.largest_micro_batch + 1) != Verdict::fits);
  const std::int64_t beyond = view.largest_micro_batch + 1;
  CHECK(view.fixed + view.per_sequence * beyond ==
        estimate_memory(ledger, bindings_at(ledger, beyond, 4096)).allocated());
  job.hardware.memory = Bytes(kGiB);
  CHECK(simple_view(ledger, capacity_of(job.hardware)).largest_micro_batch == 0);
}

TEST_CASE("sizes out of range are an overflow, never a wrap", "[memory]") {
  const Ledger ledger = ledger_of(llama_job());
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max() / 256;
  CHECK_THROWS_AS(peak_allocated(ledger, bindings_at(ledger, kHuge, 8192)), OverflowError);
}

}  // namespace
}  // namespace memest
