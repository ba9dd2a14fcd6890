// Run at build time: `embed_configs FOLDER LIST OUTPUT` writes the C++ source of
// memest::embedded_configs() and memest::embedded_trees() from the files of FOLDER that LIST names,
// one a line and sorted. The trees are what the library's own parser makes of the files; a mistake
// in one ends the build.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "literals.hpp"
#include "reader/text/embedded_trees.hpp"
#include "reader/text/value.hpp"

namespace memest {
namespace {

/// Nodes as rows of an array, and the texts that they point into.
class NodeWriter {
 public:
  void add_tree(const Value& root) {
    roots_ += std::to_string(nodes_) + ", ";
    add(root);
  }
  [[nodiscard]] const std::string& roots() const { return roots_; }
  [[nodiscard]] const std::string& rows() const { return rows_; }
  [[nodiscard]] const std::string& words() const { return words_; }
  [[nodiscard]] std::size_t nodes() const { return nodes_; }

 private:
  void add(const Value& value) {
    switch (value.kind) {
      case ValueKind::null:
        return add_row(value, 0, "null");
      case ValueKind::scalar:
        return add_scalar(value);
      case ValueKind::sequence:
        add_row(value, value.items.size(), "sequence");
        for (const Value& item : value.items) add(item);
        return;
      case ValueKind::mapping:
        add_row(value, value.members.size(), "mapping");
        for (const Member& member : value.members) {
          Value key;
          key.text = member.key;
          key.span = member.key_span;
          add_scalar(key);
          add(member.value);
        }
        return;
    }
  }

  void add_scalar(const Value& value) {
    const auto [place, is_new] = places_.emplace(value.text, words_.size());
    if (is_new) words_ += value.text;
    add_row(value, place->second, "scalar");
  }

  void add_row(const Value& value, std::size_t word, std::string_view kind) {
    ++nodes_;
    rows_ += "{" + std::to_string(word) + ',' + narrow(value.text.size()) + ',' +
             narrow(value.span.line) + ',' + narrow(value.span.column) + ',' +
             narrow(value.span.length) + ",K::" + std::string(kind) +
             (value.quoted ? ",true},\n" : ",false},\n");
  }

  template <class Number>
  static std::string narrow(Number number) {
    if (static_cast<std::size_t>(number) > std::numeric_limits<std::uint16_t>::max()) {
      throw std::runtime_error("a place or a text beyond 16 bits");
    }
    return std::to_string(number);
  }

  std::map<std::string, std::size_t> places_;
  std::string roots_;
  std::string rows_;
  std::string words_;
  std::size_t nodes_ = 0;
};

Value parse(const std::string& path, std::string text) {
  const auto source = std::make_shared<const SourceText>(SourceText{path, std::move(text)});
  Checked<Value> tree = path.ends_with(".json") ? parse_json(source) : parse_yaml(source);
  if (tree.ok()) return std::move(tree).value();
  const Diagnostic& first = tree.diagnostics().front();
  throw std::runtime_error(path + ":" + std::to_string(first.span.line) + ": " + first.message);
}

void embed(const std::string& folder, const std::string& list, const std::string& output) {
  std::ifstream paths(list);
  std::string files;
  NodeWriter nodes;
  std::size_t count = 0;
  for (std::string path; std::getline(paths, path); ++count) {
    const std::string text = read_text(folder + "/" + path);
    files += "    {\"" + path + "\"sv," + literals_of(text) + "},\n";
    nodes.add_tree(parse(folder + "/" + path, text));
  }
  std::ofstream out(output, std::ios::binary);
  out << "#include <array>\n\n#include \"reader/text/embedded_trees.hpp\"\n\nnamespace memest {\n"
      << "namespace {\n\nusing K = ValueKind;\nusing std::string_view_literals::operator\"\"sv;\n\n"
      << "constexpr std::array<EmbeddedFile, " << count << "> kConfigs{{\n"
      << files << "}};\n\n"
      << "constexpr std::array<std::uint32_t, " << count << "> kRoots{" << nodes.roots() << "};\n\n"
      << "constexpr std::array<EmbeddedNode, " << nodes.nodes() << "> kNodes{{\n"
      << nodes.rows() << "}};\n\n"
      << "constexpr std::string_view kWords =" << literals_of(nodes.words()) << ";\n\n"
      << "}  // namespace\n\n"
      << "std::span<const EmbeddedFile> embedded_configs() { return kConfigs; }\n\n"
      << "EmbeddedTrees embedded_trees() { return {kRoots, kNodes, kWords}; }\n\n"
      << "}  // namespace memest\n";
  if (!out.flush()) throw std::runtime_error("cannot write " + output);
}

}  // namespace
}  // namespace memest

int main(int argc, char** argv) {
  try {
    if (argc != 4) throw std::runtime_error("usage: embed_configs FOLDER LIST OUTPUT");
    memest::embed(argv[1], argv[2], argv[3]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "embed_configs: %s\n", error.what());
    return 1;
  }
}
