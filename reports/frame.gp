# What all pictures have, narrow enough for a phone or a printed column: the terminal, texts, margins and legend.
# Before it, reports/script.sql sets
#   KIND svg, png or pdf; NAME, '' for standard output; LETTERS: how much larger letters are than usual
#   TITLE, SUB, FOOT: texts in lines, and how many: TITLE_LINES, ..; X, Y: labels of the axes; UNIT: of y
#   LOG_X, LOG_Y: 1 if an axis is to be logarithmic
#   S series: NAMES, STYLES, VARIANTS, PREDICTED, LENGTHS (points) of each; LONGEST: characters of a name
#   C cases of bars and ranges: CASES, CASE_STYLES; $points: series, x, y, low, high; two empty lines end a series
reset
set encoding utf8
stats $points using 2:4 name 'LOW' nooutput
stats $points using 3:5 name 'HIGH' nooutput
LEAST = LOW_min_y
MOST = HIGH_max_y > 0 ? HIGH_max_y : 1
BYTES = UNIT eq 'bytes'
RATE = UNIT eq 'samples/s'
SCALE = BYTES && MOST >= 1048576 ? 1 / 1048576. : BYTES && MOST >= 1024 ? 1 / 1024. : \
        RATE && MOST >= 1e6 ? 1e-6 : RATE && MOST >= 1e4 ? 1e-3 : UNIT eq '%' ? 100. : 1.
SCALED = BYTES ? (MOST >= 1048576 ? ', MiB' : MOST >= 1024 ? ', KiB' : ', bytes') : \
         RATE && MOST >= 1e4 ? (MOST >= 1e6 ? ', millions' : ', thousands') : ''

# Colour and shape stand for the strategy (its style), other shapes and dashes for its variant; of one strategy alone
# colours stand for the variant. What is predicted, or a peer's (style -1), is hollow; an ideal line (-2) has no marks.
# Colour-blind readers tell these colours apart; of stacked parts dark and light alternate, for grey print.
array OWN[9] = [0x4d4d4d, 0x7b3294, 0xd55e00, 0x0072b2, 0x882255, 0xcc79a7, 0xe69f00, 0x56b4e9, 0x009e73]
array PARTS[6] = [0x0072b2, 0x56b4e9, 0xd55e00, 0xc8c8c8, 0xcc79a7, 0x4d4d4d]
array FILLED[6] = [7, 5, 9, 11, 13, 15]
array COLOURS[S]
array MARKS[S]
array DASHES[S]
hue(style) = style < 0 ? 0x767676 : style < |OWN| ? OWN[style + 1] : 0x222222
ALIKE = S > 1
do for [i = 2:S] { if (STYLES[i] != STYLES[1]) { ALIKE = 0 } }
do for [i = 1:S] {
    ideal = STYLES[i] == -2
    COLOURS[i] = STACKED ? PARTS[STYLES[i] % 6 + 1] : hue(ALIKE ? (i - 1) % |OWN| : STYLES[i])
    MARKS[i] = ideal ? 0 : FILLED[((STYLES[i] < 0 ? 0 : STYLES[i]) + VARIANTS[i]) % 6 + 1] - (PREDICTED[i] || STYLES[i] == -1)
    DASHES[i] = ideal ? VARIANTS[i] % 3 + 2 : PREDICTED[i] ? 2 : VARIANTS[i] % 4 + 1
}

WIDTH = 440
COLUMNS = LONGEST * LETTERS > 28 ? 1 : LONGEST * LETTERS > 13 ? 2 : 3
ROWS = (S + COLUMNS - 1) / COLUMNS
HEAD = 17 + 19 * TITLE_LINES + 15 * SUB_LINES - 2
TOP = HEAD + 14 * ROWS + 28
GRAPH = C ? 20 * (C > 2 ? C : 2) : 230
BOTTOM = TOP + GRAPH
HEIGHT = BOTTOM + 42 + 16 * FOOT_LINES
up(pixels) = 1 - 1. * pixels / HEIGHT

if (KIND eq 'svg') {
    set terminal svg size WIDTH,HEIGHT font 'sans-serif,12' noenhanced background '#ffffff'
}
if (KIND eq 'png') {
    set terminal pngcairo size 2*WIDTH,2*HEIGHT font 'Arial,12' fontscale 1.5 lw 2 ps 4 noenhanced background '#ffffff'
}
if (KIND eq 'pdf') {
    # a printed column; points are 1.2 printed ones
    CM = 8.6 / WIDTH
    set terminal pdfcairo size 8.6cm,(HEIGHT*CM*LETTERS)cm font 'Arial,12' fontscale 0.43*LETTERS lw 0.7 ps 1.1 \
        noenhanced background '#ffffff'
}
if (NAME ne '') { eval sprintf("set output '%s.%s'", NAME, KIND) }
set border 3 lc rgb '#767676'
set tics nomirror font ',11' textcolor rgb '#222222' scale 0.5
unset mxtics
unset mytics
set label TITLE at screen 0.02,up(17) left font ',15' tc rgb '#222222'
set label SUB at screen 0.02,up(17 + 19 * TITLE_LINES) left font ',11' tc rgb '#555555'
set label FOOT at screen 0.02,up(BOTTOM + 50) left font ',10' tc rgb '#555555'
set tmargin at screen up(TOP)
set bmargin at screen up(BOTTOM)
# Two columns of long names share the width: gnuplot takes letters for wider than they are.
LIMIT = (KIND eq 'svg' ? 23 : 26) / LETTERS
set key at screen 0.015,up(HEAD) left top vertical maxrows ROWS Left reverse samplen 2 \
    width (COLUMNS == 2 && LONGEST >= LIMIT ? LIMIT - LONGEST : 1) \
    spacing (KIND eq 'svg' ? 0.85 : 1.08) font ',11' textcolor rgb '#222222'
