//! Keeps frames from channels that have ended.
//!
//! lapin answers the server's `channel.close` before publishes that it has taken already, and then
//! sends these as well. To the server they are frames of a channel that nobody opened, and it closes
//! the whole connection over them (504). They are lost with their channel in any case, so they are
//! left out here. No number is given to two channels ([session](super::session)).
//!
//! Pure: a stream of bytes that comes in pieces. Frames as in section 4.2.3 of the AMQP 0-9-1
//! specification: type, channel, size of the payload, payload, end.

use std::collections::HashSet;
use std::io::IoSlice;

/// Type, channel and size before a payload, and the mark behind it.
const FRAME: usize = 7 + 1;

/// The bytes that tell what a frame is: those before its payload, and a method's class and number.
const HEAD: usize = 7 + 4;

/// The type of a frame that holds a method.
const METHOD: u8 = 1;

/// `channel.close-ok`.
const CLOSE_OK: [u8; 4] = [0, 20, 0, 41];

/// What a client says before its first frame.
const PROTOCOL: &[u8] = b"AMQP";

/// Length of the protocol header that begins with [`PROTOCOL`].
const PROTOCOL_HEADER: usize = 8;

/// What to do with the first bytes that are still to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Send so many, or fewer.
    Send(usize),
    /// Leave so many out.
    Drop(usize),
}

/// The frames on their way out.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// Channels whose end has been answered.
    ended: HashSet<u16, foldhash::fast::RandomState>,
    /// Bytes from the first one on that may be sent, and those after them that may not.
    sends: usize,
    drops: usize,
}

impl Frames {
    /// What to do with the first of these bytes, which hold all that was not
    /// [done](Frames::done) so far; the last frame may be there in part, its head may not.
    pub(super) fn step(&mut self, bytes: &[IoSlice<'_>]) -> Step {
        let length = bytes.iter().map(|piece| piece.len()).sum();
        while self.drops == 0 && self.sends < length {
            let Some((size, passes)) = self.frame(bytes, self.sends) else {
                // Never by lapin, which writes whole frames: not understood, so not touched.
                self.sends = length;
                break;
            };
            match passes {
                true => self.sends += size,
                false => self.drops = size,
            }
        }
        match self.sends {
            0 => Step::Drop(self.drops.min(length)),
            sends => Step::Send(sends.min(length)),
        }
    }

    /// So many bytes of a step were sent or left out.
    pub(super) fn done(&mut self, step: Step, count: usize) {
        match step {
            Step::Send(_) => self.sends -= count,
            Step::Drop(_) => self.drops -= count,
        }
    }

    /// The size of the frame that begins there, and whether it may be sent.
    fn frame(&mut self, bytes: &[IoSlice<'_>], at: usize) -> Option<(usize, bool)> {
        let head = head(bytes, at)?;
        if head.starts_with(PROTOCOL) {
            return Some((PROTOCOL_HEADER, true));
        }
        let [kind, c0, c1, s0, s1, s2, s3, method @ ..] = head;
        let channel = u16::from_be_bytes([c0, c1]);
        let size = u32::from_be_bytes([s0, s1, s2, s3]);
        let passes = self.ended.is_empty() || !self.ended.contains(&channel);
        if kind == METHOD && method == CLOSE_OK {
            self.ended.insert(channel);
        }
        Some((FRAME + usize::try_from(size).ok()?, passes))
    }
}

/// The first bytes of a frame; zeros behind the end of one that is shorter, as a heartbeat is.
fn head(bytes: &[IoSlice<'_>], mut at: usize) -> Option<[u8; HEAD]> {
    let (mut head, mut filled) = ([0; HEAD], 0);
    for piece in bytes {
        let (skipped, piece) = piece.split_at(at.min(piece.len()));
        at -= skipped.len();
        for (place, byte) in head.iter_mut().skip(filled).zip(piece) {
            *place = *byte;
            filled += 1;
        }
    }
    (filled >= FRAME).then_some(head)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(kind: u8, channel: u16, payload: &[u8]) -> Vec<u8> {
        let size = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&[kind][..], &channel.to_be_bytes(), &size, payload, &[0xCE]].concat()
    }

    /// Sends all, at most so many bytes at a time, with the break between two pieces moving on.
    fn send(stream: &[u8], most: usize) -> Vec<u8> {
        let (mut frames, mut sent, mut at) = (Frames::default(), Vec::new(), 0);
        while at < stream.len() {
            let rest = &stream[at..];
            let (first, second) = rest.split_at((at * 7 + 3) % rest.len());
            let step = frames.step(&[IoSlice::new(first), IoSlice::new(second)]);
            let count = match step {
                Step::Send(count) => {
                    let count = count.min(most);
                    sent.extend_from_slice(&rest[..count]);
                    count
                }
                Step::Drop(count) => count,
            };
            assert!(count > 0, "{step:?} at {at}");
            frames.done(step, count);
            at += count;
        }
        sent
    }

    #[test]
    fn what_follows_the_end_of_a_channel_is_left_out() {
        let (publish, close_ok) = ([0, 60, 0, 40, 1, 2, 3], CLOSE_OK);
        let kept = [
            b"AMQP\x00\x00\x09\x01".to_vec(),
            frame(METHOD, 1, &publish),
            frame(2, 1, &[0; 20]),
            frame(3, 1, &CLOSE_OK),
            frame(METHOD, 1, &close_ok),
            frame(8, 0, &[]),
            frame(METHOD, 2, &publish),
            frame(3, 2, &[7; 300]),
        ];
        let lost = [frame(METHOD, 1, &publish), frame(2, 1, &[0; 20]), frame(3, 1, &[1; 99])];
        let mut stream = kept[..5].concat();
        stream.extend(lost[0].iter());
        stream.extend(kept[5].iter());
        stream.extend(lost[1..].concat());
        stream.extend(kept[6..].concat());
        stream.extend(lost.concat());
        for most in [1, 5, 8, 100, usize::MAX] {
            assert_eq!(send(&stream, most), kept.concat(), "{most} bytes at a time");
        }
    }

    #[test]
    fn what_is_no_frame_passes() {
        assert_eq!(send(&[1, 2, 3], usize::MAX), [1, 2, 3]);
    }

    proptest! {
        #[test]
        fn frames_of_open_channels_pass_as_they_are(
            frames in prop::collection::vec((1_u8..9, 0_u16..4, prop::collection::vec(0_u8..9, 0..40)), 1..40),
            most in 1_usize..200,
        ) {
            let frames = frames.iter().map(|(kind, channel, payload)| frame(*kind, *channel, payload));
            let stream = frames.collect::<Vec<_>>().concat();
            prop_assert_eq!(send(&stream, most), stream);
        }
    }
}
