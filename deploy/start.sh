#!/bin/sh
# Start a server in a container: create the corpus and first keys if there are none.
#   RECRAWL_CORPUS  folder of the corpus, /data/news by default
#   RECRAWL_BUDGET  budget of a new corpus, 6000/h by default
#   RECRAWL_CONFIG  file to copy as recrawl.toml of a new corpus, instead of the budget
# The keys are printed nowhere; they are in files beside the corpus, for its owner alone.
set -eu
umask 077
corpus=${RECRAWL_CORPUS:-/data/news}
if [ -n "${RECRAWL_CONFIG:-}" ]; then
    if [ ! -e "$corpus/recrawl.toml" ]; then
        mkdir -p "$corpus"
        cp "$RECRAWL_CONFIG" "$corpus/recrawl.toml"
    fi
    recrawl init "$corpus"
else
    recrawl init "$corpus" --budget "${RECRAWL_BUDGET:-6000/h}"
fi
create_key() { # create_key <scope>
    recrawl keys create -C "$corpus" --scope "$1" --name "first $1" --json |
        python -c "import json, sys; print(json.load(sys.stdin)['key'])" > "$corpus.$1.key"
}
if [ ! -e "$corpus/api-keys.json" ]; then
    create_key admin
    create_key read
fi
# exec, so that the server gets SIGTERM and can answer what it has begun.
exec recrawl serve -C "$corpus" --host "${RECRAWL_HOST:-0.0.0.0}" --port "${RECRAWL_PORT:-8377}" "$@"
