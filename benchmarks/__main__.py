"""Run a measurement by name and print it as JSON: ``python -m benchmarks kernels``."""

import argparse
import json

from benchmarks import kernels, learning


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    kernel_command = commands.add_parser("kernels", help=kernels.__doc__)
    kernel_command.add_argument("--scale", type=float, default=1.0, help="share of the usual rows")
    learning_command = commands.add_parser("learning", help=learning.__doc__)
    learning_command.add_argument("--webs", type=int, default=3, help="webs per setting")
    learning_command.add_argument(
        "--horizon", type=float, default=1.0, help="share of the usual horizons"
    )
    arguments = parser.parse_args()
    if arguments.command == "kernels":
        measured = kernels.measure(arguments.scale)
    else:
        measured = learning.measure(arguments.webs, arguments.horizon)
    print(json.dumps(measured, indent=2))


if __name__ == "__main__":
    main()
