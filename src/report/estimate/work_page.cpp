// An estimate's FLOPs, time and money.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "memest/report/numbers.hpp"
#include "memest/units/text.hpp"
#include "report/estimate/estimate_sections.hpp"
#include "report/pages/coverage.hpp"

namespace memest {
namespace {

constexpr std::size_t kShownOps = 3;

Row flops_row(std::string name, Flops flops, std::string meaning) {
  return {{std::move(name), flops_text(flops), grouped(flops.value()), std::move(meaning)}, "", {}};
}

Table op_table(const TimeEstimate& time) {
  Table table{{{"most expensive operation"},
               {"seconds", Align::right},
               {"of the step", Align::right},
               {"bound by"},
               {"FLOP/B", Align::right}},
              {}};
  const std::size_t shown = std::min(kShownOps, time.ops.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const OpTime& op = time.ops[i];
    table.rows.push_back({{fmt::format("{} {}", op.block, op.op), seconds_text(op.seconds),
                           percent_text(op.seconds / time.step), std::string(name_of(op.bound)),
                           significant_text(op.intensity)},
                          "",
                          {}});
  }
  return table;
}

Table class_table(const TimeEstimate& time) {
  Table table{{{"time by class"}, {"seconds", Align::right}, {"of the step", Align::right}}, {}};
  for (const TimePart<OpClass>& part : time.by_class()) {
    table.rows.push_back({{std::string(name_of(part.kind)), seconds_text(part.seconds),
                           percent_text(part.seconds / time.step)},
                          "",
                          {}});
  }
  return table;
}

/// "public 81 %, datasheet 19 %".
std::string origins_text(const TimeEstimate& time) {
  std::string text;
  for (const TimePart<LawOrigin>& part : time.by_origin()) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", text_of(part.kind),
                        percent_text(part.seconds / time.step));
  }
  return text;
}

/// Adds the times of a pipeline's stages, and the wait for them.
void add_pipeline(Page& page, const TimeEstimate& time) {
  if (time.stages.empty()) return;
  Table table{{{"pipeline rank"}, {"forward", Align::right}, {"backward", Align::right}}, {}};
  for (const StageTime& stage : time.stages) {
    table.rows.push_back(
        {{std::to_string(stage.rank), seconds_text(stage.forward), seconds_text(stage.backward)},
         "",
         {}});
  }
  page.parts.emplace_back(
      Paragraph{fmt::format("The busiest rank waits {} ({}) for the others. One micro-step:",
                            seconds_text(time.bubble), percent_text(time.bubble / time.step)),
                Tone::plain});
  page.parts.emplace_back(std::move(table));
}

/// "8 workers make 2,000 samples/s for a GPU, whose step asks for 3,100: ..."
std::string loading_text(const InputPipeline& pipeline) {
  const std::int64_t workers = pipeline.loading.workers;
  std::string text = workers == 0 ? "Its data loader has no workers: the rank's own process makes"
                     : workers == 1
                         ? "Its data loader's worker makes"
                         : fmt::format("Its data loader's {} workers make", grouped(workers));
  text += fmt::format(" {} samples/s for a GPU whose step asks for {}.",
                      significant_text(pipeline.supply), significant_text(pipeline.demand));
  if (pipeline.wait > Seconds()) {
    text += fmt::format(" The GPU waits {} a step and is at work {} of the time.",
                        seconds_text(pipeline.wait), percent_text(pipeline.utilisation));
  } else {
    text += " The GPU never waits.";
  }
  if (!pipeline.enough) {
    return text + fmt::format(" {} workers would not be enough.", grouped(kMostWorkers));
  }
  return text + fmt::format(" {} {} enough.", grouped(*pipeline.enough),
                            *pipeline.enough == 1 ? "worker is" : "workers are");
}

std::string interval_text(const TimeEstimate& time) {
  if (time.published.runs == 0) return "The interval is that of its kernels, unchecked";
  return "The interval: " + coverage_text(time.published, "steps");
}

}  // namespace

void add_flops(Page& page, const Job& job, const FlopsEstimate& flops) {
  // Two thirds of training's FLOPs are the backward's.
  const int passes = job.inference ? 1 : 3;
  page.parts.emplace_back(Heading{"FLOPs of one GPU and step"});
  Table table{{{"count"}, {"", Align::right}, {"FLOPs", Align::right}, {"what it counts"}}, {}};
  table.rows = {
      flops_row("forward", flops.forward, "as torch's FlopCounterMode counts"),
      flops_row("backward", flops.backward, "the same, recompute included"),
      flops_row("executed", flops.executed(), "forward + backward"),
      flops_row("computed", flops.computed,
                "of these half of causal attention; over the peak: HFU"),
      flops_row("required", flops.required, "the same, nothing made again; over the peak: MFU"),
      flops_row("model", flops.model, fmt::format("{} · active parameters · tokens", 2 * passes)),
      // PaLM's appendix B: scores and their product with the values take 2·a·d·s each, a layer,
      // token and pass.
      flops_row("palm", flops.palm, fmt::format("model + {} · L · a · d · s a token", 4 * passes)),
      flops_row("megatron", flops.megatron, "matmuls, causal attention halved"),
  };
  page.parts.emplace_back(std::move(table));
}

void add_time(Page& page, const TimeEstimate& time) {
  page.parts.emplace_back(Heading{"Time"});
  page.parts.emplace_back(
      Paragraph{fmt::format("{} a step ({} to {}), {} tokens/s a GPU, MFU {}, HFU {}.",
                            seconds_text(time.step), seconds_text(time.low),
                            seconds_text(time.high), count_text(time.tokens_per_second_per_gpu),
                            percent_text(time.mfu), percent_text(time.hfu)),
                Tone::strong});
  page.parts.emplace_back(op_table(time));
  page.parts.emplace_back(class_table(time));
  add_pipeline(page, time);
  if (time.loading) {
    page.parts.emplace_back(Paragraph{loading_text(*time.loading), time.loading->wait > Seconds()
                                                                       ? Tone::uncertain
                                                                       : Tone::plain});
  }
  std::string text = fmt::format(
      "Compute and memory bind alike at {} FLOP/B. How kernels' times are "
      "known: {}. A step: {}. ",
      significant_text(time.ridge_point), origins_text(time), std::string(time.rule));
  text += interval_text(time) + " (docs/calibration.md).";
  page.parts.emplace_back(Paragraph{std::move(text), Tone::plain});
}

void add_time(Page& page, const InferenceTime& time) {
  page.parts.emplace_back(Heading{"Time"});
  page.parts.emplace_back(
      Paragraph{fmt::format("{} in all ({} to {}), {} tokens/s.", seconds_text(time.whole),
                            seconds_text(time.low), seconds_text(time.high),
                            significant_text(time.tokens_per_second)),
                Tone::strong});
  Table table{{{"pass"},
               {"time", Align::right},
               {"from", Align::right},
               {"to", Align::right},
               {"kernels", Align::right},
               {"launched", Align::right},
               {"host", Align::right},
               {"bound by"}},
              {}};
  const auto add = [&table](const char* name, const std::optional<ForwardTime>& pass) {
    if (!pass) return;
    table.rows.push_back(
        {{name, seconds_text(pass->expected), seconds_text(pass->low), seconds_text(pass->high),
          seconds_text(pass->kernels), grouped(pass->launched), seconds_text(pass->host),
          std::string(name_of(pass->bound))},
         "",
         {}});
  };
  add("prefill", time.prefill);
  add("first token behind it", time.first_token);
  add("last token", time.last_token);
  page.parts.emplace_back(std::move(table));
  page.parts.emplace_back(
      Paragraph{fmt::format("How kernels' times are known: {}. Here {}. The host's rate: {} "
                            "(docs/generation.md).",
                            text_of(time.origin), time.rule, time.host_source),
                Tone::plain});
}

void add_cost(Page& page, const Job& job, const CostEstimate& cost) {
  page.parts.emplace_back(Heading{"Money, all GPUs together"});
  const char* const run = job.inference ? "call" : "step";
  page.parts.emplace_back(
      Paragraph{fmt::format("{} an hour, {} a {}, {} per billion tokens ({}).",
                            dollars_text(cost.per_hour), dollars_text(cost.per_step), run,
                            dollars_text(cost.per_billion_tokens), cost.source),
                Tone::plain});
}

void add_unavailable(Page& page, const std::string& heading, const Unavailable& unavailable) {
  page.parts.emplace_back(Heading{heading});
  page.parts.emplace_back(Paragraph{"Not available: " + unavailable.sentence, Tone::plain});
}

}  // namespace memest
