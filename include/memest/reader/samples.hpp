// Files of timed kernel calls: CSV with a row a call, as `memest calibrate` writes them and as
// published tables have them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/gpu/sample.hpp"

namespace memest {

/// A row, and what it says; no sample where it says nothing that memest has a law for.
struct SampleRow {
  std::string line;  ///< as written, with the cells that its end leaves out
  std::optional<Sample> sample;
};

struct SampleTable {
  std::string head;  ///< the line of column names
  std::vector<SampleRow> rows;

  [[nodiscard]] std::vector<Sample> samples() const;
};

/// Reads the file at `path`, plain or gzip. A row with a hole or a number that makes no sense is
/// passed over with a warning, and so are operations without a law; a file without the columns
/// `op` and `seconds`, or without one good row, is refused. Throws EnvironmentError where it cannot
/// be opened.
///
/// Columns: sku, op, pass, dtype, seconds, load, and the sizes of the operation
/// (docs/calibration.md lists them); others are passed over.
Checked<SampleTable> read_samples(const std::string& path);

/// As above, but reads a file without one good row too: a prediction of every row needs them all.
Checked<SampleTable> read_sample_rows(const std::string& path);

/// The line of column names of such a file, and that of a sample, both with their end.
std::string sample_head();
std::string sample_line(const Sample& sample);

/// The samples as such a file; reading it gives them back.
std::string write_samples(const std::vector<Sample>& samples);

}  // namespace memest
