# SPDX-License-Identifier: MIT
# Nodes, build time and bytes of the step's program against the number of towers or replicas.
# data: of series.py growth; note: the peer's name; title, terminal, out: see draw.sh.
width = 800
height = 380
load ARG0[1:strlen(ARG0) - strlen('growth.gp')].'style.gp'

# one strategy's column, nothing on the others' lines
of(name, n) = strcol(1) eq name ? column(n) : NaN
peer(n) = of(note, n)
dashed = 'with linespoints linetype 14 title note'
peer_line = note eq '' ? '' : ", data using 2:(peer(3)) ".dashed
peer_key = note eq '' ? '' : ', NaN '.dashed
left(panel) = 0.075 + panel * 0.325

set datafile missing NaN
set logscale xy
set xrange [0.9:72]
set xtics (1, 2, 4, 8, 16, 32, 64) scale 0.5
set ytics scale 0.5
set format y '%.0s%c'
unset mytics
set grid ytics linetype 1 linecolor rgb '#dddddd' linewidth 1
set xlabel 'towers or replicas' offset 0, 0.3
set linetype 11 linecolor rgb blue linewidth 2 pointtype 7 pointsize 0.6
set linetype 12 linecolor rgb orange linewidth 2 pointtype 5 pointsize 0.6
set linetype 13 linecolor rgb orange linewidth 2 pointtype 4 pointsize 0.7 dashtype (2, 2)
set linetype 14 linecolor rgb grey linewidth 2 pointtype 9 pointsize 0.7 dashtype (5, 3)
unset key

set multiplot title "{/:Bold What grows with the number of towers}\n{/*0.85 ".title.'}'
set tmargin at screen 0.76
set bmargin at screen 0.28
set lmargin at screen left(0)
set rmargin at screen left(0) + 0.25
set title 'nodes'
plot data using 2:(of('towers', 3)) with linespoints linetype 11, \
    '' using 2:(of('mirrored', 3)) with linespoints linetype 12, \
    '' using 2:(of('mirrored', 4)) with linespoints linetype 13 @peer_line
set lmargin at screen left(1)
set rmargin at screen left(1) + 0.25
set title 'build time, µs'
set format y '%g'
plot data using 2:(1e3 * of('towers', 6)) with linespoints linetype 11, \
    '' using 2:(1e3 * of('mirrored', 6)) with linespoints linetype 12
set lmargin at screen left(2)
set rmargin at screen left(2) + 0.25
set title 'bytes'
set format y '%.0s%c'
plot data using 2:(of('towers', 5)) with linespoints linetype 11, \
    '' using 2:(of('mirrored', 5)) with linespoints linetype 12

# the key of all three, on a plot of nothing
set lmargin at screen 0
set rmargin at screen 1
unset title
unset xlabel
unset tics
unset border
unset grid
set yrange [1:2]
set key at screen 0.5, screen 0.06 center horizontal Left reverse samplen 3
plot NaN with linespoints linetype 11 title 'towers', \
    NaN with linespoints linetype 12 title 'mirrored', \
    NaN with linespoints linetype 13 title 'mirrored, per replica' @peer_key
unset multiplot
