"""HTML and pictures for notebooks, from numbers and text: no class of ours, no Matplotlib, no script, no file."""
