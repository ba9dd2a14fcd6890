// Keys of torchtitan that decide together.
#pragma once

#include <span>
#include <string_view>

#include "reader/foreign/dialect.hpp"
#include "reader/foreign/dialects.hpp"
#include "reader/foreign/foreign_import.hpp"

namespace memest::torchtitan {

/// A flavor of torchtitan's registry, as the keys of a spec's `model`.
struct Flavor {
  std::string_view model;   ///< "llama3"
  std::string_view flavor;  ///< "8B"
  std::string_view sizes;   ///< "layers: 32, hidden_size: 4096, ..."
  std::string_view traits;  ///< "activation: swiglu, ..."
  bool flex = false;        ///< attention by flex_attention
};
std::span<const Flavor> flavors();

/// A schedule of torch.distributed.pipelining, as the TOML has it and as a spec does.
struct ScheduleName {
  std::string_view foreign;  ///< "1F1B"
  std::string_view own;      ///< "1f1b"
};
std::span<const ScheduleName> schedule_names();

void write_model(ForeignImport& file);
void write_ranks(ForeignImport& file);
void write_batch(ForeignImport& file);
void write_precision(ForeignImport& file);
void write_recompute(ForeignImport& file);
void write_kernels(ForeignImport& file);
void write_float8(ForeignImport& file);

}  // namespace memest::torchtitan
