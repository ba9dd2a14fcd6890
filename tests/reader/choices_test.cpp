// One spec under several implementations, and keys that are freed.
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "memest/reader/read_choices.hpp"

namespace memest {
namespace {

ReadRequest request_of(std::vector<std::string> overrides, std::vector<std::string> freed = {}) {
  ReadRequest request{{"llama-3-8b"}};
  for (std::string& text : overrides) request.overrides.push_back({"--set", std::move(text)});
  for (std::string& text : freed) request.freed.push_back({"--free", std::move(text)});
  return request;
}

std::vector<std::string> names_of(const Checked<std::vector<ImplementationChoice>>& choices) {
  std::vector<std::string> names;
  for (const Diagnostic& diagnostic : choices.diagnostics()) UNSCOPED_INFO(diagnostic.message);
  REQUIRE(choices.ok());
  for (const ImplementationChoice& choice : choices.value()) names.push_back(name_of(choice));
  return names;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("A spec that names no implementation is read under each, with its own precision") {
  const auto choices = read_choices(request_of({}), {});
  CHECK(names_of(choices) == Names{"transformers", "transformers, compiled blocks", "torchtitan",
                                   "torchtitan, compiled blocks", "megatron"});
  const Names precisions{"mixed", "mixed", "amp-bf16", "amp-bf16", "megatron-bf16-grad"};
  for (std::size_t i = 0; i < precisions.size(); ++i) {
    const ImplementationChoice& choice = choices.value()[i];
    INFO(name_of(choice) << ": " << choice.refusal);
    REQUIRE(choice.job);
    CHECK(choice.job->training->recipe.name == precisions[i]);
    CHECK(choice.job->training->implementation.framework == choice.framework);
    CHECK(choice.job->training->implementation.compile == choice.compile);
  }
  CHECK(choices.value().back().settings ==
        Names{"training.implementation=megatron", "training.precision=megatron-bf16-grad"});
  CHECK(choices.value()[3].settings.front() ==
        "training.implementation={name: torchtitan, compile: blocks}");
}

TEST_CASE("--implementation narrows, what is written stays, and --free frees it") {
  CHECK(names_of(read_choices(request_of({}), {"megatron"})) == Names{"megatron"});
  CHECK(names_of(read_choices(request_of({}), {"megatron", "nanogpt"})) ==
        Names{"megatron", "nanogpt", "nanogpt, compiled blocks"});
  CHECK(names_of(read_choices(request_of({"training.implementation=torchtitan"}), {})) ==
        Names{"torchtitan"});
  CHECK(names_of(read_choices(request_of({"training.implementation={compile: blocks}"}),
                              {"torchtitan"})) == Names{"torchtitan, compiled blocks"});
  CHECK(names_of(read_choices(
            request_of({"training.implementation=torchtitan"}, {"training.implementation"}),
            {"megatron"})) == Names{"megatron"});
  const auto clash = read_choices(request_of({"training.implementation=torchtitan"}), {"megatron"});
  REQUIRE_FALSE(clash.ok());
  CHECK(clash.diagnostics().front().message ==
        "--implementation chooses among those that the spec leaves open, and it writes "
        "'training.implementation'");
  CHECK(clash.diagnostics().front().hint == "--free training.implementation frees it");
  const auto slip = read_choices(request_of({}), {"megatorn"});
  REQUIRE_FALSE(slip.ok());
  CHECK(slip.diagnostics().front().message == "--implementation knows no 'megatorn'");
  CHECK(slip.diagnostics().front().hint == "did you mean 'megatron'?");
}

TEST_CASE("What a spec writes against an implementation refuses that choice alone") {
  const auto choices = read_choices(request_of({"training.optimizer=lion"}), {});
  REQUIRE(choices.ok());
  CHECK(choices.value().front().job);
  CHECK_FALSE(choices.value().back().job);
  CHECK(choices.value().back().refusal ==
        "Megatron with Transformer Engine steps with its fused AdamW (leave 'optimizer' out, or "
        "set it to adamw)");
}

TEST_CASE("A freed key is read as if nobody wrote it") {
  const std::vector<std::string> written{"training.recompute=full", "parallelism.zero=3"};
  const auto kept = read_job(request_of(written));
  REQUIRE(kept.ok());
  CHECK((kept.value().given.recompute && kept.value().given.sharing));
  const auto freed = read_job(request_of(written, {"training.recompute", "parallelism"}));
  REQUIRE(freed.ok());
  CHECK_FALSE((freed.value().given.recompute || freed.value().given.sharing));
  CHECK(freed.value().parallelism.zero == ZeroStage::none);
  const auto message = [&](const char* key) {
    const auto refused = read_job(request_of(written, {key}));
    REQUIRE_FALSE(refused.ok());
    return refused.diagnostics().front().message;
  };
  CHECK(message("training.micro_batch") ==
        "nobody wrote 'training.micro_batch', so that it is free");
  CHECK(message("training.seq_len") == "no search chooses 'training.seq_len'");
}

}  // namespace memest
