# Lines with marks and error bars: y against x; see frame.gp.
LOG_X = LOG_X && LOW_min_x > 0 && LOW_max_x > 3 * LOW_min_x
LOG_Y = LOG_Y && LEAST > 0 && MOST > 3 * LEAST
WIDE = LOW_max_x - LOW_min_x > 1e-9 * LOW_max_x # else gnuplot takes the range for empty
ROOM = WIDE ? 0.04 * (LOW_max_x - LOW_min_x) : LOW_max_x > 1e6 ? 0.04 * LOW_max_x : 0.5
LEFT = LOG_X ? LOW_min_x / 1.1 : LOW_min_x - ROOM
RIGHT = LOG_X ? LOW_max_x * 1.1 : LOW_max_x + ROOM
FAR = UNIT eq '' && LEAST > 0.8 * MOST # as a loss far from 0
FLOOR = LOG_Y ? LEAST / 1.5 : FAR ? 2 * LEAST - MOST : 0
CEILING = LOG_Y ? MOST * 1.5 : 1.08 * MOST

set lmargin at screen 0.115 * LETTERS
set rmargin at screen 0.965
set xrange [LEFT:RIGHT]
set yrange [FLOOR * SCALE:CEILING * SCALE]
if (LOG_X) { set logscale x }
if (LOG_Y) { set logscale y }
set grid ytics lt 1 lc rgb '#dddddd' lw 1
set format y (UNIT eq '%' ? '%g%%' : '%h')
set label Y.SCALED at screen 0.02,up(TOP - 14) left font ',11' tc rgb '#555555'
set label X at graph 0.5,screen up(BOTTOM + 32) center font ',11' tc rgb '#555555'

# Ticks at the values of x, if these are few, as far as their texts have room.
place(x) = LOG_X ? log(x / LEFT) / log(RIGHT / LEFT) : (x - LEFT) / (RIGHT - LEFT)
kib(x) = x < 1024 ? sprintf('%g B', x) : x < 1048576 ? sprintf('%.4g KiB', x / 1024) : sprintf('%.4g MiB', x / 1048576)
shown(x) = strstrt(X, 'bytes') == 1 ? kib(x) : sprintf('%g', x)
seen = ' '
ticks = ''
do for [i = 1:|$points|] {
    value = word($points[i], 2)
    if (strlen(value) && !strstrt(seen, ' '.value.' ')) {
        seen = seen.value.' '
        near = 0
        do for [tick in ticks] {
            room = 0.014 * LETTERS * (strlen(shown(value + 0.)) + 2)
            if (abs(place(value + 0.) - place(tick + 0.)) < room) { near = 1 }
        }
        if (!near) { ticks = ticks.' '.value }
    }
}
if (words(seen) <= 12) {
    set xtics () scale 0.5
    do for [tick in ticks] { set xtics add (shown(tick + 0.) tick + 0.) }
}
# Of a logarithmic axis powers of ten would be too few.
if (LOG_Y && MOST < 100 * LEAST) {
    set ytics ()
    do for [ten = -9:15] {
        do for [step in '1 2 5'] {
            tick = step * 10. ** ten
            if (tick >= FLOOR * SCALE && tick <= CEILING * SCALE) { set ytics add (sprintf('%g', tick) tick) }
        }
    }
}

# The first series is drawn last, over the others; a hollow mark is larger, and seen around a filled one.
size(i) = MARKS[i] % 2 ? 0.85 : 1.25
plot for [i = S:1:-1] $points index i-1 using 2:($3*SCALE) with lines lw 2 lc rgb COLOURS[i] dt DASHES[i] notitle, \
     for [i = S:1:-1] $points index i-1 every (LENGTHS[i] > 24 ? LENGTHS[i] / 6 : 1) \
         using (MARKS[i] ? $2 : NaN):($3*SCALE):($4*SCALE):($5*SCALE) \
         with yerrorbars pt MARKS[i] ps size(i) lw 1 lc rgb COLOURS[i] notitle, \
     for [i = 1:S] NaN with linespoints lw 2 dt DASHES[i] pt MARKS[i] ps 0.9 lc rgb COLOURS[i] title NAMES[i]
