"""Published data sets: read from every form that they come in, fetched whole or not at all."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import logging
import lzma
import socket
import struct
import tarfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io

from rslm.data import ObservedMatrix
from rslm.datasets import (
    archives,
    download,
    lines,
    load_movielens,
    load_netflix,
    load_parkinsons,
    load_school,
    movielens,
    parkinsons,
)

RATINGS = [(1, 10, 5.0), (1, 22, 3.0), (7, 10, 4.0), (40, 9, 1.0), (40, 22, 2.0)]
FORMS = {  # the file, the folder that the archive unpacks to, a line, the header
    "100k": ("u.data", "ml-100k", "{}\t{}\t{:.0f}\t881250949\n", ""),
    "1m": ("ratings.dat", "ml-1m", "{}::{}::{:.0f}::978300760\n", ""),
    "10m": ("ratings.dat", "ml-10M100K", "{}::{}::{:g}::838985046\n", ""),
    "20m": ("ratings.csv", "ml-20m", "{},{},{:.1f},1112486027\n", "userId,movieId,rating,timestamp\n"),
    "25m": ("ratings.csv", "ml-25m", "{},{},{:.1f},1147880044\n", "userId,movieId,rating,timestamp\n"),
}
PACKED: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}


def text_of(which: str, ratings: list[tuple[int, int, float]] = RATINGS) -> bytes:
    _, _, line, header = FORMS[which]
    return (header + "".join(line.format(*r) for r in ratings)).encode()


def zipped(members: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return content.getvalue()


def tarred(members: dict[str, bytes], mode: str = "w:gz") -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode=mode) as archive:  # type: ignore[call-overload]
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return content.getvalue()


def published(which: str, ratings: list[tuple[int, int, float]] = RATINGS) -> bytes:
    """An archive like that of GroupLens."""
    file, folder, _, _ = FORMS[which]
    return zipped({f"{folder}/README": b"::\n", f"{folder}/{file}": text_of(which, ratings)})


def check_ratings(data: ObservedMatrix, ratings: list[tuple[int, int, float]] = RATINGS) -> None:
    users, films = sorted({r[0] for r in ratings}), sorted({r[1] for r in ratings})
    assert data.row_ids is not None
    assert data.col_ids is not None
    assert (data.row_ids.tolist(), data.col_ids.tolist()) == (users, films)
    found = zip(data.row_ids[data.rows_of_entries()], data.col_ids[data.index], data.values, strict=True)
    assert sorted((int(u), int(f), float(v)) for u, f, v in found) == sorted(ratings)


# Reading


@pytest.mark.parametrize("which", FORMS)
def test_movielens_in_every_form(which: Any, tmp_path: Path) -> None:
    file, folder, _, _ = FORMS[which]
    inside = tmp_path / folder
    inside.mkdir()
    (inside / file).write_bytes(text_of(which))
    (tmp_path / "any.zip").write_bytes(published(which))
    (tmp_path / "any.tar.gz").write_bytes(tarred({f"{folder}/{file}": text_of(which)}))
    for path in (inside / file, inside, tmp_path, tmp_path / "any.zip", str(tmp_path / "any.tar.gz")):
        check_ratings(load_movielens(which, path))
    check_ratings(load_movielens(which, folder=tmp_path))


@pytest.mark.parametrize("which", ["10m", "25m"])
def test_half_stars(which: Any, tmp_path: Path) -> None:
    ratings = [(1, 5, 0.5), (1, 6, 4.5), (2, 5, 5.0), (123456789, 6, 3.5)]
    (tmp_path / "ratings").write_bytes(text_of(which, ratings))
    check_ratings(load_movielens(which, tmp_path / "ratings"), ratings)


def test_the_right_one_of_several_sets(tmp_path: Path) -> None:
    other = [(2, 3, 1.5)]
    for which, ratings in ("20m", other), ("25m", RATINGS):
        (tmp_path / FORMS[which][1]).mkdir()
        (tmp_path / FORMS[which][1] / "ratings.csv").write_bytes(text_of(which, ratings))
    check_ratings(load_movielens("25m", tmp_path))
    check_ratings(load_movielens("20m", tmp_path), other)


def test_lines_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "SIZE", 64)
    rng = np.random.default_rng(0)
    pairs = rng.permutation(40 * 30)[:500]
    ratings = [(int(10 ** (k % 7)) + int(k) // 30, int(k) % 30, float(k % 10 + 1) / 2) for k in pairs]
    ratings = list({r[:2]: r for r in ratings}.values())
    for which in "100k", "10m", "25m":
        ours = [(u, f, np.ceil(v)) for u, f, v in ratings] if which == "100k" else ratings
        (tmp_path / "unix").write_bytes(text_of(which, ours))
        (tmp_path / "dos").write_bytes(text_of(which, ours).replace(b"\n", b"\r\n"))
        (tmp_path / "open").write_bytes(text_of(which, ours).rstrip())
        (tmp_path / "wide").write_bytes(text_of(which, ours) + b"\n\r\n\n")
        for name in "unix", "dos", "open", "wide":
            check_ratings(load_movielens(which, tmp_path / name), ours)


@pytest.mark.parametrize(
    ("which", "content", "message"),
    [
        (
            "100k",
            b"1\t2\t3\t4\n1\t2\tx\t4\n",
            r"line 2: '1\\t2\\tx\\t4', but user film rating time as in MovieLens 100K is",
        ),
        ("100k", b"1\t2\t3\t4\n1\t3\t3\n", "line 2"),
        ("100k", b"1\t2\t3\t4\n\n1\t3\t3\t4\n", "line 2: ''"),
        ("100k", b"1\t2\t3.55\t4\n", "line 1"),
        ("100k", b"1\t2\t3,5\t4\n", "line 1"),
        ("100k", b"1\t2\t3.x\t4\n", "line 1"),
        ("100k", b"1\t2\t3\n1\t2\t3\t4\t5\n", "line 1"),
        ("100k", b"1\t1234567890\t3\t4\n", "line 1"),
        ("100k", b"1\t-2\t3\t4\n", "line 1"),
        ("100k", b"1\t\t3\t4\n", "line 1"),
        ("1m", text_of("100k"), r"line 1: '1\\t10.*user::film::rating::time as in MovieLens 1M"),
        ("1m", b"1::2::3::4\n1:2::3::4:\n", "line 2: '1:2"),
        ("1m", b"1:x:2::3::4\n", "line 1"),
        ("25m", b"userId,movieId,rating,timestamp\n1,2,3.0,4\n1,3,x,4\n", "line 3: '1,3,x,4'"),
        ("25m", b"1,2,x,4\n", "line 1: .*a header, and then user,film,rating,time"),
        ("25m", b"user,film,rating,when\n1,2,3.0,4\n", "line 1"),
        ("25m", b"userId,movieId,rating,timestamp\n", "no ratings"),
        ("100k", b"\n\n", "no ratings"),
        ("100k", b"", "no ratings"),
        ("100k", b"\0" * 100, "line 1"),
        (
            "100k",
            b"1\t2\t3\t4\n1\t3\t0\t4\n",
            r"line 2: '1\\t3\\t0\\t4', but a rating from 0.5 to 5 as in MovieLens 100K",
        ),
        ("100k", b"1\t2\t3\t4\n1\t3\t9\t4\n", "line 2: .*0.5 to 5"),
        ("10m", b"1::2::0.5::4\n1::3::5::4\n1::4::0.4::4\n", "line 3: .*0.5 to 5"),
        ("25m", b"userId,movieId,rating,timestamp\n1,2,5.0,4\n1,3,5.5,4\n", "line 3: '1,3,5.5,4'.*0.5 to 5"),
        ("100k", b"1\t2\t3\t4\n1\t2\t4\t4\n", "repeat an earlier one: the first is row 1, column 2"),
    ],
)
def test_wrong_text(which: Any, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "given.txt").write_bytes(content)
    with pytest.raises(ValueError, match=f"given.txt.*{message}"):
        load_movielens(which, tmp_path / "given.txt")


def test_lines_without_end_are_refused_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "SIZE", 64)
    content = b"1\t2\t3\t4\n" * 20 + b"7" * 1000
    stream = io.BytesIO(content)
    assert sum(len(block.text) for block in lines.blocks(stream, "x")) < 400
    assert stream.tell() < 400
    (tmp_path / "long").write_bytes(content)
    with pytest.raises(ValueError, match="line 21: '7777"):
        load_movielens("100k", tmp_path / "long")


def test_archives_are_not_unpacked(tmp_path: Path) -> None:
    home = tmp_path / "a" / "b"
    home.mkdir(parents=True)
    bad = {"../../evil.txt": b"evil", "/tmp/../evil": b"evil", "../../u.data": text_of("100k")}
    for name, content in ("x.zip", zipped(bad)), ("x.tar.gz", tarred(bad)):
        (home / name).write_bytes(content)
        before = sorted(tmp_path.rglob("*"))
        check_ratings(load_movielens("100k", home / name))
        assert sorted(tmp_path.rglob("*")) == before


def test_links_in_archives_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(text_of("100k"))
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        link = tarfile.TarInfo("ml-100k/u.data")
        link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path / "secret")
        archive.addfile(link)
    with pytest.raises(FileNotFoundError, match=r"x\.tar has no u\.data in it"):
        load_movielens("100k", tmp_path / "x.tar")


@pytest.mark.parametrize("pack", [zipped, tarred])
def test_incomplete_archives(pack: Callable[..., bytes], tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(pack({"ml-100k/u.item": b"x"}))
    with pytest.raises(FileNotFoundError, match=r"x has no u\.data in it. Give u\.data itself"):
        load_movielens("100k", tmp_path / "x")
    noise = np.random.default_rng(0).integers(1, 6, (3000, 3))
    many = "".join(f"{k}\t{a}\t{b}\t{c}\n" for k, (a, b, c) in enumerate(noise)).encode()
    whole = pack({"ml-100k/u.data": many})
    (tmp_path / "x").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"x is damaged, or not an archive.*Download it again"):
        load_movielens("100k", tmp_path / "x")


def test_an_archive_whose_directory_is_nowhere(tmp_path: Path) -> None:
    """Python looks for a place before the beginning of the file."""
    whole = bytearray(zipped({"u.data": text_of("100k")}))
    at = whole.rindex(b"PK\x05\x06") + 16
    for size in (0xFFFF, 0xFFFFFFF0):
        whole[at : at + 4] = struct.pack("<I", size)
        (tmp_path / "ml-100k.zip").write_bytes(whole)
        with pytest.raises(ValueError, match="is damaged, or not an archive"):
            load_movielens("100k", tmp_path / "ml-100k.zip")


def test_an_archive_with_a_wrong_byte(tmp_path: Path) -> None:
    content = bytearray(zipped({"u.data": text_of("100k")}))
    content[content.index(b"u.data") + 12] ^= 0xFF  # within the compressed text
    (tmp_path / "x.zip").write_bytes(content)
    with pytest.raises(ValueError, match="damaged, or not an archive"):
        load_movielens("100k", tmp_path / "x.zip")


@pytest.mark.parametrize("ending", PACKED)
def test_single_compressed_files(ending: str, tmp_path: Path) -> None:
    films = some_netflix(1, 20)
    for name, content in ("u.data", text_of("100k")), ("combined_data_1.txt", netflix_text(films)):
        (tmp_path / f"{name}.{ending}").write_bytes(PACKED[ending](content))
    for path in tmp_path, tmp_path / f"u.data.{ending}":
        check_ratings(load_movielens("100k", path))
    for path in tmp_path, tmp_path / f"combined_data_1.txt.{ending}":
        check_netflix(load_netflix(path), films)
    (tmp_path / "combined_data_1.txt").write_bytes(netflix_text(films))  # beside it: the same ratings once more
    check_netflix(load_netflix(tmp_path), films)
    (tmp_path / "renamed").write_bytes(PACKED[ending](b"1\t2\t3\t4\n1\t2\tx\t4\n"))
    with pytest.raises(ValueError, match="renamed, line 2: "):
        load_movielens("100k", tmp_path / "renamed")
    (tmp_path / "cut").write_bytes(PACKED[ending](text_of("100k") * 100)[:-9])
    with pytest.raises(ValueError, match=r"cut is damaged, or not an archive.*Download it again"):
        load_movielens("100k", tmp_path / "cut")
    (tmp_path / "empty").write_bytes(PACKED[ending](b""))
    with pytest.raises(ValueError, match="empty has no ratings in it"):
        load_movielens("100k", tmp_path / "empty")


def test_compressed_parkinsons_and_school(tmp_path: Path) -> None:
    (tmp_path / "parkinsons_updrs.data.gz").write_bytes(gzip.compress(PATIENTS))
    assert load_parkinsons(tmp_path / "parkinsons_updrs.data.gz").X.shape == (3, 5)
    school_file(tmp_path / "school.mat", [np.ones((2, 3))], [np.ones((2, 1))])
    (tmp_path / "x.gz").write_bytes(gzip.compress((tmp_path / "school.mat").read_bytes()))
    assert load_school(tmp_path / "x.gz").X.shape == (2, 3)


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_tar_archives_of_all_kinds(mode: Any, format: int, tmp_path: Path) -> None:
    (tmp_path / "u.data").write_bytes(text_of("100k"))
    with tarfile.open(tmp_path / "x", mode, format=format) as archive:
        archive.add(tmp_path / "u.data", "ml-100k/u.data")
    check_ratings(load_movielens("100k", tmp_path / "x"))
    with tarfile.open(tmp_path / "empty", mode, format=format):
        pass
    with pytest.raises(FileNotFoundError, match=r"empty has no u\.data in it"):
        load_movielens("100k", tmp_path / "empty")


def test_very_old_tar_archives(tmp_path: Path) -> None:
    content = bytearray(tarred({"u.data": text_of("100k")}, "w"))
    content[257:265] = bytes(8)  # no "ustar" before 1988
    content[148:156] = b" " * 8
    content[148:156] = b"%06o\0 " % sum(content[:512])
    for packed in bytes(content), gzip.compress(content):
        (tmp_path / "x.tar").write_bytes(packed)
        check_ratings(load_movielens("100k", tmp_path / "x.tar"))


def test_an_empty_zip(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(zipped({}))
    with pytest.raises(FileNotFoundError, match=r"x\.zip has no u\.data in it"):
        load_movielens("100k", tmp_path / "x.zip")
    with pytest.raises(FileNotFoundError, match="has no ratings of the Netflix Prize"):
        load_netflix(tmp_path / "x.zip")


def altered(name: str, method: int, flags: int = 0) -> bytes:
    """A zip file whose headers say another method, or flags."""
    content = bytearray(zipped({name: text_of("100k")}))
    local, central = content.index(b"PK\x03\x04"), content.index(b"PK\x01\x02")
    for at in local + 6, central + 8:
        content[at : at + 4] = struct.pack("<HH", flags, method)
    return bytes(content)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (lambda name: altered(name, 8, flags=0x01), "encrypted"),
        (lambda name: altered(name, 8, flags=0x41), "encryption"),
        (lambda name: altered(name, 9), "compression"),  # Deflate64
    ],
)
@pytest.mark.parametrize("name", ["u.data", "mv_1.txt"])
def test_zips_that_python_cannot_read(name: str, content: Any, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(content(name))
    load = load_netflix if name == "mv_1.txt" else lambda path: load_movielens("100k", path)
    with pytest.raises(ValueError, match=rf"x\.zip/{name}: .*{message}.*\. Unpack it with another program, and give"):
        load(tmp_path / "x.zip")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compression_inside_zips(method: int, tmp_path: Path) -> None:
    text = text_of("100k", [(u, f, 3.0) for u in range(1, 60) for f in range(1, 60)])
    with zipfile.ZipFile(tmp_path / "x.zip", "w", method) as archive:
        archive.writestr("u.data", text)
    assert len(load_movielens("100k", tmp_path / "x.zip")) == 59 * 59
    content = bytearray((tmp_path / "x.zip").read_bytes())
    middle = len(content) // 2
    content[middle : middle + 8] = bytes(b ^ 0xFF for b in content[middle : middle + 8])
    (tmp_path / "x.zip").write_bytes(content)
    with pytest.raises(ValueError, match=r"x\.zip is damaged, or not an archive.*Download it again"):
        load_movielens("100k", tmp_path / "x.zip")


def test_other_errors_are_not_about_archives(tmp_path: Path) -> None:
    for error in FileNotFoundError("gone"), OSError(5, "Input/output error"), ConnectionError("x"), RuntimeError("x"):
        with pytest.raises(type(error)), archives.undamaged(tmp_path):
            raise error


def test_wrong_path_and_set(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere\.zip does not exist"):
        load_movielens("1m", tmp_path / "nowhere.zip")
    with pytest.raises(FileNotFoundError, match=r"has no ratings\.dat in it"):
        load_movielens("1m", tmp_path)
    with pytest.raises(ValueError, match="which is '2m', but must be one of '100k', '1m'"):
        load_movielens("2m")  # type: ignore[arg-type]


# The folder of data sets


def test_absent_data_tell_terms_and_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RSLM_DATA", str(tmp_path / "sets"))
    message = (
        r"MovieLens 1M is not in .*sets\. It may be used for research.*ml-1m-README\.txt\. Pass download=True to "
        r"download 6 MB from https://files\.grouplens\.org/datasets/movielens/ml-1m\.zip, or path="
    )
    with pytest.raises(FileNotFoundError, match=message):
        load_movielens("1m")
    with pytest.raises(FileNotFoundError, match=r"Parkinsons.*CC BY 4\.0.*download=True.*archive\.ics\.uci\.edu"):
        load_parkinsons()
    with pytest.raises(FileNotFoundError, match=r"School is not in .*sets\. There is no download.*MALSAR"):
        load_school()
    with pytest.raises(FileNotFoundError, match=r"does not exist.*kaggle\.com/datasets/netflix-inc"):
        load_netflix(tmp_path / "netflix")
    assert list(tmp_path.iterdir()) == []


def test_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ml-100k").mkdir()
    (tmp_path / "ml-100k" / "u.data").write_bytes(text_of("100k"))
    monkeypatch.setenv("RSLM_DATA", str(tmp_path))
    check_ratings(load_movielens("100k"))
    with pytest.raises(FileNotFoundError, match="is not in "):
        load_movielens("100k", folder=tmp_path / "other")
    monkeypatch.delenv("RSLM_DATA")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"is not in .*\.cache.rslm\."):
        load_movielens("100k")


def test_checksums_are_those_of_known_archives() -> None:
    for which, (known, _) in movielens.SETS.items():
        assert known.url == f"https://files.grouplens.org/datasets/movielens/ml-{which}.zip"
        assert len(bytes.fromhex(known.sha256)) == 32
    assert len({known.sha256 for known, _ in movielens.SETS.values()}) == 5


# Downloads


class Server(ThreadingHTTPServer):
    """Answers with `content`, in the way that the path asks for."""

    daemon_threads = True
    content = b""
    asked = 0

    def address(self, how: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{how}/ml-100k.zip"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked += 1
        how = self.path.split("/")[1]
        if how == "missing":
            self.send_error(404)
            return
        if how == "moved":
            self.send_response(302)
            self.send_header("Location", self.server.address("good"))
            self.end_headers()
            return
        content = self.server.content
        self.send_response(200)
        if how != "unsized":
            self.send_header("Content-Length", str(len(content) + (50 if how == "truncated" else 0)))
        self.end_headers()
        self.wfile.write(content[:20] if how == "stalled" else content)
        self.wfile.flush()
        if how == "stalled":
            time.sleep(1.0)  # far longer than the client waits

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    with Server(("127.0.0.1", 0), Handler) as made:
        made.content = published("100k")
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture
def offer(server: Server, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """`offer(how)`: MovieLens 100K is what our server has, given in that way."""

    def change(how: str, url: str | None = None) -> None:
        known, form = movielens.SETS["100k"]
        digest = hashlib.sha256(server.content).hexdigest()
        known = replace(known, url=url or server.address(how), sha256=digest)
        monkeypatch.setitem(movielens.SETS, "100k", (known, form))

    return change


@pytest.mark.parametrize("how", ["good", "moved", "unsized"])
def test_download(
    how: str, server: Server, offer: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "BLOCK", 100)
    offer(how)
    told: list[tuple[int, int | None]] = []
    home = tmp_path / "new" / "folder"
    check_ratings(load_movielens("100k", download=True, folder=home, progress=lambda *n: told.append(n)))
    size = len(server.content)
    assert told == [(min(n, size), None if how == "unsized" else size) for n in range(100, size + 100, 100)]
    assert [p.name for p in home.iterdir()] == ["ml-100k.zip"]
    assert (home / "ml-100k.zip").read_bytes() == server.content
    asked = server.asked
    check_ratings(load_movielens("100k", download=True, folder=home))  # it is there
    check_ratings(load_movielens("100k", folder=home))
    assert server.asked == asked


def test_terms_are_logged(
    offer: Callable[[str], None], tmp_path: Path, caplog: pytest.LogCaptureFixture, server: Server
) -> None:
    offer("good")
    load_movielens("100k", download=True, folder=tmp_path)  # nobody has asked to see the log
    assert [(r.name, r.levelno) for r in caplog.records] == [("rslm", logging.WARNING)]
    assert "MovieLens 100K: It may be used for research" in caplog.text


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("missing", "ml-100k.zip could not be downloaded: the server answered 404 Not Found"),
        ("truncated", r"the connection ended after \d+ of \d+ bytes|IncompleteRead"),
        ("stalled", "the server was silent for 0.2 seconds"),
    ],
)
def test_failed_downloads_leave_nothing(
    how: str, message: str, offer: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "TIMEOUT", 0.2)
    offer(how)
    with pytest.raises(
        ConnectionError, match=rf"{message}.*[Tt]ry again later.*by hand from http.*path='…/ml-100k.zip'"
    ):
        load_movielens("100k", download=True, folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_nobody_answers(offer: Any, tmp_path: Path) -> None:
    with socket.socket() as taken:  # bound, but not listening
        taken.bind(("127.0.0.1", 0))
        offer("good", f"http://127.0.0.1:{taken.getsockname()[1]}/ml-100k.zip")
        with pytest.raises(ConnectionError, match=r"could not be downloaded: .*refused.*Try again later"):
            load_movielens("100k", download=True, folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_nobody_speaks(offer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "TIMEOUT", 0.2)
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()  # takes the connection, and never answers
        offer("good", f"http://127.0.0.1:{mute.getsockname()[1]}/ml-100k.zip")
        with pytest.raises(ConnectionError, match=r"the server was silent for 0\.2 seconds"):
            load_movielens("100k", download=True, folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_wrong_checksum(server: Server, offer: Callable[[str], None], tmp_path: Path) -> None:
    offer("good")
    expected = hashlib.sha256(server.content).hexdigest()
    server.content = published("100k", RATINGS[:-1])
    got = hashlib.sha256(server.content).hexdigest()
    with pytest.raises(
        ValueError, match=f"SHA-256 is {got}, but {expected} is expected. Nothing was kept. Download it by"
    ):
        load_movielens("100k", download=True, folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_download_that_changed_later(server: Server, offer: Callable[[str], None], tmp_path: Path) -> None:
    offer("good")
    load_movielens("100k", download=True, folder=tmp_path)
    file = tmp_path / "ml-100k.zip"
    file.write_bytes(published("100k", RATINGS[:-1]))
    with pytest.raises(
        ValueError, match=r"ml-100k\.zip is not the file that http.* Delete it and pass download=True, or pass"
    ):
        load_movielens("100k", folder=tmp_path)
    check_ratings(load_movielens("100k", file), RATINGS[:-1])  # the user's own responsibility


def test_interrupted_download(offer: Callable[[str], None], tmp_path: Path) -> None:
    offer("good")

    def interrupt(done: int, total: int | None) -> None:
        assert len(list(tmp_path.iterdir())) == 1  # the temporary file
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load_movielens("100k", download=True, folder=tmp_path, progress=interrupt)
    assert list(tmp_path.iterdir()) == []


# The Netflix Prize


def netflix_text(films: dict[int, list[tuple[int, int]]]) -> bytes:
    lines_ = [f"{f}:\n" + "".join(f"{u},{s},2005-09-06\n" for u, s in of) for f, of in films.items()]
    return "".join(lines_).encode()


def some_netflix(first: int, count: int) -> dict[int, list[tuple[int, int]]]:
    rng = np.random.default_rng(first)
    people = np.concatenate([rng.integers(1, 100, 30), rng.integers(1, 2_649_430, 30)])
    return {
        first + k: [
            (int(u), int(rng.integers(1, 6))) for u in rng.permutation(np.unique(people))[: rng.integers(0, 50)]
        ]
        for k in range(count)
    }


def check_netflix(data: ObservedMatrix, films: dict[int, list[tuple[int, int]]]) -> None:
    entries = [(u, f, float(s)) for f, of in films.items() for u, s in of]
    assert data.values.dtype == np.float32
    assert data.index.dtype == np.int32
    assert data.indptr.dtype == np.int64
    assert data.row_ids is not None
    assert data.col_ids is not None
    assert data.row_ids.tolist() == sorted({e[0] for e in entries})
    assert data.col_ids.tolist() == sorted(films)
    key = data.rows_of_entries().astype(np.int64) * data.shape[1] + data.index
    assert np.all(np.diff(key) > 0)
    found = zip(data.row_ids[data.rows_of_entries()], data.col_ids[data.index], data.values, strict=True)
    assert [(int(u), int(f), float(v)) for u, f, v in found] == sorted(entries)


@pytest.mark.parametrize("size", [64, 1 << 22])
def test_netflix_in_every_form(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "SIZE", size)
    parts = {f"combined_data_{k + 1}.txt": some_netflix(20 * k + 1, 20) for k in range(3)}
    films = {f: of for part in parts.values() for f, of in part.items()}
    texts = {name: netflix_text(part) for name, part in parts.items()}
    single = {f"training_set/mv_{f:07}.txt": netflix_text({f: of}) for f, of in films.items()}
    for folder, files in ("kaggle", texts), ("prize", single):
        for name, text in files.items():
            (tmp_path / folder / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / folder / name).write_bytes(text)
    (tmp_path / "kaggle" / "movie_titles.csv").write_bytes(b"1,2003,Dinosaur Planet\n")
    (tmp_path / "kaggle.zip").write_bytes(zipped(texts | {"probe.txt": b"1:\n30878\n"}))
    backwards = dict(reversed(single.items()))
    nested = {"download/README": b"x", "download/training_set.tar": tarred(backwards, "w")}
    (tmp_path / "nf_prize_dataset.tar.gz").write_bytes(tarred(nested))
    for path in "kaggle", "kaggle.zip", "prize", "prize/training_set", "nf_prize_dataset.tar.gz":
        check_netflix(load_netflix(tmp_path / path), films)
    check_netflix(load_netflix(tmp_path / "kaggle" / "combined_data_2.txt"), parts["combined_data_2.txt"])
    (tmp_path / "dos.txt").write_bytes(texts["combined_data_1.txt"].replace(b"\n", b"\r\n").rstrip())
    check_netflix(load_netflix(tmp_path / "dos.txt"), parts["combined_data_1.txt"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"7,3,2005-09-06\n", r"line 1: '7,3,2005-09-06', but film: in the first line"),
        (b"1:\n7,3,2005-09-06\n8,x,2005-09-06\n", r"line 3: '8,x,2005-09-06', but film: or user,rating,date"),
        (b"1:\n7,3,2005-09-06\n8,12,2005-09-06\n", "line 3"),
        (
            b"1:\n7,1,2005-09-06\n8,5,\n9,0,2005-09-06\n",
            r"line 4: '9,0,2005-09-06', but a rating from 1 to 5 as in the N",
        ),
        (b"1:\n7,3,2005-09-06\n2:\n8,9,2005-09-06\n", "line 4: .*1 to 5"),
        (b"1:\n7,3\n8,1,2,9\n", "line 2: '7,3'"),
        (b"1:\n8,1,2005:\n9\n", "line 2"),
        (b"1:\n2:8,1,5\n9\n", "line 2"),
        (b"1:\n7,3,2005-09-06\n2:8,1,2005-09-06\n", "line 3"),
        (b"1:\n7,3,2005-09-06:\n", "line 2"),
        (b"1:\n:\n7,3,2005-09-06\n", "line 2: ':'"),
        (b"1:\nx7,3,2005-09-06\n", "line 2"),
        (b"1:\n99999999,3,2005-09-06\n", "line 2"),
        (b"1:\n7,3,2005-09-06\n\n8,3,2005-09-06\n", "line 3: ''"),
        (b"1:\n7,3,2005-09-06\n7,4,2005-09-07\n", "row 7, column 1"),
        (b"1:\n7,3,2005-09-06\n2:\n1:\n8,3,2005-09-06\n", "film 1 occurs twice.*not both"),
        (b"1:\n30878\n2647871\n", "line 2: '30878'"),
    ],
)
def test_wrong_netflix_text(text: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "combined_data_1.txt").write_bytes(text)
    with pytest.raises(ValueError, match=message):
        load_netflix(tmp_path)


def test_no_netflix_there(tmp_path: Path) -> None:
    (tmp_path / "probe.txt").write_bytes(b"1:\n")
    with pytest.raises(FileNotFoundError, match=r"has no ratings of the Netflix Prize in it.*kaggle"):
        load_netflix(tmp_path)
    (tmp_path / "mv_0000001.txt").write_bytes(b"1:\n")
    with pytest.raises(FileNotFoundError, match="has no ratings"):
        load_netflix(tmp_path)
    (tmp_path / "x.zip").write_bytes(zipped({"combined_data_1.txt": b"1:\n"})[:40])
    with pytest.raises(ValueError, match="damaged, or not an archive"):
        load_netflix(tmp_path / "x.zip")


# Related regressions


def school_file(path: Path, X: list[Any], y: list[Any]) -> None:
    cells = [np.empty((1, len(part)), dtype=object) for part in (X, y)]
    for cell, part in zip(cells, (X, y), strict=True):
        for k, value in enumerate(part):
            cell[0, k] = value
    scipy.io.savemat(path, {"X": cells[0], "Y": cells[1], "other": 1})


def test_school(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = [rng.integers(0, 200, (n, 3), dtype=np.uint8) for n in (4, 1, 6)]
    y = [rng.integers(0, 70, (n, 1), dtype=np.uint8) for n in (4, 1, 6)]
    (tmp_path / "school").mkdir()
    school_file(tmp_path / "school" / "school.mat", X, y)
    (tmp_path / "x.zip").write_bytes(zipped({"a/school.mat": (tmp_path / "school" / "school.mat").read_bytes()}))
    found = [load_school(tmp_path / p) for p in ("school/school.mat", "school", "x.zip")]
    for data in (*found, load_school(folder=tmp_path)):
        np.testing.assert_array_equal(data.X, np.vstack(X))
        assert data.X.dtype == data.y.dtype == np.float64
        np.testing.assert_array_equal(data.y, np.concatenate(y)[:, 0])
        assert data.tasks.tolist() == [0] * 4 + [1] + [2] * 6


@pytest.mark.parametrize(
    ("X", "y"),
    [
        ([np.ones((2, 3))], []),
        ([np.ones((2, 3)), np.ones((2, 3))], [np.ones((2, 1)), np.ones((3, 1))]),
        ([np.ones((2, 3)), np.ones((2, 4))], [np.ones((2, 1)), np.ones((2, 1))]),
        ([], []),
    ],
)
def test_wrong_schools(X: list[Any], y: list[Any], tmp_path: Path) -> None:
    school_file(tmp_path / "school.mat", X, y)
    with pytest.raises(ValueError, match=r"school\.mat has .*cells.* MATLAB cells X and Y.*are needed"):
        load_school(tmp_path / "school.mat")


def test_no_school(tmp_path: Path) -> None:
    (tmp_path / "school.mat").write_bytes(b"no MATLAB at all" * 20)
    with pytest.raises(ValueError, match=r"school\.mat is damaged or not a MATLAB file"):
        load_school(tmp_path)
    scipy.io.savemat(tmp_path / "school.mat", {"X": np.ones(3)})
    with pytest.raises(ValueError, match="no such cells"):
        load_school(tmp_path)


PATIENTS = b"""subject#,age,sex,test_time,motor_UPDRS,total_UPDRS,Jitter(%),PPE
1,72,0,5.6431,28.199,34.398,0.00662,0.16006
1,72,0,12.666,28.447,34.894,3.38e-005,0.1081
4,58,1,-1.5,11,12,0.003,0.2
"""


def test_parkinsons(tmp_path: Path) -> None:
    (tmp_path / "parkinsons_updrs.data").write_bytes(PATIENTS.replace(b"\n", b"\r\n"))
    (tmp_path / "x.zip").write_bytes(zipped({"parkinsons_updrs.data": PATIENTS, "parkinsons_updrs.names": b"x"}))
    for path in tmp_path, tmp_path / "x.zip", tmp_path / "parkinsons_updrs.data":
        data = load_parkinsons(path)
        assert data.feature_names == ("age", "sex", "test_time", "Jitter(%)", "PPE")
        assert data.X[1].tolist() == [72, 0, 12.666, 3.38e-5, 0.1081]
        assert data.y.tolist() == [34.398, 34.894, 12]
        assert data.tasks.tolist() == [1, 1, 4]
    assert load_parkinsons(tmp_path, target="motor_UPDRS").y.tolist() == [28.199, 28.447, 11]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<html>moved</html>\n", "begins with '<html>moved</html>', but a header with subject#, motor_UPDRS"),
        (PATIENTS.replace(b"-1.5", b"soon"), "other than numbers below its header.*soon"),
        (PATIENTS + b"1,2\n", "other than numbers below its header"),
        (PATIENTS.replace(b",PPE", b""), "7 names in its header, but 8 columns"),
        (PATIENTS.splitlines()[0] + b"\n\n", "nothing below its header"),
        (b"", "begins with ''"),
        (PATIENTS.replace(b"12.666", b"nan"), "line 3: test_time is nan, but a finite number is needed"),
        (PATIENTS.replace(b",0.2\n", b",-inf\n"), "line 4: PPE is -inf, but a finite number"),
        (PATIENTS.replace(b"\n4,", b"\n\n1.5,"), "line 5: subject# is 1.5, but the number of a patient is needed"),
        (PATIENTS.replace(b"\n4,", b"\nnan,"), "line 4: subject# is nan"),
        (PATIENTS.replace(b"\n4,", b"\n1e300,"), r"line 4: subject# is 1e\+300"),
        (PATIENTS.replace(b"0.16006\n", b"0.16006 # note\n"), "other than numbers"),
    ],
)
def test_wrong_parkinsons(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(ValueError, match=f"file,? {message}|file has something {message}|file has {message}"):
        load_parkinsons(tmp_path / "file")


def test_parkinsons_by_download(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.content = PATIENTS
    url = server.address("good").replace("ml-100k.zip", "parkinsons_updrs.data")
    known = replace(parkinsons.PARKINSONS, url=url, sha256=hashlib.sha256(PATIENTS).hexdigest())
    monkeypatch.setattr(parkinsons, "PARKINSONS", known)
    assert load_parkinsons(download=True, folder=tmp_path).X.shape == (3, 5)
    assert load_parkinsons(folder=tmp_path).X.shape == (3, 5)
    assert server.asked == 1
    with pytest.raises(ValueError, match="target is 'UPDRS', but must be 'motor_UPDRS' or 'total_UPDRS'"):
        load_parkinsons(target="UPDRS")  # type: ignore[arg-type]


# Real data


def test_real_movielens_100k(shared_data: Callable[[str], Path]) -> None:
    data = load_movielens("100k", shared_data("ml-100k/u.data"))
    assert (data.shape, data.n_observed) == ((943, 1682), 100_000)
    assert round(float(data.values.mean()), 5) == 3.52986
    assert data.values[(data.row_of(196) == data.rows_of_entries()) & (data.index == data.col_of(242))] == [3.0]


def test_real_movielens_1m_as_published(shared_data: Callable[[str], Path], tmp_path: Path) -> None:
    with np.load(shared_data("ml-1m/ml-1m.npz")) as file:
        users, films = file["user_ids"][file["col"]], file["movie_ids"][file["row"]]
        values = file["value"]
    table = np.column_stack([users, films, values]).astype(np.int64)
    with zipfile.ZipFile(tmp_path / "ml-1m.zip", "w") as archive, archive.open("ml-1m/ratings.dat", "w") as stream:
        np.savetxt(stream, table, fmt="%d::%d::%d::978300760")
    data = load_movielens("1m", tmp_path / "ml-1m.zip")
    expected = ObservedMatrix.from_ratings(users, films, values)
    assert data.shape == (6040, 3706)
    for part in "indptr", "index", "values", "row_ids", "col_ids":
        np.testing.assert_array_equal(getattr(data, part), getattr(expected, part))


def test_real_school(shared_data: Callable[[str], Path]) -> None:
    data = load_school(shared_data("school/school.mat"))
    assert data.X.shape == (15_362, 28)
    assert len(np.unique(data.tasks)) == 139
    assert np.all(data.X[:, 27] == 1)
    assert data.y.max() > 60


def test_real_parkinsons(shared_data: Callable[[str], Path]) -> None:
    path = shared_data("parkinsons/parkinsons_updrs.data")
    assert download.checksum(path) == parkinsons.PARKINSONS.sha256
    data = load_parkinsons(path)
    assert data.X.shape == (5875, 19)
    assert sorted(set(data.tasks.tolist())) == list(range(1, 43))
    assert data.y[0] == 34.398
