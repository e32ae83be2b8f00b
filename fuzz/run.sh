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
    formats)
      printf '0.5,-1e9,"3"\r\n4,5,6\n' > "$corpus/rows.csv"
      printf 'P2 2 2 255\n1 2\n3 4\n' > "$corpus/text.pgm"
      printf 'P5 2 2 255\nabcd' > "$corpus/binary.pgm"
      find examples tests docs -name '*.p[ng][gm]' -size -64k -exec cp -t "$corpus" {} +
      ;;
    dais_binary) find tests/golden/dais -name '*.bin' -size -64k -exec cp -t "$corpus" {} + ;;
    dais_alir) find tests/golden/dais/alir4 \( -name '*.json*' -o -name '*.bytecode' \) -size -64k -exec cp -t "$corpus" {} + ;;
    dais_json) find tests/golden/dais -name '*.json' -size -64k -exec cp -t "$corpus" {} + ;;
    dais_text)
      for program in tests/golden/dais/ops/*.bin; do
        cargo run --quiet --release -- disasm "$program" -o "$corpus/$(basename "$program").dais"
      done
      ;;
    scamp_text) cp examples/scamp/*.txt tests/golden/scamp/*.txt "$corpus/" ;;
    scamp_kernels) cp tests/golden/scamp/cain_inputs/*.json "$corpus/" ;;
    tcu_files)
      # The first byte is the kind of the file, as the target numbers them.
      local kind=0 extension file
      for extension in tprog tmodel tdata; do
        for file in tests/golden/tcu/compiled/*."$extension"; do
          { printf "\\x0$kind"; cat "$file"; } > "$corpus/$(basename "$file")"
        done
        kind=$((kind + 1))
      done
      { printf '\x04'; printf 'NoOp\nMatMul(Acc) Local(0)@2^1 Acc(0) 2(+1)\nSIMD(RW) Acc(1) Acc(0) R1=Max(I,R1)\n'; } > "$corpus/text"
      ;;
    dpas_text | dpas_binary)
      # Texts of golden cases, and what they assemble to.
      python3 - "$corpus" "$1" << 'PYTHON'
import json, pathlib, sys
corpus, name = pathlib.Path(sys.argv[1]), sys.argv[2]
golden = pathlib.Path("tests/golden/dpas")
cases = lambda file: json.loads((golden / file).read_text())["cases"]
if name == "dpas_text":
    for index, case in enumerate(cases("visa_text.json")):
        (corpus / f"visa{index}").write_text(case["visaasm"])
    for index, case in enumerate(cases("swsb_auto.json")):
        (corpus / f"swsb{index}").write_text("\n".join(case["output"]))
else:
    for index, case in enumerate(cases("native_xehpc.json")):
        (corpus / f"native{index}").write_bytes(bytes.fromhex(case["hex"]))
    for index, case in enumerate(cases("visa_binary.json")):
        (corpus / f"visa{index}").write_bytes(bytes.fromhex(case["hex_doc"]))
PYTHON
      ;;
    npu_text) cp tests/golden/npu/fragments/*.asm.txt "$corpus/" ;;
    npu_binary)
      for program in tests/golden/npu/fragments/*.asm.txt; do
        cargo run --quiet --release -- asm "$program" -o "$corpus/$(basename "$program").qnpu" || true
      done
      ;;
    npu_json) find tests/golden/npu -name '*.json' -size -64k -exec cp -t "$corpus" {} + ;;
    npu_derive)
      (cd tests/golden/npu/derived && printf '%s\0' "$(< pair.scheduler.json)" "$(< pair.frontend.json)") \
        > "$corpus/pair"
      ;;
    program_folder)
      local place
      place="$(mktemp -d)"
      cargo run --quiet --release -- compile examples/digits/digits_pow2.onnx --target dais -o "$place/program" > /dev/null
      cp "$place/program/program.json" examples/dais/*.dasm "$corpus/"
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
