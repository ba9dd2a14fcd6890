// The keys of a recorded run, and of the lines that predictions of such runs are held to.
#include <limits>

#include "reader/keys/keys.hpp"

namespace memest {
namespace {

constexpr std::int64_t kMostBytes = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMostDataRank = 1'000'000'000;
constexpr double kMostSeconds = 1e9;
constexpr double kMostTokens = 1e12;
constexpr std::int64_t kFirstYear = 2012;  // of training on GPUs
constexpr std::int64_t kLastYear = 2100;

constexpr Word kOutcomes[] = {{"ok"}, {"oom"}};
constexpr Shapes kLayerBytes = {count(0, kMostBytes)};

constexpr Key bytes_key(std::string_view name, std::string_view doc) {
  return {.name = name, .shapes = {count(0, kMostBytes)}, .doc = doc};
}

constexpr Key kMeasuredKeys[] = {
    {.name = "outcome", .shapes = {choice(kOutcomes)}, .doc = "Whether the memory sufficed."},
    bytes_key("allocated_peak_bytes", "torch.cuda.max_memory_allocated()."),
    bytes_key("reserved_peak_bytes", "torch.cuda.max_memory_reserved()."),
    bytes_key("device_bytes", "What nvidia-smi shows."),
    {.name = "step_seconds", .shapes = {number(0, kMostSeconds)}, .doc = "One step."},
    {.name = "tokens_per_second_per_gpu",
     .shapes = {number(0, kMostTokens)},
     .doc = "Tokens a second and GPU."},
    bytes_key("parameters", "Tied weights once, all ranks together."),
    bytes_key("trainable_parameters", "The same of those that have a gradient."),
    bytes_key("buffer_bytes", "Buffers of the model."),
    bytes_key("saved_bytes", "What autograd keeps in one forward."),
    {.name = "saved_bytes_per_layer",
     .shapes = {count(0, kMostBytes), list(kLayerBytes)},
     .doc = "The same by block; one number where all are equal."},
    bytes_key("forward_flops", "FlopCounterMode over one forward."),
    bytes_key("backward_flops", "The same over one backward."),
    {.name = "phases", .shapes = {document()}, .doc = "Bytes at points of the run, by name."},
    {.name = "ranks", .shapes = {document()}, .doc = "The same keys by pipeline rank."},
};

constexpr Shapes kSentences = {text()};
constexpr Shapes kNumbers = {number(0, kMostTokens)};

constexpr Key left_out_key(std::string_view name, std::string_view doc) {
  return {.name = name, .shapes = {list(kSentences)}, .doc = doc};
}
constexpr Key kApproximationKeys[] = {
    left_out_key("all", "Of every figure."),
    left_out_key("memory", "Of bytes and of the outcome."),
    left_out_key("time", "Of seconds and of tokens a second."),
};

constexpr Key kRecordKeys[] = {
    {.name = "id", .shapes = {text()}, .doc = "Name of the record.", .required = true},
    {.name = "source", .shapes = {text()}, .doc = "What was run, or where it was published."},
    {.name = "framework",
     .shapes = {text()},
     .doc = "Of a run that others published, as they call it."},
    {.name = "year", .shapes = {count(kFirstYear, kLastYear)}, .doc = "In which they did."},
    {.name = "spec", .shapes = {document()}, .doc = "A spec.", .required = true},
    {.name = "measured",
     .shapes = {table(kMeasuredKeys)},
     .doc = "What was measured.",
     .required = true},
    {.name = "data_rank",
     .shapes = {count(0, kMostDataRank)},
     .doc = "Whose figures these are, of the ranks that share the states; without it the one that "
            "takes most, or of a published run the first."},
    {.name = "approx",
     .shapes = {table(kApproximationKeys)},
     .doc =
         "What the spec leaves out though it decides figures, a sentence each: those figures are "
         "counted apart."},
    {.name = "assumed",
     .shapes = {list(kSentences)},
     .doc = "What the publication does not say, and the framework's default of that time is."},
    {.name = "group", .shapes = {text()}, .doc = "The experiment that it is a run of."},
    {.name = "grades", .shapes = {document()}, .doc = "How much the publication states."},
    {.name = "memory_kind", .shapes = {text()}, .doc = "As the publication calls its memory."},
    {.name = "published_GiB",
     .shapes = {list(kNumbers)},
     .doc = "Between which its rounded figure lies."},
    {.name = "environment", .shapes = {document()}, .doc = "Versions and device."},
};

constexpr Word kMetricWords[] = {{"allocated_peak_bytes"},
                                 {"reserved_peak_bytes"},
                                 {"device_bytes"},
                                 {"step_seconds"},
                                 {"tokens_per_second_per_gpu"},
                                 {"parameters"},
                                 {"trainable_parameters"},
                                 {"buffer_bytes"},
                                 {"saved_bytes"},
                                 {"saved_bytes_per_layer"},
                                 {"forward_flops"},
                                 {"backward_flops"},
                                 {"phases"},
                                 {"outcome"}};
constexpr Key kMetricKey = {.name = "metric",
                            .shapes = {choice(kMetricWords)},
                            .doc = "A key of a record's `measured`.",
                            .required = true};
constexpr Key kReasonKey = {
    .name = "reason", .shapes = {text()}, .doc = "Why it misses.", .required = true};

constexpr Key kLineKeys[] = {
    kMetricKey,
    {.name = "median",
     .shapes = {quantity(Dimension::share)},
     .doc = "Most that the median of a group may be off."},
    {.name = "maximum",
     .shapes = {quantity(Dimension::share)},
     .doc = "Most that a row may be off."},
    {.name = "equal",
     .shapes = {flag()},
     .fallback = "false",
     .doc = "Every row is equal to what was measured."},
    {.name = "least_rows",
     .shapes = {count(0)},
     .fallback = "0",
     .doc = "So many rows are compared at least."},
};
constexpr Key kMissKeys[] = {
    {.name = "id", .shapes = {text()}, .doc = "A record's.", .required = true},
    kMetricKey,
    kReasonKey,
    {.name = "ceiling",
     .shapes = {quantity(Dimension::share)},
     .doc = "So far the row may be off, and no farther."},
};
constexpr Key kGroupMissKeys[] = {
    {.name = "group", .shapes = {text()}, .doc = "A group of the table.", .required = true},
    kMetricKey,
    kReasonKey,
    {.name = "ceiling",
     .shapes = {quantity(Dimension::share)},
     .doc = "So far its median may be off, and no farther.",
     .required = true},
};
constexpr Key kNotPredictedKeys[] = {kMetricKey, kReasonKey};

constexpr Shapes kLineShapes = {table(kLineKeys)};
constexpr Shapes kMisses = {table(kMissKeys)};
constexpr Shapes kGroupMisses = {table(kGroupMissKeys)};
constexpr Shapes kNotPredicted = {table(kNotPredictedKeys)};
constexpr Key kAccuracyFileKeys[] = {
    {.name = "lines", .shapes = {list(kLineShapes)}, .doc = "One a metric.", .required = true},
    {.name = "known_misses", .shapes = {list(kMisses)}, .doc = "Rows past their line."},
    {.name = "known_group_misses",
     .shapes = {list(kGroupMisses)},
     .doc = "Groups whose median is past its line."},
    {.name = "not_predicted",
     .shapes = {list(kNotPredicted)},
     .doc = "Metrics that are measured and not predicted everywhere."},
};

}  // namespace

std::span<const Key> record_keys() { return kRecordKeys; }
std::span<const Key> measured_keys() { return kMeasuredKeys; }
std::span<const Key> accuracy_file_keys() { return kAccuracyFileKeys; }

}  // namespace memest
