#include "memest/reader/written_spec.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <utility>

#include "memest/reader/profile.hpp"
#include "memest/spec/gpu/gpu_profile.hpp"
#include "reader/job/read_model.hpp"
#include "reader/recorded/recording_sign.hpp"
#include "reader/text/embedded_trees.hpp"
#include "reader/text/gzip.hpp"
#include "reader/text/source.hpp"
#include "reader/text/value.hpp"

namespace memest {
namespace {

constexpr std::string_view kModel = "model";
constexpr std::size_t kMostRecording = std::size_t{1} << 30U;
constexpr std::array<std::string_view, 2> kKinds = {"training", "inference"};

void append_leaves(const Value& value, const std::string& name, const SourceSpan& span,
                   std::vector<SpecLeaf>& keys) {
  switch (value.kind) {
    case ValueKind::null:
    case ValueKind::scalar:
      keys.push_back({name, value.text, span});
      return;
    case ValueKind::sequence:
      if (value.items.empty()) keys.push_back({name, "[]", span});
      for (std::size_t i = 0; i < value.items.size(); ++i) {
        append_leaves(value.items[i], name + "[" + std::to_string(i) + "]", value.items[i].span,
                      keys);
      }
      return;
    case ValueKind::mapping:
      if (value.members.empty()) keys.push_back({name, "{}", span});
      for (const Member& member : value.members) {
        append_leaves(member.value, name.empty() ? member.key : name + "." + member.key,
                      member.key_span, keys);
      }
      return;
  }
}

/// Whether a line of the text begins with the key.
bool has_line(std::string_view text, std::string_view key) {
  const std::string begin = std::string(key) + ":";
  return text.starts_with(begin) || text.find("\n" + begin) != std::string_view::npos;
}

template <class HasKey>
bool is_spec(const HasKey& has_key) {
  return has_key(kRecordingKey) ||
         (has_key(kModel) && std::any_of(kKinds.begin(), kKinds.end(), has_key));
}

/// Eight hexadecimal digits that another text has not, but for one in four billion: the check of
/// gzip and PNG (RFC 1952, section 8).
std::string digest_of(std::string_view text) {
  auto sum = static_cast<std::uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size()));
  std::string digits(8, '0');
  for (std::size_t i = digits.size(); i-- > 0; sum >>= 4U) digits[i] = "0123456789abcdef"[sum % 16];
  return digits;
}

class Basis {
 public:
  void add_embedded(const std::string& kind, const std::string& name, const std::string& path) {
    const EmbeddedFile* file = find_embedded(path);
    if (file != nullptr) add(kind, name, file->text);
  }
  /// A file that cannot be opened has been refused where the spec names it.
  void add_file(const std::string& kind, const std::string& name, const std::string& path) {
    const Checked<SourcePointer> source = read_source(path);
    if (source.ok()) add(kind, name, source.value()->text);
  }

  void add_recording(const std::string& path) {
    const Checked<SourcePointer> source = read_compressed(path, kMostRecording);
    if (source.ok()) add("recording", std::filesystem::path(path).filename(), source.value()->text);
  }

  [[nodiscard]] std::vector<RestsOn> sorted() && {
    std::sort(rows_.begin(), rows_.end(),
              [](const RestsOn& left, const RestsOn& right) { return left.name < right.name; });
    const auto same = std::unique(rows_.begin(), rows_.end());
    rows_.erase(same, rows_.end());
    return std::move(rows_);
  }

 private:
  void add(const std::string& kind, const std::string& name, std::string_view text) {
    rows_.push_back({kind + " " + name, digest_of(text)});
  }

  std::vector<RestsOn> rows_;
};

void add_gpu(const GpuSpec& gpu, const SpecLeaf* written, Basis& basis) {
  const auto add_profile = [&](const std::string& slug) {
    basis.add_embedded("profile", slug, "gpus/" + slug + std::string(kProfileSuffix));
  };
  if (written != nullptr && is_path(written->value)) {  // with a profile it is one
    basis.add_file("gpu", written->value, path_beside(written->span, written->value));
  } else {
    basis.add_embedded("gpu", gpu.slug, "gpus/" + gpu.slug + ".yaml");
    if (gpu.profile) add_profile(gpu.slug);
  }
  for (const Sibling& sibling : gpu.siblings) add_profile(sibling.profile->gpu);
}

void add_recipe(const ForwardSpec& forward, Basis& basis) {
  basis.add_embedded("recipe", forward.recipe.name, "recipes/" + forward.recipe.name + ".yaml");
}

/// A preset by its name, a Hugging Face config by its path; of a teacher likewise.
void add_model(const std::string& key, const std::vector<SpecLeaf>& keys, Basis& basis) {
  if (const SpecLeaf* preset = find_written(keys, key)) {
    basis.add_embedded("preset", preset->value, "models/" + preset->value + ".yaml");
  }
  if (const SpecLeaf* config = find_written(keys, key + ".hf")) {
    Value path;
    path.text = config->value;
    path.span = config->span;
    basis.add_file("config", config->value, config_path(path));
  }
}

}  // namespace

WrittenSpec read_written_spec(const std::string& path) {
  if (sign_of(path, {}) == RecordingSign::recording) return {};
  const Checked<SourcePointer> source = read_source(path);
  if (!source.ok()) return {};
  const std::string_view text = source.value()->text;
  // Data and settings of others are not parsed only to see that they are none.
  const bool may_be_spec = text.find(kModel) != std::string_view::npos ||
                           text.find(kRecordingKey) != std::string_view::npos;
  if (!may_be_spec) return {};
  const Checked<Value> tree = parse_source(source.value());
  if (!tree.ok()) {
    return {is_spec([text](std::string_view key) { return has_line(text, key); }), {}};
  }
  const Value& root = tree.value();
  if (root.kind != ValueKind::mapping) return {};
  WrittenSpec written{is_spec([&root](std::string_view key) { return root.find(key) != nullptr; }),
                      {}};
  append_leaves(root, "", root.span, written.keys);
  return written;
}

const SpecLeaf* find_written(const std::vector<SpecLeaf>& keys, std::string_view key) {
  const auto found = std::ranges::find(keys, key, &SpecLeaf::key);
  return found == keys.end() ? nullptr : &*found;
}

std::vector<RestsOn> rests_on(const Job& job, const std::vector<SpecLeaf>& keys) {
  Basis basis;
  add_gpu(job.hardware.gpu, find_written(keys, "hardware.gpu"), basis);
  if (const ForwardSpec* forward = job.forward()) add_recipe(*forward, basis);
  if (job.training) {
    const std::string& name = job.training->optimizer.name;
    basis.add_embedded("optimizer", name, "optimizers/" + name + ".yaml");
  }
  add_model("model", keys, basis);
  add_model("training.teacher.model", keys, basis);
  return std::move(basis).sorted();
}

std::vector<RestsOn> rests_on(const RecordedJob& job) {
  Basis basis;
  basis.add_recording(job.file);
  if (!job.hardware.assumed) add_gpu(job.hardware.gpu, nullptr, basis);
  return std::move(basis).sorted();
}

}  // namespace memest
