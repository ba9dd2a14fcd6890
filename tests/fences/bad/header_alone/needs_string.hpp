#pragma once

std::string needs_an_include();
