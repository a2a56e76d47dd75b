# SPDX-License-Identifier: MIT
# Samples per second on one core and on two, a group of bars a strategy; efficiency on the right.
# data, of series.py scaling, has `groups` lines; title, note, terminal, out: see draw.sh.
width = 800
height = 160 + 42 * groups
load ARG0[1:strlen(ARG0) - strlen('scaling.gp')].'style.gp'
stats data using 2 every ::0::0 nooutput name 'first'
stats data using 7 nooutput name 'high'

million = 1e-6
twice = 2 * first_max * million
end = 1.04 * (high_max * million > twice ? high_max * million : twice)
upper(n) = n - 0.18 * valid(5) # a strategy of one core has the middle to itself
lower(n) = n + 0.18
share(n) = valid(n) ? sprintf('%.0f%%', 100 * column(n)) : ''

set title "{/:Bold Samples per second on one core and two}\n{/*0.85 ".title.'}' \
    .(note eq '' ? '' : "\n{/*0.85 beside ".note.'}')
set xlabel 'million samples/s, of the median step' offset 0, 0.3
set format x '%.1f'
set xrange [0:end]
set yrange [groups - 0.45:-0.55]
set y2range [groups - 0.45:-0.55]
set label 1 'efficiency' at graph 1, 1 offset 1, 0.5 textcolor rgb '#222222'
set ytics scale 0
set y2tics scale 0
set grid noytics xtics linetype 1 linecolor rgb '#dddddd' linewidth 1
set bmargin 5.5
set rmargin 11
set border 2
set key at screen 0.5, screen 0.045 center horizontal Left reverse samplen 1 width 1
set style fill solid 1.0 noborder
set style arrow 1 heads size char 0.25, 90 linewidth 1.3 linecolor rgb '#222222'
set arrow 2 from twice, graph 0 to twice, graph 1 nohead dashtype 2 linecolor rgb grey

plot data using (0):(upper($0)):(0):($2 * million):(upper($0) - 0.17):(upper($0) + 0.17) \
        with boxxyerror linecolor rgb orange title 'one core', \
    '' using (0):(lower($0)):(0):($5 * million):(lower($0) - 0.17):(lower($0) + 0.17) \
        with boxxyerror linecolor rgb blue title 'two cores', \
    '' using ($3 * million):(upper($0)):(($4 - $3) * million):(0) \
        with vectors arrowstyle 1 title 'p10 to p90', \
    '' using ($6 * million):(lower($0)):(($7 - $6) * million):(0) \
        with vectors arrowstyle 1 notitle, \
    NaN with lines dashtype 2 linecolor rgb grey title 'twice single', \
    data using (-1):0:ytic(1) with points pointtype 0 notitle, \
    '' using (-1):0:y2tic(share(8)) axes x1y2 with points pointtype 0 notitle
