#include "cli/flags.hpp"

#include <algorithm>
#include <array>

#include "cli/choices.hpp"
#include "cli/shells/shells.hpp"
#include "memest/diag/expect.hpp"
#include "memest/reader/catalog.hpp"
#include "memest/reader/export.hpp"
#include "memest/reader/schema.hpp"
#include "memest/spec/framework.hpp"

namespace memest {
namespace {

template <const auto& kAll>
std::vector<std::string> names_of_all() {
  return choice_names(kAll);
}

std::vector<std::string> gpu_names() {
  std::vector<std::string> names;
  for (const GpuSpec& gpu : all_gpus()) names.push_back(gpu.slug);
  return names;
}

std::vector<std::string> framework_names() {
  std::vector<std::string> names;
  for (const Framework framework : frameworks()) names.emplace_back(name_of(framework));
  return names;
}

std::vector<std::string> settings() {
  std::vector<std::string> settings = dotted_keys();
  for (std::string& key : settings) key += '=';
  return settings;
}

std::vector<std::string> all_rows() { return {std::string(kAllRows)}; }

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const std::string_view name : export_targets()) names.emplace_back(name);
  return names;
}

std::vector<std::string> command_names() {
  std::vector<std::string> names;
  for (const Command& command : commands()) names.emplace_back(command.name);
  return names;
}

constexpr auto kFlags = std::to_array<FlagRow>({
    {"--gpu", "NAME[,NAME]", "GPU types to consider, as `memest gpus` names them", kSpecFlags,
     gpu_names},
    {"--gpus", "N[,N]", "how many of them", kSpecFlags},
    {"--set", "KEY=VALUE", "overrides a key of the spec; may be repeated", kSpecFlags, settings},
    {"--free", "KEY", "reads a key that plan chooses as if nobody wrote it; may be repeated",
     kSpecFlags, searched_keys},
    {"--text-only", "", "of a multimodal config its text model alone, without the towers",
     kConfigFlag},
    {"--to", "NAME", "accelerate, deepspeed, torchtitan or megatron: what the files are for",
     kExportFlags, target_names},
    {"--implementation", "NAME[,NAME]", "implementations to compare, where the spec names none",
     kPlanFlags, framework_names},
    {"--objective", "NAME", "money, time, memory or gpus: what plans are ranked by", kPlanFlags,
     names_of_all<kObjectives>, Listed::all},
    {"--tokens", "N", "tokens of the whole training, as 300B or 2T: days, GPU-hours, USD",
     kPlanFlags},
    {"--within", "TIME", "how long these tokens may take, as 14d or 36h", kPlanFlags},
    {"--front", "", "shows the plans that no other beats in money, time, memory and GPUs at once",
     kPlanFlags},
    {"--explain-choice", "", "shows what every other value of each setting would do to the first",
     kPlanFlags},
    {"--largest", "NAME", "micro-batch, sequence or model: how large a one fits", kPlanFlags,
     names_of_all<kGrowths>, Listed::all},
    {"--lock", "FILE", "what each spec needed; memest.lock without it, where there is one",
     kLockFlags},
    {"--update", "", "writes the lock with what each spec needs now", kLockFlags},
    {"--threads", "N", "as many as the machine has without it; the answer is the same",
     kPlanFlags | kLockFlags},
    {"--memory", "SIZE", "what the allocator may reserve, as 24GiB; the GPU's without it",
     kMemoryFlag},
    {"--host-memory", "SIZE", "what the host of a node has, as 64GiB", kFitFlags},
    {"--actions", "FILE", "writes the actions of the fastest schedule within the memory",
     kActionsFlag},
    {"--lines", "FILE", "lines that the errors are held to, and known misses", kRecordFlags},
    {"--plot", "FILE", "writes the drawing of the answer as SVG", kPlotFlag},
    {"--residuals", "FILE", "writes the quantiles that intervals are made of", kRecordFlags},
    {"--against", "FILE", "what was recorded or measured, to compare with", kAgainstFlags},
    {"--csv", "FILE", "writes every event or sample as a table, a row each", kAgainstFlags},
    {"--rank", "N", "of a pipeline, whose timeline it is; 0 is the first stage", kRankFlags},
    {"--data-rank", "N", "of those that share the states; without it the one that takes most",
     kRankFlags},
    {"--snapshot", "FILE", "writes a memory snapshot for pytorch.org/memory_viz", kEventFlags},
    {"--pack", "FILE", "packs all tensors into one arena, and writes the offset of each",
     kEventFlags},
    {"--reuse", "", "which operations may write into their input, and a pass's buffers shared",
     kEventFlags},
    {"--html", "FILE", "writes the page of --format html beside the answer", kEventFlags},
    {"--trace", "FILE", "writes a trace for ui.perfetto.dev or chrome://tracing", kEventFlags},
    {"--device", "NAME", "gpu or host: what is measured; gpu without it", kDeviceFlag,
     names_of_all<kDeviceKinds>, Listed::all},
    {"--quick", "", "measures for a minute at most instead of ten", kCalibrateFlags},
    {"--seconds", "N", "measures for that long at most", kCalibrateFlags},
    {"--from", "FILE", "samples measured elsewhere; may be repeated", kCalibrateFlags},
    {"--gpu", "NAME", "which GPU it is, where that is not known or files hold several",
     kCalibrateFlags | kDeviceFlag, gpu_names},
    {"--load", "NAME", "burst or sustained: what the samples were taken under", kCalibrateFlags,
     names_of_all<kLoads>, Listed::all},
    {"--rows", "all", "judges the laws by the samples that they are not fitted to", kCalibrateFlags,
     all_rows, Listed::all},
    {"--dry-run", "", "prints what would be measured, or the samples that laws would be fitted to",
     kCalibrateFlags},
    {"--gpu", "NAME", "the GPU type that stands there; h100-sxm-80gb without it", kRunFlags,
     gpu_names},
    {"--memory", "SIZE", "what the device has, as 80GiB; the GPU's without it", kRunFlags},
    {"--memory", "SIZE", "plays the requests on a device of SIZE, as 24GiB", kPlayFlags},
    {"--gpu", "NAME[,NAME]",
     "plays them on these GPU types, and gives a recorded step its time there", kPlayFlags,
     gpu_names},
    {"--conf", "TEXT", "plays them under this PYTORCH_ALLOC_CONF: expandable_segments:True",
     kPlayFlags},
    {"--at", "NAME=N", "of a recording with formulas, the size to play; one for each name",
     kAtFlag},
    {"--largest", "NAME", "of a recording with formulas, the largest value that fits", kPlayFlags},
    {"--vary", "NAME=N,N,N",
     "records at these values, which stand for {NAME} in PROGRAM, and writes sizes as formulas; "
     "may "
     "be repeated",
     kRunFlags},
    {"--gpus", "N", "how many the machine has; 1 without it", kRunFlags},
    {"--world", "N", "ranks of which the program is to be one", kRunFlags},
    {"--rank", "R", "which of them; 0 without it", kRunFlags},
    {"--steps", "K", "ends the program behind so many optimizer steps", kRunFlags},
    {"--strict", "", "ends the program where it reads a value back from the device", kRunFlags},
    {"--masks-keep-all", "",
     "takes each element of a mask as kept that shapes what follows (x[mask], nonzero); none "
     "without it",
     kRunFlags},
    {"--output", "FILE",
     "or -o: writes the recording to FILE, RUN.memrec; of several processes "
     "RUN.1.memrec, ... beside it",
     kRunFlags},
    {"--force", "", "records on a machine that has a GPU, which the program would not find",
     kRunFlags},
    {"--format", "NAME", "", kFormatFlags | kCheckFormats},
    {"--verbose", "",
     "or -v: leaves out nothing: formulas longer than a line, numbers that are equal",
     kVerboseFlag},
    {"--output", "FILE", "writes the answer to FILE, whole or not at all", kNoFlags},
    {"--force", "", "replaces the file that --output names, where there is one", kForceFlag},
    {"--color", "WHEN", "auto, always or never; auto obeys NO_COLOR", kNoFlags,
     names_of_all<kColorTimes>, Listed::all},
    {"--quiet", "", "prints errors only; the exit code is the answer", kNoFlags},
    {"--help", "", "prints this page", kNoFlags},
});

constexpr auto kFormats = std::to_array<FormatName>({
    {"text", Format::text, kFormatFlags | kCheckFormats},
    {"json", Format::json, kFormatFlags | kCheckFormats},
    {"markdown", Format::markdown, kFormatFlags | kCheckFormats},
    {"csv", Format::csv, kFormatFlags | kCheckFormats},
    {"html", Format::html, kHtmlFormat},
    {"github", Format::github, kCheckFormats},
    {"junit", Format::junit, kCheckFormats},
    {"sarif", Format::sarif, kCheckFormats},
    {"gitlab", Format::gitlab, kCheckFormats},
});

/// Every placeholder of a usage line. NAME is a GPU of the catalog.
constexpr auto kPlaceholders = std::to_array<Placeholder>({
    {.name = "SPEC", .is_file = true, .words = model_names},
    {.name = "PROFILE", .is_file = true, .words = gpu_names},
    {.name = "NAME", .words = gpu_names},
    {.name = "TERM"},
    {.name = "SHELL", .words = shell_names},
    {.name = "COMMAND", .words = command_names},
    {.name = "ANSWER", .words = answer_names},
});

Placeholder placeholder_named(std::string_view name) {
  const auto* const row = std::ranges::find(kPlaceholders, name, &Placeholder::name);
  return row == kPlaceholders.end() ? Placeholder{.name = name, .is_file = true} : *row;
}

}  // namespace

std::string_view name_of(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::gpu:
      return "gpu";
    case DeviceKind::host:
      return "host";
  }
  unreachable("a device kind beyond the enum");
}

std::string_view name_of(ColorWhen when) {
  switch (when) {
    case ColorWhen::automatic:
      return "auto";
    case ColorWhen::always:
      return "always";
    case ColorWhen::never:
      return "never";
  }
  unreachable("a time for color beyond the enum");
}

std::span<const FlagRow> flag_rows() { return kFlags; }

bool takes(const Command& command, const FlagRow& flag) {
  if (flag.group != kNoFlags) return (command.flags & flag.group) != 0;
  // A flag of every command may mean another thing in some.
  return std::ranges::none_of(kFlags, [&](const FlagRow& row) {
    return row.name == flag.name && (command.flags & row.group) != 0;
  });
}

std::vector<std::string> flag_words(const Command& command, const FlagRow& flag) {
  if (flag.words != nullptr) return flag.words();
  std::vector<std::string> words;
  if (flag.name != "--format") return words;
  for (const FormatName& row : formats_of(command)) words.emplace_back(row.name);
  return words;
}

std::string joined_by(std::string_view separator, const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text.append(text.empty() ? "" : separator).append(word);
  return text;
}

std::vector<Placeholder> placeholders_of(const Command& command) {
  constexpr std::string_view kMore = "...";
  std::vector<Placeholder> placeholders;
  std::string_view rest = command.words;
  while (!rest.empty()) {
    std::string_view word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    if (word.starts_with('[')) word = word.substr(1, word.size() - 2);
    const bool repeats = word.ends_with(kMore);
    if (repeats) word.remove_suffix(kMore.size());
    placeholders.push_back(placeholder_named(word));
    placeholders.back().repeats = repeats;
  }
  return placeholders;
}

std::vector<FormatName> formats_of(const Command& command) {
  std::vector<FormatName> result;
  std::copy_if(kFormats.begin(), kFormats.end(), std::back_inserter(result),
               [&](const FormatName& row) { return (command.flags & row.group) != 0; });
  return result;
}

}  // namespace memest
