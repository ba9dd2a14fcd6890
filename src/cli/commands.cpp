#include <algorithm>
#include <array>

#include "cli/command.hpp"

namespace memest {
namespace {

constexpr std::string_view kSpecWords = "SPEC...";

constexpr auto kCommands = std::to_array<Command>({
    {"plan", "Which GPUs, how many and which settings: ranked, and for each refusal, why",
     kSpecWords, 1, kAnyNumber,
     kSpecFlags | kAtFlag | kConfigFlag | kPlanFlags | kFormatFlags | kHtmlFormat,
     "SPEC is a spec file, - for standard input, or the name of a model that memest knows; several "
     "merge from left to right. Without --gpu the spec's own GPU is considered, else every GPU of "
     "the catalog (--gpu "
     "all in any case); without --gpus 1, 2, 4 and 8 of them. What the spec writes itself "
     "(micro_batch, recompute, zero, tensor, pipeline, ...) is kept, the rest is searched: "
     "micro-batches, recompute and what the implementation splits and shards. Where the spec names "
     "no implementation transformers, torchtitan and Megatron-core are compared, with compiled "
     "blocks and without.\n"
     "SPEC may be what memest record wrote: then GPU types are ranked for that program, and of a "
     "recording for many sizes the number that --at leaves open is searched.\n"
     "Exit code 1 says that nothing fits.",
     "memest plan llama-3-8b --gpus 8", run_plan},
    {"estimate", "This configuration as written: memory, FLOPs, step time, money", kSpecWords, 1,
     kAnyNumber, kSpecFlags | kAtFlag | kConfigFlag | kFormatFlags | kHtmlFormat | kVerboseFlag,
     "--gpu and --gpus replace the spec's hardware, with the data-parallel ranks that others "
     "leave. SPEC may be what memest record wrote, of one process.\n"
     "Exit code 1 says that it does not fit.",
     "memest estimate gpt2 --gpu rtx-4090 --set training.micro_batch=8", run_estimate},
    {"fit", "What makes this configuration fit: each technique, and several together", kSpecWords,
     1, kAnyNumber,
     kSpecFlags | kConfigFlag | kMemoryFlag | kFitFlags | kFormatFlags | kHtmlFormat | kPlotFlag,
     "Recompute, smaller micro-batches, kernels, optimizers, offload and sharding on the GPUs that "
     "the spec names: each alone, and up to three together, with the memory, the step's time and "
     "what to write in the program that trains. --plot draws memory against time.\n"
     "Exit code 1 says that nothing fits.",
     "memest fit llama-3.2-1b --memory 24GiB", run_fit},
    {"schedule", "What keeping, recomputing or swapping each tensor of a step costs, side by side",
     kSpecWords, 1, kAnyNumber,
     kSpecFlags | kConfigFlag | kMemoryFlag | kActionsFlag | kFormatFlags,
     "Schedules of the tensors that a backward reads, played over the operations of the replayed "
     "step: checkpoints of layers and of groups, everything computed again, the least time within "
     "the memory by dynamic programming; copies to the host and back by several rules, with what "
     "of them the passes hide; and of keep, swap and recompute whichever is cheapest for each "
     "tensor. What training programs can be told is memest fit's question.\n"
     "Exit code 1 says that no schedule stays within the memory.",
     "memest schedule gpt2 --memory 8GiB", run_schedule},
    {"explain", "Every number as formula, formula with values, value and source", "SPEC [TERM]", 1,
     2, kSpecFlags | kConfigFlag | kFormatFlags,
     "TERM is a part of a number's name: memory, optimizer, step.",
     "memest explain llama-3-8b optimizer", run_explain},
    {"timeline", "Memory through the steps, event by event: phases, the peak and what is alive",
     kSpecWords, 1, kAnyNumber,
     kSpecFlags | kAtFlag | kConfigFlag | kFormatFlags | kHtmlFormat | kAgainstFlags | kEventFlags |
         kRankFlags,
     "Every allocation and free of the first steps, as eager PyTorch 2.11 makes them, run through "
     "its allocator under the GPU's memory. --against compares them with a recorded trace (text or "
     "gzip) and names the first event that differs, with block and operator. SPEC may be what "
     "memest "
     "record wrote.\n"
     "Exit code 1 says that it runs out of memory or, with --against, that an event differs.",
     "memest timeline gpt2", run_timeline},
    {"roofline", "Each operation's intensity against the ridge, and what it reaches of its roof",
     kSpecWords, 1, kAnyNumber,
     kSpecFlags | kAtFlag | kConfigFlag | kFormatFlags | kHtmlFormat | kPlotFlag,
     "The roof is the datasheet's: its bandwidth up to the ridge point, its peak beyond. --plot "
     "draws the operations below it. SPEC may be what memest record wrote.",
     "memest roofline gpt2 --gpu a100-sxm-80gb", run_roofline},
    {"check", "Whether each file stays within its budget, and needs what the lock says", kSpecWords,
     1, kAnyNumber, kSpecFlags | kAtFlag | kConfigFlag | kCheckFormats | kHtmlFormat | kLockFlags,
     "SPEC is a file, a folder with every .yaml, .yml and .json below it that has `model` and one "
     "of "
     "`training` and `inference`, or `recording`, or a pattern (`*`, `**`). Each file is held to "
     "its own section "
     "`budget`, to the capacity of the GPU that it names, and to memest.lock, which has what each "
     "spec needed when --update wrote it.\n"
     "Exit code 0: all hold; 1: one is over, moved from the lock, is not in it, or is gone; 4: of "
     "one it is not known; 2: one is no spec. The last of these that holds.",
     "memest init | memest check -", run_check},
    {"diff",
     "What changed between two specs and what it does to every number, or a spec and its run",
     "A B", 2, 2, kSpecFlags | kConfigFlag | kRankFlags | kFormatFlags | kHtmlFormat | kVerboseFlag,
     "A and B are a spec file, - for standard input, the name of a model that memest knows, or "
     "REVISION:PATH, a file of a git revision as `git show` names it; what such a spec names "
     "within "
     "itself is of the same revision. Flags are for both. Numbers that are equal are left out; -v "
     "shows them.\n"
     "B may be a run of A: a snapshot by torch.cuda.memory._dump_snapshot, an allocator trace, or "
     "a "
     "log of nvidia-smi (--query-gpu=timestamp,index,memory.used --format=csv, dmon, pmon), text "
     "or "
     "gzip. Then its peaks stand beside the predicted ones, and the allocations that differ by "
     "name; --rank and --data-rank say whose run it is.\n"
     "Two recordings stand beside each other: what the second takes more, and which lines of the "
     "program do.\n"
     "Exit code 1 says that A fits and B does not or, of a run, that its peak is outside of the "
     "predicted interval.",
     "memest diff gpt2 gpt2-medium --gpu rtx-4090", run_diff},
    {"validate", "Predictions against recorded runs: errors by group, worst rows, plot", "FILE...",
     1, kAnyNumber, kFormatFlags | kHtmlFormat | kRecordFlags | kPlotFlag,
     "FILE, plain or gzip, holds records, a line of JSON each: a spec beside what was measured. A "
     "record that asks "
     "for what is not available yet is counted with the sentence that says so.\n"
     "Exit code 1 says that an error is past its line, or a known miss no longer misses.",
     "memest validate tests/truth/nanogpt.records.jsonl.gz", run_validate},
    {"import", "A spec from the files of other training programs", "FILE...", 1, kAnyNumber,
     kConfigFlag | kFormatFlags | kForceFlag,
     "FILE is a configuration of a training program that memest knows (docs/import.md), a Hugging "
     "Face config.json or the folder that holds one; several stand beside each other. The spec "
     "goes "
     "to standard output or, with --output, to a file; in its comments stands which key each line "
     "came from, and what became of the others. Commands that take a SPEC take such files too.",
     "memest import tests/truth/configs/llama-3-8b/config.json", run_import},
    {"export", "The files with which a training program runs this configuration", kSpecWords, 1,
     kAnyNumber, kSpecFlags | kConfigFlag | kExportFlags | kForceFlag,
     "What decides memory or time is written out, for one release of each program: accelerate "
     "(with the arguments of transformers' Trainer and peft's LoRA), DeepSpeed, torchtitan, "
     "Megatron-LM. "
     "One file goes to standard output or, with --output, to a file; several go into the folder of "
     "--output. What the program has no word for is refused by name, with exit code 4.",
     "memest export tests/import/files/torchtitan/llama3_8b.toml --to torchtitan --gpus 8",
     run_export},
    {"record", "Any PyTorch program on a device that computes nothing: its peak, and whose it is",
     "PROGRAM...", 1, kAnyNumber, kRunFlags | kFormatFlags,
     "PROGRAM is run as it stands, with PyTorch's own allocator, on a machine that needs no GPU: "
     "kernels do nothing, and cudaMalloc keeps books. The answer has what was allocated, reserved "
     "and taken from the device, the moment of the peak, and the lines that asked for it. What the "
     "program prints goes to standard error.\n"
     "With --vary the program is run at a few sizes, each of its requests gets a polynomial in "
     "them "
     "that is exact at every point, one more point is recorded and compared, and memest replay "
     "--at "
     "answers for other sizes; or it is refused, exit code 4, with the request that has none.\n"
     "Exit code 1 says that it runs out of memory; 3 that it failed for a reason of its own.",
     "memest record --gpu a100-sxm-80gb --steps 3 -- python train.py", run_record},
    {"replay", "A recorded allocator trace through the model of PyTorch's allocator", "TRACE...", 1,
     kAnyNumber, kFormatFlags | kPlayFlags | kAtFlag,
     "TRACE is text or gzip, also what memest record wrote. Every statistic is compared at every "
     "marker, and every segment as it comes and goes; a replay ends at the first difference. With "
     "--memory or --conf nothing is compared: the same requests are made of a device of that size, "
     "under those settings, and the answer is what would be reserved and which line runs out; with "
     "--gpu also how long the recorded step takes there. With "
     "--at a recording of memest record --vary is played at that size, and with --largest at the "
     "largest that fits.\n"
     "Exit code 1 says that one of them is not equal or, played, runs out of memory.",
     "memest replay tests/truth/traces/v125.trace.gz", run_replay},
    {"calibrate", "Time laws of a GPU type, fitted to measurements of its kernels", "", 0, 0,
     kCalibrateFlags | kDeviceFlag,
     "Measures this machine's GPU, with --device host its processor, and fits a profile: in ten "
     "minutes, with --quick in one, with --seconds in that long. The profile goes to --output "
     "NAME.profile.yaml, without it to a file called after the GPU, and the samples to "
     "NAME.samples.csv beside it. Ctrl-C ends after the shape under way with exit code 130; the "
     "same command goes on from NAME.samples.csv.part.\n"
     "With --from, fits a profile to samples measured elsewhere: CSV files with a row a kernel "
     "call (docs/calibration.md has the columns). Of each file's operations at most 200 samples "
     "are looked at, spread over sizes and times; the profile lists them. It goes to standard "
     "output or, with --output, to NAME.profile.yaml, with those samples beside it.",
     "memest calibrate --from tests/calibrate/timing/gemm_l40s.csv.gz --rows all", run_calibrate},
    {"selftest", "Whether this machine's kernels and its ruler can be believed", "", 0, 0,
     kDeviceFlag | kFormatFlags,
     "Checks every kernel of the GPU, or with --device host of the processor, against a reference "
     "in double precision; the ruler against a call of known length; and the rates of kernels "
     "against the device's own copy, its datasheet and the best that was published of it. A "
     "processor's times are shown and not judged.\n"
     "Exit code 1 says that something failed.",
     "memest selftest --device host", run_selftest},
    {"profile", "What a profile holds, and how it does against samples", "PROFILE", 1, 1,
     kFormatFlags | kAgainstFlags,
     "PROFILE is a file, or the name of a GPU that memest has a profile of. --against predicts "
     "every "
     "sample of a CSV file and shows the errors by kind; --csv writes that file's rows with a "
     "column "
     "predicted_seconds.",
     "memest profile h100-sxm-80gb", run_profile},
    {"gpus", "The GPUs that memest knows, or every fact of one with its source", "[NAME]", 0, 1,
     kFormatFlags, "", "memest gpus h100-sxm-80gb", run_gpus},
    {"models", "The models that memest knows by name", "", 0, 0, kFormatFlags, "", "memest models",
     run_models},
    {"recipes", "The precision recipes, with their sources", "", 0, 0, kFormatFlags, "",
     "memest recipes", run_recipes},
    {"optimizers", "The optimizers and the states that they keep, with their sources", "", 0, 0,
     kFormatFlags, "", "memest optimizers --format markdown", run_optimizers},
    {"init", "A commented starter spec", "", 0, 0, kForceFlag,
     "--output leaves a file that exists alone, unless --force stands beside it.", "memest init",
     run_init},
    {"schema", "The JSON schema of the spec, for editors, or of an answer", "[ANSWER]", 0, 1,
     kNoFlags,
     "ANSWER is a command that takes --format json, or refusal: what --format json prints where "
     "there is no answer.",
     "memest schema estimate", run_schema},
    {"completions", "Completions of the command line, for a shell", "SHELL", 1, 1, kNoFlags,
     "SHELL is bash, zsh or fish. `eval \"$(memest completions bash)\"` turns them on at once.",
     "memest completions bash", run_completions},
    {"man", "The manual page of memest or of a command", "[COMMAND]", 0, 1, kNoFlags,
     "The page is roff: `memest man plan | man -l -` shows it.", "memest man plan", run_man},
});

}  // namespace

std::span<const Command> commands() { return kCommands; }

const Command* find_command(std::string_view name) {
  const auto* const found = std::find_if(kCommands.begin(), kCommands.end(),
                                         [name](const Command& row) { return row.name == name; });
  return found == kCommands.end() ? nullptr : found;
}

Outcome unknown_command(const std::string& name) {
  std::vector<std::string> known;
  for (const Command& command : commands()) known.emplace_back(command.name);
  const std::string nearest = nearest_name(name, known);
  return {ExitCode::bad_input,
          "",
          {{Severity::error,
            {},
            "memest has no command '" + name + "'",
            nearest.empty() ? "see memest --help" : "did you mean '" + nearest + "'?",
            false}}};
}

}  // namespace memest
