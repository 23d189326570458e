//! What attackers write. Beside it stands the one public address of this network, which may be reached by everybody.

/// The public address at which the attackers' own server listens.
pub(crate) const PUBLIC: &str = "93.184.215.14";

/// Addresses inside to which a connection can really be made in this network, so that the controls can show it.
pub(crate) const INWARD: &[&str] = &[
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.254",
    "100.64.0.1",
    "100.127.255.254",
    "100.100.100.200",
    "127.0.0.1",
    "127.255.255.254",
    "168.63.129.16",
    "169.254.0.1",
    "169.254.169.254",
    "169.254.170.2",
    "172.16.0.1",
    "172.31.255.254",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "192.168.255.254",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "240.0.0.1",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:0:7f00:1",
    "::ffff:0:a9fe:a9fe",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a00:1",
    "100::1",
    "4000::1",
    "5f00::1",
    "2001::1",
    "2001:0:53aa:64c:0:0:5601:5601",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::1",
    "3fff::1",
    "fc00::1",
    "fd00:ec2::254",
    "fd20:ce::254",
    "fdff:ffff::1",
    "fec0::1",
];

/// Spellings and places beside the plain addresses; none of them may be asked for anything.
const SPELLINGS: &[&str] = &[
    "http://127.1/",
    "http://127.0.1/",
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7f.1/",
    "http://0X7F.0.0.0x1/",
    "http://0177.0.0.1/",
    "http://00000177.0.0.01/",
    "http://017700000001/",
    "http://0/",
    "http://0x0/",
    "http://167772161/",
    "http://0xa9fea9fe/latest/meta-data/",
    "http://2852039166/",
    "http://0251.0376.0251.0376/",
    "http://169.254.43518/",
    "http://169.254.169.254./",
    "http://169.254.169.254:80/",
    "http://127.0.0.1./",
    "http://127.0.0.1:8080/",
    "http://１２７.0.0.1/",
    "http://127。0。0。1/",
    "http://①②⑦.⓪.⓪.①/",
    "http://%31%32%37.0.0.1/",
    "http://127.0.0.1%2f@example.com/",
    "http:127.0.0.1/",
    "http:\\\\127.0.0.1\\",
    "hTTp://127.0.0.1/",
    "\thttp://127.0.0.1/\n",
    "http://127.0.0.\t1/",
    "http://224.0.0.1/",
    "http://239.255.255.250:1900/",
    "http://255.255.255.255/",
    "http://[0:0:0:0:0:0:0:1]/",
    "http://[0000::0001]/",
    "http://[::ffff:7f00:1]/",
    "http://[0:0:0:0:0:ffff:169.254.169.254]/",
    "http://[::ffff:0xa9fe:a9fe]/",
    "http://[fe80::1]/",
    "http://[fe80::1%25lo]/",
    "http://[fe80::1%lo]/",
    "http://[::1%25lo]/",
    "http://[ff02::1]/",
    "http://[ff05::1:3]/",
    "http://localhost/",
    "http://LOCALHOST./",
    "http://LocalHost:8080/",
    "http://93.184.215.14@169.254.169.254/",
    "http://93.184.215.14:80@169.254.169.254/",
    "http://169.254.169.254@93.184.215.14/",
    "http://user:pass@93.184.215.14/",
    "http://:@169.254.169.254/",
    "http://example.com@127.0.0.1:80#@example.com/",
    "http://example.com:22/",
    "http://example.com:25/",
    "http://example.com:5432/",
    "http://93.184.215.14:6379/",
    "ftp://127.0.0.1/",
    "gopher://127.0.0.1:6379/_INFO",
    "file:///etc/passwd",
    "data:text/plain,hi",
    "unix:/run/docker.sock",
    "javascript:alert(1)",
    "//169.254.169.254/",
    "http://",
    "http:///",
];

/// The address as the host of a URL.
pub(crate) fn host_of(address: &str) -> String {
    if address.contains(':') {
        format!("[{address}]")
    } else {
        address.to_owned()
    }
}

/// The name under which the address is known in this network.
pub(crate) fn name_of(address: &str) -> String {
    format!("at-{}.trap.example", address.replace(['.', ':'], "-"))
}

/// Every URL whose place can be told from its text.
pub(crate) fn urls() -> Vec<String> {
    let mut urls: Vec<String> = SPELLINGS.iter().map(|url| (*url).to_owned()).collect();
    for host in INWARD.iter().map(|address| host_of(address)) {
        urls.push(format!("http://{host}/"));
        urls.push(format!("https://{host}/"));
        urls.push(format!("http://{host}:8080/latest/"));
    }
    urls
}

/// URLs whose hosts are names of addresses inside.
pub(crate) fn named_urls() -> Vec<String> {
    let at = |address: &&str| {
        let name = name_of(address);
        [format!("http://{name}/"), format!("https://{name}:8443/")]
    };
    INWARD.iter().flat_map(at).collect()
}
