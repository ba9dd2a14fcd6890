// A request as one tree of keys: its files, presets and overrides merged, files of other programs
// among them.
#pragma once

#include "memest/reader/read_job.hpp"
#include "reader/foreign/foreign_import.hpp"
#include "reader/text/source.hpp"
#include "reader/text/value.hpp"

namespace memest {

/// The tree of a request: files and presets merged, overridden, without what it frees; beside it
/// the fate of the keys of other programs' files, and warnings of those that are not followed.
Checked<ForeignSpec> read_spec(const ReadRequest& request);
Checked<Value> read_tree(const ReadRequest& request);

/// Warnings of what is taken where no file of another program tells: few of them say which GPUs.
/// None where all files are specs.
Diagnostics missing_hardware(const ForeignSpec& spec, const ReadRequest& request);

/// The tree of one text.
Checked<Value> read_tree(const SourcePointer& source);

/// Puts a preset's own keys in place of its name, so that `--set model.layers=2` has something to
/// override.
void expand_preset(Value& root);

}  // namespace memest
