#include "memest/reader/record.hpp"

#include <unordered_map>
#include <utility>

#include "memest/units/int128.hpp"
#include "reader/catalog/catalog_files.hpp"
#include "reader/job/read_job.hpp"
#include "reader/keys/check.hpp"
#include "reader/keys/keys.hpp"
#include "reader/text/gzip.hpp"
#include "reader/text/scalar.hpp"
#include "reader/text/source.hpp"

namespace memest {
namespace {

template <class Quantity>
std::optional<Quantity> whole_at(const Value& table, std::string_view key) {
  const std::optional<std::int64_t> count = as_count(table.find(key));
  return count ? std::optional(Quantity(*count)) : std::nullopt;
}

/// One number stands for every layer.
std::optional<std::vector<Bytes>> layers_of(const Value* written) {
  if (written == nullptr) return std::nullopt;
  if (const std::optional<std::int64_t> all = as_count(written)) return std::vector{Bytes(*all)};
  std::vector<Bytes> layers;
  for (const Value& layer : written->items) layers.emplace_back(as_count(&layer).value_or(0));
  return layers;
}

std::optional<RunOutcome> outcome_of(const Value* written) {
  const std::optional<std::string> word = as_text(written);
  if (!word) return std::nullopt;
  return *word == name_of(RunOutcome::ok) ? RunOutcome::ok : RunOutcome::out_of_memory;
}

/// A figure that is null was not measured.
void drop_nulls(Value& measured) {
  std::erase_if(measured.members,
                [](const Member& member) { return member.value.kind == ValueKind::null; });
  for (Member& member : measured.members) drop_nulls(member.value);
}

/// The job of a spec; sizes whose product leaves 64 bits are a mistake of this spec alone.
Checked<Job> countable_job(Value spec, const std::string& name) {
  const SourceSpan span = spec.span;
  try {
    return read_job(std::move(spec), name);
  } catch (const OverflowError&) {
    return error_at(span, "a size of this spec is too large to count",
                    "sizes multiply: look for one with too many zeros");
  }
}

class RecordReader {
 public:
  /// Reads what is well formed; says of the rest why not.
  [[nodiscard]] Record read(Value root) {
    std::erase_if(root.members,
                  [](const Member& member) { return member.value.kind == ValueKind::null; });
    for (Member& member : root.members) {
      if (member.key == "measured") drop_nulls(member.value);
    }
    check_table(root, record_keys(), root.span, diagnostics_);
    Record record;
    record.id = text_at(root, "id");
    record.source = text_at(root, "source");
    record.framework = text_at(root, "framework");
    record.year = count_at(root, "year");
    if (record.framework.empty() != (record.year == 0)) {
      diagnostics_.push_back(error_at(root.span, "a published run has a framework and a year",
                                      "write both, or neither"));
    }
    if (const Value* measured = root.find("measured")) record.measured = observables_of(*measured);
    record.measured.data_rank = as_count(root.find("data_rank"));
    if (const Value* left_out = root.find("approx")) {
      const bool all = left_out->find("all") != nullptr;
      record.approximation = {.memory = all || left_out->find("memory") != nullptr,
                              .time = all || left_out->find("time") != nullptr};
    }
    // A program logs its first rank's figures (Megatron's report_memory: data-parallel rank 0).
    if (!record.framework.empty() && !record.measured.data_rank) record.measured.data_rank = 0;
    for (Member& member : root.members) {
      if (member.key == "spec" && member.value.kind == ValueKind::mapping) {
        read_spec(std::move(member.value), record);
      }
    }
    return record;
  }

  [[nodiscard]] Diagnostics& diagnostics() { return diagnostics_; }
  [[nodiscard]] Diagnostics& warnings() { return warnings_; }

 private:
  /// A spec's mistakes concern its record alone: the others are compared all the same. A
  /// refusal by name needs no warning, a mistake does.
  void read_spec(Value spec, Record& record) {
    Checked<Job> job = countable_job(std::move(spec), record.id);
    if (job.ok()) {
      record.job = std::move(job).value();
      return;
    }
    for (const Diagnostic& reason : job.diagnostics()) {
      if (reason.severity != Severity::error) continue;
      if (record.refusal.empty()) record.refusal = reason.message;
      if (reason.unavailable) continue;
      warnings_.push_back(reason);
      warnings_.back().severity = Severity::warning;
    }
  }

  [[nodiscard]] Observables observables_of(const Value& measured) {
    Observables observed;
    observed.allocated_peak = whole_at<Bytes>(measured, "allocated_peak_bytes");
    observed.reserved_peak = whole_at<Bytes>(measured, "reserved_peak_bytes");
    observed.device = whole_at<Bytes>(measured, "device_bytes");
    if (const auto seconds = as_number(measured.find("step_seconds"))) {
      observed.step = Seconds(*seconds);
    }
    observed.tokens_per_second_per_gpu = as_number(measured.find("tokens_per_second_per_gpu"));
    observed.parameters = as_count(measured.find("parameters"));
    observed.trainable_parameters = as_count(measured.find("trainable_parameters"));
    observed.buffers = whole_at<Bytes>(measured, "buffer_bytes");
    observed.saved = whole_at<Bytes>(measured, "saved_bytes");
    observed.saved_by_layer = layers_of(measured.find("saved_bytes_per_layer"));
    observed.forward = whole_at<Flops>(measured, "forward_flops");
    observed.backward = whole_at<Flops>(measured, "backward_flops");
    observed.outcome = outcome_of(measured.find("outcome"));
    if (const Value* phases = measured.find("phases")) observed.phases = phases_of(*phases);
    if (const Value* ranks = measured.find("ranks")) observed.ranks = ranks_of(*ranks);
    return observed;
  }

  [[nodiscard]] std::vector<PhaseBytes> phases_of(const Value& written) {
    std::vector<PhaseBytes> phases;
    for (const Member& phase : written.members) {
      const std::optional<std::int64_t> bytes = as_count(&phase.value);
      if (bytes && *bytes >= 0) {
        phases.push_back({phase.key, Bytes(*bytes)});
      } else {
        diagnostics_.push_back(error_at(phase.value.span, "a phase is a whole number of bytes"));
      }
    }
    return phases;
  }

  [[nodiscard]] std::vector<RankObservables> ranks_of(const Value& written) {
    std::vector<RankObservables> ranks;
    for (const Member& member : written.members) {
      const std::optional<std::int64_t> rank = integer_of(member.key);
      if (!rank || *rank < 0 || member.value.kind != ValueKind::mapping) {
        diagnostics_.push_back(error_at(
            member.key_span, "a rank is a whole number with a mapping of what was measured"));
        continue;
      }
      check_table(member.value, measured_keys(), member.key_span, diagnostics_);
      ranks.push_back({*rank, observables_of(member.value)});
    }
    return ranks;
  }

  Diagnostics diagnostics_;
  Diagnostics warnings_;
};

}  // namespace

Checked<std::vector<Record>> read_records(const std::string& path) {
  const Checked<SourcePointer> source = read_compressed(path, kRecordsText.most_bytes);
  if (!source.ok()) return source.diagnostics();
  return read_records(source.value());
}

Checked<std::vector<Record>> read_records(const std::shared_ptr<const SourceText>& source) {
  Checked<std::vector<Value>> lines = parse_json_lines(source);
  if (!lines.ok()) return lines.diagnostics();
  RecordReader reader;
  std::vector<Record> records;
  std::unordered_map<std::string, std::int32_t> line_of_id;
  for (Value& line : std::move(lines).value()) {
    const SourceSpan span = line.span;
    if (line.kind != ValueKind::mapping) {
      reader.diagnostics().push_back(error_at(span, "a record is a mapping of keys"));
      continue;
    }
    records.push_back(reader.read(std::move(line)));
    const std::string& id = records.back().id;
    const auto [known, is_new] = line_of_id.try_emplace(id, span.line);
    if (!is_new && !id.empty()) {
      reader.diagnostics().push_back(
          error_at(span, "a second record with the id " + quote(id),
                   "the first is in line " + std::to_string(known->second)));
    }
  }
  if (!reader.diagnostics().empty()) return std::move(reader.diagnostics());
  return {std::move(records), std::move(reader.warnings())};
}

}  // namespace memest
