// Text that a page carries compressed.
#pragma once

#include <string>
#include <string_view>

namespace memest {

/// `text` compressed by zlib, in base64: what a browser's DecompressionStream("deflate") reads.
std::string packed(std::string_view text);

/// The library of charts that was built in; empty where there is none.
std::string chart_library();

}  // namespace memest
