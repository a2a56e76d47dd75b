#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Regression over commits: ci/bisect.sh, ci/regress.sh and ci/renew-baseline.sh on a scratch repository whose
# "builds" are scripts with fixed times, slower from one commit on. The workflow files must be valid YAML whose jobs
# run existing scripts. Leaves out real builds, and how CI's machines read the files.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
: "${SOURCE_DIR:?folder of the sources}"

export GIT_CONFIG_GLOBAL=$work/gitconfig GIT_CONFIG_NOSYSTEM=1 TMPDIR=$work/tmp
mkdir "$TMPDIR"
git config --global user.name tester
git config --global user.email tester@localhost
git config --global init.defaultBranch main

"$LOCKSTEP" run --model poly --steps 20 --warmup 1 --format jsonl --results none >row.jsonl 2>err
sed -i -E 's/"median": *[0-9.e-]+/"median":@MS@/; s/"id": *"[^"]*"/"id":"@ID@"/' row.jsonl

# A repository whose program prints rows of $TIME us; `regress` and everything else is the real program's.
git init -q repo
cd repo
cp ../row.jsonl .
mkdir -p ci bench/plans
cp "$SOURCE_DIR"/ci/bisect.sh "$SOURCE_DIR"/ci/regress.sh "$SOURCE_DIR"/ci/renew-baseline.sh ci/
cp "$SOURCE_DIR"/bench/plans/ci.yaml bench/plans/
printf '/build/\n/out*/\n' >.gitignore
cat >make.sh <<P
#!/bin/bash
. ./settings
[ -z "\$BROKEN" ] || { echo "error: this library is missing"; seq 20; exit 1; }
mkdir -p build
cat >build/lockstep <<S
#!/bin/bash
[ "\\\$1" != regress ] || exec "$LOCKSTEP" "\\\$@"
[ -z "\$OLD" ] || { echo "lockstep: option: --plan: unknown option" >&2; exit 2; }
for option; do [[ \\\$option != *own.yaml ]] || [ -e "\\\${option#*=}" ] || exit 3; done
n=\\\$(cat \$PWD/build/count 2>/dev/null || echo 0)
echo \\\$((n + 1)) >\$PWD/build/count
row=\\\$(<\$PWD/row.jsonl)
for option; do [[ \\\$option != --label=* ]] || row="{\\\"label\\\":\\\"\\\${option#*=}\\\",\\\${row#\{}"; done
row=\\\${row//@MS@/0.\\\$(printf %06d \\\$((\$TIME + \$TIME * (n * 7 % 11) / 2000)))}
echo "\\\${row//@ID@/\\\$RANDOM\\\$RANDOM-\\\$n}"
S
chmod +x build/lockstep
P
chmod +x make.sh
commit() { # SUBJECT SETTINGS
    printf 'TIME=200000\nBROKEN=\nOLD=\n%s\n' "$2" >settings
    git add -A
    git commit -qm "$1"
    git rev-parse HEAD
}
first=$(commit "one" "" )
commit "two" "# 2" >/dev/null
commit "three" "# 3" >/dev/null
slow=$(commit "four is slower" "TIME=220000")
commit "five does not build" "TIME=220000 BROKEN=1" >/dev/null
last=$(commit "six" "TIME=221000")

# ---- Bisection --------------------------------------------------------------------------------

bisect() {
    code=0
    command_line="(ci/bisect.sh $*)"
    LOCKSTEP=$real ci/bisect.sh "$1" "$2" --build ./make.sh --quiet --results none --max-time 200s "${@:3}" \
        >"$work/out" 2>"$work/err" || code=$?
}
real=$LOCKSTEP
bisect "$first" "$last" --model poly
expect "bisect: status 1" [ "$code" -eq 1 ]
expect "bisect: the commit" grep -qx "slower since $slow four is slower" "$work/out"
if thorough; then
    mkdir out-plans
    printf 'model: poly\nsteps: 20\n' >out-plans/own.yaml
    bisect "$first" HEAD~2 --plan out-plans/own.yaml # which no commit has
    expect "bisect: with a plan of this folder: status 1" [ "$code" -eq 1 ]
    expect "bisect: up to the commit itself" grep -qx "slower since $slow four is slower" "$work/out"
fi
bisect "$first" HEAD~4
expect "bisect: nothing is slower: status 0" [ "$code" -eq 0 ]
expect "bisect: it says so" grep -q 'is neither slower nor worse than' "$work/out"
bisect "$first" HEAD~1
expect "bisect: the bad one does not build: status 3" [ "$code" -eq 3 ]
bisect "$last" "$first"
expect "bisect: no commit between: status 2" [ "$code" -eq 2 ]
bisect nothing "$last"
expect "bisect: no such commit: status 3" [ "$code" -eq 3 ]
code=0
timeout --signal=INT 2 ci/bisect.sh "$first" "$last" --build 'sleep 30' >"$work/out" 2>"$work/err" || code=$?
expect "bisect: no work trees are left, of an interrupted one either" [ "$(git worktree list | wc -l)/$(ls "$TMPDIR" | wc -l)" = 1/0 ]
if thorough; then
    git checkout -q -b range "$slow~1"
    commit "broken and slower" "TIME=220000 BROKEN=1" >/dev/null
    commit "mended" "TIME=220000" >/dev/null
    bisect "$first" HEAD
    expect "bisect: a range: status 4" [ "$code" -eq 4 ]
    expect "bisect: a range is said" grep -q 'slower since one of these 2 commits' "$work/out"
fi

# ---- ci/regress.sh ----------------------------------------------------------------------------

export LOCKSTEP_BUILD=./make.sh LOCKSTEP_REGRESS="--model poly --max-time 200s"
script() {
    code=0
    command_line="(ci/regress.sh $*)"
    ci/regress.sh "$@" >"$work/out" 2>"$work/err" || code=$?
}
git checkout -q main
script "$first" out
expect "a planted slowdown: status 1" [ "$code" -eq 1 ]
expect "its comment has the verdict first" grep -q '^\*\*Performance: slower' <(head -n 1 out/report.md)
expect "all reports are there" [ -s out/report.json -a -s out/report.junit -a -s out/report.github -a -s out/rows.db ]
git checkout -q "$slow~1"
GITHUB_ACTIONS=true GITHUB_STEP_SUMMARY=$work/summary script --ci "$first" out
expect "no slowdown: status 0" [ "$code" -eq 0 ]
expect "an annotation" grep -q '^::notice title=lockstep regress::' "$work/out"
expect "a summary" grep -q '^\*\*Performance: same' "$work/summary"
git checkout -q -b larger "$first"
sed -i -E 's/("formula": *\{"parameters": *)/\11/' row.jsonl
commit "larger" "" >/dev/null
script "$first"
expect "more memory: status 1" [ "$code" -eq 1 ]
mkdir -p results/baselines
sed 's/^{/{"label": "intended memory.formula: a reason", /' row.jsonl >results/baselines/this.jsonl
commit "renewed" "" >/dev/null
script "$first"
expect "more memory that a renewed baseline means: status 0" [ "$code" -eq 0 ]
git checkout -q -b after-broken main~1
commit "mended" "" >/dev/null
script HEAD~1
expect "a base that does not build: status 3" [ "$code" -eq 3 ]
expect "with what the build said" grep -q 'error: this library is missing' "$work/err"
script --ci HEAD~1
expect "with --ci it is no failure" [ "$code" -eq 0 ]
expect "and is said" grep -q 'not compared.*does not build' "$work/out"
mkdir -p "$work/kept/$(git rev-parse HEAD~1)"
cp build/lockstep "$work/kept/$(git rev-parse HEAD~1)/"
LOCKSTEP_KEPT=$work/kept script HEAD~1
expect "a kept program of the base is not built" eval '[ "$code" -eq 0 ] && grep -q "^\*\*Performance: same" "$work/out"'
expect "and this commit's is kept" [ -x "$work/kept/$(git rev-parse HEAD)/lockstep" ]
git checkout -q -b after-old "$first"
commit "old" "OLD=1" >/dev/null
commit "not old" "" >/dev/null
script --ci HEAD~1
expect "with --ci a base too old for an option is no failure" [ "$code" -eq 0 ]
expect "and is said" grep -q 'too old for an option: option: --plan' "$work/out"
if thorough; then
    git checkout -q -b all-old "$first"
    commit "old" "OLD=1" >/dev/null
    commit "old, too" "OLD=1 #" >/dev/null
    script HEAD~1
    expect "options that neither takes are the change's fault: status 3" [ "$code" -eq 3 ]
    expect "and the report says so" grep -q '^\*\*Performance: not compared.*refuses the options' build/regress/report.md
fi
git checkout -q after-old
commit "breaks" "BROKEN=1" >/dev/null
script HEAD~1
expect "a tree that does not build: status 3" [ "$code" -eq 3 ]
script nothing
expect "no such base: status 3" [ "$code" -eq 3 ]
script --ci ""
expect "with --ci an empty base is none" [ "$code" -eq 0 ]
script --ci 0000000000000000000000000000000000000000
expect "with --ci the first push has no base" [ "$code" -eq 0 ]
mkdir bare
for tool in bash dirname git mkdir; do ln -s "$(command -v $tool)" bare/; done
rm -f build/lockstep
for options in --instructions "--instructions yes --quiet" "--quiet --instructions=yes" "--instructions --quiet"; do
    PATH=$PWD/bare LOCKSTEP_REGRESS=$options script "$first"
    expect "$options: without valgrind status 3" [ "$code" -eq 3 ]
    expect "which is said before anything is built" eval 'grep -q "install valgrind" "$work/err" && [ ! -e build/lockstep ]'
done
for options in "--instructions no" "--instructions=no --quiet"; do
    PATH=$PWD/bare LOCKSTEP_REGRESS=$options script "$first"
    expect "$options: does not ask for valgrind" eval '! grep -q valgrind "$work/err"'
done
rm -r bare
expect "no work trees are left" [ "$(git worktree list | wc -l)" -eq 1 ]

# ---- ci/renew-baseline.sh ---------------------------------------------------------------------

git checkout -q main
./make.sh
expect "a baseline is made" ci/renew-baseline.sh "first figures" >"$work/out" 2>"$work/err"
baseline=$(ls results/baselines/*.jsonl)
expect "its class is the machine's" grep -qE '^results/baselines/[a-z0-9-]*cores\.jsonl$' <<<"$baseline"
expect "and again, with what changes" ci/renew-baseline.sh "second figures" >"$work/out" 2>"$work/err"
expect "it is compared with the one before" grep -q '^case ' "$work/out"
expect "it says why" grep -q 'because: second figures' "$work/out"
expect "a reason is wanted" sh -c '! ci/renew-baseline.sh 2>/dev/null'
expect "nothing else is left" [ "$(ls results/baselines | wc -l)" -eq 1 ]

# ---- ci/action: another repository, whose program prints rows of its own ------------------------

cd "$work"
git init -q other
cd other
cat >mine <<'P'
#!/bin/bash
ms=TIME$((RANDOM % 10))
row='"schema": 1, "timestamp": "2026-11-20T00:00:00Z", "command": "mine", "case": {"model": "words", "strategy": "mine"}'
row+=', "result": {"status": "ok"}, "time": {"samples_per_s": 1.0, "samples_per_s_mean": 1.0, "step_ms": {"mean": MS, '
row+='"median": MS, "p10": MS, "p90": MS, "p99": MS, "ci95": [1.9, 2.6], "n": 9}}'
echo "{\"id\": \"$RANDOM-$RANDOM-$$\", ${row//MS/$ms}}"
P
printf '/bin/\n/out/\n' >.gitignore
printf 'all:\n\tmkdir -p bin && sed "s/TIME/$$(cat time)/" mine >bin/mine && chmod +x bin/mine\n' >Makefile
for time in 2.00 2.50; do
    echo $time >time
    git add -A
    git commit -qm "$time ms"
done
other() {
    code=0
    command_line="(compare.sh $*)"
    LOCKSTEP_BUILD=make LOCKSTEP_PROGRAM=bin/mine LOCKSTEP_REGRESS="--max-time 100s --fail-on undecided=3" \
        "$SOURCE_DIR/ci/action/compare.sh" "$@" >"$work/out" 2>"$work/err" || code=$?
}
other HEAD~1 out
expect "another program that is slower: status 1" [ "$code" -eq 1 ]
expect "its report" grep -q '^\*\*Performance: slower' out/report.md
expect "with a page" [ -s out/rows/index.html ]

# ---- Workflow files ---------------------------------------------------------------------------

cd "$work"
: >every.rows # of programs that do not exist
cat >read.py <<'P'
import os, re, sys, yaml
root = sys.argv[1]
github = yaml.safe_load(open(root + "/.github/workflows/ci.yml"))
gitlab = yaml.safe_load(open(root + "/.gitlab-ci.yml"))
scripts = []
for job in ("cpu", "gpu"):
    one = github["jobs"][job]
    assert "runs-on" in one and one["steps"], job
    scripts += [step["run"] for step in one["steps"] if "run" in step]
    assert any(step.get("uses", "").startswith("actions/upload-artifact@") for step in one["steps"])
    scripts += gitlab[job]["script"]
assert "self-hosted" in github["jobs"]["gpu"]["runs-on"] and True in github and gitlab["gpu"]["tags"]
releases = [str(release) for release in github["jobs"]["cpu"]["strategy"]["matrix"]["debian"]]
assert releases == gitlab["cpu"]["parallel"]["matrix"][0]["DEBIAN"] == ["12", "13"]
for text in scripts:
    for path in re.findall(r"\b(?:ci|bench)/[\w./-]+", text):
        assert os.path.exists(os.path.join(root, path)), path
assert sum("ci/regress.sh --ci" in text for text in scripts) == 4
action = yaml.safe_load(open(root + "/ci/action/action.yml"))
template = yaml.safe_load(open(root + "/ci/action/gitlab.yml"))
steps = action["runs"]["steps"]
used = set(re.findall(r"inputs\.(\w+)", str(steps)))
assert action["runs"]["using"] == "composite" and used == set(action["inputs"]), used
assert all("shell" in step for step in steps if "run" in step)
for text in [step.get("run", "") for step in steps] + template[".lockstep-regress"]["script"]:
    assert "compare.sh" not in text or os.path.exists(root + "/ci/action/compare.sh")
P
if python3 -c 'import yaml' 2>/dev/null; then
    expect "the workflow files" python3 read.py "$SOURCE_DIR"
else
    echo "note: python3-yaml is not here; the workflow files are not read"
fi
if command -v check-jsonschema >/dev/null; then # a package of PyPI
    expect "GitHub's schema" check-jsonschema --builtin-schema vendor.github-workflows "$SOURCE_DIR/.github/workflows/ci.yml"
    expect "GitLab's schema" check-jsonschema --builtin-schema vendor.gitlab-ci --data-transform gitlab-ci "$SOURCE_DIR/.gitlab-ci.yml"
else
    echo "note: check-jsonschema is not here; the workflow files are not held against their schemas"
fi
finish
