// Lines of `troupe doctor`: what a daemon measures on its machine and on its connections. A reply
// without a text names the same line as next, until the result is there.
#include "actors/repl/request.hpp"

namespace troupe {
namespace {

using kind = repl_reply::kind;

repl_reply measured(const repl_request& r, const repl_measurement& what) {
  const auto result = r.backend.measure(what);
  if (!result) return r.fail(result.error().text);
  return *result ? repl_reply{kind::ok, **result, {}} : repl_reply{kind::ok, {}, r.line};
}

}  // namespace

repl_reply repl_machine(const repl_request& r) {
  const bool busy = r.args.size() == 2 && r.args[1] == "busy";
  if (r.args.size() != (busy ? 2u : 1u)) return r.usage("usage: _machine TICKET [busy]");
  return measured(r, {r.args[0], {}, {}, busy});
}

repl_reply repl_link_to(const repl_request& r) {
  const bool busy = r.args.size() == 4 && r.args[3] == "busy";
  if (r.args.size() != (busy ? 4u : 3u)) return r.usage("usage: _link TICKET PEER ADDRESS [busy]");
  return measured(r, {r.args[0], r.args[1], r.args[2], busy});
}

}  // namespace troupe
