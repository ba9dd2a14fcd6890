// Files of other git revisions, under the names that `git show` has for them: REVISION:PATH.
#pragma once

#include <memory>
#include <string>

#include "memest/diag/diagnostic.hpp"
#include "memest/reader/read_job.hpp"

namespace memest {

/// Whether a word of a command line can only be a file of a revision: it has a colon, and no file
/// is called so.
bool names_revision(const std::string& word);

/// The file of a revision, called REVISION:PATH with the path from the repository's top; of a
/// folder the config.json in it. A revision or path that is not there is a diagnostic; throws
/// EnvironmentError where git cannot be run or finds no repository.
Checked<std::shared_ptr<const SourceText>> read_revision(const std::string& name);

/// Reads what the request's files, and the configs that they name, are in the revisions that they
/// are said to be of. Throws as read_revision does.
Checked<ReadRequest> with_revisions(ReadRequest request);

}  // namespace memest
