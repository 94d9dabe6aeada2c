"""Plots as inline SVG: each a pure function from values and a width to one ``<svg>`` element."""
