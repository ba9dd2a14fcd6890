#include "cli/flags.hpp"

#include <algorithm>
#include <array>

namespace memest {
namespace {

constexpr std::array<FlagRow, 43> kFlags = {{
    {"--gpu", "NAME[,NAME]", "GPU types to consider, as `memest gpus` names them", kSpecFlags},
    {"--gpus", "N[,N]", "how many of them", kSpecFlags},
    {"--set", "KEY=VALUE", "overrides a key of the spec; may be repeated", kSpecFlags},
    {"--free", "KEY", "reads a key that plan chooses as if nobody wrote it; may be repeated",
     kSpecFlags},
    {"--text-only", "", "of a multimodal config its text model alone, without the towers",
     kConfigFlag},
    {"--to", "NAME", "accelerate, deepspeed, torchtitan or megatron: what the files are for",
     kExportFlags},
    {"--implementation", "NAME[,NAME]", "implementations to compare, where the spec names none",
     kPlanFlags},
    {"--objective", "NAME", "money, time, memory or gpus: what plans are ranked by", kPlanFlags},
    {"--tokens", "N", "tokens of the whole training, as 300B or 2T: days, GPU-hours, USD",
     kPlanFlags},
    {"--within", "TIME", "how long these tokens may take, as 14d or 36h", kPlanFlags},
    {"--front", "", "shows the plans that no other beats in money, time, memory and GPUs at once",
     kPlanFlags},
    {"--explain-choice", "", "shows what every other value of each setting would do to the first",
     kPlanFlags},
    {"--largest", "NAME", "micro-batch, sequence or model: how large a one fits", kPlanFlags},
    {"--threads", "N", "as many as the machine has without it; the answer is the same", kPlanFlags},
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
    {"--rank", "N", "of a pipeline, whose timeline it is; 0 is the first stage", kEventFlags},
    {"--data-rank", "N", "of those that share the states; without it the one that takes most",
     kEventFlags},
    {"--snapshot", "FILE", "writes a memory snapshot for pytorch.org/memory_viz", kEventFlags},
    {"--pack", "FILE", "packs all tensors into one arena, and writes the offset of each",
     kEventFlags},
    {"--reuse", "", "which operations may write into their input, and a pass's buffers shared",
     kEventFlags},
    {"--html", "FILE", "writes a page to explore, which needs no network", kEventFlags},
    {"--trace", "FILE", "writes a trace for ui.perfetto.dev or chrome://tracing", kEventFlags},
    {"--device", "NAME", "gpu or host: what is measured; gpu without it", kDeviceFlag},
    {"--quick", "", "measures for a minute at most instead of ten", kCalibrateFlags},
    {"--seconds", "N", "measures for that long at most", kCalibrateFlags},
    {"--from", "FILE", "samples measured elsewhere; may be repeated", kCalibrateFlags},
    {"--gpu", "NAME", "which GPU it is, where that is not known or files hold several",
     kCalibrateFlags | kDeviceFlag},
    {"--load", "NAME", "burst or sustained: what the samples were taken under", kCalibrateFlags},
    {"--rows", "all", "judges the laws by the samples that they are not fitted to",
     kCalibrateFlags},
    {"--dry-run", "", "prints what would be measured, or the samples that laws would be fitted to",
     kCalibrateFlags},
    {"--format", "NAME", "", kFormatFlags | kCheckFormats},
    {"--verbose", "", "or -v: writes formulas out that are longer than a line", kVerboseFlag},
    {"--output", "FILE", "writes the answer to FILE, whole or not at all", kNoFlags},
    {"--color", "WHEN", "auto, always or never; auto obeys NO_COLOR", kNoFlags},
    {"--quiet", "", "prints errors only; the exit code is the answer", kNoFlags},
    {"--help", "", "prints this page", kNoFlags},
}};

constexpr std::array<FormatName, 6> kFormats = {{
    {"text", Format::text, kFormatFlags | kCheckFormats},
    {"json", Format::json, kFormatFlags | kCheckFormats},
    {"markdown", Format::markdown, kFormatFlags | kCheckFormats},
    {"csv", Format::csv, kFormatFlags | kCheckFormats},
    {"github", Format::github, kCheckFormats},
    {"junit", Format::junit, kCheckFormats},
}};

}  // namespace

std::span<const FlagRow> flag_rows() { return kFlags; }

bool takes(const Command& command, const FlagRow& flag) {
  return flag.group == kNoFlags || (command.flags & flag.group) != 0;
}

std::vector<FormatName> formats_of(const Command& command) {
  std::vector<FormatName> result;
  std::copy_if(kFormats.begin(), kFormats.end(), std::back_inserter(result),
               [&](const FormatName& row) { return (command.flags & row.group) != 0; });
  return result;
}

}  // namespace memest
