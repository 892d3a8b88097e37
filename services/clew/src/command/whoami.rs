//! Command `clew whoami`.

use clew_proto::auth::v1 as wire;
use serde_json::{Value, json};

use crate::args::global::GlobalArgs;
use crate::connection::Connection;
use crate::output::{self, Output};

/// Shows who the server takes the caller for, and what the caller may do.
pub async fn run(global: &GlobalArgs, output: &Output) -> anyhow::Result<()> {
    let connection = Connection::open(global).await?;
    let told = connection.client.who_am_i().await;
    connection.close().await?;
    let told = told?;
    output.print(&as_json(&told), |_| in_words(&told))
}

fn scopes(told: &wire::WhoAmIResponse) -> Vec<String> {
    let name = |scope: wire::Scope| scope.as_str_name().trim_start_matches("SCOPE_").to_lowercase();
    told.scopes().map(name).collect()
}

fn metered(quota: &wire::Quota) -> String {
    quota.metered().as_str_name().trim_start_matches("METERED_").to_lowercase()
}

fn as_json(told: &wire::WhoAmIResponse) -> Value {
    let quota = |quota: &wire::Quota| {
        json!({
            "metered": metered(quota),
            "per_second": quota.per_second,
            "burst": quota.burst,
            "left": quota.left,
        })
    };
    json!({
        "has_key": told.has_key,
        "key": told.key,
        "tenant": told.tenant,
        "scopes": scopes(told),
        "labels": told.labels,
        "holds_all_labels": told.holds_all_labels,
        "expires_at": told.expires_at.as_ref().map(output::timestamp),
        "quotas": told.quotas.iter().map(quota).collect::<Vec<_>>(),
    })
}

fn in_words(told: &wire::WhoAmIResponse) -> String {
    if !told.has_key {
        return "no key is asked for: everybody who reaches this may do everything\n".to_owned();
    }
    let tenant = match told.tenant.as_str() {
        "" => "none: an operator's key",
        tenant => tenant,
    };
    let labels = match (told.holds_all_labels, told.labels.is_empty()) {
        (true, _) => "all".to_owned(),
        (false, true) => "none".to_owned(),
        (false, false) => told.labels.join(", "),
    };
    let expires = told.expires_at.as_ref().map_or_else(|| "never".to_owned(), output::timestamp);
    let mut text = format!(
        "key      {}\ntenant   {tenant}\nscopes   {}\nlabels   {labels}\nexpires  {expires}\n",
        told.key,
        scopes(told).join(", "),
    );
    for quota in &told.quotas {
        let wire::Quota { per_second, burst, left, .. } = quota;
        let metered = metered(quota);
        text.push_str(&format!(
            "quota    {metered}: {per_second} a second, {left:.0} of {burst:.0} left\n"
        ));
    }
    text
}
