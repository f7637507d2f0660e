"""Stored keys: where they go, who wins, and that none is ever shown."""

from __future__ import annotations

import os
import stat
import sys
import types

import pytest

from llmstream.cli import main
from llmstream.cli.keys import api_key_for
from llmstream.simulator import Script, Turn

SECRET = "sk-very-secret-1234567890"


@pytest.fixture
def stored(typed_in, capsys):
    typed_in(f"{SECRET}\n")
    assert main(["keys", "set", "openai", "--file"]) == 0
    capsys.readouterr()


@pytest.fixture
def ring(monkeypatch):
    """A keyring in memory, in the place of the package; {} of (service, name) to password."""
    content: dict[tuple[str, str], str] = {}
    module = types.ModuleType("keyring")
    module.get_keyring = lambda: types.SimpleNamespace(priority=5)
    module.set_password = lambda service, name, key: content.__setitem__((service, name), key)
    module.get_password = lambda service, name: content.get((service, name))
    module.delete_password = lambda service, name: content.pop((service, name))
    monkeypatch.setitem(sys.modules, "keyring", module)
    return content


def test_only_the_owner_can_read_keys(stored, tmp_path, capsys):
    file = tmp_path / "config" / "llmstream" / "keys.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert SECRET in file.read_text()
    assert main(["keys", "path"]) == 0
    assert capsys.readouterr().out == f"{file}\n"


def test_a_stored_key_is_sent(stored, simulate, capsys, monkeypatch, typed_in):
    typed_in("")
    simulator = simulate(Script((Turn(text="So."),)), api_keys=[SECRET])
    monkeypatch.setenv("OPENAI_BASE_URL", f"{simulator.url}/v1")
    assert main(["chat", "-m", "openai:m", "Hi"]) == 0
    assert capsys.readouterr().out == "So.\n"


def test_the_environment_wins(stored, monkeypatch):
    assert api_key_for("openai:m") == SECRET
    monkeypatch.setenv("OPENAI_API_KEY", "another")
    assert api_key_for("openai:m") is None


def test_providers_of_a_vendor_share_a_key(stored):
    assert api_key_for("openai-responses:m") == SECRET
    assert api_key_for("groq:m") is None


@pytest.mark.parametrize(
    "argv",
    [
        ["chat", "Why?"],
        ["bench", "-n", "1", "--warmup", "0"],
        ["check", "--only", "text", "--yes"],
        ["map", "--prompt", "{{it}}", "rows.jsonl"],
        ["models", "openai"],
    ],
)
def test_every_command_uses_stored_keys(argv, stored, simulate, capsys, tmp_path, monkeypatch):
    """The simulator refuses other keys."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_text('{"it": "Why?"}\n')
    server = simulate(Script((Turn(text="Blue."),)), api_keys={SECRET}, models=("m",))
    model = [] if argv[0] == "models" else ["-m", "openai:m"]
    assert main([*argv, *model, "--base-url", f"{server.url}/v1"]) == 0
    assert SECRET not in "".join(capsys.readouterr())


def test_the_library_reads_no_stored_key(stored, monkeypatch):
    import llmstream as ls

    with pytest.raises(ls.MissingKey):
        ls.Model("openai:m").provider.key(None)


def test_keys_are_listed_without_secrets(stored, capsys, monkeypatch):
    assert main(["keys", "list"]) == 0
    assert capsys.readouterr().out == "openai  OPENAI_API_KEY  file\n"
    monkeypatch.setenv("OPENAI_API_KEY", "another")
    assert main(["keys", "list"]) == 0
    assert "OPENAI_API_KEY is set and wins" in capsys.readouterr().out


def test_a_removed_key_is_gone(stored, capsys):
    assert main(["keys", "remove", "openai"]) == 0
    assert api_key_for("openai:m") is None
    assert main(["keys", "remove", "openai"]) == 2
    assert "no key is stored for openai" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["keys", "set", "openai", SECRET], "never given as an argument"),
        (["keys", "set", SECRET], "unknown provider"),
        (["keys", "set", f"OPENAI_API_KEY={SECRET}"], "unknown provider"),
        (["keys", "set", "opnai"], "Did you mean openai?"),
        (["keys", "set"], "name a provider"),
        (["keys", "set", "ollama-nothing"], "unknown provider"),
        (["keys", "set", "sim"], "takes no API key"),
    ],
)
def test_mistakes_name_remedy_not_the_key(argv, words, capsys, typed_in):
    typed_in("")
    assert main(argv) == 2
    out, err = capsys.readouterr()
    assert words in err
    assert SECRET not in out + err
    assert SECRET.lower() not in out + err


@pytest.mark.parametrize("text", ["", "  \n", f"{SECRET}\nsecond line", f"two {SECRET}", f"{SECRET}é"])
def test_what_is_no_key_is_not_stored(text, typed_in, capsys, tmp_path):
    typed_in(text)
    assert main(["keys", "set", "openai"]) == 2
    assert SECRET not in capsys.readouterr().err
    assert not (tmp_path / "config").exists()


def test_keyring_is_preferred_to_the_file(ring, typed_in, capsys, tmp_path):
    typed_in(SECRET)
    assert main(["keys", "set", "openai"]) == 0
    assert "keyring" in capsys.readouterr().out
    assert SECRET not in (tmp_path / "config" / "llmstream" / "keys.json").read_text()
    assert ring == {("llmstream", "OPENAI_API_KEY"): SECRET}
    assert api_key_for("openai:m") == SECRET
    assert main(["keys", "remove", "openai"]) == 0
    assert ring == {}


def test_a_locked_keyring_names_the_remedy(ring, typed_in, capsys):
    typed_in(SECRET)
    main(["keys", "set", "openai"])
    ring.clear()
    capsys.readouterr()
    typed_in("")
    assert main(["chat", "-m", "openai:m", "Hi"]) == 2
    assert "the key for OPENAI_API_KEY is in the system keyring" in capsys.readouterr().err


def test_a_file_open_to_others_is_reported(stored, capsys, tmp_path):
    file = tmp_path / "config" / "llmstream" / "keys.json"
    os.chmod(file, 0o644)
    assert api_key_for("openai:m") == SECRET
    err = capsys.readouterr().err
    assert f"chmod 600 {file}" in err.replace("\n", " ")


def test_a_damaged_file_shows_no_content(stored, capsys, tmp_path):
    file = tmp_path / "config" / "llmstream" / "keys.json"
    file.write_text(f'{{"OPENAI_API_KEY": "{SECRET}"')
    assert main(["keys", "list"]) == 2
    err = capsys.readouterr().err
    assert "is damaged" in err
    assert SECRET not in err


def test_a_refused_stored_key_is_replaceable(stored, simulate, capsys, monkeypatch, typed_in):
    typed_in("")
    simulator = simulate(Script((Turn(text="So."),)), api_keys=["right"])
    monkeypatch.setenv("OPENAI_BASE_URL", f"{simulator.url}/v1")
    assert main(["chat", "-m", "openai:m", "Hi"]) == 3
    err = capsys.readouterr().err
    assert "llmstream keys set openai" in err
    assert SECRET not in err


def test_providers_show_a_stored_key_as_set(stored, capsys):
    assert main(["providers", "openai"]) == 0
    out = capsys.readouterr().out
    assert "stored by llmstream keys" in out
    assert SECRET not in out
