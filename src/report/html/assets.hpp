// A page has files of this folder beside its answer, and the library that draws charts: all are
// carried inside the program (cmake/EmbedPages.cmake writes the definitions).
#pragma once

#include <cstddef>
#include <string_view>

namespace memest {

extern const std::string_view kPageStyle;   ///< page.css
extern const std::string_view kPageScript;  ///< the script's files, joined

/// The library's own file, compressed by zlib; empty where it was not built in.
extern const std::string_view kChartLibrary;
extern const std::size_t kChartLibrarySize;  ///< of the file

}  // namespace memest
