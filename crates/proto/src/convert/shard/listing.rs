//! Lists of the chunks of a document, and of users and sessions.

use clew_core::{ChunkListQuery, ConversationQuery, Error, ListedChunks, StoredTurns, Version};

use super::{ShardRefWithAccess, required_time, shard_from_wire};
use crate::convert::ingest::{listed_chunk_from_wire, listed_chunk_to_wire};
use crate::convert::{document_id, timestamp_to_wire};
use crate::shard::v1 as wire;

/// Converts a request for a page of chunks for the wire.
pub fn chunk_list_to_wire(
    shard: &ShardRefWithAccess,
    asked: &ChunkListQuery,
) -> wire::ListChunksRequest {
    wire::ListChunksRequest {
        shard: Some(shard.into()),
        document_id: asked.document_id.to_string(),
        from: asked.from,
        limit: u32::try_from(asked.limit).unwrap_or(u32::MAX),
        with_texts: asked.with_texts,
    }
}

/// Converts a request for a page of chunks from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming the field if one is invalid.
pub fn chunk_list_from_wire(
    request: wire::ListChunksRequest,
) -> Result<(ShardRefWithAccess, ChunkListQuery), Error> {
    let wire::ListChunksRequest { shard, document_id: id, from, limit, with_texts } = request;
    let document_id = document_id("document_id", &id)?;
    let asked = ChunkListQuery { document_id, from, limit: limit as usize, with_texts };
    Ok((shard_from_wire(shard)?, asked))
}

/// Converts a page of chunks for the wire.
pub fn listed_chunks_to_wire(listed: Option<ListedChunks>) -> wire::ListChunksResponse {
    let found = listed.is_some();
    let ListedChunks { version, chunk_count, chunks } = listed.unwrap_or_default();
    let version = version.map_or(0, |version| version.0);
    let chunks = chunks.into_iter().map(|chunk| listed_chunk_to_wire(chunk, String::new()));
    wire::ListChunksResponse { found, version, chunk_count, chunks: chunks.collect() }
}

/// Converts a page of chunks from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::Internal`] if the message is malformed.
pub fn listed_chunks_from_wire(
    listed: wire::ListChunksResponse,
) -> Result<Option<ListedChunks>, Error> {
    let wire::ListChunksResponse { found, version, chunk_count, chunks } = listed;
    if !found {
        return Ok(None);
    }
    let version = Some(Version(version)).filter(|version| version.0 != 0);
    let chunks = chunks.into_iter().map(listed_chunk_from_wire).collect::<Result<_, Error>>()?;
    Ok(Some(ListedChunks { version, chunk_count, chunks }))
}

/// Converts a request for a page of users or sessions for the wire.
pub fn conversations_to_wire(
    shard: &ShardRefWithAccess,
    asked: &ConversationQuery,
) -> wire::ListConversationsRequest {
    wire::ListConversationsRequest {
        shard: Some(shard.into()),
        user: asked.user.clone(),
        prefix: asked.prefix.clone(),
        after: asked.after.clone(),
        limit: u32::try_from(asked.limit).unwrap_or(u32::MAX),
    }
}

/// Converts a request for a page of users or sessions from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] naming the field if one is invalid.
pub fn conversations_from_wire(
    request: wire::ListConversationsRequest,
) -> Result<(ShardRefWithAccess, ConversationQuery), Error> {
    let wire::ListConversationsRequest { shard, user, prefix, after, limit } = request;
    let asked = ConversationQuery { user, prefix, after, limit: limit as usize };
    Ok((shard_from_wire(shard)?, asked))
}

/// Converts the turns of users or sessions for the wire.
pub fn stored_turns_to_wire(found: Vec<StoredTurns>) -> wire::ListConversationsResponse {
    let turns = |of: StoredTurns| wire::StoredTurns {
        name: of.name,
        turns: of.turns,
        first_accepted_at: Some(timestamp_to_wire(of.first_accepted_at)),
        last_accepted_at: Some(timestamp_to_wire(of.last_accepted_at)),
    };
    wire::ListConversationsResponse { conversations: found.into_iter().map(turns).collect() }
}

/// Converts the turns of users or sessions from the wire.
///
/// # Errors
/// Returns [`clew_core::ErrorKind::InvalidInput`] if a time is missing or out of range.
pub fn stored_turns_from_wire(
    found: wire::ListConversationsResponse,
) -> Result<Vec<StoredTurns>, Error> {
    let turns = |of: wire::StoredTurns| {
        Ok(StoredTurns {
            name: of.name,
            turns: of.turns,
            first_accepted_at: required_time("first_accepted_at", of.first_accepted_at)?,
            last_accepted_at: required_time("last_accepted_at", of.last_accepted_at)?,
        })
    };
    found.conversations.into_iter().map(turns).collect()
}

#[cfg(test)]
mod tests {
    use clew_core::{ChunkKind, ListedChunk, Span, Timestamp};

    use super::super::tests::shard;
    use super::*;
    use crate::ingest::v1 as ingest;

    #[test]
    fn lists_of_chunks_round_trip() {
        let asked = ChunkListQuery {
            document_id: "a/b".parse().unwrap(),
            from: 7,
            limit: 100,
            with_texts: true,
        };
        let sent = chunk_list_to_wire(&shard(), &asked);
        assert_eq!(chunk_list_from_wire(sent).unwrap(), (shard(), asked));
        let chunk = |ordinal, kind| ListedChunk {
            ordinal,
            kind,
            span: Span::new(3, 9),
            tokens: 4,
            text: "clew".to_owned(),
            key_text: "thread: clew".to_owned(),
        };
        let kinds = [ChunkKind::Passage, ChunkKind::Statement, ChunkKind::Key];
        let chunks = (7..).zip(kinds).map(|(ordinal, kind)| chunk(ordinal, kind)).collect();
        let whole = ListedChunks { version: Some(Version(3)), chunk_count: 10, chunks };
        for listed in [None, Some(ListedChunks::default()), Some(whole)] {
            let sent = listed_chunks_to_wire(listed.clone());
            assert_eq!(listed_chunks_from_wire(sent).unwrap(), listed);
        }
        let backwards = ingest::DocumentChunk { kind: 1, start: 2, end: 1, ..Default::default() };
        let sent =
            wire::ListChunksResponse { found: true, chunks: vec![backwards], ..Default::default() };
        assert!(listed_chunks_from_wire(sent).is_err());
    }

    #[test]
    fn lists_of_users_and_sessions_round_trip() {
        for user in [None, Some("ann".to_owned())] {
            let (prefix, after) = ("a".to_owned(), "ab".to_owned());
            let asked = ConversationQuery { user, prefix, after, limit: 8 };
            let sent = conversations_to_wire(&shard(), &asked);
            assert_eq!(conversations_from_wire(sent).unwrap(), (shard(), asked));
        }
        let found = vec![StoredTurns {
            name: "ann".to_owned(),
            turns: 3,
            first_accepted_at: Timestamp::from_micros(5),
            last_accepted_at: Timestamp::from_micros(9),
        }];
        let sent = stored_turns_to_wire(found.clone());
        assert_eq!(stored_turns_from_wire(sent.clone()).unwrap(), found);
        let mut timeless = sent;
        timeless.conversations[0].last_accepted_at = None;
        assert!(stored_turns_from_wire(timeless).is_err());
    }
}
