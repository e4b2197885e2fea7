// Training in this process: as `troupe train JOB`, with callbacks of Python.
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "actors/embedded.hpp"
#include "actors/page/server.hpp"
#include "actors/repl/run_backend.hpp"
#include "actors/repl/run_socket.hpp"
#include "python/module/job.hpp"
#include "runtime/job/record.hpp"
#include "runtime/node/config/resolved_job.hpp"
#include "runtime/node/events/event_json.hpp"
#include "runtime/node/http/access.hpp"
#include "runtime/node/runs/run_recorder.hpp"

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
  // and Ctrl-C, stop the job with a checkpoint, and are raised then.
  py::dict train(const py::object& on_event) {
    on_event_ = on_event;
    embedded_result r;
    {
      const py::gil_scoped_release free;
      std::optional<run_socket> socket;
      if (record_) socket.emplace(run_socket_file(record_->folder()), *backend_);
      r = run_->run();
    }
    on_event_ = py::none();
    end_record(r);
    if (raised_) {
      const auto error = std::exchange(raised_, {});
      std::rethrow_exception(error);
    }
    if (!r.ok) throw training_error(r.where.empty() ? r.error : r.where + ": " + r.error, r.where, r.post_mortem);
    py::dict d;
    d["steps"] = r.step;
    d["stopped"] = r.stopped;
    d["weights"] = dict_of(r.weights);
    d["weights_sha256"] = r.weights_sha256;
    d["done"] = object_of(event_object({r.step, r.done}, event_form::session));
    if (r.trace && !*r.trace) throw training_error(r.trace->error().text, wanted_.trace, {});
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
    if (!job_.begun_from.empty()) {
      info.begun_from = fs::absolute(job_.begun_from).string();
      info.begun_from_checkpoint = job_.from_checkpoint;
    }
    auto made = run_recorder::create(wanted_.runs, job_.job, std::move(info), resolved_job_text(*job_.job),
                                     {[](const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); }});
    if (!made) throw job_error(made.error());
    record_ = *std::move(made);
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
      if (raised_) return run_->kill("interrupted");  // a second Ctrl-C
      raised_ = std::current_exception();
      run_->stop();
    }
  }

  void look_for_signals() {
    call([] {
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    });
  }

  void handle_event(event_effect e) {
    if (record_ && !ends_job(e)) {
      if (e.is<checkpoint_event>()) e.what = last_checkpoint_;
      if (!only_answers(e)) record_->event(e);
      backend_->handle_event(e);
    }
    if (!only_answers(e) && !on_event_.is_none() && !e.is<histogram_event>() && !raised_)
      call([&] { on_event_(object_of(event_object(e, event_form::session))); });
  }

  void store(const store_effect& s) {
    if (!record_) return;
    record_->store(s);
    if (s.what != store_effect::kind_of::checkpoint) return;
    const auto c = checkpoint_of(*job_.job, s, numerics_of(job_.devices));
    const auto home = record_->checkpoints().string();
    const auto saved = save_checkpoint(home, c, static_cast<std::size_t>(job_.job->spec.checkpoint.keep));
    if (saved)
      last_checkpoint_ = checkpoint_event{checkpoint_files(home).front()};
    else
      last_checkpoint_ = checkpoint_lost_event{saved.error().to_string()};
  }

  void end_record(const embedded_result& r) {
    if (!record_) return;
    record_->event(r.ok ? event_effect{r.step, r.done} : event_effect{r.step, error_event{r.error, r.where, r.post_mortem}});
    const auto written =
        record_->finish(r.ok ? run_recorder::end{r.stopped ? "stopped" : "done", r.step, r.weights_sha256, {}, r.weights}
                             : run_recorder::end{"failed", r.step, {}, r.error, {}});
    if (!written && !raised_) throw job_error(written.error());
  }

  python_job job_;
  run_options wanted_;
  std::unique_ptr<run_recorder> record_;
  std::unique_ptr<embedded_run> run_;
  std::unique_ptr<run_backend> backend_;
  std::unique_ptr<page_server> page_;
  job_event_kind last_checkpoint_ = checkpoint_event{};
  py::object on_event_ = py::none();
  std::exception_ptr raised_;
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
