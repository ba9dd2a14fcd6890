// A program that jobs are written for, as data: of every key of a job, whether its files say it or
// what they leave it at.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "memest/reader/export.hpp"

namespace memest {

enum class ExportUse : std::uint8_t {
  written,  ///< the files say it
  held,     ///< the program has `values` alone
  not_yet,  ///< it may have others, of which no file is written yet
  beside    ///< it is said elsewhere: in a command line, by what is installed
};

struct ExportRow {
  std::string_view own;  ///< of job_keys()
  ExportUse use = ExportUse::written;
  std::string_view values = {};  ///< parted by bars
};

constexpr ExportRow written(std::string_view own) { return {.own = own}; }
constexpr ExportRow held(std::string_view own, std::string_view values) {
  return {.own = own, .use = ExportUse::held, .values = values};
}
constexpr ExportRow not_yet(std::string_view own, std::string_view values) {
  return {.own = own, .use = ExportUse::not_yet, .values = values};
}
constexpr ExportRow beside(std::string_view own) { return {.own = own, .use = ExportUse::beside}; }

struct ExportTarget {
  std::string_view name;     ///< as `--to` takes it: "torchtitan"
  std::string_view program;  ///< with its release: "torchtitan 0.2.2"
  /// Why the job is another program's; nothing where it is not.
  std::optional<Diagnostic> (*mistake)(const Job&) = nullptr;
  std::span<const std::span<const ExportRow>> rows;
  Checked<ExportedJob> (*write)(const Job&) = nullptr;
  bool whole = false;  ///< the files are a whole job: model, layout and step
  /// The model as the program makes it, where it is not as it is told.
  ModelSpec (*as_made)(const Job&) = nullptr;
};

const ExportTarget& accelerate_export();
const ExportTarget& deepspeed_export();
const ExportTarget& torchtitan_export();
const ExportTarget& megatron_export();
std::span<const ExportTarget* const> all_export_targets();

/// "torchtitan 0.2.2 has no 'training.recompute: sqrt'".
Diagnostic no_word_for(std::string_view program, std::string_view own, std::string_view value,
                       std::string_view hint = {});

/// "'training.precision: fp8' for torchtitan 0.2.2 is not available yet".
Diagnostic not_written_yet(std::string_view program, std::string_view own, std::string_view value,
                           std::string_view hint = {});

/// That the job is not `implementation`'s, where it is another framework's.
std::optional<Diagnostic> other_framework(const Job& job, std::string_view name,
                                          std::string_view implementation);

/// Where two models differ to a program that takes their sizes and modules, "attention": names,
/// checkpoints' buffers and the longest sequence apart. Empty where they do not.
std::string_view differing_part(const ModelSpec& left, const ModelSpec& right);

/// The GPUs that a launcher starts, a process each.
struct LaunchedRanks {
  std::int64_t nodes = 1;
  std::int64_t of_node = 1;
};
/// Nothing where the ranks are no whole number of nodes.
std::optional<LaunchedRanks> launched_ranks(const Job& job);

/// "PYTORCH_ALLOC_CONF=expandable_segments:True " before a command; empty where nothing is set.
std::string environment_prefix(const Job& job);
/// "torchrun --nproc_per_node 8", and of several nodes what they need to meet.
std::string torchrun_of(const Job& job);

}  // namespace memest
