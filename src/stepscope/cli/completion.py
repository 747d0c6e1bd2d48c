"""`stepscope completion`: the script that lets a shell complete verbs, options and files."""

from __future__ import annotations

import click


@click.command("completion", short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
def command(shell: str) -> None:
    """Print the completion script for a shell.

    \b
    Examples:
      source <(stepscope completion bash)           in ~/.bashrc
      source <(stepscope completion zsh)            in ~/.zshrc
      stepscope completion fish > ~/.config/fish/completions/stepscope.fish
    """
    from click.shell_completion import get_completion_class

    from stepscope.cli.verbs import stepscope

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(stepscope, {}, "stepscope", "_STEPSCOPE_COMPLETE").source())
