#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <string>

#include "cli/choices.hpp"
#include "cli/flags.hpp"
#include "memest/units/text.hpp"

namespace memest {
namespace {

/// The flags as CLI11 delivers them, before their words mean anything.
struct RawArguments {
  Arguments arguments;
  std::vector<std::string> counts;
  std::string format;
  std::string color;
  std::string load;
  std::string rows;
  std::string device;
  std::string seconds;
  std::string objective;
  std::string largest;
  std::string tokens;
  std::string within;
  std::string threads;
  std::string devices;
  std::string world;
  std::string rank;
  std::string steps;
};

void bind_events(CLI::App& app, const Command& command, Arguments& arguments) {
  if ((command.flags & kRankFlags) != 0) {
    app.add_option("--rank", arguments.rank);
    app.add_option("--data-rank", arguments.data_rank);
  }
  if ((command.flags & kEventFlags) != 0) {
    app.add_option("--snapshot", arguments.snapshot);
    app.add_option("--pack", arguments.pack);
    app.add_flag("--reuse", arguments.reuse);
    app.add_option("--html", arguments.html);
    app.add_option("--trace", arguments.trace);
  }
}

/// The flags of a search among plans, and of many specs that are held to a lock.
void bind_choices(CLI::App& app, const Command& command, RawArguments& raw) {
  Arguments& arguments = raw.arguments;
  if ((command.flags & kPlanFlags) != 0) {
    app.add_option("--objective", raw.objective);
    app.add_option("--implementation", arguments.implementations)
        ->delimiter(',')
        ->allow_extra_args(false);
    app.add_option("--tokens", raw.tokens);
    app.add_option("--within", raw.within);
    app.add_flag("--front", arguments.front);
    app.add_flag("--explain-choice", arguments.explain_choice);
    app.add_option("--largest", raw.largest);
  }
  if ((command.flags & kLockFlags) != 0) {
    app.add_option("--lock", arguments.lock);
    app.add_flag("--update", arguments.update);
  }
  if ((command.flags & (kPlanFlags | kLockFlags)) != 0) app.add_option("--threads", raw.threads);
}

/// How another program is run, whose own words stand behind --.
void bind_run(CLI::App& app, const Command& command, RawArguments& raw) {
  if ((command.flags & kRunFlags) == 0) return;
  app.add_option("--gpu", raw.arguments.gpu);
  app.add_option("--memory", raw.arguments.memory);
  app.add_option("--vary", raw.arguments.varied)->allow_extra_args(false);
  app.add_option("--gpus", raw.devices);
  app.add_option("--world", raw.world);
  app.add_option("--rank", raw.rank);
  app.add_option("--steps", raw.steps);
  app.add_flag("--strict", raw.arguments.strict);
  app.add_flag("--masks-keep-all", raw.arguments.masks_keep_all);
  app.add_flag("--force", raw.arguments.force);
}

void bind(CLI::App& app, const Command& command, RawArguments& raw) {
  Arguments& arguments = raw.arguments;
  app.add_option("words", arguments.words);
  app.add_flag("--quiet", arguments.quiet);
  app.add_flag("--help,-h", arguments.help);
  if ((command.flags & kVerboseFlag) != 0) app.add_flag("--verbose,-v", arguments.verbose);
  app.add_option("--output,-o", arguments.output);
  app.add_option("--color", raw.color);
  if ((command.flags & kSpecFlags) != 0) {
    // CLI11 lets an option that may be repeated take every word behind it, the spec's too.
    app.add_option("--gpu", arguments.gpus)->delimiter(',')->allow_extra_args(false);
    app.add_option("--gpus", raw.counts)->delimiter(',')->allow_extra_args(false);
    app.add_option("--set", arguments.overrides)->allow_extra_args(false);
    app.add_option("--free", arguments.freed)->allow_extra_args(false);
  }
  if ((command.flags & kExportFlags) != 0) app.add_option("--to", arguments.to);
  if ((command.flags & kConfigFlag) != 0) app.add_flag("--text-only", arguments.text_only);
  bind_choices(app, command, raw);
  if ((command.flags & kRecordFlags) != 0) {
    app.add_option("--lines", arguments.lines);
    app.add_option("--residuals", arguments.residuals);
  }
  if ((command.flags & kPlotFlag) != 0) app.add_option("--plot", arguments.plot);
  if ((command.flags & kAgainstFlags) != 0) {
    app.add_option("--against", arguments.against);
    app.add_option("--csv", arguments.csv);
  }
  if ((command.flags & kCalibrateFlags) != 0) {
    app.add_option("--from", arguments.from)->allow_extra_args(false);
    app.add_flag("--quick", arguments.quick);
    app.add_option("--seconds", raw.seconds);
    app.add_option("--load", raw.load);
    app.add_option("--rows", raw.rows);
    app.add_flag("--dry-run", arguments.dry_run);
  }
  if ((command.flags & kDeviceFlag) != 0) {
    app.add_option("--device", raw.device);
    app.add_option("--gpu", arguments.gpu);
  }
  if ((command.flags & kMemoryFlag) != 0) app.add_option("--memory", arguments.memory);
  if ((command.flags & kPlayFlags) != 0) {
    app.add_option("--memory", arguments.memory);
    app.add_option("--conf", arguments.conf);
    app.add_option("--gpu", arguments.gpus)->delimiter(',')->allow_extra_args(false);
    app.add_option("--largest", arguments.largest_size);
  }
  if ((command.flags & kAtFlag) != 0) {
    app.add_option("--at", arguments.at)->allow_extra_args(false);
  }
  if ((command.flags & kFitFlags) != 0) app.add_option("--host-memory", arguments.host_memory);
  if ((command.flags & kForceFlag) != 0) app.add_flag("--force", arguments.force);
  if ((command.flags & kActionsFlag) != 0) app.add_option("--actions", arguments.actions);
  bind_events(app, command, arguments);
  bind_run(app, command, raw);
  if (!formats_of(command).empty()) app.add_option("--format", raw.format);
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& known,
                         std::string otherwise) {
  const std::string nearest = nearest_name(word, known);
  return nearest.empty() ? std::move(otherwise) : "did you mean '" + nearest + "'?";
}

std::string help_hint(const Command& command) {
  return "see memest " + std::string(command.name) + " --help";
}

void read_format(const Command& command, RawArguments& raw, Diagnostics& errors) {
  if (raw.format.empty()) return;
  std::vector<std::string> known;
  for (const FormatName& row : formats_of(command)) {
    known.emplace_back(row.name);
    if (row.name == raw.format) {
      raw.arguments.format = row.format;
      return;
    }
  }
  errors.push_back(
      mistake("memest " + std::string(command.name) + " has no format '" + raw.format + "'",
              did_you_mean(raw.format, known, "one of " + joined_by(", ", known))));
}

/// "money, time, memory or gpus".
std::string either(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

/// Refuses what is not in a flag's list of words, where the list has all of them.
void refuse_other_words(const CLI::App& app, const Command& command, Diagnostics& errors) {
  for (const FlagRow& flag : flag_rows()) {
    if (flag.listed != Listed::all || !takes(command, flag)) continue;
    const std::string name(flag.name);
    const std::vector<std::string> words = flag_words(command, flag);
    for (const std::string& word : app.get_option(name)->results()) {
      if (std::ranges::find(words, word) != words.end()) continue;
      errors.push_back(mistake(name + " is " + either(words) + ", not '" + word + "'",
                               did_you_mean(word, words, "")));
    }
  }
}

/// Reads the flags whose words refuse_other_words() has looked at.
void read_choices_of_words(RawArguments& raw) {
  Arguments& arguments = raw.arguments;
  arguments.color = named(raw.color, kColorTimes).value_or(ColorWhen::automatic);
  arguments.load = named(raw.load, kLoads).value_or(Load::burst);
  arguments.device = named(raw.device, kDeviceKinds).value_or(DeviceKind::gpu);
  arguments.device_chosen = !raw.device.empty();
  arguments.all_rows = raw.rows == kAllRows;
  arguments.objective = named(raw.objective, kObjectives).value_or(Objective::money);
  arguments.largest = named(raw.largest, kGrowths);
}

/// A whole number from 1 to `most`.
std::optional<std::int64_t> count_of(const std::string& word, std::int64_t most) {
  std::int64_t count = 0;
  const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), count);
  // from_chars stops at the first sign that is no digit: "8x" would be 8.
  const bool whole = status == std::errc{} && end == word.data() + word.size();
  if (whole && count >= 1 && count <= most) return count;
  return std::nullopt;
}

/// Reads what to measure and for how long; files of samples take no time and no device.
void read_measurement(RawArguments& raw, Diagnostics& errors) {
  constexpr std::int64_t kMostSeconds = 86'400;
  Arguments& arguments = raw.arguments;
  if (!raw.seconds.empty()) {
    arguments.seconds = count_of(raw.seconds, kMostSeconds);
    if (!arguments.seconds) {
      errors.push_back(
          mistake("--seconds takes a count from 1 to 86,400, not '" + raw.seconds + "'", ""));
    }
  }
  if (arguments.device == DeviceKind::host && !arguments.gpu.empty()) {
    errors.push_back(mistake("--device host is no GPU: --gpu has no use for it", ""));
  }
  const bool of_files = !raw.load.empty() || !raw.rows.empty();
  const bool of_devices = arguments.device_chosen || arguments.quick || arguments.seconds;
  if (arguments.from.empty() && of_files) {
    errors.push_back(
        mistake("--load and --rows are about samples from elsewhere", "--from FILE names them"));
  } else if (!arguments.from.empty() && of_devices) {
    errors.push_back(mistake("--device, --quick and --seconds measure; --from does not", ""));
  }
}

void read_counts(RawArguments& raw, Diagnostics& errors) {
  constexpr std::int64_t kMost = 1'000'000;  // more GPUs than any machine has
  for (const std::string& word : raw.counts) {
    if (const auto count = count_of(word, kMost)) {
      raw.arguments.counts.push_back(*count);
    } else {
      errors.push_back(
          mistake("--gpus takes counts from 1 to 1,000,000, not '" + word + "'",
                  "GPU types are chosen with --gpu, as in --gpu h100-sxm-80gb --gpus 8"));
    }
  }
}

/// Reads a search's flags: what it is for, and by when.
void read_search(RawArguments& raw, Diagnostics& errors) {
  constexpr std::int64_t kMostThreads = 1024;
  static const std::vector<Unit> kTokenUnits{{"K", 1e3}, {"M", 1e6}, {"B", 1e9}, {"T", 1e12}};
  Arguments& arguments = raw.arguments;
  if (!raw.tokens.empty()) {
    const ParsedQuantity tokens = parse_quantity(raw.tokens, kTokenUnits);
    if (!tokens.error) arguments.tokens = tokens.value;
    if (tokens.error) {
      errors.push_back(
          mistake("--tokens takes a count as 300B or 2T, not '" + raw.tokens + "'", ""));
    }
  }
  if (!raw.within.empty()) {
    const ParsedQuantity within = parse_quantity(raw.within, time_units());
    if (!within.error) arguments.within = Seconds(within.value);
    if (within.error) {
      errors.push_back(
          mistake("--within takes a time as 14d or 36h, not '" + raw.within + "'", ""));
    }
  }
  if (raw.tokens.empty() && !raw.within.empty()) {
    errors.push_back(
        mistake("--within says how long so many --tokens may take",
                "--tokens 300B --within 14d asks for plans that train so many in time"));
  }
  if (raw.threads.empty()) return;
  arguments.threads = count_of(raw.threads, kMostThreads);
  if (!arguments.threads) {
    errors.push_back(
        mistake("--threads takes a count from 1 to 1,024, not '" + raw.threads + "'", ""));
  }
}

constexpr const char* kProgramBehind = "the program and its own flags stand behind --";

/// Reads how many ranks and steps a program has, and which rank it is.
void read_run(RawArguments& raw, Diagnostics& errors) {
  constexpr std::int64_t kMost = 1'000'000;
  Arguments& arguments = raw.arguments;
  const auto read = [&](const char* flag, const std::string& word, std::int64_t& number) {
    if (word.empty()) return;
    const auto count = count_of(word, kMost);
    if (count) number = *count;
    if (!count) {
      errors.push_back(mistake(
          std::string(flag) + " takes a count from 1 to 1,000,000, not '" + word + "'", ""));
    }
  };
  read("--gpus", raw.devices, arguments.devices);
  read("--world", raw.world, arguments.world);
  read("--steps", raw.steps, arguments.steps);
  if (raw.rank.empty()) return;
  if (raw.rank != "0") read("--rank", raw.rank, arguments.rank);
  if (arguments.rank >= arguments.world) {
    errors.push_back(
        mistake("there is no rank " + raw.rank + " of " + std::to_string(arguments.world),
                "--world says of how many ranks the program is one"));
  }
}

void refuse_unknown(const Command& command, const std::vector<std::string>& extras,
                    Diagnostics& errors) {
  std::vector<std::string> known;
  for (const FlagRow& flag : flag_rows()) {
    if (takes(command, flag)) known.emplace_back(flag.name);
  }
  for (const std::string& word : extras) {
    const std::string name = word.substr(0, word.find('='));
    const bool runs = (command.flags & kRunFlags) != 0;
    errors.push_back(
        mistake("memest " + std::string(command.name) + " has no flag '" + name + "'",
                did_you_mean(name, known, runs ? kProgramBehind : help_hint(command))));
  }
}

void check_words(const Command& command, const Arguments& arguments, Diagnostics& errors) {
  const std::size_t count = arguments.words.size();
  if (count < command.least_words) {
    errors.push_back(
        mistake("memest " + std::string(command.name) + " needs " + std::string(command.words),
                "for example " + std::string(command.example)));
  } else if (count > command.most_words) {
    errors.push_back(mistake("memest " + std::string(command.name) + " has no use for '" +
                                 arguments.words[command.most_words] + "'",
                             help_hint(command)));
  }
}

/// Where another program's words begin, which stand behind --.
std::span<const std::string>::iterator end_of_own_words(const Command& command,
                                                        std::span<const std::string> words) {
  return (command.flags & kRunFlags) != 0 ? std::ranges::find(words, "--") : words.end();
}

/// The program that a command runs is all of its words.
void take_program(const Command& command, std::span<const std::string> program,
                  Arguments& arguments, Diagnostics& errors) {
  if ((command.flags & kRunFlags) == 0) return;
  if (!arguments.words.empty()) {
    errors.push_back(mistake(
        "memest " + std::string(command.name) + " has no use for '" + arguments.words.front() + "'",
        kProgramBehind));
    return;
  }
  if (!program.empty()) arguments.words.assign(program.begin() + 1, program.end());
}

}  // namespace

Checked<Arguments> parse_arguments(const Command& command, std::span<const std::string> words) {
  RawArguments raw;
  CLI::App app;
  app.set_help_flag();
  // Unknown flags come back as words, so that refuse_unknown can say which was meant.
  app.allow_extras();
  bind(app, command, raw);
  const auto own_end = end_of_own_words(command, words);
  std::vector<std::string> reversed(words.begin(), own_end);
  std::ranges::reverse(reversed);  // as CLI11 wants them
  app.parse(reversed);

  Diagnostics errors;
  refuse_unknown(command, app.remaining(), errors);
  take_program(command, {own_end, words.end()}, raw.arguments, errors);
  read_format(command, raw, errors);
  refuse_other_words(app, command, errors);
  read_choices_of_words(raw);
  read_measurement(raw, errors);
  read_counts(raw, errors);
  read_search(raw, errors);
  read_run(raw, errors);
  if (!raw.arguments.help) check_words(command, raw.arguments, errors);
  if (!errors.empty()) return errors;
  return std::move(raw.arguments);
}

}  // namespace memest
