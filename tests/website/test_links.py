from __future__ import annotations

from pathlib import Path

import pytest

from website.links import problems

HOME = '<h1 id="top">Home</h1><a href="guide/#start">go</a> <a href="https://example.org">out</a>'
GUIDE = '<h2 id="start">Start</h2><a href="..#top">back</a> <img src="../dot.svg"> <a href="#start">here</a>'


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "guide").mkdir()
    (tmp_path / "index.html").write_text(HOME)
    (tmp_path / "guide" / "index.html").write_text(GUIDE)
    (tmp_path / "dot.svg").write_text("<svg/>")
    (tmp_path / "site.css").write_text("a { background: url(data:image/png;base64,AA) }")
    return tmp_path


def test_a_whole_site_has_no_problems(site: Path) -> None:
    assert list(problems(site)) == []


@pytest.mark.parametrize(
    ("html", "problem"),
    [
        ('<a href="gone/">x</a>', "gone/ does not exist"),
        ('<a href="guide/#gone">x</a>', "guide/#gone has no such anchor"),
        ('<img src="gone.png">', "gone.png does not exist"),
        ('<link rel="stylesheet" href="https://fonts.test/a.css">', "loads https://fonts.test/a.css"),
        ('<script src="//cdn.test/a.js"></script>', "loads //cdn.test/a.js"),
    ],
)
def test_a_defect_of_a_page_is_found(site: Path, html: str, problem: str) -> None:
    (site / "index.html").write_text(html)
    assert f"index.html: {problem}" in list(problems(site))


def test_a_foreign_address_in_css_is_found(site: Path) -> None:
    (site / "site.css").write_text('@import "https://fonts.test/a.css"; b { src: url(//cdn.test/f.woff2) }')
    assert list(problems(site)) == [
        "site.css: loads https://fonts.test/a.css",
        "site.css: loads //cdn.test/f.woff2",
    ]


def test_an_empty_folder_is_no_site(tmp_path: Path) -> None:
    assert list(problems(tmp_path)) == [f"{tmp_path} has no pages"]


def test_a_canonical_address_is_not_loaded(site: Path) -> None:
    (site / "index.html").write_text(HOME + '<link rel="canonical" href="https://example.org/">')
    assert list(problems(site)) == []
