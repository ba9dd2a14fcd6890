#include "reader/request/read_spec.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "memest/reader/catalog.hpp"
#include "reader/catalog/named_texts.hpp"
#include "reader/foreign/dialects.hpp"
#include "reader/keys/foreign.hpp"
#include "reader/recorded/recording_sign.hpp"
#include "reader/request/free_key.hpp"
#include "reader/request/gpus_of_flag.hpp"
#include "reader/request/join_files.hpp"
#include "reader/text/embedded_trees.hpp"
#include "reader/text/merge.hpp"
#include "reader/text/scalar.hpp"

namespace memest {
namespace {

Diagnostics only_errors(Diagnostics diagnostics) {
  std::erase_if(diagnostics, [](const Diagnostic& one) { return one.severity != Severity::error; });
  return diagnostics;
}

std::optional<Value> find_preset(const std::string& name) {
  const EmbeddedFile* file = find_embedded("models/" + name + ".yaml");
  if (file == nullptr) return std::nullopt;
  return embedded_value(*file, std::string(kPresetPrefix) + name);
}

/// The document's hint about the file `name`; one that a shell would take apart stays FILE.
std::string hint_for(const ForeignDocument& document, const std::string& name) {
  constexpr std::string_view kFile = "FILE";
  std::string hint(document.hint);
  const std::size_t at = hint.find(kFile);
  const bool plain = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return c > ' ' && c < 0x7F &&
           std::string_view("\"'`$&|;<>()*?[]{}!#~\\").find(static_cast<char>(c)) ==
               std::string_view::npos;
  });
  if (at != std::string::npos && plain) hint.replace(at, kFile.size(), name);
  return hint;
}

Diagnostic unknown_form(const SourcePointer& source) {
  std::vector<std::string> known;
  for (const Dialect* dialect : dialects()) {
    if (dialect->syntax == syntax_of(source->name)) known.emplace_back(dialect->noun);
  }
  return error_at({source, 0, 0, 0}, "this is no configuration that memest knows",
                  "of such files it knows " + joined(known));
}

/// The tree of a spec, or of another program's file.
Checked<RequestFile> read_text(const SourcePointer& source) {
  if (is_recording(source->text)) {
    return error_at({source, 0, 0, 0}, "this is a recorded run, no spec",
                    "estimate, plan, timeline, roofline, check, diff and replay take a file of it");
  }
  Checked<Value> tree = parse_foreign(source);
  if (!tree.ok()) return tree.diagnostics();
  const Syntax syntax = syntax_of(source->name);
  Diagnostics warnings = tree.diagnostics();
  if (const Dialect* dialect = find_dialect(syntax, tree.value())) {
    return {RequestFile{.dialect = dialect, .tree = std::move(tree).value()}, std::move(warnings)};
  }
  if (syntax != Syntax::tree) return unknown_form(source);
  if (tree.value().kind != ValueKind::mapping) {
    return error_at(tree.value().span, "a spec is a mapping of keys",
                    "`memest init` writes a starter spec");
  }
  if (const ForeignDocument* document = find_foreign_document(tree.value())) {
    return error_at({source, 0, 0, 0}, "this is " + std::string(document->noun) + ", no spec",
                    hint_for(*document, source->name));
  }
  return {RequestFile{.spec = {std::move(tree).value()}}, std::move(warnings)};
}

/// The text of the request that an argument names, the file, or the preset where it names neither.
Checked<RequestFile> find_file(const std::string& name, const ReadRequest& request) {
  if (const SourcePointer text = find_text(request, name)) return read_text(text);
  if (name == "-" || is_path(name) || file_exists(name)) {
    const Checked<SourcePointer> text = read_argument(name);
    return text.ok() ? read_text(text.value()) : text.diagnostics();
  }
  if (std::optional<Value> preset = find_preset(name)) {
    return RequestFile{.spec = {*std::move(preset)}};
  }
  const auto source = std::make_shared<const SourceText>(SourceText{name, ""});
  const std::string hint = suggestion(name, model_names());
  return error_at({source, 0, 0, 0}, "neither a file nor a preset",
                  hint.empty() ? "`memest models` lists the presets" : hint);
}

/// Beside another program's file a preset says the model alone: how it is trained is the file's.
void keep_model_of_preset(Value& tree) {
  const bool is_preset =
      tree.span.source != nullptr && tree.span.source->name.starts_with(kPresetPrefix);
  if (is_preset) std::erase_if(tree.members, [](const Member& m) { return m.key != "model"; });
}

/// The files as one tree of keys of a spec.
ForeignSpec merged(std::vector<RequestFile> files, Diagnostics& diagnostics) {
  join_files(files, diagnostics);
  ForeignSpec spec;
  spec.tree.kind = ValueKind::mapping;
  const bool is_foreign =
      std::ranges::any_of(files, [](const RequestFile& file) { return file.dialect != nullptr; });
  for (RequestFile& file : files) {
    if (file.dialect == nullptr) {
      if (is_foreign) keep_model_of_preset(file.spec.tree);
      merge(spec, std::move(file.spec));
      continue;
    }
    Checked<ForeignSpec> one = import_tree(*file.dialect, file.tree);
    append(one.diagnostics(), diagnostics);
    if (one.ok()) merge(spec, std::move(one).value());
  }
  return spec;
}

}  // namespace

void expand_preset(Value& root) {
  for (Member& member : root.members) {
    // `training.teacher` has a model of its own.
    if (member.key == "training" || member.key == "teacher") expand_preset(member.value);
    if (member.key != "model" || member.value.kind != ValueKind::scalar) continue;
    const std::optional<Value> preset = find_preset(member.value.text);
    if (!preset) return;  // check_table names the nearest
    const Value* model = preset->find("model");
    expect(model != nullptr, "a preset has a model");
    member.value = *model;
  }
}

Checked<ForeignSpec> read_spec(const ReadRequest& request) {
  expect(!request.files.empty(), "a request names at least one file");
  Diagnostics diagnostics;
  std::vector<RequestFile> files;
  for (const std::string& file : request.files) {
    Checked<RequestFile> one = find_file(file, request);
    append(one.diagnostics(), diagnostics);
    if (one.ok()) files.push_back(std::move(one).value());
  }
  ForeignSpec spec = merged(std::move(files), diagnostics);
  Value& root = spec.tree;
  fill_defaults(spec);
  expand_preset(root);
  if (request.gpus) GpusOfFlag(*request.gpus, root).forget();
  for (const SourceText& override_ : request.overrides) {
    Checked<Value> tree = parse_override(override_);
    append(tree.diagnostics(), diagnostics);
    if (tree.ok()) merge(root, std::move(tree).value());
  }
  for (const SourceText& key : request.freed) free_key(root, key, diagnostics);
  if (request.gpus) GpusOfFlag(*request.gpus, root).write(diagnostics);
  put_named_texts(request, root, diagnostics);
  if (!only_errors(diagnostics).empty()) return only_errors(std::move(diagnostics));
  return {std::move(spec), std::move(diagnostics)};
}

Diagnostics missing_hardware(const ForeignSpec& spec, const ReadRequest& request) {
  Diagnostics diagnostics;
  if (!spec.is_foreign) return diagnostics;
  const SourceSpan whole{spec.tree.span.source, 0, 0, 0};
  const auto warn = [&](std::string message, std::string hint) {
    diagnostics.push_back({Severity::warning, whole, std::move(message), std::move(hint)});
  };
  if (spec.tree.find("training") == nullptr && spec.tree.find("inference") == nullptr) {
    warn("no file says how the model is trained",
         "`memest import FILE` writes a spec to start from");
    return diagnostics;
  }
  if (find_path(spec.tree, "hardware.gpu") == nullptr) {
    warn("nothing says which GPU: " + std::string(kDefaultGpu) + " is taken",
         "--gpu NAME; `memest gpus` lists them");
  }
  const bool has_count = request.gpus || find_path(spec.tree, "hardware.count") != nullptr ||
                         find_path(spec.tree, "parallelism.data") != nullptr;
  if (!has_count) warn("nothing says how many GPUs: as few as the layout takes", "--gpus N");
  return diagnostics;
}

Checked<Value> read_tree(const ReadRequest& request) {
  Checked<ForeignSpec> spec = read_spec(request);
  if (!spec.ok()) return spec.diagnostics();
  Diagnostics warnings = spec.diagnostics();
  return {std::move(spec).value().tree, std::move(warnings)};
}

Checked<Value> read_tree(const SourcePointer& source) {
  Checked<RequestFile> read = read_text(source);
  if (!read.ok()) return read.diagnostics();
  Diagnostics diagnostics = read.diagnostics();
  std::vector<RequestFile> files;
  files.push_back(std::move(read).value());
  ForeignSpec spec = merged(std::move(files), diagnostics);
  if (!only_errors(diagnostics).empty()) return diagnostics;
  fill_defaults(spec);
  return {std::move(spec.tree), std::move(diagnostics)};
}

}  // namespace memest
