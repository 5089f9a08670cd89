"""The man pages and the shell completions, made from the commands themselves."""

from kipctl.generate.commands import command_tree
from kipctl.generate.completions import bash, fish, zsh
from kipctl.generate.man import pages


def generated_files() -> dict[str, str]:
    """Every generated file: its path below the repository, and its text."""
    root = command_tree()
    return {f"man/{name}": page for name, page in pages(root).items()} | {
        "completions/kipctl.bash": bash(root),
        "completions/_kipctl": zsh(root),
        "completions/kipctl.fish": fish(root),
    }
