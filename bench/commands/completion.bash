# bash completion for lockstep
_lockstep() {
    local word=${COMP_WORDS[COMP_CWORD]} at=$((COMP_CWORD - 1)) names= before=
    if [ "$word" = = ]; then word=; elif [ "${COMP_WORDS[at]}" = = ]; then at=$((at - 1)); fi
    if [ "$COMP_CWORD" -eq 1 ]; then
        names='{{#commands}}{{{name}}} {{/commands}}help'
    elif [[ $word == -* ]]; then
        case ${COMP_WORDS[1]} in
{{#commands}}        {{{name}}}) names='--help{{#options}} --{{{name}}}{{/options}}' ;;
{{/commands}}        esac
    else
        case ${COMP_WORDS[at]} in
{{#options}}{{#values}}        --{{{name}}}) names='{{{values}}}' ;;
{{/values}}{{/options}}        esac
        [[ $names && $word == *,* ]] && before=${word%,*}, word=${word##*,}
    fi
    mapfile -t COMPREPLY < <(compgen -P "$before" -W "$names" -- "$word")
}
complete -o default -F _lockstep lockstep
