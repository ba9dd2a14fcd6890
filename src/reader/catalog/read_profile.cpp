#include <algorithm>
#include <array>
#include <string_view>

#include "memest/reader/profile.hpp"
#include "memest/spec/gpu/law_parameters.hpp"
#include "reader/catalog/catalog_files.hpp"
#include "reader/keys/check.hpp"
#include "reader/samples/sample_row.hpp"
#include "reader/text/embedded_trees.hpp"
#include "reader/text/scalar.hpp"
#include "reader/text/source.hpp"

namespace memest {
namespace {

double parameter_of(const Value& value, ParameterUnit unit) {
  switch (unit) {
    case ParameterUnit::none:
      return as_number(&value).value_or(0);
    case ParameterUnit::seconds:
      return as_quantity(&value, Dimension::duration).value_or(0);
    case ParameterUnit::bytes:
      return as_quantity(&value, Dimension::size).value_or(0);
    case ParameterUnit::bytes_per_second:
      return as_quantity(&value, Dimension::byte_rate).value_or(0);
  }
  unreachable("every unit is read");
}

template <class Law, std::size_t kCount>
void read_parameters(const Value* table, Law& law,
                     const std::array<LawParameter<Law>, kCount>& parameters) {
  if (table == nullptr) return;
  for (const LawParameter<Law>& parameter : parameters) {
    const Value* value = table->find(parameter.name);
    if (value != nullptr) law.*parameter.value = parameter_of(*value, parameter.unit);
  }
}

double number_at(const Value& table, std::string_view key) {
  return as_number(table.find(key)).value_or(0);
}

double seconds_at(const Value& table, std::string_view key) {
  return as_quantity(table.find(key), Dimension::duration).value_or(0);
}

/// The value of an enumeration with `count` values, by its name.
template <class Enum>
Enum named(const Value& entry, std::string_view key, int count) {
  const std::string name = text_at(entry, key);
  for (int i = 0; i < count; ++i) {
    if (name_of(static_cast<Enum>(i)) == name) return static_cast<Enum>(i);
  }
  unreachable("a word that the file's check accepts");
}

KernelPass pass_at(const Value& entry) { return named<KernelPass>(entry, "pass", 2); }

/// Reads the members that every fit has beside its kind and its law.
template <class Fit>
Fit common_of(const Value& entry) {
  Fit fit;
  const Value& residuals = *entry.find("residuals");
  fit.residuals = {.fitted = count_at(residuals, "fitted"),
                   .tested = count_at(residuals, "tested"),
                   .mean_absolute = number_at(residuals, "mean_absolute"),
                   .bias = number_at(residuals, "bias"),
                   .low = number_at(residuals, "low"),
                   .high = number_at(residuals, "high"),
                   .shortest = seconds_at(residuals, "shortest"),
                   .longest = seconds_at(residuals, "longest")};
  static constexpr std::array kTags = {Provenance::measured, Provenance::public_,
                                       Provenance::datasheet};
  const std::string tag = text_at(entry, "provenance");
  for (const Provenance provenance : kTags) {
    if (name_of(provenance) == tag) fit.provenance = provenance;
  }
  return fit;
}

MatmulFit matmul_of(const Value& entry) {
  auto fit = common_of<MatmulFit>(entry);
  const MatmulShape operand = operand_of(text_at(entry, "operand"));
  fit.kind = kind_of(operand);
  fit.kind.cast_included = flag_at(entry, "cast_included");
  read_parameters(entry.find("law"), fit.law.product, kTileParameters);
  read_parameters(entry.find("passes"), fit.law, kPassParameters);
  if (const Value* cast = entry.find("cast")) {
    read_parameters(cast, fit.law.cast.emplace(), kStreamParameters);
  }
  return fit;
}

AttentionFit attention_of(const Value& entry) {
  auto fit = common_of<AttentionFit>(entry);
  fit.kind = {.kernel = text_at(entry, "kernel"),
              .dtype = *type_at(entry, "dtype"),
              .pass = pass_at(entry),
              .causal = flag_at(entry, "causal")};
  read_parameters(entry.find("law"), fit.law, kAttentionParameters);
  return fit;
}

StreamFit stream_of(const Value& entry) {
  auto fit = common_of<StreamFit>(entry);
  fit.kind = {.op = named<StreamOp>(entry, "op", static_cast<int>(StreamOp::adamw) + 1),
              .pass = pass_at(entry),
              .dtype = *type_at(entry, "dtype")};
  read_parameters(entry.find("law"), fit.law, kStreamParameters);
  return fit;
}

CollectiveFit collective_of(const Value& entry) {
  auto fit = common_of<CollectiveFit>(entry);
  fit.kind = {
      .op = named<CollectiveOp>(entry, "op", static_cast<int>(CollectiveOp::all_to_all) + 1),
      .gpus = count_at(entry, "gpus")};
  read_parameters(entry.find("law"), fit.law, kCollectiveParameters);
  return fit;
}

TransferFit transfer_of(const Value& entry) {
  auto fit = common_of<TransferFit>(entry);
  fit.kind =
      named<TransferPath>(entry, "path", static_cast<int>(TransferPath::managed_migration) + 1);
  read_parameters(entry.find("law"), fit.law, kTransferParameters);
  return fit;
}

LaunchFit launch_of(const Value& entry) {
  auto fit = common_of<LaunchFit>(entry);
  fit.kind = named<LaunchPath>(entry, "path", static_cast<int>(LaunchPath::graph) + 1);
  read_parameters(entry.find("law"), fit.law, kLaunchParameters);
  return fit;
}

SampleLines lines_of(const Value& entry) {
  SampleLines result{text_at(entry, "file"), {}};
  for (const Value& line : entry.find("lines")->items) {
    result.lines.push_back(as_count(&line).value_or(0));
  }
  return result;
}

std::vector<std::string> texts_at(const Value& table, std::string_view key) {
  std::vector<std::string> texts;
  if (const Value* list = table.find(key)) {
    for (const Value& item : list->items) texts.push_back(item.text);
  }
  return texts;
}

ProfileOrigin origin_of(const Value* table) {
  constexpr double kMega = 1e6;
  if (table == nullptr) return {};
  const auto megahertz_at = [&](std::string_view key) {
    return as_quantity(table->find(key), Dimension::clock).value_or(0) / kMega;
  };
  return {.date = text_at(*table, "date"),
          .device = text_at(*table, "device"),
          .driver = text_at(*table, "driver"),
          .libraries = texts_at(*table, "libraries"),
          .burst_clock_mhz = megahertz_at("burst_clock"),
          .sustained_clock_mhz = megahertz_at("sustained_clock"),
          .sources = texts_at(*table, "sources")};
}

std::optional<ProfiledMachine> machine_of(const Value* table) {
  if (table == nullptr) return std::nullopt;
  return ProfiledMachine{
      .multiprocessors = count_at(*table, "multiprocessors"),
      .memory = *as_bytes(table->find("memory")),
      .l2_cache = *as_bytes(table->find("l2")),
      .bandwidth = BytesPerSecond(
          as_quantity(table->find("memory_bandwidth"), Dimension::byte_rate).value_or(0)),
      .fp32_peak =
          FlopsPerSecond(as_quantity(table->find("fp32"), Dimension::flop_rate).value_or(0))};
}

GpuProfile profile_of(const Value& file) {
  GpuProfile profile;
  profile.gpu = text_at(file, "gpu");
  profile.load = named<Load>(file, "load", static_cast<int>(Load::sustained) + 1);
  profile.origin = origin_of(file.find("origin"));
  profile.machine = machine_of(file.find("machine"));
  profile.matmuls = entries_of(file, "matmuls", matmul_of);
  profile.attentions = entries_of(file, "attentions", attention_of);
  profile.streams = entries_of(file, "streams", stream_of);
  profile.collectives = entries_of(file, "collectives", collective_of);
  profile.transfers = entries_of(file, "transfers", transfer_of);
  profile.launches = entries_of(file, "launches", launch_of);
  profile.fitted = entries_of(file, "fitted", lines_of);
  return profile;
}

/// A profile of another version of memest: its keys are others, so that nothing else is said of it.
std::optional<Diagnostic> other_format(const Value& file) {
  const Value* version = file.find("format_version");
  const std::optional<std::int64_t> written = as_count(version);
  if (!written || *written == kProfileFormat) return std::nullopt;
  return error_at(version->span,
                  "a profile of format " + std::to_string(*written) + "; this memest reads " +
                      std::to_string(kProfileFormat),
                  "`memest calibrate` writes it anew, with --from out of the samples beside it");
}

}  // namespace

Checked<GpuProfile> read_profile(const std::shared_ptr<const SourceText>& source) {
  const Checked<Value> file = parse_yaml(source);
  if (!file.ok()) return file.diagnostics();
  if (file.value().kind != ValueKind::mapping) {
    return error_at(file.value().span, "a profile is a mapping of keys");
  }
  if (auto other = other_format(file.value())) return *std::move(other);
  Diagnostics faults;
  check_table(file.value(), profile_keys(), {source, 0, 0, 0}, faults);
  if (!faults.empty()) return faults;
  return profile_of(file.value());
}

Checked<GpuProfile> read_profile_file(const std::string& path) {
  const Checked<SourcePointer> source = read_source(path);
  if (!source.ok()) return source.diagnostics();
  return read_profile(source.value());
}

std::optional<GpuProfile> find_profile(const std::string& gpu_slug) {
  const std::string path = "gpus/" + gpu_slug + std::string(kProfileSuffix);
  if (find_embedded(path) == nullptr) return std::nullopt;
  return profile_of(read_embedded(path));
}

}  // namespace memest
