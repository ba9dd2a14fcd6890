#include "report/record/played_fit.hpp"

#include "memest/plan/recorded_needs.hpp"
#include "report/record/reads_text.hpp"

namespace memest {

std::optional<bool> fits(const PlayedRun& run) {
  if (run.played.failed) return false;
  return run.whole ? std::optional(true) : std::nullopt;
}

std::string fit_marker(const PlayedRun& run) {
  const auto fitting = fits(run);
  if (!fitting) return "?";
  return *fitting ? "✓" : "✗";
}

Tone fit_tone(const PlayedRun& run) {
  const auto fitting = fits(run);
  if (!fitting) return Tone::uncertain;
  return *fitting ? Tone::plain : Tone::bad;
}

std::string fit_word(const PlayedRun& run) {
  const auto fitting = fits(run);
  if (!fitting) return "";
  return *fitting ? "yes" : "no";
}

void put_fits(const PlayedRun& run, Json& json) {
  if (const auto fitting = fits(run)) {
    json["fits"] = *fitting;
  } else {
    put_null(json, "fits", kEndUnknown);
  }
}

std::vector<Part> recorded_caveats(const PlayedRun& run) {
  std::vector<Part> parts;
  if (!fits(run)) {
    parts.emplace_back(Paragraph{"Whether it fits is not known: " + std::string(kEndUnknown) +
                                     ". memest record --memory 1TiB records what all of it needs.",
                                 Tone::bad});
  }
  if (!run.rank.empty()) {
    parts.emplace_back(
        Paragraph{"It is rank " + run.rank + ": its GPU is one of as many.", Tone::faint});
  }
  if (run.masks_keep_all) parts.emplace_back(Paragraph{kMasksText, Tone::faint});
  if (const std::string assumed = assumptions_text(run.reads); !assumed.empty()) {
    parts.emplace_back(Paragraph{assumed, Tone::faint});
  }
  return parts;
}

}  // namespace memest
