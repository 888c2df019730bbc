//! From bytes to one [`Message`].

use bytes::{Buf, Bytes};

use super::reader::Reader;
use super::{DecodeError, Message, RawTuple, Relation, RelationColumn};

impl Message {
    /// Reads `bytes`, the payload of one XLogData, as exactly one message.
    ///
    /// The row of an Insert and the content of a logical message stay slices of `bytes`.
    ///
    /// # Errors
    ///
    /// A [`DecodeError`] where a message ends too early or too late, has a kind that protocol 1
    /// does not have, or a name that is not UTF-8. Row images are the caller's to check.
    pub fn decode(mut bytes: Bytes) -> Result<Self, DecodeError> {
        let kind = bytes.try_get_u8().map_err(|_| DecodeError::Empty)?;
        match kind {
            b'I' => insert(Reader::new("Insert", bytes)),
            b'B' => begin(Reader::new("Begin", bytes)),
            b'C' => commit(Reader::new("Commit", bytes)),
            b'R' => relation(Reader::new("Relation", bytes)),
            b'O' => origin(Reader::new("Origin", bytes)),
            b'Y' => type_(Reader::new("Type", bytes)),
            b'U' => update(Reader::new("Update", bytes)),
            b'D' => delete(Reader::new("Delete", bytes)),
            b'T' => truncate(Reader::new("Truncate", bytes)),
            b'M' => logical_message(Reader::new("Message", bytes)),
            kind => Err(DecodeError::Kind(kind)),
        }
    }
}

fn begin(mut body: Reader) -> Result<Message, DecodeError> {
    let message = Message::Begin {
        final_lsn: body.lsn("final LSN")?,
        commit_time_micros: body.time("commit time")?,
        xid: body.u32("xid")?,
    };
    body.end()?;
    Ok(message)
}

fn commit(mut body: Reader) -> Result<Message, DecodeError> {
    let message = Message::Commit {
        flags: body.u8("flags")?,
        commit_lsn: body.lsn("commit LSN")?,
        end_lsn: body.lsn("end LSN")?,
        commit_time_micros: body.time("commit time")?,
    };
    body.end()?;
    Ok(message)
}

fn origin(mut body: Reader) -> Result<Message, DecodeError> {
    let message = Message::Origin { commit_lsn: body.lsn("commit LSN")?, name: body.text("name")? };
    body.end()?;
    Ok(message)
}

fn relation(mut body: Reader) -> Result<Message, DecodeError> {
    let id = body.u32("relation id")?;
    let schema = body.text("schema")?;
    let name = body.text("name")?;
    let replica_identity = body.u8("replica identity")?;
    let count = usize::from(body.u16("column count")?);
    // Flags, an empty name, type and modifier: the least that a column takes.
    body.need(count.saturating_mul(10), "columns")?;
    let columns = (0..count).map(|_| column(&mut body)).collect::<Result<_, _>>()?;
    body.end()?;
    Ok(Message::Relation(Relation { id, schema, name, replica_identity, columns }))
}

fn column(body: &mut Reader) -> Result<RelationColumn, DecodeError> {
    Ok(RelationColumn {
        key: body.u8("column flags")? & 1 != 0,
        name: body.text("column name")?,
        type_oid: body.u32("column type")?,
        type_modifier: body.i32("column type modifier")?,
    })
}

fn type_(mut body: Reader) -> Result<Message, DecodeError> {
    let message = Message::Type {
        id: body.u32("type id")?,
        schema: body.text("schema")?,
        name: body.text("name")?,
    };
    body.end()?;
    Ok(message)
}

fn insert(mut body: Reader) -> Result<Message, DecodeError> {
    let relation_id = body.u32("relation id")?;
    body.one_of(b"N", "row kind")?;
    let columns = body.u16("column count")?;
    // Every value has a kind byte.
    body.need(usize::from(columns), "row")?;
    Ok(Message::Insert { relation_id, tuple: RawTuple { columns, bytes: body.rest() } })
}

/// `K` (the old key) or `O` (the old row) may come before `N` (the new row).
fn update(mut body: Reader) -> Result<Message, DecodeError> {
    let relation_id = body.u32("relation id")?;
    body.one_of(b"KON", "row kind")?;
    body.u16("column count")?;
    Ok(Message::Update { relation_id })
}

fn delete(mut body: Reader) -> Result<Message, DecodeError> {
    let relation_id = body.u32("relation id")?;
    body.one_of(b"KO", "row kind")?;
    body.u16("column count")?;
    Ok(Message::Delete { relation_id })
}

fn truncate(mut body: Reader) -> Result<Message, DecodeError> {
    let count = body.count("relation count")?;
    let options = body.u8("options")?;
    body.need(count.saturating_mul(4), "relation ids")?;
    let relation_ids = (0..count).map(|_| body.u32("relation ids")).collect::<Result<_, _>>()?;
    body.end()?;
    Ok(Message::Truncate { relation_ids, options })
}

fn logical_message(mut body: Reader) -> Result<Message, DecodeError> {
    let transactional = body.u8("flags")? & 1 != 0;
    let lsn = body.lsn("LSN")?;
    let prefix = body.text("prefix")?;
    let length = body.count("content length")?;
    let content = body.take(length, "content")?;
    body.end()?;
    Ok(Message::LogicalMessage { transactional, lsn, prefix, content })
}

#[cfg(test)]
mod tests;
