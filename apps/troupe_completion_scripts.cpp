// The scripts of `troupe reference completion`. They have no tables of their own.
#include "apps/troupe_completion.hpp"

namespace troupe {
namespace {

// Bash also splits words at '=' and ':', so the script splits the line itself, and removes from
// each candidate what readline will not replace.
constexpr const char* bash_script = R"(# Completion of troupe and trouped in bash. Made by `troupe reference completion bash`.
_troupe() {
  local line=${COMP_LINE:0:COMP_POINT} words word kept entry
  read -ra words <<<"$line"
  [[ $line != *[[:blank:]] ]] || words+=("")
  word=${words[-1]} kept=
  [[ $COMP_WORDBREAKS != *=* || $word != *=* ]] || kept=${word%"${word##*=}"}
  [[ $COMP_WORDBREAKS != *:* || ${word#"$kept"} != *:* ]] || kept=${word%"${word##*:}"}
  COMPREPLY=()
  while IFS= read -r entry; do
    case $entry in
      :files*)
        compopt -o filenames 2>/dev/null
        while IFS= read -r entry; do COMPREPLY+=("$entry"); done < <(
          suffix=${entry#:files} suffix=${suffix# }
          word=${word#"$kept"}
          if [[ -n $suffix ]]; then compgen -f -X "!*$suffix" -- "$word"; compgen -d -- "$word"; else compgen -f -- "$word"; fi)
        ;;
      :folders)
        compopt -o filenames 2>/dev/null
        while IFS= read -r entry; do COMPREPLY+=("$entry"); done < <(compgen -d -- "${word#"$kept"}")
        ;;
      *)
        entry=${entry%%$'\t'*}
        [[ $entry != *= ]] || compopt -o nospace 2>/dev/null
        COMPREPLY+=("${entry#"$kept"}")
        ;;
    esac
  done < <("${words[0]%d}" __complete "${words[@]}" 2>/dev/null)
}
complete -F _troupe troupe trouped
)";

constexpr const char* zsh_script = R"(#compdef troupe trouped
# Completion of troupe and trouped in zsh. Made by `troupe reference completion zsh`.
local entry word
local -a plain open
for entry in "${(@f)$(${words[1]%d} __complete "${(@Q)words[1,CURRENT]}" 2>/dev/null)}"; do
  case $entry in
    '') ;;
    ':files '*) _files -g "*${entry#:files }" ;;
    :files) _files ;;
    :folders) _files -/ ;;
    *)
      word=${${entry%%$'\t'*}//:/\\:}
      [[ $entry == *$'\t'* ]] && word+=":${entry#*$'\t'}"
      if [[ $entry == *= ]]; then open+=("$word"); else plain+=("$word"); fi
      ;;
  esac
done
(( $#plain )) && _describe 'troupe' plain
(( $#open )) && _describe 'key' open -S ''
)";

constexpr const char* fish_script = R"(# Completion of troupe and trouped in fish. Made by `troupe reference completion fish`.
function __troupe_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l program (string replace -r 'd$' '' -- $words[1])
    for entry in ($program __complete $words 2>/dev/null)
        switch $entry
            case ':files *'
                __fish_complete_suffix (string sub -s 8 -- $entry)
            case ':files'
                __fish_complete_path (commandline -ct)
            case ':folders'
                __fish_complete_directories (commandline -ct)
            case '*'
                echo $entry
        end
    end
end
complete -c troupe -f -a '(__troupe_complete)'
complete -c trouped -f -a '(__troupe_complete)'
)";

}  // namespace

const std::vector<std::string>& completion_shells() {
  static const std::vector<std::string> all{"bash", "zsh", "fish"};
  return all;
}

std::string completion_script(const std::string& shell) {
  if (shell == "bash") return bash_script;
  if (shell == "zsh") return zsh_script;
  return fish_script;
}

}  // namespace troupe
