//! `AccessService`: tells callers what they may do.

use clew_auth::{Caller, Metered, QuotaLeft, Scope};
use clew_core::Error;
use clew_proto::auth::v1 as wire;
use clew_proto::auth::v1::access_service_server::AccessService;
use clew_proto::convert::timestamp_to_wire;
use clew_proto::respond;
use tonic::{Request, Response, Status};

/// Handler of `AccessService`.
pub(crate) struct AccessRpc;

async fn who_am_i(request: &Request<wire::WhoAmIRequest>) -> Result<wire::WhoAmIResponse, Error> {
    let caller = Caller::of(request)?;
    let access = caller.access();
    let granted = caller.granted();
    let expires_at = granted.expires;
    Ok(wire::WhoAmIResponse {
        has_key: granted.by_key,
        key: if granted.by_key { caller.key().to_owned() } else { String::new() },
        tenant: caller.tenant().map(ToString::to_string).unwrap_or_default(),
        scopes: granted.scopes.iter().map(|scope| scope_to_wire(*scope).into()).collect(),
        labels: access.labels().map(ToString::to_string).collect(),
        holds_all_labels: access.is_all(),
        expires_at: expires_at.map(timestamp_to_wire),
        quotas: caller.quotas_left().await.into_iter().map(quota_to_wire).collect(),
    })
}

fn scope_to_wire(scope: Scope) -> wire::Scope {
    match scope {
        Scope::Read => wire::Scope::Read,
        Scope::Write => wire::Scope::Write,
        Scope::Admin => wire::Scope::Admin,
    }
}

fn quota_to_wire(quota: QuotaLeft) -> wire::Quota {
    let metered = match quota.metered {
        Metered::Requests => wire::Metered::Requests,
        Metered::Bytes => wire::Metered::Bytes,
        Metered::Tokens => wire::Metered::Tokens,
    };
    let QuotaLeft { per_second, burst, left, .. } = quota;
    wire::Quota { metered: metered.into(), per_second, burst, left }
}

#[tonic::async_trait]
impl AccessService for AccessRpc {
    async fn who_am_i(
        &self,
        request: Request<wire::WhoAmIRequest>,
    ) -> Result<Response<wire::WhoAmIResponse>, Status> {
        respond(who_am_i(&request).await)
    }
}
