"""Which URLs are fetched on somebody's behalf, and which never are."""

from __future__ import annotations

import pytest

from llmstream.transport.download import DownloadLimits, refused_address, refused_url

REFUSED_URLS = [
    # other schemes, or none
    "http://example.com/a.png",
    "ftp://example.com/a.png",
    "file:///etc/passwd",
    "gopher://example.com/",
    "unix:///var/run/docker.sock",
    "//example.com/a.png",
    "example.com/a.png",
    "javascript:alert(1)",
    "",
    # no host, no port
    "https://",
    "https:///a.png",
    "https://example.com:0/a.png",
    "https://example.com:99999/a.png",
    "https://example.com:a/a.png",
    # credentials
    "https://user:word@example.com/a.png",
    "https://user@example.com/a.png",
    "https://@example.com/a.png",
    "https://example.com@127.0.0.1/",
    # what parsers disagree about
    "https://example.com\\@127.0.0.1/",
    "https:\\\\127.0.0.1\\",
    "https://exam ple.com/",
    "https://example.com/\r\nHost: localhost",
    "https://example.com/\x00",
    "https://example.com\t/",
    "https://127.0.0.1%2f.example.com/",
    "https://%31%32%37.0.0.1/",
    "https://a..example.com/",
    # loopback and private networks
    "https://127.0.0.1/",
    "https://127.8.9.1:8443/",
    "https://10.0.0.1/",
    "https://172.16.0.1/",
    "https://172.31.255.255/",
    "https://192.168.1.1/",
    "https://100.64.0.1/",
    "https://0.0.0.0/",
    "https://255.255.255.255/",
    "https://224.0.0.1/",
    "https://192.0.2.1/",
    "https://198.18.0.1/",
    "https://198.51.100.7/",
    "https://203.0.113.7/",
    # clouds
    "https://169.254.169.254/latest/meta-data/",
    "https://169.254.170.2/v2/credentials",
    "https://100.100.100.200/",
    "https://168.63.129.16/",
    "https://192.0.0.192/",
    "https://metadata.google.internal/",
    "https://[fd00:ec2::254]/",
    "https://[fd20:ce::254]/",
    # IPv4 in forms that some resolvers read
    "https://2130706433/",
    "https://0x7f000001/",
    "https://0x7f.0.0.1/",
    "https://0177.0.0.1/",
    "https://127.1/",
    "https://127.0.1/",
    "https://0/",
    "https://256.256.256.256/",
    "https://017700000001/",
    "https://127.0.0.0x1/",
    "https://１２７.０.０.１/",
    "https://127。0。0。1/",
    "https://①②⑦.⓪.⓪.①/",
    "https://8.8.8.010/",
    # dots at the end
    "https://localhost./",
    "https://127.0.0.1./",
    "https://example.com./",
    "https://metadata.google.internal./",
    # names of the local network
    "https://localhost/",
    "https://LOCALHOST/",
    "https://a.localhost/",
    "https://printer.local/",
    "https://intranet/",
    "https://nas.home.arpa/",
    "https://router.lan/",
    # IPv6
    "https://[::1]/",
    "https://[::]/",
    "https://[0:0:0:0:0:0:0:1]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[::ffff:7f00:1]/",
    "https://[::ffff:169.254.169.254]/",
    "https://[::127.0.0.1]/",
    "https://[64:ff9b::127.0.0.1]/",
    "https://[64:ff9b::a9fe:a9fe]/",
    "https://[64:ff9b:1::a00:1]/",
    "https://[2002:7f00:1::]/",
    "https://[2002:808:808::1]/",
    "https://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/",
    "https://[fc00::1]/",
    "https://[fd12:3456::1]/",
    "https://[fe80::1]/",
    "https://[fe80::1%25eth0]/",
    "https://[fec0::1]/",
    "https://[ff02::1]/",
    "https://[2001:db8::1]/",
    "https://[100::1]/",
    "https://[3fff::1]/",
    "https://[5f00::1]/",
    "https://[::1",
    "https://[example.com]/",
]
PUBLIC_URLS = [
    "https://example.com/a.png",
    "https://example.com",
    "https://EXAMPLE.com:8443/a%20b.png?x=1&y=%2F#z",
    "https://8.8.8.8/a.png",
    "https://172.32.0.1/",
    "https://100.128.0.1/",
    "https://[2606:4700:4700::1111]/",
    "https://[::ffff:8.8.8.8]/",
    "https://[64:ff9b::8.8.8.8]/",
    "https://bücher.example/a.png",
    "https://xn--bcher-kva.example/a.png",
    "https://1e100.example/a.png",
    "https://0x7f.example/",
    "https://localhost.example/",
    "https://example.com/@127.0.0.1/",
    "https://example.com/?at=http://127.0.0.1/",
]
CLOUDS = [
    "169.254.169.254",
    "100.100.100.200",
    "168.63.129.16",
    "192.0.0.192",
    "fd00:ec2::254",
    "fd20:ce::254",
    "fe80::a9fe:a9fe",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
]


@pytest.mark.parametrize("url", REFUSED_URLS)
def test_private_network_paths_are_refused(url) -> None:
    assert refused_url(url, DownloadLimits())


@pytest.mark.parametrize("url", PUBLIC_URLS)
def test_what_is_public_is_fetched(url) -> None:
    assert refused_url(url, DownloadLimits()) is None


@pytest.mark.parametrize("address", CLOUDS)
def test_cloud_credentials_always_refused(address) -> None:
    """Private networks may be allowed."""
    assert refused_address(address, allow_private=True)


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "10.1.2.3", "192.168.0.9", "::1", "fd12::1", "::ffff:10.0.0.1"]
)
def test_private_networks_can_be_allowed(address) -> None:
    assert refused_address(address)
    assert refused_address(address, allow_private=True) is None


@pytest.mark.parametrize(
    "address", ["0.0.0.0", "::", "224.0.0.1", "ff02::1", "2002:7f00:1::", "example.com", ""]
)
def test_non_host_address_is_never_connected(address) -> None:
    assert refused_address(address, allow_private=True)


def test_http_and_local_names_can_be_allowed() -> None:
    assert (
        refused_url("http://localhost:8000/a.png", DownloadLimits(allow_http=True, allow_private=True))
        is None
    )
    assert refused_url("http://localhost:8000/a.png", DownloadLimits(allow_private=True))
    assert refused_url("http://localhost:8000/a.png", DownloadLimits(allow_http=True))
    assert refused_url("https://2130706433/", DownloadLimits(allow_private=True))
    assert refused_url("https://user@localhost/", DownloadLimits(allow_private=True))
