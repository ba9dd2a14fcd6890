// Small specs that once brought the program down or made it contradict itself, and specs drawn
// around them: each is refused with a place, or answered.
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <filesystem>
#include <string>
#include <variant>

#include "../draws.hpp"
#include "jobs.hpp"
#include "memest/plan/budget.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/plan/search.hpp"
#include "memest/reader/catalog.hpp"

namespace memest {
namespace {

Checked<Job> read(const std::string& name) {
  return read_job(ReadRequest{.files = {MEMEST_REPRODUCERS "/" + name + ".yaml"}});
}

/// An answer without a term below nothing, and with an interval in order.
void check_answer(const Job& job) {
  const JobEstimate estimate = estimate_job(job);
  const auto* memory = std::get_if<MemoryAnswer>(&estimate.memory);
  if (memory == nullptr) return;
  for (const Term& term : memory->estimate.terms) {
    INFO(memory->ledger.terms[term.index].name);
    CHECK(term.value >= Bytes(0));
  }
  CHECK(memory->low() <= memory->device());
  CHECK(memory->device() <= memory->high());
}

TEST_CASE("every reproducer is refused with a place or answered") {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(MEMEST_REPRODUCERS)) {
    if (entry.path().extension() != ".yaml") continue;
    INFO(entry.path().string());
    const Checked<Job> job = read_job(ReadRequest{.files = {entry.path().string()}});
    ++files;
    if (job.ok()) {
      check_answer(job.value());
      continue;
    }
    for (const Diagnostic& one : job.diagnostics()) CHECK(one.span.line > 0);
  }
  CHECK(files == 12);
}

TEST_CASE("of the reproducers these are refused, and those answered") {
  for (const char* refused : {"H1", "M8a", "M9"}) CHECK_FALSE(read(refused).ok());
  for (const char* answered : {"H2", "H3", "H4", "H5", "H6", "M7", "M8b", "M8c", "V1"}) {
    CHECK(read(answered).ok());
  }
}

TEST_CASE("a pipeline of gpipe that holds every micro-batch does not fit") {
  const JobEstimate estimate = estimate_job(read("H4").value());
  const auto& memory = std::get<MemoryAnswer>(estimate.memory);
  CHECK(memory.verdict == Verdict::does_not_fit);
  const double closed = memory.closed_form->as_double();
  CHECK(memory.allocated().as_double() > 0.99 * closed);
  CHECK(memory.allocated().as_double() < 1.06 * closed);
}

TEST_CASE("a budget of more FLOPs than 64 bits count is what was written") {
  const Job job = read("M7").value();
  CHECK(job.budget.flops->as_double() == 10e18);
  for (const BudgetLine& line : hold_to_budget(job, estimate_job(job))) {
    CHECK(line.limit > 0);
    CHECK(line.status == BudgetStatus::within);
  }
}

/// Layers of every kind, in place where they can be, over widths that agree.
class Lists : test::Draws {
 public:
  using Draws::Draws;

  std::string draw() {
    width_ = one_of(1, 16, 64, 1000);
    std::string layers =
        "{linear: {in: " + std::to_string(width_) + ", out: " + std::to_string(width_) + "}}";
    const int count = one_of(1, 2, 5, 12);
    for (int i = 0; i < count; ++i) {
      const bool before = one_of(true, false, false, false);
      const std::string one = layer();
      layers = before ? one + ", " + layers : layers + ", " + one;
    }
    const std::string zero = one_of("0", "0", "1", "2");
    return test::Text() << "model: {layers: [" << layers
                        << "]}\ntraining: {seq_len: " << one_of("1", "8", "500")
                        << ", recompute: " << one_of("none", "full", "sqrt", "{every: 2}")
                        << ", gradient_accumulation: " << one_of("1", "2", "9") << ", precision: "
                        << (zero == "0" ? one_of("amp-bf16", "fp32", "bf16", "amp-fp16")
                                        : one_of("mixed", "megatron-bf16-grad"))
                        << ", dropout: " << one_of("own", "off")
                        << "}\nparallelism: {data: " << (zero == "0" ? one_of("1", "4") : "16")
                        << ", zero: " << zero << "}\n";
  }

 private:
  std::string layer() {
    const std::string size = std::to_string(width_);
    const std::string in_place = flag();
    switch (below(8)) {
      case 0:
        return "{linear: {in: " + size + ", out: " + size + ", bias: " + in_place + "}}";
      case 1:
        return "{rmsnorm: {size: " + size + "}}";
      case 2:
        return "{layernorm: {size: " + size + "}}";
      case 3:
        return "{softmax: {}}";
      case 4:
        return test::Text() << "{dropout: {probability: " << one_of("0", "0.5")
                            << ", in_place: " << in_place << "}}";
      case 5:
        return test::Text() << "{repeat: " << one_of("1", "3") << ", block: [" << layer() << "]}";
      default:
        return test::Text() << "{" << one_of("relu", "gelu", "tanh", "silu")
                            << ": {in_place: " << in_place << "}}";
    }
  }

  int width_ = 1;
};

TEST_CASE("every list of layers is answered, wherever it writes in place and whatever it drops") {
  constexpr int kLists = 300;
  Lists lists(1);
  for (int i = 0; i < kLists; ++i) {
    const std::string spec = lists.draw();
    INFO(spec);
    CHECK_NOTHROW(check_answer(test::job_from(spec)));
  }
}

TEST_CASE("a list of more layers than a search has room for is searched") {
  std::string layers;
  for (int i = 0; i < 125; ++i) {
    layers += (i == 0 ? "" : ", ") + std::string("{linear: {in: ") + std::to_string(64 + i) +
              ", out: " + std::to_string(65 + i) + "}}";
  }
  PlanRequest request;
  request.job = test::job_from("model: {layers: [" + layers + "]}\ntraining: {seq_len: 128}\n");
  request.gpus = {find_gpu("h100-sxm-80gb").value()};
  request.counts = {2};
  CHECK_FALSE(search_plans(request).best.empty());
}

TEST_CASE("tensors of more bytes than any GPU has are answered in closed form") {
  const Job job = test::job_from(
      "model: {hf: {model_type: gemma3_text, hidden_size: 500000001, num_hidden_layers: 2, "
      "num_attention_heads: 4, num_key_value_heads: 1, head_dim: 256, intermediate_size: 1024, "
      "vocab_size: 1000, max_position_embeddings: 1024}}\ntraining: {seq_len: 128}\n");
  const JobEstimate estimate = estimate_job(job);
  const auto& memory = std::get<MemoryAnswer>(estimate.memory);
  CHECK(memory.replayed() == nullptr);
  CHECK(memory.verdict == Verdict::does_not_fit);
}

}  // namespace
}  // namespace memest
