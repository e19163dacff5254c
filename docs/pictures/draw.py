"""Draws texts of terminals as SVG: draw.py FOLDER-OF-TEXTS FOLDER-OF-PICTURES.

A line that begins with "$ " is a command and is bold. The same text gives the same bytes.
"""

import io
import pathlib
import sys

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

# The window has a background of its own, so that it is readable on white and on black.
THEME = TerminalTheme(
    (22, 27, 34), (214, 222, 230),
    [(0, 0, 0), (255, 123, 114), (86, 211, 100), (227, 179, 65), (121, 192, 255), (210, 168, 255), (86, 212, 221), (214, 222, 230)],
)

# As rich's own format, without its fonts, which are at another host, and without a title.
FORMAT = """<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: {char_height}px; line-height: {line_height}px; }}
{styles}
</style>
<defs>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""

NARROWEST = 80


def draw(text: str) -> str:
    lines = text.splitlines()
    width = max(NARROWEST, max(map(len, lines)))
    console = Console(record=True, file=io.StringIO(), width=width, color_system="truecolor", force_terminal=True)
    for line in lines:
        console.print(Text(line, style="bold" if line.startswith("$ ") else ""), soft_wrap=True)
    svg = console.export_svg(title="", theme=THEME, code_format=FORMAT, unique_id="terminal")
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


def main() -> None:
    texts, pictures = map(pathlib.Path, sys.argv[1:])
    for path in sorted(texts.glob("*.txt")):
        (pictures / path.with_suffix(".svg").name).write_text(draw(path.read_text()))


main()
