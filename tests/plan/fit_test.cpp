#include "memest/plan/fit.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "memest/plan/estimate.hpp"
#include "memest/reader/embedded_configs.hpp"
#include "memest/reader/read_job.hpp"

namespace memest {
namespace {

using Sets = std::vector<std::string>;

ReadRequest request_with(const std::string& preset, const Sets& sets) {
  ReadRequest request{{preset}};
  for (const std::string& set : sets) request.overrides.push_back({"--set", set});
  return request;
}

Sets joined(Sets sets, const Sets& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

std::variant<FitLadder, Unavailable> ladder_of(const std::string& preset, const Sets& sets = {}) {
  FitRequest request{read_job(request_with(preset, sets)).value(), [&](const Sets& more) {
                       return read_job(request_with(preset, joined(sets, more)));
                     }};
  request.threads = 2;
  return fit_ladder(request);
}

Sets sets_of(const FitLadder& ladder, const Rung& rung) {
  Sets sets;
  for (const std::size_t i : rung.techniques) sets = joined(sets, ladder.techniques[i].sets);
  return sets;
}

std::string name_of(const FitLadder& ladder, const Rung& rung) {
  std::string name;
  for (const std::size_t i : rung.techniques) name += ladder.techniques[i].name + "; ";
  return name;
}

std::vector<std::string> techniques_of(const FitLadder& ladder) {
  std::vector<std::string> names;
  for (const Technique& technique : ladder.techniques) names.push_back(technique.name);
  return names;
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

TEST_CASE("the first line of a preset's ladder, put into the spec, is what estimate says") {
  constexpr std::size_t kEvery = 4;  // presets, each a search
  std::size_t looked_at = 0;
  std::size_t confirmed = 0;
  for (const EmbeddedFile& file : embedded_configs()) {
    constexpr std::string_view kFolder = "models/";
    if (!file.path.starts_with(kFolder)) continue;
    const std::string name(file.path.substr(kFolder.size(), file.path.rfind('.') - kFolder.size()));
    INFO(name);
    if (!read_job(request_with(name, {})).value().training) continue;
    if (looked_at++ % kEvery != 0) continue;
    const auto answer = ladder_of(name);
    const auto* ladder = std::get_if<FitLadder>(&answer);
    if (ladder == nullptr || ladder->rungs.empty()) continue;
    const Rung& first = ladder->rungs.front();
    INFO(name_of(*ladder, first));
    const Job job = read_job(request_with(name, sets_of(*ladder, first))).value();
    const JobEstimate estimate = estimate_job(job);
    const auto& memory = std::get<MemoryAnswer>(estimate.memory);
    CHECK(memory.overall() == first.verdict);
    CHECK(memory.of_capacity().expected == first.taken);
    CHECK(job.global_batch() == read_job(request_with(name, {})).value().global_batch());
    ++confirmed;
  }
  CHECK(confirmed >= 20);
}

TEST_CASE("what fits comes first, by the step's time, and nothing on the front is beaten") {
  const auto answer = ladder_of("llama-3-8b", {"hardware.count=8", "training.micro_batch=8"});
  const auto& ladder = std::get<FitLadder>(answer);
  REQUIRE(ladder.own.verdict == Verdict::does_not_fit);
  REQUIRE(ladder.fitting() >= 3);
  for (std::size_t i = 0; i < ladder.rungs.size(); ++i) {
    const Rung& rung = ladder.rungs[i];
    INFO(name_of(ladder, rung));
    CHECK((rung.verdict == Verdict::fits) == (i < ladder.fitting()));
    if (i > 0 && i < ladder.fitting()) CHECK(*ladder.rungs[i - 1].step <= *rung.step);
  }
  REQUIRE(ladder.front.size() >= 2);
  for (const std::size_t i : ladder.front) {
    const Rung& on_front = ladder.rungs[i];
    for (const Rung& other : ladder.rungs) {
      const bool both = other.taken < on_front.taken && *other.step < *on_front.step;
      CHECK_FALSE(both);
    }
  }
}

TEST_CASE("no line has two techniques of a group, or one without which it takes no more") {
  const auto answer = ladder_of("llama-3.2-1b", {"hardware.memory=16GiB"});
  const auto& ladder = std::get<FitLadder>(answer);
  std::size_t together = 0;
  for (const Rung& rung : ladder.rungs) {
    INFO(name_of(ladder, rung));
    std::vector<TechniqueGroup> groups;
    for (const std::size_t i : rung.techniques) groups.push_back(ladder.techniques[i].group);
    std::ranges::sort(groups);
    CHECK(std::ranges::adjacent_find(groups) == groups.end());
    if (rung.techniques.size() < 2) continue;
    ++together;
    for (const Rung& less : ladder.rungs) {
      if (less.techniques.size() >= rung.techniques.size()) continue;
      if (!std::ranges::includes(rung.techniques, less.techniques)) continue;
      CHECK((less.taken > rung.taken || *less.step > *rung.step));
    }
  }
  CHECK(together >= 1);
}

TEST_CASE("a technique that changes what is trained stands behind those that do not") {
  const auto answer = ladder_of("llama-3.2-1b", {"hardware.memory=40GiB"});
  const auto& ladder = std::get<FitLadder>(answer);
  REQUIRE(ladder.fitting() >= 2);
  bool changes = false;
  for (std::size_t i = 0; i < ladder.fitting(); ++i) {
    const bool caveat = ladder.has_caveat(ladder.rungs[i]);
    CHECK_FALSE((changes && !caveat));
    changes = caveat;
  }
}

TEST_CASE("Where nothing else fits, techniques with a caveat are joined with others") {
  const auto ladder = std::get<FitLadder>(
      ladder_of("llama-3-8b", {"hardware.gpu=rtx-4090", "hardware.count=1", "parallelism.data=1",
                               "training.precision=bf16", "training.seq_len=8192"}));
  REQUIRE(ladder.fitting() > 0);
  std::set<std::vector<std::size_t>> seen;
  bool adapted_and_recomputed = false;
  for (const Rung& rung : ladder.rungs) {
    CHECK(seen.insert(rung.techniques).second);
    if (rung.verdict != Verdict::fits) continue;
    CHECK(ladder.has_caveat(rung));
    const std::string name = name_of(ladder, rung);
    adapted_and_recomputed =
        adapted_and_recomputed ||
        (name.find("QLoRA") != std::string::npos && name.find("recompute") != std::string::npos);
  }
  CHECK(adapted_and_recomputed);
}

TEST_CASE("a program's techniques are those that it has a word for, and the job does not use yet") {
  const auto of = [](const std::string& implementation, const Sets& more = {}) {
    const Sets sets =
        joined({"training.implementation=" + implementation, "training.precision=amp-bf16"}, more);
    return techniques_of(std::get<FitLadder>(ladder_of("tinyllama-1.1b", sets)));
  };
  const std::vector<std::string> titan = of("torchtitan");
  CHECK(has(titan, "recompute selectively"));
  CHECK_FALSE(has(titan, "Liger's kernels"));
  CHECK_FALSE(has(titan, "saved tensors on the host"));
  const std::vector<std::string> plain = of("transformers");
  CHECK(has(plain, "Liger's kernels"));
  CHECK(has(plain, "fused optimizer"));
  CHECK(has(plain, "saved tensors on the host"));
  CHECK_FALSE(has(plain, "recompute selectively"));
  CHECK_FALSE(has(of("transformers", {"training.recompute=full"}), "recompute every layer"));
  // The Trainer's own AdamW is fused.
  CHECK_FALSE(has(of("{name: transformers, loop: trainer}"), "fused optimizer"));
}

TEST_CASE("Megatron's modules are offered where layers have them, in its words and the spec's") {
  const Sets megatron = {"training.implementation=megatron", "training.precision=megatron",
                         "hardware.gpu=h100-sxm-80gb"};
  const auto offered = [&](const std::string& preset) {
    const Job job = read_job(request_with(preset, megatron)).value();
    std::vector<std::string> flags;
    for (const Technique& technique : techniques_for(job)) {
      if (!technique.change.starts_with("--recompute-granularity selective --")) continue;
      flags.push_back(technique.change.substr(technique.change.rfind("modules ") + 8));
      INFO(technique.name);
      CHECK(read_job(request_with(preset, joined(megatron, technique.sets))).ok());
    }
    return flags;
  };
  CHECK(offered("llama-3-8b") == std::vector<std::string>{"mlp"});
  CHECK(offered("qwen3-30b-a3b") == std::vector<std::string>{"moe", "moe_act", "layernorm",
                                                             "moe_act layernorm", "moe layernorm"});
  CHECK(offered("deepseek-v2-lite") ==
        std::vector<std::string>{"mlp", "mla_up_proj", "moe", "moe_act", "layernorm",
                                 "shared_experts", "mla_up_proj moe_act layernorm",
                                 "mla_up_proj moe layernorm"});
  CHECK_FALSE(
      has(techniques_of(std::get<FitLadder>(ladder_of(
              "qwen3-30b-a3b", joined(megatron, {"training.recompute={selective: [norm]}"})))),
          "recompute norm"));
}

TEST_CASE("a micro-batch is halved beside as many more micro-steps") {
  const Job job =
      read_job(request_with("gpt2", {"training.micro_batch=8", "training.global_batch=16"}))
          .value();
  std::vector<Sets> sets;
  for (const Technique& technique : techniques_for(job)) {
    if (technique.group == TechniqueGroup::micro_batch) sets.push_back(technique.sets);
  }
  CHECK(sets == std::vector<Sets>{{"training.micro_batch=4", "training.gradient_accumulation=4"},
                                  {"training.micro_batch=2", "training.gradient_accumulation=8"},
                                  {"training.micro_batch=1", "training.gradient_accumulation=16"}});
}

TEST_CASE("DPOTrainer is told of pairs of sequences") {
  const Job job = read_job(request_with("llama-3.2-1b",
                                        {"training.implementation={name: transformers, loop: dpo}",
                                         "training.precision=bf16", "training.micro_batch=4",
                                         "training.global_batch=4"}))
                      .value();
  std::vector<std::string> changes;
  for (const Technique& technique : techniques_for(job)) {
    if (technique.group == TechniqueGroup::micro_batch) changes.push_back(technique.change);
  }
  CHECK(changes == std::vector<std::string>{"TrainingArguments(per_device_train_batch_size=1, "
                                            "gradient_accumulation_steps=2)"});
}

TEST_CASE("a fused optimizer is called as torch.optim has it") {
  const auto change_of = [](const char* optimizer) {
    const std::string set = "training.optimizer=" + std::string(optimizer);
    for (const Technique& technique :
         techniques_for(read_job(request_with("gpt2", {set})).value())) {
      if (technique.name == "fused optimizer") return technique.change;
    }
    return std::string();
  };
  CHECK(change_of("adamw") == "torch.optim.AdamW(model.parameters(), fused=True)");
  CHECK(change_of("momentum") == "torch.optim.SGD(model.parameters(), momentum=0.9, fused=True)");
  CHECK(change_of("muon").empty());
}

TEST_CASE("a technique that the job cannot have is refused with the reader's sentence") {
  const auto answer = ladder_of("gpt2", {"training.precision=amp-bf16"});
  const auto& ladder = std::get<FitLadder>(answer);
  const auto liger = std::ranges::find_if(ladder.refused, [&](const RefusedTechnique& refused) {
    return ladder.techniques[refused.technique].name == "Liger's kernels";
  });
  REQUIRE(liger != ladder.refused.end());
  CHECK_THAT(liger->reason, Catch::Matchers::ContainsSubstring("model_type llama"));
}

}  // namespace memest
