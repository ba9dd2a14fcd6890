// litgpt's YAML (config_hub): its own model, kernels and loops, of which memest has no program.
#include "reader/foreign/hugging_face/hugging_face.hpp"
#include "reader/text/scalar.hpp"

namespace memest::litgpt {
namespace {

void refuse_litgpt(ForeignImport& file) {
  const std::string_view key = file.written({"model_name", "checkpoint_dir", "train"});
  file.refuse(key, "litgpt's own model and loop",
              "transformers' of the same sizes: memest estimate PRESET --set training.seq_len=N "
              "--set training.micro_batch=N");
}

constexpr KeyRow kKeys[] = {no_effect("*", kAboutRun)};
constexpr std::span<const KeyRow> kTables[] = {kKeys};
constexpr std::string_view kByCheckpoint[] = {"checkpoint_dir", "train"};
constexpr std::string_view kByModel[] = {"model_name", "train"};
constexpr std::string_view kByBatch[] = {"train.micro_batch_size", "precision"};
constexpr TellingKeys kTelling[] = {kByCheckpoint, kByModel, kByBatch};
constexpr Derivation kDerivations[] = {refuse_litgpt};
constexpr Dialect kDialect = {.name = "litgpt",
                              .noun = "a litgpt config",
                              .telling = kTelling,
                              .tables = kTables,
                              .derivations = kDerivations};

}  // namespace
}  // namespace memest::litgpt

const memest::Dialect& memest::litgpt_dialect() { return litgpt::kDialect; }
