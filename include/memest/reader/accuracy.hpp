// The file of the lines that predictions are held to.
#pragma once

#include <memory>
#include <string>

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/gpu/accuracy.hpp"

namespace memest {

/// The lines of a YAML file, or every mistake in it. Throws EnvironmentError for a file that cannot
/// be opened.
Checked<AccuracyLines> read_accuracy_lines(const std::string& path);

/// As above, from text in memory.
Checked<AccuracyLines> read_accuracy_lines(const std::shared_ptr<const SourceText>& source);

}  // namespace memest
