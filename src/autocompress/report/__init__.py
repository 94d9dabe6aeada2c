"""Results for people: the HTML report with its plots, and the scorecard table of the terminal."""
