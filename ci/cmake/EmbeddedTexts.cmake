# SPDX-License-Identifier: MIT
# Writes files as texts of the program, each into a header generated/NAME.h: `static const char ls_NAME[]`.
function(lockstep_embed file name)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${CMAKE_CURRENT_SOURCE_DIR}/${file} text)
  string(REGEX REPLACE "([\\\"])" "\\\\\\1" text "${text}")
  string(REPLACE "\n" "\\n\"\n\"" text "${text}")
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/generated/${name}.h @ONLY
    CONTENT "static const char ls_@name@[] =\n\"@text@\";\n")
endfunction()

lockstep_embed(results/published.jsonl published_rows)      # by which advise judges its choices
lockstep_embed(results/validated.jsonl validated_rows)      # how far predictions were from what machines took
lockstep_embed(reports/questions.json published_questions)  # which of these rows answer one question
lockstep_embed(reports/page.html template_page)             # files of `lockstep report`
lockstep_embed(reports/page.markdown template_markdown)
lockstep_embed(reports/report.bib template_citation)
lockstep_embed(reports/data.csv template_data)
lockstep_embed(reports/table.tex template_table)
lockstep_embed(bench/commands/devices.sql template_devices)
lockstep_embed(bench/commands/manual.troff template_manual)
lockstep_embed(bench/commands/completion.bash template_completion_bash)
lockstep_embed(bench/commands/completion.zsh template_completion_zsh)
lockstep_embed(bench/predict/advise/advice.sql template_advice)
lockstep_embed(bench/predict/advise/published.sql template_published)
lockstep_embed(bench/predict/validated.sql template_validated)
lockstep_embed(bench/output/table/below.sql template_below)
lockstep_embed(bench/output/table/options.sql template_options)
lockstep_embed(bench/output/table/pools.sql template_pools)
lockstep_embed(bench/regress/add.sql template_add)
lockstep_embed(bench/regress/cases.sql template_cases)
lockstep_embed(bench/regress/verdict.sql template_verdict)
lockstep_embed(bench/regress/worse.sql template_worse)
lockstep_embed(bench/results/bound.sql template_bound)
lockstep_embed(bench/results/diff.sql template_diff)
lockstep_embed(bench/results/trend_figure.sql template_trend_figure)
lockstep_embed(bench/results/show.sql template_show)
lockstep_embed(bench/results/exports.sql template_exports)
lockstep_embed(bench/results/trend.sql template_trend)
lockstep_embed(reports/rows.sql template_rows)
lockstep_embed(reports/pictures.sql template_pictures_sql)
lockstep_embed(reports/page.sql template_queries)
lockstep_embed(reports/report.yaml template_plan)
foreach(template frame lines bars)                          # how its pictures are drawn
  lockstep_embed(reports/${template}.gp template_${template}_gp)
endforeach()

# Pictures of the report, which name their template: generated/template_pictures.h has PICTURE(name, text) of each.
file(GLOB queries RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS reports/*.sql)
set(pictures_list "")
set(pictures_texts "")
foreach(query ${queries})
  file(STRINGS ${query} template REGEX "^-- template: ")
  if(template)
    get_filename_component(name ${query} NAME_WE)
    string(MAKE_C_IDENTIFIER "picture_${name}" id)
    lockstep_embed(${query} ${id})
    string(APPEND pictures_texts "#include \"${id}.h\"\n")
    string(APPEND pictures_list " \\\n    PICTURE(\"${name}\", ls_${id})")
  endif()
endforeach()
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/generated/template_pictures.h @ONLY
  CONTENT "@pictures_texts@#define PICTURES@pictures_list@\n")
