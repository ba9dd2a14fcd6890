// One run of a program on the null device.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/arguments.hpp"
#include "cli/command.hpp"
#include "cli/record/null_device.hpp"
#include "memest/diag/diagnostic.hpp"
#include "memest/report/record_report.hpp"

namespace memest {

/// Runs the program of the arguments, and gives `files` the recording of each process, under the
/// name that --output gives it or none. Throws EnvironmentError where it cannot be run or watched.
Checked<ProgramRun> record_program(const Arguments& arguments, const NullDevice& device,
                                   std::vector<FileBesideAnswer>& files);

/// Leaves out recordings that --output gives no name.
void keep_named(std::vector<FileBesideAnswer>& files);

/// "run.memrec" of the first process, "run.1.memrec" of the second; empty where `output` is.
std::string file_of(const std::string& output, std::size_t process);

/// The words as a shell reads them back.
std::string command_line(const std::vector<std::string>& words);

}  // namespace memest
