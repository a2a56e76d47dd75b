# SPDX-License-Identifier: MIT
# One slow worker of parameter servers: time to the target, and a step's time, against its delay.
# data: of series.py stragglers, a block a mode; note: their number and the target; title, terminal,
# out: see draw.sh.
width = 800
height = 380
load ARG0[1:strlen(ARG0) - strlen('stragglers.gp')].'style.gp'

modes = int(word(note, 1))
array name[modes]
do for [i = 1:modes] {
    stats data index i - 1 using (label = strcol(1), $2) nooutput
    name[i] = label
}
left(panel) = 0.085 + panel * 0.5
set datafile missing '-'
stats data using 2 nooutput name 'delay'
set xrange [-0.04 * delay_max:1.04 * delay_max]
set yrange [0:]
set grid ytics linetype 1 linecolor rgb '#dddddd' linewidth 1
set xlabel 'delay of the slow worker, ms a step' offset 0, 0.3
set linetype 11 linecolor rgb orange linewidth 2 pointtype 5 pointsize 0.7
set linetype 12 linecolor rgb blue linewidth 2 pointtype 7 pointsize 0.7
set linetype 13 linecolor rgb grey linewidth 2 pointtype 9 pointsize 0.8 dashtype (5, 3)
set linetype 14 linecolor rgb green linewidth 2 pointtype 13 pointsize 0.9
unset key

set multiplot title "{/:Bold What one slow worker costs}\n{/*0.85 ".title.'}'
set tmargin at screen 0.76
set bmargin at screen 0.28
set lmargin at screen left(0)
set rmargin at screen left(0) + 0.4
set title 'seconds to '.note[strlen(word(note, 1)) + 2:]
plot for [i = 1:modes] data index i - 1 using 2:3:4:5 with yerrorlines linetype 10 + i
set lmargin at screen left(1)
set rmargin at screen left(1) + 0.4
set title 'ms a step; slope: for each ms of delay'
plot for [i = 1:modes] data index i - 1 using 2:6 with linespoints linetype 10 + i

# the key of both, on a plot of nothing
set lmargin at screen 0
set rmargin at screen 1
unset title
unset xlabel
unset tics
unset border
unset grid
set yrange [1:2]
set key at screen 0.5, screen 0.06 center horizontal Left reverse samplen 3
plot for [i = 1:modes] NaN with linespoints linetype 10 + i title name[i]
unset multiplot
