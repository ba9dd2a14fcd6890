// Environment variables of training programs, which a shell script exports.
#pragma once

#include "reader/foreign/foreign_import.hpp"

namespace memest {

/// `PYTORCH_CUDA_ALLOC_CONF` as the keys of `allocator`. Its rows are `derived`.
void write_environment(ForeignImport& file);

}  // namespace memest
