// A command: what it is called, what it takes, and the function that answers. The table of all
// commands is what the parser, the help pages and main read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/arguments.hpp"
#include "cli/exit_code.hpp"
#include "memest/diag/diagnostic.hpp"
#include "memest/report/render_options.hpp"

namespace memest {

/// A command's surroundings: how to print on its two streams.
struct Surroundings {
  RenderOptions out;
  RenderOptions err;
  std::string_view version;
  std::span<const std::string> words = {};  ///< of the command line, the command's name first
};

/// A file that an answer has beside its text.
struct FileBesideAnswer {
  std::string path;
  std::string text;
};

/// A command's answer. Nothing is printed or written before it is complete.
struct Outcome {
  ExitCode code = ExitCode::yes;
  std::string out;
  Diagnostics diagnostics;                   ///< for standard error
  std::vector<FileBesideAnswer> files = {};  ///< written before the answer is printed
  std::string folder = {};                   ///< of --output: holds the files
  bool prints_answer = false;                ///< though --output is given: it names the files
};

/// The flags that a command takes beside --help, one bit each.
enum Flags : std::uint32_t {
  kNoFlags = 0,
  kSpecFlags = 1,            ///< --gpu, --gpus, --set: how a spec is read
  kFormatFlags = 2,          ///< --format text|json|markdown|csv
  kCheckFormats = 4,         ///< --format text|json|markdown|csv|github|junit|sarif|gitlab
  kRecordFlags = 8,          ///< --lines, --plot, --residuals: what records are held to
  kEventFlags = 16,          ///< --snapshot, --pack, ...: the events, written
  kAgainstFlags = 32,        ///< --against, --csv: held to a record, and every row of it written
  kPlotFlag = 128,           ///< --plot: a drawing
  kCalibrateFlags = 64,      ///< --from, --gpu, --load, --rows, ...: what a profile is made of
  kDeviceFlag = 256,         ///< --device: what is measured
  kPlanFlags = 512,          ///< --objective, --front, --largest, ...: what is searched for
  kVerboseFlag = 1024,       ///< --verbose: formulas, written out
  kFitFlags = 2048,          ///< --host-memory: what there is beside the GPU's
  kConfigFlag = 4096,        ///< --text-only: how a Hugging Face config is read
  kMemoryFlag = 8192,        ///< --memory: what there is of the GPU's
  kActionsFlag = 16384,      ///< --actions: a schedule, written
  kRankFlags = 1U << 16U,    ///< --rank, --data-rank: of which GPU
  kLockFlags = 1U << 17U,    ///< --lock, --update, --threads: many specs, held to what they needed
  kHtmlFormat = 1U << 18U,   ///< --format html
  kForceFlag = 1U << 19U,    ///< --force: --output is a file that people go on writing
  kExportFlags = 1U << 20U,  ///< --to: which program the files are for
  kRunFlags = 1U << 21U,     ///< --world, --steps, ...: how another program is run
  kPlayFlags = 1U << 22U,    ///< --memory, --conf, ...: under what a trace is played
  kAtFlag = 1U << 23U,       ///< --at: at which sizes
};

inline constexpr std::size_t kAnyNumber = std::numeric_limits<std::size_t>::max();

struct Command {
  std::string_view name;
  std::string_view summary;  ///< one line, no full stop
  std::string_view words;    ///< "SPEC...", as in the usage line
  std::size_t least_words = 0;
  std::size_t most_words = 0;
  unsigned flags = kNoFlags;
  std::string_view description;  ///< paragraphs of the help page
  std::string_view example;      ///< a command line that works in the repository
  Outcome (*run)(const Arguments& arguments, const Surroundings& surroundings);
};

/// Every command, in the order of the help page.
std::span<const Command> commands();

/// The command of that name, null where there is none.
const Command* find_command(std::string_view name);

/// Exit code 2, with the nearest name.
Outcome unknown_command(const std::string& name);

Outcome run_plan(const Arguments& arguments, const Surroundings& surroundings);
Outcome run_estimate(const Arguments& arguments, const Surroundings& surroundings);
Outcome run_explain(const Arguments& arguments, const Surroundings& surroundings);
Outcome run_check(const Arguments& arguments, const Surroundings& surroundings);
Outcome run_calibrate(const Arguments& arguments, const Surroundings& surroundings);
Outcome run_selftest(const Arguments& arguments, const Surroundings& surroundings);
Outcome run_fit(const Arguments& arguments, const Surroundings& surroundings);
Outcome run_schedule(const Arguments& arguments, const Surroundings& surroundings);
Outcome run_roofline(const Arguments& arguments, const Surroundings& surroundings);
Outcome run_profile(const Arguments& arguments, const Surroundings& surroundings);
Outcome run_validate(const Arguments& arguments, const Surroundings& surroundings);
Outcome run_import(const Arguments& arguments, const Surroundings& surroundings);
Outcome run_export(const Arguments& arguments, const Surroundings& surroundings);
Outcome run_record(const Arguments& arguments, const Surroundings& surroundings);
Outcome run_replay(const Arguments& arguments, const Surroundings& surroundings);
Outcome run_timeline(const Arguments& arguments, const Surroundings& surroundings);
Outcome run_diff(const Arguments& arguments, const Surroundings& surroundings);
Outcome run_gpus(const Arguments& arguments, const Surroundings& surroundings);
Outcome run_models(const Arguments& arguments, const Surroundings& surroundings);
Outcome run_recipes(const Arguments& arguments, const Surroundings& surroundings);
Outcome run_optimizers(const Arguments& arguments, const Surroundings& surroundings);
Outcome run_init(const Arguments& arguments, const Surroundings& surroundings);
Outcome run_schema(const Arguments& arguments, const Surroundings& surroundings);
Outcome run_completions(const Arguments& arguments, const Surroundings& surroundings);
Outcome run_man(const Arguments& arguments, const Surroundings& surroundings);

}  // namespace memest
