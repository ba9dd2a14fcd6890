// Rows of tests/truth, compressed or not.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <string>

#include "reader/text/gzip.hpp"

namespace memest::test {

/// The text of a file of tests/truth.
inline std::string truth_text(const std::string& name) {
  constexpr std::size_t kMost = std::size_t{16} << 20;
  const Checked<SourcePointer> source = read_compressed(MEMEST_TRUTH "/" + name, kMost);
  REQUIRE(source.ok());
  return source.value()->text;
}

}  // namespace memest::test
