# SPDX-License-Identifier: MIT
# Accuracy on the test set against the number of steps, a line a model, over the seeds from the
# lowest to the highest.
# data, of series.py training; title, terminal, out: see draw.sh.
width = 640
height = 400
load ARG0[1:strlen(ARG0) - strlen('training.gp')].'style.gp'

names = system("awk -F'\\t' '!/^#/ && !seen[$1]++ { printf \"%s \", $1 }' ".data)
of(name, n) = strcol(1) eq name ? column(n) : NaN
set datafile missing NaN
set linetype 11 linecolor rgb blue linewidth 2 pointtype 7 pointsize 0.6
set linetype 12 linecolor rgb orange linewidth 2 pointtype 5 pointsize 0.6
set linetype 13 linecolor rgb green linewidth 2 pointtype 9 pointsize 0.7

set title "{/:Bold Accuracy on the test set}\n{/*0.85 ".title.'}'
set logscale x
set xlabel 'steps' offset 0, 0.3
set xtics scale 0.5
set ytics scale 0.5
set yrange [0:1]
set format y '%.1f'
set bmargin 5.5
set key at screen 0.5, screen 0.05 center horizontal Left reverse samplen 3
plot for [i = 1:words(names)] data using 2:(of(word(names, i), 3)):(of(word(names, i), 4)): \
        (of(word(names, i), 5)) with yerrorlines linetype (10 + i) title word(names, i)
