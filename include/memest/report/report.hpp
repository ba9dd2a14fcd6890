// A report is one answer in every format: a page for people, records for spreadsheets, JSON for
// programs (docs/json.md), and a page for a browser made of the same (html.hpp). Each function
// report_... makes one; cli only chooses the format.
#pragma once

#include <string>
#include <vector>

#include "memest/report/page.hpp"

namespace memest {

/// A line of what a reader asks first: the verdict, what a step takes, what it costs.
struct Headline {
  std::string name;
  std::string value;
  Tone tone = Tone::plain;
};

struct Report {
  Page page;         ///< text, markdown and html
  Table records;     ///< csv: raw numbers, the unit in the column's name
  std::string json;  ///< one object, ended by a newline; empty where the question is without it
  /// At the head of a browser's page, where text has sentences.
  std::vector<Headline> headlines = {};
  std::string title = {};  ///< of that page; empty: its first heading
};

/// Where an answer comes from, and how its reader asks on.
struct Question {
  std::string spec;     ///< what stood after the command: "model.yaml --set training.micro_batch=2"
  std::string version;  ///< of memest
  std::string fitting = {};  ///< a command whose answer fits, where that is known
  bool with_json = true;     ///< which costs more than all else of a long list
};

/// Version of every JSON answer's form; it changes when a key changes its meaning or goes away.
inline constexpr int kFormatVersion = 1;

}  // namespace memest
