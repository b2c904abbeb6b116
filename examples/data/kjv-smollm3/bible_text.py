# SPDX-License-Identifier: MIT
"""The King James Bible as train.py and make_records.py read it, from Debian's program `bible`."""
import re
import subprocess

HELD_OUT = {"Ezra": "Ezra", "Neh": "Nehemiah", "Est": "Esther", "Eccl": "Ecclesiastes", "Dan": "Daniel", "Hos": "Hosea",
            "Zec": "Zechariah", "Mark": "Mark", "Rom": "Romans", "1Cor": "1 Corinthians", "Heb": "Hebrews", "Rev": "Revelation"}


def read_books():
    """One text per book: a line per chapter heading, then one line per verse."""
    books, last = {}, None
    raw = subprocess.run(["bible", "-f", "gen1:1-rev22:21"], capture_output=True, text=True, check=True).stdout
    for line in raw.splitlines():
        m = re.match(r"^(\d?[A-Za-z]+)(\d+):\d+\s+(.*)$", line)
        if not m:
            continue
        book, chapter, verse = m.groups()
        text = books.setdefault(book, [])
        if (book, chapter) != last:
            text.append(("\n" if text else "") + f"{book} {chapter}\n\n")
            last = (book, chapter)
        text.append(verse.strip() + "\n")
    assert len(books) == 66 and set(HELD_OUT) <= set(books), list(books)
    return {name: "".join(lines) for name, lines in books.items()}
