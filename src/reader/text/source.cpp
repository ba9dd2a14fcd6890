#include "reader/text/source.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "memest/diag/environment.hpp"
#include "reader/text/hub_name.hpp"

namespace memest {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// The first bytes of the stream, one more than a text may have.
std::string read_prefix(std::istream& stream, std::size_t most_bytes) {
  constexpr std::size_t kPiece = 1 << 16;
  std::string text;
  while (stream && text.size() <= most_bytes) {
    const std::size_t size = text.size();
    text.resize(std::min(size + kPiece, most_bytes + 1));
    stream.read(text.data() + size, static_cast<std::streamsize>(text.size() - size));
    text.resize(size + static_cast<std::size_t>(stream.gcount()));
  }
  return text;
}

[[noreturn]] void refuse_to_open(const std::string& path) {
  throw EnvironmentError("cannot open '" + path + "': " + std::strerror(errno));
}

}  // namespace

Checked<SourcePointer> read_source(const std::string& path, const TextKind& kind) {
  const auto whole_file = [&](std::string message, std::string hint) {
    const auto source = std::make_shared<const SourceText>(SourceText{path, ""});
    return Diagnostic{Severity::error, {source, 0, 0, 0}, std::move(message), std::move(hint)};
  };
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown)) {
    return whole_file("this is a directory", "name a file in it");
  }
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  if (!stream) refuse_to_open(path);
  std::string text = read_prefix(stream, kind.most_bytes);
  if (stream.bad()) refuse_to_open(path);
  if (text.size() > kind.most_bytes) {
    return whole_file(too_large_text("file", kind), std::string(kind.large_hint));
  }
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  return SourcePointer(std::make_shared<const SourceText>(SourceText{path, std::move(text)}));
}

Checked<SourcePointer> read_argument(const std::string& word) {
  constexpr const char* kStandardInput = "/dev/stdin";
  if (word == "-") {
    Checked<SourcePointer> source = read_source(kStandardInput);
    if (!source.ok()) return source;
    return SourcePointer(
        std::make_shared<const SourceText>(SourceText{"standard input", source.value()->text}));
  }
  if (!file_exists(word)) {
    std::string hint = hint_of_hub_name(word);
    const auto source = std::make_shared<const SourceText>(SourceText{word, ""});
    if (!hint.empty()) {
      return Diagnostic{
          Severity::error, {source, 0, 0, 0}, "there is no such file", std::move(hint)};
    }
  }
  return read_source(word);
}

Checked<Value> parse_source(const SourcePointer& source) {
  return source->name.ends_with(".json") ? parse_json(source) : parse_yaml(source);
}

bool file_exists(const std::string& path) {
  std::error_code unknown;
  return std::filesystem::exists(path, unknown);
}

std::string stem_of(std::string_view path) {
  path.remove_prefix(path.rfind('/') + 1);  // npos + 1 is 0
  return std::string(path.substr(0, path.size() - extension_of(path).size()));
}

std::string path_beside(const SourceSpan& span, const std::string& path) {
  if (span.source == nullptr) return path;
  return (std::filesystem::path(span.source->name).parent_path() / path).string();
}

std::string_view extension_of(std::string_view path) {
  for (const std::string_view extension :
       {".yaml", ".yml", ".json", ".toml", ".sh", ".bash", ".slurm", ".sbatch", ".py"}) {
    if (path.ends_with(extension)) return path.substr(path.size() - extension.size());
  }
  return {};
}

bool is_path(std::string_view name) {
  return name.find('/') != std::string_view::npos || !extension_of(name).empty();
}

}  // namespace memest
