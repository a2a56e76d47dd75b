# SPDX-License-Identifier: MIT
# What the pictures share: size, fonts, and Okabe and Ito's colours, which colour-blind people can
# tell apart (https://jfly.uni-koeln.de/color/). The caller sets terminal, out, width and height.
if (terminal eq 'svg') {
    set terminal svg size width, height enhanced dynamic font 'Helvetica,Arial,DejaVu Sans,sans-serif,13' \
        background rgb 'white'
} else {
    set terminal pngcairo size 2 * width, 2 * height enhanced font 'DejaVu Sans,12' fontscale 2 \
        linewidth 2 background rgb 'white'
}
set output out
set datafile separator "\t"
set datafile missing '-'
blue = '#0072B2'
orange = '#E69F00'
green = '#009E73'
grey = '#666666'
set border 3 linecolor rgb grey
set tics nomirror textcolor rgb '#222222'
set grid ytics linecolor rgb '#dddddd' linewidth 1
