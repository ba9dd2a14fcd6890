// Files that may be compressed. zlib lives here and nowhere else.
#pragma once

#include <cstddef>
#include <string>

#include "memest/diag/diagnostic.hpp"
#include "reader/text/source.hpp"

namespace memest {

/// The text of a file, decompressed where it is gzip. A directory, a damaged file and a text of
/// more than `most` bytes are diagnostics; throws EnvironmentError for a file that cannot be
/// opened.
Checked<SourcePointer> read_compressed(const std::string& path, std::size_t most);

/// The first bytes of such a file, `most` or fewer; empty where it cannot be read.
std::string first_bytes(const std::string& path, std::size_t most);

}  // namespace memest
