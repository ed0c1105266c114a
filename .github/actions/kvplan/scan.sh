#!/usr/bin/env bash
# The scan of the action: annotations on standard output, a summary of the job, SARIF where it is asked for.
# Inputs come as INPUT_PATHS and INPUT_OPTIONS (one a line), INPUT_FAIL_ON and INPUT_SARIF; KVPLAN is the program.
set -uo pipefail

words=()
lines() {
  local line
  while IFS= read -r line || [[ -n $line ]]; do
    line=${line%$'\r'}
    if [[ $line =~ [^[:space:]] ]]; then words+=("$line"); fi
  done <<<"$1"
}

lines "${INPUT_OPTIONS:-}"
words+=(--format github)
if [[ -n ${GITHUB_STEP_SUMMARY:-} ]]; then words+=(--output-markdown "$GITHUB_STEP_SUMMARY"); fi
if [[ -n ${INPUT_FAIL_ON:-} ]]; then words+=(--fail-on "$INPUT_FAIL_ON"); fi
if [[ -n ${INPUT_SARIF:-} ]]; then words+=(--output-sarif "$INPUT_SARIF"); fi
words+=(--)
lines "${INPUT_PATHS:-.}"

"${KVPLAN:-kvplan}" scan "${words[@]}"
code=$?
if [[ -n ${GITHUB_OUTPUT:-} ]]; then echo "exit-code=$code" >>"$GITHUB_OUTPUT"; fi
exit "$code"
