#compdef lockstep
local -a commands
commands=(
{{#commands}}  '{{{name}}}:{{help:999}}'
{{/commands}})
if (( CURRENT == 2 )); then
  _describe command commands
  return
fi
case $words[2] in
{{#commands}}{{{name}}}) _arguments{{#options}} \
  '--{{{name}}}[{{help:999}}]:{{placeholder}}{{#values}}{{#sweeps}}:_sequence compadd - {{{values}}}'{{/sweeps}}{{^sweeps}}:({{{values}}})'{{/sweeps}}{{/values}}{{^values}}:_files'{{/values}}{{/options}} \
  '*:file:_files' ;;
{{/commands}}esac
