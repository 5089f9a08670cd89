"""The completion scripts: subcommands, options, and their values.

They are static: a key press starts no Python. But for values that only a cluster or a folder knows,
such as topics and runs: these `kipctl __complete` is asked for.
"""

import shlex
from collections.abc import Iterator

from kipctl.generate.commands import Command, Parameter

_NOTICE = "# Generated from the commands by `make generate`; do not edit."

_BASH = """\
# Completion of kipctl for bash.
{notice}
_kipctl_offer() {{
    # bash goes on from the last ":" of what is typed.
    local typed=${{COMP_LINE:0:COMP_POINT}}
    typed=${{typed##*[ =]}}
    [[ $COMP_WORDBREAKS != *:* ]] || COMPREPLY=("${{COMPREPLY[@]#"${{typed%"${{typed##*:}}"}}"}}")
}}
_kipctl_known() {{
    local line=${{COMP_LINE:0:COMP_POINT}}
    mapfile -t COMPREPLY < <("${{COMP_WORDS[0]}}" __complete "$1" "$line" 2>/dev/null </dev/null)
    _kipctl_offer
}}
_kipctl_files() {{
    local typed=${{COMP_LINE:0:COMP_POINT}}
    compopt -o filenames
    mapfile -t COMPREPLY < <(compgen -f -- "${{typed##*[ =]}}")
    _kipctl_offer
}}
_kipctl() {{
    local -i at=COMP_CWORD
    # bash takes words apart at ":" and "=": a value begins behind --option, or --option=.
    while ((at > 1)) && [[ ${{COMP_LINE:COMP_POINT-1:1}} != " " ]] &&
        [[ ${{COMP_WORDS[at]}} == [:=] || ${{COMP_WORDS[at - 1]}} == [:=] ]]; do
        [[ ${{COMP_WORDS[at]}} == "=" && ${{COMP_WORDS[at - 1]}} == -* ]] && break
        [[ ${{COMP_WORDS[at - 1]}} == "=" && ${{COMP_WORDS[at - 2]}} == -* ]] && break
        at+=-1
    done
    local current=${{COMP_WORDS[at]}} previous=${{COMP_WORDS[at - 1]}}
    local command=kipctl word words= options=
    if [[ $current == "=" ]]; then
        current=
    elif [[ $previous == "=" ]]; then
        previous=${{COMP_WORDS[at - 2]}}
    fi
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case "$command $word" in
            {paths}) command+=" $word" ;;
        esac
    done
    case "$command $previous" in
{values}
    esac
    case "$command" in
{words}
    esac
    if [[ $current == -* || -z $words ]]; then
        words=$options
    fi
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -F _kipctl kipctl
"""

_BASH_KNOWN = "_kipctl_known %s"
_BASH_FILES = "_kipctl_files; return"


def bash(root: Command) -> str:
    """Return the script for bash 4.4 or newer."""
    commands = list(root.walk())
    return _BASH.format(
        notice=_NOTICE,
        paths=" | ".join(_quote(command.name) for command in commands[1:]),
        values="\n".join(
            f"        {_bash_spellings(command, option)}) {_bash_values(option)} ;;"
            for command in commands
            for option in command.options
            if option.value
        ),
        words="\n".join(
            f"        {_quote(command.name)}) {_bash_words(command)} ;;" for command in commands
        ),
    )


def _bash_spellings(command: Command, option: Parameter) -> str:
    return " | ".join(_quote(f"{command.name} {name}") for name in option.names)


def _bash_values(option: Parameter) -> str:
    if option.choices:
        words = _quote(" ".join(option.choices))
        return f'COMPREPLY=($(compgen -W {words} -- "$current")); return'
    if option.is_known:
        return f"{_BASH_KNOWN % _quote(option.value)}; return"
    return _BASH_FILES if option.is_path else "return"


def _bash_words(command: Command) -> str:
    words = [held.path[-1] for held in command.commands]
    words += [choice for argument in command.arguments for choice in argument.choices]
    options = [name for option in command.options for name in option.names if name[:2] == "--"]
    line = f"words={_quote(' '.join(words))} options={_quote(' '.join(options))}"
    if any(argument.is_path for argument in command.arguments):
        line += f"; [[ $current == -* ]] || {{ {_BASH_FILES}; }}"
    for argument in command.arguments:
        if argument.is_known:
            known = _BASH_KNOWN % _quote(argument.value)
            line += f"; [[ $current == -* ]] || {{ {known}; return; }}"
    return line


def zsh(root: Command) -> str:
    """Return the script for zsh, to be put on the `fpath` as `_kipctl`."""
    lines = ["#compdef kipctl", "# Completion of kipctl for zsh.", _NOTICE]
    for command in root.walk():
        lines += ["", *_zsh_function(command)]
    lines += [
        "",
        "_kipctl_values() {",
        '    compadd -- ${(f)"$(kipctl __complete $1 $LBUFFER 2>/dev/null </dev/null)"}',
        "}",
        "",
        "# Autoloaded, this file is the function's body; sourced, it has to register it.",
        'if [[ $funcstack[1] == _kipctl ]]; then _kipctl "$@"; else compdef _kipctl kipctl; fi',
    ]
    return "\n".join(lines) + "\n"


def _zsh_function(command: Command) -> Iterator[str]:
    specs = [spec for option in command.options for spec in _zsh_option(option)]
    for argument in command.arguments:
        number = "*" if argument.repeatable else ""
        specs.append(f"{number}:{_zsh_colons(argument.value)}:{_zsh_action(argument)}")
    if command.commands:
        specs += ["1:command:->command", "*::argument:->argument"]
    yield f"{_zsh_name(command)}() {{"
    if command.commands:
        yield "    local curcontext=$curcontext state state_descr line"
        yield "    local -A opt_args"
        yield "    local -a commands=("
        for held in command.commands:
            yield f"        {_quote(f'{held.path[-1]}:{_zsh_colons(held.summary)}')}"
        yield "    )"
    yield f"    _arguments {'-C ' if command.commands else ''}\\"
    yield " \\\n".join(f"        {_quote(spec)}" for spec in specs)
    if command.commands:
        yield "    case $state in"
        yield "        command) _describe command commands ;;"
        yield "        argument)"
        yield "            case $line[1] in"
        for held in command.commands:
            yield f"                {held.path[-1]}) {_zsh_name(held)} ;;"
        yield "            esac ;;"
        yield "    esac"
    yield "}"


def _zsh_name(command: Command) -> str:
    return "_" + "_".join(command.path).replace("-", "_")


def _zsh_option(option: Parameter) -> Iterator[str]:
    """One spec for each spelling; having one of them excludes the others."""
    excluded = "*" if option.repeatable else f"({' '.join(option.names)})"
    explanation = _first_sentence(option).replace("[", "\\[").replace("]", "\\]")
    for name in option.names:
        if not option.value:
            yield f"{excluded}{name}[{explanation}]"
            continue
        joint = "=" if name.startswith("--") else "+"
        value = f"{_zsh_colons(option.value)}:{_zsh_action(option)}"
        yield f"{excluded}{name}{joint}[{explanation}]:{value}"


def _zsh_action(parameter: Parameter) -> str:
    if parameter.choices:
        return f"({' '.join(parameter.choices)})"
    if parameter.is_known:
        return f" _kipctl_values {_quote(parameter.value)}"
    return "_files" if parameter.is_path else " "


def _zsh_colons(text: str) -> str:
    return text.replace(":", "\\:")


_FISH = """\
# Completion of kipctl for fish.
{notice}
function __kipctl_at --description 'Whether the command line has come to the command given'
    set -l command kipctl
    for word in (commandline -opc)[2..]
        switch "$command $word"
            case {paths}
                set command "$command $word"
        end
    end
    test "$command" = "$argv"
end

function __kipctl_values --description 'Values that kipctl knows'
    kipctl __complete $argv[1] (commandline -cp) 2>/dev/null </dev/null
end

complete -c kipctl -f
"""


_FISH_KNOWN = '(__kipctl_values "%s")'


def fish(root: Command) -> str:
    """Return the script for fish 3 or newer."""
    paths = " ".join(_fish_quote(command.name) for command in root.walk() if command is not root)
    lines = [line for command in root.walk() for line in _fish_lines(command)]
    return _FISH.format(notice=_NOTICE, paths=paths) + "\n".join(lines) + "\n"


def _fish_lines(command: Command) -> Iterator[str]:
    at = f"complete -c kipctl -n {_fish_quote(f'__kipctl_at {command.name}')}"
    for held in command.commands:
        yield f"{at} -a {held.path[-1]} -d {_fish_quote(held.summary)}"
    for argument in command.arguments:
        if argument.choices:
            yield f"{at} -a {_fish_quote(' '.join(argument.choices))}"
        elif argument.is_known:
            yield f"{at} -a {_fish_quote(_FISH_KNOWN % argument.value)}"
        elif argument.is_path:
            yield f"{at} -F"
    for option in command.options:
        yield f"{at} {_fish_option(option)}"


def _fish_option(option: Parameter) -> str:
    parts = [
        f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names
    ]
    if option.choices:
        parts.append(f"-x -a {_fish_quote(' '.join(option.choices))}")
    elif option.is_known:
        parts.append(f"-x -a {_fish_quote(_FISH_KNOWN % option.value)}")
    elif option.is_path:
        parts.append("-r -F")
    elif option.value:
        parts.append("-x")
    return " ".join([*parts, "-d", _fish_quote(_first_sentence(option))])


def _fish_quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _first_sentence(option: Parameter) -> str:
    """What a menu shows: the first sentence of the help."""
    return " ".join(option.help.split()).split(". ")[0].removesuffix(".")


def _quote(text: str) -> str:
    return shlex.quote(text) if text else "''"
