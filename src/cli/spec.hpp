// From the words of a command line to a job, and from a report to the text that was asked for.
#pragma once

#include <string>

#include "cli/command.hpp"
#include "memest/diag/diagnostic.hpp"
#include "memest/graph/graph.hpp"
#include "memest/reader/read_job.hpp"
#include "memest/report/report.hpp"
#include "memest/spec/job.hpp"

namespace memest {

/// `files` with what --set says of them.
ReadRequest request_of(const Arguments& arguments, const std::vector<std::string>& files);

/// --memory and --host-memory as keys of the spec, also in the commands that an answer says.
Arguments with_memory(Arguments arguments);

/// The job that `words` and --set describe, on the GPU of --gpu and --gpus: one configuration, so
/// one GPU type and one count.
Checked<Job> read_configuration(const Arguments& arguments, const std::vector<std::string>& files);

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

/// Reports the mistakes: exit code 2, or 4 where nothing is wrong but what is not available yet.
Outcome refused(Diagnostics diagnostics);
/// Exit code 4.
Outcome refused(const Unavailable& reason);

/// `word` as a shell reads it back.
std::string shell_quoted(const std::string& word);

}  // namespace memest
