# SPDX-License-Identifier: MIT
# Nodes, build time and bytes of the step's program against the number of towers or replicas.
# data: of series.py growth; title, note, terminal, out: see draw.sh.
width = 800
height = 340
load ARG0[1:strlen(ARG0) - strlen('growth.gp')].'style.gp'

# the y of one strategy's lines, nothing on the others'
of(name, n) = strcol(1) eq name ? column(n) : NaN
peer(n) = strcol(1)[:10] eq 'TensorFlow' ? column(n) : NaN

set border 3
set logscale xy
set datafile missing NaN
set xtics (1, 2, 4, 8, 16, 32, 64)
set grid ytics linetype 1 linecolor rgb '#dddddd' linewidth 1
set mytics 0
set lmargin 7
set bmargin 6.5
set tmargin 5.5
set xlabel 'towers or replicas' offset 0, 0.3
set linetype 11 linecolor rgb blue linewidth 2 pointtype 7 pointsize 0.6
set linetype 12 linecolor rgb orange linewidth 2 pointtype 5 pointsize 0.6
set linetype 13 linecolor rgb orange linewidth 2 pointtype 4 pointsize 0.6 dashtype 3
set linetype 14 linecolor rgb grey linewidth 2 pointtype 9 pointsize 0.6 dashtype 2
unset key

set multiplot layout 1, 3 title "{/:Bold Growth with the number of towers}\n{/*0.85 ".title.'}'
set title 'nodes'
set key at screen 0.5, screen 0.05 center horizontal Left reverse samplen 2.5 width 1
plot data using 2:(of('towers', 3)) with linespoints linetype 11 title 'towers', \
    '' using 2:(of('mirrored', 3)) with linespoints linetype 12 title 'mirrored', \
    '' using 2:(of('mirrored', 4)) with linespoints linetype 13 title 'mirrored, a replica', \
    '' using 2:(peer(3)) with linespoints linetype 14 title 'TensorFlow '.note.' graph'
unset key
set title 'build time, microseconds'
plot data using 2:(1e3 * of('towers', 6)) with linespoints linetype 11, \
    '' using 2:(1e3 * of('mirrored', 6)) with linespoints linetype 12
set title 'bytes'
set format y '%.0s%c'
plot data using 2:(of('towers', 5)) with linespoints linetype 11, \
    '' using 2:(of('mirrored', 5)) with linespoints linetype 12
unset multiplot
