// The keys of a job that a program may be told, resolved: a key has the same text whether it was
// written or left out. Two jobs of one model that agree in all of them run alike.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "memest/spec/job.hpp"
#include "memest/spec/parallel/sharding.hpp"

namespace memest {

struct JobKey {
  std::string_view name;            ///< "training.seq_len"
  std::string (*text)(const Job&);  ///< of a job with a training: "8192", "{every: 2}", "none"
};

std::span<const JobKey> job_keys();

/// The text of a key; `name` is one of job_keys().
std::string text_of_key(const Job& job, std::string_view name);

/// How the job is sharded, where it is by `Kind`.
template <class Kind>
std::optional<Kind> sharding_as(const Job& job) {
  const Sharding sharding = sharding_of(job);
  const auto* kind = std::get_if<Kind>(&sharding);
  return kind == nullptr ? std::nullopt : std::optional<Kind>(*kind);
}

/// A decimal without trailing zeros: "0.8", "0.0".
std::string plain_decimal(double number);

/// PyTorch's PYTORCH_ALLOC_CONF of the settings; empty where all are its defaults.
std::string environment_text_of(const AllocatorSettings& allocator);

}  // namespace memest
