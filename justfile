# What contributors run; `just` alone lists the recipes.

default:
    @just --list

# style, format, generated pages, news fragments
lint:
    ruff check .
    ruff format --check .
    python -m scripts.paper_map --check
    python -m scripts.config_reference --check
    python -m scripts.event_reference --check
    python -m scripts.cli_reference --check
    python -m scripts.measured_page --check
    python -m scripts.call_paths --check
    python -m lab pages --check
    towncrier build --draft --version next > /dev/null

# types, strictly
types:
    mypy

# direction of imports
layers:
    lint-imports

# the quick tests, on all cores: no broker, no recorded data, nothing slow
test *arguments:
    PYTHONDONTWRITEBYTECODE= pytest -n auto -m "not kafka and not data and not slow" {{arguments}}

# all tests, on all cores; the tests of Kafka need Java
test-all *arguments:
    PYTHONDONTWRITEBYTECODE= pytest -n auto {{arguments}}

# the tests of the package with kernels interpreted, and what they reach
test-nojit:
    NUMBA_DISABLE_JIT=1 coverage run -m pytest --ignore=tests/unit/benchmarks --ignore=tests/unit/lab tests/unit tests/simulation
    coverage report

# write requirements-dev.lock anew; `just lock --upgrade` for newer versions
lock *options:
    uv pip compile pyproject.toml --group dev --universal --python-version 3.11 --generate-hashes --quiet {{options}} --custom-compile-command "uv pip compile pyproject.toml --group dev --universal --python-version 3.11 --generate-hashes --output-file requirements-dev.lock" --output-file requirements-dev.lock

# the documentation; warnings are errors
docs:
    sphinx-build -W --keep-going -b html docs docs/_build/html

# write the generated pages
generate:
    python -m scripts.paper_map
    python -m scripts.config_reference
    python -m scripts.event_reference
    python -m scripts.cli_reference
    python -m scripts.measured_page
    python -m scripts.call_paths
    python -m lab pages

# benchmarks of the kernels
bench:
    python -m benchmarks kernels

# everything, in fresh environments, against the built wheel
ci:
    .ci/run
