// Hugging Face configs that a spec names, in the place of their names.
#pragma once

#include <string>

#include "memest/diag/diagnostic.hpp"
#include "memest/reader/read_job.hpp"
#include "reader/text/source.hpp"
#include "reader/text/value.hpp"

namespace memest {

/// The request's text of that name; null where there is none.
SourcePointer find_text(const ReadRequest& request, const std::string& name);

/// The name of the config that `hf` names: a path, or of a text of the request that beside it.
std::string named_config(const ReadRequest& request, const Value& hf);

/// Every `hf` of the tree that is the name of a config.
std::vector<Value*> named_configs(Value& root);

/// Puts what the request's texts say where the tree names them.
void put_named_texts(const ReadRequest& request, Value& root, Diagnostics& diagnostics);

}  // namespace memest
