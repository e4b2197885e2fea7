// A job written back as a job file: every key that has an effect with its value, defaults and
// overrides included, and the options of the chosen entries. parse_job() reads the text as the same
// job. The text is written from the tables of keys that the reader uses, so a new key appears in it
// without a change here; a key that is bound to no member needs an entry here, and without one the
// functions throw std::logic_error.
//
// A key whose default cannot be written as a value ("both phases") is a comment. Relative paths
// become absolute, as seen from the current folder, so the text may be kept and read anywhere.
#pragma once

#include <string>

#include "runtime/job/job.hpp"

namespace troupe {

// True if an earlier version wrote the text. These wrote every key, also one that has no effect
// without another key; such a key is a mistake in other texts.
bool written_with_every_key(const std::string& text);

// `s`: from parse_job(). `all`: the tables it was read with.
std::string resolved_job_text(const job_spec& s, const tables& all);

// The job of the file with the choices of prepare_job() (the reducer); numbers
// of workers are those of the file, even if there are fewer nodes.
std::string resolved_job_text(const prepared_job& j);

}  // namespace troupe
