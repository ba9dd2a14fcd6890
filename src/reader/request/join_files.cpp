#include "reader/request/join_files.hpp"

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "reader/foreign/dialects.hpp"
#include "reader/text/scalar.hpp"
#include "reader/text/source.hpp"

namespace memest {
namespace {

/// A member that no text writes as such: the whole file behind `value`.
Member section_of(std::string_view name, Value value) {
  const SourceSpan whole{value.span.source, 0, 0, 0};
  return {std::string(name), whole, std::move(value)};
}

void wrap(RequestFile& file) {
  if (file.dialect == nullptr || file.dialect->section.empty()) return;
  Value root;
  root.kind = ValueKind::mapping;
  root.span = file.tree.span;
  root.members.push_back(section_of(file.dialect->section, std::move(file.tree)));
  file.tree = std::move(root);
}

bool takes(const RequestFile& host, std::string_view section) {
  return host.dialect != nullptr && !section.empty() &&
         std::ranges::find(host.dialect->takes, section) != host.dialect->takes.end() &&
         host.tree.find(section) == nullptr;
}

/// The file that takes the others: one that is no section itself before one that is.
RequestFile* find_host(std::vector<RequestFile>& files) {
  RequestFile* host = nullptr;
  for (RequestFile& file : files) {
    if (file.dialect == nullptr || file.dialect->takes.empty()) continue;
    if (file.dialect->section.empty()) return &file;
    if (host == nullptr) host = &file;
  }
  return host;
}

/// Programs run in the root of their repository, and so a path may be relative to any folder above
/// the file that names it, or to the one where memest runs. Empty where there is no such file.
std::string find_named(const Value& value) {
  std::filesystem::path folder = std::filesystem::path(value.span.source->name).parent_path();
  while (true) {
    const std::string path = (folder / value.text).string();
    if (file_exists(path)) return path;
    if (folder.empty() || folder == folder.parent_path()) break;
    folder = folder.parent_path();
  }
  return file_exists(value.text) ? value.text : std::string();
}

/// The tree of the file that `value` names.
Checked<Value> read_named(const Value& value, std::string_view section) {
  const std::string path = find_named(value);
  if (path.empty()) {
    return error_at(value.span, quote(value.text) + " is no file",
                    "a path is relative to the file that names it or to a folder above; or name it "
                    "too: memest import FILE " +
                        value.text.substr(value.text.rfind('/') + 1));
  }
  const Checked<SourcePointer> source = read_source(path);
  if (!source.ok()) return source.diagnostics();
  Checked<Value> tree = parse_foreign(source.value());
  if (!tree.ok()) return tree.diagnostics();
  const Dialect* dialect = find_dialect(Syntax::tree, tree.value());
  if (dialect != nullptr && dialect->section == section) return tree;
  return error_at({source.value(), 0, 0, 0}, "this is not what the file that names it takes it for",
                  "line " + std::to_string(value.span.line) + " of " + value.span.source->name);
}

void attach(RequestFile& file, const FileReference& reference, Diagnostics& diagnostics) {
  const Value* value = find_path(file.tree, reference.key);
  if (value == nullptr || file.tree.find(reference.section) != nullptr) return;
  if (value->kind == ValueKind::mapping) {
    Member inside = section_of(reference.section, *value);
    std::erase_if(file.tree.members,
                  [&](const Member& member) { return member.key == reference.key; });
    file.tree.members.push_back(std::move(inside));
  } else if (value->kind == ValueKind::scalar && !value->text.empty()) {
    Checked<Value> named = read_named(*value, reference.section);
    const Diagnostics& told = named.diagnostics();
    append(told, diagnostics);
    if (!named.ok()) return;
    file.tree.members.push_back(section_of(reference.section, std::move(named).value()));
  }
}

}  // namespace

void join_files(std::vector<RequestFile>& files, Diagnostics& diagnostics) {
  for (RequestFile& file : files) wrap(file);
  if (RequestFile* host = find_host(files)) {
    for (RequestFile& file : files) {
      if (&file == host || file.dialect == nullptr) continue;
      if (!takes(*host, file.dialect->section)) continue;
      host->tree.members.push_back(std::move(file.tree.members.front()));
      file = {};
      file.spec.tree.kind = ValueKind::mapping;
    }
  }
  for (RequestFile& file : files) {
    if (file.dialect == nullptr) continue;
    for (const FileReference& reference : file.dialect->references) {
      attach(file, reference, diagnostics);
    }
  }
}

}  // namespace memest
