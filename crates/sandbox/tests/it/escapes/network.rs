//! Rows about the network and local sockets: nothing of the host is reached without leave.

use sandbox::LeftOut::{
    self, Capabilities, Landlock, MountView, NetNamespace, Seccomp, UserNamespace,
};

use super::row::{Row, Who, row};

/// The cell's network has no interface that is up; the filter denies the families; Landlock
/// denies TCP and scopes abstract sockets.
const NETWORK: &[LeftOut] = &[NetNamespace, Seccomp, Landlock];

pub(super) fn rows() -> Vec<Row> {
    let connect = |name: &str, code: &str| {
        row("S51", name, NETWORK, code).prologue("import socket").refused(&[
            "EPERM",
            "EAFNOSUPPORT",
            "EACCES",
        ])
    };
    let mut rows = vec![
        connect(
            "TCP to the server's loopback",
            "socket.create_connection(('127.0.0.1', int(os.environ['TCP_PORT'])), 2)\nescaped('connected')",
        )
        .second_behind(Seccomp),
        connect(
            "TCP to 0.0.0.0",
            "s = socket.socket()\ns.connect(('0.0.0.0', int(os.environ['TCP_PORT'])))\nescaped('connected')",
        )
        .second_behind(Seccomp),
        connect(
            "TCP to an IPv4 address written as IPv6",
            "s = socket.socket(socket.AF_INET6)\ns.connect(('::ffff:127.0.0.1', int(os.environ['TCP_PORT'])))\nescaped('connected')",
        )
        .second_behind(Seccomp),
        connect(
            "UDP to loopback",
            "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.sendto(b'x', ('127.0.0.1', int(os.environ['UDP_PORT'])))\nescaped('sent')",
        )
        .second_behind(Seccomp)
        .never(|stage| stage.got_a_datagram()),
        connect(
            "listen on TCP",
            "s = socket.socket()\ns.bind(('127.0.0.1', 0))\ns.listen()\nescaped('listens on', s.getsockname())",
        ),
        connect(
            "a name through the resolver of the host",
            "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.connect(('169.254.169.254', 53))\nescaped('has a way to', s.getsockname())",
        )
        .second_behind(Seccomp),
        connect(
            "abstract socket of the host",
            "s = socket.socket(socket.AF_UNIX)\ns.connect('\\0' + os.environ['ABSTRACT'])\nescaped('connected')",
        )
        .second_behind(NetNamespace)
        .refused(&["ECONNREFUSED", "EPERM"]),
        connect(
            "abstract datagram socket of the host",
            "s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\ns.sendto(b'x', '\\0' + os.environ['ABSTRACT'] + '-datagram')\nescaped('sent')",
        )
        .second_behind(NetNamespace)
        .refused(&["ECONNREFUSED", "EPERM"]),
        row(
            "S51",
            "socket of the host in the file system",
            &[MountView, Landlock, Capabilities, UserNamespace],
            "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect(os.environ['SOCKET'])\nescaped('connected')",
        )
        .refused(&["ENOENT"]),
        row(
            "S51",
            "interfaces of the host",
            &[NetNamespace],
            r#"
names = sorted(line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line)
if names != ["lo"]:
    escaped("sees", names)
nothing("sees", names)
"#,
        )
        .nothing(),
        row(
            "S51",
            "connections of the host in /proc/net",
            &[NetNamespace],
            r#"
port = f"{int(os.environ['TCP_PORT']):04X}"
for name in ("tcp", "tcp6", "unix"):
    try:
        text = open(f"/proc/net/{name}").read()
    except FileNotFoundError:
        continue
    if f":{port} " in text or os.environ["ABSTRACT"] in text:
        escaped("sees the server's sockets in", name)
nothing("no socket of the host")
"#,
        )
        .nothing(),
        row(
            "S51",
            "raw ICMP",
            &[NetNamespace, Seccomp, Landlock, Capabilities, UserNamespace],
            "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)\nescaped('has a raw socket')",
        )
        .who(Who::Root)
        .refused(&["EPERM", "EACCES", "EAFNOSUPPORT"]),
        row(
            "S51",
            "ICMP without privilege",
            NETWORK,
            format!(
                "probe({}, [2, 2, 1], ['EACCES', 'EPROTONOSUPPORT'])",
                libc::SYS_socket
            ),
        )
        .refused(&["EPERM", "EAFNOSUPPORT"]),
        row(
            "S51",
            "vsock to the hypervisor",
            &[Seccomp],
            "import socket\ns = socket.socket(40, socket.SOCK_STREAM)\nescaped('has a socket to the hypervisor')",
        )
        .refused(&["EPERM", "EAFNOSUPPORT"]),
        row(
            "S51",
            "routes and addresses through netlink",
            &[Seccomp],
            "import socket\ns = socket.socket(16, socket.SOCK_RAW, 0)\ns.bind((0, 0))\nescaped('asks the kernel')",
        )
        .refused(&["EPERM", "EAFNOSUPPORT"]),
    ];
    rows.push(
        row(
            "S51",
            "two runs meet at an abstract socket",
            &[NetNamespace, Landlock],
            r#"
import socket
s = socket.socket(socket.AF_UNIX)
s.connect("\0" + os.environ["VICTIM_MARK"])
escaped(s.recv(200).decode())
"#,
        )
        .victim()
        .says_secret()
        .refused(&["ECONNREFUSED", "EPERM"]),
    );
    rows
}
