# Run at build time: writes OUTPUT, the C++ source of memest::embedded_configs(), from the files of FOLDER that LIST names, one a
# line and sorted.
set(literal_limit 15000)  # bytes a literal: compilers need not accept longer ones than 64 KiB, and some accept only 16
set(delimiter "memest_config")

file(STRINGS ${LIST} paths)
list(LENGTH paths count)
set(rows "")
foreach(path IN LISTS paths)
  file(READ ${FOLDER}/${path} text)
  if(text MATCHES "\\)${delimiter}\"")
    message(FATAL_ERROR "${path} holds the text that ends a raw string literal: )${delimiter}\"")
  endif()
  if(NOT text MATCHES "\n$")
    message(FATAL_ERROR "${path} does not end with a newline")
  endif()
  string(LENGTH "${text}" length)
  set(literals "")
  set(begin 0)
  while(begin LESS length)
    string(SUBSTRING "${text}" ${begin} ${literal_limit} piece)
    string(FIND "${piece}" "\n" line_end REVERSE)  # never inside a character of several bytes
    math(EXPR size "${line_end} + 1")
    string(SUBSTRING "${piece}" 0 ${size} piece)
    string(APPEND literals "\n     R\"${delimiter}(${piece})${delimiter}\"")
    math(EXPR begin "${begin} + ${size}")
  endwhile()
  string(APPEND rows "    {\"${path}\"sv,${literals}sv},\n")
endforeach()

file(WRITE ${OUTPUT} "#include \"memest/reader/embedded_configs.hpp\"

#include <array>

namespace memest {
namespace {

using std::string_view_literals::operator\"\"sv;

constexpr std::array<EmbeddedFile, ${count}> kConfigs{{
${rows}}};

}  // namespace

std::span<const EmbeddedFile> embedded_configs() { return kConfigs; }

}  // namespace memest
")
