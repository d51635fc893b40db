//! Where requests of a login may go: a server names addresses, and it may name the cloud's
//! metadata service or a machine of the house.
//!
//! Allowed are https and the public internet. Besides these, what a person has chosen: the origin of
//! the configured server itself, the configured issuer, and for a server on this machine others on
//! this machine. Names are judged by the addresses they lead to, at the moment of connecting. Where
//! a proxy is configured it looks the names up, so only addresses can be judged.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Variables that name proxies.
const PROXIES: [&str; 6] =
    ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];

/// Where requests may go.
#[derive(Clone, Debug)]
pub(super) struct Places {
    /// Hosts that a person has chosen, with their ports.
    chosen: Arc<[(String, u16)]>,
    /// Hosts of proxies.
    proxies: Arc<[String]>,
    /// Whether the configured server is on this machine.
    at_home: bool,
}

impl Places {
    /// For the login at a server, with an issuer if one is configured.
    pub(super) fn new(server: &Url, issuer: Option<&Url>) -> Self {
        let chosen = [Some(server), issuer].into_iter().flatten();
        let proxies = PROXIES.iter().filter_map(|name| std::env::var(name).ok());
        Self {
            chosen: chosen.filter_map(authority).collect(),
            proxies: proxies.filter_map(|proxy| proxy_host(&proxy)).collect(),
            at_home: is_loopback(server),
        }
    }

    /// Why a request may not go there, if it may not.
    pub(super) fn refuse(&self, url: &Url) -> Result<(), String> {
        let shown = || crate::endpoint::origin(url.as_str());
        let here = self.at_home && is_loopback(url);
        if url.scheme() != "https" && !(url.scheme() == "http" && here) {
            return Err(format!("{} is not https", shown()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(format!("the address at {} has a user name in it", shown()));
        }
        if here || self.is_chosen(url) {
            return Ok(());
        }
        match literal(url) {
            Some(address) if !is_public(address) => Err(format!(
                "{} is not on the public internet; name it as `issuer` in `oauth` if it is the \
                 right one",
                shown()
            )),
            None if is_loopback(url) => Err(format!("{} is this machine", shown())),
            _ => Ok(()),
        }
    }

    /// Whether a person chose this very host and port.
    pub(super) fn is_chosen(&self, url: &Url) -> bool {
        authority(url).is_some_and(|one| self.chosen.contains(&one))
    }

    /// Whether a name may lead to an address.
    fn allows(&self, name: &str, address: IpAddr) -> bool {
        let name = bare(name);
        is_public(address)
            || (self.at_home && address.is_loopback() && is_loopback_name(&name))
            || self.chosen.iter().any(|(host, _)| *host == name)
            || self.proxies.contains(&name)
    }
}

impl Resolve for Places {
    fn resolve(&self, name: Name) -> Resolving {
        let places = self.clone();
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let found = tokio::task::spawn_blocking(move || {
                (host.as_str(), 0).to_socket_addrs().map(Iterator::collect::<Vec<SocketAddr>>)
            })
            .await??;
            let allowed: Vec<SocketAddr> = found
                .into_iter()
                .filter(|found| places.allows(name.as_str(), found.ip()))
                .collect();
            if allowed.is_empty() {
                return Err(format!(
                    "{} leads to no address on the public internet; name it as `issuer` in \
                     `oauth` if it is the right one",
                    name.as_str()
                )
                .into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

/// Whether it is this machine, by its name.
pub(super) fn is_loopback(url: &Url) -> bool {
    match literal(url) {
        Some(address) => address.is_loopback(),
        None => url.host_str().is_some_and(|host| is_loopback_name(&bare(host))),
    }
}

fn is_loopback_name(name: &str) -> bool {
    name == "localhost" || name.ends_with(".localhost")
}

fn literal(url: &Url) -> Option<IpAddr> {
    let host = url.host_str()?;
    host.trim_matches(['[', ']']).parse().ok()
}

fn authority(url: &Url) -> Option<(String, u16)> {
    Some((bare(url.host_str()?), url.port_or_known_default()?))
}

/// A host in the one form in which it is compared.
fn bare(host: &str) -> String {
    host.trim_end_matches('.').to_ascii_lowercase()
}

fn proxy_host(proxy: &str) -> Option<String> {
    let proxy = if proxy.contains("://") { proxy.to_owned() } else { format!("http://{proxy}") };
    Url::parse(&proxy).ok()?.host_str().map(bare)
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => match embedded(address) {
            Some(address) => is_public_v4(address),
            // Only what has been given out for global use: 2000::/3, without Teredo, the
            // documentation's and the benchmarks' ranges.
            None => {
                let [a, b, ..] = address.segments();
                (a & 0xe000) == 0x2000
                    && !(a == 0x2001 && (b < 0x200 || b == 0xdb8))
                    && !(a == 0x3fff && b < 0x1000)
            }
        },
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !(a == 0
        || address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (b == 18 || b == 19))
        || a >= 224)
}

/// The IPv4 address that is really meant (mapped, compatible, NAT64, 6to4).
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let join = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match [a, b, c, d, e, f] {
        [0, 0, 0, 0, 0, 0 | 0xffff] | [0x64, 0xff9b, 0, 0, 0, 0] => Some(join(g, h)),
        [0x2002, ..] => Some(join(b, c)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(server: &str, issuer: Option<&str>) -> Places {
        let issuer = issuer.map(|issuer| Url::parse(issuer).unwrap());
        Places::new(&Url::parse(server).unwrap(), issuer.as_ref())
    }

    fn refused(places: &Places, url: &str) -> Option<String> {
        places.refuse(&Url::parse(url).unwrap()).err()
    }

    #[test]
    fn a_server_elsewhere_leads_nowhere_in_the_house() {
        let places = places("https://mcp.example/mcp", None);
        for url in [
            "http://login.example/token",
            "http://mcp.example/token",
            "https://169.254.169.254/latest/meta-data",
            "http://169.254.169.254/latest/meta-data",
            "https://127.0.0.1/token",
            "https://localhost/token",
            "https://LOCALHOST./token",
            "https://a.localhost/token",
            "https://10.1.2.3/token",
            "https://192.168.0.1/token",
            "https://100.64.0.1/token",
            "https://0.0.0.0/token",
            "https://0/token",
            "https://2130706433/token",
            "https://0x7f.1/token",
            "https://[::1]/token",
            "https://[::ffff:10.0.0.1]/token",
            "https://[64:ff9b::a9fe:a9fe]/token",
            "https://[2002:a00:1::]/token",
            "https://[fd00::1]/token",
            "https://[fe80::1]/token",
            "https://user:word@login.example/token",
            "file:///etc/passwd",
            "data:text/plain,x",
        ] {
            assert!(refused(&places, url).is_some(), "{url}");
        }
        for url in ["https://login.example/token", "https://9.9.9.9/token", "https://[2606::1]/t"] {
            assert_eq!(refused(&places, url), None);
        }
        for (address, expected) in [
            ("10.0.0.1", false),
            ("127.0.0.1", false),
            ("169.254.169.254", false),
            ("::1", false),
            ("fd12::1", false),
            ("2001:db8::1", false),
            ("9.9.9.9", true),
            ("2606:4700::1", true),
        ] {
            let found = places.allows("login.example", address.parse().unwrap());
            assert_eq!(found, expected, "{address}");
        }
        // Where the configured server is, requests go anyway.
        assert!(places.allows("MCP.example.", "10.0.0.1".parse().unwrap()));
    }

    #[test]
    fn what_a_person_chose_may_be_in_the_house() {
        let corp = places("https://mcp.corp/mcp", Some("https://10.0.0.9/realm"));
        assert_eq!(refused(&corp, "https://10.0.0.9/realm/token"), None);
        assert!(refused(&corp, "https://10.0.0.9:8443/token").is_some());
        assert!(refused(&corp, "https://10.0.0.8/token").is_some());
        let home = places("http://127.0.0.1:9/mcp", None);
        assert_eq!(refused(&home, "http://127.0.0.1:8/token"), None);
        assert_eq!(refused(&home, "http://localhost:8/token"), None);
        assert!(refused(&home, "http://10.0.0.9/token").is_some());
        assert!(refused(&home, "https://169.254.169.254/").is_some());
        assert!(home.allows("localhost", "127.0.0.1".parse().unwrap()));
        assert!(!home.allows("login.example", "127.0.0.1".parse().unwrap()));
    }

    #[tokio::test]
    async fn a_name_that_leads_into_the_house_is_not_followed() {
        let places = places("https://mcp.example/mcp", None);
        let name: Name = "localhost".parse().unwrap();
        let error = places.resolve(name).await.err().unwrap();
        assert!(error.to_string().contains("no address on the public internet"), "{error}");
    }
}
