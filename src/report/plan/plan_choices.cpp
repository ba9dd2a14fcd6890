#include "report/plan/plan_choices.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "memest/diag/expect.hpp"
#include "memest/report/numbers.hpp"
#include "memest/spec/framework.hpp"
#include "report/plan/plan_layout.hpp"

namespace memest {
namespace {

constexpr std::string_view kPrecision = "training.precision=";

constexpr std::string_view kCompiledBlocks =
    "torch.compile of every layer: equal shapes, a first step of minutes";

/// "amp-bf16"; empty where the spec's own stays.
std::string precision_of(const ImplementationChoice& choice) {
  for (const std::string& setting : choice.settings) {
    if (setting.starts_with(kPrecision)) return setting.substr(kPrecision.size());
  }
  return {};
}

std::string asks_of(const ImplementationChoice& choice) {
  std::string text(row_of(choice.framework).asks);
  if (choice.compile == CompileScope::blocks) text += fmt::format("; {}", kCompiledBlocks);
  if (const std::string own = precision_of(choice); !own.empty()) text += "; precision " + own;
  return text;
}

/// Requirements of each framework, once.
Table asked_by(const PlanView& view) {
  Table table{{{"implementation"}, {"asks for"}}, {}};
  bool compiles = false;
  std::vector<Framework> listed;
  for (const ComparedChoice& compared : view.compared) {
    const ImplementationChoice& choice = view.choices[compared.choice];
    compiles = compiles || choice.compile == CompileScope::blocks;
    if (std::ranges::find(listed, choice.framework) != listed.end()) continue;
    listed.push_back(choice.framework);
    table.rows.push_back(
        {{std::string(name_of(choice.framework)), std::string(row_of(choice.framework).asks)},
         "",
         Tone::plain});
  }
  if (compiles)
    table.rows.push_back({{"compiled blocks", std::string(kCompiledBlocks)}, "", Tone::plain});
  return table;
}

double tokens_per_second(const PlanVerdict& verdict) {
  const auto* time = std::get_if<TimeEstimate>(&verdict.time);
  return time == nullptr
             ? 0
             : time->tokens_per_second_per_gpu * static_cast<double>(verdict.candidate.gpus);
}

std::string why_not(const ComparedChoice& compared) {
  if (const auto* reason = std::get_if<Unavailable>(&compared.plan)) return reason->sentence;
  return std::get<PlanVerdict>(compared.plan).reason;
}

Row row_of(const ComparedChoice& compared, const PlanView& view, bool first) {
  const ImplementationChoice& choice = view.choices[compared.choice];
  const auto* plan = std::get_if<PlanVerdict>(&compared.plan);
  if (plan == nullptr || plan->verdict == Verdict::does_not_fit || !plan->reason.empty()) {
    return {{name_of(choice), why_not(compared)}, "✗", Tone::bad};
  }
  const PlanCandidate& candidate = plan->candidate;
  return {{name_of(choice), std::to_string(candidate.micro_batch), text_of(candidate.recompute),
           layout_text(candidate.parallelism), gib_text(plan->high),
           cell(plan->time, [](const TimeEstimate& time) { return seconds_text(time.step); }),
           cell(plan->cost,
                [](const CostEstimate& cost) {
                  return significant_text(cost.per_billion_tokens.value());
                }),
           choice.job->training->recipe.name},
          first ? "▸" : "",
          first ? Tone::good : Tone::plain};
}

}  // namespace

std::string short_name_of(const ImplementationChoice& choice) {
  return std::string(name_of(choice.framework)) +
         (choice.compile == CompileScope::blocks ? "+c" : "");
}

std::string flags_of(const ImplementationChoice& choice) {
  std::string flags;
  for (const std::string& setting : choice.settings) {
    // A shell splits at spaces and expands braces.
    const bool plain = setting.find_first_of(" {}") == std::string::npos;
    flags += plain ? fmt::format(" --set {}", setting) : fmt::format(" --set '{}'", setting);
  }
  return flags;
}

void add_choices(Page& page, const PlanView& view) {
  const PlanVerdict* any = nullptr;
  for (const ComparedChoice& compared : view.compared) {
    if (const auto* plan = std::get_if<PlanVerdict>(&compared.plan)) any = plan;
  }
  if (any == nullptr) return;
  page.parts.emplace_back(Heading{
      fmt::format("Implementations on {} × {}", any->candidate.gpus, any->candidate.gpu->slug)});
  Table table{{{"implementation"},
               {"micro", Align::right},
               {"recompute"},
               {.title = "layout", .fold = Fold::whole},
               {"at most", Align::right},
               {"step", Align::right},
               {"USD/B tok", Align::right},
               {"precision"}},
              {}};
  for (const ComparedChoice& compared : view.compared) {
    table.rows.push_back(row_of(compared, view, compared.choice == view.winner));
  }
  page.parts.emplace_back(std::move(table));
  page.parts.emplace_back(asked_by(view));
}

/// Adds, for each other value of one setting, the change to the choice.
void add_alternatives(Page& page, const PlanAnswer& answer, const PlanView& view) {
  if (view.alternatives.empty() || answer.best.empty()) return;
  page.parts.emplace_back(Heading{"Why this choice: one setting changed, the others best"});
  Table table{{{"instead"},
               {"micro", Align::right},
               {"recompute"},
               {"layout"},
               {"at most", Align::right},
               {"step", Align::right},
               {"and so"}},
              {}};
  const double chosen = tokens_per_second(answer.best.front());
  for (const Alternative& other : view.alternatives) {
    const PlanCandidate& candidate = other.verdict.candidate;
    const bool fits = other.verdict.verdict == Verdict::fits;
    const double slower = chosen / tokens_per_second(other.verdict);
    table.rows.push_back(
        {{other.name, std::to_string(candidate.micro_batch), text_of(candidate.recompute),
          layout_text(candidate.parallelism), gib_text(other.verdict.high),
          cell(other.verdict.time,
               [](const TimeEstimate& time) { return seconds_text(time.step); }),
          fits ? fmt::format("{} × the time", significant_text(slower)) : other.verdict.reason},
         fits ? "" : "✗",
         fits ? Tone::plain : Tone::bad});
  }
  page.parts.emplace_back(std::move(table));
}

Json choices_json(const PlanView& view, Json (*candidate)(const PlanVerdict&)) {
  Json json = Json::array();
  for (const ComparedChoice& compared : view.compared) {
    const ImplementationChoice& choice = view.choices[compared.choice];
    Json entry{{"name", name_of(choice)},
               {"framework", name_of(choice.framework)},
               {"compile", name_of(choice.compile)},
               {"settings", choice.settings},
               {"asks", asks_of(choice)}};
    put(entry, "plan", compared.plan, candidate);
    json.push_back(std::move(entry));
  }
  return json;
}

}  // namespace memest
