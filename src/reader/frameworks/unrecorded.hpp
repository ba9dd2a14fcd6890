// Techniques beside what no run of them was recorded with: refused by name, at the place of their
// key.
#pragma once

#include <cstdint>
#include <span>

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/job.hpp"
#include "reader/text/value.hpp"

namespace memest {

/// Beside what most techniques were not recorded.
enum class Beside : std::uint8_t {
  other_model,    ///< than a decoder
  other_program,  ///< than one written in PyTorch
  other_loop,     ///< than a plain one
  several_gpus,
  offloaded_optimizer,
  saved_on_host,
  replaced_modules,  ///< Liger's and torchao's
  compiled
};

/// A technique that changes models or what runs beside them, and where it stands.
struct WrittenTechnique {
  const char* noun;
  const char* key;  ///< to leave out
  const Value& written;
  std::span<const Beside> recorded = {};  ///< its own rows say what is left out of those
};

/// Something beside which no run was recorded.
struct NotRecorded {
  bool (*asked)(const Job&);
  const char* where;
  const char* hint;  ///< empty: leave the technique out
};

/// On one GPU without FSDP, or as whole replicas of DistributedDataParallel alone.
bool trains_in_replicas(const Job& job);

/// Whether `job` names another release of PyTorch or transformers than the recorded ones.
bool names_other_releases(const Job& job);
inline constexpr NotRecorded kUnderOtherReleases = {
    names_other_releases, "under another release of PyTorch or transformers",
    "leave 'torch' and 'transformers' out"};

/// Refuses `technique` for the first of `own`, or of what no technique of models was recorded with,
/// that `job` asks for.
void refuse_unrecorded(const WrittenTechnique& technique, std::span<const NotRecorded> own,
                       const Job& job, Diagnostics& diagnostics);

/// Refuses torch.compile of a whole model, and another release of PyTorch, where no run of one was
/// recorded.
void check_implementation(const Value& root, const Job& job, Diagnostics& diagnostics);

}  // namespace memest
