#!/bin/sh
# deploy/install.sh PYTHON EXTRAS: make .venv hold this project and exactly the pinned packages; at once if it does.
# What pip is configured with (index, find-links, certificates) holds for uv, too, which does not read it by itself.
set -eu
cd "$(dirname "$0")/.."
python=$1 extras=$2

say() { printf '%s\n' "$*" >&2; }

"$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null || {
  say "batch-assets needs Python 3.11 (vLLM's CPU wheel is built for it alone); '$python' is $("$python" --version 2>&1 || true)."
  say "Install python3.11, or name it: make PYTHON=path/to/python3.11"
  exit 1
}

# One installation at a time in one clone: the second one waits, then finds the stamp.
mkdir -p build
exec 9>build/install.lock
if command -v flock >/dev/null; then flock 9; fi

wanted=$({ pwd; cat pyproject.toml deploy/*.txt deploy/install.sh; } | "$python" -c \
  'import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())')
stamp=.venv/.installed-$(printf %s "$extras" | tr , -)
for found in "$stamp"*; do # an installation with more extras will do
  if [ -f "$found" ] && [ "$(cat "$found")" = "$wanted" ]; then exit 0; fi
done

# A virtual environment that was moved or half made is made anew; its packages are in uv's cache.
if ! .venv/bin/pip --version >/dev/null 2>&1; then
  say "Creating .venv"
  "$python" -m venv --clear .venv || {
    say "The venv module does not work here (on Debian and Ubuntu: apt-get install python3.11-venv)."
    exit 1
  }
fi
.venv/bin/python -c 'import uv' 2>/dev/null || .venv/bin/pip install --quiet "$(grep '^uv==' deploy/constraints.txt)"

pip_setting() { .venv/bin/pip config get "global.$1" 2>/dev/null || true; }
[ -n "${UV_FIND_LINKS:-}" ] || UV_FIND_LINKS=$(printf %s "${PIP_FIND_LINKS:-$(pip_setting find-links)}" | tr ' ' ,)
[ -n "${UV_DEFAULT_INDEX:-}" ] || UV_DEFAULT_INDEX=${PIP_INDEX_URL:-$(pip_setting index-url)}
[ -n "${SSL_CERT_FILE:-}" ] || SSL_CERT_FILE=${PIP_CERT:-$(pip_setting cert)}
for name in UV_FIND_LINKS UV_DEFAULT_INDEX SSL_CERT_FILE; do
  eval "value=\$$name"
  if [ -n "$value" ]; then export "${name?}"; else unset "$name"; fi
done
export UV_HTTP_TIMEOUT="${UV_HTTP_TIMEOUT:-180}"
set --
# PyTorch's index also holds old copies of common packages, so the best match must win, not the first index.
if [ -n "${TORCH_INDEX:-}" ]; then set -- --index "$TORCH_INDEX" --index-strategy unsafe-best-match; fi

say "Installing batch-assets[$extras] into .venv (about a minute; several if the packages are not cached)"
.venv/bin/uv pip install --quiet --python .venv/bin/python --compile-bytecode \
  --override deploy/overrides.txt --constraint deploy/constraints.txt "$@" --editable ".[$extras]" || {
  say
  say "The installation failed. If it did not find torch: the CPU build is not on PyPI. Put its wheel into a folder"
  say "and set UV_FIND_LINKS to it, or set TORCH_INDEX to PyTorch's CPU wheel index (README, section Installing)."
  exit 1
}
printf %s "$wanted" > "$stamp"
