"""Rows U2 and U3: file types are detected by content, and file names made safe."""

import struct
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest

from commerce.attachments.models import Attachment
from commerce.attachments.uploads.file_names import safe_name
from tests.commerce.attachments.conftest import Upload, files_in
from tests.commerce.attachments.samples import epub_file, image_file, pdf_file, zip_file

pytestmark = pytest.mark.no_database

SCRIPT = b"<script>alert(1)</script>"
JAR = zip_file(**{"META-INF/MANIFEST.MF": b"Main-Class: Evil", "Evil.class": b"\xca\xfe\xba\xbe"})

REFUSED = {
    "drawing.svg": b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>',
    "drawing.png": b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>',
    "page.html": b"<!DOCTYPE html><html>" + SCRIPT + b"</html>",
    "page.jpg": b"<html>" + SCRIPT,
    "page with a mark.jpg": b"\xef\xbb\xbf<html>" + SCRIPT,
    "shell.php": b"<?php system($_GET['c']); ?>",
    "shell.php.jpg": b"<?php system($_GET['c']); ?>",
    "gif then php.gif": b"GIF89a<?php system($_GET['c']); ?>",
    "gif then script.gif": b"GIF89a/*" + SCRIPT + b"*/=1;",
    "jpeg mark then html.jpg": b"\xff\xd8\xff\xe0" + SCRIPT,
    "png mark then html.png": b"\x89PNG\r\n\x1a\n" + SCRIPT,
    "webp mark then html.webp": b"RIFF" + struct.pack("<I", 4) + b"WEBP" + SCRIPT,
    "avif mark then html.avif": b"\0\0\0\x14ftypavif\0\0\0\0avif" + SCRIPT,
    "program.jpg": b"MZ\x90\0" + b"\0" * 60 + b"PE\0\0",
    "program.png": b"\x7fELF\x02\x01\x01",
    "script.jpg": b"#!/bin/sh\nrm -rf /\n",
    "post.eps": b"%!PS-Adobe-3.0 EPSF-3.0\n(%pipe%id) (w) file",
    "post.jpg": b"\xc5\xd0\xd3\xc6" + b"\0" * 30,
    "picture.bmp": b"BM" + b"\0" * 60,
    "picture.tiff": b"II*\0" + b"\0" * 60,
    "picture.psd": b"8BPS" + b"\0" * 60,
    "picture.jp2": b"\0\0\0\x0cjP  \r\n\x87\n",
    "icon.ico": b"\0\0\x01\0\x01\0",
    "film.mp4": b"\0\0\0\x18ftypisom\0\0\0\0isommp42",
    "photo.heic": b"\0\0\0\x18ftypheic\0\0\0\0heicmif1",
    "song.mp3": b"ID3\x03" + b"\0" * 60,
    "flash.swf": b"CWS\x0a" + b"\0" * 60,
    "packed.gz": b"\x1f\x8b\x08" + b"\0" * 60,
    "packed.rar": b"Rar!\x1a\x07\x01\0",
    "packed.7z": b"7z\xbc\xaf\x27\x1c",
    "applet.class": b"\xca\xfe\xba\xbe\0\0\0\x34",
    "macro.doc": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
    "letter.rtf": b"{\\rtf1 }",
    "help.hta": b"<hta:application>",
    "notes.txt": b"hello",
    "data.json": b'{"a": 1}',
    "mail.eml": b"From: a@example.com",
    "utf16.html": "<html>".encode("utf-16"),
    "nul.png": b"\0" * 1000,
    "pdf with a head.pdf": b"<html>" + pdf_file(),
    "pdf of no version.pdf": b"%PDF-" + SCRIPT,
    "pdf that is cut.pdf": pdf_file()[:40],
    "zip that is cut.zip": zip_file()[:-10],
    "zip mark alone.zip": b"PK\x03\x04" + b"\0" * 100,
    "zip behind a script.zip": b"#!/bin/sh\n" + zip_file(),
    "empty zip.zip": b"PK\x05\x06" + b"\0" * 18,
}


def zip_with_entry(name: str) -> bytes:
    written = BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        archive.writestr(name, b"x")
    return written.getvalue()


def zip_with_a_link() -> bytes:
    written = BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        link = zipfile.ZipInfo("link")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    return written.getvalue()


def zip_of_files(count: int) -> bytes:
    return zip_file(**{f"{number}": b"" for number in range(count)})


def zip_of_comments(count: int) -> bytes:
    written = BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for number in range(count):
            entry = zipfile.ZipInfo(str(number))
            entry.comment = b"c" * 65_000
            archive.writestr(entry, b"")
    return written.getvalue()


def with_zip64_directory(archive: bytes) -> bytes:
    """Return the archive with its directory described by a zip64 record only. The plain record says 100 bytes."""
    end = archive[-22:]
    entries, size, start = struct.unpack("<10xHLL2x", end)
    record = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, entries, entries, size, start)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, start + size, 1)
    return archive[:-22] + record + locator + end[:12] + struct.pack("<L", 100) + end[16:]


REFUSED |= {
    "up.zip": zip_with_entry("../../etc/cron.d/evil"),
    "root.zip": zip_with_entry("/etc/cron.d/evil"),
    "drive.zip": zip_with_entry("C:/evil"),
    "backslash.zip": zip_with_entry("..\\evil"),
    "link.zip": zip_with_a_link(),
    "large directory.zip": zip_of_comments(40),
    "large directory in zip64.zip": with_zip64_directory(zip_of_comments(40)),
    "book without its heart.epub": epub_file().replace(b"META-INF/container.xml", b"META-INF/contained.xml"),
}

# Files that take seconds to make.
LARGE: dict[str, Callable[[], bytes]] = {
    "bomb.zip": lambda: zip_file(zeros=b"\0" * 30_000_000),
    "many.zip": lambda: zip_of_files(10_001),
    "many in zip64.zip": lambda: with_zip64_directory(zip_of_files(10_001)),
}

# Files of two types: the content, the extension that it is stored with, and bytes that must not remain.
POLYGLOTS = {
    "gifar.gif": (image_file("GIF") + JAR, "gif", b"MANIFEST"),
    "pdf in a jpeg.jpg": (image_file("JPEG") + pdf_file(), "jpg", b"%PDF"),
    "html in a png.png": (image_file("PNG") + SCRIPT, "png", SCRIPT),
    "php in a jpeg comment.php": (image_file("JPEG", comment=b"<?php phpinfo(); ?>"), "jpg", b"<?php"),
    "html in a gif comment.html": (image_file("GIF", comment=SCRIPT), "gif", SCRIPT),
    "zip in a webp.zip": (image_file("WEBP") + zip_file(), "webp", b"PK\x03\x04"),
    "jpeg called png.png": (image_file("JPEG"), "jpg", b"\x89PNG"),
    "png called exe.exe": (image_file("PNG"), "png", b"MZ"),
}


@pytest.mark.parametrize("name", [*REFUSED, *LARGE])
def test_u2_unsupported_or_damaged_file_gets_422_naming_it(upload: Upload, media_root: Path, name: str):
    response = upload((name, LARGE[name]() if name in LARGE else REFUSED[name]))

    assert response.status_code == 422, response.content
    assert response.json()["message"].startswith(f"{name} ")
    assert files_in(media_root) == []


@pytest.mark.parametrize("make", [lambda: zip_of_files(10_000), lambda: zip_of_comments(30)])
def test_archive_within_the_limits_is_accepted_in_zip64_too(upload: Upload, make: Callable[[], bytes]):
    content = make()
    assert upload(("a.zip", content), ("b.zip", with_zip64_directory(content))).status_code == 200


@pytest.mark.parametrize("name", POLYGLOTS)
def test_u2_polyglot_is_stored_as_an_image_only(upload: Upload, media_root: Path, name: str):
    content, extension, foreign = POLYGLOTS[name]

    response = upload((name, content))

    assert response.status_code == 200, response.content
    assert response.json()[0]["original"].endswith(f".{extension}")
    (stored,) = media_root.glob(f"attachments/*/*.{extension}")
    assert foreign not in stored.read_bytes()


LONG = "a" * 300
NAMES = {
    "../../../etc/passwd.png": "passwd.png",
    "..\\..\\windows\\evil.png": "evil.png",
    "/etc/passwd": "passwd.png",
    "C:\\autoexec.bat": "autoexec.png",
    "....//....//x.png": "x.png",
    "..": "file.png",
    ".": "file.png",
    "": "file.png",
    ".htaccess": "htaccess.png",
    ".png": "png.png",
    "shell.php.png": "shell-php.png",
    "shell.php%00.png": "shell-php-00.png",
    "shell.php\0.png": "shell-php.png",
    "shell.php;.png": "shell-php.png",
    "a\r\nSet-Cookie: x=1.png": "a-Set-Cookie-x-1.png",
    "a\nb\tc.png": "a-b-c.png",
    'a"; filename="b.html.png': "a-filename-b-html.png",
    "<script>.png": "script.png",
    "a b  c.png": "a-b-c.png",
    "a%2f..%2fb.png": "a-2f-2fb.png",
    "$(reboot).png": "reboot.png",
    "`id`.png": "id.png",
    "a|b&c;d.png": "a-b-c-d.png",
    "*?.png": "file.png",
    "-rf.png": "rf.png",
    "--help": "help.png",
    "~root.png": "root.png",
    "con.png": "file-con.png",
    "NUL": "file-NUL.png",
    "lpt1.png": "file-lpt1.png",
    "aux.txt.png": "aux-txt.png",
    "photo\u202egnp.exe": "photo-gnp.png",
    "zero\u200bwidth.png": "zero-width.png",
    "größe.png": "größe.png",
    "gro\u0308ße.png": "größe.png",
    "写真 2026.jpg": "写真-2026.png",
    "фото.jpeg": "фото.png",
    "😀.png": "file.png",
    "😀cat.png": "cat.png",
    "thumbnail.webp": "thumbnail.png",
    "sizes/thumbnail.webp": "thumbnail.png",
    LONG + ".png": "a" * 60 + ".png",
    "写" * 300: "写" * 60 + ".png",
    "a" * 59 + "--b.png": "a" * 59 + ".png",
    "a.b.c.d.png": "a-b-c-d.png",
    "name.": "name.png",
    "name ": "name.png",
    "file:///etc/passwd": "passwd.png",
    "http://example.com/a.png?x=1#y": "a.png",
    "{{7*7}}.png": "7-7.png",
    "' OR 1=1 --.png": "OR-1-1.png",
    "\\\\server\\share\\a.png": "a.png",
}


@pytest.mark.parametrize("client_name", NAMES)
def test_u3_hostile_name_becomes_safe(client_name: str):
    assert safe_name(client_name, "png") == NAMES[client_name]


def test_u3_no_name_escapes_its_folder_or_header(upload: Upload, media_root: Path):
    picture = image_file(width=8, height=8)
    sent = [
        name for name in NAMES if name not in ("", ".", "..")
    ]  # Django does not treat a part with such a name as a file
    for names in (sent[start : start + 10] for start in range(0, len(sent), 10)):
        assert upload(*[(name, picture) for name in names]).status_code == 200

    stored = files_in(media_root.parent)
    assert len(stored) == 2 * Attachment.objects.count() == 2 * len(sent)
    folders = {f"media/attachments/{key}" for key in Attachment.objects.values_list("key", flat=True)}
    assert {name.rpartition("/")[0].removesuffix("/sizes") for name in stored} == folders
