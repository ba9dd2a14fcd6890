// Profiles of GPU types: NAME.profile.yaml, as `memest calibrate` writes them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "memest/diag/diagnostic.hpp"
#include "memest/spec/gpu/gpu_profile.hpp"

namespace memest {

/// Suffix of a profile's file name, behind the slug of the GPU beside whose facts it stands.
inline constexpr std::string_view kProfileSuffix = ".profile.yaml";

/// Every mistake of the text at its place; a profile of another form is refused with what to do.
Checked<GpuProfile> read_profile(const std::shared_ptr<const SourceText>& source);

/// The file at `path`. Throws EnvironmentError where it cannot be opened.
Checked<GpuProfile> read_profile_file(const std::string& path);

/// The profile that memest carries for the GPU type; none where nobody has measured one.
std::optional<GpuProfile> find_profile(const std::string& gpu_slug);

/// The profile as such a file. Numbers have five decimals: reading it gives it back to that.
std::string write_profile(const GpuProfile& profile);

}  // namespace memest
