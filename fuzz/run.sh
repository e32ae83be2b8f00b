#!/usr/bin/env bash
# Fuzzes every reader, or the named ones, for SECONDS each, from the files of the repository:
#   fuzz/run.sh SECONDS [TARGET…]
# Needs cargo-fuzz (cargo install cargo-fuzz) and a C++ compiler. A finding stops the script; the
# input is in fuzz/artifacts.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds="${1:?how many seconds for each target}"
shift
targets=("$@")
if [ "${#targets[@]}" -eq 0 ]; then
  mapfile -t targets < <(sed -n 's/^name = "\(.*\)"$/\1/p' fuzz/Cargo.toml | grep -v quincunx)
fi
# The instrumentation needs flags that a stable compiler takes only so.
export RUSTC_BOOTSTRAP=1

# Copies the files that a target reads into its corpus.
seed() {
  local corpus="fuzz/corpus/$1"
  mkdir -p "$corpus"
  case "$1" in
    onnx) find examples crates tests targets -name '*.onnx' -size -64k -exec cp -t "$corpus" {} + ;;
    graph_def) find crates -name '*.pb' -size -64k -exec cp -t "$corpus" {} + ;;
    widths | diff)
      # The examples of the book.
      sed -n '/^    weights/,/^    skip/s/^    //p' docs/quantisation.md > "$corpus/quantisation.toml"
      find tests/golden/dais -name '*.json' -size -8k -exec cp -t "$corpus" {} +
      ;;
    arrays) find examples crates tests \( -name '*.npy' -o -name '*.npz' \) -size -64k -exec cp -t "$corpus" {} + ;;
    dais_binary) find tests/golden/dais -name '*.bin' -size -64k -exec cp -t "$corpus" {} + ;;
    dais_json) find tests/golden/dais -name '*.json' -size -64k -exec cp -t "$corpus" {} + ;;
    dais_text)
      for program in tests/golden/dais/ops/*.bin; do
        cargo run --quiet --release -- disasm "$program" -o "$corpus/$(basename "$program").dais"
      done
      ;;
    program_folder)
      local place
      place="$(mktemp -d)"
      cargo run --quiet --release -- compile examples/digits/digits_pow2.onnx --target dais -o "$place/program" > /dev/null
      cp "$place/program/program.json" "$corpus/"
      rm -r "$place"
      ;;
  esac
}

for target in "${targets[@]}"; do
  seed "$target"
  # 5 s and 512 MiB bound every reader. Seconds are wall-clock: a machine that does other work
  # needs more (FUZZ_TIMEOUT).
  cargo fuzz run --release --sanitizer "${QUINCUNX_SANITIZER:-address}" "$target" -- \
    -max_total_time="$seconds" -timeout="${FUZZ_TIMEOUT:-5}" -rss_limit_mb=1024 -malloc_limit_mb=512 \
    -max_len=65536 -print_final_stats=1
done
