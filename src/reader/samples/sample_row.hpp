// One row of a file of samples.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/gpu/sample.hpp"
#include "reader/text/csv.hpp"

namespace memest {

/// A row as a sample. A hole or a wrong number is a warning; an operation without a law is counted
/// in `unknown_ops` by its CSV cell.
std::optional<Sample> sample_of(const CsvTable& table, const CsvRow& row, Diagnostics& warnings,
                                std::vector<const CsvCell*>& unknown_ops);

/// How files write operands: "bf16", "tf32", "fp8_block128".
std::string_view operand_word(const MatmulShape& shape);
/// The operand's part of a shape, of a word that files write.
MatmulShape operand_of(std::string_view word);

}  // namespace memest
