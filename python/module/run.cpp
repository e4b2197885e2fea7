// Training in this process: as `troupe train JOB`, with callbacks of Python.
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "actors/embedded.hpp"
#include "actors/page/server.hpp"
#include "actors/repl/run_backend.hpp"
#include "actors/repl/run_socket.hpp"
#include "actors/supervision/stop_signals.hpp"
#include "python/module/job.hpp"
#include "runtime/base/other_words.hpp"
#include "runtime/base/wording.hpp"
#include "runtime/coordinator/handover.hpp"
#include "runtime/job/record.hpp"
#include "runtime/node/config/resolved_job.hpp"
#include "runtime/node/events/event_json.hpp"
#include "runtime/node/http/access.hpp"
#include "runtime/node/runs/run_recorder.hpp"
#include "runtime/record/checkpoint_home.hpp"

namespace troupe::python {
namespace {

namespace fs = std::filesystem;

struct run_options {
  unsigned threads = 0;
  std::string runs;  // folder of runs; empty: no run folder
  std::string trace, page;
};

// size: one run with the parts that serve it
class python_run {
 public:
  python_run(const python_job& j, run_options o) : job_(j), wanted_(std::move(o)) {
    auto checkpoints = folder_for_checkpoints(job_.job->spec.checkpoint.dir, job_.job->spec.name);
    if (!checkpoints) throw job_error(checkpoints.error());
    checkpoints_ = *std::move(checkpoints);
    if (!wanted_.runs.empty()) make_record();
    embedded_options e;
    e.threads = wanted_.threads;
    e.devices = job_.devices;
    e.trace = wanted_.trace;
    e.on_event = [this](const event_effect& x) { handle_event(x); };
    e.on_store = [this](const store_effect& s) { store(s); };
    e.on_tick = [this] { look_for_signals(); };
    if (record_) e.origin = origin();
    if (!job_.begun_from.empty()) {
      const auto how = job_.from_checkpoint ? plan_beginning::with::checkpoint : plan_beginning::with::weights;
      e.begins.emplace(how, job_.begun_from, job_.job->first_step);
    }
    run_ = std::make_unique<embedded_run>(job_.job, std::move(e));
    if (record_) make_backend();
  }

  // Trains; calls `on_event(dict)` with every event on this thread. An exception of the callback,
  // and Ctrl-C, stop the job with a checkpoint, and are raised then. So do SIGTERM and SIGHUP where
  // they would end the process; they are raised as SystemExit with the exit code of the signal. On
  // another thread than the main one they end the process at once: Python ignores a SystemExit
  // there.
  py::dict train(const py::object& on_event) {
    on_event_ = on_event;
    const bool main_thread = on_main_thread();
    embedded_result r;
    expected<void, record_error> recorded;
    int ended_by = 0;
    {
      const py::gil_scoped_release free;
      std::optional<stop_signals> watch;
      if (main_thread) watch.emplace([this](int) { run_->stop(); }, stop_signals::of::library);
      std::optional<run_socket> socket;
      if (record_) socket.emplace(run_socket_file(record_->folder()), *backend_);
      r = run_->run();
      recorded = end_record(r);
      socket.reset();  // once its clients have the outcome
      if (watch) ended_by = watch->signal();
    }
    on_event_ = py::none();
    const auto failure = failure_of(r, recorded);
    if (ended_by != 0) {
      if (failure) report(failure);
      PyErr_SetObject(PyExc_SystemExit, py::int_(exit_code_of_signal(ended_by)).ptr());
      throw py::error_already_set();
    }
    if (failure) std::rethrow_exception(failure);
    py::dict d;
    d["steps"] = r.step;
    d["stopped"] = r.stopped;
    d["weights"] = dict_of(r.weights);
    d["weights_sha256"] = r.weights_sha256;
    d["done"] = object_of(event_object({r.step, r.done}, event_form::session));
    return d;
  }

  py::object folder() const { return record_ ? py::cast(record_->folder().string()) : py::none(); }
  py::object page_url() const { return page_ ? py::cast(page_->url()) : py::none(); }
  void command(troupe::command c) { run_->command(std::move(c)); }
  void kill(const std::string& why) { run_->kill(why); }

 private:
  void make_record() {
    prepare_for_run_folder(*job_.job);
    auto info = facts_of_run(*job_.job, numerics_of(job_.devices));
    info.overrides = job_.what.overrides;
    info.checkpoints = checkpoints_;
    if (!job_.begun_from.empty()) {
      info.begun_from = fs::absolute(job_.begun_from).string();
      info.begun_from_checkpoint = job_.from_checkpoint;
    }
    if (job_.job->before) job_.job->before->best.reset();  // of the run that wrote the checkpoint: its folder has the weights
    auto made = run_recorder::create(wanted_.runs, job_.job, std::move(info), resolved_job_text(*job_.job),
                                     {[](const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); }});
    if (!made) throw job_error(made.error());
    record_ = *std::move(made);
    checkpoints_ = record_->checkpoints().string();
  }

  job_origin origin() const {
    job_origin o;
    o.home = record_->folder() / "post-mortem";
    o.recordings = record_->folder() / "recording";
    o.what = job_.what;
    return o;
  }

  void make_backend() {
    backend_ = std::make_unique<run_backend>(*run_, *job_.job, record_->number(), record_->folder().string());
    if (wanted_.page.empty()) return;
    const auto at = http::loopback_address(wanted_.page, "the page of a run is served");
    if (!at) throw job_error(at.error().message);
    page_options o;
    o.where = *at;
    o.token_file = record_->folder() / "page.token";
    o.runs = record_->folder().parent_path();
    o.title = "Troupe: run " + record_->folder().filename().string();
    auto made = page_server::open(o, *backend_);
    if (!made) throw job_error(made.error().message);
    page_ = *std::move(made);
  }

  // Runs `f`, which calls Python. Its exception stops the job.
  template <class F>
  void call(F f) {
    const py::gil_scoped_acquire guard;
    try {
      f();
    } catch (...) {
      if (!raised_) raised_ = std::current_exception();
      run_->stop();
    }
  }

  // A second Ctrl-C, which is not a repetition of the first, ends the job without a checkpoint.
  void look_for_signals() {
    call([this] {
      if (PyErr_CheckSignals() == 0) return;
      if (requests_.request(SIGINT, signal_time()) == stop_requests::answer::at_once) run_->kill("interrupted");
      throw py::error_already_set();
    });
  }

  void handle_event(event_effect e) {
    if (e.is<checkpoint_event>() && !checkpoints_.empty()) e.what = last_checkpoint_;
    if (record_ && !ends_job(e)) {
      if (!only_answers(e)) record_->event(e);
      backend_->handle_event(e);
    }
    if (!only_answers(e) && !on_event_.is_none() && !e.is<histogram_event>() && !raised_)
      call([&] { on_event_(object_of(event_object(e, event_form::session))); });
  }

  void store(const store_effect& s) {
    if (record_) record_->store(s);
    if (s.what != store_effect::kind_of::checkpoint || checkpoints_.empty()) return;
    const auto c = checkpoint_of(*job_.job, s, numerics_of(job_.devices));
    const auto saved = save_checkpoint(checkpoints_, c, static_cast<std::size_t>(job_.job->spec.checkpoint.keep));
    if (saved)
      last_checkpoint_ = checkpoint_event{checkpoint_files(checkpoints_).front()};
    else
      last_checkpoint_ = checkpoint_lost_event{saved.error().to_string()};
  }

  // Writes the end of the run, and tells it to clients of the socket and of the page.
  expected<void, record_error> end_record(const embedded_result& r) {
    if (!record_) return {};
    event_effect last{r.step, error_event{r.error, r.where, r.post_mortem}};
    if (r.ok) last = {r.step, r.done};
    record_->event(last);
    auto written = record_->finish(r.ok ? run_recorder::end{r.stopped ? "stopped" : "done", r.step, r.weights_sha256, {}, r.weights}
                                        : run_recorder::end{"failed", r.step, {}, r.error, {}});
    backend_->handle_event(last);
    return written;
  }

  // What train() raises; null: nothing.
  std::exception_ptr failure_of(const embedded_result& r, const expected<void, record_error>& recorded) {
    if (raised_) return std::exchange(raised_, {});
    if (!r.ok)
      return std::make_exception_ptr(training_error(r.where.empty() ? r.error : r.where + ": " + r.error, r.where, r.post_mortem));
    if (!recorded) return std::make_exception_ptr(job_error(recorded.error()));
    if (r.trace && !*r.trace) return std::make_exception_ptr(training_error(r.trace->error().text, wanted_.trace, {}));
    return {};
  }

  // On stderr: a signal ends the program, so that it cannot be raised.
  static void report(const std::exception_ptr& failure) {
    try {
      std::rethrow_exception(failure);
    } catch (py::error_already_set& e) {
      e.discard_as_unraisable("troupe.train");
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s\n", e.what());
    }
  }

  static bool on_main_thread() {
    const auto threading = py::module_::import("threading");
    return threading.attr("current_thread")().is(threading.attr("main_thread")());
  }

  python_job job_;
  run_options wanted_;
  std::unique_ptr<run_recorder> record_;
  std::unique_ptr<embedded_run> run_;
  std::unique_ptr<run_backend> backend_;
  std::unique_ptr<page_server> page_;
  std::string checkpoints_;  // folder: of [checkpoint] dir, or in the run folder; empty: none are kept
  job_event_kind last_checkpoint_ = checkpoint_event{};
  py::object on_event_ = py::none();
  std::exception_ptr raised_;
  stop_requests requests_;  // Ctrl-C, and what else Python's handlers of signals raise
};

run_options options_of(const py::dict& d) {
  return {d["threads"].cast<unsigned>(), d["runs"].cast<std::string>(), d["trace"].cast<std::string>(),
          d["page"].cast<std::string>()};
}

}  // namespace

void bind_run(py::module_& m) {
  py::class_<python_run>(m, "Run")
      .def(py::init([](const python_job& j, const py::dict& o) { return std::make_unique<python_run>(j, options_of(o)); }))
      .def("train", &python_run::train)
      .def_property_readonly("folder", &python_run::folder)
      .def_property_readonly("page_url", &python_run::page_url)
      .def("kill", &python_run::kill)
      .def("stop", [](python_run& r) { r.command({stop_command{}}); })
      .def("pause", [](python_run& r) { r.command({pause_command{}}); })
      .def("resume", [](python_run& r) { r.command({resume_command{}}); })
      .def("checkpoint", [](python_run& r) { r.command({checkpoint_command{}}); })
      .def("evaluate", [](python_run& r) { r.command({eval_command{}}); })
      .def("set",
           [](python_run& r, const std::string& key, double value) {
             r.command({set_command{key, value}});
           })
      .def("mode", [](python_run& r, const std::string& name, const std::vector<std::pair<std::string, std::string>>& values) {
        r.command({mode_command{mode_choice{name, values}}});
      });
  m.def("words_for", [](const std::string& word) { return words_for(word); });
  m.def("did_you_mean", [](const std::string& word, const std::vector<std::string>& known) { return did_you_mean(word, known); });
  m.def("default_runs_folder", [] { return default_runs_folder().string(); });
  m.def("run_folders", [](const std::string& runs) {
    std::vector<std::string> list;
    for (const auto& f : run_folders(runs)) list.push_back(f.string());
    return list;
  });
  m.def("find_run", [](const std::string& runs, const std::string& word) {
    const auto found = find_run(runs, word);
    if (!found) throw job_error(found.error());
    return found->string();
  });
  m.def("read_run", [](const std::string& folder) {
    const auto r = read_run_info(folder);
    if (!r) throw job_error(r.error());
    return run_info_text(*r);
  });
}

}  // namespace troupe::python
