"""The colours of all figures, Okabe and Ito's, and how curves are told apart: by colour and marker."""

BLUE, ORANGE, GREEN, VERMILION = "#0072B2", "#E69F00", "#009E73", "#D55E00"
SKY, PURPLE, BLACK, GREY, PALE = "#56B4E9", "#CC79A7", "#000000", "#595959", "#F3F5F7"
CURVES = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK)
MARKERS = "osD^vPX"
