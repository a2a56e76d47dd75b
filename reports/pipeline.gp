# SPDX-License-Identifier: MIT
# A pipeline's idle share and activations against the number of micro-batches, by schedule.
# data: of series.py pipeline; title, terminal, out: see draw.sh.
width = 800
height = 400
load ARG0[1:strlen(ARG0) - strlen('pipeline.gp')].'style.gp'

# one schedule's column, nothing on the others' lines
of(name, n) = strcol(1) eq name ? column(n) : NaN
left(panel) = 0.09 + panel * 0.49

set datafile missing NaN
set logscale x 2
set xtics scale 0.5
set ytics scale 0.5
set offsets graph 0.04, graph 0.04, 0, 0
set yrange [0:*]
set xlabel 'micro-batches' offset 0, 0.3
set linetype 11 linecolor rgb blue linewidth 2 pointtype 7 pointsize 0.7
set linetype 12 linecolor rgb orange linewidth 2 pointtype 5 pointsize 0.7
set linetype 13 linecolor rgb blue linewidth 1.5 dashtype (6, 3)
set linetype 14 linecolor rgb orange linewidth 1.5 dashtype (6, 3)
set linetype 15 linecolor rgb grey linewidth 1.5 dashtype (2, 3)
unset key

set multiplot title "{/:Bold Idle share and memory of a pipeline}\n{/*0.85 ".title.'}'
set tmargin at screen 0.76
set bmargin at screen 0.30
set lmargin at screen left(0)
set rmargin at screen left(0) + 0.40
set title 'idle share of the stages'
set format y '%.1f'
plot data using 2:(of('gpipe', 5)) with lines linetype 15, \
    '' using 2:(of('gpipe', 4)) with lines linetype 13, \
    '' using 2:(of('1f1b', 4)) with lines linetype 14, \
    '' using 2:(of('gpipe', 3)) with points linetype 11, \
    '' using 2:(of('1f1b', 3)) with points linetype 12
set lmargin at screen left(1)
set rmargin at screen left(1) + 0.40
set title 'activations of the first stage, MiB'
set format y '%g'
mib = 1 / 1048576.0
plot data using 2:(of('gpipe', 7) * mib) with lines linetype 13, \
    '' using 2:(of('1f1b', 7) * mib) with lines linetype 14, \
    '' using 2:(of('gpipe', 6) * mib) with points linetype 11, \
    '' using 2:(of('1f1b', 6) * mib) with points linetype 12

# the key of both, on a plot of nothing
set lmargin at screen 0
set rmargin at screen 1
unset title
unset xlabel
unset tics
unset border
unset grid
set yrange [1:2]
set key at screen 0.5, screen 0.16 center top vertical maxrows 2 Left reverse samplen 3 width 1
plot NaN with points linetype 11 title 'gpipe, measured', \
    NaN with points linetype 12 title '1f1b, measured', \
    NaN with lines linetype 13 title 'gpipe, formula', \
    NaN with lines linetype 14 title '1f1b, formula', \
    NaN with lines linetype 15 title 'equal stages'
unset multiplot
