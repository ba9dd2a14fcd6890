// Run at build time: `embed_pages OUTPUT LIBRARY STYLE SCRIPT...` writes the C++ source of what
// src/report/html/assets.hpp declares; LIBRARY is compressed, and may be "" for none.
#include <zlib.h>

#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "literals.hpp"

namespace memest {
namespace {

std::string compressed(const std::string& text) {
  std::string out(compressBound(text.size()), '\0');
  uLongf size = out.size();
  const int code =
      compress2(reinterpret_cast<Bytef*>(out.data()), &size,  // zlib's type of a byte
                reinterpret_cast<const Bytef*>(text.data()), text.size(), Z_BEST_COMPRESSION);
  if (code != Z_OK) throw std::runtime_error("zlib cannot compress the library of charts");
  out.resize(size);
  return out;
}

void embed(const std::vector<std::string>& words) {
  const std::string library = words[1].empty() ? "" : read_text(words[1]);
  std::string script;
  for (std::size_t i = 3; i < words.size(); ++i) script += read_text(words[i]);
  std::ofstream out(words[0], std::ios::binary);
  out << "#include \"report/html/assets.hpp\"\n\nnamespace memest {\n\n"
      << "using std::string_view_literals::operator\"\"sv;\n\n"
      << "const std::string_view kPageStyle =" << literals_of(read_text(words[2])) << ";\n\n"
      << "const std::string_view kPageScript =" << literals_of(script) << ";\n\n"
      << "const std::string_view kChartLibrary ="
      << literals_of(library.empty() ? "" : compressed(library)) << ";\n\n"
      << "const std::size_t kChartLibrarySize = " << library.size() << ";\n\n"
      << "}  // namespace memest\n";
  if (!out.flush()) throw std::runtime_error("cannot write " + words[0]);
}

}  // namespace
}  // namespace memest

int main(int argc, char** argv) {
  try {
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (words.size() < 4) {
      throw std::runtime_error("usage: embed_pages OUTPUT LIBRARY STYLE SCRIPT...");
    }
    memest::embed(words);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "embed_pages: %s\n", error.what());
    return 1;
  }
}
