// From the words of a command line to a job, and from a report to the text that was asked for.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "cli/command.hpp"
#include "memest/diag/diagnostic.hpp"
#include "memest/graph/graph.hpp"
#include "memest/memory/timeline.hpp"
#include "memest/reader/read_job.hpp"
#include "memest/report/report.hpp"
#include "memest/spec/job.hpp"

namespace memest {

/// `files` with what --set says of them.
ReadRequest request_of(const Arguments& arguments, const std::vector<std::string>& files);

/// --memory and --host-memory as keys of the spec, also in the commands that an answer says.
Arguments with_memory(Arguments arguments);

/// `files` with all that the flags say of them: one configuration, so one GPU type and one count.
Checked<ReadRequest> configuration_request(const Arguments& arguments,
                                           const std::vector<std::string>& files);

/// The job that a request for one configuration describes.
Checked<Job> read_configuration(const ReadRequest& request);
/// As above, of `files` under the flags.
Checked<Job> read_configuration(const Arguments& arguments, const std::vector<std::string>& files);

/// The mistake in --rank or --data-rank; nothing where they name one of the job's GPUs.
std::optional<Diagnostic> wrong_rank(const Arguments& arguments, const Job& job);
/// The GPU of --rank and --data-rank. Where they leave the data rank open it is the first, of which
/// records are, or without a record the one that takes most.
JobRank rank_of(const Arguments& arguments, const Job& job, bool recorded);

/// `files` and the flags that chose the job, as they would be typed again.
Question question_of(const Arguments& arguments, const std::vector<std::string>& files,
                     const Surroundings& surroundings);

/// The report in the format of --format, one of text, json, markdown, csv and html; a page has the
/// specs and the command line.
std::string shown(const Report& report, const Arguments& arguments,
                  const Surroundings& surroundings);
/// The report as a page with the specs and the command line, whatever --format says.
std::string browser_page(const Report& report, const Arguments& arguments,
                         const Surroundings& surroundings);
/// The report in a format, of a page without its specs.
std::string formatted(const Report& report, Format format, const RenderOptions& options);

/// Those of --threads, else as many as the machine has.
std::size_t threads_of(const Arguments& arguments);

/// Reports the mistakes: exit code 2, or 4 where nothing is wrong but what is not available yet.
Outcome refused(Diagnostics diagnostics);
/// Exit code 4.
Outcome refused(const Unavailable& reason);

/// `word` as a shell reads it back.
std::string shell_quoted(const std::string& word);

}  // namespace memest
