// What must hold between two answers, whatever their numbers are: more of a size never takes less
// memory, more data-parallel ranks never more states, and an interval stands around its answer.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "../draws.hpp"
#include "jobs.hpp"
#include "memest/plan/estimate.hpp"
#include "memest/plan/step_memory.hpp"

namespace memest {
namespace {

/// A decoder and how it is trained, its sizes apart.
struct Spec {
  std::int64_t layers = 2;
  std::int64_t heads = 2;
  std::int64_t kv_heads = 2;
  std::int64_t head_dim = 64;
  std::int64_t micro_batch = 1;
  std::int64_t seq_len = 128;
  std::int64_t data = 1;
  std::string model;        ///< the rest of its keys
  std::string training;     ///< the rest of its keys
  std::string parallelism;  ///< the rest of its keys
  std::int64_t pipeline = 1;

  [[nodiscard]] std::string text() const {
    return test::Text() << "model: {family: decoder, layers: " << layers
                        << ", hidden_size: " << heads * head_dim << ", heads: " << heads
                        << ", kv_heads: " << kv_heads << ", head_dim: " << head_dim
                        << ", max_positions: 8192, " << model
                        << "}\ntraining: {micro_batch: " << micro_batch << ", seq_len: " << seq_len
                        << ", " << training << "}\nparallelism: {data: " << data << parallelism
                        << "}\nhardware: {gpu: h100-sxm-80gb, memory: 4000 GiB}\n";
  }
};

class Specs : test::Draws {
 public:
  using Draws::Draws;

  Spec draw() {
    Spec spec;
    spec.head_dim = one_of(32, 64, 128);
    spec.micro_batch = one_of(1, 2, 3, 8);
    spec.seq_len = one_of(64, 128, 512, 1024);
    spec.layers = one_of(1, 2, 3, 4, 6);
    switch (below(6)) {
      case 0:
      case 1:
        return transformers(std::move(spec));
      case 2:
        return nanogpt(std::move(spec));
      case 3:
        return torchtitan(std::move(spec));
      case 4:
        return torchtitan_pipeline(std::move(spec));
      default:
        return megatron(std::move(spec));
    }
  }

 private:
  using Words = std::string;

  std::string sizes() {
    return test::Text() << "ffn_size: " << one_of(256, 704, 1536)
                        << ", vocab_size: " << one_of(512, 4096, 32000);
  }

  Spec transformers(Spec spec) {
    spec.kv_heads = one_of(1, 2);
    spec.heads = spec.kv_heads * one_of(1, 2, 3);
    spec.model = test::Text() << sizes()
                              << ", activation: " << one_of("swiglu", "gelu", "geglu", "relu")
                              << ", norm: " << one_of("rmsnorm", "layernorm")
                              << ", position: " << one_of("rope", "learned")
                              << ", tied_embeddings: " << flag();
    const bool trainer = one_of(true, false, false);
    spec.training =
        test::Text() << "recompute: " << one_of("none", "full", trainer ? "full" : "sqrt")
                     << ", gradient_accumulation: " << one_of("1", "3")
                     << ", implementation: {name: transformers, loop: "
                     << (trainer ? "trainer" : "plain");
    switch (below(4)) {
      case 0:
        spec.training +=
            "}, precision: fsdp2-bf16, optimizer: {name: adamw, implementation: fused}";
        spec.data = 4;
        spec.parallelism = test::Text() << ", fsdp: {version: 2, reshard_after_forward: "
                                        << one_of("always", "never") << "}";
        return spec;
      case 1:
        spec.data = 4;
        [[fallthrough]];
      default: {
        const Words precision = one_of("bf16", "amp-bf16", "fp32", "amp-fp16");
        const bool compiles = !trainer && precision != "fp32" && one_of(false, true);
        spec.training += test::Text()
                         << ", compile: " << (compiles ? "blocks" : "off")
                         << "}, precision: " << precision
                         << ", optimizer: " << one_of("adamw", "adam", "sgd", "adafactor");
        return spec;
      }
    }
  }

  Spec nanogpt(Spec spec) {
    spec.heads = spec.kv_heads = one_of(2, 4, 6);
    spec.data = one_of(1, 2);
    spec.model = test::Text() << sizes()
                              << ", activation: gelu, norm: layernorm, position: learned, bias: "
                                 "true, tied_embeddings: true, dropout: "
                              << one_of("0.0", "0.1");
    spec.training = test::Text() << "precision: " << one_of("amp-bf16", "fp32")
                                 << ", gradient_accumulation: " << one_of("1", "3")
                                 << ", implementation: {name: nanogpt, loop: nanogpt}";
    return spec;
  }

  Spec torchtitan(Spec spec) {
    const int tensor = one_of(1, 1, 2);
    spec.data = one_of(2, 4);
    spec.kv_heads = tensor * one_of(1, 2);
    spec.heads = spec.kv_heads * one_of(1, 2);
    spec.model = llama();
    spec.training = test::Text() << "precision: fsdp2-bf16, recompute: "
                                 << one_of("none", "full", "selective", "{every: 2}")
                                 << ", gradient_accumulation: " << one_of("1", "3", "12")
                                 << ", implementation: {name: torchtitan, compile: "
                                 << (tensor == 1 ? one_of("off", "blocks") : "off") << "}";
    spec.parallelism = test::Text()
                       << ", tensor: " << tensor << (tensor > 1 ? ", sequence: true" : "")
                       << ", fsdp: {version: 2, reshard_after_forward: "
                       << one_of("default", "always", "never") << "}";
    return spec;
  }

  Spec torchtitan_pipeline(Spec spec) {
    spec.kv_heads = one_of(1, 2);
    spec.heads = spec.kv_heads * one_of(1, 2);
    spec.pipeline = 2;
    spec.layers = one_of(6, 7, 8);
    spec.data = 2;
    spec.model = llama();
    const Words schedule =
        one_of("1f1b", "gpipe", "interleaved", "zero-bubble", "zbv", "dualpipe-v");
    const bool splits = schedule == "zero-bubble" || schedule == "zbv" || schedule == "dualpipe-v";
    spec.training = test::Text() << "precision: fsdp2-bf16, recompute: "
                                 << (splits ? "none" : one_of("none", "full"))
                                 << ", gradient_accumulation: " << one_of("4", "24")
                                 << ", implementation: torchtitan";
    spec.parallelism = ", pipeline: 2, schedule: " + schedule + ", fsdp: {version: 2}";
    return spec;
  }

  Spec megatron(Spec spec) {
    const int tensor = one_of(1, 2);
    const bool te = one_of(true, false);
    spec.pipeline = one_of(1, 2);
    spec.layers = spec.pipeline * one_of(1, 2, 4);
    spec.data = one_of(1, 2, 4);
    spec.kv_heads = tensor * one_of(1, 2);
    spec.heads = spec.kv_heads * one_of(1, 2);
    spec.model = test::Text() << llama() << ", dropout: 0.0";
    spec.training = test::Text() << "precision: " << one_of("megatron", "megatron-bf16-grad")
                                 << ", recompute: " << one_of("none", "full")
                                 << ", gradient_accumulation: " << spec.pipeline * 2
                                 << ", implementation: {name: megatron, layers: "
                                 << (te ? "te}" : "local, attention: unfused}");
    spec.parallelism = test::Text()
                       << ", tensor: " << tensor << (tensor > 1 ? ", sequence: true" : "")
                       << ", pipeline: " << spec.pipeline << ", distributed_optimizer: " << flag();
    return spec;
  }

  std::string llama() {
    return test::Text()
           << sizes()
           << ", activation: swiglu, norm: rmsnorm, position: rope, bias: false, tied_embeddings: "
              "false";
  }
};

/// Of the rank that takes most.
struct Replayed {
  std::int64_t peak = 0;       ///< that is asked for
  std::int64_t allocated = 0;  ///< the same in the allocator's blocks
  std::int64_t states = 0;     ///< weights, gradients and optimizer states behind the last step
};

std::int64_t states_of(const Timeline& timeline) {
  std::int64_t states = 0;
  std::vector<bool> alive(timeline.storages.size(), false);
  for (const Event& event : timeline.events) {
    alive[event.storage] = event.kind == EventKind::allocate;
  }
  for (std::size_t i = 0; i < alive.size(); ++i) {
    const Holding holding = timeline.storages[i].label.holding;
    const bool state = holding == Holding::weights || holding == Holding::gradients ||
                       holding == Holding::optimizer_states;
    if (alive[i] && state) states += timeline.storages[i].bytes;
  }
  return states;
}

Replayed replayed(const Spec& spec) {
  const Job job = test::job_from(spec.text());
  Replayed most;
  for (std::int64_t rank = 0; rank < spec.pipeline; ++rank) {
    const auto memory = step_memory_of(job, {rank});
    const auto* step = std::get_if<StepMemory>(&memory);
    REQUIRE(step != nullptr);
    most.peak = std::max(most.peak, test::requested_peak(step->timeline));
    most.allocated = std::max(most.allocated, step->replay.peak.allocated.value());
    most.states = std::max(most.states, states_of(step->timeline));
  }
  return most;
}

constexpr int kSpecs = 200;

/// What is allocated may fall by what blocks have beyond the requests that they serve, each up to
/// 1 MiB; what is reserved by more, as requests below 10 MiB share segments of 20 MiB and larger
/// ones have segments of their own size. What is asked for never falls.
TEST_CASE("more of a size never takes less memory") {
  constexpr std::int64_t kRemainders = std::int64_t{4} << 20;
  Specs specs(1);
  for (int i = 0; i < kSpecs; ++i) {
    const Spec base = specs.draw();
    INFO(base.text());
    const Replayed least = replayed(base);
    const auto check = [&](auto change) {
      Spec more = base;
      change(more);
      const Replayed grown = replayed(more);
      CHECK(grown.peak >= least.peak);
      CHECK(grown.allocated >= least.allocated - kRemainders);
    };
    check([](Spec& spec) { spec.micro_batch += 1; });
    check([](Spec& spec) { spec.seq_len *= 2; });
    check([](Spec& spec) { spec.layers += 2 * spec.pipeline; });
    check([](Spec& spec) { spec.heads *= 2, spec.kv_heads *= 2; });
  }
}

/// From two on: one rank alone has no buckets beside its gradients.
TEST_CASE("more data-parallel ranks never hold more states each") {
  Specs specs(2);
  for (int i = 0; i < kSpecs; ++i) {
    Spec base = specs.draw();
    base.data = std::max<std::int64_t>(base.data, 2);
    Spec more = base;
    more.data *= 2;
    INFO(base.text());
    CHECK(replayed(more).states <= replayed(base).states);
  }
}

TEST_CASE("an interval stands around its answer, in memory, time and money") {
  Specs specs(3);
  for (int i = 0; i < kSpecs; ++i) {
    const std::string text = specs.draw().text();
    INFO(text);
    const JobEstimate estimate = estimate_job(test::job_from(text));
    const auto* memory = std::get_if<MemoryAnswer>(&estimate.memory);
    REQUIRE(memory != nullptr);
    CHECK(memory->low() <= memory->device());
    CHECK(memory->device() <= memory->high());
    for (const Term& term : memory->estimate.terms) CHECK(term.value >= Bytes(0));
    const auto* time = std::get_if<TimeEstimate>(&estimate.time);
    if (time == nullptr) continue;
    CHECK(time->low <= time->step);
    CHECK(time->step <= time->high);
  }
}

/// The same spec with another recompute.
Spec with_recompute(Spec spec, const std::string& recompute) {
  const std::string key = "recompute: ";
  const std::size_t at = spec.training.find(key) + key.size();
  const std::size_t end =
      spec.training[at] == '{' ? spec.training.find('}', at) + 1 : spec.training.find(',', at);
  spec.training.replace(at, end - at, recompute);
  return spec;
}

/// A layer that is alone in its stage is run again with nothing else to be held meanwhile: it saves
/// nothing, and compiled takes its own answer besides. While the first layer's backward runs, all
/// other activations are gone; checkpoints alone hold the position ids (int64) until then.
TEST_CASE("full recompute never takes more than none, in stages of several layers") {
  constexpr std::int64_t kBytesOfAnId = 8;
  Specs specs(4);
  int compared = 0;
  for (int i = 0; i < kSpecs; ++i) {
    const Spec spec = specs.draw();
    const bool splits = spec.parallelism.find("zbv") != std::string::npos ||
                        spec.parallelism.find("zero-bubble") != std::string::npos ||
                        spec.parallelism.find("dualpipe-v") != std::string::npos;
    const bool chooses = spec.training.find("recompute: ") != std::string::npos;
    if (spec.layers < 2 * spec.pipeline || splits || !chooses) continue;
    INFO(spec.text());
    CHECK(replayed(with_recompute(spec, "full")).peak <=
          replayed(with_recompute(spec, "none")).peak + kBytesOfAnId * spec.seq_len);
    ++compared;
  }
  CHECK(compared > 100);
}

/// Lists of blocks of plain layers, all of one width.
class Lists : test::Draws {
 public:
  using Draws::Draws;

  /// `keeps_input`: every block begins with a layer that keeps what it is given.
  std::string draw(bool keeps_input) {
    std::string list;
    const int count = one_of(2, 5, 9);
    for (int i = 0; i < count; ++i) {
      list += test::Text() << (i == 0 ? "" : ", ") << "{repeat: " << one_of("1", "2", "6")
                           << ", block: [" << (i == 0 || keeps_input ? keeper() : layer());
      const int more = one_of(0, 1, 2, 3);
      for (int k = 0; k < more; ++k) list += test::Text() << ", " << layer();
      list += "]}";
    }
    return list;
  }

 private:
  std::string keeper() {
    return one_of("{linear: {in: 64, out: 64}}", "{rmsnorm: {size: 64}}",
                  "{layernorm: {size: 64}}");
  }
  std::string layer() {
    const std::string in_place = flag();
    switch (below(4)) {
      case 0:
        return keeper();
      case 1:
        return "{softmax: {}}";
      case 2:
        return "{dropout: {probability: 0.5, in_place: " + in_place + "}}";
      default:
        return test::Text() << "{" << one_of("relu", "gelu", "tanh", "silu")
                            << ": {in_place: " << in_place << "}}";
    }
  }
};

std::int64_t peak_of_list(const std::string& layers, const std::string& recompute) {
  const Job job = test::job_from("model: {layers: [" + layers +
                                 "]}\ntraining: {micro_batch: 64, seq_len: 512, precision: bf16, "
                                 "optimizer: sgd, recompute: " +
                                 recompute + "}\nhardware: {gpu: h100-sxm-80gb}\n");
  const auto memory = step_memory_of(job, {0});
  return test::requested_peak(std::get<StepMemory>(memory).timeline);
}

/// But for the last block's result: run again it stands beside the one that the loss keeps.
TEST_CASE("nor in a list of layers whose blocks keep their inputs anyway") {
  constexpr std::int64_t kResult = 64 * 512 * 64 * 2;
  Lists lists(5);
  for (int i = 0; i < kSpecs; ++i) {
    const std::string layers = lists.draw(true);
    INFO(layers);
    CHECK(peak_of_list(layers, "full") <= peak_of_list(layers, "none") + kResult);
  }
}

TEST_CASE("a checkpoint before the first gradient keeps nothing") {
  const std::string first = "{repeat: 6, block: [{softmax: {}}]}, {linear: {in: 64, out: 64}}";
  CHECK(peak_of_list(first, "full") == peak_of_list(first, "none"));
}

TEST_CASE("a block that keeps its result alone takes more as a checkpoint, which keeps its input") {
  const std::string list =
      "{linear: {in: 64, out: 64}}, {repeat: 6, block: [{softmax: {}}]}, {linear: {in: 64, out: "
      "64}}";
  const std::int64_t activations = 64 * 512 * 64 * 2;
  const std::int64_t more = peak_of_list(list, "full") - peak_of_list(list, "none");
  CHECK(more > 0);
  CHECK(more <= 2 * activations);
}

}  // namespace
}  // namespace memest
