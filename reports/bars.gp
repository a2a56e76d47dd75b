# A case a line: stacked bars from low to high of each series, or a mark with its range and second marks; see frame.gp.
WIDEST = 4
do for [i = 1:C] { if (strlen(CASES[i]) > WIDEST) { WIDEST = strlen(CASES[i]) } }
LEFT = LETTERS * (0.04 + 0.016 * WIDEST)
set lmargin at screen LEFT
set rmargin at screen 0.96
set xrange [0:1.04 * MOST * SCALE]
set yrange [(C > 2 ? C : 2) - 0.4:-0.6]
# Ticks at 1, 2 or 5 times a power of ten, no more than the width has room to label.
STEP = MOST * SCALE / (14 * (0.96 - LEFT) < 2 ? 2 : 14 * (0.96 - LEFT))
POWER = STEP > 0 ? 10.0 ** floor(log10(STEP)) : 1
set xtics POWER * (STEP > 5 * POWER ? 10 : STEP > 2 * POWER ? 5 : STEP > POWER ? 2 : 1)
set grid xtics lt 1 lc rgb '#dddddd' lw 1
unset ytics
do for [i = 1:C] { set label CASES[i] at graph -0.025,first i-1 right font ',11' tc rgb '#222222' }
set label X.SCALED at screen 0.98,up(BOTTOM + 32) right font ',11' tc rgb '#555555'
set style fill solid 1 border lc rgb '#ffffff'
if (STACKED) {
    plot for [i = 1:S] $points index i-1 using (($4+$5)/2*SCALE):2:($4*SCALE):($5*SCALE):($2-0.4):($2+0.4) \
        with boxxyerror fc rgb COLOURS[i] title NAMES[i]
} else {
    plot $points index 0 using ($3*SCALE):2:($4*SCALE):($5*SCALE):(hue(CASE_STYLES[int($2)+1])) \
             with xerrorbars pt 7 ps 0.9 lw 2 lc rgb variable notitle, \
         for [i = 2:S] $points index i-1 using ($3*SCALE):2:(hue(CASE_STYLES[int($2)+1])) \
             with points pt 1 ps 0.9 lw 1 lc rgb variable notitle, \
         for [i = 1:S] NaN with points pt (i == 1 ? 7 : 1) ps 0.9 lc rgb '#4d4d4d' title NAMES[i]
}
