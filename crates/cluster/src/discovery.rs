//! Discovery of nodes through a DNS name that resolves to all of them, such as a headless service
//! in Kubernetes.
//!
//! Only nodes that own nothing are found this way: their set may change at any time, and only their
//! callers have to know them. Retrievers have shards placed on them and must be listed by name.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::config::ServiceConfig;
use crate::member::{Address, Member, MemberState, Members, NodeId};

/// Resolves all `services` repeatedly, once per `every`, and publishes the nodes found together
/// with `known`.
pub(crate) async fn keep_looking(
    services: Vec<ServiceConfig>,
    known: Vec<Member>,
    every: Duration,
    members: watch::Sender<Arc<Members>>,
) {
    let mut found = Found::new(known);
    loop {
        for service in &services {
            let looking = tokio::net::lookup_host(service.address.authority());
            let answer = match tokio::time::timeout(every, looking).await {
                Ok(answer) => answer.map(Vec::from_iter),
                Err(elapsed) => Err(elapsed.into()),
            };
            found.note(service, answer);
        }
        let now = found.members();
        members.send_if_modified(|shown| {
            let is_news = shown.as_slice() != now.as_slice();
            if is_news {
                *shown = Arc::new(now);
            }
            is_news
        });
        tokio::time::sleep(every).await;
    }
}

/// The last answers of DNS.
struct Found {
    known: Vec<Member>,
    /// Nodes found, by the address of their service.
    found: BTreeMap<Address, Vec<Member>>,
    /// Services whose last lookup failed.
    unanswered: BTreeSet<Address>,
}

impl Found {
    fn new(known: Vec<Member>) -> Self {
        Self { known, found: BTreeMap::new(), unanswered: BTreeSet::new() }
    }

    /// Records an answer. After a failed lookup the last nodes stay: callers notice a node that is
    /// gone, but no caller would notice a node that was dropped by mistake.
    fn note(&mut self, service: &ServiceConfig, answer: io::Result<Vec<SocketAddr>>) {
        match answer {
            Ok(places) => {
                self.unanswered.remove(&service.address);
                let members = places.into_iter().filter_map(|place| member(service, place));
                self.found.insert(service.address.clone(), members.collect());
            }
            Err(error) => {
                if self.unanswered.insert(service.address.clone()) {
                    tracing::warn!(
                        service = service.address.as_str(),
                        %error,
                        "the name of a service cannot be looked up; its last members stay"
                    );
                }
            }
        }
    }

    /// Returns the known nodes, and the nodes found at other addresses.
    fn members(&self) -> Members {
        let is_known = |address: &Address| self.known.iter().any(|known| known.address == *address);
        let found = self.found.values().flatten().filter(|member| !is_known(&member.address));
        Members::fixed(found.chain(&self.known).cloned())
    }
}

/// Returns the node at one address of a service. Its name is made of both, because it has no other
/// here.
fn member(service: &ServiceConfig, place: SocketAddr) -> Option<Member> {
    let (host, port) = service.address.authority().rsplit_once(':')?;
    let name = format!("{host}-{}-{port}", place.ip()).replace([':', '[', ']'], "-");
    Some(Member {
        id: name.parse::<NodeId>().ok()?,
        address: service.address.at(place).ok()?,
        roles: service.roles.clone(),
        state: MemberState::Serving,
        incarnation: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::Role;

    fn encoders() -> ServiceConfig {
        ServiceConfig {
            address: "http://encoders:7000".parse().unwrap(),
            roles: [Role::Encoder].into(),
        }
    }

    fn at(places: &[&str]) -> io::Result<Vec<SocketAddr>> {
        Ok(places.iter().map(|place| place.parse().unwrap()).collect())
    }

    fn ids(found: &Found) -> Vec<String> {
        found.members().as_slice().iter().map(|member| member.id.to_string()).collect()
    }

    #[test]
    fn members_come_and_go_with_the_answers_and_stay_without_one() {
        let address = "http://10.0.0.1:7000".parse().unwrap();
        let me = Member::starting("me".parse().unwrap(), address, [Role::Gateway]);
        let mut found = Found::new(vec![me]);
        assert_eq!(ids(&found), ["me"]);
        found.note(&encoders(), at(&["10.0.0.2:7000", "10.0.0.3:7000", "[fd00::4]:7000"]));
        assert_eq!(
            ids(&found),
            ["encoders-10.0.0.2-7000", "encoders-10.0.0.3-7000", "encoders-fd00--4-7000", "me"]
        );
        found.note(&encoders(), Err(io::Error::other("no answer")));
        assert_eq!(found.members().with_role(Role::Encoder).count(), 3);
        // A known node is not found a second time.
        found.note(&encoders(), at(&["10.0.0.3:7000", "10.0.0.1:7000"]));
        assert_eq!(ids(&found), ["encoders-10.0.0.3-7000", "me"]);
        found.note(&encoders(), at(&[]));
        assert_eq!(ids(&found), ["me"]);
    }

    #[tokio::test]
    async fn a_real_name_is_looked_up() {
        let services = vec![ServiceConfig {
            address: "http://localhost:7000".parse().unwrap(),
            roles: [Role::Encoder].into(),
        }];
        let members = watch::Sender::new(Arc::new(Members::fixed([])));
        let mut seen = members.subscribe();
        let looking = keep_looking(services, Vec::new(), Duration::from_secs(60), members);
        let looking = tokio::spawn(looking);
        let seen = tokio::time::timeout(Duration::from_secs(30), seen.changed());
        seen.await.expect("the look-up ends").unwrap();
        looking.abort();
    }
}
