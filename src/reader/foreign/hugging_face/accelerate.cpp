// accelerate's file (`accelerate config`), alone or beside DeepSpeed's.
#include "reader/foreign/hugging_face/accelerate_keys.hpp"
#include "reader/foreign/hugging_face/hugging_face.hpp"

namespace memest::hugging_face::accelerate {
namespace {

/// Without a Trainer's arguments the launcher says the cast, not the weights' type. Accelerate's
/// own part of a step is known as that of the Trainer's loop.
void write_launch(ForeignImport& file) {
  write_sharing(file, "1");
  file.write("training.implementation.name", "transformers", {"accelerate"});
  file.write("training.implementation.loop", "trainer", {"accelerate"});
  const HalfType autocast = autocast_of(file);
  constexpr std::string_view kMixed = "launch.mixed_precision";
  if (has_deepspeed(file) || autocast != HalfType::none || file.text(kMixed) == "fp8") {
    write_precision(file, HalfType::none, autocast);
  } else {
    file.drop(kMixed, "the weights' type decides");
  }
}

constexpr std::string_view kByType[] = {"distributed_type"};
constexpr std::string_view kByPlace[] = {"compute_environment"};
constexpr TellingKeys kTelling[] = {kByType, kByPlace};
constexpr std::span<const KeyRow> kTables[] = {kLaunchDeciding, kLaunchRows, kLaunchRun,
                                               kZeroDeciding,   kZeroRows,   kZeroRun};
constexpr Derivation kDerivations[] = {write_launch};
constexpr std::string_view kTakes[] = {"ds"};
constexpr FileReference kReferences[] = {{"launch.deepspeed_config.deepspeed_config_file", "ds"}};
constexpr Dialect kDialect = {.name = "accelerate",
                              .noun = "an accelerate config",
                              .telling = kTelling,
                              .tables = kTables,
                              .derivations = kDerivations,
                              .section = "launch",
                              .takes = kTakes,
                              .references = kReferences};

}  // namespace
}  // namespace memest::hugging_face::accelerate

const memest::Dialect& memest::accelerate_dialect() { return hugging_face::accelerate::kDialect; }
