//! Server-sent events, as they come over the wire: bytes in, blocks out.

/// One block. What has no data is no event, and may still move the last id.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct SseBlock {
    pub(super) id: Option<String>,
    pub(super) event: String,
    pub(super) data: String,
}

/// Puts blocks together from pieces that end anywhere.
#[derive(Debug, Default)]
pub(super) struct SseBlocks {
    rest: Vec<u8>,
    block: SseBlock,
}

impl SseBlocks {
    /// The blocks that are complete with these bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<SseBlock> {
        self.rest.extend_from_slice(bytes);
        let mut complete = Vec::new();
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\n', '\r']);
            if line.is_empty() {
                complete.push(std::mem::take(&mut self.block));
            } else {
                self.field(line);
            }
        }
        complete
    }

    fn field(&mut self, line: &str) {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "id" => self.block.id = Some(value.to_owned()),
            "event" => value.clone_into(&mut self.block.event),
            "data" if self.block.data.is_empty() => value.clone_into(&mut self.block.data),
            "data" => {
                self.block.data.push('\n');
                self.block.data.push_str(value);
            }
            // Comments, `retry`, and what later versions may add.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_put_together_from_any_pieces() {
        let text = "retry: 2000\nid: e-0\n\nid: e-1\nevent: dead\ndata: {\"a\":\ndata: \"é\"}\n\n\
                    : keep-alive\nid: e-1\n\n";
        let block = |id: &str, event: &str, data: &str| SseBlock {
            id: Some(id.to_owned()),
            event: event.to_owned(),
            data: data.to_owned(),
        };
        let expected = [block("e-0", "", ""), block("e-1", "dead", "{\"a\":\n\"é\"}"), block("e-1", "", "")];
        for size in 1..text.len() {
            let mut blocks = SseBlocks::default();
            let found: Vec<SseBlock> =
                text.as_bytes().chunks(size).flat_map(|piece| blocks.push(piece)).collect();
            assert_eq!(found, expected, "pieces of {size}");
        }
    }
}
