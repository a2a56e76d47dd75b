#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The tables of test_program.c find wrong edits of what they are about. Each line of the list is a file and a sed
# command, applied to a copy, compiled and tested alone. Fails if an edit changes nothing, or if more than 2 are not
# found. Links no device: the three functions that are needed for a program with operations and nodes are empty.
set -euo pipefail
cd "$(dirname "$0")/../../.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
flags=(-std=gnu17 -O0 -D_GNU_SOURCE -I.)
mkdir "$dir/objects"
for source in impl/step/tests/test_program.c impl/step/program/{program,order,match,names}.c \
  common/base/{status,grow,numbers,escape}.c common/device/op_list.c; do
  cc "${flags[@]}" -c "$source" -o "$dir/objects/$(basename "$source" .c).o"
done
cat >"$dir/empty.c" <<'C'
void ls_op_free(void);
void ls_op_free(void) {}
void *ls_queue_enqueue(void);
void *ls_queue_enqueue(void) { return 0; }
void *ls_graph_node_name(void);
void *ls_graph_node_name(void) { return 0; }
C
cc "${flags[@]}" -c "$dir/empty.c" -o "$dir/objects/empty.o"
link() { cc "$dir"/objects/*.o -lcmocka -lm -o "$dir/test" 2>"$dir/err"; }
link || { head -n 20 "$dir/err"; exit 1; }
"$dir/test" >/dev/null 2>&1 || { echo "the tables fail without an edit"; exit 1; }
edits=0 missed=0
while IFS='	' read -r file edit; do
  [ -n "$file" ] || continue
  edits=$((edits + 1))
  sed -E "$edit" "impl/step/program/$file.c" >"$dir/$file.c"
  ! cmp -s "$dir/$file.c" "impl/step/program/$file.c" || { echo "changes nothing: $file: $edit"; exit 1; }
  cp "$dir/objects/$file.o" "$dir/kept.o"
  cc "${flags[@]}" -c "$dir/$file.c" -o "$dir/objects/$file.o" 2>"$dir/err" || { head -n 3 "$dir/err"; exit 1; }
  link
  if timeout 5 "$dir/test" >/dev/null 2>&1; then
    missed=$((missed + 1))
    echo "not found: $file: $edit"
  fi
  mv "$dir/kept.o" "$dir/objects/$file.o"
done <<'EDITS'
order	s/u->parent\[root\(u->parent, u->program->tasks\[earlier\]\.lane\)\] = root\(u->parent, u->lane\);/(void)u;/
order	s/task\[-1\]\.call == task->call/true/
order	s/if \(t && task->call >= 0/if (t/
order	s/c->driver = programs\[kind\].tasks\[t\]\.lane;/c->driver = c->driver ? c->driver : programs[kind].tasks[t].lane;/
order	s/for \(int kind = count; kind-- > 0;\)/for (int kind = 0; kind < count; kind++)/
order	s/c->has\[kind\] = true/c->has[0] = true/
order	s/earlier \+ 1 > \*wanted \?/earlier + 1 < *wanted ?/
order	s/> (o->wanted\[o->lanes\[latest\]\])/< \1/
order	s/o->last\[component\] == o->sweep\.next/false/
order	s/if \(all->component\[l\] == component \&\& /if (/
order	s/task->waits\.first = p->wait_count;//
order	s/if \(sweep_knows\(&o->sweep, wanted - 1\)\)/if (false)/
order	s/sweep_hear\(&o->sweep, wanted - 1\);//
order	s/!o->sweep\.before && //
order	s/ && task->lane != all->items\[component\]\.driver//
order	s/!task->waits\.count && task->lane/task->lane/
order	s/LS_TRY\(check_driver\(o, c\)\);//
order	s/note_reader\(w, i\)/LS_OK/
order	s/if \(w->writer\[i\]\)/if (w->writer[i] \&\& !access->writes)/
order	s/w->writer\[i\] = w->task \+ 1;//
order	s/for \(size_t r = w->readers\[i\]; r; r = w->pool\[r - 1\]\.next\)/for (size_t r = 0; r; r = w->pool[r - 1].next)/
order	s/for \(; w->cuts\[i\] < end; i\+\+\)/for (size_t once = 1; once; once = 0)/
order	s/for \(; w->cuts\[i\] < end; i\+\+\)/for (; w->cuts[i] <= end; i++)/
order	s/w->cut_count, sizeof \*w->cuts\) - 1;/w->cut_count, sizeof *w->cuts);/
order	s/if \(w->before && w->size\)/if (false)/
order	s/w->clock\[l\] = clock\[l\] > w->clock\[l\] \? clock\[l\] : w->clock\[l\];/w->clock[l] = clock[l];/
order	s/> earlier;/>= earlier;/
order	s/if \(lane_of\(w, w->pool\[r - 1\]\.task\) != lane_of\(w, w->task\)\)/if (false)/
match	s/ \|\| !is_free\(p, other\)//
match	s/next_on\(p, task->lane\) != task \|\| !is_free\(p, task\)/next_on(p, task->lane) != task/
match	s/other->end\.peer != member_of\(p, task\) \|\|//
match	s/other->end\.sent != task->end\.received/false/
match	s/other->range\.first != task->range\.first \|\|//
match	s/strcmp\(other->verb, task->verb\) != 0 \|\|//
match	s/o->sends < end->received/false/
match	s/end->announces && is_owed\(p, task\)/false/
match	s/if \(!p->done\[t\]\)/if (false)/
match	s/if \(o && \(o->sends \|\| o->receives\)\)/if (false)/
match	s/strcmp\(task->verb, "end"\) != 0/false/
match	s/ && tasks\[next - 1\]\.copy\.to/ \&\& false/
EDITS
echo "$((edits - missed)) of $edits wrong edits were found"
[ "$edits" -ge 30 ] && [ "$missed" -le 2 ]
