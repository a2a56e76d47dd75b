#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A gate on a GPU runner, from checkout to verdict, on a fake GPU (preset fake): what ci/action's action.yml, gitlab.yml
# and, for GitHub, the README's five lines say, for a repository whose program trains on gpu:0. Leaves out GitHub and
# GitLab themselves.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
python3 -c 'import yaml' 2>/dev/null || { echo "skipped: no python3-yaml, which reads the action's files"; exit 77; }
export GIT_CONFIG_GLOBAL=$work/gitconfig GIT_CONFIG_NOSYSTEM=1
git config --global user.name tester
git config --global user.email tester@localhost

# The change takes three times as long. Times are made up, so that a busy machine decides the same.
git init -q origin
cat >origin/mine <<P
#!/bin/bash
"$LOCKSTEP" "\$@" | python3 -c 'import json, sys
for line in sys.stdin:
    row = json.loads(line)
    step = row["time"]["step_ms"]
    step.update(dict.fromkeys(step.keys() - {"n", "ci95"}, FACTOR * 100.0), ci95=2 * [FACTOR * 100.0])
    print(json.dumps(row))'
P
printf 'all:\n\tmkdir -p build && sed "s/FACTOR/$$(cat factor)/g" mine >build/mine && chmod +x build/mine\n' >origin/Makefile
printf '/build/\n/lockstep-regress/\n' >origin/.gitignore
for factor in 1 1.0 3; do
    echo "$factor" >origin/factor
    git -C origin add -A
    git -C origin commit -qm "takes $factor times as long"
done
cat >job.py <<'P'
import re, sys, yaml
kind, root, given = sys.argv[1], sys.argv[2], dict(word.split("=", 1) for word in sys.argv[3:])
if kind == "github":
    lines, = [text for text in re.findall("```yaml\n(.*?)```", open(root + "/ci/action/README.md").read(), re.S)
              if "gpu" in text]
    assert lines.count("\n") == 5
    used = yaml.safe_load(lines)["speed"]["steps"][1]["with"]
    given = used | given | {"options": used["options"] + " " + given["options"]}
    action = yaml.safe_load(open(root + "/ci/action/action.yml"))
    values = {name: given.get(name, one.get("default", "")) for name, one in action["inputs"].items()}
    step, = [one for one in action["runs"]["steps"] if one.get("id") == "compare"]
    for name, text in step["env"].items():
        print(f"export {name}='{re.sub(r'[$]{{ inputs[.](.*?) }}', lambda found: values[found[1]], text)}'")
    print(f"export GITHUB_ACTION_PATH='{root}/ci/action'\n{step['run']}")
else:
    job = yaml.safe_load(open(root + "/ci/action/gitlab.yml"))[".lockstep-regress"]
    for name, text in (job["variables"] | given).items():
        print(f"export {name}='{text}'")
    print("\n".join(job["script"]).replace("/opt/lockstep", root))
P
options="--model mlp:784-16-10 --data synthetic:320 --batch 32 --steps 3 --max-time 600s"

# verdict KIND FROM TO WORD=VALUE...: the job of the change from one commit to another, in a checkout of its own
verdict() {
    local kind=$1 from to
    from=$(git -C origin rev-parse "$2") to=$(git -C origin rev-parse "$3")
    rm -rf checkout && git clone -q origin checkout && git -C checkout checkout -q "$to"
    command_line="($kind) $2 to $3"
    code=0
    (cd checkout && python3 "$work/job.py" "$kind" "$SOURCE_DIR" "${@:4}" >"$work/job" &&
        CI_MERGE_REQUEST_DIFF_BASE_SHA=$from LOCKSTEP=$LOCKSTEP bash -e <(sed "s/BASE_OF_JOB/$from/" "$work/job")) \
        >out 2>err </dev/null || code=$?
}
github=("options=$options" base=BASE_OF_JOB "lockstep=$LOCKSTEP")
verdict github HEAD~1 HEAD "${github[@]}"
expect "GitHub's job fails for a slower change" [ "$code" -eq 1 ]
expect "and says so first" grep -q '^\*\*Performance: slower' checkout/lockstep-regress/report.md
expect "the rows are of the GPU" grep -q 'gpu:0' checkout/lockstep-regress/rows/rows.jsonl
verdict github HEAD~2 HEAD~1 "${github[@]}"
expect "it passes for an equal one" [ "$code" -eq 0 ]
verdict gitlab HEAD~1 HEAD LOCKSTEP_PROGRAM=build/mine "LOCKSTEP_REGRESS=$options --devices gpu:0 --threshold 5%"
expect "GitLab's job fails likewise" [ "$code" -eq 1 ]
expect "with a report for its page" grep -q '<failure' checkout/lockstep-regress/report.junit
finish
